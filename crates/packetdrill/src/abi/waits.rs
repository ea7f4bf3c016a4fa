//! Calls that may wait, but carry no bytes.

use std::ffi::{c_int, c_void};

use super::memory::{answer, bytes, code, values, world};
use super::{Address, AddressOut, LenOut, Userdata};
use crate::address;
use crate::errno::{Errno, Result};
use crate::socket::Patience;
use crate::stack::Stack;
use crate::world::World;

pub(super) unsafe extern "C" fn accept(userdata: Userdata, fd: c_int, peer: AddressOut, len: LenOut) -> c_int {
    // SAFETY: called through the table.
    let world = unsafe { world(userdata) };
    let accepted = world.wait(|stack| stack.patience(fd, 0, false), |stack| stack.accept(fd));
    code(accepted.and_then(|(new, remote, family)| {
        // SAFETY: the pointers are as accept(2) wants them.
        unsafe { answer(&address::show(remote, family), peer.cast::<c_void>(), len, true) }.map(|()| new)
    }))
}

pub(super) unsafe extern "C" fn connect(userdata: Userdata, fd: c_int, at: Address, len: libc::socklen_t) -> c_int {
    // SAFETY: called through the table; the address is as connect(2) wants it.
    let (world, said) = unsafe { (world(userdata), bytes(at.cast(), len as usize)) };
    let begun = world.call(|stack| {
        let remote = address::parse(said?, stack.socket_at(fd)?.family)?;
        stack.connect(fd, remote)
    });
    code(finish_connect(world, fd, begun).map(|()| 0))
}

/// Waits for a connect that is on its way, if the socket waits.
pub(super) fn finish_connect(world: &World, fd: c_int, begun: Result<()>) -> Result<()> {
    let on_its_way = matches!(begun, Err(Errno(libc::EINPROGRESS | libc::EALREADY)));
    if !on_its_way || world.call(|stack| stack.patience(fd, 0, true)) == Patience::None {
        return begun;
    }
    let ended = world.wait(|stack| stack.patience(fd, 0, true), |stack| stack.connected(fd));
    ended.map_err(|errno| if errno == Errno::AGAIN { Errno(libc::EINPROGRESS) } else { errno })
}

fn patience(timeout_ms: c_int) -> impl FnOnce(&mut Stack) -> Patience {
    move |stack| match timeout_ms {
        0 => Patience::None,
        ms => Patience::of(u64::try_from(ms).ok().map(|ms| ms * 1000), stack.now),
    }
}

pub(super) unsafe extern "C" fn poll(
    userdata: Userdata,
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: called through the table, with an array as poll(2) wants it.
    let (world, fds) = unsafe { (world(userdata), values(fds, count as usize)) };
    let fds = match fds {
        Ok(fds) => fds,
        Err(errno) => return code(Err(errno)),
    };
    let always = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as u32;
    let ready = world.wait(patience(timeout_ms), |stack| {
        let mut ready = 0;
        for entry in fds.iter_mut().filter(|entry| entry.fd >= 0) {
            entry.revents = (stack.readiness(entry.fd) & (entry.events as u16 as u32 | always)) as i16;
            ready += i32::from(entry.revents != 0);
        }
        if ready == 0 { Err(Errno::AGAIN) } else { Ok(ready) }
    });
    code(nobody_is_zero(ready))
}

pub(super) unsafe extern "C" fn epoll_wait(
    userdata: Userdata,
    set: c_int,
    events: *mut libc::epoll_event,
    max: c_int,
    timeout_ms: c_int,
) -> c_int {
    if max <= 0 {
        return code(Err(Errno::INVAL));
    }
    // SAFETY: called through the table, with an array as epoll_wait(2) wants it.
    let (world, events) = unsafe { (world(userdata), values(events, max as usize)) };
    let found = events.and_then(|events| {
        let found = world.wait(patience(timeout_ms), |stack| stack.epoll_collect(set, events.len()))?;
        for (place, (bits, data)) in events.iter_mut().zip(&found) {
            *place = libc::epoll_event { events: *bits, u64: *data };
        }
        Ok(found.len() as i32)
    });
    code(nobody_is_zero(found))
}

/// A wait that ended without anybody being ready.
fn nobody_is_zero(result: Result<i32>) -> Result<i32> {
    if result == Err(Errno::AGAIN) { Ok(0) } else { result }
}
