//! Options that are set before registering: memory of the program's own (EXTMEM), and offsets (OFFSETS).

use std::ffi::{c_char, c_int, c_void};

use ringway_netmap::abi::option;

use crate::context::{errno, in_words, make, report};
use crate::device;
use crate::layout::{Cleanup, Nmport, NmreqOption, NmreqPoolsInfo, OptExtmem, OptOffsets};
use crate::options::nmreq_push_option;
use crate::text;

fn header_of(nro_reqtype: u32) -> NmreqOption {
    NmreqOption { nro_next: 0, nro_reqtype, nro_status: 0, nro_size: 0 }
}

/// # Safety
/// `d` is a parsed port; `base` is memory of `bytes` bytes that stays as long as the port.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_extmem(d: *mut Nmport, base: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let wrong = match () {
            () if (*d).register_done != 0 => Some("a port that is registered has its memory already"),
            () if !(*d).extmem.is_null() => Some("a port has one external memory"),
            () => None,
        };
        if let Some(wrong) = wrong {
            report((*d).ctx, libc::EINVAL, wrong);
            return -1;
        }
        let mut nro_info: NmreqPoolsInfo = std::mem::zeroed();
        nro_info.nr_memsize = bytes as u64;
        let option = OptExtmem { nro_opt: header_of(option::EXTMEM), nro_usrptr: base as u64, nro_info };
        let option = make((*d).ctx, option);
        if option.is_null() {
            return -1;
        }
        nmreq_push_option(&raw mut (*d).hdr, option.cast());
        (*d).extmem = option;
    }
    0
}

/// # Safety
/// `d` is a parsed port, `path` points to a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_extmem_from_file(d: *mut Nmport, path: *const c_char) -> c_int {
    // SAFETY: the caller's promise; what is opened here is closed here, and the mapping is noted to be undone.
    unsafe {
        let (ctx, shown) = ((*d).ctx, text::shown(text::bytes(path)));
        let fd = libc::open(path, libc::O_RDWR);
        let mut status: libc::stat = std::mem::zeroed();
        let known = fd >= 0 && libc::fstat(fd, &raw mut status) == 0;
        let bytes = status.st_size as usize;
        let memory = if known { device::map(fd, bytes) } else { None };
        let errno = errno();
        if fd >= 0 {
            libc::close(fd);
        }
        let Some(memory) = memory else {
            report(ctx, errno, &format!("{shown}: cannot map it as external memory: {}", in_words(errno)));
            return -1;
        };
        let cleanup = make(ctx, Cleanup { next: (*d).clist, mapped: (memory, bytes) });
        if cleanup.is_null() {
            libc::munmap(memory, bytes);
            return -1;
        }
        (*d).clist = cleanup;
        nmport_extmem(d, memory, bytes)
    }
}

/// How many interfaces, rings and buffers, and how large: number and size of each.
///
/// # Safety
/// `d` is a valid port with external memory.
pub(crate) unsafe fn set_sizes(d: *mut Nmport, sizes: [u32; 6]) {
    // SAFETY: the caller's promise.
    let info = unsafe { &mut (*(*d).extmem).nro_info };
    [info.nr_if_pool_objtotal, info.nr_if_pool_objsize, info.nr_ring_pool_objtotal] = [sizes[0], sizes[1], sizes[2]];
    [info.nr_ring_pool_objsize, info.nr_buf_pool_objtotal, info.nr_buf_pool_objsize] = [sizes[3], sizes[4], sizes[5]];
}

/// # Safety
/// `d` is a valid port.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_extmem_getinfo(d: *mut Nmport) -> *mut NmreqPoolsInfo {
    // SAFETY: the caller's promise.
    unsafe { if (*d).extmem.is_null() { std::ptr::null_mut() } else { &raw mut (*(*d).extmem).nro_info } }
}

/// # Safety
/// `d` is a parsed port.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_offset(
    d: *mut Nmport,
    initial: u64,
    max: u64,
    bits: u64,
    min_gap: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if bits > 64 {
            report((*d).ctx, libc::EINVAL, "an offset has at most 64 bits");
            return -1;
        }
        let option = OptOffsets {
            nro_opt: header_of(option::OFFSETS),
            nro_max_offset: max,
            nro_initial_offset: initial,
            nro_offset_bits: bits as u32,
            nro_tx_align: 0,
            nro_min_gap: min_gap,
        };
        let option = make((*d).ctx, option);
        if option.is_null() {
            return -1;
        }
        nmreq_push_option(&raw mut (*d).hdr, option.cast());
    }
    0
}
