//! One end of a pipe is another process, killed with SIGKILL at random points, again and again: everything that was
//! begun arrives in order and whole, the next process goes on at that end, and no buffer is lost or doubled.
//!
//! `RINGWAY_KILL_POINTS` says how often each kind is killed (30 times unless set).

use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_mem::pool::{Pool, PoolConfig};
use ringway_port::{Port, Ready, open_in};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::Signal;

/// Tells this program that it is the child: its role and the descriptor of the pool.
const CHILD: &str = "RINGWAY_KILL_CHILD";
const PATTERN_BYTES: usize = 48;

fn points() -> u32 {
    std::env::var("RINGWAY_KILL_POINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(30)
}

/// The program that is killed: it runs as a test of this same file, but only as a child.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("not to outlive the test");
    let (role, fd) = task.split_once(' ').expect("role and descriptor");
    let fd = rustix::fs::open(format!("/proc/self/fd/{fd}"), OFlags::RDWR, Mode::empty()).expect("inherited");
    let pool = Pool::attach(fd).expect("the parent's pool");
    let mut port = open_in(&pool, "netmap:k}0").expect("our end");
    match role {
        "send" => (0..u64::MAX / 32).for_each(|n| send(&mut port, n)),
        "receive" => loop {
            receive(&mut port, &mut |_| {});
        },
        _ => loop {
            echo(&mut port);
        },
    }
}

fn start(pool: &Pool, role: &str) -> Child {
    rustix::io::fcntl_setfd(pool.fd(), FdFlags::empty()).expect("inheritable");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "child", "--nocapture"]).env(CHILD, format!("{role} {}", pool.fd().as_raw_fd()));
    command.stdout(Stdio::null()).spawn().expect("this program again")
}

/// Puts batch number `n` of packets, numbered on, of one to three fragments.
fn send(port: &mut Port, n: u64) {
    let mut batch = port.tx(0).unwrap();
    let mut at = 0;
    for number in n * 32..n * 32 + 32 {
        let packet = packet_of(number);
        loop {
            if let Some(slots) = batch.put(at, &packet) {
                at += slots;
                break;
            }
            batch.send(at);
            at = 0;
            port.wait(Ready::TX, None).unwrap();
            batch = port.tx(0).unwrap();
        }
    }
    batch.send(at);
    port.sync_tx(0).unwrap();
}

fn packet_of(number: u64) -> Vec<u8> {
    let bytes = PATTERN_BYTES + (number as usize % 3) * 256;
    (0..bytes / 8).flat_map(|i| (number + i as u64).to_le_bytes()).collect()
}

/// Hands the number of each whole packet to `seen`; its content must be that of the number.
fn receive(port: &mut Port, seen: &mut dyn FnMut(u64)) {
    port.wait(Ready::RX, Some(Duration::from_millis(1))).unwrap();
    let batch = port.rx(0).unwrap();
    let (mut at, mut packet) = (0, vec![]);
    while let Some(n) = (at < batch.len()).then(|| batch.packet_slots(at)).flatten() {
        packet.clear();
        batch.copy_packet(at, n, &mut packet);
        let number = u64::from_le_bytes(packet[..8].try_into().unwrap());
        assert!(packet == packet_of(number), "packet {number} of {} bytes is not what was sent", packet.len());
        seen(number);
        at += n;
    }
    assert_eq!(at, batch.len(), "only whole packets are shown");
    batch.release(at);
}

/// Sends back what came, by swapping buffers.
fn echo(port: &mut Port) {
    port.wait(Ready::BOTH, None).unwrap();
    let (mut rx, mut tx) = port.both(0, 0).unwrap();
    let mut n = 0;
    while let Some(slots) = (n < rx.len()).then(|| rx.packet_slots(n)).flatten().filter(|slots| n + slots <= tx.len()) {
        (n..n + slots).for_each(|i| assert!(rx.swap(i, &mut tx, i)));
        n += slots;
    }
    tx.send(n);
    rx.release(n);
}

fn pool() -> Arc<Pool> {
    Pool::create(PoolConfig { buffers: 1000, buffer_bytes: 256, object_pages: 200 }).unwrap()
}

fn open_here(pool: &Arc<Pool>) -> Port {
    open_in(pool, "netmap:k{0@conf:slots=128").unwrap()
}

/// Kills `child` and checks the books.
fn kill(mut child: Child, pool: &Arc<Pool>, point: u32) {
    child.kill().unwrap();
    child.wait().unwrap();
    pool.reap().unwrap();
    let account = pool.account();
    let odd = (account.lost, account.doubled, account.outside);
    assert_eq!(odd, (0, 0, 0), "lost, doubled, outside slots after kill {point}: {account:?}");
    assert_eq!(account.owned, 4 * 128, "after kill {point}");
}

/// A moment that ends at another point of the child's work each time.
fn moment(point: u32) -> Instant {
    let us = 500 + u64::from(point.wrapping_mul(2_654_435_761) >> 20);
    Instant::now() + Duration::from_micros(us)
}

#[test]
fn what_a_killed_sender_began_arrives() {
    let pool = pool();
    let mut port = open_here(&pool);
    let mut total = 0;
    for point in 0..points() {
        let child = start(&pool, "send");
        let mut next = 0;
        let mut in_order = |number| {
            assert_eq!(number, next, "after kill {point}");
            next += 1;
        };
        // The child must have begun before the moment does.
        receive_until_any(&mut port, &mut in_order);
        let end = moment(point);
        while Instant::now() < end {
            receive(&mut port, &mut in_order);
        }
        kill(child, &pool, point);
        receive(&mut port, &mut in_order);
        receive(&mut port, &mut in_order);
        total += next;
    }
    assert!(total > u64::from(points()) * 100, "only {total} packets came");
}

/// Polls until the first packets have come.
fn receive_until_any(port: &mut Port, seen: &mut dyn FnMut(u64)) {
    let mut came = false;
    while !came {
        receive(port, &mut |number| {
            came = true;
            seen(number);
        });
    }
}

#[test]
fn a_killed_receiver_is_replaced_by_the_next_one() {
    let pool = pool();
    let mut port = open_here(&pool);
    let mut n = 0;
    for point in 0..points() {
        let child = start(&pool, "receive");
        let before = port.tx_counters(0).packets;
        while port.tx_counters(0).packets < before + 600 {
            send(&mut port, n);
            n += 1;
        }
        let end = moment(point);
        while Instant::now() < end {
            send(&mut port, n);
            n += 1;
        }
        kill(child, &pool, point);
    }
}

#[test]
fn a_killed_echo_loses_only_what_it_held() {
    let pool = pool();
    let mut port = open_here(&pool);
    let (mut n, mut last) = (0, None);
    for point in 0..points() {
        let child = start(&pool, "echo");
        let (mut end, mut come) = (None, 0);
        while end.is_none_or(|end| Instant::now() < end) {
            if port.tx(0).unwrap().len() >= 96 {
                send(&mut port, n);
                n += 1;
            }
            receive(&mut port, &mut |number| {
                assert!(last.is_none_or(|last| number > last), "{number} after {last:?}, kill {point}");
                last = Some(number);
                come += 1;
            });
            if end.is_none() && come > 0 {
                end = Some(moment(point));
            }
        }
        kill(child, &pool, point);
    }
}
