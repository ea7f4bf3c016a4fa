//! The stations on the link by their IP addresses: found when they are needed, asked again when they were silent for
//! long, forgotten when they do not answer (the states of RFC 4861, 7.3.2, for ARP as well).

use std::collections::HashMap;

use ringway_tcp::Instant;
use ringway_wire::{IpAddress, MacAddress};

/// Neighbours known or asked for at a time (Linux: `gc_thresh3`).
const NEIGHBOURS_MAX: usize = 1024;
/// Bytes of packets that wait for answers, of all neighbours together.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// How long an answer is believed without asking again.
const REACHABLE_US: u64 = 30_000_000;
/// Between two questions.
const RETRY_US: u64 = 1_000_000;
/// Questions without an answer before a neighbour is given up.
const TRIES: u32 = 3;

#[derive(Default)]
struct Entry {
    mac: Option<MacAddress>,
    /// When the station last said that this is its address.
    confirmed: Instant,
    /// Questions since then, and when the next is due.
    tries: u32,
    next_try: Option<Instant>,
    /// Packets for a station that is not known yet, oldest first.
    waiting: Vec<Vec<u8>>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Known(MacAddress),
    /// The packet waits; somebody must ask, [`Neighbours::on_timer`] says whom.
    Waits,
    /// Too many wait.
    Full,
}

/// A question that is due, to all or to the station that answered last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) address: IpAddress,
    pub(crate) to: Option<MacAddress>,
}

/// What time has brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) questions: Vec<Question>,
    /// Packets whose neighbour does not answer.
    pub(crate) given_up: Vec<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Neighbours {
    entries: HashMap<IpAddress, Entry>,
    waiting_bytes: usize,
    /// The earliest `next_try`.
    deadline: Option<Instant>,
    /// The answer to the last question, and until when it is good: packets come in trains.
    last: Option<(IpAddress, MacAddress, Instant)>,
}

impl Neighbours {
    /// Where a packet to the neighbour `address` goes; it is copied if it has to wait.
    #[inline]
    pub(crate) fn look_up(&mut self, now: Instant, address: IpAddress, packet: &[u8]) -> Lookup {
        match self.last {
            Some((known, mac, until)) if known == address && now < until => Lookup::Known(mac),
            _ => self.find(now, address, packet),
        }
    }

    fn find(&mut self, now: Instant, address: IpAddress, packet: &[u8]) -> Lookup {
        if !self.entries.contains_key(&address) {
            self.make_room();
        }
        let entry = self.entries.entry(address).or_default();
        if entry.next_try.is_none() && (entry.mac.is_none() || now >= entry.confirmed + REACHABLE_US) {
            (entry.tries, entry.next_try) = (0, Some(now));
            self.deadline = Some(now);
        }
        if let Some(mac) = entry.mac {
            if entry.next_try.is_none() {
                self.last = Some((address, mac, entry.confirmed + REACHABLE_US));
            }
            return Lookup::Known(mac);
        }
        if self.waiting_bytes + packet.len() > WAITING_BYTES_MAX {
            return Lookup::Full;
        }
        self.waiting_bytes += packet.len();
        entry.waiting.push(packet.to_vec());
        Lookup::Waits
    }

    /// A station said that it has `address`. Answers the packets that waited for this. Strangers are only remembered if
    /// they are `wanted`: they talk to us.
    pub(crate) fn learn(&mut self, now: Instant, address: IpAddress, mac: MacAddress, wanted: bool) -> Vec<Vec<u8>> {
        if !self.entries.contains_key(&address) {
            if !wanted {
                return vec![];
            }
            self.make_room();
        }
        self.last = None;
        let entry = self.entries.entry(address).or_default();
        *entry =
            Entry { mac: Some(mac), confirmed: now, waiting: std::mem::take(&mut entry.waiting), ..Entry::default() };
        let released = std::mem::take(&mut entry.waiting);
        self.waiting_bytes -= released.iter().map(Vec::len).sum::<usize>();
        released
    }

    /// When [`Neighbours::on_timer`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whom to ask now, and who was given up.
    pub(crate) fn on_timer(&mut self, now: Instant) -> Due {
        let mut due = Due::default();
        if self.deadline.is_none_or(|at| now < at) {
            return due;
        }
        let waiting_bytes = &mut self.waiting_bytes;
        self.entries.retain(|address, entry| {
            if entry.next_try.is_none_or(|at| now < at) {
                return true;
            }
            if entry.tries == TRIES {
                *waiting_bytes -= entry.waiting.iter().map(Vec::len).sum::<usize>();
                due.given_up.append(&mut entry.waiting);
                return false;
            }
            entry.tries += 1;
            entry.next_try = Some(now + RETRY_US);
            due.questions.push(Question { address: *address, to: entry.mac });
            true
        });
        self.last = None;
        self.deadline = self.entries.values().filter_map(|entry| entry.next_try).min();
        due
    }

    /// Forgets the neighbour that was silent for longest, if there are too many. Those that packets wait for stay, and
    /// are bounded by these packets' bytes.
    fn make_room(&mut self) {
        if self.entries.len() < NEIGHBOURS_MAX {
            return;
        }
        let known = self.entries.iter().filter(|(_, entry)| entry.waiting.is_empty());
        if let Some(oldest) = known.min_by_key(|(_, entry)| entry.confirmed).map(|(address, _)| *address) {
            self.entries.remove(&oldest);
            self.last = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
    const AT: Instant = Instant::from_ms(5);

    fn ip(n: u32) -> IpAddress {
        std::net::Ipv4Addr::from(0x0a00_0000 + n).into()
    }

    #[test]
    fn packets_wait_for_an_answer_and_leave_in_order() {
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.look_up(AT, ip(1), b"first"), Lookup::Waits);
        assert_eq!(neighbours.look_up(AT, ip(1), b"second"), Lookup::Waits);
        assert_eq!(neighbours.on_timer(AT).questions, [Question { address: ip(1), to: None }]);
        assert_eq!(neighbours.on_timer(AT), Due::default());
        assert_eq!(neighbours.learn(AT, ip(1), MAC, false), [b"first".to_vec(), b"second".to_vec()]);
        assert_eq!((neighbours.waiting_bytes, neighbours.look_up(AT, ip(1), b"x")), (0, Lookup::Known(MAC)));
        neighbours.on_timer(AT + RETRY_US);
        assert_eq!(neighbours.next_deadline(), None);
    }

    #[test]
    fn who_does_not_answer_is_given_up_after_three_questions() {
        let mut neighbours = Neighbours::default();
        neighbours.look_up(AT, ip(1), b"lost");
        let asked = (0..3).map(|n| neighbours.on_timer(AT + n * RETRY_US).questions.len());
        assert_eq!(asked.collect::<Vec<_>>(), [1, 1, 1]);
        assert_eq!(neighbours.on_timer(AT + 3 * RETRY_US).given_up, [b"lost".to_vec()]);
        assert_eq!((neighbours.entries.len(), neighbours.waiting_bytes, neighbours.next_deadline()), (0, 0, None));
    }

    #[test]
    fn an_old_answer_is_used_while_its_station_is_asked_again() {
        let mut neighbours = Neighbours::default();
        neighbours.learn(AT, ip(1), MAC, true);
        assert_eq!(neighbours.look_up(AT, ip(1), b""), Lookup::Known(MAC));
        let late = AT + REACHABLE_US;
        assert_eq!(neighbours.look_up(late, ip(1), b""), Lookup::Known(MAC));
        assert_eq!(neighbours.on_timer(late).questions, [Question { address: ip(1), to: Some(MAC) }]);
        neighbours.learn(late, ip(1), MAC, false);
        assert_eq!(neighbours.on_timer(late + RETRY_US), Due::default());
    }

    #[test]
    fn strangers_and_floods_are_bounded() {
        let mut neighbours = Neighbours::default();
        neighbours.learn(AT, ip(1), MAC, false);
        assert_eq!(neighbours.entries.len(), 0);
        for n in 0..5000 {
            neighbours.learn(AT + u64::from(n), ip(n), MAC, true);
        }
        assert_eq!(neighbours.entries.len(), NEIGHBOURS_MAX);
        let packet = [0; 1500];
        let waits = (10_000..11_000).filter(|n| neighbours.look_up(AT, ip(*n), &packet) == Lookup::Waits).count();
        assert_eq!(waits, WAITING_BYTES_MAX / packet.len());
        assert_eq!(neighbours.look_up(AT, ip(20_000), &packet), Lookup::Full);
        assert!(neighbours.entries.len() <= NEIGHBOURS_MAX);
    }
}
