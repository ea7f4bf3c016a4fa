use super::ack::{Ack, AckNews};
use super::alarms::{Alarm, AlarmAction};
use super::*;

const MSS: u64 = 1000;

/// A sender with endless data, written to offset 1, whose packets go where the test says.
struct Sender {
    recovery: Recovery,
    now: Instant,
    ts_echo: Option<u32>,
}

impl Sender {
    fn new(change: impl FnOnce(&mut RecoveryConfig)) -> Sender {
        let mut config = RecoveryConfig { algorithm: Algorithm::NewReno, ..RecoveryConfig::default() };
        change(&mut config);
        let now = Instant::from_ms(1000);
        let mut recovery = Recovery::new(config, 1, MSS as u32, now);
        // The handshake's sample.
        recovery.rtt.on_sample(100_000, 1, 1);
        recovery.rtt.on_min_rtt(now, 100_000, false);
        Sender { recovery, now, ts_echo: None }
    }

    /// With `segments` sent and a window that just holds them.
    fn with_flight(segments: u32, change: impl FnOnce(&mut RecoveryConfig)) -> Sender {
        let mut sender = Sender::new(change);
        sender.recovery.congestion.window.set_cwnd(segments);
        assert_eq!(sender.send().len(), segments as usize);
        sender
    }

    /// Sends all that may be sent; answers the offsets in segments, counted from 0.
    fn send(&mut self) -> Vec<u64> {
        let mut sent = Vec::new();
        self.recovery.before_sending(self.now);
        loop {
            while let Some(Resend { number, span }) = self.recovery.next_retransmission() {
                self.recovery.on_retransmit(self.now, number, self.now.ms() as u32);
                sent.push(span.start / MSS);
            }
            let before = sent.len();
            while self.recovery.room() > 0 {
                sent.push(self.recovery.board.nxt() / MSS);
                self.recovery.on_transmit(self.now, MSS as u16).unwrap();
            }
            if !self.recovery.after_sending(self.now, true, false, sent.len() > before) {
                return sent;
            }
        }
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now = self.now + ms * 1000;
    }

    /// Everything below segment `una` arrived, and the segments of `sacks`.
    fn ack(&mut self, una: u64, sacks: &[(u64, u64)]) -> AckNews {
        self.ack_with(una, sacks, |_| {})
    }

    fn ack_with(&mut self, una: u64, sacks: &[(u64, u64)], change: impl FnOnce(&mut Ack)) -> AckNews {
        let sacks: Vec<Span> = sacks.iter().map(|(start, end)| Span::new(start * MSS + 1, end * MSS + 1)).collect();
        let mut ack = Ack {
            now: self.now,
            ack: una * MSS + 1,
            sacks: &sacks,
            ts_echo: self.ts_echo,
            ts_rtt_us: None,
            ece: false,
            plain: true,
            can_send_new: true,
        };
        change(&mut ack);
        self.recovery.on_ack(&ack)
    }

    fn wait_for_alarm(&mut self) -> (Alarm, AlarmAction, u64) {
        let (alarm, at) = self.recovery.alarm().unwrap();
        let waited_ms = at.since_us(self.now) / 1000;
        self.now = self.now.max(at);
        (alarm, self.recovery.on_alarm(self.now), waited_ms)
    }

    fn cwnd(&self) -> u32 {
        self.recovery.congestion.window.cwnd()
    }
}

#[test]
fn three_sacks_begin_recovery_and_prr_halves_the_flight() {
    let mut sender = Sender::with_flight(10, |_| {});
    sender.wait_ms(100);
    sender.ack(0, &[(1, 2)]);
    assert_eq!(sender.recovery.state(), State::Disorder);
    assert_eq!(sender.send(), [10], "limited transmit (RFC 3042)");
    sender.ack(0, &[(1, 3)]);
    assert_eq!(sender.send(), [11]);
    sender.wait_ms(1);
    sender.ack(0, &[(1, 4)]);
    assert_eq!(sender.recovery.state(), State::Recovery);
    assert_eq!(sender.send(), [0]);
    // PRR: down from 12 in flight to 5, about one sent for two delivered.
    let mut sent = Vec::new();
    for end in 5..=10 {
        sender.ack(0, &[(1, end)]);
        sent.push(sender.send().len());
    }
    sender.wait_ms(100);
    for end in 11..=12 {
        sender.ack(0, &[(1, end)]);
        sent.push(sender.send().len());
    }
    assert!(sent.iter().all(|segments| *segments <= 2), "{sent:?}");
    assert_eq!(sender.recovery.board.pipe(), 5);
    sender.ack(12, &[]);
    assert_eq!((sender.recovery.state(), sender.cwnd()), (State::Open, 5));
    assert_eq!(sender.recovery.totals().retransmitted, 1);
}

#[test]
fn without_sack_three_duplicates_and_then_partial_acks() {
    let mut sender = Sender::with_flight(10, |config| config.sack = false);
    sender.wait_ms(100);
    for _ in 0..2 {
        sender.ack(0, &[]);
        assert_eq!(sender.send().len(), 1, "limited transmit");
    }
    sender.ack(0, &[]);
    assert_eq!(sender.send(), [0]);
    sender.wait_ms(100);
    // Segment 5 was lost too.
    sender.ack(5, &[]);
    assert_eq!(sender.send()[0], 5);
    sender.wait_ms(100);
    let end = sender.recovery.high / MSS;
    sender.ack(end, &[]);
    assert_eq!(sender.recovery.state(), State::Recovery, "RFC 6582: until something above is acknowledged");
    sender.send();
    sender.wait_ms(100);
    sender.ack(end + 1, &[]);
    assert_eq!(sender.recovery.state(), State::Open);
}

#[test]
fn a_lost_retransmission_is_found_by_a_later_one() {
    let mut sender = Sender::with_flight(10, |_| {});
    sender.wait_ms(100);
    sender.ack(0, &[(2, 10)]);
    let sent = sender.send();
    assert_eq!(sent[..2], [0, 1]);
    sender.wait_ms(100);
    // Segment 1's retransmission arrived, 0's did not.
    let news = sender.ack(0, &[(1, 10)]);
    assert!(!news.retransmission_lost || sender.recovery.board.waiting_out() == 1);
    if !news.retransmission_lost {
        let (alarm, ..) = sender.wait_for_alarm();
        assert_eq!(alarm, Alarm::Reordering);
    }
    assert_eq!(sender.send()[0], 0);
}

#[test]
fn reordering_within_a_quarter_rtt_is_no_loss_once_seen() {
    let mut sender = Sender::with_flight(10, |_| {});
    sender.wait_ms(100);
    sender.ack(0, &[(1, 3)]);
    sender.wait_ms(2);
    let news = sender.ack(3, &[]);
    assert_eq!(news.lost, 0);
    assert_eq!(sender.recovery.reordering().seen, 1);
    sender.send();
    // Now even four SACKs at once do not begin recovery before the reordering timer.
    sender.wait_ms(98);
    sender.ack(3, &[(4, 8)]);
    assert_eq!(sender.recovery.state(), State::Disorder);
    let (alarm, action, waited_ms) = sender.wait_for_alarm();
    assert_eq!((alarm, action), (Alarm::Reordering, AlarmAction::Send));
    assert!(waited_ms <= 27, "{waited_ms}");
    assert_eq!((sender.recovery.state(), sender.send()[0]), (State::Recovery, 3));
}

#[test]
fn a_lost_tail_is_probed_and_costs_a_reduction() {
    let mut sender = Sender::with_flight(4, |_| {});
    let (alarm, action, waited_ms) = sender.wait_for_alarm();
    assert_eq!((alarm, action, waited_ms), (Alarm::Probe, AlarmAction::Probe, 202));
    let last = sender.recovery.probe_segment().unwrap();
    assert_eq!(last.span.start, 3 * MSS + 1);
    sender.recovery.on_retransmit(sender.now, last.number, 0);
    sender.recovery.on_probe(sender.now, Some(true));
    assert_eq!(sender.recovery.alarm().unwrap().0, Alarm::Timeout);
    sender.wait_ms(100);
    // All four arrived: the last by the probe, or twice.
    sender.ack(4, &[]);
    assert_eq!(sender.cwnd(), 8, "whether there was a loss, the next ACK tells");
    sender.send();
    sender.wait_ms(100);
    sender.ack(5, &[]);
    assert_eq!(sender.cwnd(), 4, "no duplicate came: there was one");
    assert_eq!(sender.recovery.state(), State::Open);
}

#[test]
fn a_timeout_sends_the_first_segment_and_slow_starts() {
    let mut sender = Sender::with_flight(10, |config| {
        config.tail_loss_probes = false;
        config.frto = false;
    });
    let (alarm, action, waited_ms) = sender.wait_for_alarm();
    assert_eq!((alarm, action, waited_ms), (Alarm::Timeout, AlarmAction::TimedOut, 300));
    assert_eq!((sender.recovery.state(), sender.cwnd(), sender.recovery.timeouts()), (State::Loss, 1, 1));
    assert_eq!(sender.send(), [0]);
    let (_, _, waited_ms) = sender.wait_for_alarm();
    assert_eq!((waited_ms, sender.cwnd()), (600, 1));
    assert_eq!(sender.send(), [0]);
    sender.wait_ms(100);
    sender.ack(1, &[]);
    assert_eq!(sender.send(), [1, 2]);
    sender.wait_ms(100);
    sender.ack(3, &[]);
    assert_eq!(sender.send(), [3, 4, 5, 6]);
    sender.wait_ms(100);
    sender.ack(7, &[]);
    sender.send();
    sender.wait_ms(100);
    sender.ack(10, &[]);
    assert_eq!(sender.recovery.state(), State::Open);
    assert_eq!(sender.recovery.congestion.window.ssthresh(), 5);
}

#[test]
fn a_spurious_timeout_is_found_by_sending_new_data() {
    let mut sender = Sender::with_flight(10, |config| config.tail_loss_probes = false);
    sender.wait_for_alarm();
    assert_eq!(sender.send(), [0]);
    // The originals were only late. RFC 5682: the first ACK lets new data out, the second is proof.
    sender.wait_ms(10);
    sender.ack(1, &[]);
    let new = sender.send();
    assert!(!new.is_empty() && new.iter().all(|segment| *segment >= 10), "{new:?}");
    assert_eq!(sender.recovery.state(), State::Loss);
    sender.ack(2, &[]);
    assert_eq!((sender.recovery.state(), sender.recovery.totals().undone), (State::Open, 1));
    assert!(sender.cwnd() >= 10);
    assert_eq!(sender.recovery.board.lost_out(), 0);
}

#[test]
fn a_real_timeout_with_new_data_goes_on_recovering() {
    let mut sender = Sender::with_flight(10, |config| config.tail_loss_probes = false);
    sender.wait_for_alarm();
    sender.send();
    sender.wait_ms(100);
    sender.ack(1, &[]);
    assert_eq!(sender.send(), [10, 11]);
    sender.wait_ms(100);
    sender.ack(1, &[(10, 11)]);
    assert_eq!(sender.recovery.state(), State::Loss);
    assert_eq!(sender.send()[0], 1);
    assert_eq!(sender.recovery.totals().undone, 0);
}

#[test]
fn an_old_timestamp_undoes_fast_recovery() {
    let mut sender = Sender::with_flight(10, |_| {});
    let sent_at = sender.now.ms() as u32;
    sender.wait_ms(100);
    sender.ack(0, &[(1, 5)]);
    assert_eq!(sender.send()[0], 0);
    let reduced = sender.cwnd();
    sender.wait_ms(5);
    sender.ts_echo = Some(sent_at);
    sender.ack(12, &[]);
    assert!(sender.cwnd() >= 10 && reduced < 10);
    assert_eq!((sender.recovery.state(), sender.recovery.totals().undone), (State::Open, 1));
}

#[test]
fn dsacks_for_all_retransmissions_undo_too() {
    let mut sender = Sender::with_flight(10, |_| {});
    sender.wait_ms(100);
    sender.ack(0, &[(1, 5)]);
    assert_eq!(sender.send()[0], 0);
    sender.wait_ms(5);
    sender.ack(6, &[]);
    assert_eq!(sender.recovery.state(), State::Recovery);
    sender.wait_ms(95);
    let news = sender.ack(6, &[(0, 1)]);
    assert!(news.dsack);
    assert_eq!((sender.recovery.state(), sender.recovery.totals().undone), (State::Open, 1));
    assert_eq!(sender.recovery.totals().duplicates, 1);
}

#[test]
fn duplicates_that_nobody_caused_are_ignored() {
    let mut sender = Sender::with_flight(10, |_| {});
    sender.wait_ms(100);
    sender.ack(2, &[]);
    let news = sender.ack(2, &[(0, 1)]);
    assert!(!news.dsack);
    assert_eq!(sender.recovery.totals().duplicates, 0);
}

#[test]
fn a_receiver_that_reneges_is_sent_everything_again() {
    let mut sender = Sender::with_flight(10, |_| {});
    sender.wait_ms(100);
    sender.ack(0, &[(1, 10)]);
    sender.send();
    sender.wait_ms(100);
    let news = sender.ack(1, &[]);
    assert!(news.reneging);
    let (alarm, action, waited_ms) = sender.wait_for_alarm();
    assert_eq!((alarm, action), (Alarm::Timeout, AlarmAction::TimedOut));
    assert!(waited_ms <= 60, "{waited_ms}");
    assert_eq!((sender.recovery.board.sacked_out(), sender.recovery.totals().reneged), (0, 1));
    assert_eq!(sender.send()[0], 1);
}

#[test]
fn echoes_reduce_once_a_round_trip() {
    let mut sender = Sender::with_flight(10, |_| {});
    sender.wait_ms(100);
    sender.ack_with(1, &[], |ack| ack.ece = true);
    assert_eq!(sender.recovery.state(), State::Cwr);
    let mut sent = 0;
    for una in 2..=10 {
        sender.ack_with(una, &[], |ack| ack.ece = true);
        sent += sender.send().len();
    }
    assert!((3..=6).contains(&sent), "{sent}");
    sender.ack(11, &[]);
    assert_eq!((sender.recovery.state(), sender.cwnd()), (State::Open, 5));
}

#[test]
fn a_smaller_path_mtu_sends_again_without_a_reduction() {
    let mut sender = Sender::with_flight(4, |_| {});
    sender.recovery.set_mss(400);
    assert_eq!((sender.recovery.board.segments(), sender.recovery.board.lost_out()), (12, 12));
    assert_eq!(sender.cwnd(), 4);
    let first = sender.recovery.next_retransmission().unwrap();
    assert_eq!(first.span, Span::new(1, 401));
    assert_eq!(sender.recovery.board.nxt(), 4001);
}

#[test]
fn acks_that_say_nothing_change_nothing() {
    let mut sender = Sender::new(|_| {});
    let news = sender.ack(0, &[(0, 5), (7, 3), (1000, 2000)]);
    assert_eq!((news.acked, news.sacked, news.lost), (0, 0, 0));
    assert_eq!((sender.recovery.state(), sender.recovery.alarm()), (State::Open, None));
    sender.send();
    sender.ack(0, &[(9, 20), (5, 5), (u64::MAX / MSS - 1, u64::MAX / MSS)]);
    assert_eq!(sender.recovery.board.sacked_out(), 0);
}

/// The largest part of the kibibyte that an idle connection may take.
#[test]
fn it_is_small() {
    assert!(size_of::<Recovery>() <= 704, "{}", size_of::<Recovery>());
}

/// All that an acknowledgement changes.
fn shown(recovery: &Recovery) -> String {
    let Recovery { board, rtt, rate, congestion, state, high, rack, reordering, tlp, prr, frto, hold, .. } = recovery;
    let counts = (board.una(), board.nxt(), board.pipe(), board.highest_sacked(), recovery.timeouts, recovery.totals);
    format!(
        "{rtt:?}{rate:?}{congestion:?}{state:?}{high}{rack:?}{reordering:?}{tlp:?}{prr:?}{frto:?}{hold:?}{counts:?}{:?}",
        recovery.alarm
    )
}

proptest::proptest! {
    /// Flights of a few segments, most of one; times and acknowledgements as they come.
    #[test]
    fn the_short_way_does_what_the_long_way_does(
        steps in proptest::collection::vec((0u32..4, 1u16..1500, 0u64..400_000, 0u32..10), 1..80),
        cubic in proptest::bool::ANY,
    ) {
        let algorithm = if cubic { Algorithm::Cubic } else { Algorithm::NewReno };
        let mut sender = Sender::new(|config| config.algorithm = algorithm);
        let mut calm = 0;
        for (segments, len, wait_us, kind) in steps {
            let Sender { recovery, now, .. } = &mut sender;
            recovery.before_sending(*now);
            let mut other = recovery.clone();
            if recovery.is_idle() && segments < 3 {
                recovery.on_alone(*now, len, kind > 5);
                other.on_transmit(*now, len).unwrap();
                other.board.mark_newest(kind > 5, true);
                other.after_sending(*now, false, true, true);
                proptest::prop_assert_eq!(shown(recovery), shown(&other));
            } else {
                for _ in 0..segments.min(recovery.room()) {
                    recovery.on_transmit(*now, len).unwrap();
                }
                recovery.after_sending(*now, false, true, segments > 0);
            }
            *now = *now + wait_us;
            if recovery.alarm().is_some_and(|(_, at)| at <= *now) && kind == 0 {
                recovery.on_alarm(*now);
            }
            let ack = if kind == 1 { recovery.board.una() } else { recovery.board.nxt() };
            let ack = Ack {
                now: *now, ack, sacks: &[], ts_echo: None, ts_rtt_us: Some(1000), ece: kind == 2, plain: kind > 5, can_send_new: true,
            };
            let mut other = recovery.clone();
            calm += u32::from(recovery.is_calm_ack(&ack));
            recovery.on_ack(&ack);
            other.on_any_ack(&ack);
            proptest::prop_assert_eq!(shown(recovery), shown(&other));
            proptest::prop_assert_eq!(recovery.audit(), Ok(()));
        }
        // Nearly every sequence has some.
        proptest::prop_assume!(calm > 0);
    }
}
