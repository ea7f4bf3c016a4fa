//! The library's own hooks on a real TCP connection and real regions, against a peer that scribbles on
//! every shared word: a program under Ringway gets data, or an error that TCP has, and always gets its call back.
//!
//! Data from the peer is 0 in the region and `T` on TCP; what the victim sends is `V`; buffers are filled
//! with `?` before each call. So a byte from anywhere else, or none at all, is noticed.

use core::sync::atomic::{AtomicU64, Ordering::*};
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use libc::{c_int, pollfd};
use ringway_channel::end::{End, EndPage};
use ringway_channel::hostile::{Choices, OnTcp, Seeded, behave, length, scribble};
use ringway_channel::layout::{END_REGION_BYTES, RING_MAGIC, RING_REGION_BYTES, RingHeader};
use ringway_channel::rendezvous::{Kind, Message, PROTOCOL_VERSION, Role};
use ringway_channel::{Path, Reason};
use ringway_mem::region::{self, Region};

use crate::hooks::{fd as fd_hooks, io, poll as poll_hooks, socket};
use crate::testing::shared_memory;
use crate::{attach, config, kernel, real, reset, spin, stats, sys, thread, tx, upgrade};

pub(crate) const CONNECTION: u64 = 7;
/// Longest buffer of a call.
const BUFFER_BYTES: usize = 2 << 20;
/// A call that has not come back after so many seconds hangs.
const PATIENCE_S: u32 = 20;

/// How often poll may call a finished connection readable when nothing comes of it.
const VAIN_MAX: u32 = 8;

/// A hostile peer: its mapping of the ring region, its end of the TCP connection, correct indices.
pub(crate) struct Peer {
    ring: Region,
    page: Box<EndPage>,
    pub(crate) tcp: TcpStream,
}

impl Peer {
    fn header(&self) -> &RingHeader {
        // SAFETY: the region is mapped as long as `self` lives; the header is made of atomics.
        unsafe { self.ring.base().cast::<RingHeader>().as_ref() }
    }

    /// The peer's view, by which it keeps to the rules.
    pub(crate) fn end(&self) -> End<'_> {
        End::new(self.header(), &self.page, Role::B)
    }

    /// Goes, in order or by a reset; what it wrote stays in the victim's mapping.
    pub(crate) fn go(&self, in_order: bool) {
        match in_order {
            true => _ = self.tcp.shutdown(Shutdown::Write),
            false => reset::disconnect(self.tcp.as_raw_fd()),
        }
    }

    fn act(&mut self, choices: &mut impl Choices) -> Option<()> {
        if choices.below(3)? == 0 {
            return scribble(self.header(), choices);
        }
        let written = kernel::offsets(self.tcp.as_raw_fd()).map_or(0, |o| o.written);
        let bytes = length(choices)?;
        match behave(&self.end(), written, bytes, choices)? {
            OnTcp::Nothing => {}
            OnTcp::Bytes(n) => _ = self.tcp.write(&vec![b'T'; n as usize]),
            OnTcp::Finish => _ = self.tcp.shutdown(Shutdown::Write),
        }
        Some(())
    }
}

/// What a run came to, written by the child that runs it.
#[derive(Default)]
struct Tally {
    steps: AtomicU64,
    connections: AtomicU64,
    resets: AtomicU64,
    ends: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    on_ring: AtomicU64,
}

/// The program's end, and its buffer.
struct Victim<'a> {
    fd: c_int,
    buffer: Vec<u8>,
    tally: &'a Tally,
}

/// The connection's end has been seen.
struct Over;

impl Victim<'_> {
    fn act(&mut self, choices: &mut impl Choices) -> Option<Result<(), Over>> {
        let bytes = length(choices)?;
        Some(match choices.below(16)? {
            0..4 => self.send(bytes, choices.below(512)? == 0),
            4..9 => self.receive(bytes, choices.below(512)? == 0, flags(choices.below(16)?)),
            9 => self.poll(),
            10 => self.count_unread(),
            11 if choices.below(64)? == 0 => self.shutdown(choices.below(3)? as c_int),
            12 if choices.below(64)? == 0 => self.demote(),
            13 if choices.below(32)? == 0 => Err(Over),
            _ => Ok(()),
        })
    }

    fn send(&mut self, bytes: usize, blocking: bool) -> Result<(), Over> {
        self.buffer[..bytes].fill(b'V');
        let flags = libc::MSG_NOSIGNAL | if blocking { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the buffer holds `bytes` bytes.
        let n = unsafe { io::send(self.fd, self.buffer.as_ptr().cast(), bytes, flags) };
        let sent = self.judge(n, bytes)?;
        self.tally.sent_bytes.fetch_add(sent as u64, Relaxed);
        Ok(())
    }

    fn receive(&mut self, bytes: usize, blocking: bool, flags: c_int) -> Result<(), Over> {
        self.buffer[..bytes + 1].fill(b'?');
        let flags = flags | if blocking { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the buffer holds more than `bytes` bytes.
        let n = unsafe { io::recv(self.fd, self.buffer.as_mut_ptr().cast(), bytes, flags) };
        if n == 0 && bytes > 0 {
            self.tally.ends.fetch_add(1, Relaxed);
            return Err(Over);
        }
        let got = self.judge(n, bytes)?;
        if flags & libc::MSG_TRUNC == 0 {
            let alien = self.buffer[..got].iter().find(|b| ![0, b'T', b'!'].contains(b));
            assert_eq!(alien, None, "a byte that the peer never had, among {got}");
            assert!(self.buffer[got..bytes + 1].iter().all(|&b| b == b'?'), "written beyond the count {got}");
            self.tally.received_bytes.fetch_add(got as u64, Relaxed);
        }
        Ok(())
    }

    /// A count within what was asked for, or an error that TCP has.
    fn judge(&self, answer: isize, asked: usize) -> Result<usize, Over> {
        if answer >= 0 {
            assert!(answer as usize <= asked, "{answer} of {asked}");
            return Ok(answer as usize);
        }
        match sys::errno() {
            libc::EAGAIN => Ok(0),
            libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN => {
                self.tally.resets.fetch_add(1, Relaxed);
                Err(Over)
            }
            errno => panic!("an error that TCP does not have here: {}", std::io::Error::from_raw_os_error(errno)),
        }
    }

    fn poll(&self) -> Result<(), Over> {
        let mut p = pollfd { fd: self.fd, events: libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP, revents: 0 };
        // SAFETY: one entry of ours.
        let n = unsafe { poll_hooks::poll(&raw mut p, 1, 0) };
        assert!((0..=1).contains(&n) && p.revents & libc::POLLNVAL == 0, "poll: {n}, {:#x}", p.revents);
        Ok(())
    }

    /// The peer has gone for good: the program comes to the end, whatever is left of the words.
    fn drain(&mut self) {
        let mut vain = 0;
        loop {
            let mut p = pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry of ours.
            let n = unsafe { poll_hooks::poll(&raw mut p, 1, -1) };
            assert_eq!(n, 1, "poll without a limit");
            let before = self.tally.received_bytes.load(Relaxed);
            if self.receive(BUFFER_BYTES, false, 0).is_err() {
                return;
            }
            vain += u32::from(self.tally.received_bytes.load(Relaxed) == before);
            assert!(vain < VAIN_MAX, "poll says readable ({:#x}), recv says nothing", p.revents);
        }
    }

    fn count_unread(&self) -> Result<(), Over> {
        let mut unread: c_int = -1;
        // SAFETY: FIONREAD writes one int.
        let n = unsafe { fd_hooks::ioctl(self.fd, libc::FIONREAD, (&raw mut unread) as usize) };
        if n == 0 {
            assert!(unread >= 0, "{unread} unread bytes");
            return Ok(());
        }
        self.judge(-1, 0).map(|_| ())
    }

    fn shutdown(&self, how: c_int) -> Result<(), Over> {
        // SAFETY: plain integers.
        let n = unsafe { socket::shutdown(self.fd, how) };
        self.judge(n as isize, 0).map(|_| ())
    }

    fn demote(&self) -> Result<(), Over> {
        if let Some((_, conn)) = upgrade::upgraded(self.fd) {
            tx::demote(conn, self.fd, Reason::Splice);
        }
        Ok(())
    }
}

fn flags(choice: u64) -> c_int {
    match choice {
        0 => libc::MSG_PEEK,
        1 => libc::MSG_WAITALL,
        2 => libc::MSG_TRUNC,
        3 => libc::MSG_PEEK | libc::MSG_TRUNC,
        4 => libc::MSG_PEEK | libc::MSG_WAITALL,
        _ => 0,
    }
}

/// A TCP connection whose first end is upgraded, as if the monitor had paired it with the second.
pub(crate) fn upgraded_pair(listener: &TcpListener) -> (c_int, Peer) {
    let (fd, peer, answer) = answered_pair(listener);
    answer.arrive(fd);
    assert!(upgrade::upgraded(fd).is_some(), "upgraded");
    (fd, peer)
}

/// What the monitor says of an offer that it has paired.
pub(crate) struct Answer {
    ring: OwnedFd,
    pub(crate) page: OwnedFd,
}

impl Answer {
    pub(crate) fn arrive(&self, fd: c_int) {
        let (index, conn) = upgrade::connection(fd).expect("a watched connection");
        let message = Message { connection: CONNECTION, role: Role::A, ..Message::new(Kind::Paired) };
        attach::attach(index, conn, &message, [self.ring.as_raw_fd(), self.page.as_raw_fd()]);
    }
}

/// As `upgraded_pair`, before the monitor's answer has arrived.
pub(crate) fn answered_pair(listener: &TcpListener) -> (c_int, Peer, Answer) {
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (tcp, _) = listener.accept().unwrap();
    tcp.set_nonblocking(true).unwrap();
    let instant = std::time::Duration::from_micros(300);
    ours.set_read_timeout(Some(instant)).unwrap();
    ours.set_write_timeout(Some(instant)).unwrap();

    let ring_fd: OwnedFd = region::create_sealed("hostile", RING_REGION_BYTES).unwrap();
    let page_fd: OwnedFd = region::create_sealed("hostile-end", END_REGION_BYTES).unwrap();
    let ring = Region::open(&ring_fd, RING_REGION_BYTES, RING_REGION_BYTES).unwrap();
    // SAFETY: an end page is made of atomics, for which zero is valid.
    let page = unsafe { Box::new(core::mem::MaybeUninit::<EndPage>::zeroed().assume_init()) };
    let peer = Peer { ring, page, tcp };
    peer.header().magic.store(RING_MAGIC, Relaxed);
    peer.header().version.store(PROTOCOL_VERSION.into(), Relaxed);
    peer.header().connection.store(CONNECTION, Relaxed);

    let fd = ours.into_raw_fd();
    upgrade::watch(fd);
    let (_, conn) = upgrade::connection(fd).expect("a watched connection");
    conn.identify(fd);
    (fd, peer, Answer { ring: ring_fd, page: page_fd })
}

/// Becomes a process under Ringway whose monitor is away.
pub(crate) fn become_a_program() {
    // SAFETY: a forked child with one thread; the library's constructor does the same.
    unsafe {
        std::env::set_var("RINGWAY_SOCKET", "/nonexistent/monitor.sock");
        real::resolve();
        thread::init();
        spin::find_rseq();
        config::read();
    }
}

fn run(choices: &mut impl Choices, steps: u64, tally: &Tally) {
    become_a_program();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut buffer = vec![0; BUFFER_BYTES + 1];
    while tally.steps.load(Relaxed) < steps {
        // SAFETY: ends this process if a call does not come back.
        unsafe { libc::alarm(PATIENCE_S) };
        tally.connections.fetch_add(1, Relaxed);
        let (fd, mut peer) = upgraded_pair(&listener);
        let mut victim = Victim { fd, buffer, tally };
        let mut over = Some(Ok(()));
        while let Some(Ok(())) = over
            && tally.steps.load(Relaxed) < steps
        {
            tally.steps.fetch_add(1, Relaxed);
            over = match choices.below(3) {
                Some(0) => victim.act(choices),
                Some(_) => peer.act(choices).map(Ok),
                None => None,
            };
            if choices.below(128) == Some(0) {
                peer.go(choices.below(2) == Some(0));
                victim.drain();
                over = None;
            }
        }
        let end = upgrade::connection(fd).and_then(|(_, c)| c.end());
        tally.on_ring.fetch_add(end.is_some_and(|e| e.rx_path() == Path::Ring).into(), Relaxed);
        // By a reset: no address may stay in TIME_WAIT.
        peer.go(false);
        // SAFETY: the victim's own descriptor.
        assert_eq!(unsafe { fd_hooks::close(fd) }, 0);
        buffer = victim.buffer;
    }
    assert!(stats::page().is_none(), "no monitor was reached");
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |v| v.parse().unwrap_or_else(|_| panic!("{name} is not a number: {v}")))
}

#[test]
fn a_hostile_peer_only_ever_causes_resets() {
    let (steps, seed) =
        (from_environment("RINGWAY_HOSTILE_STEPS", 100_000), from_environment("RINGWAY_HOSTILE_SEED", 1));
    println!("seed {seed}, {steps} steps");
    let tally = shared_memory::<Tally>();
    let status = crate::testing::status_of_child(|| run(&mut Seeded(seed), steps, tally));
    let of = |counter: &AtomicU64| counter.load(Relaxed);
    println!(
        "{} steps, {} connections, {} resets, {} ends, {} on rings, {} bytes sent, {} received",
        of(&tally.steps),
        of(&tally.connections),
        of(&tally.resets),
        of(&tally.ends),
        of(&tally.on_ring),
        of(&tally.sent_bytes),
        of(&tally.received_bytes)
    );
    assert_eq!(status, 0, "seed {seed}: the victim ended with wait status {status:#x} at step {}", of(&tally.steps));
    assert!(of(&tally.resets) > steps / 1000 && of(&tally.on_ring) > steps / 1000);
    assert!(of(&tally.sent_bytes) > steps && of(&tally.received_bytes) > steps);
}
