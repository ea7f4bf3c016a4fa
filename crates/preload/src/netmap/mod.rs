//! netmap's programs: an open `/dev/netmap` that the kernel does not have.
//!
//! ```text
//!   open("/dev/netmap")   the kernel says ENOENT: an eventfd stands at the number until it is bound
//!   ioctl NIOC*           `ringway_netmap::Device`; once bound, the pool's memfd stands at the number, so
//!                         that mmap, fork and SCM_RIGHTS are the kernel's
//!   poll, select, epoll   `wait`, `epoll`: the devices do their I/O, everything else is waited for as ever
//!   close                 with the last number of a device in this process, the device
//! ```
//! Unlike the socket hooks these may allocate and take locks: netmap's calls are not made by allocators or in signal
//! handlers.

use std::ffi::OsStr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use core::ffi::{CStr, c_char};
use libc::{c_int, c_ulong};
use ringway_netmap::{Answer, Device, meet_in};

use crate::table::{self, Entry};
use crate::{attach, config, sys, upgrade};

pub(crate) mod epoll;
pub(crate) mod wait;

const PATH: &CStr = c"/dev/netmap";

/// Devices that a process can have open at a time.
const DEVICES_MAX: usize = 1024;

/// A device, and how many descriptor numbers of this process stand for it.
struct Open {
    device: Arc<Device>,
    numbers: u32,
}

static DEVICES: RwLock<Vec<Option<Open>>> = RwLock::new(Vec::new());

/// Before an `open` that the kernel answered with `answer` returns: opens our own device if the kernel has none.
#[inline]
pub(crate) fn opened(path: *const c_char, flags: c_int, answer: c_int) -> c_int {
    if answer >= 0 || sys::errno() != libc::ENOENT {
        return answer;
    }
    // SAFETY: the kernel has read the path to its end.
    if unsafe { CStr::from_ptr(path) } == PATH { open(flags) } else { answer }
}

#[cold]
fn open(flags: c_int) -> c_int {
    meet_others();
    let cloexec = if flags & libc::O_CLOEXEC != 0 { libc::EFD_CLOEXEC } else { 0 };
    // SAFETY: integers only.
    let fd = unsafe { libc::eventfd(0, cloexec) };
    if fd < 0 {
        return fd;
    }
    match insert(fd, Device::default()) {
        true => fd,
        false => {
            sys::close(fd);
            sys::finish(-(libc::EMFILE as isize)) as c_int
        }
    }
}

/// Ports that the program opens meet those of other processes at the monitor that serves it.
fn meet_others() {
    let socket = Path::new(OsStr::from_bytes(config::socket_path()));
    if let Some(folder) = socket.parent() {
        meet_in(folder);
    }
}

/// From now on `fd` stands for the device; false if there are too many.
fn insert(fd: c_int, device: Device) -> bool {
    attach::arm_process();
    let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
    let free = devices.iter().position(Option::is_none).unwrap_or(devices.len());
    if free >= DEVICES_MAX {
        return false;
    }
    if free == devices.len() {
        devices.push(None);
    }
    devices[free] = Some(Open { device: Arc::new(device), numbers: 1 });
    drop(devices);
    upgrade::release(table::replace(fd, Entry::Netmap(free as u32)));
    table::get(fd) == Entry::Netmap(free as u32)
}

fn get(index: u32) -> Option<Arc<Device>> {
    let devices = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
    devices.get(index as usize)?.as_ref().map(|open| open.device.clone())
}

/// The device that a descriptor stands for.
pub(crate) fn device(fd: c_int) -> Option<Arc<Device>> {
    match table::get(fd) {
        Entry::Netmap(index) => get(index),
        _ => None,
    }
}

/// Another number stands for the device.
pub(crate) fn share(index: u32) {
    let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(Some(open)) = devices.get_mut(index as usize) {
        open.numbers += 1;
    }
}

/// A number stands for it no more; the last one takes the device along.
pub(crate) fn forget(index: u32) {
    let last = {
        let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = devices.get_mut(index as usize) else { return };
        let Some(open) = place else { return };
        open.numbers -= 1;
        if open.numbers == 0 { place.take() } else { None }
    };
    if let Some(open) = last {
        epoll::forget_device(&open.device);
    }
}

/// Whether a request could be for a netmap device: their numbers have a letter of their own.
#[inline]
pub(crate) fn is_request(request: c_ulong) -> bool {
    request & 0xff00 == (b'i' as c_ulong) << 8
}

/// `ioctl` on a netmap device; None if `fd` is none.
#[cold]
pub(crate) fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> Option<c_int> {
    if table::get(fd) == Entry::Unknown {
        adopt(fd);
    }
    let Entry::Netmap(index) = table::get(fd) else { return None };
    let device = get(index)?;
    let answer = match device.ioctl(request as u32, arg as u64) {
        Ok(Answer::Done) => 0,
        Ok(Answer::Bound) => bound(index, &device),
        Err(errno) => -(errno.raw_os_error() as isize),
    };
    Some(sys::finish(answer) as c_int)
}

/// The descriptor of the pool takes the place of the eventfd, at all numbers of the device.
fn bound(index: u32, device: &Device) -> isize {
    let Some(descriptor) = device.descriptor() else { return -(libc::ENXIO as isize) };
    let mut answer = 0;
    table::for_each(0, c_int::MAX, |fd, entry| {
        if entry == Entry::Netmap(index) {
            let cloexec = if sys::is_cloexec(fd) { libc::O_CLOEXEC } else { 0 };
            let result = sys::dup3(descriptor, fd, cloexec);
            answer = if result < 0 { result } else { answer };
        }
    });
    answer
}

/// A descriptor came from elsewhere: if it is a bound netmap device, it is ours from now on.
pub(crate) fn adopt(fd: c_int) {
    // SAFETY: F_GET_SEALS and F_DUPFD_CLOEXEC take integers.
    let (seals, copy) = unsafe {
        let seals = sys::fcntl(fd, libc::F_GET_SEALS, 0);
        (seals, if seals > 0 { sys::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } else { -1 })
    };
    if seals <= 0 || copy < 0 {
        return;
    }
    // SAFETY: made just now, for the device to keep.
    let copy = unsafe { OwnedFd::from_raw_fd(copy as c_int) };
    if let Ok(device) = Device::adopt(copy) {
        insert(fd, device);
    }
}
