//! Monitors, by their flags in a registration.

use ringway_mem::slot::NS_TXMON;

use super::*;

fn received(device: &Device) -> Vec<u8> {
    device.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    take(device)
}

#[test]
fn copy_monitors_see_frames_on_their_way_and_ns_txmon_marks_sent_ones() {
    let (a, b) = pipe("mon");
    let (tx, rx) = (Device::default(), Device::default());
    let got = register(&tx, "mon{1", mode::ALL_NIC, flag::MONITOR_TX).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings, got.nr_rx_slots), (1, 1, 1024));
    register(&rx, "mon}1", mode::ALL_NIC, flag::MONITOR_RX).unwrap();
    for byte in 0..5 {
        put(&a, byte);
        a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
        assert_eq!(received(&tx), [byte]);
        assert!(received(&rx).is_empty());
        assert_eq!(received(&b), [byte]);
        assert_eq!(received(&rx), [byte]);
    }
    assert_eq!(ring(&tx, Kind::Rx).slots()[0].load().flags & NS_TXMON, NS_TXMON);
    assert_eq!(ring(&rx, Kind::Rx).slots()[0].load().flags & NS_TXMON, 0);
}

#[test]
fn a_zero_copy_monitor_sees_received_frames_after_their_release_and_sent_ones_too() {
    let (a, b) = pipe("zmon");
    let monitor = Device::default();
    register(&monitor, "zmon}1", mode::ALL_NIC, flag::ZCOPY_MON).unwrap();
    put(&a, 7);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(received(&b), [7]);
    assert!(received(&monitor).is_empty());
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(received(&monitor), [7]);
    put(&b, 8);
    b.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(received(&monitor), [8]);
}

#[test]
fn monitors_of_a_switch_port_and_of_one_ring() {
    let (a, b) = (Device::default(), Device::default());
    let two = Register { nr_mode: mode::ALL_NIC, nr_tx_rings: 2, nr_rx_rings: 2, ..Register::default() };
    register_with(&a, "valeMon:a", two, 0).unwrap();
    register(&b, "valeMon:b", mode::ALL_NIC, 0).unwrap();
    let monitor = Device::default();
    let one = Register { nr_mode: mode::ONE_NIC, nr_ringid: 1, nr_flags: flag::MONITOR_TX, ..Register::default() };
    let got = register_with(&monitor, "valeMon:a", one, 0).unwrap();
    assert_eq!(got.nr_rx_rings, 2);
    put(&a, 0xff);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(received(&b), [0xff]);
    monitor.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert!(take(&monitor).is_empty(), "ring 0 is not the monitored one");
}

#[test]
fn a_monitor_sends_nothing_and_ends_with_its_port() {
    let (a, b) = pipe("monend");
    let monitor = Device::default();
    assert_eq!(register(&monitor, "nothere{1", mode::ALL_NIC, flag::MONITOR_TX), Err(Errno::NXIO));
    assert_eq!(register(&monitor, "monend", mode::SW, flag::MONITOR_TX), Err(Errno::NXIO));
    register(&monitor, "monend{1", mode::ALL_NIC, flag::MONITOR_TX).unwrap();
    assert_eq!(monitor.poll(PollFlags::IN), PollFlags::empty());
    put(&monitor, 1);
    assert_eq!(monitor.ioctl(abi::NIOCTXSYNC, 0), Err(Errno::IO));
    drop((a, b));
    assert_eq!(monitor.ioctl(abi::NIOCRXSYNC, 0), Err(Errno::NXIO));
    assert_eq!(monitor.poll(PollFlags::IN), PollFlags::ERR);
}

#[test]
fn a_monitor_passed_by_its_descriptor_goes_on() {
    let (a, _b) = pipe("monpass");
    let monitor = Device::default();
    register(&monitor, "monpass{1", mode::ALL_NIC, flag::MONITOR_TX).unwrap();
    let copy = monitor.with_binding(|binding| binding.port.fd().try_clone_to_owned().unwrap());
    let adopted = Device::adopt(copy).unwrap();
    drop(monitor);
    put(&a, 9);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(received(&adopted), [9]);
}
