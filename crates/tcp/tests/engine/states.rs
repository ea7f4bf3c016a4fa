//! Every synchronized state against every class of segment: a table, an outcome for each (RFC 9293 3.10.7.4, RFC 5961).

use crate::script::Script;
use ringway_tcp::{Config, State};

/// A connection in `state`; our FIN, where one was sent, is at 1, the peer's, where one came, at 1.
fn script_in(state: State) -> Script {
    let mut config = Config::default();
    config.set("tcp_timestamps", "0").unwrap();
    let mut script = Script::accepted(config);
    let peer_ends = |script: &mut Script, ack: u32| {
        script.inject(&format!("F. 1:1(0) ack {ack} win 1000"));
        script.drain();
    };
    match state {
        State::Established => {}
        State::CloseWait => peer_ends(&mut script, 1),
        State::FinWait1 => {
            script.shutdown();
            script.expect("F. 1:1(0) ack 1");
        }
        State::FinWait2 => {
            script.shutdown();
            script.expect("F. 1:1(0) ack 1");
            script.inject(". 1:1(0) ack 2 win 1000");
        }
        State::Closing => {
            script.shutdown();
            script.expect("F. 1:1(0) ack 1");
            peer_ends(&mut script, 1);
        }
        State::LastAck => {
            peer_ends(&mut script, 1);
            script.shutdown();
            script.expect("F. 1:1(0) ack 2");
        }
        State::TimeWait => {
            script.shutdown();
            script.expect("F. 1:1(0) ack 1");
            script.inject(". 1:1(0) ack 2 win 1000");
            peer_ends(&mut script, 2);
        }
        other => panic!("{other:?}"),
    }
    script.expect_nothing();
    if state != State::TimeWait {
        assert_eq!(script.state(), state);
    }
    script
}

/// What our next sequence number and our acknowledgement are in a state.
fn numbers(state: State) -> (u32, u32) {
    let ours = match state {
        State::Established | State::CloseWait => 1,
        _ => 2,
    };
    let theirs = match state {
        State::Established | State::FinWait1 | State::FinWait2 => 1,
        _ => 2,
    };
    (ours, theirs)
}

const STATES: [State; 6] =
    [State::Established, State::CloseWait, State::FinWait1, State::FinWait2, State::Closing, State::LastAck];

/// Injects and says whether an acknowledgement of where we are, and nothing else, came out.
#[track_caller]
fn expect_plain_ack(script: &mut Script, state: State) {
    let (seq, ack) = numbers(state);
    script.expect(&format!(". {seq}:{seq}(0) ack {ack}"));
    script.expect_nothing();
    assert_eq!(script.state(), state);
}

#[test]
fn a_syn_is_challenged_whatever_its_number() {
    for state in STATES {
        for seq in [0, 1, 2, 500, 100_000] {
            for flags in ["S", "S.", "SP", "SF."] {
                let mut script = script_in(state);
                let ack = if flags.contains('.') { "ack 1" } else { "" };
                script.inject(&format!("{flags} {seq}:{seq}(0) {ack} win 1000"));
                expect_plain_ack(&mut script, state);
            }
        }
    }
}

#[test]
fn a_reset_counts_only_with_the_exact_number() {
    for state in STATES {
        let (_, next) = numbers(state);
        for flags in ["R", "R."] {
            let ack = if flags == "R." { "ack 1" } else { "" };
            let mut script = script_in(state);
            script.inject(&format!("{flags} {next}:{next}(0) {ack}"));
            script.expect_nothing();
            assert_eq!(script.state(), State::Closed, "{state:?}");

            let mut script = script_in(state);
            script.inject(&format!("{flags} {}:{}(0) {ack}", next + 1, next + 1));
            expect_plain_ack(&mut script, state);

            for outside in [next + 200_000, next.wrapping_sub(200_000)] {
                let mut script = script_in(state);
                script.inject(&format!("{flags} {outside}:{outside}(0) {ack}"));
                script.expect_nothing();
                assert_eq!(script.state(), state);
            }
        }
    }
}

#[test]
fn a_segment_without_ack_is_dropped() {
    for state in STATES {
        let (_, next) = numbers(state);
        for flags in ["-", "P", "F"] {
            let mut script = script_in(state);
            script.inject(&format!("{flags} {next}:{}(10) win 1000", next + 10));
            script.expect_nothing();
            assert_eq!(script.state(), state);
        }
    }
}

#[test]
fn an_ack_of_what_was_never_sent_is_answered_and_dropped() {
    for state in STATES {
        let (ours, next) = numbers(state);
        let mut script = script_in(state);
        script.inject(&format!("P. {next}:{}(10) ack {} win 1000", next + 10, ours + 1));
        expect_plain_ack(&mut script, state);
        script.inject(&format!(". {next}:{next}(0) ack {} win 1000", ours + 1_000_000));
        script.expect_nothing();
        assert_eq!(script.state(), state, "answered seldom");
    }
}

#[test]
fn an_ack_from_long_ago_is_challenged() {
    for state in STATES {
        let (_, next) = numbers(state);
        let mut script = script_in(state);
        script.inject(&format!("P. {next}:{}(10) ack {} win 1000", next + 10, 0u32.wrapping_sub(2_000_000_000)));
        expect_plain_ack(&mut script, state);
    }
}

#[test]
fn a_segment_behind_the_window_is_answered() {
    for state in STATES {
        let (_, next) = numbers(state);
        let mut script = script_in(state);
        script.inject(&format!("P. {}:{}(10) ack 1 win 1000", next + 200_000, next + 200_010));
        expect_plain_ack(&mut script, state);
    }
}

#[test]
fn a_segment_before_the_window_is_answered() {
    for state in STATES {
        let mut script = script_in(state);
        script.inject(&format!("P. {}:{}(10) ack 1 win 1000", 0u32.wrapping_sub(100), 0u32.wrapping_sub(90)));
        let (seq, ack) = numbers(state);
        script.expect(&format!(". {seq}:{seq}(0) ack {ack}"));
        script.expect_nothing();
        assert_eq!(script.state(), state);
    }
}

#[test]
fn a_duplicate_ack_changes_nothing() {
    for state in STATES {
        let (_, next) = numbers(state);
        let mut script = script_in(state);
        script.inject(&format!(". {next}:{next}(0) ack 1 win 1000"));
        script.expect_nothing();
        assert_eq!(script.state(), state);
    }
}

#[test]
fn the_ack_of_our_fin_leads_on() {
    for (state, after) in
        [(State::FinWait1, State::FinWait2), (State::Closing, State::Closed), (State::LastAck, State::Closed)]
    {
        let (_, next) = numbers(state);
        let mut script = script_in(state);
        script.inject(&format!(". {next}:{next}(0) ack 2 win 1000"));
        script.expect_nothing();
        assert_eq!(script.state(), after);
        let (_, _, time_waits) = script.engine.counts();
        assert_eq!(time_waits, usize::from(state == State::Closing));
    }
}

#[test]
fn the_peers_fin_leads_on() {
    for (state, ack, after) in [
        (State::Established, 1, State::CloseWait),
        (State::FinWait1, 1, State::Closing),
        (State::FinWait1, 2, State::Closed),
        (State::FinWait2, 2, State::Closed),
    ] {
        let mut script = script_in(state);
        script.inject(&format!("F. 1:1(0) ack {ack} win 1000"));
        script.sleep_ms(300);
        let (seq, _) = numbers(state);
        script.expect(&format!(". {seq}:{seq}(0) ack 2"));
        assert_eq!(script.state(), after);
        assert_eq!(script.engine.counts().2, usize::from(after == State::Closed));
    }
}

#[test]
fn a_fin_with_data_ends_the_stream_behind_them() {
    for state in [State::Established, State::FinWait1, State::FinWait2] {
        let mut script = script_in(state);
        let (seq, _) = numbers(state);
        script.inject(&format!("FP. 1:11(10) ack {seq} win 1000"));
        script.sleep_ms(300);
        script.expect(&format!(". {seq}:{seq}(0) ack 12"));
        assert_eq!((script.recv(100), script.recv(100)), (Ok(10), Ok(0)));
    }
}

#[test]
fn data_are_taken_where_the_peer_may_still_send() {
    for state in [State::Established, State::FinWait1, State::FinWait2] {
        let mut script = script_in(state);
        script.inject("P. 1:11(10) ack 1 win 1000");
        let (seq, _) = numbers(state);
        script.expect(&format!(". {seq}:{seq}(0) ack 11"));
        assert_eq!(script.recv(100), Ok(10));
        assert_eq!(script.state(), state);
    }
}

#[test]
fn data_behind_the_peers_fin_are_ignored() {
    for state in [State::CloseWait, State::Closing, State::LastAck] {
        let mut script = script_in(state);
        script.inject("P. 2:12(10) ack 1 win 1000");
        script.expect_nothing();
        assert_eq!((script.state(), script.recv(100)), (state, Ok(0)));
    }
}

#[test]
fn a_fin_repeated_is_acknowledged_again() {
    for state in [State::CloseWait, State::Closing, State::LastAck] {
        let mut script = script_in(state);
        script.inject("F. 1:1(0) ack 1 win 1000");
        expect_plain_ack(&mut script, state);
    }
}

#[test]
fn an_early_fin_waits_for_the_gap() {
    for state in [State::Established, State::FinWait1, State::FinWait2] {
        let (seq, _) = numbers(state);
        let mut script = script_in(state);
        script.inject(&format!("FP. 11:21(10) ack {seq} win 1000"));
        script.expect(&format!(". {seq}:{seq}(0) ack 1 <nop,nop,sack 11:21>"));
        assert_eq!(script.state(), if state == State::FinWait1 { State::FinWait2 } else { state });
        script.inject(&format!("P. 1:11(10) ack {seq} win 1000"));
        script.expect(&format!(". {seq}:{seq}(0) ack 22"));
        assert_eq!(script.recv(100), Ok(20));
        assert_eq!(script.recv(100), Ok(0));
    }
}

/// Data for an application that has closed are lost: the peer must know.
#[test]
fn data_after_close_are_refused() {
    for acknowledged in [1, 2] {
        let mut script = script_in(State::Established);
        script.close();
        script.expect("F. 1:1(0) ack 1");
        script.inject(&format!("P. 1:11(10) ack {acknowledged} win 1000"));
        script.expect(&format!("R {acknowledged}:{acknowledged}(0)"));
        script.expect_nothing();
        assert_eq!(script.engine.counts(), (0, 0, 0));
    }
}

#[test]
fn closing_with_unread_data_resets() {
    let mut script = script_in(State::Established);
    script.inject("P. 1:11(10) ack 1 win 1000");
    script.drain();
    script.close();
    script.expect("R. 1:1(0) ack 11");
    assert_eq!(script.engine.counts(), (0, 0, 0));
}

#[test]
fn lingering_for_no_time_resets() {
    let mut script = script_in(State::Established);
    script.configure(|options| options.linger_s = Some(0));
    script.close();
    script.expect("R. 1:1(0) ack 1");
}

#[test]
fn abort_resets_every_synchronized_state() {
    for state in STATES {
        let mut script = script_in(state);
        let (seq, ack) = numbers(state);
        script.engine.abort(script.now, script.id()).unwrap();
        script.expect(&format!("R. {seq}:{seq}(0) ack {ack}"));
        script.expect_nothing();
        assert_eq!(script.engine.counts(), (0, 0, 0));
    }
}

/// TIME-WAIT against every class of segment.
#[test]
fn what_arrives_in_time_wait() {
    for (arrives, answer, records) in [
        // The peer's FIN again: our last acknowledgement was lost.
        ("F. 1:1(0) ack 2", Some(". 2:2(0) ack 2"), 1),
        (". 2:2(0) ack 2", None, 1),
        ("P. 1:1(0) ack 2", Some(". 2:2(0) ack 2"), 1),
        ("P. 2:12(10) ack 2", Some(". 2:2(0) ack 2"), 1),
        ("R 2:2(0)", None, 0),
        ("R 3:3(0)", None, 1),
        ("R. 1:1(0) ack 2", None, 1),
        ("S. 5:5(0) ack 2", Some(". 2:2(0) ack 2"), 1),
        ("S 0:0(0)", Some(". 2:2(0) ack 2"), 1),
        ("- 1:1(0)", Some(". 2:2(0) ack 2"), 1),
    ] {
        let mut script = script_in(State::TimeWait);
        script.inject(arrives);
        if let Some(answer) = answer {
            script.expect(answer);
        }
        script.expect_nothing();
        assert_eq!(script.engine.counts().2, records, "{arrives}");
    }
}

#[test]
fn a_new_syn_ends_time_wait_early() {
    let mut script = script_in(State::TimeWait);
    script.close();
    script.inject("S 5000:5000(0) win 65535 <mss 1460>");
    script.expect("S. 0:0(0) ack 5001");
    assert_eq!(script.engine.counts(), (0, 1, 0));
    script.inject(". 5001:5001(0) ack 1 win 1000");
    assert_eq!(script.engine.counts(), (1, 0, 0));
}

#[test]
fn time_wait_ends_after_a_minute() {
    let mut script = script_in(State::TimeWait);
    script.close();
    script.sleep_ms(59_900);
    assert_eq!(script.engine.counts().2, 1);
    script.sleep_ms(200);
    assert_eq!(script.engine.counts().2, 0);
}

#[test]
fn resets_are_ignored_in_time_wait_if_told_to() {
    let mut script = script_in(State::TimeWait);
    script.engine.config_mut().set("tcp_rfc1337", "1").unwrap();
    script.inject("R 2:2(0)");
    assert_eq!(script.engine.counts().2, 1);
}
