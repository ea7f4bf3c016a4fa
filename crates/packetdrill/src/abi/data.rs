//! Calls that carry bytes.

use std::ffi::{c_int, c_uint, c_void};

use super::memory::{bytes, count, values, world};
use super::waits::finish_connect;
use super::{Address, AddressOut, LenOut, Userdata};
use crate::address;
use crate::errno::{Errno, Result};
use crate::messages::Control;
use crate::transfer::partial;
use crate::world::World;

/// Pieces that a call may name (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

fn receive(world: &World, fd: c_int, out: &mut [u8], flags: c_int) -> Result<usize> {
    world.wait(|stack| stack.patience(fd, flags, false), |stack| stack.receive(fd, out, flags))
}

fn give(world: &World, fd: c_int, piece: &[u8], flags: c_int) -> Result<usize> {
    let mut done = 0;
    let patience = |stack: &mut crate::stack::Stack| stack.patience(fd, flags, true);
    let result = world.wait(patience, |stack| stack.send(fd, piece, flags, &mut done));
    let result = partial(result, done);
    if flags & libc::MSG_ZEROCOPY != 0 && result.is_ok() {
        world.call(|stack| stack.lend(fd));
    }
    result
}

/// # Safety
/// `pieces` is null or as readv(2) wants it.
unsafe fn pieces<'a>(pieces: *const libc::iovec, len: usize) -> Result<&'a [libc::iovec]> {
    if len > PIECES_MAX {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { values(pieces.cast_mut(), len) }.map(|pieces| &*pieces)
}

/// # Safety
/// The pieces can be read.
unsafe fn gather(pieces: &[libc::iovec]) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    for piece in pieces {
        // SAFETY: the caller's promise.
        whole.extend_from_slice(unsafe { bytes(piece.iov_base, piece.iov_len) }?);
    }
    Ok(whole)
}

/// # Safety
/// The pieces can be written.
unsafe fn scatter(mut whole: &[u8], pieces: &[libc::iovec]) -> Result<()> {
    for piece in pieces {
        let (head, rest) = whole.split_at(whole.len().min(piece.iov_len));
        // SAFETY: the caller's promise.
        unsafe { values(piece.iov_base.cast::<u8>(), head.len()) }?.copy_from_slice(head);
        whole = rest;
    }
    Ok(())
}

/// # Safety
/// The pieces can be written.
unsafe fn receive_pieces(world: &World, fd: c_int, pieces: &[libc::iovec], flags: c_int) -> Result<usize> {
    let room = pieces.iter().map(|piece| piece.iov_len).fold(0, usize::saturating_add).min(i32::MAX as usize);
    let mut whole = vec![0; room];
    let taken = receive(world, fd, &mut whole, flags)?;
    // SAFETY: the caller's promise.
    unsafe { scatter(&whole[..taken], pieces) }?;
    Ok(taken)
}

pub(super) unsafe extern "C" fn read(userdata: Userdata, fd: c_int, out: *mut c_void, len: usize) -> isize {
    // SAFETY: as `recv`.
    unsafe { recv(userdata, fd, out, len, 0) }
}

pub(super) unsafe extern "C" fn recv(
    userdata: Userdata,
    fd: c_int,
    out: *mut c_void,
    len: usize,
    flags: c_int,
) -> isize {
    // SAFETY: called through the table, with memory as recv(2) wants it.
    let (world, out) = unsafe { (world(userdata), values(out.cast::<u8>(), len)) };
    count(out.and_then(|out| receive(world, fd, out, flags)))
}

pub(super) unsafe extern "C" fn recvfrom(
    userdata: Userdata,
    fd: c_int,
    out: *mut c_void,
    len: usize,
    flags: c_int,
    _peer: AddressOut,
    peer_len: LenOut,
) -> isize {
    // SAFETY: called through the table; TCP names no peer (recvfrom(2)), so the length is 0 if there is a place for it.
    if let Some(peer_len) = unsafe { peer_len.as_mut() } {
        *peer_len = 0;
    }
    // SAFETY: as `recv`.
    unsafe { recv(userdata, fd, out, len, flags) }
}

pub(super) unsafe extern "C" fn readv(userdata: Userdata, fd: c_int, list: *const libc::iovec, len: c_int) -> isize {
    // SAFETY: called through the table, with pieces as readv(2) wants them.
    unsafe {
        let world = world(userdata);
        count(pieces(list, len as usize).and_then(|list| receive_pieces(world, fd, list, 0)))
    }
}

pub(super) unsafe extern "C" fn recvmsg(
    userdata: Userdata,
    fd: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: called through the table, with a message as recvmsg(2) wants it.
    let (world, message) = unsafe { (world(userdata), values(message, 1)) };
    count(message.and_then(|message| {
        let message = &mut message[0];
        let (taken, control) = if flags & libc::MSG_ERRQUEUE != 0 {
            (0, Some(world.call(|stack| stack.take_notice(fd))?))
        } else {
            // SAFETY: as above.
            let taken = unsafe {
                pieces(message.msg_iov, message.msg_iovlen).and_then(|list| receive_pieces(world, fd, list, flags))
            };
            (taken?, world.call(|stack| stack.unread_note(fd)))
        };
        message.msg_flags = flags & libc::MSG_ERRQUEUE;
        message.msg_namelen = 0;
        // SAFETY: as above.
        unsafe { put_control(message, control) }?;
        Ok(taken)
    }))
}

/// # Safety
/// `msg_control` is null or `msg_controllen` bytes that can be written.
unsafe fn put_control(message: &mut libc::msghdr, control: Option<Control>) -> Result<()> {
    let mut image = Vec::new();
    if let Some(Control { level, kind, data }) = control {
        let head =
            libc::cmsghdr { cmsg_len: size_of::<libc::cmsghdr>() + data.len(), cmsg_level: level, cmsg_type: kind };
        image.extend(head.cmsg_len.to_ne_bytes());
        image.extend(head.cmsg_level.to_ne_bytes());
        image.extend(head.cmsg_type.to_ne_bytes());
        image.extend(data);
        image.resize(image.len().next_multiple_of(size_of::<usize>()), 0);
    }
    if image.len() > message.msg_controllen || message.msg_control.is_null() {
        message.msg_flags |= if image.is_empty() { 0 } else { libc::MSG_CTRUNC };
        image.clear();
    }
    // SAFETY: the caller's promise; the image fits.
    unsafe { values(message.msg_control.cast::<u8>(), image.len()) }?.copy_from_slice(&image);
    message.msg_controllen = image.len();
    Ok(())
}

pub(super) unsafe extern "C" fn write(userdata: Userdata, fd: c_int, piece: *const c_void, len: usize) -> isize {
    // SAFETY: as `send`.
    unsafe { send(userdata, fd, piece, len, 0) }
}

pub(super) unsafe extern "C" fn send(
    userdata: Userdata,
    fd: c_int,
    piece: *const c_void,
    len: usize,
    flags: c_int,
) -> isize {
    // SAFETY: called through the table, with memory as send(2) wants it.
    let (world, piece) = unsafe { (world(userdata), bytes(piece, len)) };
    count(piece.and_then(|piece| give(world, fd, piece, flags)))
}

pub(super) unsafe extern "C" fn writev(userdata: Userdata, fd: c_int, list: *const libc::iovec, len: c_int) -> isize {
    // SAFETY: called through the table, with pieces as writev(2) wants them.
    unsafe {
        let world = world(userdata);
        count(pieces(list, len as usize).and_then(|list| gather(list)).and_then(|whole| give(world, fd, &whole, 0)))
    }
}

pub(super) unsafe extern "C" fn sendto(
    userdata: Userdata,
    fd: c_int,
    piece: *const c_void,
    len: usize,
    flags: c_int,
    to: Address,
    to_len: libc::socklen_t,
) -> isize {
    // SAFETY: called through the table, with memory as sendto(2) wants it.
    let (world, piece, to) = unsafe { (world(userdata), bytes(piece, len), bytes(to.cast(), to_len as usize)) };
    count(piece.and_then(|piece| give_to(world, fd, piece, flags, to?)))
}

pub(super) unsafe extern "C" fn sendmsg(
    userdata: Userdata,
    fd: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: called through the table, with a message as sendmsg(2) wants it.
    unsafe {
        let world = world(userdata);
        count(values(message.cast_mut(), 1).and_then(|message| {
            let whole = gather(pieces(message[0].msg_iov, message[0].msg_iovlen)?)?;
            let to = bytes(message[0].msg_name, message[0].msg_namelen as usize)?;
            give_to(world, fd, &whole, flags, to)
        }))
    }
}

/// Sends, and connects before if `MSG_FASTOPEN` says so; without it, TCP has no use for an address.
fn give_to(world: &World, fd: c_int, piece: &[u8], flags: c_int, to: &[u8]) -> Result<usize> {
    if flags & libc::MSG_FASTOPEN != 0 {
        if world.call(|stack| stack.engine.config().tcp_fastopen & 1 == 0) {
            return Err(Errno::OPNOTSUPP);
        }
        let begun = world.call(|stack| {
            let remote = address::parse(to, stack.socket_at(fd)?.family)?;
            stack.open_fast(fd, remote)
        });
        finish_connect(world, fd, begun)?;
    }
    give(world, fd, piece, flags)
}

pub(super) unsafe extern "C" fn splice(
    userdata: Userdata,
    from: c_int,
    _from_offset: *mut i64,
    to: c_int,
    _to_offset: *mut i64,
    len: usize,
    flags: c_uint,
) -> isize {
    // SAFETY: called through the table; neither pipes nor sockets have offsets.
    let world = unsafe { world(userdata) };
    let how = if flags & libc::SPLICE_F_NONBLOCK != 0 { libc::MSG_DONTWAIT } else { 0 };
    count(world.wait(|stack| stack.patience(from, how, false), |stack| stack.splice(from, to, len)))
}
