//! poll with netmap devices among the descriptors: the devices do their I/O; then everything is waited for at once, the
//! devices by a bell.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use libc::{POLLIN, c_int, pollfd, sigset_t};
use ringway_mem::bell::Bell;
use ringway_netmap::{Device, Progress};
use rustix::event::PollFlags;

use crate::epoll::Timeout;
use crate::ops::poll as plain;
use crate::sys;
use crate::table::{self, Entry};

/// Between looks at a ring for which too many wait already, in nanoseconds.
const NAP_NS: u64 = 1_000_000;

/// Whether the array has netmap devices.
pub(crate) fn concerns(fds: &[pollfd]) -> bool {
    fds.iter().any(|p| matches!(table::get(p.fd), Entry::Netmap(_)))
}

/// A device in a wait, what it is waited for, and what came.
pub(crate) struct Awaited {
    pub(crate) device: Arc<Device>,
    pub(crate) events: PollFlags,
    pub(crate) found: PollFlags,
    /// Edge-triggered: what was reported last, which is no news.
    pub(crate) edge: Option<Edge>,
}

/// What a device had when it was last reported.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) events: PollFlags,
    pub(crate) progress: Progress,
}

impl Edge {
    /// Before the first report: everything is news.
    pub(crate) fn first() -> Edge {
        Edge { events: PollFlags::empty(), progress: Progress::default() }
    }
}

impl Awaited {
    fn look(&mut self) {
        let device = &self.device;
        self.found = if self.edge.is_some() { device.poll_for_edge(self.events) } else { device.poll(self.events) };
    }

    /// What is to be reported.
    pub(crate) fn news(&self) -> PollFlags {
        let Some(edge) = self.edge else { return self.found };
        self.found & (!edge.events | self.device.progress().since(edge.progress))
    }
}

/// The devices of a wait.
pub(crate) struct Devices(pub(crate) Vec<Awaited>);

impl Devices {
    /// Does the I/O of all; whether anything came.
    pub(crate) fn look(&mut self) -> bool {
        self.0.iter_mut().for_each(Awaited::look);
        self.0.iter().any(|awaited| !awaited.news().is_empty())
    }

    /// Sleeps until a ring of the devices moves or something comes in `others`, at most till the time is over.
    /// Returns how many of `others` have events, or a negated errno; 0 calls for another look.
    pub(crate) fn sleep(&mut self, others: &mut Vec<pollfd>, timeout: Timeout, mask: *const sigset_t) -> isize {
        let bell = match Bell::new() {
            Ok(bell) => bell,
            Err(errno) => return -(errno.raw_os_error() as isize),
        };
        let heard = self.0.iter().map(|a| a.device.arm(a.events, bell.number())).fold(true, |all, one| all & one);
        let answer = if self.look() { 0 } else { self.wait(others, &bell, heard, timeout, mask) };
        self.0.iter().for_each(|a| a.device.disarm(a.events, bell.number()));
        answer
    }

    fn wait(
        &self,
        others: &mut Vec<pollfd>,
        bell: &Bell,
        heard: bool,
        timeout: Timeout,
        mask: *const sigset_t,
    ) -> isize {
        let programs = others.len();
        let wakers: Vec<_> = self.0.iter().map(|awaited| awaited.device.wakers()).collect();
        others.push(pollfd { fd: bell.fd().as_raw_fd(), events: POLLIN, revents: 0 });
        for (fd, events) in wakers.iter().flat_map(|wakers| &wakers.fds) {
            others.push(pollfd { fd: fd.as_raw_fd(), events: events.bits() as i16, revents: 0 });
        }
        let nap = (!heard).then(|| sys::monotonic_ns() + NAP_NS);
        let deadline = wakers.iter().filter_map(|wakers| wakers.deadline_ns).chain(nap).min();
        let answer = plain::poll(others, earlier(timeout, deadline), mask);
        others.truncate(programs);
        if answer < 0 { answer } else { others.iter().filter(|p| p.revents != 0).count() as isize }
    }
}

fn earlier(timeout: Timeout, deadline_ns: Option<u64>) -> Timeout {
    match (timeout, deadline_ns) {
        (Timeout::Never, Some(at)) => Timeout::At(at),
        (Timeout::At(end), Some(at)) => Timeout::At(at.min(end)),
        (timeout, _) => timeout,
    }
}

/// `poll` on a private copy of the program's array. A count or a negated errno.
pub(crate) fn poll(fds: &mut [pollfd], timeout: Timeout, mask: *const sigset_t) -> isize {
    let mut devices = Devices(vec![]);
    let mut places = vec![];
    let mut others = fds.to_vec();
    for (place, p) in others.iter_mut().enumerate() {
        p.revents = 0;
        if let Some(device) = super::device(p.fd) {
            let events = PollFlags::from_bits_retain(p.events as u16);
            devices.0.push(Awaited { device, events, found: PollFlags::empty(), edge: None });
            places.push(place);
            p.fd = -1;
        }
    }
    loop {
        let came = devices.look();
        let answer = if came || timeout.is_over() {
            plain::poll(&mut others, Timeout::Now, core::ptr::null())
        } else {
            devices.sleep(&mut others, timeout, mask)
        };
        if answer < 0 {
            return answer;
        }
        let came = came || devices.look();
        if came || answer > 0 || timeout.is_over() {
            return report(fds, &others, &places, &devices);
        }
    }
}

/// Fills the program's array in; how many entries have events.
fn report(fds: &mut [pollfd], others: &[pollfd], places: &[usize], devices: &Devices) -> isize {
    fds.iter_mut().zip(others).for_each(|(p, other)| p.revents = other.revents);
    for (place, awaited) in places.iter().zip(&devices.0) {
        if let Some(p) = fds.get_mut(*place) {
            p.revents = awaited.found.bits() as c_int as i16;
        }
    }
    fds.iter().filter(|p| p.revents != 0).count() as isize
}
