//! Questions about an interface, asked by ioctl: number, state, MTU, driver, queues.

use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;

use super::call;

/// Bytes of an interface's name at most, without the zero at its end.
pub(crate) const NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo` and `struct ethtool_channels`, as far as they are read (include/uapi/linux/ethtool.h).
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

#[repr(C)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

const _: () = assert!(size_of::<DriverInfo>() == 196 && size_of::<Channels>() == 36);

/// A socket to ask through, for the network namespace of the thread that made it.
pub(crate) struct Asker(OwnedFd);

impl Asker {
    pub(crate) fn new() -> Result<Asker, Errno> {
        call::socket(libc::AF_INET, libc::SOCK_DGRAM).map(Asker)
    }

    fn request(name: &str) -> Result<libc::ifreq, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NODEV);
        }
        // SAFETY: a structure of numbers, for which zero is valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(request)
    }

    fn ask(&self, name: &str, what: u64) -> Result<libc::ifreq, Errno> {
        let mut request = Self::request(name)?;
        // SAFETY: the SIOCGIF* requests asked here read and write a `struct ifreq`.
        unsafe { call::ioctl(self.0.as_fd(), what, &mut request) }?;
        Ok(request)
    }

    /// The interface's number.
    pub(crate) fn index(&self, name: &str) -> Result<u32, Errno> {
        let answer = self.ask(name, libc::SIOCGIFINDEX)?;
        // SAFETY: the kernel has written this member.
        Ok(unsafe { answer.ifr_ifru.ifru_ifindex } as u32)
    }

    pub(crate) fn mtu(&self, name: &str) -> Result<u32, Errno> {
        let answer = self.ask(name, libc::SIOCGIFMTU)?;
        // SAFETY: the kernel has written this member.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu } as u32)
    }

    fn flags(&self, name: &str) -> Result<i16, Errno> {
        let answer = self.ask(name, libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel has written this member.
        Ok(unsafe { answer.ifr_ifru.ifru_flags })
    }

    pub(crate) fn is_up(&self, name: &str) -> Result<bool, Errno> {
        Ok(self.flags(name)? & libc::IFF_UP as i16 != 0)
    }

    pub(crate) fn bring_up(&self, name: &str) -> Result<(), Errno> {
        let mut request = Self::request(name)?;
        request.ifr_ifru.ifru_flags = self.flags(name)? | libc::IFF_UP as i16;
        // SAFETY: SIOCSIFFLAGS reads a `struct ifreq`.
        unsafe { call::ioctl(self.0.as_fd(), libc::SIOCSIFFLAGS, &mut request) }.map(drop)
    }

    pub(crate) fn set_mtu(&self, name: &str, bytes: u32) -> Result<(), Errno> {
        let mut request = Self::request(name)?;
        request.ifr_ifru.ifru_mtu = bytes as libc::c_int;
        // SAFETY: SIOCSIFMTU reads a `struct ifreq`.
        unsafe { call::ioctl(self.0.as_fd(), libc::SIOCSIFMTU, &mut request) }.map(drop)
    }

    /// # Safety
    /// `T` must be the structure of the ethtool command that it begins with.
    unsafe fn ethtool<T>(&self, name: &str, data: &mut T) -> Result<(), Errno> {
        let mut request = Self::request(name)?;
        request.ifr_ifru.ifru_data = std::ptr::from_mut(data).cast::<c_void>().cast();
        // SAFETY: the kernel reads and writes the structure of the command, which the caller vouches for.
        unsafe { call::ioctl(self.0.as_fd(), libc::SIOCETHTOOL, &mut request) }.map(drop)
    }

    /// The driver's name, empty if it has none.
    pub(crate) fn driver(&self, name: &str) -> String {
        let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
        // SAFETY: the structure of that command.
        if unsafe { self.ethtool(name, &mut info) }.is_err() {
            return String::new();
        }
        let bytes = info.driver.split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Queues in use: receiving and sending. One each where the driver does not say.
    pub(crate) fn queues(&self, name: &str) -> (u32, u32) {
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, max: [0; 4], rx: 0, tx: 0, other: 0, combined: 0 };
        // SAFETY: the structure of that command.
        match unsafe { self.ethtool(name, &mut channels) } {
            Ok(()) => ((channels.rx + channels.combined).max(1), (channels.tx + channels.combined).max(1)),
            Err(_) => (1, 1),
        }
    }
}
