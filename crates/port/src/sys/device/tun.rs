//! TAP devices: one descriptor for each queue (Documentation/networking/tuntap.rst).

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::call;
use super::interface::NAME_BYTES_MAX;

/// One queue of the TAP device `name`, which is made if there is none. Each read and write carries one frame behind a
/// virtio-net header of 12 bytes.
pub(crate) fn open(name: &str, multi_queue: bool) -> Result<OwnedFd, Errno> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::NODEV);
    }
    let fd = rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: a structure of numbers, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = (flags | if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 }) as i16;
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`.
    unsafe { call::ioctl(fd.as_fd(), libc::TUNSETIFF, &mut request) }?;
    let mut header_bytes: libc::c_int = HEADER_BYTES as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    unsafe { call::ioctl(fd.as_fd(), libc::TUNSETVNETHDRSZ, &mut header_bytes) }?;
    Ok(fd)
}

/// Bytes of the header before each frame.
pub(crate) const HEADER_BYTES: usize = 12;

/// Says what may be left to whoever reads: checksums and segmentation, or nothing.
pub(crate) fn set_offload(fd: &OwnedFd, take: bool) -> Result<(), Errno> {
    let taken = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let flags: u64 = if take { taken.into() } else { 0 };
    // SAFETY: TUNSETOFFLOAD takes its argument by value: no memory is touched.
    let result =
        unsafe { libc::syscall(libc::SYS_ioctl, std::os::fd::AsRawFd::as_raw_fd(fd), libc::TUNSETOFFLOAD, flags) };
    call::answer(result).map(drop)
}
