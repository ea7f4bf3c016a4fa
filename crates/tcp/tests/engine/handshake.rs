//! How connections begin: options agreed on, segments lost, strangers, simultaneous opens.

use crate::script::Script;
use ringway_tcp::{Config, Error, SocketOptions, State};

fn with(name: &str, value: &str) -> Config {
    let mut config = Config::default();
    config.set("tcp_rmem", "4096 540000 15728640").unwrap();
    config.set("tcp_timestamps", "0").unwrap();
    config.set(name, value).unwrap();
    config
}

fn plain() -> Config {
    with("tcp_timestamps", "0")
}

#[test]
fn a_syn_is_laid_out_as_linux_does() {
    let mut script = Script::new(plain());
    let (ours, theirs) = (script.ours, script.theirs);
    script.conn = Some(script.engine.connect(script.now, ours, theirs, &SocketOptions::default()).unwrap());
    script.expect("S 0:0(0) win 65535 <mss 1460,nop,nop,sackOK,nop,wscale 8>");
    script.inject("S. 0:0(0) ack 1 win 5792 <mss 1460,nop,nop,sackOK,nop,wscale 7>");
    script.expect(". 1:1(0) ack 1 win 256");
    assert_eq!(script.state(), State::Established);
}

/// What each side offers, and what our SYN-ACK then has.
#[test]
fn a_syn_ack_has_only_what_the_syn_offered() {
    for (offered, answered) in [
        ("<mss 1000>", "<mss 1460>"),
        ("<mss 1000,sackOK>", "<mss 1460,sackOK>"),
        ("<mss 1000,wscale 0>", "<mss 1460,wscale 8>"),
        ("<mss 1000,wscale 14>", "<mss 1460,wscale 8>"),
        ("<mss 1000,sackOK,wscale 7>", "<mss 1460,sackOK,wscale 8>"),
        ("<mss 1000,TS 100 0>", "<mss 1460>"),
        ("<>", "<mss 1460>"),
    ] {
        let mut script = Script::listening(plain(), &SocketOptions::default());
        script.inject(&format!("S 0:0(0) win 1000 {offered}"));
        script.expect(&format!("S. 0:0(0) ack 1 win 65535 {answered}"));
    }
}

#[test]
fn what_is_switched_off_is_not_agreed_on() {
    for (name, answered) in [
        ("tcp_sack", "<mss 1460,TS 0 100,wscale 8>"),
        ("tcp_window_scaling", "<mss 1460,sackOK,TS 0 100>"),
        ("tcp_timestamps", "<mss 1460,sackOK,wscale 8>"),
    ] {
        let mut config = with("tcp_timestamps", "1");
        config.set(name, "0").unwrap();
        let mut script = Script::listening(config, &SocketOptions::default());
        script.inject("S 0:0(0) win 1000 <mss 1460,sackOK,TS 100 0,nop,wscale 7>");
        script.expect(&format!("S. 0:0(0) ack 1 {answered}"));
    }
}

#[test]
fn timestamps_are_echoed() {
    let mut script = Script::listening(with("tcp_timestamps", "1"), &SocketOptions::default());
    script.inject("S 0:0(0) win 1000 <mss 1460,sackOK,TS 100 0,nop,wscale 7>");
    script.expect("S. 0:0(0) ack 1 <mss 1460,sackOK,TS 0 100,nop,wscale 8>");
    script.sleep_ms(50);
    script.inject(". 1:1(0) ack 1 win 100 <nop,nop,TS 150 0>");
    script.accept();
    script.inject("P. 1:11(10) ack 1 win 100 <nop,nop,TS 151 0>");
    script.expect(". 1:1(0) ack 11 <nop,nop,TS 50 151>");
}

#[test]
fn a_syn_is_sent_again_four_times_at_even_pace_then_ever_slower() {
    let mut script = Script::connecting(plain());
    for seconds in [1, 1, 1, 1, 1, 2, 4, 8, 16, 32] {
        script.sleep_ms(seconds * 1000 - 2);
        script.expect_nothing();
        script.sleep_ms(2);
        script.expect("S 0:0(0)");
    }
    script.sleep_ms(130_000);
    script.expect_nothing();
    assert_eq!(script.engine.take_error(script.id()), Ok(Some(Error::TimedOut)));
}

#[test]
fn a_syn_ack_is_sent_again_ever_slower() {
    let mut script = Script::listening(plain(), &SocketOptions::default());
    script.inject("S 0:0(0) win 1000 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
    for seconds in [1, 2, 4, 8, 16] {
        script.sleep_ms(seconds * 1000 - 2);
        script.expect_nothing();
        script.sleep_ms(2);
        script.expect("S. 0:0(0) ack 1");
    }
    script.sleep_ms(100_000);
    script.expect_nothing();
    assert_eq!(script.engine.counts(), (0, 0, 0));
}

#[test]
fn a_syn_repeated_is_answered_again() {
    let mut script = Script::listening(plain(), &SocketOptions::default());
    script.inject("S 0:0(0) win 1000 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
    script.inject("S 0:0(0) win 1000 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
}

#[test]
fn data_with_the_third_segment_are_delivered() {
    let mut script = Script::listening(plain(), &SocketOptions::default());
    script.inject("S 0:0(0) win 1000 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
    script.inject("P. 1:101(100) ack 1 win 1000");
    script.accept();
    assert_eq!(script.recv(1000), Ok(100));
    script.expect(". 1:1(0) ack 101");
}

#[test]
fn fin_with_the_third_segment_ends_the_stream() {
    let mut script = Script::listening(plain(), &SocketOptions::default());
    script.inject("S 0:0(0) win 1000 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
    script.inject("FP. 1:11(10) ack 1 win 1000");
    script.accept();
    assert_eq!((script.recv(100), script.recv(100), script.state()), (Ok(10), Ok(0), State::CloseWait));
}

#[test]
fn both_open_at_once() {
    let mut script = Script::connecting(plain());
    script.inject("S 0:0(0) win 1000 <mss 1000>");
    script.expect("S. 0:0(0) ack 1");
    assert_eq!(script.state(), State::SynReceived);
    script.inject("S. 0:0(0) ack 1 win 1000 <mss 1000>");
    assert_eq!(script.state(), State::Established);
    script.expect(". 1:1(0) ack 1");
}

#[test]
fn a_simultaneous_open_may_end_with_an_ack_alone() {
    let mut script = Script::connecting(plain());
    script.inject("S 0:0(0) win 1000 <mss 1000>");
    script.expect("S. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1 win 1000");
    assert_eq!(script.state(), State::Established);
}

/// RFC 9293 3.10.7.3, each branch.
#[test]
fn what_arrives_in_syn_sent() {
    for (arrives, answer, state) in [
        (". 0:0(0) ack 0 win 10", Some("R 0:0(0)"), State::SynSent),
        (". 0:0(0) ack 2 win 10", Some("R 2:2(0)"), State::SynSent),
        ("S. 0:0(0) ack 0 win 10", Some("R 0:0(0)"), State::SynSent),
        ("S. 0:0(0) ack 2 win 10", Some("R 2:2(0)"), State::SynSent),
        ("R. 0:0(0) ack 0 win 10", None, State::SynSent),
        ("R. 0:0(0) ack 2 win 10", None, State::SynSent),
        ("R 0:0(0) win 10", None, State::SynSent),
        ("R. 0:0(0) ack 1 win 10", None, State::Closed),
        ("R. 77:77(0) ack 1 win 10", None, State::Closed),
        (". 0:0(0) ack 1 win 10", None, State::SynSent),
        ("F. 0:0(0) ack 1 win 10", None, State::SynSent),
        ("F 0:0(0) win 10", None, State::SynSent),
        ("- 0:0(0) win 10", None, State::SynSent),
        ("P. 0:10(10) ack 1 win 10", None, State::SynSent),
        ("S. 0:0(0) ack 1 win 10", Some(". 1:1(0) ack 1"), State::Established),
        ("S 0:0(0) win 10", Some("S. 0:0(0) ack 1"), State::SynReceived),
    ] {
        let mut script = Script::connecting(plain());
        script.inject(arrives);
        if let Some(answer) = answer {
            script.expect(answer);
        }
        script.expect_nothing();
        assert_eq!(script.state(), state, "{arrives}");
        let error = script.engine.take_error(script.id()).unwrap();
        assert_eq!(error, (state == State::Closed).then_some(Error::ConnectionRefused), "{arrives}");
    }
}

/// RFC 9293 3.10.7.2, each branch.
#[test]
fn what_arrives_at_a_listener() {
    for (arrives, answer) in [
        ("R 0:0(0)", None),
        ("R. 0:0(0) ack 7", None),
        (". 0:0(0) ack 7", Some("R 7:7(0)")),
        ("P. 0:9(9) ack 7", Some("R 7:7(0)")),
        ("F. 0:0(0) ack 7", Some("R 7:7(0)")),
        ("S. 0:0(0) ack 7", Some("R 7:7(0)")),
        ("F 0:0(0)", None),
        ("- 0:0(0)", None),
        ("SF 0:0(0)", None),
        ("S 0:0(0)", Some("S. 0:0(0) ack 1")),
    ] {
        let mut script = Script::listening(plain(), &SocketOptions::default());
        script.inject(arrives);
        if let Some(answer) = answer {
            script.expect(answer);
        }
        script.expect_nothing();
    }
}

/// RFC 9293 3.10.7.1, each branch.
#[test]
fn what_arrives_where_nobody_is() {
    for (arrives, answer) in [
        ("R 0:0(0)", None),
        ("R. 0:0(0) ack 7", None),
        (". 0:0(0) ack 7", Some("R 7:7(0)")),
        ("P. 0:9(9) ack 7", Some("R 7:7(0)")),
        ("FP. 0:9(9) ack 7", Some("R 7:7(0)")),
        ("S. 0:0(0) ack 7", Some("R 7:7(0)")),
        ("S 5:5(0)", Some("R. 0:0(0) ack 6")),
        ("F 5:5(0)", Some("R. 0:0(0) ack 6")),
        ("FP 5:14(9)", Some("R. 0:0(0) ack 15")),
        ("- 5:5(0)", Some("R. 0:0(0) ack 5")),
    ] {
        let mut script = Script::new(plain());
        script.inject(arrives);
        if let Some(answer) = answer {
            script.expect(answer);
        }
        script.expect_nothing();
    }
}

/// RFC 9293 3.10.7.4 for SYN-RECEIVED on the passive side, each branch.
#[test]
fn what_arrives_for_a_half_open_connection() {
    for (arrives, answer, left) in [
        ("R 1:1(0)", None, (0, 0)),
        ("R. 1:1(0) ack 1", None, (0, 0)),
        ("R 2:2(0)", Some(". 1:1(0) ack 1"), (0, 1)),
        ("R 70000:70000(0)", None, (0, 1)),
        ("R 0:0(0)", None, (0, 1)),
        ("S 0:0(0)", Some("S. 0:0(0) ack 1"), (0, 1)),
        ("S 1:1(0)", Some("R. 0:0(0) ack 2"), (0, 0)),
        ("S 70000:70000(0)", Some(". 1:1(0) ack 1"), (0, 1)),
        (". 1:1(0) ack 0", Some("R 0:0(0)"), (0, 1)),
        (". 1:1(0) ack 2", Some("R 2:2(0)"), (0, 1)),
        (". 70000:70000(0) ack 1", Some(". 1:1(0) ack 1"), (0, 1)),
        ("- 1:1(0)", None, (0, 1)),
        ("F 1:1(0)", None, (0, 1)),
        (". 1:1(0) ack 1", None, (1, 0)),
    ] {
        let mut script = Script::listening(plain(), &SocketOptions::default());
        script.inject("S 0:0(0) win 65535 <mss 1460>");
        script.expect("S. 0:0(0) ack 1");
        script.inject(arrives);
        if let Some(answer) = answer {
            script.expect(answer);
        }
        script.expect_nothing();
        let (connections, half_open, _) = script.engine.counts();
        assert_eq!((connections, half_open), left, "{arrives}");
    }
}

#[test]
fn a_full_accept_queue_holds_newcomers_off() {
    let mut script = Script::new(plain());
    script.listener = Some(script.engine.listen(script.ours, 1, &SocketOptions::default()).unwrap());
    for port in 1..=2 {
        script.theirs.port = port;
        script.inject("S 0:0(0) win 65535 <mss 1460>");
        script.expect("S. 0:0(0) ack 1");
        script.inject(". 1:1(0) ack 1");
    }
    script.theirs.port = 3;
    script.inject("S 0:0(0) win 65535 <mss 1460>");
    script.expect_nothing();
    script.accept();
    script.inject("S 0:0(0) win 65535 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
}

#[test]
fn a_closed_listener_resets_what_waits() {
    let mut script = Script::listening(plain(), &SocketOptions::default());
    script.inject("S 0:0(0) win 65535 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1");
    script.engine.close_listener(script.now, script.listener.unwrap()).unwrap();
    script.expect("R. 1:1(0) ack 1");
    assert_eq!(script.engine.counts(), (0, 0, 0));
}

#[test]
fn an_mss_is_taken_from_the_syn_or_assumed() {
    for (offered, segment) in [("<mss 1000>", 1000), ("<>", 536), ("<mss 9000>", 1460), ("<mss 10>", 48)] {
        let mut script = Script::listening(plain(), &SocketOptions::default());
        script.inject(&format!("S 0:0(0) win 65535 {offered}"));
        script.expect("S. 0:0(0) ack 1");
        script.inject(". 1:1(0) ack 1 win 65535");
        script.accept();
        script.send(5000);
        script.expect(&format!(". 1:{}({segment}) ack 1", segment + 1));
    }
}

#[test]
fn a_listener_may_wait_for_data() {
    let options = SocketOptions { defer_accept_s: 3, ..SocketOptions::default() };
    let mut script = Script::listening(plain(), &options);
    script.inject("S 0:0(0) win 1000 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1 win 1000");
    assert_eq!(script.engine.counts(), (0, 1, 0));
    script.sleep_ms(1500);
    script.expect_nothing();
    script.inject("P. 1:11(10) ack 1 win 1000");
    script.accept();
    assert_eq!(script.recv(100), Ok(10));
}

#[test]
fn it_waits_so_long_and_no_longer() {
    let options = SocketOptions { defer_accept_s: 3, ..SocketOptions::default() };
    let mut script = Script::listening(plain(), &options);
    script.inject("S 0:0(0) win 1000 <mss 1460>");
    script.expect("S. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1 win 1000");
    script.sleep_ms(8000);
    script.expect("S. 0:0(0) ack 1");
    script.inject(". 1:1(0) ack 1 win 1000");
    assert_eq!(script.engine.counts(), (1, 0, 0));
}
