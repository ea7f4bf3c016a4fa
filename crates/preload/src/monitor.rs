//! This process's line to the monitor. Nothing on a data path waits for it: offers are sent without
//! blocking, and answers are picked up by whichever watched call comes next. When the monitor is
//! away, one connection attempt a second is all that is spent on it.

use core::mem::{size_of, zeroed};
use core::sync::atomic::{AtomicU32, Ordering::*};

use libc::{c_int, c_void, cmsghdr, iovec, msghdr};
use ringway_channel::Reason;
use ringway_channel::rendezvous::{DESCRIPTORS_MAX, Kind, MESSAGE_BYTES, Message};
use ringway_mem::region::Region;
use ringway_mem::stats::{PROCESS_PAGE_BYTES, ProcessPage};

use crate::conn::Conn;
use crate::spinlock::SpinLock;
use crate::table::{self, Entry};
use crate::{attach, config, conn, limits, stats, sys, thread};

/// Pause between attempts to reach the monitor, in nanoseconds.
const RETRY_NS: u64 = 1_000_000_000;
/// How long a re-attach (after exec, fork or SCM_RIGHTS) may take, in nanoseconds.
const ATTACH_NS: u64 = 2_000_000_000;
/// Longest sleep of an attach before it looks whether another thread has read its answer, in microseconds.
const ATTACH_SLICE_US: u64 = 2_000;
/// Answers handled in one go.
const ANSWERS_MAX: usize = 64;

struct Line {
    /// -1 = not connected.
    fd: c_int,
    /// Process that opened it: a forked child must not use its parent's.
    owner: i32,
    retry_at_ns: u64,
}

static LINE: SpinLock<Line> = SpinLock::new(Line { fd: -1, owner: 0, retry_at_ns: 0 });
/// Mailbox count up to which answers have been read.
static SEEN: AtomicU32 = AtomicU32::new(0);
/// Offers on the way whose answer may come before the page does.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Fork holds the line's lock.
pub(crate) fn fork_acquire() {
    LINE.acquire();
}

pub(crate) fn fork_release() {
    LINE.release();
}

/// Whether the monitor could not be reached a moment ago; makes no system call.
pub(crate) fn is_away() -> bool {
    let line = LINE.lock();
    line.fd < 0 && line.owner == thread::process_id() && sys::monotonic_ns() < line.retry_at_ns
}

/// Ends the line; nothing is offered or told from now on until somebody has reason to take it up again.
pub(crate) fn hang_up() {
    let mut line = LINE.lock();
    if line.fd >= 0 && line.owner == thread::process_id() {
        disconnect(&mut line);
    }
}

/// Makes itself known for a `ringway run` that wants an account, so that a connection too short to be offered is no
/// secret. The answer is read with the first offer's.
pub(crate) fn introduce() {
    if config::run_id() != 0 && stats::page().is_none() {
        ensure_connected(&mut LINE.lock());
    }
}

/// Offers a connected socket. False if the monitor cannot be reached now.
pub(crate) fn offer(token: u64, fd: c_int) -> bool {
    let sent = send(Message { token, ..Message::new(Kind::Offer) }, Some(fd));
    if sent {
        WAITING.fetch_add(1, Relaxed);
    }
    sent
}

/// Tells the monitor something that has no answer.
pub(crate) fn tell(message: Message) {
    let known = { LINE.lock().fd };
    if known >= 0 {
        send(message, None);
    }
}

/// Reads answers if there may be any: one load when there are none.
#[inline]
pub(crate) fn poll() {
    let news = match stats::page() {
        Some(page) => page.mailbox.load(Acquire) != SEEN.load(Relaxed),
        None => WAITING.load(Relaxed) != 0,
    };
    if news {
        drain();
    }
}

/// Asks for the regions of a connection that somebody else may have upgraded and waits for the answer.
/// False if it is not upgraded, or the monitor does not know it or is away.
pub(crate) fn attach_now(token: u64, c: &Conn, fd: c_int) -> bool {
    c.identify(fd);
    c.attach_asked.store(1, Release);
    let deadline = sys::monotonic_ns() + ATTACH_NS;
    while !send(Message { token, ..Message::new(Kind::Attach) }, Some(fd)) {
        // A monitor that is there but has its hands full reads on soon.
        if { LINE.lock().fd } < 0 || sys::monotonic_ns() >= deadline {
            return false;
        }
        sys::sleep_us(ATTACH_SLICE_US);
    }
    while c.attach_asked.load(Acquire) != 0 && sys::monotonic_ns() < deadline {
        let line = { LINE.lock().fd };
        if line < 0 {
            break;
        }
        let mut p = libc::pollfd { fd: line, events: libc::POLLIN, revents: 0 };
        let mut slice = sys::timespec_from_us(ATTACH_SLICE_US);
        // SAFETY: one pollfd and a timespec of ours.
        unsafe { sys::ppoll(&mut p, 1, &mut slice, core::ptr::null()) };
        drain();
    }
    c.state() == conn::State::Attached
}

fn send(message: Message, fd: Option<c_int>) -> bool {
    let mut line = LINE.lock();
    // Twice: a line that broke long ago is noticed now, and there may be a new monitor.
    for _ in 0..2 {
        if !ensure_connected(&mut line) {
            return false;
        }
        match send_on(line.fd, &message, fd) {
            0.. => return true,
            n if n == -(libc::EAGAIN as isize) || n == -(libc::ETOOMANYREFS as isize) => return false,
            _ => disconnect(&mut line),
        }
    }
    false
}

fn ensure_connected(line: &mut Line) -> bool {
    let here = thread::process_id();
    if line.owner != here {
        // The descriptor belongs to the parent; this process's copy is closed without a word.
        if line.fd >= 0 && line.owner != 0 {
            close_private(line.fd);
        }
        (line.fd, line.owner, line.retry_at_ns) = (-1, here, 0);
    }
    if line.fd >= 0 {
        return true;
    }
    let now = sys::monotonic_ns();
    if now < line.retry_at_ns || !table::is_ours() {
        return false;
    }
    line.retry_at_ns = now + RETRY_NS;
    let fd = match connect() {
        Ok(fd) => fd,
        Err(reason) => {
            stats::refused(reason);
            return false;
        }
    };
    let hello = Message {
        token: config::run_id(),
        pid: here as u32,
        profile: crate::spin::profile() as u8,
        ..Message::new(Kind::Hello)
    };
    if send_on(fd, &hello, None) < 0 {
        close_private(fd);
        return false;
    }
    line.fd = fd;
    SEEN.store(0, Relaxed);
    true
}

/// A new line, on a descriptor that the program does not miss.
fn connect() -> Result<c_int, Reason> {
    let fd = limits::beyond_the_programs(private_socket).ok_or(Reason::ResourceLimit)?;
    // SAFETY: an all-zero sockaddr_un is valid.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(config::socket_path()) {
        *to = *from as libc::c_char;
    }
    let (at, bytes) = ((&raw const address) as usize, size_of::<libc::sockaddr_un>());
    // SAFETY: the kernel reads the address of the given length.
    if unsafe { sys::syscall6(libc::SYS_connect, fd as usize, at, bytes, 0, 0, 0) } < 0 {
        close_private(fd);
        return Err(Reason::MonitorAbsent);
    }
    Ok(fd)
}

/// A Unix socket at number `from` or above: out of the way of the program's own numbers.
fn private_socket(from: c_int) -> Option<c_int> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain integers.
    let low = unsafe { sys::syscall6(libc::SYS_socket, libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0) };
    if low < 0 {
        return None;
    }
    let low = low as c_int;
    if low >= from {
        table::replace(low, Entry::Private);
        return Some(low);
    }
    // SAFETY: plain integers.
    let high = unsafe { sys::fcntl(low, libc::F_DUPFD_CLOEXEC, from as usize) };
    sys::close(low);
    if high < 0 {
        return None;
    }
    table::replace(high as c_int, Entry::Private);
    Some(high as c_int)
}

/// The program wants the number of one of the library's descriptors: the line is cut and taken up again
/// on another number when it is next needed.
pub(crate) fn vacate(fd: c_int) {
    let mut line = LINE.lock();
    if line.fd == fd {
        disconnect(&mut line);
        line.retry_at_ns = 0;
    } else {
        close_private(fd);
    }
}

fn close_private(fd: c_int) {
    if table::replace_if(fd, Entry::Private, Entry::Unknown) {
        sys::close(fd);
    }
}

fn disconnect(line: &mut Line) {
    close_private(line.fd);
    line.fd = -1;
    WAITING.store(0, Relaxed);
    conn::for_each(|_, c| c.offered.store(0, Relaxed));
}

/// Room for the descriptors of one message.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

const HEADER: usize = size_of::<cmsghdr>();
const CONTROL_BYTES: usize = HEADER + 8 * DESCRIPTORS_MAX.div_ceil(2);

fn send_on(line: c_int, message: &Message, fd: Option<c_int>) -> isize {
    let mut bytes = message.encode();
    let mut piece = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: MESSAGE_BYTES };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: an all-zero msghdr is valid.
    let mut header: msghdr = unsafe { zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
    if let Some(fd) = fd {
        let rights = cmsghdr {
            cmsg_len: HEADER + size_of::<c_int>(),
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_RIGHTS,
        };
        // SAFETY: Control is aligned for cmsghdr and has room for it and one descriptor.
        unsafe {
            control.0.as_mut_ptr().cast::<cmsghdr>().write(rights);
            control.0.as_mut_ptr().add(HEADER).cast::<c_int>().write(fd);
        }
        (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast::<c_void>(), HEADER + 8);
    }
    // SAFETY: everything the header points to lives on this frame.
    unsafe { sys::sendmsg(line, &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }
}

/// In the place of a descriptor that the process's limit left no room for.
pub(crate) const LEFT_OUT: c_int = -2;

/// Reads one message and its descriptors; unused places are -1, or [`LEFT_OUT`] if the kernel had none to give.
fn receive_on(line: c_int) -> Result<(Message, [c_int; DESCRIPTORS_MAX]), isize> {
    let mut bytes = [0u8; MESSAGE_BYTES];
    let mut piece = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: MESSAGE_BYTES };
    let mut control = Control([0; CONTROL_BYTES]);
    // SAFETY: an all-zero msghdr is valid.
    let mut header: msghdr = unsafe { zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
    (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast::<c_void>(), CONTROL_BYTES);
    // SAFETY: everything the header points to lives on this frame.
    let n = unsafe { sys::recvmsg(line, &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
    if n <= 0 {
        return Err(n);
    }
    let absent = if header.msg_flags & libc::MSG_CTRUNC != 0 { LEFT_OUT } else { -1 };
    let mut fds = [absent; DESCRIPTORS_MAX];
    // SAFETY: the kernel filled `msg_controllen` bytes of the aligned buffer.
    unsafe {
        let rights = control.0.as_ptr().cast::<cmsghdr>();
        if header.msg_controllen >= HEADER && (*rights).cmsg_type == libc::SCM_RIGHTS {
            let count = ((*rights).cmsg_len - HEADER) / size_of::<c_int>();
            for (i, fd) in fds.iter_mut().enumerate().take(count) {
                *fd = control.0.as_ptr().add(HEADER).cast::<c_int>().add(i).read();
            }
        }
    }
    match Message::decode(bytes.get(..n as usize).unwrap_or(&[])) {
        Ok(message) => Ok((message, fds)),
        Err(_) => {
            close_all(fds);
            Err(0)
        }
    }
}

fn close_all(fds: [c_int; DESCRIPTORS_MAX]) {
    for fd in fds.into_iter().filter(|&fd| fd >= 0) {
        sys::close(fd);
    }
}

/// Reads and handles what the monitor has sent.
#[cold]
fn drain() {
    for _ in 0..ANSWERS_MAX {
        let received = {
            let mut line = LINE.lock();
            if line.fd < 0 || line.owner != thread::process_id() {
                return;
            }
            match receive_on(line.fd) {
                Ok(received) => received,
                Err(n) if n == -(libc::EAGAIN as isize) || n == -(libc::EINTR as isize) => return,
                Err(_) => return disconnect(&mut line),
            }
        };
        handle(received.0, received.1);
    }
}

fn handle(message: Message, fds: [c_int; DESCRIPTORS_MAX]) {
    SEEN.fetch_add(1, Relaxed);
    match message.kind {
        Kind::Welcome => welcome(fds),
        Kind::Paired | Kind::Refused => answered(&message, fds),
        Kind::Rejected => {
            stats::refused(message.reason);
            let mut line = LINE.lock();
            disconnect(&mut line);
            // Another version's monitor will not change its mind within a second.
            line.retry_at_ns += 60 * RETRY_NS;
        }
        _ => {}
    }
    close_all(fds);
}

/// The monitor's verdict on an offer, or on the question whether somebody else has upgraded the connection.
fn answered(message: &Message, fds: [c_int; DESCRIPTORS_MAX]) {
    WAITING.store(WAITING.load(Relaxed).saturating_sub(1), Relaxed);
    let paired = message.kind == Kind::Paired;
    if !paired {
        stats::refused(message.reason);
    }
    match Conn::pinned(message.token) {
        Some((index, c)) => {
            match paired {
                true => attach::attach(index, c, message, fds),
                false => attach::refused(c, message.reason),
            }
            c.attach_asked.store(0, Release);
            c.put(index);
        }
        None if paired => tell(Message { cookie: message.cookie, ..Message::new(Kind::Closed) }),
        None => {}
    }
}

/// Maps the process page.
fn welcome(fds: [c_int; DESCRIPTORS_MAX]) {
    // SAFETY: borrowed for the call only; closed by the caller.
    let page = unsafe { std::os::fd::BorrowedFd::borrow_raw(fds[0].max(0)) };
    let Ok(region) = Region::open(page, PROCESS_PAGE_BYTES, PROCESS_PAGE_BYTES) else { return };
    let (base, _) = region.into_raw();
    // SAFETY: a mapping of PROCESS_PAGE_BYTES that stays; all fields are atomic.
    let page = unsafe { base.cast::<ProcessPage>().as_ref() };
    stats::set_page(page, thread::process_id());
}
