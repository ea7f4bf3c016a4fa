//! Names: what parses, what does not and where, and that nothing panics.

use super::*;
use proptest::prelude::*;

fn parsed(name: &str) -> PortName {
    name.parse().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_form_of_the_grammar_parses_and_displays_as_it_was() {
    for name in [
        "netmap:eth0",
        "netmap:eth0-3",
        "netmap:eth0^",
        "netmap:eth0^1",
        "netmap:eth0*",
        "netmap:eth0{0",
        "netmap:x}65535",
        "netmap:x{pipe_id1/x",
        "netmap:eth0-3/xzR@7",
        "netmap:eth0/tr",
        "vale0:a",
        "vale:b",
        "vale_s1:port.2-0/x",
        "vale0:a@share:vale1:b",
        "netmap:p{1@conf:tx-rings=2,rx-rings=3,tx-slots=512,rx-slots=256",
        "netmap:eth0@extmem:/tmp/pool,buf-num=1000,buf-size=4096@offset:64,bits=16",
        "netmap:eth0@extmem:",
        "shm:demo",
        "shm:demo/x",
        "xdp:eth0",
        "xdp:eth0/3",
        "tap:t0",
        "tap:t0@conf:tx-rings=2,rx-rings=2",
        "packet:eth0",
        "null:",
        "null:60",
    ] {
        assert_eq!(parsed(name).to_string(), name);
    }
    assert_eq!(parsed("pcap:a/b/R").to_string(), "pcap:a/b/R");
    assert_eq!(parsed("pcap:a/b.pcapng").to_string(), "pcap:a/b.pcapng/R");
}

#[test]
fn short_keys_stand_for_both_sides() {
    let conf = parsed("netmap:p{1@conf:rings=4,slots=128").options.conf;
    assert_eq!((conf.tx_rings, conf.rx_rings, conf.tx_slots, conf.rx_slots), (4, 4, 128, 128));
}

#[test]
fn errors_say_where_and_what() {
    for (name, at, expected) in [
        ("eth0", 0, "scheme"),
        ("foo:eth0", 0, "scheme"),
        ("netmap:", 7, "interface"),
        ("netmap:eth0-", 12, "ring number"),
        ("netmap:eth0-x", 12, "ring number"),
        ("netmap:eth0-70000", 12, "0 to 65535"),
        ("netmap:eth0{", 12, "pipe's id"),
        ("netmap:eth0{seventeen_letters", 12, "pipe's id"),
        ("netmap:eth0/xq", 13, "a flag"),
        ("netmap:eth0/xx", 13, "each once"),
        ("netmap:eth0/RT", 13, "not both"),
        ("netmap:eth0@", 12, "share: conf:"),
        ("netmap:eth0@conf:slots", 17, "KEY=N"),
        ("netmap:eth0@conf:slots=", 23, "a number"),
        ("netmap:eth0@1@2", 14, "each once"),
        ("netmap:eth0 ", 11, "RINGS"),
        ("xdp:eth0/", 9, "queue"),
        ("xdp:eth0-1", 8, "queue"),
        ("tap:t0/y", 7, "a flag"),
        ("shm:", 4, "a name"),
        ("pcap:", 5, "a file"),
        ("null:x", 5, "packet length"),
        ("vale-:a", 0, "scheme"),
    ] {
        let error = name.parse::<PortName>().unwrap_err();
        assert_eq!(error.at, at, "{error}");
        assert!(error.expected.contains(expected), "{name}: {error}");
        assert!(error.to_string().contains(GRAMMAR));
    }
}

#[test]
fn the_longest_name_parses_in_full() {
    let keys = "rings=16777216,host-rings=16777216,slots=16777216";
    let port = "a".repeat(40);
    let file = "f".repeat(512);
    let name = format!(
        "vale{0}:{port}{{{0}/xztrR@65535@share:{port}@conf:{keys}@extmem:{file},buf-num=16777216,buf-size=16777216\
         @offset:65535,bits=16777216",
        "1".repeat(16)
    );
    for name in [name, format!("pcap:{file}")] {
        let parsed = parsed(&name);
        assert!(parsed.to_string().len() > name.len());
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
    }
    let error = format!("pcap:{file}f").parse::<PortName>().unwrap_err();
    assert!((error.at, error.expected.contains("at most 512 bytes")) == (5, true), "{error}");
}

proptest! {
    #[test]
    fn whatever_parses_parses_again_to_the_same(name in "(netmap|vale[0-9]?|shm|xdp|tap|pcap|null):[a-z0-9]{0,4}[-^*{}/@xzR0-9:=,a-z]{0,12}") {
        if let Ok(first) = name.parse::<PortName>() {
            prop_assert_eq!(first.to_string().parse::<PortName>(), Ok(first));
        }
    }

    #[test]
    fn nothing_panics(name in "\\PC{0,40}") {
        if let Err(error) = name.parse::<PortName>() {
            prop_assert!(error.to_string().contains("is expected"));
        }
    }
}
