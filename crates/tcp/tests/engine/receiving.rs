//! The receiving side: order, gaps, SACK, windows, acknowledgements and their delay, urgent data.

use crate::script::Script;
use ringway_tcp::{Config, Error, Ready, ReceiveFlags, State};

fn plain() -> Config {
    let mut config = Config::default();
    config.set("tcp_timestamps", "0").unwrap();
    config
}

fn with_buffer(bytes: u32) -> Script {
    let mut config = plain();
    config.set("tcp_rmem", &format!("4096 {} {}", 2 * bytes, 2 * bytes)).unwrap();
    config.set("tcp_window_scaling", "0").unwrap();
    Script::accepted_plainly(config)
}

#[test]
fn the_first_segments_are_acknowledged_at_once() {
    let mut script = Script::accepted(plain());
    for n in 0..5 {
        let seq = 1 + n * 1460;
        script.inject(&format!(". {seq}:{}(1460) ack 1", seq + 1460));
        script.expect(&format!(". 1:1(0) ack {}", seq + 1460));
    }
}

#[test]
fn a_reply_carries_the_acknowledgement_and_later_ones_are_delayed() {
    let mut script = Script::accepted(plain());
    script.inject("P. 1:11(10) ack 1");
    script.expect(". 1:1(0) ack 11");
    script.recv(100).unwrap();
    script.send(20);
    script.expect("P. 1:21(20) ack 11");
    script.inject("P. 11:21(10) ack 21");
    script.sleep_ms(39);
    script.expect_nothing();
    script.sleep_ms(2);
    script.expect(". 21:21(0) ack 21");
    script.expect_nothing();
}

#[test]
fn a_reply_in_time_saves_the_acknowledgement() {
    let mut script = Script::accepted(plain());
    for n in 0..10 {
        let (seq, ack) = (1 + 10 * n, 1 + 20 * n);
        script.inject(&format!("P. {seq}:{}(10) ack {ack}", seq + 10));
        if n == 0 {
            script.expect(". 1:1(0) ack 11");
        }
        script.recv(100).unwrap();
        script.sleep_ms(1);
        script.send(20);
        script.expect(&format!("P. {ack}:{}(20) ack {}", ack + 20, seq + 10));
    }
    script.expect_nothing();
}

#[test]
fn a_gap_is_told_by_sack_and_closed_at_once() {
    let mut script = Script::accepted(plain());
    script.inject(". 1001:2001(1000) ack 1");
    script.expect(". 1:1(0) ack 1 <nop,nop,sack 1001:2001>");
    script.inject(". 3001:4001(1000) ack 1");
    script.expect(". 1:1(0) ack 1 <nop,nop,sack 3001:4001 1001:2001>");
    script.inject(". 2001:3001(1000) ack 1");
    script.expect(". 1:1(0) ack 1 <nop,nop,sack 1001:4001>");
    assert_eq!(script.recv(100), Err(Error::WouldBlock));
    script.inject(". 1:1001(1000) ack 1");
    script.expect(". 1:1(0) ack 4001 <>");
    assert_eq!(script.recv(10_000), Ok(4000));
}

#[test]
fn the_newest_gaps_are_told_first_and_four_at_most() {
    let mut script = Script::accepted(plain());
    for n in 1..=6 {
        script.inject(&format!(". {}:{}(100) ack 1", n * 1000, n * 1000 + 100));
    }
    for _ in 0..5 {
        script.expect_any();
    }
    script.expect(". 1:1(0) ack 1 <sack 6000:6100 5000:5100 4000:4100 3000:3100>");
}

#[test]
fn without_sack_every_early_segment_is_a_duplicate_ack() {
    let mut script = Script::accepted_plainly(plain());
    for n in 1..5 {
        script.inject(&format!(". {}:{}(100) ack 1", n * 100 + 1, n * 100 + 101));
        script.expect(". 1:1(0) ack 1 <>");
    }
    script.inject(". 1:101(100) ack 1");
    script.expect(". 1:1(0) ack 501 <>");
}

#[test]
fn a_duplicate_is_reported_once() {
    let mut script = Script::accepted(plain());
    script.inject(". 1:1001(1000) ack 1");
    script.expect(". 1:1(0) ack 1001 <>");
    script.inject(". 1:1001(1000) ack 1");
    script.expect(". 1:1(0) ack 1001 <sack 1:1001>");
    script.inject(". 1001:2001(1000) ack 1");
    script.expect(". 1:1(0) ack 2001 <>");
}

#[test]
fn the_known_part_of_a_segment_is_reported() {
    let mut script = Script::accepted(plain());
    script.inject(". 1:1001(1000) ack 1");
    script.expect(". 1:1(0) ack 1001 <>");
    script.inject(". 501:2001(1500) ack 1");
    script.expect(". 1:1(0) ack 2001 <sack 501:1001>");
    assert_eq!(script.recv(10_000), Ok(2000));
}

#[test]
fn an_early_duplicate_is_reported_before_the_block_it_lies_in() {
    let mut script = Script::accepted(plain());
    script.inject(". 1001:2001(1000) ack 1");
    script.expect(". 1:1(0) ack 1 <sack 1001:2001>");
    script.inject(". 1001:2001(1000) ack 1");
    script.expect(". 1:1(0) ack 1 <sack 1001:2001 1001:2001>");
}

#[test]
fn what_is_switched_off_is_not_reported() {
    let mut config = plain();
    config.set("tcp_dsack", "0").unwrap();
    let mut script = Script::accepted(config);
    script.inject(". 1:1001(1000) ack 1");
    script.expect(". 1:1(0) ack 1001 <>");
    script.inject(". 1:1001(1000) ack 1");
    script.expect(". 1:1(0) ack 1001 <>");
}

/// Bytes that overlap come from the segment that came first, and all arrive in order.
#[test]
fn overlaps_are_joined_whatever_their_shape() {
    for order in [[(1, 60), (41, 60), (21, 100)], [(41, 60), (21, 100), (1, 60)], [(21, 100), (1, 60), (41, 60)]] {
        let mut script = Script::accepted(plain());
        for (seq, len) in order {
            script.inject(&format!(". {seq}:{}({len}) ack 1", seq + len));
        }
        assert_eq!(script.recv(1000), Ok(120));
    }
}

/// Four full segments, which fill the buffer.
fn fill(script: &mut Script) {
    for n in 0..4 {
        let seq = 1 + 1460 * n;
        script.inject(&format!(". {seq}:{}(1460) ack 1", seq + 1460));
    }
    script.sleep_ms(300);
    script.drain();
}

#[test]
fn the_window_closes_and_opens() {
    let mut script = with_buffer(5840);
    fill(&mut script);
    script.inject(". 5841:5842(1) ack 1");
    script.expect(". 1:1(0) ack 5841 win 0");
    script.expect_nothing();
    assert_eq!(script.recv(5840), Ok(5840));
    script.expect(". 1:1(0) ack 5841 win 5840");
}

#[test]
fn a_little_room_is_not_told() {
    let mut script = with_buffer(5840);
    fill(&mut script);
    assert_eq!(script.recv(1459), Ok(1459));
    script.expect_nothing();
    assert_eq!(script.recv(1461), Ok(1461));
    script.expect(". 1:1(0) ack 5841 win 2920");
}

#[test]
fn data_beyond_the_window_are_cut_off() {
    let mut script = with_buffer(5840);
    script.inject(". 1:4381(4380) ack 1");
    script.drain();
    script.inject(". 4381:6381(2000) ack 1");
    script.drain();
    assert_eq!(script.recv(9000), Ok(5840));
}

#[test]
fn the_window_never_shrinks() {
    let mut script = with_buffer(8000);
    let mut right = 0;
    for n in 0..8 {
        let seq = 1 + 1000 * n;
        script.inject(&format!(". {seq}:{}(1000) ack 1", seq + 1000));
        script.sleep_ms(300);
        while let Some((ack, window)) = script.next_ack() {
            assert!(ack + window >= right, "{ack}+{window} after {right}");
            right = ack + window;
        }
    }
}

#[test]
fn the_buffer_grows_with_what_the_application_reads() {
    let mut script = Script::accepted(Config::default());
    let mut seq = 1;
    let mut largest = 0;
    for _ in 0..60 {
        for _ in 0..20 {
            script.inject(&format!(". {seq}:{}(1460) ack 1", seq + 1460));
            seq += 1460;
        }
        script.sleep_ms(10);
        while script.recv(1 << 20).is_ok() {}
        while let Some((_, window)) = script.next_ack() {
            largest = largest.max(window);
        }
    }
    assert!(largest << 10 > 100_000, "{largest}");
}

#[test]
fn old_timestamps_are_refused() {
    let mut script = Script::listening(Config::default(), &Default::default());
    script.inject("S 0:0(0) win 1000 <mss 1460,sackOK,TS 1000 0,wscale 7>");
    script.expect("S. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1 <TS 1010 0>");
    script.accept();
    script.inject("P. 1:11(10) ack 1 <TS 900 0>");
    script.expect(". 1:1(0) ack 1");
    script.inject("R 1:1(0) <TS 900 0>");
    assert_eq!(script.state(), State::Closed, "resets are taken whatever their timestamp");
}

#[test]
fn the_last_timestamp_in_order_is_echoed() {
    let mut script = Script::listening(Config::default(), &Default::default());
    script.inject("S 0:0(0) win 1000 <mss 1460,sackOK,TS 1000 0,wscale 7>");
    script.expect("S. 0:0(0) ack 1 <mss 1460,sackOK,TS 0 1000,wscale 10>");
    script.inject(". 1:1(0) ack 1 <TS 1010 0>");
    script.accept();
    script.inject("P. 11:21(10) ack 1 <TS 1030 0>");
    script.expect(". 1:1(0) ack 1 <TS 0 1010,sack 11:21>");
    script.inject("P. 1:11(10) ack 1 <TS 1020 0>");
    script.expect(". 1:1(0) ack 21 <TS 0 1020>");
}

#[test]
fn the_urgent_byte_is_taken_out_of_line() {
    let mut script = Script::accepted(plain());
    script.inject("PU. 1:11(10) ack 1 urg 5");
    let ready = script.engine.readiness(script.id()).unwrap();
    assert!(ready.contains(Ready::URGENT));
    let mut byte = [0];
    let (now, id) = (script.now, script.id());
    assert_eq!(script.engine.recv(now, id, &mut byte, ReceiveFlags::URGENT), Ok(1));
    assert_eq!(byte[0], crate::link::pattern(10)[4]);
    assert_eq!(script.recv(100), Ok(4), "a read stops at the mark");
    assert_eq!(script.engine.is_at_mark(id), Ok(true));
    assert_eq!(script.recv(100), Ok(5), "and goes on behind the urgent byte");
    assert_eq!(script.engine.recv(now, id, &mut byte, ReceiveFlags::URGENT), Err(Error::Invalid));
}

#[test]
fn the_urgent_byte_stays_in_line_if_asked_for() {
    let mut script = Script::accepted(plain());
    script.configure(|options| options.urgent_inline = true);
    script.inject("PU. 1:11(10) ack 1 urg 5");
    assert_eq!(script.recv(100), Ok(4));
    assert_eq!(script.recv(100), Ok(6));
}

#[test]
fn urgent_data_are_announced_before_they_come() {
    let mut script = Script::accepted(plain());
    script.inject("U. 1:1(0) ack 1 urg 11");
    let (now, id) = (script.now, script.id());
    assert_eq!(script.engine.recv(now, id, &mut [0], ReceiveFlags::URGENT), Err(Error::WouldBlock));
    script.inject("P. 1:11(10) ack 1");
    script.inject("P. 11:12(1) ack 1");
    assert_eq!(script.engine.recv(now, id, &mut [0], ReceiveFlags::URGENT), Ok(1));
}

#[test]
fn peeking_takes_nothing() {
    let mut script = Script::accepted(plain());
    script.inject("P. 1:11(10) ack 1");
    let (now, id) = (script.now, script.id());
    assert_eq!(script.engine.recv(now, id, &mut [0; 4], ReceiveFlags::PEEK), Ok(4));
    assert_eq!(script.recv(100), Ok(10));
}

#[test]
fn marks_are_echoed_until_the_peer_has_reduced() {
    let mut script = Script::listening(plain(), &Default::default());
    script.inject("SEW 0:0(0) win 65535 <mss 1460,sackOK>");
    script.expect("SE. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1");
    script.accept();
    script.inject_marked("P. 1:101(100) ack 1");
    script.expect("E. 1:1(0) ack 101");
    script.inject_capable("P. 101:201(100) ack 1");
    script.expect("E. 1:1(0) ack 201");
    script.inject_capable("PW. 201:301(100) ack 1");
    script.expect(". 1:1(0) ack 301");
}
