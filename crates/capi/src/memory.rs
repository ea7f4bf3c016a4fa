//! Mapped regions: one for all ports of a context that share it.

use std::ffi::{c_int, c_void};

use crate::context::{errno, in_words, make, nmctx_free, nmctx_lock, nmctx_unlock, report};
use crate::device;
use crate::layout::{Nmctx, Nmem, NmreqRegister};

/// What is to be mapped.
pub(crate) struct Wanted<'a> {
    pub(crate) fd: c_int,
    pub(crate) reg: &'a NmreqRegister,
    /// Memory of the program's own, already mapped.
    pub(crate) external: Option<*mut c_void>,
}

/// The region of a registered port, mapped if no other port of the context has it; null, and reported, on failure.
///
/// # Safety
/// `ctx` is a valid context.
pub(crate) unsafe fn take(ctx: *mut Nmctx, wanted: &Wanted<'_>) -> *mut Nmem {
    // SAFETY: the caller's promise.
    unsafe {
        nmctx_lock(ctx);
        let file = file_of(wanted.fd);
        let known = find(ctx, wanted.reg.nr_mem_id, file);
        let region = if known.is_null() { map(ctx, wanted, file) } else { known };
        if !region.is_null() {
            (*region).refcount += 1;
        }
        nmctx_unlock(ctx);
        region
    }
}

/// Device and inode of a region's file: numbers of regions alone may repeat.
pub(crate) fn file_of(fd: c_int) -> (u64, u64) {
    // SAFETY: `fstat` fills the structure, which zeros are fine for if it does not.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut status);
        (status.st_dev, status.st_ino)
    }
}

/// # Safety
/// `ctx` is a valid context, locked.
unsafe fn find(ctx: *mut Nmctx, mem_id: u16, file: (u64, u64)) -> *mut Nmem {
    // SAFETY: the list is a ring of valid regions.
    unsafe {
        let first = (*ctx).mem_descs;
        let mut region = first;
        while !region.is_null() {
            if (*region).mem_id == mem_id && (*region).file == file {
                return region;
            }
            region = (*region).next;
            if region == first {
                break;
            }
        }
    }
    std::ptr::null_mut()
}

/// # Safety
/// `ctx` is a valid context, locked.
unsafe fn map(ctx: *mut Nmctx, wanted: &Wanted<'_>, file: (u64, u64)) -> *mut Nmem {
    let size = wanted.reg.nr_memsize as usize;
    let mem = wanted.external.or_else(|| device::map(wanted.fd, size));
    // SAFETY: the caller's promise; the new region is hung into the ring before the first.
    unsafe {
        let Some(mem) = mem else {
            let errno = errno();
            report(ctx, errno, &format!("cannot map {size} bytes of the port's memory: {}", in_words(errno)));
            return std::ptr::null_mut();
        };
        let (null, is_extmem) = (std::ptr::null_mut(), wanted.external.is_some().into());
        let region =
            Nmem { mem_id: wanted.reg.nr_mem_id, refcount: 0, mem, size, is_extmem, next: null, prev: null, file };
        let region = make(ctx, region);
        if region.is_null() {
            if is_extmem == 0 {
                libc::munmap(mem, size);
            }
            return region;
        }
        let first = if (*ctx).mem_descs.is_null() { region } else { (*ctx).mem_descs };
        let last = if (*first).prev.is_null() { first } else { (*first).prev };
        ((*region).next, (*region).prev) = (first, last);
        (*last).next = region;
        (*first).prev = region;
        (*ctx).mem_descs = first;
        region
    }
}

/// A port uses its region no more; the last one unmaps it.
///
/// # Safety
/// `ctx` is a valid context and `region` was taken from it.
pub(crate) unsafe fn give_back(ctx: *mut Nmctx, region: *mut Nmem) {
    // SAFETY: the caller's promise.
    unsafe {
        nmctx_lock(ctx);
        (*region).refcount -= 1;
        if (*region).refcount <= 0 {
            let (next, prev) = ((*region).next, (*region).prev);
            ((*prev).next, (*next).prev) = (next, prev);
            if (*ctx).mem_descs == region {
                (*ctx).mem_descs = if next == region { std::ptr::null_mut() } else { next };
            }
            if (*region).is_extmem == 0 {
                libc::munmap((*region).mem, (*region).size);
            }
            nmctx_free(ctx, region.cast());
        }
        nmctx_unlock(ctx);
    }
}
