use proptest::prelude::*;

use super::*;
use crate::headers::tests::udp_v4;
use crate::modules::hub::Hub;

fn verdict(rules: &str, port: u8, bytes: &[u8]) -> Verdict {
    let filter = Filter::parse(rules, Hub).unwrap();
    let mut frames = [Frame::of(bytes)];
    filter.lookup(&mut Source { port, ..Source::default() }, 0, &mut frames);
    frames[0].verdict
}

#[test]
fn each_key_matches_what_it_names_and_nothing_else() {
    let bytes = udp_v4([10, 1, 2, 3], [192, 168, 0, 9], (1000, 53), Some(7));
    let cases = [
        ("port=4", "port=5"),
        ("ether=ipv4", "ether=0x86dd"),
        ("vlan=7", "vlan=8"),
        ("smac=02:00:00:00:00:02", "smac=02:00:00:00:00:01"),
        ("dmac=02:00:00:00:00:01", "dmac=02:00:00:00:00:02"),
        ("src=10.0.0.0/8", "src=11.0.0.0/8"),
        ("dst=192.168.0.9", "dst=192.168.0.8"),
        ("src=0.0.0.0/0", "src=::/0"),
        ("proto=udp", "proto=6"),
        ("sport=1000", "sport=1001-65535"),
        ("dport=1-53", "dport=1-52"),
        ("proto=udp dport=53 vlan=7", "proto=udp dport=53 vlan=8"),
    ];
    for (hit, miss) in cases {
        assert_eq!(verdict(&format!("drop {hit}"), 4, &bytes), Verdict::Drop, "{hit}");
        assert_eq!(verdict(&format!("drop {miss}"), 4, &bytes), Verdict::Broadcast, "{miss}");
    }
}

#[test]
fn the_first_match_wins_and_its_action_is_done() {
    let bytes = udp_v4([10, 1, 2, 3], [192, 168, 0, 9], (1000, 53), None);
    let rules = "# a comment\n\npass vlan=1 # no\nto 3 proto=udp\ndrop";
    assert_eq!(verdict(rules, 0, &bytes), Verdict::To { port: 3, ring: 0 });
    assert_eq!(verdict("broadcast\ndrop", 0, &bytes), Verdict::Broadcast);
    assert_eq!(verdict("pass proto=udp\ndrop", 0, &bytes), Verdict::Broadcast);
    let mut later_fragment = bytes.clone();
    later_fragment[21] = 1;
    assert_eq!(verdict("drop dport=0-65535", 0, &later_fragment), Verdict::Broadcast);
}

/// What does not pass is not seen behind the filter; what passes keeps its order and its places.
#[test]
fn only_what_passes_is_seen_behind() {
    struct Counting(std::sync::atomic::AtomicUsize);
    impl Forward for Counting {
        fn lookup(&self, _source: &mut Source, _now_ns: u64, frames: &mut [Frame]) {
            self.0.fetch_add(frames.len(), std::sync::atomic::Ordering::Relaxed);
            frames.iter_mut().for_each(|frame| frame.verdict = Verdict::To { port: 9, ring: 0 });
        }
    }
    let filter = Filter::parse("drop dport=53", Counting(0.into())).unwrap();
    let frame = |port| Frame::of(&udp_v4([10, 0, 0, 1], [10, 0, 0, 2], (1, port), None));
    let mut frames: Vec<Frame> = [53, 1, 2, 53, 53, 3].into_iter().map(frame).collect();
    filter.lookup(&mut Source::default(), 0, &mut frames);
    let passed: Vec<bool> = frames.iter().map(|frame| frame.verdict != Verdict::Drop).collect();
    assert_eq!(passed, [false, true, true, false, false, true]);
    assert_eq!(filter.behind.0.into_inner(), 3);
}

#[test]
fn errors_name_line_and_key() {
    let error = |text: &str| Filter::parse(text, Hub).err().unwrap().to_string();
    assert_eq!(error("pass\nreject"), "line 2: unknown action `reject`; use pass, drop, broadcast or to PORT");
    assert_eq!(error("to 254"), "line 1: to=254: not a number from 0 to 253");
    assert_eq!(
        error("drop host=1.2.3.4"),
        "line 1: unknown key `host`; use port, ether, vlan, smac, dmac, src, dst, proto, sport, dport"
    );
    assert_eq!(error("drop vlan"), "line 1: `vlan` is not KEY=VALUE");
    assert_eq!(error("\n\ndrop vlan=4096"), "line 3: vlan=4096: not a number from 0 to 4095");
    assert_eq!(error("drop vlan=1 vlan=2"), "line 1: `vlan` is there twice");
    assert_eq!(error("drop dport=9-1"), "line 1: dport=9-1: the first port is above the last");
    assert_eq!(
        error("drop src=10.1.0.0/8"),
        "line 1: src: `10.1.0.0/8` has bits set behind its length; write 10.0.0.0/8"
    );
    assert_eq!(error("drop smac=1:2:3"), "line 1: smac=1:2:3: not an address like 02:00:00:00:00:01");
    assert!(error("drop proto=quic").starts_with("line 1: proto=quic: not icmp, tcp"));
    assert!(error("drop ether=ip").starts_with("line 1: ether=ip: not ipv4, arp"));
    assert_eq!(error(&"drop\n".repeat(RULES_MAX + 1)), "line 1025: more than 1024 rules");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(pass|drop|to|#| |\n|[a-z]{1,6}=[0-9a-fx:./-]{0,12}){0,20}") {
        let _ = Filter::parse(&text, Hub);
    }
}
