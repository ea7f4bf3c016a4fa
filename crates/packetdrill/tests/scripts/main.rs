//! The project's own conformance scripts, played through the C interface that packetdrill uses.
//!
//! Scripts are `cases/*.drill`: packetdrill's lines (calls, segments, ICMP errors, assertions on TCP_INFO), and a few
//! lines of our own that make many small cases short to write:
//!
//! ```text
//! define established          # lines under a name, up to a blank line; all files see those of shared.drill
//! case NAME: SOURCE           # a case begins; SOURCE is the RFC's section or Linux's function that it shows
//! set NAME=VALUE              # a setting (sysctl) of this case
//! over ipv4                   # the case makes sense over this version only
//! use established             # the lines of that name
//! ```
//!
//! A line without a time happens at once (`+0`). Each case runs over IPv4 and IPv6 with an engine of its own, and every
//! byte that goes either way is checked, also that nothing more comes out than was said (except after `lenient`).
//! `RINGWAY_DRILL_ONLY=TEXT` plays the cases whose names contain TEXT, `RINGWAY_DRILL_FOLDER` those of another folder.

mod assertion;
mod blocking;
mod book;
mod call;
mod flow;
mod host;
mod icmp;
mod options;
mod player;
mod segment;
mod syntax;
mod words;

use book::Case;
use flow::Version;
use host::Host;
use player::Play;

/// Fewer would mean that files were not read.
const CASES_MIN: usize = 300;

fn cases() -> Vec<Case> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/cases").to_owned();
    let folder = std::env::var("RINGWAY_DRILL_FOLDER");
    let all = book::read(folder.as_ref().unwrap_or(&own).as_ref());
    assert!(folder.is_ok() || all.len() >= CASES_MIN, "only {} cases in {own}", all.len());
    let wanted = std::env::var("RINGWAY_DRILL_ONLY").unwrap_or_default();
    all.into_iter().filter(|case| case.name.contains(&wanted)).collect()
}

/// Plays every case; says which failed and how.
fn play_all(version: Version) {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.runs_over(version)).collect();
    let play = |case: &Case| Play::new(Host::new(version, &case.settings), version).run(case);
    let report = |case: &Case, why| format!("{} ({}): {why}", case.name, case.source);
    let failures: Vec<String> = cases.iter().filter_map(|case| play(case).err().map(|why| report(case, why))).collect();
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn cases_pass_over_ipv4() {
    play_all(Version::V4);
}

#[test]
fn cases_pass_over_ipv6() {
    play_all(Version::V6);
}

#[test]
fn names_are_unique_and_every_case_names_its_source() {
    let mut names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
    names.sort();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before, "two cases of one name");
    assert!(cases().iter().all(|case| !case.source.is_empty()));
}

/// A wrong script must fail: whatever of it is wrong.
#[test]
fn a_wrong_expectation_is_found() {
    let wrong = [
        "> S. 0:0(0) ack 2 <mss 1460>",
        "> S. 0:0(0) ack 1 <mss 1461>",
        "> S. 0:0(0) ack 1",
        "> S 0:0(0) ack 1 <mss 1460>",
        "> S. 0:0(0) ack 1 win 7 <mss 1460>",
        "+.1 > S. 0:0(0) ack 1 <mss 1460>",
        "accept(3, ..., ...) = 4",
    ];
    for expectation in wrong {
        let text = format!(
            "case x: y\nset tcp_timestamps=0\nsocket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
            fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0\nbind(3, ..., ...) = 0\nlisten(3, 1) = 0\n\
            < S 0:0(0) win 1000 <mss 1460>\n{expectation}\n"
        );
        let case = &book::parse("x", &text, &mut book::Shared::new())[0];
        let result = Play::new(Host::new(Version::V4, &case.settings), Version::V4).run(case);
        assert!(result.is_err(), "{expectation}");
    }
}
