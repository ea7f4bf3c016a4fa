//! Virtual time and waiting: who moves the clock, who sleeps, and how the two stay in step.
//!
//! One thread is the clockwork: the one whose `usleep` and `netdev_receive` move the clock (at first the one that made the
//! world). If one of its own calls has to wait, that call moves the clock, too. Calls of other threads sleep until
//! something has happened. Whenever something has, whoever caused it waits until every sleeper has looked, so a sleeper
//! returns at the instant of its cause, however the threads are scheduled; and the clockwork then gives it a moment of
//! real time to ask what time it is.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use ringway_tcp::Instant;

use crate::errno::{Errno, Result};
use crate::socket::Patience;
use crate::stack::Stack;

/// Real time that a thread needs to leave a call and look at the clock.
const PAUSE: Duration = Duration::from_micros(1500);
/// Real time that the clockwork's own call waits for another thread when no timer is left.
const OTHERS_LIMIT: Duration = Duration::from_secs(2);

pub(crate) struct World {
    state: Mutex<State>,
    /// Something has happened.
    changed: Condvar,
    /// A sleeper has looked.
    looked: Condvar,
}

struct State {
    stack: Stack,
    clockwork: ThreadId,
    sleepers: HashMap<ThreadId, Sleeper>,
    /// Counts what has happened.
    turn: u64,
    /// A sleeper has returned since the last pause.
    left: bool,
}

/// A call that waits.
struct Sleeper {
    until: Option<Instant>,
    /// The last turn after which it looked.
    looked: u64,
}

/// The next packet that leaves, or none ever will.
pub(crate) enum Next {
    Packet(Instant, Vec<u8>),
    Silence { is_error: bool },
}

impl World {
    pub(crate) fn new(flags: &str) -> World {
        let state = State {
            stack: Stack::new(flags),
            clockwork: std::thread::current().id(),
            sleepers: HashMap::new(),
            turn: 0,
            left: false,
        };
        World { state: Mutex::new(state), changed: Condvar::new(), looked: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that never waits.
    pub(crate) fn call<T>(&self, action: impl FnOnce(&mut Stack) -> T) -> T {
        let mut state = self.lock();
        let result = action(&mut state.stack);
        state.stack.collect();
        drop(self.settle(state));
        result
    }

    /// A call that is tried until it answers something else than `EAGAIN`, or its patience is over.
    pub(crate) fn wait<T>(
        &self,
        patience: impl FnOnce(&mut Stack) -> Patience,
        mut attempt: impl FnMut(&mut Stack) -> Result<T>,
    ) -> Result<T> {
        let me = std::thread::current().id();
        let mut state = self.lock();
        let patience = patience(&mut state.stack);
        loop {
            let result = attempt(&mut state.stack);
            state.stack.collect();
            let done = !matches!(result, Err(Errno::AGAIN)) || patience.is_over(state.stack.now);
            if state.sleepers.remove(&me).is_some() {
                state.left |= done;
                self.looked.notify_all();
            }
            if done {
                drop(self.settle(state));
                return result;
            }
            let next = state.next_due(patience.deadline());
            state = match next {
                _ if state.clockwork != me => self.sleep(state, patience.deadline(), Duration::MAX),
                Some(next) => self.advance(state, next),
                None => self.sleep(state, None, OTHERS_LIMIT),
            };
        }
    }

    /// Sleeps until something has happened; the caller then looks whether it was that for which it waits.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        until: Option<Instant>,
        limit: Duration,
    ) -> MutexGuard<'a, State> {
        let turn = state.turn;
        state.sleepers.insert(std::thread::current().id(), Sleeper { until, looked: turn });
        let same = |state: &mut State| state.turn == turn;
        if limit == Duration::MAX {
            return self.changed.wait_while(state, same).unwrap_or_else(PoisonError::into_inner);
        }
        let woken = self.changed.wait_timeout_while(state, limit, same);
        let (state, waited) = woken.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            self.give_up("a call waits for something that can never happen")
        }
        state
    }

    /// Something may have happened: lets every sleeper look.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.sleepers.is_empty() {
            return state;
        }
        state.turn += 1;
        let turn = state.turn;
        self.changed.notify_all();
        let unsettled = |state: &mut State| state.sleepers.values().any(|sleeper| sleeper.looked < turn);
        self.looked.wait_while(state, unsettled).unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the clock to `until`, doing what is due on the way.
    fn advance<'a>(&'a self, mut state: MutexGuard<'a, State>, until: Instant) -> MutexGuard<'a, State> {
        while let Some(at) = state.next_due(None).filter(|at| *at <= until) {
            state.stack.tick(at);
            state.stack.collect();
            state = self.settle(state);
            if state.left {
                state = self.pause(state);
            }
        }
        state.stack.tick(until);
        state.stack.collect();
        self.settle(state)
    }

    /// Gives the threads whose calls have returned, or that are about to sleep, a moment of real time.
    fn pause<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.left = false;
        drop(state);
        std::thread::sleep(PAUSE);
        self.lock()
    }

    /// Sleeping moves the clock.
    pub(crate) fn usleep(&self, us: u64) {
        let mut state = self.lock();
        state.clockwork = std::thread::current().id();
        if state.left || !state.sleepers.is_empty() {
            state = self.pause(state);
        }
        let until = state.stack.now + us;
        drop(self.advance(state, until));
    }

    /// The time; looking at it takes a microsecond, so that who spins gets on.
    pub(crate) fn now(&self) -> Instant {
        let mut state = self.lock();
        state.stack.now = state.stack.now + 1;
        state.stack.now
    }

    /// The next packet that leaves; if there is none, the clock moves on to where there is.
    pub(crate) fn departure(&self) -> Next {
        let mut state = self.lock();
        state.clockwork = std::thread::current().id();
        loop {
            if let Some((at, packet)) = state.stack.departed() {
                return Next::Packet(at, packet);
            }
            let Some(next) = state.next_due(None) else {
                return Next::Silence { is_error: state.stack.silence_is_error };
            };
            state = self.advance(state, next);
        }
    }

    /// There is no way on: says why and ends the process.
    pub(crate) fn give_up(&self, why: &str) -> ! {
        eprintln!("ringway_packetdrill: {why}: no packet is on its way and no timer is left");
        std::process::exit(1)
    }

    pub(crate) fn knows(&self, fd: i32) -> bool {
        self.lock().stack.knows(fd)
    }
}

impl State {
    /// When something happens by itself: a timer of the engine, the end of a sleeper's patience or of `own`.
    fn next_due(&self, own: Option<Instant>) -> Option<Instant> {
        let sleepers = self.sleepers.values().filter_map(|sleeper| sleeper.until);
        self.stack.engine.next_deadline().into_iter().chain(sleepers).chain(own).min()
    }
}
