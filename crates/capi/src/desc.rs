//! `nm_open` and its relatives: descriptors by name, over the interface before version 12.

use std::ffi::{c_char, c_int};

use ringway_mem::slot::InterfaceHeader;
use ringway_netmap::abi::{self, flag, legacy, mode};

use crate::context::{errno, in_words, set_errno};
use crate::decode::{self, Mode, Wrong};
use crate::inject;
use crate::layout::{NmDesc, Nmreq, NmreqRegister};
use crate::memory::file_of;
use crate::port::rings_of;
use crate::{device, text};

const NO_MMAP: u64 = 0x04_0000;
const IFNAME: u64 = 0x08_0000;
const ARG1: u64 = 0x10_0000;
const ARG2: u64 = 0x20_0000;
const ARG3: u64 = 0x40_0000;
const RING_CFG: u64 = 0x80_0000;

/// Takes a name apart into the request.
fn parse(name: &[u8], req: &mut Nmreq) -> Result<(), Wrong> {
    let (port, taken) = decode::name(name)?;
    let (Mode { mode, ringid, flags, mem_id }, after) = decode::mode(&name[taken..])?;
    if taken + after != name.len() {
        return Err("options in names need nmport_open".to_owned());
    }
    if !text::fill(&mut req.nr_name, port) {
        return Err(format!("a name has at most {} bytes here", req.nr_name.len() - 1));
    }
    req.nr_ringid = req.nr_ringid & !legacy::RING_MASK | ringid;
    req.nr_flags = mode | flags as u32;
    req.nr_arg2 = mem_id.unwrap_or(req.nr_arg2);
    Ok(())
}

/// # Safety
/// `name` points to a string, `d` is a descriptor; `err` is null or has room for 512 bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nm_parse(name: *const c_char, d: *mut NmDesc, err: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let Err(wrong) = parse(text::bytes(name), &mut (*d).req) else { return 0 };
        if !err.is_null() {
            let shown = &wrong.as_bytes()[..wrong.len().min(511)];
            std::ptr::copy_nonoverlapping(shown.as_ptr(), err.cast(), shown.len());
            *err.add(shown.len()) = 0;
        }
    }
    set_errno(libc::EINVAL);
    -1
}

/// # Safety
/// `name` points to a string; `req` and `parent` are null or valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nm_open(
    name: *const c_char,
    req: *const Nmreq,
    flags: u64,
    parent: *const NmDesc,
) -> *mut NmDesc {
    // SAFETY: the caller's promise; zeros are a descriptor without anything.
    unsafe {
        let name = text::bytes(name);
        if !name.starts_with(b"netmap:") && !name.starts_with(b"vale") {
            set_errno(0);
            return std::ptr::null_mut();
        }
        let mut d = Box::new(std::mem::zeroed::<NmDesc>());
        d.fd = -1;
        if !req.is_null() {
            d.req = *req;
        }
        let parent = parent.as_ref().filter(|parent| std::ptr::eq(parent.this, *parent));
        match open(&mut d, name, flags, parent) {
            Ok(()) => {
                let d = Box::into_raw(d);
                (*d).this = d;
                d
            }
            Err((errno, wrong)) => {
                eprintln!("nm_open {}: {wrong}", text::shown(name));
                if d.fd >= 0 {
                    libc::close(d.fd);
                }
                set_errno(errno);
                std::ptr::null_mut()
            }
        }
    }
}

/// # Safety
/// As [`nm_open`].
unsafe fn open(d: &mut NmDesc, name: &[u8], flags: u64, parent: Option<&NmDesc>) -> Result<(), (c_int, Wrong)> {
    parse(name, &mut d.req).map_err(|wrong| (libc::EINVAL, wrong))?;
    if let Some(parent) = parent {
        inherit(&mut d.req, flags, &parent.req);
    }
    d.req.nr_version = abi::NETMAP_API.into();
    d.req.nr_ringid |= flags as u16 & (legacy::NO_TX_POLL | legacy::DO_RX_POLL);
    // SAFETY: a constant path, and a request of the layout that the number says.
    unsafe {
        d.fd = libc::open(c"/dev/netmap".as_ptr(), libc::O_RDWR);
        if d.fd < 0 {
            return Err((errno(), device::no_device(errno())));
        }
        if libc::ioctl(d.fd, abi::NIOCREGIF.into(), &raw mut d.req) != 0 {
            return Err((errno(), format!("cannot register: {}", in_words(errno()))));
        }
    }
    if flags & NO_MMAP != 0 && parent.is_none() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    match unsafe { map(d, parent) } {
        0 => Ok(()),
        errno => Err((errno, format!("cannot map its memory: {}", in_words(errno)))),
    }
}

/// What `flags` take from another descriptor.
fn inherit(req: &mut Nmreq, flags: u64, parent: &Nmreq) {
    if flags & IFNAME != 0 {
        (req.nr_name, req.nr_ringid, req.nr_flags) = (parent.nr_name, parent.nr_ringid, parent.nr_flags);
    }
    if flags & ARG1 != 0 {
        req.nr_arg1 = parent.nr_arg1;
    }
    if flags & ARG2 != 0 {
        req.nr_arg2 = parent.nr_arg2;
    }
    if flags & ARG3 != 0 {
        req.nr_arg3 = parent.nr_arg3;
    }
    if flags & RING_CFG != 0 {
        (req.nr_tx_slots, req.nr_rx_slots) = (parent.nr_tx_slots, parent.nr_rx_slots);
        (req.nr_tx_rings, req.nr_rx_rings) = (parent.nr_tx_rings, parent.nr_rx_rings);
    }
}

/// Maps a registered descriptor; the mapping of `parent` does if that is of the same memory. 0 or an errno.
///
/// # Safety
/// `d` is registered, `parent` null or a valid descriptor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nm_mmap(d: *mut NmDesc, parent: *const NmDesc) -> c_int {
    // SAFETY: the caller's promise.
    let errno = unsafe { map(&mut *d, parent.as_ref()) };
    set_errno(errno);
    errno
}

/// # Safety
/// As [`nm_mmap`].
unsafe fn map(d: &mut NmDesc, parent: Option<&NmDesc>) -> c_int {
    d.memsize = d.req.nr_memsize.into();
    let is_same = |parent: &&NmDesc| {
        let same_number = parent.req.nr_arg2 == d.req.nr_arg2;
        !parent.mem.is_null() && same_number && file_of(parent.fd) == file_of(d.fd)
    };
    d.mem = match parent.filter(is_same) {
        Some(parent) => parent.mem,
        None => match device::map(d.fd, d.memsize as usize) {
            Some(memory) => memory,
            None => return errno(),
        },
    };
    d.done_mmap = c_int::from(parent.is_none_or(|parent| parent.mem != d.mem));
    // SAFETY: the device says where in its memory the interface object is.
    unsafe {
        d.nifp = d.mem.byte_add(d.req.nr_offset as usize).cast::<InterfaceHeader>();
        let rings = rings_of(&as_register(&d.req, &*d.nifp));
        (d.first_tx_ring, d.last_tx_ring, d.cur_tx_ring) = (rings.first_tx, rings.last_tx, rings.cur_tx);
        (d.first_rx_ring, d.last_rx_ring, d.cur_rx_ring) = (rings.first_rx, rings.last_rx, rings.cur_rx);
        let receives = d.first_rx_ring <= d.last_rx_ring;
        if receives || d.first_tx_ring <= d.last_tx_ring {
            let some_ring = inject::ring(d.nifp, if receives { d.first_rx_ring } else { d.first_tx_ring }, receives);
            d.some_ring = some_ring.0;
            d.buf_start = some_ring.buffer(0).cast();
        }
        d.buf_end = d.mem.byte_add(d.memsize as usize);
    }
    0
}

/// The rings of a request, with the host rings that only the interface object tells.
fn as_register(req: &Nmreq, interface: &InterfaceHeader) -> NmreqRegister {
    use std::sync::atomic::Ordering::Relaxed;
    // SAFETY: zeros are a registration.
    let mut reg: NmreqRegister = unsafe { std::mem::zeroed() };
    (reg.nr_tx_rings, reg.nr_rx_rings) = (req.nr_tx_rings, req.nr_rx_rings);
    reg.nr_host_tx_rings = interface.host_tx_rings.load(Relaxed) as u16;
    reg.nr_host_rx_rings = interface.host_rx_rings.load(Relaxed) as u16;
    reg.nr_mode = req.nr_flags & legacy::MODE_MASK;
    reg.nr_ringid = req.nr_ringid & legacy::RING_MASK;
    reg.nr_flags = u64::from(req.nr_flags) & (flag::RX_RINGS_ONLY | flag::TX_RINGS_ONLY);
    if matches!(reg.nr_mode, mode::PIPE_MASTER | mode::PIPE_SLAVE) {
        reg.nr_mode = mode::ALL_NIC;
    }
    reg
}

/// # Safety
/// `d` is null or a descriptor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nm_close(d: *mut NmDesc) -> c_int {
    // SAFETY: the caller's promise; only `nm_open` makes descriptors that point to themselves.
    unsafe {
        if d.is_null() || (*d).this != d {
            return libc::EINVAL;
        }
        let d = Box::from_raw(d);
        if d.done_mmap != 0 {
            libc::munmap(d.mem, d.memsize as usize);
        }
        if d.fd >= 0 {
            libc::close(d.fd);
        }
    }
    0
}
