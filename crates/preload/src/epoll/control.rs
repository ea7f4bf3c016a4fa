//! `epoll_ctl`: the kernel decides, then the bookkeeping follows.

use core::sync::atomic::Ordering::*;

use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, c_int, epoll_event};
use ringway_channel::Reason;

use super::set::{Nested, Set};
use crate::conn::{Conn, State};
use crate::table::{self, Entry};
use crate::{attach, copy, sys, upgrade};

/// One call, as the program made it. The answer is the kernel's.
pub(crate) fn control(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    let Some(set) = super::set_of(epfd) else { return outside(epfd, op, fd, event) };
    if let Entry::Epoll(inner) = table::get(fd) {
        return control_nested(set, inner, epfd, op, fd, event);
    }
    if op == EPOLL_CTL_ADD && table::get(fd) == Entry::Tcp {
        // To be connected later: it must be known by then that somebody waits for it.
        upgrade::watch(fd);
    }
    let Some((index, conn)) = upgrade::connection(fd) else { return kernel(epfd, op, fd, event) };
    if op == EPOLL_CTL_ADD && set.is_shared() {
        attach::keep_on_tcp(conn, fd, Reason::Shared);
        return kernel(epfd, op, fd, event);
    }
    match op {
        EPOLL_CTL_ADD => add(set, index, conn, epfd, fd, event),
        EPOLL_CTL_MOD => modify(set, conn, epfd, fd, event),
        EPOLL_CTL_DEL => remove(set, conn, epfd, fd, event),
        _ => kernel(epfd, op, fd, event),
    }
}

fn kernel(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    // SAFETY: the program's own arguments; the kernel checks them.
    unsafe { sys::epoll_ctl(epfd, op, fd, event) }
}

/// A set that is not kept track of: a connection in it must stay on TCP, or its waiters would not
/// hear of what comes by the ring.
fn outside(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    if op == EPOLL_CTL_ADD
        && let Some((_, conn)) = upgrade::connection(fd)
    {
        attach::keep_on_tcp(conn, fd, Reason::ResourceLimit);
    }
    kernel(epfd, op, fd, event)
}

fn read(event: *mut epoll_event) -> Option<epoll_event> {
    // SAFETY: a bad address is survived.
    unsafe { copy::read(event.cast_const()) }
}

fn add(set: &'static Set, index: u32, conn: &'static Conn, epfd: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    if let Some(answer) = unpark(set, conn, fd, event) {
        return answer;
    }
    let answer = kernel(epfd, EPOLL_CTL_ADD, fd, event);
    let Some(wanted) = read(event).filter(|_| answer == 0) else { return answer };
    let mut inner = set.lock();
    if let Some(stale) = inner.find(conn, fd) {
        inner.remove(stale);
    }
    match inner.add(index, conn, fd, &wanted) {
        Some(slot) if conn.state() == State::Attached => inner.convert(index, conn, slot),
        Some(_) => {}
        None => {
            drop(inner);
            attach::keep_on_tcp(conn, fd, Reason::ResourceLimit);
        }
    }
    answer
}

/// Adding a descriptor whose kernel registration is still there, because removing it was not passed on.
fn unpark(set: &'static Set, conn: &Conn, fd: c_int, event: *mut epoll_event) -> Option<isize> {
    let mut inner = set.lock();
    let slot = inner.find(conn, fd)?;
    let epfd = inner.epfd;
    let r = inner.registration(slot).filter(|r| r.parked)?;
    let Some(wanted) = read(event) else { return Some(-(libc::EFAULT as isize)) };
    if wanted.events & libc::EPOLLEXCLUSIVE as u32 != 0 {
        // Has rules of its own, which the kernel knows.
        kernel(epfd, EPOLL_CTL_DEL, fd, event);
        inner.remove(slot);
        return None;
    }
    r.revive(&wanted);
    inner.renew(slot);
    Some(0)
}

fn modify(set: &'static Set, conn: &Conn, epfd: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    let mut inner = set.lock();
    let Some(slot) = inner.find(conn, fd) else {
        drop(inner);
        return kernel(epfd, EPOLL_CTL_MOD, fd, event);
    };
    let Some(&mut r) = inner.registration(slot) else { return -(libc::ENOENT as isize) };
    if r.parked {
        return -(libc::ENOENT as isize);
    }
    if r.events & libc::EPOLLEXCLUSIVE as u32 != 0 {
        return -(libc::EINVAL as isize);
    }
    // A converted registration looks the same to the kernel whatever the program wants.
    if !r.converted {
        let answer = kernel(epfd, EPOLL_CTL_MOD, fd, event);
        if answer < 0 {
            return answer;
        }
    }
    let Some(wanted) = read(event) else { return -(libc::EFAULT as isize) };
    if r.converted && wanted.events & libc::EPOLLEXCLUSIVE as u32 != 0 {
        return -(libc::EINVAL as isize);
    }
    if let Some(r) = inner.registration(slot) {
        r.revive(&wanted);
    }
    inner.renew(slot);
    0
}

fn remove(set: &'static Set, conn: &Conn, epfd: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    let mut inner = set.lock();
    let slot = inner.find(conn, fd);
    if let Some(r) = slot.and_then(|slot| inner.registration(slot)) {
        if r.parked {
            return -(libc::ENOENT as isize);
        }
        if r.converted && !set.is_foreign() {
            r.parked = true;
            slot.into_iter().for_each(|slot| inner.cool(slot));
            return 0;
        }
    }
    let answer = kernel(epfd, EPOLL_CTL_DEL, fd, event);
    if let Some(slot) = slot.filter(|_| answer == 0) {
        inner.remove(slot);
    }
    answer
}

/// An epoll descriptor inside another: remembered, so that a wait on the outer one asks the inner set.
fn control_nested(
    set: &'static Set,
    inner_set: u32,
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> isize {
    let answer = kernel(epfd, op, fd, event);
    if answer < 0 {
        return answer;
    }
    let mut outer = set.lock();
    if let Some(at) = outer.nested.as_slice().iter().position(|n| n.fd == fd) {
        outer.nested.swap_remove(at);
        set.ours.fetch_sub(1, Relaxed);
    }
    if op != EPOLL_CTL_DEL
        && let Some(wanted) = read(event)
        && outer.nested.push(Nested { set: inner_set, fd, events: wanted.events, data: wanted.u64 })
    {
        set.ours.fetch_add(1, Relaxed);
    }
    answer
}
