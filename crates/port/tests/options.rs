//! Every suffix of a name acts, or is refused by name.

use ringway_port::{PortError, open, registry};

fn refusal(name: &str) -> String {
    match open(name) {
        Err(PortError::Refused { why, .. }) => why,
        other => panic!("{name}: {:?}", other.err()),
    }
}

#[test]
fn share_and_regions_act_on_pipes_and_private_ports() {
    let own = open("netmap:optown{1").unwrap();
    let shared = open("netmap:optother{1@share:optown").unwrap();
    assert_eq!(shared.info().pool_id, own.info().pool_id);
    let region = registry::region_of(own.pool());
    for name in [format!("netmap:optthird{{1@{region}"), "shm:optshm@share:optown".to_owned()] {
        assert_eq!(open(&name).unwrap().info().pool_id, own.info().pool_id, "{name}");
    }
    assert!(refusal("netmap:x{1@65000").contains("no open port has a memory region"));
    assert!(refusal(&format!("netmap:x{{1@{region}@share:optown")).contains("leave one out"));
}

#[test]
fn what_devices_do_not_share_is_refused() {
    assert!(refusal("tap:optdev@share:optown").contains("leave @share out"));
    assert!(refusal("netmap:optdev@share:optown").contains("leave @share out"));
    assert!(refusal("packet:optdev@share:optown").contains("leave @share out"));
}

#[test]
fn offsets_and_files_are_refused() {
    for name in ["netmap:opt{1@offset:64", "tap:opt@offset:64", "shm:opt@offset:64,bits=8"] {
        assert!(refusal(name).contains("OFFSETS"), "{name}");
    }
    for name in ["netmap:opt{1@extmem:/dev/hugepages/x", "shm:opt@extmem:file,buf-num=100"] {
        assert!(refusal(name).contains("leave the file out"), "{name}");
    }
}

#[test]
fn extmem_without_a_file_says_how_large_the_memory_is() {
    let port = open("netmap:optsize{1@extmem:,buf-num=9000,buf-size=4096").unwrap();
    let config = port.pool().config();
    assert_eq!((config.buffers, config.buffer_bytes), (9000, 4096));
}

#[test]
fn flags_act() {
    let _a = open("netmap:optflag{1").unwrap();
    assert!(matches!(open("netmap:optflag{1/x"), Err(PortError::Pool(_))), "somebody has it");
    let only = open("netmap:optflag}1/xR").unwrap();
    assert_eq!((only.tx_rings(), only.rx_rings()), (0, 1));
    drop(only);
    let only = open("netmap:optflag}1/T").unwrap();
    assert_eq!((only.tx_rings(), only.rx_rings()), (1, 0));
    for (letters, rings) in [("r", 1), ("t", 1), ("rt", 1), ("z", 1), ("zr", 1)] {
        assert_eq!(open(&format!("netmap:optflag{{1/{letters}")).unwrap().rx_rings(), rings);
    }
    assert!(refusal("shm:optflag/r").contains("nobody else's traffic"));
}
