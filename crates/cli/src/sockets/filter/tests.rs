use proptest::prelude::*;

use super::*;
use crate::sockets::State;

fn socket(local: &str, peer: &str) -> Socket {
    Socket {
        state: State::Established,
        recv_queue_bytes: 0,
        send_queue_bytes: 0,
        local: local.parse().unwrap(),
        peer: peer.parse().unwrap(),
        uid: 0,
        inode: 1,
        via: Via::Ring,
        reason: None,
        remedy: None,
        processes: Vec::new(),
        ring: None,
    }
}

fn shows(filter: &str, socket: &Socket) -> bool {
    parse(filter).unwrap_or_else(|e| panic!("{e}")).matches(socket)
}

#[test]
fn tests_and_operators() {
    let s = socket("127.0.0.1:7000", "127.0.0.1:40000");
    for yes in [
        "",
        "sport = :7000",
        "sport :7000",
        "sport=7000",
        "( sport = :7000 )",
        "dport > :1024 and dport <= 40000",
        "dport gt 1024 sport ge 7000",
        "src 127.0.0.1",
        "src = 127.0.0.0/8:7000",
        "dst 127.0.0.1:40000",
        "src *:7000",
        "not sport = :80",
        "!sport=:80",
        "sport = :80 or dport = :40000",
        "sport = :80 | ( sport = :7000 & dport = :40000 )",
        "src != 10.0.0.1",
        "via ring",
        "via != tcp",
        "reason != no-partner",
        "state established sport = :7000",
        "src [::ffff:127.0.0.1]",
        "src 0.0.0.0/0",
    ] {
        assert!(shows(yes, &s), "{yes}");
    }
    for no in ["sport = :80", "dport < 1024", "src 10.0.0.0/8", "via tcp", "reason no-partner", "src ::1", "not src *"]
    {
        assert!(!shows(no, &s), "{no}");
    }
}

#[test]
fn ipv6_addresses_with_and_without_port() {
    let s = socket("[2001:db8::1]:80", "[2001:db8::2]:9");
    for yes in [
        "src [2001:db8::1]:80",
        "src 2001:db8::1",
        "src 2001:db8::/32",
        "dst [2001:db8::]/32",
        "src [2001:db8::]/32:80",
    ] {
        assert!(shows(yes, &s), "{yes}");
    }
    assert!(!shows("src [2001:db8::1]:81", &s));
    assert!(!shows("src 127.0.0.1", &s));
}

#[test]
fn and_binds_tighter_than_or() {
    let s = socket("127.0.0.1:1", "127.0.0.1:2");
    assert!(shows("sport = 1 or sport = 9 and dport = 9", &s));
    assert!(!shows("( sport = 1 or sport = 9 ) and dport = 9", &s));
}

#[test]
fn states_unite_and_exclude_as_in_ss() {
    let states = |text: &str| parse(text).unwrap().states;
    assert_eq!(states("sport = 1"), None);
    let both = States::of(State::Established).with(States::of(State::Listening));
    assert_eq!(states("state established state listening"), Some(both));
    assert_eq!(states("exclude listening"), Some(States::ALL.without(States::of(State::Listening))));
}

#[test]
fn errors_point_at_the_word() {
    let cases = [
        ("spot = :80", "unknown word `spot`", "^^^^"),
        ("sport = :http80x", "`http80x` is no port", "        ^^^^^^^^"),
        ("sport = :70000", "`70000` is no port", "        ^^^^^^"),
        ("state establish", "unknown state `establish`", "      ^^^^^^^^^"),
        ("src 300.0.0.1", "no address", "    ^^^^^^^^^"),
        ("src 10.0.0.0/33", "no prefix length", "    ^^^^^^^^^^^"),
        ("( sport = 1", "expected `)`", "           ^"),
        ("sport = 1 )", "closes nothing", "          ^"),
        ("sport =", "ends too early", "       ^"),
        ("src > 10.0.0.1", "only = and !=", "    ^"),
        ("via udp", "unknown path", "    ^^^"),
        ("reason because", "unknown reason", "       ^^^^^^^"),
        ("sport = 1 and", "ends too early", "             ^"),
    ];
    for (text, problem, mark) in cases {
        let said = parse(text).unwrap_err().to_string();
        let lines: Vec<_> = said.lines().collect();
        assert!(lines[0].contains(problem), "{text}: {said}");
        assert_eq!(lines[2].strip_prefix("  "), Some(mark), "{text}: {said}");
    }
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("{}sport = 1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(parse(&deep).unwrap_err().to_string().contains("64 brackets"));
    let long = vec!["sport = 1"; 1000].join(" or ");
    assert!(parse(&long).is_ok());
}

/// A tree as text, with every bracket written out.
fn render(expression: &Expression) -> String {
    match expression {
        Expression::Or(a, b) => format!("({} or {})", render(a), render(b)),
        Expression::And(a, b) => format!("({} and {})", render(a), render(b)),
        Expression::Not(a) => format!("not ({})", render(a)),
        Expression::Port { side, comparison, port } => {
            let side = if *side == Side::Source { "sport" } else { "dport" };
            let operator = match comparison {
                Comparison::Equal => "=",
                Comparison::NotEqual => "!=",
                Comparison::Greater => ">",
                Comparison::GreaterOrEqual => ">=",
                Comparison::Less => "<",
                Comparison::LessOrEqual => "<=",
            };
            format!("{side} {operator} :{port}")
        }
        Expression::Via { via, equal } => format!("via {} {}", if *equal { "=" } else { "!=" }, via.name()),
        Expression::Reason { name, equal } => format!("reason {} {name}", if *equal { "=" } else { "!=" }),
        Expression::Address { side, network, port, equal } => {
            let side = if *side == Side::Source { "src" } else { "dst" };
            let host = match network.0 {
                None => "*".into(),
                Some((IpAddr::V6(ip), prefix)) => format!("[{ip}]/{prefix}"),
                Some((ip, prefix)) => format!("{ip}/{prefix}"),
            };
            let port = port.map_or(String::new(), |p| format!(":{p}"));
            format!("{side} {} {host}{port}", if *equal { "=" } else { "!=" })
        }
    }
}

fn expressions() -> impl Strategy<Value = Expression> {
    let side = prop_oneof![Just(Side::Source), Just(Side::Destination)];
    let comparison = prop_oneof![
        Just(Comparison::Equal),
        Just(Comparison::NotEqual),
        Just(Comparison::Greater),
        Just(Comparison::GreaterOrEqual),
        Just(Comparison::Less),
        Just(Comparison::LessOrEqual),
    ];
    let network = prop_oneof![
        Just(Network(None)),
        (any::<std::net::Ipv4Addr>(), 0u8..=32).prop_map(|(ip, p)| Network(Some((ip.into(), p)))),
        (any::<std::net::Ipv6Addr>(), 0u8..=128).prop_map(|(ip, p)| Network(Some((ip.into(), p)))),
    ];
    let leaf = prop_oneof![
        (side.clone(), comparison, any::<u16>()).prop_map(|(side, comparison, port)| Expression::Port {
            side,
            comparison,
            port
        }),
        (side, network, any::<Option<u16>>(), any::<bool>())
            .prop_map(|(side, network, port, equal)| Expression::Address { side, network, port, equal }),
        any::<bool>().prop_map(|equal| Expression::Via { via: Via::Tcp, equal }),
        any::<bool>().prop_map(|equal| Expression::Reason { name: "no-partner".into(), equal }),
    ];
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expression::Or(a.into(), b.into())),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expression::And(a.into(), b.into())),
            inner.prop_map(|a| Expression::Not(a.into())),
        ]
    })
}

proptest! {
    #[test]
    fn a_rendered_tree_is_read_back(expression in expressions()) {
        prop_assert_eq!(parse(&render(&expression)).unwrap().expression, Some(expression));
    }

    #[test]
    fn no_text_panics(text in "[ a-z0-9():/.*=!<>&|\\[\\]é]{0,60}") {
        let _ = parse(&text).map_err(|e| e.to_string());
    }

    #[test]
    fn no_order_of_words_panics(words in proptest::collection::vec(
        prop_oneof![Just("src"), Just("sport"), Just("("), Just(")"), Just("not"), Just("and"), Just("or"), Just("="),
            Just(":80"), Just("::1"), Just("state"), Just("all"), Just("via"), Just("ring")], 0..20)) {
        let _ = parse(&words.join(" ")).map_err(|e| e.to_string());
    }
}
