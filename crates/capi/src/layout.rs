//! The structures of the headers, as C lays them out.

use std::ffi::{c_char, c_int, c_uint, c_void};

use ringway_mem::slot::{InterfaceHeader, RingHeader};

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NmreqOption {
    pub(crate) nro_next: u64,
    pub(crate) nro_reqtype: u32,
    pub(crate) nro_status: u32,
    pub(crate) nro_size: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NmreqHeader {
    pub(crate) nr_version: u16,
    pub(crate) nr_reqtype: u16,
    pub(crate) nr_reserved: u32,
    pub(crate) nr_name: [u8; 64],
    pub(crate) nr_options: u64,
    pub(crate) nr_body: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NmreqRegister {
    pub(crate) nr_offset: u64,
    pub(crate) nr_memsize: u64,
    pub(crate) nr_tx_slots: u32,
    pub(crate) nr_rx_slots: u32,
    pub(crate) nr_tx_rings: u16,
    pub(crate) nr_rx_rings: u16,
    pub(crate) nr_host_tx_rings: u16,
    pub(crate) nr_host_rx_rings: u16,
    pub(crate) nr_mem_id: u16,
    pub(crate) nr_ringid: u16,
    pub(crate) nr_mode: u32,
    pub(crate) nr_extra_bufs: u32,
    pub(crate) nr_flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NmreqPoolsInfo {
    pub(crate) nr_memsize: u64,
    pub(crate) nr_mem_id: u16,
    pub(crate) pad1: [u16; 3],
    pub(crate) nr_if_pool_offset: u64,
    pub(crate) nr_if_pool_objtotal: u32,
    pub(crate) nr_if_pool_objsize: u32,
    pub(crate) nr_ring_pool_offset: u64,
    pub(crate) nr_ring_pool_objtotal: u32,
    pub(crate) nr_ring_pool_objsize: u32,
    pub(crate) nr_buf_pool_offset: u64,
    pub(crate) nr_buf_pool_objtotal: u32,
    pub(crate) nr_buf_pool_objsize: u32,
}

#[repr(C)]
pub(crate) struct OptExtmem {
    pub(crate) nro_opt: NmreqOption,
    pub(crate) nro_usrptr: u64,
    pub(crate) nro_info: NmreqPoolsInfo,
}

#[repr(C)]
pub(crate) struct OptOffsets {
    pub(crate) nro_opt: NmreqOption,
    pub(crate) nro_max_offset: u64,
    pub(crate) nro_initial_offset: u64,
    pub(crate) nro_offset_bits: u32,
    pub(crate) nro_tx_align: u64,
    pub(crate) nro_min_gap: u64,
}

/// The request before version 12.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Nmreq {
    pub(crate) nr_name: [u8; 16],
    pub(crate) nr_version: u32,
    pub(crate) nr_offset: u32,
    pub(crate) nr_memsize: u32,
    pub(crate) nr_tx_slots: u32,
    pub(crate) nr_rx_slots: u32,
    pub(crate) nr_tx_rings: u16,
    pub(crate) nr_rx_rings: u16,
    pub(crate) nr_ringid: u16,
    pub(crate) nr_cmd: u16,
    pub(crate) nr_arg1: u16,
    pub(crate) nr_arg2: u16,
    pub(crate) nr_arg3: u32,
    pub(crate) nr_flags: u32,
    pub(crate) spare2: [u32; 1],
}

pub(crate) type ErrorCallback = Option<unsafe extern "C" fn(*mut Nmctx, *const c_char)>;
pub(crate) type MallocCallback = Option<unsafe extern "C" fn(*mut Nmctx, usize) -> *mut c_void>;
pub(crate) type FreeCallback = Option<unsafe extern "C" fn(*mut Nmctx, *mut c_void)>;
pub(crate) type LockCallback = Option<unsafe extern "C" fn(*mut Nmctx, c_int)>;

#[repr(C)]
pub(crate) struct Nmctx {
    pub(crate) verbose: c_int,
    pub(crate) error: ErrorCallback,
    pub(crate) malloc: MallocCallback,
    pub(crate) free: FreeCallback,
    pub(crate) lock: LockCallback,
    pub(crate) mem_descs: *mut Nmem,
}

/// A mapped region; the fields behind those of the header are the library's own.
#[repr(C)]
pub(crate) struct Nmem {
    pub(crate) mem_id: u16,
    pub(crate) refcount: c_int,
    pub(crate) mem: *mut c_void,
    pub(crate) size: usize,
    pub(crate) is_extmem: c_int,
    pub(crate) next: *mut Nmem,
    pub(crate) prev: *mut Nmem,
    /// Which file is mapped: device and inode.
    pub(crate) file: (u64, u64),
}

#[repr(C)]
pub(crate) struct Nmport {
    pub(crate) hdr: NmreqHeader,
    pub(crate) reg: NmreqRegister,
    pub(crate) mem: *mut Nmem,
    pub(crate) ctx: *mut Nmctx,
    pub(crate) register_done: c_int,
    pub(crate) mmap_done: c_int,
    pub(crate) extmem: *mut OptExtmem,
    pub(crate) fd: c_int,
    pub(crate) nifp: *const InterfaceHeader,
    pub(crate) rings: RingSpan,
    pub(crate) clist: *mut Cleanup,
}

/// First, last and current rings of both directions, in the order of `struct nmport_d`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingSpan {
    pub(crate) first_tx: u16,
    pub(crate) last_tx: u16,
    pub(crate) first_rx: u16,
    pub(crate) last_rx: u16,
    pub(crate) cur_tx: u16,
    pub(crate) cur_rx: u16,
}

/// Something to be undone when what nmport_parse did is undone.
pub(crate) struct Cleanup {
    pub(crate) next: *mut Cleanup,
    /// A mapping of a file.
    pub(crate) mapped: (*mut c_void, usize),
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct OptKey {
    pub(crate) key: *const c_char,
    pub(crate) id: c_int,
    pub(crate) flags: c_uint,
}

pub(crate) const MAXKEYS: usize = 16;

#[repr(C, align(16))]
pub(crate) struct OptParser {
    pub(crate) prefix: *const c_char,
    pub(crate) parse: Option<unsafe extern "C" fn(*mut ParseContext) -> c_int>,
    pub(crate) default_key: c_int,
    pub(crate) nr_keys: c_int,
    pub(crate) flags: c_uint,
    pub(crate) next: *mut OptParser,
    pub(crate) keys: [OptKey; MAXKEYS],
}

#[repr(C)]
pub(crate) struct ParseContext {
    pub(crate) ctx: *mut Nmctx,
    pub(crate) token: *mut c_void,
    pub(crate) keys: [*const c_char; MAXKEYS],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PacketHeader {
    pub(crate) ts: libc::timeval,
    pub(crate) caplen: u32,
    pub(crate) len: u32,
    pub(crate) flags: u64,
    pub(crate) d: *mut NmDesc,
    pub(crate) slot: *const c_void,
    pub(crate) buf: *mut u8,
}

#[repr(C)]
pub(crate) struct NmDesc {
    pub(crate) this: *mut NmDesc,
    pub(crate) fd: c_int,
    pub(crate) mem: *mut c_void,
    pub(crate) memsize: u64,
    pub(crate) done_mmap: c_int,
    pub(crate) nifp: *const InterfaceHeader,
    pub(crate) first_tx_ring: u16,
    pub(crate) last_tx_ring: u16,
    pub(crate) cur_tx_ring: u16,
    pub(crate) first_rx_ring: u16,
    pub(crate) last_rx_ring: u16,
    pub(crate) cur_rx_ring: u16,
    pub(crate) req: Nmreq,
    pub(crate) hdr: PacketHeader,
    pub(crate) some_ring: *const RingHeader,
    pub(crate) buf_start: *mut c_void,
    pub(crate) buf_end: *mut c_void,
    pub(crate) snaplen: c_int,
    pub(crate) promisc: c_int,
    pub(crate) to_ms: c_int,
    pub(crate) errbuf: *mut c_char,
    pub(crate) if_flags: u32,
    pub(crate) if_reqcap: u32,
    pub(crate) if_curcap: u32,
    pub(crate) st: [c_uint; 3],
    pub(crate) msg: [u8; 512],
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<NmreqHeader>() == 88 && size_of::<NmreqRegister>() == 56 && size_of::<NmreqOption>() == 24);
    assert!(size_of::<OptExtmem>() == 96 && size_of::<OptOffsets>() == 64 && size_of::<Nmreq>() == 60);
    assert!(offset_of!(Nmport, mem) == 144 && offset_of!(Nmport, nifp) == 184 && size_of::<RingSpan>() == 12);
    assert!(offset_of!(Nmport, rings) == 192 && size_of::<Nmport>() == 216);
    assert!(offset_of!(OptParser, keys) == 40 && size_of::<OptParser>() == 304 && size_of::<ParseContext>() == 144);
    assert!(size_of::<Nmctx>() == 48 && size_of::<PacketHeader>() == 56);
    assert!(offset_of!(NmDesc, req) == 60 && offset_of!(NmDesc, hdr) == 120 && offset_of!(NmDesc, msg) == 248);
    assert!(offset_of!(NmDesc, some_ring) == 176 && size_of::<NmDesc>() == 760);
};
