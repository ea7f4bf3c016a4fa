//! netmap devices in epoll sets. The kernel refuses the pools' memfds there, so the members are kept here; a wait on such
//! a set lets the devices do their I/O and then sleeps for them and for the kernel's set at once.

use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLONESHOT, c_int, epoll_event, pollfd, sigset_t};
use ringway_netmap::Device;
use rustix::event::PollFlags;

use super::wait::{Awaited, Devices, Edge};
use crate::epoll::Timeout;
use crate::table::{self, Entry};
use crate::{copy, epoll};

/// Bits of `events` that are no events.
const MODES: u32 = (EPOLLET | EPOLLONESHOT | libc::EPOLLEXCLUSIVE | libc::EPOLLWAKEUP) as u32;
/// Members of all sets together at most.
const MEMBERS_MAX: usize = 4096;

/// A device in a set.
struct Member {
    set: u32,
    fd: c_int,
    device: Arc<Device>,
    events: u32,
    data: u64,
    /// Reported once and not asked for again (EPOLLONESHOT).
    spent: bool,
    /// What it had when it was last looked at for a report.
    seen: Edge,
}

static MEMBERS: Mutex<Vec<Member>> = Mutex::new(Vec::new());
/// Whether there ever was one.
static ANY: AtomicBool = AtomicBool::new(false);

fn members() -> MutexGuard<'static, Vec<Member>> {
    MEMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `epoll_ctl` for a netmap device; a negated errno or 0.
#[cold]
pub(crate) fn control(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    let Some(device) = super::device(fd) else { return -(libc::EBADF as isize) };
    if !matches!(table::get(epfd), Entry::Epoll(_)) {
        epoll::created(epfd);
    }
    let Entry::Epoll(set) = table::get(epfd) else { return -(libc::EINVAL as isize) };
    let mut members = members();
    let known = members.iter().position(|m| m.set == set && m.fd == fd && Arc::ptr_eq(&m.device, &device));
    if op == EPOLL_CTL_DEL {
        let Some(at) = known else { return -(libc::ENOENT as isize) };
        members.swap_remove(at);
        return 0;
    }
    // SAFETY: a bad address is survived.
    let Some(wanted) = (unsafe { copy::read(event.cast_const()) }) else { return -(libc::EFAULT as isize) };
    let member = Member { set, fd, device, events: wanted.events, data: wanted.u64, spent: false, seen: Edge::first() };
    match (op, known) {
        (EPOLL_CTL_ADD, None) if members.len() < MEMBERS_MAX => members.push(member),
        (EPOLL_CTL_ADD, None) => return -(libc::ENOSPC as isize),
        (EPOLL_CTL_ADD, Some(_)) => return -(libc::EEXIST as isize),
        (EPOLL_CTL_MOD, Some(at)) => members[at] = member,
        (EPOLL_CTL_MOD, None) => return -(libc::ENOENT as isize),
        _ => return -(libc::EINVAL as isize),
    }
    ANY.store(true, Release);
    0
}

/// A device is gone: so are its memberships.
pub(crate) fn forget_device(device: &Arc<Device>) {
    members().retain(|member| !Arc::ptr_eq(&member.device, device));
}

/// The last number of a set is closed.
pub(crate) fn forget_set(set: u32) {
    if ANY.load(Relaxed) && !epoll_has_numbers(set) {
        members().retain(|member| member.set != set);
    }
}

fn epoll_has_numbers(set: u32) -> bool {
    let mut found = false;
    table::for_each(0, c_int::MAX, |_, entry| found = found || entry == Entry::Epoll(set));
    found
}

/// The set behind `epfd` if it has netmap devices.
#[inline]
pub(crate) fn set_with_devices(epfd: c_int) -> Option<u32> {
    if !ANY.load(Acquire) {
        return None;
    }
    let Entry::Epoll(set) = table::get(epfd) else { return None };
    members().iter().any(|member| member.set == set).then_some(set)
}

/// `epoll_wait` on such a set; `rest` asks for the events of everything else in it, without waiting. A count or a
/// negated errno.
pub(crate) fn wait(
    set: u32,
    epfd: c_int,
    events: *mut epoll_event,
    max: usize,
    timeout: Timeout,
    mask: *const sigset_t,
    rest: impl Fn(*mut epoll_event, usize) -> isize,
) -> isize {
    loop {
        let mut devices = awaited(set);
        devices.look();
        let found = match report(set, &devices, events, max) {
            Ok(found) => found,
            Err(errno) => return -(errno as isize),
        };
        let others = if found < max { rest(events.wrapping_add(found), max - found) } else { 0 };
        if found > 0 || others != 0 || timeout.is_over() {
            return if found > 0 { found as isize + others.max(0) } else { others };
        }
        let mut kernels = vec![pollfd { fd: epfd, events: libc::POLLIN, revents: 0 }];
        let answer = devices.sleep(&mut kernels, timeout, mask);
        if answer < 0 {
            return answer;
        }
    }
}

/// The devices of a set that are still asked for.
fn awaited(set: u32) -> Devices {
    let members = members();
    let asked = members.iter().filter(|member| member.set == set && !member.spent);
    let awaited = asked.map(|member| Awaited {
        device: member.device.clone(),
        events: PollFlags::from_bits_retain((member.events & !MODES) as u16),
        found: PollFlags::empty(),
        edge: (member.events & EPOLLET as u32 != 0).then_some(member.seen),
    });
    Devices(awaited.collect())
}

/// Writes what the devices have found to the program's array; how many events, or the errno for a bad address.
fn report(set: u32, devices: &Devices, events: *mut epoll_event, max: usize) -> Result<usize, c_int> {
    let mut count = 0;
    for member in members().iter_mut().filter(|member| member.set == set && !member.spent) {
        let Some(awaited) = devices.0.iter().find(|a| Arc::ptr_eq(&a.device, &member.device)) else { continue };
        let news = awaited.news();
        if news.is_empty() || count < max {
            member.seen = Edge { events: awaited.found, progress: member.device.progress() };
        }
        if news.is_empty() || count == max {
            continue;
        }
        // SAFETY: a bad address is survived.
        if !unsafe {
            copy::write(
                events.wrapping_add(count),
                epoll_event { events: u32::from(awaited.found.bits()), u64: member.data },
            )
        } {
            return Err(libc::EFAULT);
        }
        member.spent = member.events & EPOLLONESHOT as u32 != 0;
        count += 1;
    }
    Ok(count)
}
