//! CSB mode and the sync loop.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ringway_mem::csb::{AppCell, ServerCell};
use rustix::event::{EventfdFlags, PollFd, Timespec, eventfd, poll};

use super::*;

/// The cells of a port with one ring pair, as a program has them.
#[derive(Default)]
#[repr(C)]
struct Cells {
    from_program: [AppCell; 2],
    to_program: [ServerCell; 2],
}

fn option_bytes(kind: u32, bytes: usize, body: &[u8]) -> Vec<u8> {
    let mut option = vec![0; bytes];
    option[8..12].copy_from_slice(&kind.to_ne_bytes());
    option[16..24].copy_from_slice(&(bytes as u64).to_ne_bytes());
    option[24..24 + body.len()].copy_from_slice(body);
    option
}

fn csb_option(from_program: u64, to_program: u64) -> Vec<u8> {
    option_bytes(option::CSB, 40, &[from_program.to_ne_bytes(), to_program.to_ne_bytes()].concat())
}

fn status(option: &[u8]) -> i32 {
    i32::from_ne_bytes(option[12..16].try_into().unwrap())
}

fn csb_device(name: &str, cells: &Cells) -> Device {
    let device = Device::default();
    let request = Register { nr_mode: mode::ALL_NIC, nr_flags: flag::EXCLUSIVE, ..Register::default() };
    let mut option = csb_option(cells.from_program.as_ptr() as u64, cells.to_program.as_ptr() as u64);
    register_with(&device, name, request, option.as_mut_ptr() as u64).unwrap();
    assert_eq!(status(&option), 0);
    device
}

fn start(device: &Device, sleep_us: u32, options: u64) -> Result<Answer, Errno> {
    control(device, reqtype::SYNC_KLOOP_START, "", &mut abi::KloopStart { sleep_us }.to_bytes(), options)
}

fn stop(device: &Device) -> Result<Answer, Errno> {
    control(device, reqtype::SYNC_KLOOP_STOP, "", &mut [], 0)
}

/// Fills the tx slot at `at` and tells it by the cell.
fn put_by_cell(device: &Device, cells: &Cells, at: u32, byte: u8) {
    let ring = ring(device, Kind::Tx);
    let cell = &ring.slots()[at as usize];
    let mut slot = cell.load();
    ring.pool().copy_in(slot.buf_idx, 0, &[byte]);
    (slot.len, slot.flags) = (60, 0);
    cell.store(slot);
    cells.from_program[0].publish(ring.next(at), ring.next(at));
}

#[test]
fn csb_needs_an_exclusive_port_and_good_addresses() {
    let cells = Cells::default();
    let good = cells.from_program.as_ptr() as u64;
    for (nr_flags, address, expected) in
        [(0, good, Errno::INVAL), (flag::EXCLUSIVE, 0x10, Errno::FAULT), (flag::EXCLUSIVE, 0x800, Errno::FAULT)]
    {
        let mut option = csb_option(good, address);
        let request = Register { nr_mode: mode::ALL_NIC, nr_flags, ..Register::default() };
        let result = register_with(&Device::default(), "csbbad{1", request, option.as_mut_ptr() as u64);
        assert_eq!((result, status(&option)), (Err(expected), expected.raw_os_error()));
    }
    // The port is free again.
    csb_device("csbbad{1", &cells);
}

#[test]
fn csb_enable_is_a_request_of_its_own_and_needs_its_option() {
    let cells = Cells::default();
    let device = Device::default();
    let mut option = csb_option(cells.from_program.as_ptr() as u64, cells.to_program.as_ptr() as u64);
    let options = option.as_mut_ptr() as u64;
    assert_eq!(control(&device, reqtype::CSB_ENABLE, "", &mut [], options), Err(Errno::INVAL), "not bound");
    register(&device, "csblate{1", mode::ALL_NIC, flag::EXCLUSIVE).unwrap();
    assert_eq!(control(&device, reqtype::CSB_ENABLE, "", &mut [], 0), Err(Errno::INVAL), "no option");
    assert_eq!(control(&device, reqtype::CSB_ENABLE, "", &mut [], options), Ok(Answer::Done));
    assert_eq!(status(&option), 0);
}

#[test]
fn in_csb_mode_syncs_are_ebusy_and_polls_pollerr() {
    let cells = Cells::default();
    let device = csb_device("csbcalls{1", &cells);
    assert_eq!(cells.to_program[0].read(), (0, 1023), "the rings' state at the beginning");
    assert!(cells.to_program[0].wants_kick());
    assert_eq!(device.ioctl(abi::NIOCTXSYNC, 0), Err(Errno::BUSY));
    assert_eq!(device.ioctl(abi::NIOCRXSYNC, 0), Err(Errno::BUSY));
    assert_eq!(device.poll(PollFlags::IN | PollFlags::OUT), PollFlags::ERR);
}

#[test]
fn the_loop_refuses_what_it_cannot_do() {
    let (device, cells) = (Device::default(), Cells::default());
    assert_eq!(start(&device, 0, 0), Err(Errno::NXIO), "not bound");
    assert_eq!(stop(&device), Err(Errno::NXIO));
    register(&device, "loopno{1", mode::ALL_NIC, 0).unwrap();
    assert_eq!(start(&device, 0, 0), Err(Errno::INVAL), "not in CSB mode");
    let device = csb_device("loopno{2", &cells);
    assert_eq!(start(&device, 1_000_001, 0), Err(Errno::INVAL), "sleeps too long");
    for (kind, bytes, body, expected) in [
        (option::SYNC_KLOOP_EVENTFDS, 24 + 8, &[0xff_u8; 8][..], Errno::INVAL),
        (option::SYNC_KLOOP_EVENTFDS, 24 + 16, &1_000_000_i32.to_ne_bytes().repeat(4), Errno::BADF),
        (option::SYNC_KLOOP_MODE, 32, &[4, 0, 0, 0], Errno::INVAL),
        (option::CSB, 40, &[0; 16], Errno::OPNOTSUPP),
    ] {
        let mut option = option_bytes(kind, bytes, body);
        assert_eq!(start(&device, 0, option.as_mut_ptr() as u64), Err(expected), "option {kind}");
        assert_eq!(status(&option), expected.raw_os_error());
    }
    // Direct processing needs a kick for each ring.
    let mut kicks = option_bytes(option::SYNC_KLOOP_EVENTFDS, 24 + 16, &[0xff; 16]);
    let mut direct = option_bytes(option::SYNC_KLOOP_MODE, 32, &[1, 0, 0, 0]);
    direct[..8].copy_from_slice(&(kicks.as_mut_ptr() as u64).to_ne_bytes());
    assert_eq!(start(&device, 0, direct.as_mut_ptr() as u64), Err(Errno::INVAL));
}

#[test]
fn a_stop_before_the_start_ends_it_at_once() {
    let cells = Cells::default();
    let device = csb_device("loopstop{1", &cells);
    assert_eq!(stop(&device), Ok(Answer::Done));
    assert_eq!(start(&device, 0, 0), Ok(Answer::Done));
}

#[test]
fn the_loop_moves_packets_as_the_cells_say_and_starts_a_ring_over_for_impossible_words() {
    let cells = Arc::new(Cells::default());
    let a = Arc::new(csb_device("looprun{1", &cells));
    let b = Device::default();
    register(&b, "looprun}1", mode::ALL_NIC, 0).unwrap();
    let running = a.clone();
    let thread = std::thread::spawn(move || start(&running, 10, 0));
    for n in 0..3000_u32 {
        put_by_cell(&a, &cells, n % 1024, n as u8);
        while b.poll(PollFlags::IN).is_empty() {}
        assert_eq!(take(&b), [n as u8]);
    }
    let reinits = || ring(&a, Kind::Tx).kring().own.reinits.load(Relaxed);
    cells.from_program[0].publish(5000, 5000);
    while reinits() == 0 {
        std::thread::yield_now();
    }
    while start(&a, 0, 0) != Err(Errno::BUSY) {}
    assert_eq!(stop(&a), Ok(Answer::Done));
    assert_eq!(thread.join().unwrap(), Ok(Answer::Done));
}

#[test]
fn the_loop_sleeps_on_eventfds_and_kicks_back() {
    let cells = Arc::new(Cells::default());
    let a = Arc::new(csb_device("loopfds{1", &cells));
    let b = Device::default();
    register(&b, "loopfds}1", mode::ALL_NIC, 0).unwrap();
    let fds: [OwnedFd; 4] = std::array::from_fn(|_| eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let [kick_tx, irq_tx, kick_rx, irq_rx] = &fds;
    let numbers = [kick_tx, irq_tx, kick_rx, irq_rx].map(|fd| fd.as_raw_fd().to_ne_bytes()).concat();
    let running = a.clone();
    let thread = std::thread::spawn(move || {
        let mut kicks = option_bytes(option::SYNC_KLOOP_EVENTFDS, 24 + 16, &numbers);
        let answer = start(&running, 0, kicks.as_mut_ptr() as u64);
        (answer, status(&kicks))
    });
    let wait = |fd: &OwnedFd| {
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        assert_eq!(poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)), Ok(1), "nobody kicked");
        rustix::io::read(fd, &mut [0_u8; 8]).unwrap();
    };
    cells.from_program.iter().for_each(|cell| cell.want_kick(true));
    for n in 0..200_u32 {
        put_by_cell(&a, &cells, n, n as u8);
        if cells.to_program[0].wants_kick() {
            rustix::io::write(kick_tx, &1_u64.to_ne_bytes()).unwrap();
        }
        wait(irq_tx);
        assert_eq!(cells.to_program[0].read().0, n + 1);
        assert_eq!(b.poll(PollFlags::IN), PollFlags::IN);
        assert_eq!(take(&b), [n as u8]);
        // And the other way: who sends wakes the loop, the loop kicks.
        put(&b, !(n as u8));
        b.ioctl(abi::NIOCTXSYNC, 0).unwrap();
        while cells.to_program[1].read().1 != n + 1 {
            wait(irq_rx);
        }
        let slot = ring(&a, Kind::Rx).slots()[n as usize].load();
        let mut byte = [0];
        ring(&a, Kind::Rx).pool().copy_out(slot.buf_idx, 0, &mut byte);
        assert_eq!(byte, [!(n as u8)]);
        cells.from_program[1].publish(n + 1, n + 1);
        rustix::io::write(kick_rx, &1_u64.to_ne_bytes()).unwrap();
    }
    assert_eq!(stop(&a), Ok(Answer::Done));
    assert_eq!(thread.join().unwrap(), (Ok(Answer::Done), 0));
}
