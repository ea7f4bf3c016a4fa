//! Requests about switches and their ports, in both forms of the interface.

use super::*;
use crate::abi::{NewInterface, Polling, PortHeader, ValeList, legacy};

fn request(kind: u16, name: &str, body: &mut [u8]) -> Result<(), Errno> {
    control(&Device::default(), kind, name, body, 0).map(|answer| assert_eq!(answer, Answer::Done))
}

fn attach(name: &str) -> Result<(), Errno> {
    let mut body = [0; Register::BYTES + 8];
    body[..Register::BYTES].copy_from_slice(&Register { nr_mode: mode::ALL_NIC, ..Register::default() }.to_bytes());
    request(reqtype::VALE_ATTACH, name, &mut body)
}

fn legacy_request(ioctl: u32, name: &str, fields: Legacy) -> Result<(String, Legacy), Errno> {
    let mut bytes = Legacy { nr_version: 11, ..fields }.to_bytes();
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Device::default().ioctl(ioctl, bytes.as_mut_ptr() as u64)?;
    Ok((crate::request::name(&bytes[abi::LEGACY_NAME]), Legacy::from_bytes(&bytes)))
}

fn header(name: &str) -> Result<u32, Errno> {
    let mut body = PortHeader::default().to_bytes();
    request(reqtype::PORT_HDR_GET, name, &mut body).map(|()| PortHeader::from_bytes(&body).nr_hdr_len)
}

fn set_header(name: &str, nr_hdr_len: u32) -> Result<(), Errno> {
    request(reqtype::PORT_HDR_SET, name, &mut PortHeader { nr_hdr_len }.to_bytes())
}

/// The names of all ports, one request for each.
fn walk() -> Vec<String> {
    let (mut names, mut at) = (vec![], ValeList::default());
    loop {
        let mut body = at.to_bytes();
        let nr_body = body.as_mut_ptr() as u64;
        let header = Header { nr_version: 14, nr_reqtype: reqtype::VALE_LIST, nr_body, ..Header::default() };
        let mut bytes = header.to_bytes();
        match Device::default().ioctl(abi::NIOCCTRL, bytes.as_mut_ptr() as u64) {
            Ok(_) => names.push(crate::request::name(&bytes[abi::HEADER_NAME])),
            Err(errno) => {
                assert_eq!(errno, Errno::NOENT);
                return names;
            }
        }
        at = ValeList::from_bytes(&body);
        at.nr_port_idx += 1;
    }
}

#[test]
fn vale_list_walks_over_all_ports_and_finds_one_by_name() {
    let (a, b) = (Device::default(), Device::default());
    register(&a, "valeList:a", mode::ALL_NIC, 0).unwrap();
    register(&b, "valeList:b", mode::ALL_NIC, 0).unwrap();
    let mut place = ValeList::default().to_bytes();
    request(reqtype::VALE_LIST, "valeList:b", &mut place).unwrap();
    let found = ValeList::from_bytes(&place);
    assert_eq!(found.nr_port_idx, 1);
    // Other tests' switches come and go, so that places move: one of many walks finds both, in order.
    let finds_both = |_| walk().windows(2).any(|names| names == ["valeList:a", "valeList:b"]);
    assert!((0..1000).any(finds_both));
    assert_eq!(request(reqtype::VALE_LIST, "valeList:c", &mut place), Err(Errno::NOENT));
    assert_eq!(request(reqtype::VALE_LIST, "eth0", &mut place), Err(Errno::INVAL));
    let (name, old) =
        legacy_request(abi::NIOCGINFO, "valeList:b", Legacy { nr_cmd: legacy::CMD_LIST, ..Legacy::default() }).unwrap();
    assert_eq!((name.as_str(), old.nr_arg2), ("valeList:b", 1));
}

#[test]
fn persistent_interfaces_are_made_attached_detached_and_removed() {
    let mut rings = NewInterface { nr_tx_rings: 2, nr_rx_rings: 3, nr_tx_slots: 64, ..NewInterface::default() };
    rings.nr_rx_slots = 128;
    let newif = |name: &str| request(reqtype::VALE_NEWIF, name, &mut rings.to_bytes());
    let delif = |name: &str| request(reqtype::VALE_DELIF, name, &mut []);
    let detach = |name: &str| request(reqtype::VALE_DETACH, name, &mut [0; 8]);
    assert_eq!(newif("pers0"), Ok(()));
    assert_eq!(newif("pers0"), Err(Errno::EXIST));
    assert_eq!(newif("lo"), Err(Errno::EXIST));
    assert_eq!(newif("vale0:x"), Err(Errno::INVAL));
    assert_eq!(delif("pers1"), Err(Errno::NXIO));
    assert_eq!(detach("valePers:pers0"), Err(Errno::NXIO));
    assert_eq!(attach("valePers:pers0"), Ok(()));
    assert_eq!(attach("valePers:pers0"), Err(Errno::BUSY));
    assert_eq!(delif("pers0"), Err(Errno::BUSY));
    // A frame waits for whoever opens it later.
    let (a, late) = (Device::default(), Device::default());
    register(&a, "valePers:a", mode::ALL_NIC, 0).unwrap();
    put(&a, 0xff);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    let got = register(&late, "valePers:pers0", mode::ALL_NIC, 0).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings, got.nr_tx_slots, got.nr_rx_slots), (2, 3, 64, 128));
    late.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(take(&late), [0xff]);
    assert_eq!(detach("valePers:pers0"), Err(Errno::BUSY));
    drop(late);
    assert_eq!(detach("valeOther:pers0"), Err(Errno::NXIO));
    assert_eq!(detach("valePers:pers0"), Ok(()));
    assert_eq!(delif("pers0"), Ok(()));
}

#[test]
fn network_devices_are_not_attached_nor_polled() {
    assert_eq!(attach("valeNic:lo"), Err(Errno::OPNOTSUPP));
    assert_eq!(attach("valeNic:nothere"), Err(Errno::NXIO));
    assert_eq!(attach("lo"), Err(Errno::INVAL));
    for kind in [reqtype::VALE_POLLING_ENABLE, reqtype::VALE_POLLING_DISABLE] {
        assert_eq!(request(kind, "valeNic:lo", &mut Polling::default().to_bytes()), Err(Errno::OPNOTSUPP));
        assert_eq!(request(kind, "lo", &mut Polling::default().to_bytes()), Err(Errno::INVAL));
    }
}

#[test]
fn header_lengths_are_of_switch_ports_and_must_be_accepted() {
    let a = Device::default();
    register(&a, "valeHdr:a", mode::ALL_NIC, 0).unwrap();
    assert_eq!(header("valeHdr:a"), Ok(0));
    for bytes in [10, 12] {
        assert_eq!(set_header("valeHdr:a", bytes), Ok(()));
        assert_eq!(header("valeHdr:a"), Ok(bytes));
    }
    assert_eq!(register(&Device::default(), "valeHdr:a", mode::ALL_NIC, 0), Err(Errno::IO));
    register(&Device::default(), "valeHdr:a", mode::ALL_NIC, flag::ACCEPT_VNET_HDR).unwrap();
    assert_eq!(set_header("valeHdr:a", 11), Err(Errno::INVAL));
    assert_eq!(set_header("valeHdr:b", 12), Err(Errno::NXIO));
    assert_eq!(set_header("hdrpipe{1", 12), Err(Errno::NXIO));
    assert_eq!(header("lo"), Ok(0));
    assert_eq!(header("nothere"), Err(Errno::NXIO));
}

#[test]
fn each_old_command_does_what_its_new_twin_does() {
    let regif = |name: &str, nr_cmd: u16, nr_arg1: u16| {
        legacy_request(abi::NIOCREGIF, name, Legacy { nr_cmd, nr_arg1, ..Legacy::default() })
            .map(|(_, fields)| fields.nr_arg1)
    };
    assert_eq!(regif("oldpers", legacy::CMD_NEWIF, 0), Ok(0));
    assert_eq!(regif("valeOld:oldpers", legacy::CMD_ATTACH, 0), Ok(0));
    assert_eq!(regif("valeOld:oldpers", legacy::CMD_VNET_HDR, 12), Ok(12));
    assert_eq!(regif("valeOld:oldpers", legacy::CMD_VNET_HDR_GET, 0), Ok(12));
    assert_eq!(regif("valeOld:oldpers", legacy::CMD_VNET_HDR, 11), Err(Errno::INVAL));
    assert_eq!(regif("oldpers", legacy::CMD_DELIF, 0), Err(Errno::BUSY));
    assert_eq!(regif("valeOld:oldpers", legacy::CMD_DETACH, 0), Ok(0));
    assert_eq!(regif("oldpers", legacy::CMD_DELIF, 0), Ok(0));
    assert_eq!(regif("valeOld:lo", legacy::CMD_ATTACH, legacy::ATTACH_HOST), Err(Errno::OPNOTSUPP));
    for cmd in [3, 8, 9, legacy::CMD_POLLING_ON, legacy::CMD_POLLING_OFF, 14, u16::MAX] {
        assert_eq!(regif("valeOld:lo", cmd, 0), Err(Errno::OPNOTSUPP), "nr_cmd {cmd}");
    }
    let _end = pipe("oldpools");
    let mut pools = [0_u8; abi::LegacyPools::BYTES];
    let address = pools.as_mut_ptr() as u64;
    let fields = Legacy {
        nr_cmd: legacy::CMD_POOLS_INFO,
        nr_arg1: address as u16,
        nr_arg2: (address >> 16) as u16,
        nr_arg3: (address >> 32) as u32,
        ..Legacy::default()
    };
    legacy_request(abi::NIOCREGIF, "oldpools{1", fields).unwrap();
    assert_eq!(abi::LegacyPools::from_bytes(&pools).buf_pool_objsize, 2048);
}

#[test]
fn old_pipes_have_their_id_apart() {
    let old = |nr_flags: u32| {
        let device = Device::default();
        let request = Legacy { nr_version: 11, nr_flags, nr_ringid: 7, ..Legacy::default() };
        let mut bytes = request.to_bytes();
        bytes[..6].copy_from_slice(b"oldfix");
        assert_eq!(device.ioctl(abi::NIOCREGIF, bytes.as_mut_ptr() as u64), Ok(Answer::Bound));
        device
    };
    let (a, b) = (old(mode::PIPE_MASTER), old(mode::PIPE_SLAVE));
    put(&a, 5);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(take(&b), [5]);
}
