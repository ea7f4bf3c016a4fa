//! Guests and their switch, in one process.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ringway_mem::cells::Cells;
use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{Pool, PoolConfig, RingCounts, Sharing};
use ringway_port::meeting::call;
use ringway_port::meeting::message::{Request, What};
use ringway_port::{Port, PortError, Ready};

use super::Host;
use crate::Switch;
use crate::modules::hub::Hub;

const PATIENCE: Duration = Duration::from_secs(20);

/// A switch that is served by a thread until it is dropped.
struct Served {
    socket: PathBuf,
    goes_on: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn new(test: &str) -> Served {
        let socket = std::env::temp_dir().join(format!("ringway-{}-{test}.sock", std::process::id()));
        let switch = Switch::new(Fabric::create().unwrap(), Arc::new(Hub));
        let mut host = Host::new(switch, &socket, 0o600).unwrap();
        let goes_on = Arc::new(AtomicBool::new(true));
        let theirs = goes_on.clone();
        let thread = std::thread::spawn(move || host.run(|_| theirs.load(Relaxed)));
        Served { socket, goes_on, thread: Some(thread) }
    }

    fn open(&self, name: &str) -> Result<Port, PortError> {
        super::open(&self.socket, &name.parse()?).map(|port| port.expect("the switch is there"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.goes_on.store(false, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend(number.to_be_bytes());
    frame.extend((0..number % 5000).map(|n| (n ^ number) as u8));
    frame
}

/// Sends frames `numbers` and receives them at `to`, sleeping when there is nothing to do.
fn exchange(from: &mut Port, to: &mut Port, numbers: std::ops::Range<u32>) {
    let (mut next, mut expected) = (numbers.start, numbers.start);
    while expected < numbers.end {
        let mut batch = from.tx(0).unwrap();
        let mut at = 0;
        // What is under way fits into the receiver's ring, so that nothing is dropped.
        while next < numbers.end && next < expected + 100 {
            let Some(slots) = batch.put(at, &frame(next)) else { break };
            (at, next) = (at + slots, next + 1);
        }
        batch.send(at);
        from.sync_tx(0).unwrap();
        assert!(to.wait(Ready::RX, Some(PATIENCE)).unwrap().rx, "frame {expected} of {next} does not come");
        let batch = to.rx(0).unwrap();
        let mut at = 0;
        while at < batch.len() {
            let slots = batch.packet_slots(at).expect("whole frames");
            let mut bytes = vec![];
            batch.copy_packet(at, slots, &mut bytes);
            assert_eq!(bytes, frame(expected));
            (at, expected) = (at + slots, expected + 1);
        }
        batch.release(at);
    }
    to.sync_rx(0).unwrap();
}

#[test]
fn guests_exchange_frames_and_leave_no_trace() {
    let switch = Served::new("exchange");
    let mut a = switch.open("vale:a").unwrap();
    for round in 0..3 {
        let mut b = switch.open("vale:b").unwrap();
        assert_ne!(a.pool().id(), b.pool().id());
        exchange(&mut a, &mut b, round * 1000..(round + 1) * 1000);
        exchange(&mut b, &mut a, 0..200);
    }
}

#[test]
fn a_switch_that_has_ended_is_no_switch() {
    let switch = Served::new("ended");
    let (mut a, mut b) = (switch.open("vale:a").unwrap(), switch.open("vale:b").unwrap());
    exchange(&mut a, &mut b, 0..10);
    let socket = switch.socket.clone();
    drop(switch);
    let ended = loop {
        match a.wait(Ready::RX, Some(PATIENCE)) {
            Ok(ready) => assert!(!ready.rx),
            Err(e) => break e.to_string(),
        }
    };
    assert!(ended.contains("has ended"), "{ended}");
    assert!(super::open(&socket, &"vale:c".parse().unwrap()).unwrap().is_none());
    // As a killed one leaves it.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let refused = super::open(&socket, &"vale:c".parse().unwrap()).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("isolated") && refused.contains("start it again"), "{refused}");
    std::fs::remove_file(socket).unwrap();
}

#[test]
fn what_guests_bring_is_checked() {
    let switch = Served::new("checked");
    let config = PoolConfig { buffers: 128, buffer_bytes: 256, object_pages: 16 };
    let (pool, cells) = (Pool::create(config).unwrap(), Cells::create().unwrap());
    let ask = |name: &str, fds: &[std::os::fd::BorrowedFd<'_>]| {
        let request = Request { what: What::Switch, name: name.to_owned(), config };
        let answer = call(&switch.socket, &request, fds);
        answer.map(|line| line.expect("it answers").1).map_err(|e| e.to_string())
    };
    assert!(ask("x", &[pool.fd(), cells.fd()]).unwrap_err().contains("no port x"));
    let port = pool.open("x", RingCounts::pairs(1, 16), Sharing::Exclusive).unwrap();
    assert!(ask("x", &[pool.fd()]).unwrap_err().contains("1 descriptors, not 2"));
    assert!(ask("x", &[cells.fd(), pool.fd()]).is_err());
    assert!(ask("x", &[pool.fd(), pool.fd()]).is_err());
    let line = ask("x", &[pool.fd(), cells.fd()]).unwrap();
    assert!(ask("x", &[pool.fd(), cells.fd()]).unwrap_err().contains("in use"));
    drop((line, port));
    // The place is free as soon as the switch has seen that its user is gone.
    let _port = pool.open("y", RingCounts::pairs(1, 16), Sharing::Exclusive).unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while ask("y", &[pool.fd(), cells.fd()]).is_err() {
        assert!(std::time::Instant::now() < deadline, "the place of a gone user is kept");
    }
}
