//! Sleeping until a ring moves: by futex where only rings can move, in poll(2) where descriptors can, too.

use std::time::Duration;

use ringway_mem::kring::BELL_FUTEX;
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::futex;

use crate::backend::Wakers;
use crate::error::PortError;
use crate::port::{Port, Ready};

/// Longest single sleep where both a futex and descriptors can end a wait.
const MIXED_NAP_US: u64 = 1000;

impl Port {
    /// Asks those who move the rings for a wake-up; returns the turn to sleep on.
    pub(crate) fn arm(&self, interest: Ready) -> u32 {
        let turn =
            self.rings(interest).next().map_or(0, |ring| ring.record().turn.load(std::sync::atomic::Ordering::Acquire));
        self.rings(interest).for_each(|ring| ring.kring().waiters.arm(BELL_FUTEX));
        turn
    }

    /// Sleeps until the turn moves, a descriptor of the back end is ready, or it is time.
    pub(crate) fn sleep(&self, turn: u32, deadline_ns: Option<u64>, now_ns: u64) -> Result<(), PortError> {
        let mut wakers = Wakers::default();
        self.backend.wakers(&mut wakers);
        deadline_ns.into_iter().for_each(|at| wakers.at(at));
        let nap = wakers.deadline_ns.map(|at| Duration::from_nanos(at.saturating_sub(now_ns)));
        let result = if wakers.fds.is_empty() {
            self.sleep_on_turn(turn, nap)
        } else {
            let nap = nap.unwrap_or(Duration::MAX).min(Duration::from_micros(MIXED_NAP_US));
            poll_all(&wakers, nap)
        };
        match result {
            Ok(()) | Err(Errno::INTR | Errno::AGAIN | Errno::TIMEDOUT) => Ok(()),
            Err(errno) => Err(PortError::os(format!("wait for {}", self.info().name), errno)),
        }
    }

    fn sleep_on_turn(&self, turn: u32, nap: Option<Duration>) -> Result<(), Errno> {
        let Some(ring) = self.rings(Ready::BOTH).next() else { return Ok(()) };
        futex::wait(&ring.record().turn, futex::Flags::empty(), turn, nap.map(timespec).as_ref())
    }
}

fn poll_all(wakers: &Wakers, nap: Duration) -> Result<(), Errno> {
    let mut fds: Vec<PollFd<'_>> = wakers.fds.iter().map(|(fd, events)| PollFd::new(fd, *events)).collect();
    poll(&mut fds, Some(&timespec(nap))).map(|_| ())
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().min(i32::MAX as u64) as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}
