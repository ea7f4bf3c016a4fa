//! Each clause of the interface that is served, by its ioctls: what comes back, and which errors.

mod csb;
mod monitors;
mod randomised;
mod slots;
mod vale;

use crate::abi::{self, Header, Legacy, PoolsInfo, PortInfo, Register, flag, mode, option, reqtype};
use crate::{Answer, Device};
use ringway_mem::pool::{Kind, Ring};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;

/// A request as a program would lay it out in its memory.
fn control(device: &Device, kind: u16, name: &str, body: &mut [u8], options: u64) -> Result<Answer, Errno> {
    let nr_body = if body.is_empty() { 0 } else { body.as_mut_ptr() as u64 };
    let header = Header { nr_version: 14, nr_reqtype: kind, nr_options: options, nr_body, ..Header::default() };
    let mut bytes = header.to_bytes();
    bytes[abi::HEADER_NAME][..name.len()].copy_from_slice(name.as_bytes());
    device.ioctl(abi::NIOCCTRL, bytes.as_mut_ptr() as u64)
}

fn register_with(device: &Device, name: &str, request: Register, options: u64) -> Result<Register, Errno> {
    let mut body = request.to_bytes();
    let answer = control(device, reqtype::REGISTER, name, &mut body, options)?;
    assert_eq!(answer, Answer::Bound);
    Ok(Register::from_bytes(&body))
}

fn register(device: &Device, name: &str, nr_mode: u32, nr_flags: u64) -> Result<Register, Errno> {
    register_with(device, name, Register { nr_mode, nr_flags, ..Register::default() }, 0)
}

/// Both ends of a pipe.
fn pipe(name: &str) -> (Device, Device) {
    let ends = (Device::default(), Device::default());
    register(&ends.0, &format!("{name}{{1"), mode::ALL_NIC, 0).unwrap();
    register(&ends.1, &format!("{name}}}1"), mode::ALL_NIC, 0).unwrap();
    ends
}

fn ring(device: &Device, kind: Kind) -> Ring {
    device.with_binding(|binding| {
        let registration = binding.port.registration();
        registration.pool().ring(registration.port(), kind, 0).unwrap()
    })
}

/// Fills the next slot with one byte.
fn put(device: &Device, byte: u8) {
    let ring = ring(device, Kind::Tx);
    let head = ring.header().head.load(Relaxed);
    let cell = &ring.slots()[head as usize];
    let mut slot = cell.load();
    ring.pool().copy_in(slot.buf_idx, 0, &[byte]);
    (slot.len, slot.flags) = (60, 0);
    cell.store(slot);
    ring.header().head.store(ring.next(head), Relaxed);
    ring.header().cur.store(ring.next(head), Relaxed);
}

/// The first bytes of what was received, all of it given back.
fn take(device: &Device) -> Vec<u8> {
    let ring = ring(device, Kind::Rx);
    let (mut head, tail) = (ring.header().head.load(Relaxed), ring.header().tail.load(Relaxed));
    let mut bytes = vec![];
    while head != tail {
        let mut byte = [0];
        ring.pool().copy_out(ring.slots()[head as usize].load().buf_idx, 0, &mut byte);
        bytes.push(byte[0]);
        head = ring.next(head);
    }
    ring.header().head.store(head, Relaxed);
    ring.header().cur.store(head, Relaxed);
    bytes
}

#[test]
fn an_unbound_descriptor_is_enxio_and_pollerr() {
    let device = Device::default();
    assert_eq!(device.ioctl(abi::NIOCTXSYNC, 0), Err(Errno::NXIO));
    assert_eq!(device.ioctl(abi::NIOCRXSYNC, 0), Err(Errno::NXIO));
    assert_eq!(device.poll(PollFlags::IN), PollFlags::ERR);
}

#[test]
fn a_descriptor_is_bound_once() {
    let device = Device::default();
    register(&device, "once{1", mode::ALL_NIC, 0).unwrap();
    assert_eq!(register(&device, "once}1", mode::ALL_NIC, 0), Err(Errno::BUSY));
}

#[test]
fn syncs_carry_packets_in_order() {
    let (a, b) = pipe("order");
    (0..5).for_each(|byte| put(&a, byte));
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(take(&b), [0, 1, 2, 3, 4]);
}

#[test]
fn poll_does_the_io() {
    let (a, b) = pipe("poll");
    put(&a, 7);
    assert_eq!(b.poll(PollFlags::IN), PollFlags::empty());
    assert_eq!(a.poll(PollFlags::empty()), PollFlags::empty(), "waiting slots are sent, whatever is asked for");
    assert_eq!(b.poll(PollFlags::IN), PollFlags::IN);
    assert_eq!(take(&b), [7]);
    assert_eq!(b.poll(PollFlags::IN), PollFlags::empty());
    assert_eq!(a.poll(PollFlags::OUT), PollFlags::OUT);
}

#[test]
fn nr_no_tx_poll_sends_only_when_asked_for_room() {
    let (a, b) = (Device::default(), Device::default());
    register(&a, "notx{1", mode::ALL_NIC, flag::NO_TX_POLL).unwrap();
    register(&b, "notx}1", mode::ALL_NIC, 0).unwrap();
    put(&a, 7);
    a.poll(PollFlags::IN);
    assert_eq!(b.poll(PollFlags::IN), PollFlags::empty());
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(b.poll(PollFlags::IN), PollFlags::IN);
}

#[test]
fn nr_do_rx_poll_receives_without_being_asked() {
    let (a, b) = (Device::default(), Device::default());
    register(&a, "dorx{1", mode::ALL_NIC, 0).unwrap();
    register(&b, "dorx}1", mode::ALL_NIC, flag::DO_RX_POLL).unwrap();
    for byte in 0..2 {
        put(&a, byte);
        a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
        assert_eq!(b.poll(PollFlags::IN), PollFlags::IN);
        assert_eq!(take(&b), [byte]);
        let released = ring(&b, Kind::Rx).header().head.load(Relaxed);
        b.poll(PollFlags::empty());
        assert_eq!(ring(&b, Kind::Rx).kring().own.rhead.load(Relaxed), released);
    }
}

#[test]
fn impossible_ring_words_are_an_error_and_the_ring_starts_over() {
    let (a, b) = pipe("wild");
    for (head, cur) in [(u32::MAX, 0), (5, 4), (0, 1024)] {
        let tx = ring(&a, Kind::Tx);
        tx.header().head.store(head, Relaxed);
        tx.header().cur.store(cur, Relaxed);
        assert_eq!(a.ioctl(abi::NIOCTXSYNC, 0), Err(Errno::INVAL));
        tx.header().head.store(head, Relaxed);
        tx.header().cur.store(cur, Relaxed);
        assert_eq!(a.poll(PollFlags::OUT), PollFlags::ERR);
        put(&a, 9);
        a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
        b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
        assert_eq!(take(&b), [9]);
    }
}

#[test]
fn rings_of_one_side_only() {
    let device = Device::default();
    register(&device, "side{1", mode::ALL_NIC, flag::RX_RINGS_ONLY).unwrap();
    put(&device, 1);
    device.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(ring(&device, Kind::Tx).kring().own.rhead.load(Relaxed), 0, "the tx ring is not bound");
}

#[test]
fn an_exclusive_open_needs_the_port_for_itself() {
    let (a, b) = (Device::default(), Device::default());
    register(&a, "excl{1", mode::ALL_NIC, flag::EXCLUSIVE).unwrap();
    assert_eq!(register(&b, "excl{1", mode::ALL_NIC, 0), Err(Errno::BUSY));
    drop(a);
    register(&b, "excl{1", mode::ALL_NIC, 0).unwrap();
    assert_eq!(register(&Device::default(), "excl{1", mode::ALL_NIC, flag::EXCLUSIVE), Err(Errno::BUSY));
}

#[test]
fn extra_buffers_are_a_list_and_come_back_at_the_close() {
    let (a, other) = pipe("extra");
    let pool = other.with_binding(|binding| binding.port.pool().clone());
    let free = pool.account().free;
    let device = Device::default();
    let request = Register { nr_mode: mode::ALL_NIC, nr_extra_bufs: 20, ..Register::default() };
    let got = register_with(&device, "extra{1", request, 0).unwrap();
    assert_eq!((got.nr_extra_bufs, pool.account().free), (20, free - 20));
    let mut next =
        device.with_binding(|b| b.port.registration_mut().own_interface().unwrap().1.bufs_head.load(Relaxed));
    for _ in 0..20 {
        assert!(next > 1);
        let mut bytes = [0; 4];
        pool.copy_out(next, 0, &mut bytes);
        next = u32::from_ne_bytes(bytes);
    }
    assert_eq!(next, 0);
    drop(device);
    assert_eq!(pool.account().free, free);
    drop(a);
}

#[test]
fn null_ports_have_the_rings_that_are_asked_for_in_the_region_that_is() {
    let request = Register {
        nr_mode: mode::NULL,
        nr_mem_id: 1,
        nr_tx_rings: 10,
        nr_rx_rings: 5,
        nr_tx_slots: 256,
        nr_rx_slots: 100,
        ..Register::default()
    };
    let (a, b) = (Device::default(), Device::default());
    let got = register_with(&a, "any", request, 0).unwrap();
    assert_eq!((got.nr_tx_rings, got.nr_rx_rings, got.nr_tx_slots, got.nr_rx_slots), (10, 5, 256, 100));
    assert_eq!(got.nr_mem_id, 1);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    let zero = Register { nr_mode: mode::NULL, nr_mem_id: 1, ..Register::default() };
    let got = register_with(&b, "any", zero, 0).unwrap();
    assert!(got.nr_tx_rings > 0 && got.nr_rx_slots > 0 && got.nr_mem_id == 1);
}

#[test]
fn both_ends_of_a_pipe_share_memory_and_others_do_not() {
    let mem_id = |name: &str| register(&Device::default(), name, mode::ALL_NIC, 0).unwrap().nr_mem_id;
    let (a, _b) = pipe("memory");
    assert_eq!(mem_id("memory}1"), a.with_binding(|binding| binding.mem_id()));
    assert_ne!(mem_id("memory}1"), mem_id("elsewhere}1"));
}

#[test]
fn a_memory_id_acts_while_there_is_such_memory() {
    let open = |device: &Device, name: &str, nr_mem_id: u16| {
        let request = Register { nr_mode: mode::ALL_NIC, nr_mem_id, ..Register::default() };
        register_with(device, name, request, 0).unwrap().nr_mem_id
    };
    let (first, second) = (Device::default(), Device::default());
    let id = open(&first, "memid{1", 0);
    assert_eq!(open(&second, "memidother{1", id), id, "the other port's memory");
    drop((first, second));
    assert_ne!(open(&Device::default(), "memid{1", id), id, "that memory is gone");
}

#[test]
fn ports_and_pools_say_what_they_are_like() {
    let device = Device::default();
    let mut body = PortInfo::default().to_bytes();
    control(&device, reqtype::PORT_INFO_GET, "info}pipeid3", &mut body, 0).unwrap();
    let info = PortInfo::from_bytes(&body);
    assert_eq!((info.nr_tx_rings, info.nr_rx_rings, info.nr_tx_slots, info.nr_rx_slots), (1, 1, 1024, 1024));
    let mut body = PoolsInfo::default().to_bytes();
    control(&device, reqtype::POOLS_INFO_GET, "info{xid", &mut body, 0).unwrap();
    let pools = PoolsInfo::from_bytes(&body);
    assert_eq!((pools.nr_memsize, pools.nr_buf_pool_objsize), (info.nr_memsize, 2048));
    assert_eq!(control(&device, reqtype::POOLS_INFO_GET, "", &mut body, 0), Err(Errno::INVAL));
}

#[test]
fn offsets_are_set_up_or_refused_in_nro_status() {
    let mut bytes =
        abi::Offsets { nro_max_offset: 128, nro_initial_offset: 64, nro_offset_bits: 16, ..Default::default() };
    for (initial, expected) in [(64, Ok(())), (129, Err(Errno::INVAL))] {
        bytes.nro_initial_offset = initial;
        let mut copy = bytes.to_bytes();
        copy[8..12].copy_from_slice(&option::OFFSETS.to_ne_bytes());
        let device = Device::default();
        let request = Register { nr_mode: mode::ALL_NIC, ..Register::default() };
        let result = register_with(&device, "offset{1", request, copy.as_mut_ptr() as u64);
        assert_eq!(result.map(|_| ()), expected);
        let status = i32::from_ne_bytes(copy[12..16].try_into().unwrap());
        assert_eq!(status, expected.err().map_or(0, Errno::raw_os_error));
        if expected.is_ok() {
            let tx = ring(&device, Kind::Tx);
            assert_eq!((tx.header().offset_mask.load(Relaxed), tx.slots()[3].load().ptr), (0xffff, 64));
        }
    }
}

#[test]
fn what_is_not_served_is_eopnotsupp_in_status_and_answer() {
    for kind in [option::EXTMEM, option::SYNC_KLOOP_MODE, 1234] {
        let mut bytes = [0u8; 128];
        bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
        let device = Device::default();
        let request = Register { nr_mode: mode::ALL_NIC, ..Register::default() };
        let result = register_with(&device, "unserved{1", request, bytes.as_mut_ptr() as u64);
        assert_eq!(result, Err(Errno::OPNOTSUPP), "option {kind}");
        assert_eq!(i32::from_ne_bytes(bytes[12..16].try_into().unwrap()), Errno::OPNOTSUPP.raw_os_error());
    }
}

#[test]
fn broken_requests_are_errors() {
    let device = Device::default();
    assert_eq!(device.ioctl(abi::NIOCCTRL, 0x10), Err(Errno::FAULT));
    assert_eq!(device.ioctl(0x1234, 0), Err(Errno::OPNOTSUPP));
    for kind in [0, 16, u16::MAX] {
        assert_eq!(control(&device, kind, "x{1", &mut [], 0), Err(Errno::INVAL), "request {kind}");
    }
    assert_eq!(control(&device, reqtype::REGISTER, "x{1", &mut [], 0), Err(Errno::INVAL), "no body");
    assert_eq!(control(&device, reqtype::CSB_ENABLE, "x{1", &mut [0; 8], 0), Err(Errno::INVAL), "a body");
    let mut old = Header { nr_version: 13, nr_reqtype: reqtype::REGISTER, ..Header::default() }.to_bytes();
    assert_eq!(device.ioctl(abi::NIOCCTRL, old.as_mut_ptr() as u64), Err(Errno::INVAL));
    assert_eq!(Header::from_bytes(&old).nr_version, 14);
}

#[test]
fn the_old_interface_from_version_11_on() {
    for version in [10, 11, 12, 16] {
        let device = Device::default();
        let request =
            Legacy { nr_version: version, nr_flags: mode::ALL_NIC, nr_arg3: 20, nr_ringid: 0, ..Legacy::default() };
        let mut bytes = request.to_bytes();
        bytes[..5].copy_from_slice(b"old{1");
        let result = device.ioctl(abi::NIOCREGIF, bytes.as_mut_ptr() as u64);
        let answer = Legacy::from_bytes(&bytes);
        if version < 11 {
            assert_eq!(result, Err(Errno::INVAL));
            continue;
        }
        assert_eq!(result, Ok(Answer::Bound));
        assert_eq!((answer.nr_tx_rings, answer.nr_tx_slots, answer.nr_arg3), (1, 1024, 20));
        assert_eq!((answer.nr_flags, &bytes[..5]), (mode::ALL_NIC, &b"old{1"[..]));
        device.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    }
}

#[test]
fn switch_ports_forward_and_their_pipes_are_in_their_memory() {
    let (a, b) = (Device::default(), Device::default());
    register(&a, "valeT:a", mode::ALL_NIC, 0).unwrap();
    register(&b, "valeT:b", mode::ALL_NIC, 0).unwrap();
    put(&a, 0xff);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(take(&b), [0xff]);
    let end = Device::default();
    let got = register(&end, "valeT:a{ex", mode::ALL_NIC, 0).unwrap();
    assert_eq!(got.nr_mem_id, a.with_binding(|binding| binding.mem_id()));
    assert_eq!(register(&Device::default(), "valeT:c", mode::SW, 0), Err(Errno::NXIO));
}

#[test]
fn a_descriptor_from_elsewhere_goes_on_where_it_was() {
    let (a, b) = (Device::default(), Device::default());
    register(&a, "passed{1", mode::ALL_NIC, flag::TX_RINGS_ONLY).unwrap();
    register(&b, "passed}1", mode::ALL_NIC, 0).unwrap();
    let copy = a.with_binding(|binding| binding.port.fd().try_clone_to_owned().unwrap());
    let adopted = Device::adopt(copy).unwrap();
    assert_eq!(adopted.with_binding(|binding| (binding.tx.clone(), binding.rx.clone())), (0..1, 0..0));
    drop(a);
    put(&adopted, 3);
    adopted.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(take(&b), [3]);
}

#[test]
fn a_port_of_a_switch_is_shared_passed_on_and_detached_with_its_last_user() {
    let (a, b) = (Device::default(), Device::default());
    register(&a, "valePass:a", mode::ALL_NIC, 0).unwrap();
    register(&b, "valePass:b", mode::ALL_NIC, 0).unwrap();
    assert_eq!(register(&Device::default(), "valePass:a", mode::ALL_NIC, flag::EXCLUSIVE), Err(Errno::BUSY));
    let second = Device::default();
    register(&second, "valePass:a", mode::ONE_NIC, 0).unwrap();
    let copy = a.with_binding(|binding| binding.port.fd().try_clone_to_owned().unwrap());
    let adopted = Device::adopt(copy).unwrap();
    assert_eq!(adopted.with_binding(|binding| binding.port.info().name.clone()), "valePass:a");
    drop((a, second));
    put(&adopted, 0xff);
    adopted.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    b.ioctl(abi::NIOCRXSYNC, 0).unwrap();
    assert_eq!(take(&b), [0xff]);
    let pool = b.with_binding(|binding| binding.port.pool().clone());
    assert_eq!(pool.ports().count(), 2);
    drop(adopted);
    assert_eq!(pool.ports().count(), 1);
}

#[test]
fn offsets_where_data_is_copied_are_refused_in_nro_status() {
    let mut bytes = abi::Offsets { nro_max_offset: 128, nro_offset_bits: 16, ..Default::default() }.to_bytes();
    bytes[8..12].copy_from_slice(&option::OFFSETS.to_ne_bytes());
    let request = Register { nr_mode: mode::ALL_NIC, ..Register::default() };
    let result = register_with(&Device::default(), "valeOff:a", request, bytes.as_mut_ptr() as u64);
    assert_eq!(result, Err(Errno::OPNOTSUPP));
    assert_eq!(i32::from_ne_bytes(bytes[12..16].try_into().unwrap()), Errno::OPNOTSUPP.raw_os_error());
}

#[test]
fn arrivals_are_counted_for_edges() {
    let (a, b) = pipe("edges");
    put(&a, 1);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(b.poll_for_edge(PollFlags::IN), PollFlags::IN);
    let first = b.progress();
    assert_eq!((b.poll_for_edge(PollFlags::IN), b.progress()), (PollFlags::IN, first), "nothing new");
    put(&a, 2);
    a.ioctl(abi::NIOCTXSYNC, 0).unwrap();
    assert_eq!(b.poll_for_edge(PollFlags::IN), PollFlags::IN);
    assert!(b.progress().since(first).contains(PollFlags::IN), "an edge, though the first packet was not taken");
    assert_eq!(take(&b), [1, 2]);
    assert_eq!(b.poll_for_edge(PollFlags::IN), PollFlags::empty());
}
