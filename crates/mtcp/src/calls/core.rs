//! The library as a whole, and contexts.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::PoisonError;

use libc::c_int;

use super::{done, set_errno};
use crate::conf::Conf;
use crate::contexts::{self, Context};
use crate::errno::{Errno, Result};

/// `struct mtcp_conf`.
#[repr(C)]
pub(crate) struct ConfFields {
    num_cores: c_int,
    max_concurrency: c_int,
    max_num_buffers: c_int,
    rcvbuf_size: c_int,
    sndbuf_size: c_int,
    tcp_timewait: c_int,
    tcp_timeout: c_int,
}

/// # Safety
/// `file` is null or a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_init(file: *const c_char) -> c_int {
    if file.is_null() {
        return done(Err(Errno::FAULT));
    }
    // SAFETY: the caller's promise.
    let file = unsafe { CStr::from_ptr(file) }.to_string_lossy().into_owned();
    let read = std::fs::read_to_string(&file);
    let read = read.map_err(|e| (format!("{file}: {e}"), Errno(e.raw_os_error().unwrap_or(libc::EINVAL))));
    let conf = read.and_then(|text| Conf::parse(&file, &text).map_err(|wrong| (wrong, Errno::INVAL)));
    done(conf.map(|conf| contexts::set_conf(Some(conf))).map_err(|(wrong, errno)| {
        eprintln!("mtcp_init: {wrong}");
        errno
    }))
}

/// Forgets the configuration; contexts that exist stay.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_destroy() -> c_int {
    contexts::set_conf(None);
    0
}

/// # Safety
/// `fields` is null or has room for them.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_getconf(fields: *mut ConfFields) -> c_int {
    let filled = contexts::with_conf(|conf| ConfFields {
        num_cores: conf.num_cores as c_int,
        max_concurrency: conf.max_concurrency as c_int,
        max_num_buffers: conf.max_num_buffers as c_int,
        rcvbuf_size: conf.tcp.tcp_rmem.default as c_int,
        sndbuf_size: conf.tcp.tcp_wmem.default as c_int,
        tcp_timewait: conf.timewait_s as c_int,
        tcp_timeout: conf.timeout_s as c_int,
    });
    // SAFETY: the caller's promise.
    let place = unsafe { fields.as_mut() };
    done(filled.and_then(|filled| place.map(|place| *place = filled).ok_or(Errno::FAULT)))
}

/// Fields above 0 change the configuration, for contexts that are made from now on.
///
/// # Safety
/// `fields` is null or valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mtcp_setconf(fields: *const ConfFields) -> c_int {
    // SAFETY: the caller's promise.
    let Some(fields) = (unsafe { fields.as_ref() }) else { return done(Err(Errno::FAULT)) };
    done(contexts::with_conf(|conf| change(conf, fields)).and_then(|changed| changed))
}

fn change(conf: &mut Conf, fields: &ConfFields) -> Result<()> {
    let given = |value: c_int| u32::try_from(value).ok().filter(|value| *value > 0);
    let cores = given(fields.num_cores).map_or(conf.num_cores, |cores| cores as usize);
    if cores > conf.ports.len() || (0..cores).any(|core| conf.addresses_of(core).is_empty()) {
        return Err(Errno::INVAL);
    }
    conf.num_cores = cores;
    if let Some(connections) = given(fields.max_concurrency) {
        conf.set_concurrency(connections);
    }
    conf.max_num_buffers = given(fields.max_num_buffers).unwrap_or(conf.max_num_buffers);
    if let Some(bytes) = given(fields.rcvbuf_size) {
        conf.set_receive_buffer(bytes);
    }
    if let Some(bytes) = given(fields.sndbuf_size) {
        conf.set_send_buffer(bytes);
    }
    if let Some(seconds) = given(fields.tcp_timewait) {
        conf.set_timewait(seconds);
    }
    if let Some(seconds) = given(fields.tcp_timeout) {
        conf.set_timeout(seconds);
    }
    Ok(())
}

/// Binds the calling thread to a core.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_core_affinitize(cpu: c_int) -> c_int {
    let Some(cpu) = usize::try_from(cpu).ok().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize) else {
        return done(Err(Errno::INVAL));
    };
    // SAFETY: zeros are an empty set, in which the number is; the kernel reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_create_context(cpu: c_int) -> *mut Context {
    contexts::create(cpu).unwrap_or_else(|Errno(errno)| {
        set_errno(errno);
        ptr::null_mut()
    })
}

/// Closes all sockets of a context, waits for at most 2 seconds until what was sent has arrived, and ends it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn mtcp_destroy_context(context: *mut Context) -> c_int {
    if !contexts::take(context) {
        return done(Err(Errno(libc::EACCES)));
    }
    // SAFETY: it was in the table, so `create` made it, and now nobody else finds it.
    let context = unsafe { Box::from_raw(context) };
    context.state.lock().unwrap_or_else(PoisonError::into_inner).end();
    0
}
