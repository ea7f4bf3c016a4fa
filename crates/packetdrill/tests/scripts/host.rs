//! The stack under test: the table of C functions, behind safe calls.

use std::ffi::{CString, c_int, c_longlong, c_void};
use std::mem::MaybeUninit;

use ringway_packetdrill::{Interface, packetdrill_interface_init};

use crate::flow::Version;

/// packetdrill gives IPv6 20 bytes more, so that scripts need only one MSS.
const MTU_V6: &str = "mtu=1520";

pub(crate) struct Host {
    table: Interface,
}

// SAFETY: packetdrill too calls its table from two threads, and the library locks.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// What a call answered, and errno if it was -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) value: i64,
    pub(crate) errno: i32,
}

fn answer(value: impl Into<i64>) -> Answer {
    let value = value.into();
    let errno = if value < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 };
    Answer { value, errno }
}

/// Calls a function of the table with its own userdata.
macro_rules! call {
    ($host:ident.$name:ident($($argument:expr),*)) => {{
        // SAFETY: the userdata is the table's own, and every pointer comes with the length of what it points to.
        answer(unsafe { ($host.table.$name)($host.table.userdata, $($argument),*) } as i64)
    }};
}

impl Host {
    pub(crate) fn new(version: Version, settings: &[String]) -> Host {
        let mtu = if version == Version::V6 { MTU_V6 } else { "" };
        let settings: Vec<String> = settings.iter().map(|setting| setting.replace(' ', "\t")).collect();
        let flags = CString::new(format!("silence=error {mtu} {}", settings.join(" "))).unwrap();
        let mut table = MaybeUninit::uninit();
        // SAFETY: a C string, and room for the table, which the call fills in.
        let table = unsafe {
            packetdrill_interface_init(flags.as_ptr(), table.as_mut_ptr());
            table.assume_init()
        };
        Host { table }
    }

    pub(crate) fn socket(&self, domain: i32, kind: i32, protocol: i32) -> Answer {
        call!(self.socket(domain, kind, protocol))
    }

    pub(crate) fn bind(&self, fd: i32, at: &[u8]) -> Answer {
        call!(self.bind(fd, at.as_ptr().cast(), at.len() as u32))
    }

    pub(crate) fn connect(&self, fd: i32, at: &[u8]) -> Answer {
        call!(self.connect(fd, at.as_ptr().cast(), at.len() as u32))
    }

    pub(crate) fn listen(&self, fd: i32, backlog: i32) -> Answer {
        call!(self.listen(fd, backlog))
    }

    /// Accepts; the peer's address comes too.
    pub(crate) fn accept(&self, fd: i32) -> (Answer, Vec<u8>) {
        let (mut peer, mut len) = (vec![0_u8; 128], 128);
        let answer = call!(self.accept(fd, peer.as_mut_ptr().cast(), &raw mut len));
        peer.truncate(len as usize);
        (answer, peer)
    }

    pub(crate) fn recv(&self, fd: i32, room: usize, flags: i32) -> (Answer, Vec<u8>) {
        let mut bytes = vec![0_u8; room];
        let answer = call!(self.recv(fd, bytes.as_mut_ptr().cast(), room, flags));
        bytes.truncate(answer.value.max(0) as usize);
        (answer, bytes)
    }

    pub(crate) fn send(&self, fd: i32, bytes: &[u8], flags: i32) -> Answer {
        call!(self.send(fd, bytes.as_ptr().cast(), bytes.len(), flags))
    }

    pub(crate) fn sendto(&self, fd: i32, bytes: &[u8], flags: i32, to: &[u8]) -> Answer {
        call!(self.sendto(fd, bytes.as_ptr().cast(), bytes.len(), flags, to.as_ptr().cast(), to.len() as u32))
    }

    pub(crate) fn fcntl(&self, fd: i32, command: i32, value: i64) -> Answer {
        call!(self.fcntl(fd, command, value))
    }

    pub(crate) fn ioctl(&self, fd: i32, request: u64) -> (Answer, i64) {
        let mut value: c_int = 0;
        (call!(self.ioctl(fd, request, &raw mut value)), value.into())
    }

    pub(crate) fn close(&self, fd: i32) -> Answer {
        call!(self.close(fd))
    }

    pub(crate) fn shutdown(&self, fd: i32, how: i32) -> Answer {
        call!(self.shutdown(fd, how))
    }

    pub(crate) fn getsockopt(&self, fd: i32, level: i32, name: i32) -> (Answer, Vec<u8>) {
        let (mut value, mut len) = (vec![0_u8; 512], 512);
        let place: *mut c_void = value.as_mut_ptr().cast();
        let answer = call!(self.getsockopt(fd, level, name, place, &raw mut len));
        value.truncate(len as usize);
        (answer, value)
    }

    pub(crate) fn setsockopt(&self, fd: i32, level: i32, name: i32, value: &[u8]) -> Answer {
        call!(self.setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as u32))
    }

    pub(crate) fn poll(&self, fds: &mut [libc::pollfd], timeout_ms: i32) -> Answer {
        call!(self.poll(fds.as_mut_ptr(), fds.len() as u64, timeout_ms))
    }

    pub(crate) fn epoll_create(&self) -> Answer {
        call!(self.epoll_create(1))
    }

    pub(crate) fn epoll_ctl(&self, set: i32, operation: i32, fd: i32, events: u32) -> Answer {
        let mut event = libc::epoll_event { events, u64: fd as u64 };
        call!(self.epoll_ctl(set, operation, fd, &raw mut event))
    }

    /// Waits for one event: its bits and the descriptor.
    pub(crate) fn epoll_wait(&self, set: i32, timeout_ms: i32) -> (Answer, (u32, u64)) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let answer = call!(self.epoll_wait(set, &raw mut event, 1, timeout_ms));
        (answer, (event.events, event.u64))
    }

    /// A packet arrives.
    pub(crate) fn arrive(&self, packet: &[u8]) {
        assert_eq!(call!(self.netdev_send(packet.as_ptr().cast(), packet.len())).value, 0, "netdev_send");
    }

    /// The next packet that leaves, and when; `None` if there will be none.
    pub(crate) fn departure(&self) -> Option<(u64, Vec<u8>)> {
        let (mut packet, mut len, mut at): (_, _, c_longlong) = (vec![0_u8; 65_536], 65_536, 0);
        let place: *mut c_void = packet.as_mut_ptr().cast();
        let answer = call!(self.netdev_receive(place, &raw mut len, &raw mut at));
        packet.truncate(len);
        (answer.value == 0).then_some((at as u64, packet))
    }

    pub(crate) fn usleep(&self, us: u64) {
        assert_eq!(call!(self.usleep(us as u32)).value, 0, "usleep");
    }

    pub(crate) fn now(&self) -> u64 {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!(call!(self.gettimeofday(&raw mut time, std::ptr::null_mut())).value, 0, "gettimeofday");
        time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the last call.
        unsafe { (self.table.free)(self.table.userdata) };
    }
}
