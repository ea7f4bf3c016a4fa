//! Calls that never wait.

use std::ffi::{c_int, c_long, c_ulong, c_void};

use super::memory::{answer, bytes, code, values, world};
use super::{Address, LenOut, Userdata};
use crate::address;
use crate::epoll::{Change, EpollSet};
use crate::errno::{Errno, Result};
use crate::options::SIOCATMARK;
use crate::stack::Object;
use crate::world::World;

pub(super) unsafe extern "C" fn socket(userdata: Userdata, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    // SAFETY: called through the table, so `userdata` is ours.
    let world = unsafe { world(userdata) };
    code(world.call(|stack| stack.socket(domain, kind, protocol)))
}

pub(super) unsafe extern "C" fn bind(userdata: Userdata, fd: c_int, at: Address, len: libc::socklen_t) -> c_int {
    // SAFETY: called through the table; the address is as bind(2) wants it.
    let (world, said) = unsafe { (world(userdata), bytes(at.cast(), len as usize)) };
    code(world.call(|stack| {
        let end = address::parse(said?, stack.socket_at(fd)?.family)?;
        stack.bind(fd, end).map(|()| 0)
    }))
}

pub(super) unsafe extern "C" fn listen(userdata: Userdata, fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: called through the table.
    let world = unsafe { world(userdata) };
    code(world.call(|stack| stack.listen(fd, backlog).map(|()| 0)))
}

pub(super) unsafe extern "C" fn close(userdata: Userdata, fd: c_int) -> c_int {
    // SAFETY: called through the table.
    let world = unsafe { world(userdata) };
    code(world.call(|stack| stack.close(fd).map(|()| 0)))
}

pub(super) unsafe extern "C" fn shutdown(userdata: Userdata, fd: c_int, how: c_int) -> c_int {
    // SAFETY: called through the table.
    let world = unsafe { world(userdata) };
    code(world.call(|stack| stack.shutdown(fd, how).map(|()| 0)))
}

pub(super) unsafe extern "C" fn fcntl(userdata: Userdata, fd: c_int, command: c_int, value: c_long) -> c_int {
    // SAFETY: called through the table.
    let world = unsafe { world(userdata) };
    code(world.call(|stack| {
        let socket = stack.socket_at(fd)?;
        match command {
            libc::F_GETFL => Ok(libc::O_RDWR | if socket.nonblocking { libc::O_NONBLOCK } else { 0 }),
            libc::F_SETFL => {
                socket.nonblocking = value as c_int & libc::O_NONBLOCK != 0;
                Ok(0)
            }
            libc::F_GETFD | libc::F_SETFD => Ok(0),
            _ => Err(Errno::INVAL),
        }
    }))
}

pub(super) unsafe extern "C" fn ioctl(userdata: Userdata, fd: c_int, request: c_ulong, value: *mut c_int) -> c_int {
    // SAFETY: called through the table; every request known here has an int behind its pointer.
    let (world, place) = unsafe { (world(userdata), values(value, 1)) };
    let result = world.call(|stack| {
        let place = place?;
        place[0] = stack.ioctl(fd, request, place[0])?;
        Ok(place[0])
    });
    // SIOCATMARK answers by its pointer as the others do; all return 0.
    debug_assert!(request != SIOCATMARK || result.is_err() || matches!(result, Ok(0 | 1)));
    code(result.map(|_| 0))
}

pub(super) unsafe extern "C" fn getsockopt(
    userdata: Userdata,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: LenOut,
) -> c_int {
    // SAFETY: called through the table, with pointers as getsockopt(2) wants them.
    unsafe { get_option(world(userdata), fd, level, name, value, len) }
}

/// # Safety
/// `value` and `len` are as getsockopt(2) wants them.
pub(crate) unsafe fn get_option(
    world: &World,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: LenOut,
) -> c_int {
    let found = world.call(|stack| stack.option(fd, level, name));
    // SAFETY: the caller's promise.
    code(found.and_then(|found| unsafe { answer(&found, value, len, false) }).map(|()| 0))
}

pub(super) unsafe extern "C" fn setsockopt(
    userdata: Userdata,
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: libc::socklen_t,
) -> c_int {
    // SAFETY: called through the table, with pointers as setsockopt(2) wants them.
    let (world, value) = unsafe { (world(userdata), bytes(value, len as usize)) };
    code(world.call(|stack| stack.set_option(fd, level, name, value?).map(|()| 0)))
}

pub(super) unsafe extern "C" fn epoll_create(userdata: Userdata, size: c_int) -> c_int {
    // SAFETY: called through the table.
    let world = unsafe { world(userdata) };
    if size <= 0 {
        return code(Err(Errno::INVAL));
    }
    code(world.call(|stack| stack.insert(Object::Epoll(EpollSet::default()))))
}

pub(super) unsafe extern "C" fn epoll_ctl(
    userdata: Userdata,
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut libc::epoll_event,
) -> c_int {
    // SAFETY: called through the table; the event is as epoll_ctl(2) wants it.
    let (world, event) = unsafe { (world(userdata), event.as_ref().copied()) };
    code(world.call(|stack| {
        change(operation, event)
            .and_then(|(what, events, data)| stack.epoll_change(set, what, fd, events, data).map(|()| 0))
    }))
}

fn change(operation: c_int, event: Option<libc::epoll_event>) -> Result<(Change, u32, u64)> {
    let what = match operation {
        libc::EPOLL_CTL_ADD => Change::Add,
        libc::EPOLL_CTL_MOD => Change::Modify,
        libc::EPOLL_CTL_DEL => return Ok((Change::Remove, 0, 0)),
        _ => return Err(Errno::INVAL),
    };
    let event = event.ok_or(Errno::FAULT)?;
    Ok((what, event.events, event.u64))
}

pub(super) unsafe extern "C" fn pipe(userdata: Userdata, fds: *mut c_int) -> c_int {
    // SAFETY: called through the table; pipe(2) writes two numbers.
    let (world, fds) = unsafe { (world(userdata), values(fds, 2)) };
    code(world.call(|stack| {
        let fds = fds?;
        fds.copy_from_slice(&stack.pipe()?);
        Ok(0)
    }))
}
