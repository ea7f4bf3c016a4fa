//! The sync loop: a thread of the program that stays in SYNC_KLOOP_START and syncs the rings as its cells say, until
//! another thread asks for SYNC_KLOOP_STOP.
//!
//! With an eventfd for each ring it sleeps while nothing moves: the program kicks it by them if `kern_need_kick` is set, and
//! who moves the rings from the other side by a bell. Without, it looks again after the given time.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use ringway_mem::bell::{self, Bell};
use ringway_mem::user;
use ringway_port::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::abi::{KloopMode, OptionHeader, kloop_mode, option};
use crate::bound::Binding;
use crate::csb::Csb;
use crate::request::Options;

/// Longest pause between two looks that a program may ask for, in microseconds.
const SLEEP_US_MAX: u32 = 1_000_000;
/// Longest sleep where a ring has too many waiters for the bell, in nanoseconds.
const NAP_NS: i64 = 1_000_000;
const EVENTS: PollFlags = PollFlags::IN.union(PollFlags::OUT);

const RUNNING: u32 = 1;
const STOPPING: u32 = 2;

/// Whether a device's loop runs, and the bell that wakes it.
#[derive(Debug, Default)]
pub(crate) struct Kloop {
    state: AtomicU32,
    bell: AtomicU32,
}

/// A ring's eventfds.
struct Kicks {
    /// Written by the program.
    program: Option<OwnedFd>,
    /// Written by us.
    ours: Option<OwnedFd>,
}

/// What a loop was started with.
pub(crate) struct Orders {
    sleep: Duration,
    /// One for each ring, or none at all.
    kicks: Vec<Kicks>,
    sleeps_on_kicks: bool,
}

impl Orders {
    /// What the request and its options mean for so many rings.
    ///
    /// # Errors
    /// `EINVAL` for too long a pause, an array of another length, or direct processing without all kicks; `EBADF`.
    pub(crate) fn new(sleep_us: u32, rings: usize, options: &mut Options) -> Result<Orders, Errno> {
        if sleep_us > SLEEP_US_MAX {
            return Err(Errno::INVAL);
        }
        let mut direct = false;
        if let Some(found) = options.find(option::SYNC_KLOOP_MODE) {
            let mode = found.array().map(|bytes| KloopMode::from_bytes(bytes).mode);
            let result = mode.and_then(|mode| if mode & !kloop_mode::ALL == 0 { Ok(()) } else { Err(Errno::INVAL) });
            direct = mode.is_ok_and(|mode| mode != 0);
            options.settle(option::SYNC_KLOOP_MODE, result);
            result?;
        }
        let mut orders =
            Orders { sleep: Duration::from_micros(sleep_us.into()), kicks: vec![], sleeps_on_kicks: false };
        if let Some(found) = options.find(option::SYNC_KLOOP_EVENTFDS) {
            let kicks = kicks(&found.bytes[OptionHeader::BYTES..], rings);
            let all = kicks.as_ref().is_ok_and(|kicks| kicks.iter().all(|kick| kick.program.is_some()));
            let kicks = if direct && !all { kicks.and(Err(Errno::INVAL)) } else { kicks };
            options.settle(option::SYNC_KLOOP_EVENTFDS, kicks.as_ref().map(|_| ()).map_err(|errno| *errno));
            (orders.kicks, orders.sleeps_on_kicks) = (kicks?, all);
        }
        Ok(orders)
    }
}

/// Reads the pairs of descriptors, which are ours as well from then on; -1 is none.
fn kicks(bytes: &[u8], rings: usize) -> Result<Vec<Kicks>, Errno> {
    let (words, rest) = bytes.as_chunks::<4>();
    if words.len() != 2 * rings || !rest.is_empty() {
        return Err(Errno::INVAL);
    }
    let descriptor = |word: &[u8; 4]| match i32::from_ne_bytes(*word) {
        ..0 => Ok(None),
        fd => user::duplicate(fd).map(Some),
    };
    words
        .chunks(2)
        .map(|pair| Ok(Kicks { program: descriptor(&pair[0])?, ours: descriptor(&pair[1])? }))
        .collect::<Result<_, Errno>>()
}

impl Kloop {
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(SeqCst) & RUNNING != 0
    }

    /// Has the loop end, the next one if none runs, and waits until it has.
    pub(crate) fn stop(&self) {
        self.state.fetch_or(STOPPING, SeqCst);
        while self.is_running() {
            match self.bell.load(SeqCst) {
                0 => {}
                number => bell::ring(number),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs until it is stopped; `with` gives the binding for the time of a call.
    ///
    /// # Errors
    /// `EBUSY` if one runs already; `EFAULT` once the cells are gone.
    pub(crate) fn run(
        &self,
        csb: Csb,
        orders: &Orders,
        with: impl Fn(&mut dyn FnMut(&mut Binding) -> Result<bool, Errno>) -> Result<bool, Errno>,
    ) -> Result<(), Errno> {
        if self.state.fetch_or(RUNNING, SeqCst) & RUNNING != 0 {
            return Err(Errno::BUSY);
        }
        let _running = Running(self);
        self.run_until_stopped(csb, orders, with)
    }

    fn run_until_stopped(
        &self,
        csb: Csb,
        orders: &Orders,
        with: impl Fn(&mut dyn FnMut(&mut Binding) -> Result<bool, Errno>) -> Result<bool, Errno>,
    ) -> Result<(), Errno> {
        let bell = Bell::new()?;
        self.bell.store(bell.number(), SeqCst);
        while self.state.load(SeqCst) & STOPPING == 0 {
            if with(&mut |binding| serve(binding, csb, orders))? {
                continue;
            }
            if !orders.sleeps_on_kicks {
                // Without a pause it gives way to others only.
                if orders.sleep.is_zero() {
                    std::thread::yield_now()
                } else {
                    std::thread::sleep(orders.sleep)
                }
                continue;
            }
            let (mut heard, mut wakers) = (true, ringway_port::Wakers::default());
            let moved = with(&mut |binding| {
                heard = binding.arm(EVENTS, bell.number());
                wakers = binding.port.wakers();
                want_kicks(binding, csb, true)?;
                serve(binding, csb, orders)
            });
            if moved == Ok(false) && self.state.load(SeqCst) & STOPPING == 0 {
                sleep(orders, &bell, &wakers, heard);
            }
            let disarmed = with(&mut |binding| {
                binding.disarm(EVENTS, bell.number());
                want_kicks(binding, csb, false).map(|()| false)
            });
            moved.and(disarmed)?;
        }
        Ok(())
    }
}

/// A loop that runs; it has ended when this is dropped, also if its thread is cancelled.
struct Running<'a>(&'a Kloop);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.bell.store(0, SeqCst);
        self.0.state.store(0, SeqCst);
    }
}

/// Syncs every ring as its cell says, and tells the program; whether anything moved.
fn serve(binding: &mut Binding, csb: Csb, orders: &Orders) -> Result<bool, Errno> {
    let now_ns = clock::monotonic_ns();
    let sending = binding.tx.len();
    let mut moved = false;
    for cell in 0..sending + binding.rx.len() {
        let (sends, ring) =
            if cell < sending { (true, binding.tx.start + cell) } else { (false, binding.rx.start + cell - sending) };
        let words = csb.head_and_cur(cell)?;
        if !binding.sync_as_told(sends, ring, words, now_ns) {
            continue;
        }
        moved = true;
        let ring = if sends { binding.port.tx_ring(ring) } else { binding.port.rx_ring(ring) };
        let Some(ring) = ring else { continue };
        csb.publish(cell, ring)?;
        if let Some(Kicks { ours: Some(fd), .. }) = orders.kicks.get(cell)
            && csb.wants_kick(cell)?
        {
            // A full counter wakes as well; who writes to one that blocks would wait for its reader.
            if is_ready(fd, PollFlags::OUT) {
                let _ = rustix::io::write(fd, &1_u64.to_ne_bytes());
            }
        }
    }
    Ok(moved)
}

fn want_kicks(binding: &Binding, csb: Csb, wanted: bool) -> Result<(), Errno> {
    (0..binding.tx.len() + binding.rx.len()).try_for_each(|cell| csb.want_kick(cell, wanted))
}

fn is_ready(fd: &OwnedFd, event: PollFlags) -> bool {
    poll(&mut [PollFd::new(fd, event)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
}

/// Until the program kicks, a ring moves, or a descriptor of the port is ready.
fn sleep(orders: &Orders, bell: &Bell, wakers: &ringway_port::Wakers, heard: bool) {
    let kicks = || orders.kicks.iter().filter_map(|kick| kick.program.as_ref());
    let mut fds = vec![PollFd::from_borrowed_fd(bell.fd(), PollFlags::IN)];
    fds.extend(kicks().map(|fd| PollFd::new(fd, PollFlags::IN)));
    fds.extend(wakers.fds.iter().map(|(fd, events)| PollFd::new(fd, *events)));
    let until = wakers.deadline_ns.map(|at| at.saturating_sub(clock::monotonic_ns()).min(i64::MAX as u64) as i64);
    let nap = if heard { until } else { Some(until.map_or(NAP_NS, |until| until.min(NAP_NS))) };
    let nap = nap.map(|ns| Timespec { tv_sec: ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 });
    // A signal is a reason to look, too.
    let _ = poll(&mut fds, nap.as_ref());
    drop(fds);
    bell.hush();
    for fd in kicks() {
        // Blocking eventfds must not be read when they are empty.
        if is_ready(fd, PollFlags::IN) {
            let _ = rustix::io::read(fd, &mut [0_u8; 8]);
        }
    }
}
