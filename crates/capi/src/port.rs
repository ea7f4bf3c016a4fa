//! `nmport_*`: ports opened by name, at once or step by step, each step with its undo.

use std::ffi::{c_char, c_int, c_void};

use ringway_mem::slot::InterfaceHeader;
use ringway_netmap::abi::{flag, mode, reqtype};

use crate::context::{errno, in_words, make, nmctx_free, nmctx_get, report};
use crate::decode::{nmreq_header_decode, nmreq_register_decode};
use crate::layout::{Nmctx, Nmport, NmreqRegister, RingSpan};
use crate::memory::{self, Wanted};
use crate::options::{free_options, nmreq_header_init, refusals};
use crate::{device, inject, parsers, text};

/// # Safety
/// `ctx` is a valid context.
unsafe fn new_in(ctx: *mut Nmctx) -> *mut Nmport {
    // SAFETY: the caller's promise; zeros are a port without anything.
    unsafe {
        let d = make(ctx, std::mem::zeroed::<Nmport>());
        if !d.is_null() {
            nmreq_header_init(&raw mut (*d).hdr, reqtype::REGISTER, (&raw mut (*d).reg).cast());
            ((*d).ctx, (*d).fd) = (ctx, -1);
        }
        d
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nmport_new() -> *mut Nmport {
    // SAFETY: the default context is valid.
    unsafe { new_in(nmctx_get()) }
}

/// # Safety
/// Here and below, `d` is null or a port of this library, `spec` a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_delete(d: *mut Nmport) {
    // SAFETY: the caller's promise.
    unsafe {
        if !d.is_null() {
            nmctx_free((*d).ctx, d.cast());
        }
    }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_parse(d: *mut Nmport, spec: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rest = spec;
        nmreq_header_init(&raw mut (*d).hdr, reqtype::REGISTER, (&raw mut (*d).reg).cast());
        let parsed = nmreq_header_decode(&raw mut rest, &raw mut (*d).hdr, (*d).ctx) == 0
            && nmreq_register_decode(&raw mut rest, &raw mut (*d).reg, (*d).ctx) == 0
            && parsers::apply(rest, d) == 0;
        if !parsed {
            let errno = errno();
            nmport_undo_parse(d);
            crate::context::set_errno(errno);
            return -1;
        }
    }
    0
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_undo_parse(d: *mut Nmport) {
    // SAFETY: the caller's promise; options and cleanups are of the context's memory.
    unsafe {
        while let Some(cleanup) = (*d).clist.as_mut() {
            libc::munmap(cleanup.mapped.0, cleanup.mapped.1);
            (*d).clist = cleanup.next;
            nmctx_free((*d).ctx, std::ptr::from_mut(cleanup).cast());
        }
        free_options(&raw mut (*d).hdr, (*d).ctx);
        (*d).extmem = std::ptr::null_mut();
        (*d).reg = std::mem::zeroed();
        nmreq_header_init(&raw mut (*d).hdr, 0, std::ptr::null_mut());
    }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_prepare(spec: *const c_char) -> *mut Nmport {
    let d = nmport_new();
    // SAFETY: the caller's promise.
    unsafe {
        if d.is_null() || nmport_parse(d, spec) == 0 {
            return d;
        }
        nmport_delete(d);
    }
    std::ptr::null_mut()
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_undo_prepare(d: *mut Nmport) {
    // SAFETY: the caller's promise.
    unsafe {
        if !d.is_null() {
            nmport_undo_parse(d);
            nmport_delete(d);
        }
    }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_register(d: *mut Nmport) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let ctx = (*d).ctx;
        if (*d).register_done != 0 {
            report(ctx, libc::EINVAL, "the port is registered already");
            return -1;
        }
        let fd = device::open(ctx);
        if fd < 0 {
            return -1;
        }
        if device::control(fd, &raw mut (*d).hdr) != 0 {
            let errno = errno();
            libc::close(fd);
            let name = text::shown(text::of_field(&(*d).hdr.nr_name));
            let refusals = refusals(&raw mut (*d).hdr);
            report(ctx, errno, &format!("{name}: cannot register: {}{refusals}", in_words(errno)));
            return -1;
        }
        ((*d).fd, (*d).register_done) = (fd, 1);
        (*d).rings = rings_of(&(*d).reg);
    }
    0
}

/// Which rings a registration is for, by their numbers in the interface object.
pub(crate) fn rings_of(reg: &NmreqRegister) -> RingSpan {
    let span = |rings: u16, host: u16| match reg.nr_mode {
        mode::SW => (rings, rings.wrapping_add(host).wrapping_sub(1)),
        mode::NIC_SW => (0, rings.wrapping_add(host).wrapping_sub(1)),
        mode::ONE_NIC => (reg.nr_ringid, reg.nr_ringid),
        mode::ONE_SW => (rings.wrapping_add(reg.nr_ringid), rings.wrapping_add(reg.nr_ringid)),
        _ => (0, rings.wrapping_sub(1)),
    };
    // The first behind the last: none. A count of zero would wrap, so it is none, too.
    let span = |rings: u16, host: u16, without: bool| match span(rings, host) {
        (first, last) if !without && last != u16::MAX && first <= last => (first, last),
        _ => (1, 0),
    };
    let (first_tx, last_tx) = span(reg.nr_tx_rings, reg.nr_host_tx_rings, reg.nr_flags & flag::RX_RINGS_ONLY != 0);
    let (first_rx, last_rx) = span(reg.nr_rx_rings, reg.nr_host_rx_rings, reg.nr_flags & flag::TX_RINGS_ONLY != 0);
    RingSpan { first_tx, last_tx, first_rx, last_rx, cur_tx: first_tx, cur_rx: first_rx }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_undo_register(d: *mut Nmport) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*d).register_done != 0 {
            libc::close((*d).fd);
            ((*d).fd, (*d).register_done) = (-1, 0);
        }
    }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_mmap(d: *mut Nmport) -> c_int {
    // SAFETY: the caller's promise; the device says where in its memory the interface object is.
    unsafe {
        if (*d).register_done == 0 || (*d).mmap_done != 0 {
            report((*d).ctx, libc::EINVAL, "a port is mapped once, after it was registered");
            return -1;
        }
        let external = (*d).extmem.as_ref().map(|option| option.nro_usrptr as *mut c_void);
        let region = memory::take((*d).ctx, &Wanted { fd: (*d).fd, reg: &(*d).reg, external });
        if region.is_null() {
            return -1;
        }
        ((*d).mem, (*d).mmap_done) = (region, 1);
        (*d).nifp = (*region).mem.byte_add((*d).reg.nr_offset as usize).cast::<InterfaceHeader>();
    }
    0
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_undo_mmap(d: *mut Nmport) {
    // SAFETY: the caller's promise.
    unsafe {
        if (*d).mmap_done != 0 {
            memory::give_back((*d).ctx, (*d).mem);
            ((*d).mem, (*d).nifp, (*d).mmap_done) = (std::ptr::null_mut(), std::ptr::null(), 0);
        }
    }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_open_desc(d: *mut Nmport) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if nmport_register(d) != 0 {
            return -1;
        }
        if nmport_mmap(d) != 0 {
            let errno = errno();
            nmport_undo_register(d);
            crate::context::set_errno(errno);
            return -1;
        }
    }
    0
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_undo_open_desc(d: *mut Nmport) {
    // SAFETY: the caller's promise.
    unsafe {
        nmport_undo_mmap(d);
        nmport_undo_register(d);
    }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_open(spec: *const c_char) -> *mut Nmport {
    // SAFETY: the caller's promise.
    unsafe {
        let d = nmport_prepare(spec);
        if d.is_null() || nmport_open_desc(d) == 0 {
            return d;
        }
        let errno = errno();
        nmport_undo_prepare(d);
        crate::context::set_errno(errno);
    }
    std::ptr::null_mut()
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_close(d: *mut Nmport) {
    // SAFETY: the caller's promise.
    unsafe {
        if !d.is_null() {
            nmport_undo_open_desc(d);
            nmport_undo_prepare(d);
        }
    }
}

/// # Safety
/// See [`nmport_delete`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_clone(d: *mut Nmport) -> *mut Nmport {
    // SAFETY: the caller's promise.
    unsafe {
        if !(*d).extmem.is_null() && (*d).register_done == 0 {
            report((*d).ctx, libc::EINVAL, "a port with external memory is cloned after it was registered");
            return std::ptr::null_mut();
        }
        let copy = new_in((*d).ctx);
        if !copy.is_null() {
            (*copy).hdr.nr_name = (*d).hdr.nr_name;
            (*copy).reg = (*d).reg;
        }
        copy
    }
}

/// # Safety
/// See [`nmport_delete`]; the port is open, and `packet` has `bytes` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_inject(d: *mut Nmport, packet: *const c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's promise; an open port's interface object is the device's.
    unsafe {
        let span = (*d).rings.first_tx..=(*d).rings.last_tx;
        let packet = inject::bytes_at(packet, bytes);
        match inject::inject((*d).nifp, span, (*d).rings.cur_tx, packet) {
            Some(ring) => {
                (*d).rings.cur_tx = ring;
                bytes as c_int
            }
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(nr_mode: u32, nr_ringid: u16, nr_flags: u64) -> [(u16, u16); 2] {
        // SAFETY: zeros are a registration.
        let mut reg: NmreqRegister = unsafe { std::mem::zeroed() };
        (reg.nr_tx_rings, reg.nr_rx_rings, reg.nr_host_tx_rings, reg.nr_host_rx_rings) = (4, 2, 1, 1);
        (reg.nr_mode, reg.nr_ringid, reg.nr_flags) = (nr_mode, nr_ringid, nr_flags);
        let rings = rings_of(&reg);
        [(rings.first_tx, rings.last_tx), (rings.first_rx, rings.last_rx)]
    }

    #[test]
    fn modes_choose_rings() {
        assert_eq!(span(mode::ALL_NIC, 0, 0), [(0, 3), (0, 1)]);
        assert_eq!(span(mode::ONE_NIC, 1, 0), [(1, 1), (1, 1)]);
        assert_eq!(span(mode::SW, 0, 0), [(4, 4), (2, 2)]);
        assert_eq!(span(mode::NIC_SW, 0, 0), [(0, 4), (0, 2)]);
        assert_eq!(span(mode::ONE_SW, 0, 0), [(4, 4), (2, 2)]);
        assert_eq!(span(mode::ALL_NIC, 0, flag::RX_RINGS_ONLY), [(1, 0), (0, 1)]);
        assert_eq!(span(mode::ALL_NIC, 0, flag::TX_RINGS_ONLY), [(0, 3), (1, 0)]);
    }
}
