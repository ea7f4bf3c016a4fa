//! What strangers and hostile peers can do: never a panic, never more memory than stated, no harm to others.

use crate::link::{Pair, endpoint, pattern};
use crate::script::Script;
use proptest::prelude::*;
use ringway_tcp::stats::Counter;
use ringway_tcp::{Config, State};

fn plain() -> Config {
    let mut config = Config::default();
    config.set("tcp_timestamps", "0").unwrap();
    config
}

#[test]
fn a_syn_flood_is_answered_with_cookies_and_real_clients_get_in() {
    let mut script = Script::listening(plain(), &Default::default());
    for port in 1..1000 {
        script.theirs = endpoint(&format!("198.51.100.7:{port}"));
        script.inject("S 0:0(0) win 65535 <mss 1460,sackOK,TS 1 0,wscale 7>");
        script.drain();
    }
    assert_eq!(script.engine.counts(), (0, 5, 0));
    assert_eq!(script.engine.stats().get(Counter::SynCookieSent), 994);
    script.theirs = endpoint("192.0.2.1:40000");
    script.inject("S 0:0(0) win 65535 <mss 1300>");
    script.expect("S. 0:0(0) ack 1 <mss 1460>");
    script.inject("P. 1:11(10) ack 1 win 65535");
    script.accept();
    assert_eq!((script.state(), script.recv(100)), (State::Established, Ok(10)));
    script.drain();
    script.send(1400);
    script.expect(". 1:1301(1300) ack 11");
}

#[test]
fn a_cookie_keeps_scale_and_sack_in_the_timestamp() {
    let mut config = Config::default();
    config.set("tcp_syncookies", "2").unwrap();
    let mut script = Script::listening(config, &Default::default());
    script.inject("S 0:0(0) win 1000 <mss 1460,sackOK,TS 100 0,wscale 7>");
    script.expect("S. 0:0(0) ack 1 <mss 1460,sackOK,TS 0 100,wscale 10>");
    assert_eq!(script.engine.counts(), (0, 0, 0));
    script.inject(". 1:1(0) ack 1 win 100 <TS 101 0>");
    script.accept();
    let (now, id) = (script.now, script.id());
    let info = script.engine.tcp_info(now, id).unwrap();
    assert_eq!((info.snd_wscale, info.rcv_wscale, info.options), (7, 10, 7));
    script.inject("P. 11:21(10) ack 1 win 100 <TS 102 0>");
    // The cookie's clock was behind, as its low bits held the options.
    script.expect(". 1:1(0) ack 1 <TS 57 101,sack 11:21>");
}

#[test]
fn a_guessed_cookie_is_reset() {
    let mut config = plain();
    config.set("tcp_syncookies", "2").unwrap();
    let mut script = Script::listening(config, &Default::default());
    for guess in 0..200 {
        script.inject(&format!(". 1:1(0) ack {} win 100", 77 + guess * 12_345));
    }
    assert_eq!((script.drain(), script.engine.counts()), (200, (0, 0, 0)));
    assert_eq!(script.engine.stats().get(Counter::SynCookieFailed), 200);
}

/// Resets, SYNs and data beside the window, thousands of each, while a transfer goes on.
#[test]
fn blind_attacks_do_not_end_a_connection() {
    let mut script = Script::accepted(plain());
    for n in 0u32..3000 {
        let seq = n.wrapping_mul(1_000_003) | 1 << 20;
        script.inject(&format!("R {seq}:{seq}(0)"));
        script.inject(&format!("S {seq}:{seq}(0)"));
        script.inject(&format!("P. {seq}:{}(10) ack 1", seq.wrapping_add(10)));
        script.inject(&format!("P. 1:11(10) ack {}", seq.wrapping_add(1 << 22)));
    }
    assert_eq!(script.state(), State::Established);
    script.drain();
    script.inject("P. 1:11(10) ack 1");
    assert_eq!(script.recv(100), Ok(10));
}

#[test]
fn odd_segments_are_answered_seldom() {
    let mut script = Script::accepted(plain());
    for _ in 0..1000 {
        script.inject("S 5:5(0)");
        script.inject(". 500000:500000(0) ack 1");
    }
    assert!(script.drain() <= 2);
    script.sleep_ms(501);
    script.inject("S 5:5(0)");
    assert_eq!(script.drain(), 1);
}

#[test]
fn tiny_early_segments_fill_a_bounded_table() {
    let mut script = Script::accepted(plain());
    for n in 0..5000u32 {
        script.inject(&format!(". {}:{}(1) ack 1", 3 + 2 * n, 4 + 2 * n));
    }
    script.drain();
    assert!(script.engine.stats().get(Counter::EarlyDropped) > 3000);
    assert!(script.engine.buffer_bytes() <= 65_536);
    script.inject(". 1:3(2) ack 1");
    assert_eq!(script.recv(100), Ok(3));
}

#[test]
fn buffers_keep_to_the_budget() {
    let mut config = plain();
    config.set("buffer_bytes_max", "65536").unwrap();
    let mut pair = Pair::new(config);
    let listener = pair.ends[1].listen(endpoint("10.0.0.2:80"), 100, &Default::default()).unwrap();
    let clients: Vec<_> = (0..30)
        .map(|_| {
            let (here, there) = (endpoint("10.0.0.1:0"), endpoint("10.0.0.2:80"));
            pair.ends[0].connect(pair.now, here, there, &Default::default()).unwrap()
        })
        .collect();
    pair.run_for(50_000);
    for &client in &clients {
        pair.send(0, client, &pattern(20_000));
    }
    pair.run_for(2_000_000);
    assert!(pair.ends[0].buffer_bytes() <= 65_536 && pair.ends[1].buffer_bytes() <= 65_536);
    let mut got = 0;
    for _ in 0..clients.len() {
        let server = pair.ends[1].accept(listener).unwrap();
        got += pair.recv(1, server).len();
    }
    assert!(got >= 16_384, "{got}");
}

#[test]
fn tables_refuse_what_exceeds_them() {
    let mut config = plain();
    config.set("connections_max", "3").unwrap();
    let mut pair = Pair::new(config);
    let connect = |pair: &mut Pair| {
        pair.ends[0].connect(pair.now, endpoint("10.0.0.1:0"), endpoint("10.0.0.2:80"), &Default::default())
    };
    let first = connect(&mut pair).unwrap();
    connect(&mut pair).unwrap();
    connect(&mut pair).unwrap();
    assert_eq!(connect(&mut pair), Err(ringway_tcp::Error::NoBuffers));
    pair.ends[0].abort(pair.now, first).unwrap();
    pair.run_for(1);
    assert!(connect(&mut pair).is_ok());
}

/// Blocks that overlap, lie, wrap or come backwards.
#[test]
fn lying_sack_blocks_do_no_harm() {
    let mut script = Script::accepted(plain());
    script.send(14_600);
    assert_eq!(script.drain(), 10);
    for blocks in ["0:1", "1:14601", "99999:100000", "5000:4000", "1:1", "1461:2921 1461:2921 2000:2500", "14601:99999"]
    {
        script.inject(&format!(". 1:1(0) ack 1 win 1024 <sack {blocks}>"));
        script.sleep_ms(1);
    }
    script.drain();
    script.inject(". 1:1(0) ack 14601 win 1024");
    script.sleep_ms(1000);
    script.send(100);
    script.expect("P. 14601:14701(100) ack 1");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any bytes at all, and any segments at all for an established connection.
    #[test]
    fn nothing_panics(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..30)) {
        let mut script = Script::accepted(plain());
        script.send(20_000);
        for packet in packets {
            script.engine.on_packet(script.now, &packet);
            script.sleep_ms(u64::from(packet.len() as u32) * 20);
        }
    }

    #[test]
    fn no_segment_panics(segments in prop::collection::vec((0u8..128, any::<u16>(), any::<u16>(), 0u32..3000, any::<u16>(), 0u64..2000), 1..60)) {
        let mut script = Script::accepted(plain());
        script.send(50_000);
        for (bits, seq, ack, len, window, wait_ms) in segments {
            let letters: String = "FSRP.UE".chars().enumerate().filter(|(n, _)| bits >> n & 1 == 1).map(|(_, c)| c).collect();
            let flags = if letters.is_empty() { "-".into() } else { letters };
            let (seq, ack) = (u32::from(seq) / 4, u32::from(ack) / 4);
            script.inject(&format!("{flags} {seq}:{}({len}) ack {ack} win {window} urg {ack} <sack {ack}:{}>", seq + len, ack + len));
            script.sleep_ms(wait_ms);
            let _ = script.recv(10_000);
        }
        prop_assert!(script.engine.buffer_bytes() < 10_000_000);
    }
}
