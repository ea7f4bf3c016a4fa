//! Virtual time and waiting: who moves the clock, who sleeps, and how the two stay in step.
//!
//! The thread that made the world is its clockwork: its `usleep` and `netdev_receive` move the clock, and if one of its own
//! calls has to wait, that call does. Calls of other threads sleep until something has happened. Whenever something
//! has, the clockwork waits until every sleeper has looked, so a sleeper returns at the instant of its cause, however the
//! threads are scheduled; and it then gives them a moment of real time to ask what time it is.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use ringway_tcp::Instant;

use crate::errno::{Errno, Result};
use crate::socket::Patience;
use crate::stack::Stack;

/// Real time that a thread needs to leave a call and look at the clock.
const PAUSE: Duration = Duration::from_micros(1500);

pub(crate) struct World {
    state: Mutex<State>,
    /// Something has happened.
    changed: Condvar,
    /// A sleeper has looked.
    looked: Condvar,
    clockwork: ThreadId,
}

struct State {
    stack: Stack,
    /// Who sleeps, and until when at most.
    sleepers: BTreeMap<u64, Option<Instant>>,
    next_sleeper: u64,
    /// Counts what has happened.
    turn: u64,
    /// Sleepers that have not yet looked since the last turn.
    unsettled: usize,
    /// One has returned since the last pause.
    left: bool,
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
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
            turn: 0,
            unsettled: 0,
            left: false,
        };
        let clockwork = std::thread::current().id();
        World { state: Mutex::new(state), changed: Condvar::new(), looked: Condvar::new(), clockwork }
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
        let mut state = self.lock();
        let patience = patience(&mut state.stack);
        let mut woken = false;
        loop {
            let result = attempt(&mut state.stack);
            state.stack.collect();
            let done = !matches!(result, Err(Errno::AGAIN)) || patience.is_over(state.stack.now);
            if woken {
                state.unsettled -= 1;
                state.left |= done;
                self.looked.notify_all();
            }
            if done {
                return result;
            }
            if std::thread::current().id() == self.clockwork {
                let Some(next) = state.next_due(patience.deadline()) else {
                    self.give_up("a call waits for something that can never happen")
                };
                state = self.advance(state, next);
            } else {
                state = self.sleep(state, patience.deadline());
                woken = true;
            }
        }
    }

    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>, deadline: Option<Instant>) -> MutexGuard<'a, State> {
        let (id, turn) = (state.next_sleeper, state.turn);
        state.next_sleeper += 1;
        state.sleepers.insert(id, deadline);
        let mut state =
            self.changed.wait_while(state, |state| state.turn == turn).unwrap_or_else(PoisonError::into_inner);
        state.sleepers.remove(&id);
        state
    }

    /// Something may have happened: lets every sleeper look.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.sleepers.is_empty() || std::thread::current().id() != self.clockwork {
            return state;
        }
        state.turn += 1;
        state.unsettled = state.sleepers.len();
        self.changed.notify_all();
        self.looked.wait_while(state, |state| state.unsettled > 0).unwrap_or_else(PoisonError::into_inner)
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
        let sleepers = self.sleepers.values().copied().flatten();
        self.stack.engine.next_deadline().into_iter().chain(sleepers).chain(own).min()
    }
}
