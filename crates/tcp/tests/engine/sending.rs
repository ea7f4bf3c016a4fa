//! The sending side: what leaves when, and what happens if it does not arrive.

use crate::script::Script;
use ringway_tcp::{Config, Error, SendFlags, State};

fn plain() -> Config {
    let mut config = Config::default();
    config.set("tcp_timestamps", "0").unwrap();
    config
}

fn with(settings: &[(&str, &str)]) -> Config {
    let mut config = plain();
    for (name, value) in settings {
        config.set(name, value).unwrap();
    }
    config
}

#[test]
fn ten_segments_leave_at_first() {
    let mut script = Script::accepted(plain());
    script.send(20 * 1460);
    for n in 0..10 {
        let seq = 1 + n * 1460;
        // The last of a bundle is pushed (Linux: `__tcp_transmit_skb`).
        let flags = if n == 4 || n == 9 { "P." } else { "." };
        script.expect(&format!("{flags} {seq}:{}(1460) ack 1", seq + 1460));
    }
    script.expect_nothing();
    script.inject(". 1:1(0) ack 2921 win 1024");
    for n in 10..14 {
        let seq = 1 + n * 1460;
        let flags = if n == 13 { "P." } else { "." };
        script.expect(&format!("{flags} {seq}:{}(1460) ack 1", seq + 1460));
    }
    script.expect_nothing();
}

#[test]
fn the_last_segment_is_pushed() {
    let mut script = Script::accepted(plain());
    script.send(1500);
    script.expect(". 1:1461(1460) ack 1");
    script.expect("P. 1461:1501(40) ack 1");
}

#[test]
fn small_segments_wait_for_the_one_before() {
    let mut script = Script::accepted(plain());
    script.send(10);
    script.expect("P. 1:11(10) ack 1");
    script.send(10);
    script.send(10);
    script.expect_nothing();
    script.inject(". 1:1(0) ack 11 win 1024");
    script.expect("P. 11:31(20) ack 1");
}

#[test]
fn nagle_lets_full_segments_go() {
    let mut script = Script::accepted(plain());
    script.send(10);
    script.expect("P. 1:11(10) ack 1");
    script.send(1470);
    script.expect(". 11:1471(1460) ack 1");
    script.expect_nothing();
}

#[test]
fn nodelay_lets_small_segments_go() {
    let mut script = Script::accepted(plain());
    script.configure(|options| options.nodelay = true);
    for n in 0..5 {
        script.send(10);
        script.expect(&format!("P. {}:{}(10) ack 1", 1 + n * 10, 11 + n * 10));
    }
}

#[test]
fn cork_holds_back_and_lets_go() {
    let mut script = Script::accepted(plain());
    script.configure(|options| options.cork = true);
    script.send(100);
    script.expect_nothing();
    script.send(1460);
    script.expect(". 1:1461(1460) ack 1");
    script.expect_nothing();
    script.configure(|options| options.cork = false);
    script.expect("P. 1461:1561(100) ack 1");
}

#[test]
fn cork_holds_back_for_a_fifth_of_a_second_at_most() {
    let mut script = Script::accepted(plain());
    script.configure(|options| options.cork = true);
    script.send(100);
    script.sleep_ms(198);
    script.expect_nothing();
    script.sleep_ms(3);
    script.expect("P. 1:101(100) ack 1");
}

#[test]
fn more_to_come_is_waited_for() {
    let mut script = Script::accepted(plain());
    script.send_with(100, SendFlags::MORE);
    script.expect_nothing();
    script.send(100);
    script.expect("P. 1:201(200) ack 1");
}

#[test]
fn a_lost_tail_is_probed_for() {
    let mut script = Script::accepted(plain());
    script.sleep_ms(10);
    script.send(1460);
    script.expect("P. 1:1461(1460) ack 1");
    // Twice the round trip is next to nothing; the slack for a lone segment's delayed acknowledgement is 200 ms.
    script.sleep_ms(190);
    script.expect_nothing();
    script.sleep_ms(20);
    script.expect("P. 1:1461(1460) ack 1");
    script.inject(". 1:1(0) ack 1461 win 1024");
    script.expect_nothing();
}

#[test]
fn without_probes_the_timeout_repeats_ever_later() {
    let mut script = Script::accepted(with(&[("tcp_early_retrans", "0")]));
    script.send(1000);
    script.expect("P. 1:1001(1000) ack 1");
    let begin = script.now;
    for due_ms in [200, 600, 1400, 3000, 6200, 12_600] {
        script.expect_at(begin + due_ms * 1000, "P. 1:1001(1000) ack 1");
    }
}

#[test]
fn the_connection_ends_when_nothing_is_acknowledged() {
    let mut script = Script::accepted(with(&[("tcp_retries2", "4")]));
    script.send(1000);
    script.sleep_ms(20_000);
    assert_eq!(script.state(), State::Closed);
    assert_eq!(script.recv(10), Err(Error::TimedOut));
    assert_eq!(script.recv(10), Ok(0));
    assert_eq!(script.engine.buffer_bytes(), 0);
}

#[test]
fn the_user_timeout_ends_it_sooner() {
    let mut script = Script::accepted(plain());
    script.configure(|options| options.user_timeout_ms = 3000);
    script.send(1000);
    script.sleep_ms(2500);
    assert_eq!(script.state(), State::Established);
    script.sleep_ms(3000);
    assert_eq!(script.recv(10), Err(Error::TimedOut));
}

#[test]
fn three_sacks_bring_the_missing_segment() {
    let mut script = Script::accepted_over(100, plain());
    script.send(10 * 1460);
    assert_eq!(script.drain(), 10);
    script.sleep_ms(100);
    script.inject(". 1:1(0) ack 1 win 1024 <sack 1461:2921>");
    script.inject(". 1:1(0) ack 1 win 1024 <sack 1461:4381>");
    script.expect_nothing();
    script.inject(". 1:1(0) ack 1 win 1024 <sack 1461:5841>");
    script.expect(". 1:1461(1460) ack 1");
    script.inject(". 1:1(0) ack 14601 win 1024");
    script.expect_nothing();
}

#[test]
fn three_duplicates_do_too() {
    let mut script = Script::accepted_plainly(plain());
    script.sleep_ms(100);
    script.send(10 * 1000);
    assert_eq!(script.drain(), 10);
    for _ in 0..2 {
        script.inject(". 1:1(0) ack 1");
        script.expect_nothing();
    }
    script.inject(". 1:1(0) ack 1");
    script.expect(". 1:1001(1000) ack 1");
}

#[test]
fn limited_transmit_lets_new_segments_go() {
    let mut script = Script::accepted_over(100, plain());
    script.send(20 * 1460);
    assert_eq!(script.drain(), 10);
    script.sleep_ms(100);
    script.inject(". 1:1(0) ack 1 win 1024 <sack 1461:2921>");
    script.expect(". 14601:16061(1460) ack 1");
    script.expect_nothing();
}

#[test]
fn a_partial_acknowledgement_brings_the_next_gap() {
    let mut script = Script::accepted_plainly(plain());
    script.send(10 * 1000);
    assert_eq!(script.drain(), 10);
    for _ in 0..3 {
        script.inject(". 1:1(0) ack 1");
    }
    script.expect(". 1:1001(1000) ack 1");
    script.drain();
    script.inject(". 1:1(0) ack 3001");
    script.expect(". 3001:4001(1000) ack 1");
}

#[test]
fn the_peers_window_holds_us_back() {
    let mut script = Script::accepted_with_window(2500, plain());
    script.send(5000);
    script.expect(". 1:1001(1000) ack 1");
    // More than half the window since the last PSH (Linux: `forced_push`).
    script.expect("P. 1001:2001(1000) ack 1");
    script.expect_nothing();
    script.inject(". 1:1(0) ack 2001 win 3000");
    script.expect(". 2001:3001(1000) ack 1");
    script.expect("P. 3001:4001(1000) ack 1");
    script.expect("P. 4001:5001(1000) ack 1");
}

/// RFC 9293 3.9.1.2: PSH where a write ends, also when the segment is sent again and more was written meanwhile.
#[test]
fn push_marks_the_ends_of_writes() {
    let mut script = Script::accepted_plainly(plain());
    script.configure(|options| options.nodelay = true);
    script.send(300);
    script.expect("P. 1:301(300) ack 1");
    script.send_with(1500, SendFlags::MORE);
    script.expect(". 301:1301(1000) ack 1");
    script.send(500);
    script.expect("P. 1301:2301(1000) ack 1");
    script.sleep_ms(300);
    script.expect("P. 1:301(300) ack 1");
    script.inject(". 1:1(0) ack 301");
    script.expect(". 301:1301(1000) ack 1");
}

#[test]
fn a_closed_window_is_probed_ever_more_seldom() {
    let mut script = Script::accepted_plainly(plain());
    script.inject(". 1:1(0) ack 1 win 0");
    script.send(100);
    let begin = script.now;
    for due_ms in [200, 600, 1400, 3000, 6200] {
        script.expect_at(begin + due_ms * 1000, ". 0:0(0) ack 1");
    }
    script.inject(". 1:1(0) ack 1 win 1000");
    script.expect("P. 1:101(100) ack 1");
}

#[test]
fn answered_probes_keep_the_connection() {
    let mut script = Script::accepted_plainly(with(&[("tcp_retries2", "3")]));
    script.inject(". 1:1(0) ack 1 win 0");
    script.send(100);
    for _ in 0..20 {
        script.sleep_ms(1000);
        while script.drain() > 0 {
            script.inject(". 1:1(0) ack 1 win 0");
        }
    }
    assert_eq!(script.state(), State::Established);
    script.sleep_ms(200_000);
    assert_eq!(script.state(), State::Closed, "unanswered, they end it");
}

#[test]
fn a_window_that_opens_a_little_is_filled_by_the_probe() {
    let mut script = Script::accepted_plainly(plain());
    script.inject(". 1:1(0) ack 1 win 0");
    script.send(5000);
    script.inject(". 1:1(0) ack 1 win 500");
    script.expect_nothing();
    script.sleep_ms(250);
    script.expect("P. 1:501(500) ack 1");
}

#[test]
fn an_old_segment_does_not_change_the_window() {
    let mut script = Script::accepted_plainly(plain());
    script.inject("P. 1:11(10) ack 1 win 5000");
    script.inject(". 1:1(0) ack 1 win 100");
    script.drain();
    script.send(1000);
    script.expect("P. 1:1001(1000) ack 11");
}

#[test]
fn fin_follows_the_data_and_goes_with_the_last() {
    let mut script = Script::accepted(plain());
    script.send(1500);
    script.expect(". 1:1461(1460) ack 1");
    script.expect("P. 1461:1501(40) ack 1");
    script.shutdown();
    script.expect("F. 1501:1501(0) ack 1");
    let mut script = Script::accepted(plain());
    script.send(100);
    script.expect("P. 1:101(100) ack 1");
    script.send(50);
    script.shutdown();
    script.expect("FP. 101:151(50) ack 1");
}

#[test]
fn fin_waits_for_the_window() {
    let mut script = Script::accepted_with_window(2999, plain());
    script.send(3000);
    script.shutdown();
    script.expect(". 1:1001(1000) ack 1");
    script.expect("P. 1001:2001(1000) ack 1");
    script.expect_nothing();
    script.inject(". 1:1(0) ack 2001 win 1001");
    script.expect("FP. 2001:3001(1000) ack 1");
}

#[test]
fn a_lost_fin_is_sent_again() {
    let mut script = Script::accepted(plain());
    script.shutdown();
    script.expect("F. 1:1(0) ack 1");
    script.sleep_ms(500);
    script.expect("F. 1:1(0) ack 1");
}

#[test]
fn keepalive_probes_and_gives_up() {
    let mut script = Script::accepted(plain());
    script.configure(|options| {
        options.keepalive = true;
        (options.keepalive_idle_s, options.keepalive_interval_s) = (Some(10), Some(2));
        options.keepalive_probes = Some(3);
    });
    script.sleep_ms(9_990);
    script.expect_nothing();
    script.sleep_ms(20);
    script.expect(". 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1 win 1000");
    script.sleep_ms(9_900);
    script.expect_nothing();
    for _ in 0..3 {
        script.sleep_ms(2_000);
        script.expect(". 0:0(0) ack 1");
    }
    script.sleep_ms(2_000);
    script.expect("R. 1:1(0) ack 1");
    assert_eq!(script.recv(10), Err(Error::TimedOut));
}

#[test]
fn urgent_data_are_marked() {
    let mut script = Script::accepted(plain());
    script.send_with(100, SendFlags::URGENT);
    script.expect("PU. 1:101(100) ack 1 urg 100");
    script.inject(". 1:1(0) ack 101 win 1000");
    script.send(10);
    script.expect("P. 101:111(10) ack 1 urg 0");
}

#[test]
fn an_echoed_mark_halves_the_window_once_and_is_answered() {
    let mut script = Script::listening(plain(), &Default::default());
    script.inject("SEW 0:0(0) win 65535 <mss 1000,sackOK>");
    script.expect("SE. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1");
    script.accept();
    script.send(50_000);
    assert_eq!(script.drain(), 10);
    script.inject("E. 1:1(0) ack 1001");
    script.inject("E. 1:1(0) ack 2001");
    script.inject("E. 1:1(0) ack 3001");
    let (now, id) = (script.now, script.id());
    let info = script.engine.tcp_info(now, id).unwrap();
    assert_eq!((info.snd_ssthresh, info.ca_state), (7, 1 + 1));
    script.expect("W. 10001:11001(1000) ack 1");
}

#[test]
fn a_smaller_path_is_heeded() {
    let mut script = Script::accepted(plain());
    script.send(1460);
    script.expect("P. 1:1461(1460) ack 1");
    script.too_big(1, 1000);
    script.expect(". 1:961(960) ack 1");
    script.expect("P. 961:1461(500) ack 1");
    script.inject(". 1:1(0) ack 1461 win 1000");
    script.too_big(99_999, 600);
    script.send(960);
    script.expect("P. 1461:2421(960) ack 1");
}

#[test]
fn a_black_hole_is_suspected_if_told_to() {
    let mut script = Script::accepted(with(&[("tcp_mtu_probing", "1"), ("tcp_early_retrans", "0")]));
    script.send(1460);
    script.expect("P. 1:1461(1460) ack 1");
    script.sleep_ms(200 + 400 + 10);
    script.expect("P. 1:1461(1460) ack 1");
    script.expect("P. 1:1461(1460) ack 1");
    script.sleep_ms(800);
    script.expect(". 1:731(730) ack 1");
}

#[test]
fn a_full_buffer_is_writable_again_when_a_third_is_free() {
    let mut script = Script::accepted(with(&[("tcp_wmem", "4096 16384 16384")]));
    assert_eq!(script.send(100_000), 16_384);
    let (now, id) = (script.now, script.id());
    assert_eq!(script.engine.send(now, id, b"x", SendFlags::empty()), Err(Error::WouldBlock));
    assert!(!script.engine.readiness(id).unwrap().contains(ringway_tcp::Ready::WRITABLE));
    script.drain();
    script.inject(". 1:1(0) ack 4381 win 1000");
    assert!(!script.engine.readiness(id).unwrap().contains(ringway_tcp::Ready::WRITABLE));
    script.inject(". 1:1(0) ack 5841 win 1000");
    assert!(script.engine.readiness(id).unwrap().contains(ringway_tcp::Ready::WRITABLE));
}

#[test]
fn a_connection_that_was_opened_sends_at_once() {
    let mut script = Script::connected(plain());
    script.send(100);
    script.expect("P. 1:101(100) ack 1");
}

#[test]
fn a_rate_is_kept_if_asked_for() {
    let mut script = Script::accepted_plainly(plain());
    script.configure(|options| options.pacing_rate_max = 100_000);
    script.send(60_000);
    let mut sent = script.drain();
    let begin = script.now;
    assert!(sent <= 11, "the first ten leave at once: {sent}");
    while sent < 60 {
        script.inject(&format!(". 1:1(0) ack {} win 65535", 1 + 1000 * sent));
        script.sleep_ms(5);
        sent += script.drain();
    }
    let took_ms = script.now.since_us(begin) / 1000;
    assert!((450..600).contains(&took_ms), "{took_ms} ms for 50 segments of 10 ms");
}
