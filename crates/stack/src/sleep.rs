//! Waiting for the port: some polling while that has paid lately, then sleep until a frame, a deadline or the time-out.

use std::time::Duration;

use ringway_port::{Port, PortError, Ready, clock};
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// Sleeps after which the full spin is tried again, to find out whether it would pay now.
const TRY_EVERY: u32 = 64;
/// A ring that is full and has no descriptor to wait for is looked at again after this.
const FULL_NAP: Duration = Duration::from_millis(1);

/// How long to poll before sleeping: half as long each time it was in vain.
pub(crate) struct Patience {
    most_ns: u64,
    spin_ns: u64,
    idle_since_ns: Option<u64>,
    sleeps: u32,
}

impl Patience {
    pub(crate) fn new(spin_us: u32) -> Patience {
        let most_ns = u64::from(spin_us) * 1000;
        Patience { most_ns, spin_ns: most_ns, idle_since_ns: None, sleeps: 0 }
    }

    /// Frames came.
    #[inline]
    pub(crate) fn on_work(&mut self) {
        if self.idle_since_ns.take().is_some() {
            self.spin_ns = self.most_ns;
        }
    }

    /// Nothing came: whether to go on polling.
    pub(crate) fn spins(&mut self, now_ns: u64) -> bool {
        let since = *self.idle_since_ns.get_or_insert(now_ns);
        now_ns.saturating_sub(since) < self.spin_ns
    }

    /// The caller goes to sleep.
    fn on_sleep(&mut self) {
        self.idle_since_ns = None;
        self.sleeps = self.sleeps.wrapping_add(1);
        self.spin_ns = if self.sleeps.is_multiple_of(TRY_EVERY) { self.most_ns } else { self.spin_ns / 2 };
    }
}

/// Sleeps until frames come, or there is room if `wants_room`, but not beyond `until_ns` on the port's clock.
pub(crate) fn sleep(
    port: &mut Port,
    patience: &mut Patience,
    wants_room: bool,
    until_ns: Option<u64>,
) -> Result<(), PortError> {
    patience.on_sleep();
    let now_ns = clock::monotonic_ns();
    let mut wakers = port.wakers();
    until_ns.into_iter().for_each(|at| wakers.at(at));
    let nap = wakers.deadline_ns.map(|at| Duration::from_nanos(at.saturating_sub(now_ns)));
    if wakers.fds.is_empty() {
        let interest = if wants_room { Ready::BOTH } else { Ready::RX };
        return port.wait(interest, nap).map(drop);
    }
    let nap = if wants_room { Some(nap.unwrap_or(FULL_NAP).min(FULL_NAP)) } else { nap };
    let mut fds: Vec<PollFd<'_>> = wakers.fds.iter().map(|(fd, events)| PollFd::new(fd, *events)).collect();
    let timeout = nap.map(|nap| Timespec {
        tv_sec: nap.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: i64::from(nap.subsec_nanos()),
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(PortError::os(format!("wait for {}", port.info().name), errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_that_does_not_pay_is_given_up_and_tried_again() {
        let mut patience = Patience::new(8);
        let spins = |patience: &mut Patience, after_ns: u64| patience.spins(1000) && patience.spins(1000 + after_ns);
        assert!(spins(&mut patience, 7999) && !patience.spins(9000));
        patience.on_sleep();
        assert!(spins(&mut patience, 3999) && !patience.spins(5000));
        (0..20).for_each(|_| patience.on_sleep());
        assert!(!patience.spins(1000));
        patience.on_work();
        assert!(spins(&mut patience, 7999));
        let in_full = (0..TRY_EVERY).filter(|_| {
            patience.on_sleep();
            patience.spin_ns == patience.most_ns
        });
        assert_eq!(in_full.count(), 1);
    }

    #[test]
    fn without_polling_it_sleeps_at_once() {
        assert!(!Patience::new(0).spins(5));
    }
}
