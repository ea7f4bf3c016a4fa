//! The clock and the wire.

use std::ffi::{c_int, c_longlong, c_uint, c_void};

use super::Userdata;
use super::memory::{bytes, code, values, world};
use crate::errno::Errno;
use crate::world::Next;

pub(super) unsafe extern "C" fn usleep(userdata: Userdata, us: c_uint) -> c_int {
    // SAFETY: called through the table.
    unsafe { world(userdata) }.usleep(u64::from(us));
    0
}

pub(super) unsafe extern "C" fn gettimeofday(userdata: Userdata, out: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    // SAFETY: called through the table; gettimeofday(2) writes one timeval.
    let (world, out) = unsafe { (world(userdata), values(out, 1)) };
    let us = world.now().us();
    code(out.map(|out| {
        out[0] =
            libc::timeval { tv_sec: (us / 1_000_000) as libc::time_t, tv_usec: (us % 1_000_000) as libc::suseconds_t };
        0
    }))
}

pub(super) unsafe extern "C" fn netdev_send(userdata: Userdata, packet: *const c_void, len: usize) -> c_int {
    // SAFETY: called through the table with a packet of that length.
    let (world, packet) = unsafe { (world(userdata), bytes(packet, len)) };
    code(packet.map(|packet| {
        world.call(|stack| stack.arrive(packet));
        0
    }))
}

pub(super) unsafe extern "C" fn netdev_receive(
    userdata: Userdata,
    buffer: *mut c_void,
    len: *mut usize,
    time_us: *mut c_longlong,
) -> c_int {
    // SAFETY: called through the table; the two results can be read and written.
    let (world, len, time_us) = unsafe { (world(userdata), values(len, 1), values(time_us, 1)) };
    let (Ok(len), Ok(time_us)) = (len, time_us) else { return code(Err(Errno::FAULT)) };
    match world.departure() {
        Next::Packet(at, packet) => {
            // SAFETY: the buffer is as long as its length says.
            let room = unsafe { values(buffer.cast::<u8>(), len[0]) };
            code(room.and_then(|room| {
                let place = room.get_mut(..packet.len()).ok_or(Errno(libc::EMSGSIZE))?;
                place.copy_from_slice(&packet);
                (len[0], time_us[0]) = (packet.len(), at.us() as c_longlong);
                Ok(0)
            }))
        }
        Next::Silence { is_error: true } => code(Err(Errno(libc::ETIMEDOUT))),
        Next::Silence { is_error: false } => world.give_up("the script expects a packet"),
    }
}
