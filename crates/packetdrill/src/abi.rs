//! The table of C functions that packetdrill calls, in its order.

mod calls;
mod data;
mod memory;
mod time;
mod waits;

use std::ffi::{c_char, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use std::sync::Arc;

use crate::preload;
use crate::world::World;

pub(crate) use calls::get_option;

type Userdata = *mut c_void;
type Address = *const libc::sockaddr;
type AddressOut = *mut libc::sockaddr;
type LenOut = *mut libc::socklen_t;

/// What `packetdrill_interface_init` fills in: 32 functions that are called with `userdata` first.
///
/// `fcntl` and `ioctl` are variadic in C. Their one further argument is an integer or a pointer, which the C ABIs of
/// 64-bit Linux pass to a variadic function as to any other.
#[repr(C)]
pub struct Interface {
    pub userdata: Userdata,
    pub free: unsafe extern "C" fn(Userdata),
    pub socket: unsafe extern "C" fn(Userdata, c_int, c_int, c_int) -> c_int,
    pub bind: unsafe extern "C" fn(Userdata, c_int, Address, libc::socklen_t) -> c_int,
    pub listen: unsafe extern "C" fn(Userdata, c_int, c_int) -> c_int,
    pub accept: unsafe extern "C" fn(Userdata, c_int, AddressOut, LenOut) -> c_int,
    pub connect: unsafe extern "C" fn(Userdata, c_int, Address, libc::socklen_t) -> c_int,
    pub read: unsafe extern "C" fn(Userdata, c_int, *mut c_void, usize) -> isize,
    pub readv: unsafe extern "C" fn(Userdata, c_int, *const libc::iovec, c_int) -> isize,
    pub recv: unsafe extern "C" fn(Userdata, c_int, *mut c_void, usize, c_int) -> isize,
    pub recvfrom: unsafe extern "C" fn(Userdata, c_int, *mut c_void, usize, c_int, AddressOut, LenOut) -> isize,
    pub recvmsg: unsafe extern "C" fn(Userdata, c_int, *mut libc::msghdr, c_int) -> isize,
    pub write: unsafe extern "C" fn(Userdata, c_int, *const c_void, usize) -> isize,
    pub writev: unsafe extern "C" fn(Userdata, c_int, *const libc::iovec, c_int) -> isize,
    pub send: unsafe extern "C" fn(Userdata, c_int, *const c_void, usize, c_int) -> isize,
    pub sendto: unsafe extern "C" fn(Userdata, c_int, *const c_void, usize, c_int, Address, libc::socklen_t) -> isize,
    pub sendmsg: unsafe extern "C" fn(Userdata, c_int, *const libc::msghdr, c_int) -> isize,
    pub fcntl: unsafe extern "C" fn(Userdata, c_int, c_int, c_long) -> c_int,
    pub ioctl: unsafe extern "C" fn(Userdata, c_int, c_ulong, *mut c_int) -> c_int,
    pub close: unsafe extern "C" fn(Userdata, c_int) -> c_int,
    pub shutdown: unsafe extern "C" fn(Userdata, c_int, c_int) -> c_int,
    pub getsockopt: unsafe extern "C" fn(Userdata, c_int, c_int, c_int, *mut c_void, LenOut) -> c_int,
    pub setsockopt: unsafe extern "C" fn(Userdata, c_int, c_int, c_int, *const c_void, libc::socklen_t) -> c_int,
    pub poll: unsafe extern "C" fn(Userdata, *mut libc::pollfd, libc::nfds_t, c_int) -> c_int,
    pub netdev_send: unsafe extern "C" fn(Userdata, *const c_void, usize) -> c_int,
    pub netdev_receive: unsafe extern "C" fn(Userdata, *mut c_void, *mut usize, *mut c_longlong) -> c_int,
    pub usleep: unsafe extern "C" fn(Userdata, c_uint) -> c_int,
    pub gettimeofday: unsafe extern "C" fn(Userdata, *mut libc::timeval, *mut c_void) -> c_int,
    pub epoll_create: unsafe extern "C" fn(Userdata, c_int) -> c_int,
    pub epoll_ctl: unsafe extern "C" fn(Userdata, c_int, c_int, c_int, *mut libc::epoll_event) -> c_int,
    pub epoll_wait: unsafe extern "C" fn(Userdata, c_int, *mut libc::epoll_event, c_int, c_int) -> c_int,
    pub pipe: unsafe extern "C" fn(Userdata, *mut c_int) -> c_int,
    pub splice: unsafe extern "C" fn(Userdata, c_int, *mut i64, c_int, *mut i64, usize, c_uint) -> isize,
}

const _: () = assert!(size_of::<Interface>() == 33 * size_of::<usize>());

/// Fills in the table for a new stack, set up as `flags` says (see the crate's page).
///
/// # Safety
/// `flags` is null or a C string, and `out` may be written as an [`Interface`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(flags: *const c_char, out: *mut Interface) {
    // SAFETY: the caller's promise.
    let flags = unsafe { memory::text(flags) };
    let world = Arc::new(World::new(&flags));
    preload::register(Arc::clone(&world));
    let table = Interface {
        userdata: Arc::into_raw(world).cast_mut().cast(),
        free,
        socket: calls::socket,
        bind: calls::bind,
        listen: calls::listen,
        accept: waits::accept,
        connect: waits::connect,
        read: data::read,
        readv: data::readv,
        recv: data::recv,
        recvfrom: data::recvfrom,
        recvmsg: data::recvmsg,
        write: data::write,
        writev: data::writev,
        send: data::send,
        sendto: data::sendto,
        sendmsg: data::sendmsg,
        fcntl: calls::fcntl,
        ioctl: calls::ioctl,
        close: calls::close,
        shutdown: calls::shutdown,
        getsockopt: calls::getsockopt,
        setsockopt: calls::setsockopt,
        poll: waits::poll,
        netdev_send: time::netdev_send,
        netdev_receive: time::netdev_receive,
        usleep: time::usleep,
        gettimeofday: time::gettimeofday,
        epoll_create: calls::epoll_create,
        epoll_ctl: calls::epoll_ctl,
        epoll_wait: waits::epoll_wait,
        pipe: calls::pipe,
        splice: data::splice,
    };
    // SAFETY: the caller's promise.
    unsafe { out.write(table) };
}

unsafe extern "C" fn free(world: Userdata) {
    // SAFETY: `userdata` came from `Arc::into_raw`, and packetdrill frees it once, after its last call.
    let world = unsafe { Arc::from_raw(world.cast::<World>().cast_const()) };
    preload::forget(&world);
}
