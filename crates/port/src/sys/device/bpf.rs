//! The bpf(2) system call, as far as redirecting frames needs it: maps, programs, and links that end with their last
//! descriptor (include/uapi/linux/bpf.h).

use std::ffi::{CStr, c_int};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::call;

/// One instruction; two of them for a 64-bit constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    /// Destination register in the low half, source in the high one.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) immediate: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;
const LINK_UPDATE: c_int = 29;
const MAP_TYPE_XSKMAP: u32 = 17;
const LICENSE: &CStr = c"Apache-2.0";
/// The verifier's words are asked for only after a refusal.
const LOG_BYTES: usize = 1 << 16;
/// Tells the kernel that the program copes with frames in several parts.
const PROG_XDP_HAS_FRAGS: u32 = 1 << 5;

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sees received frames before the host does.
    Xdp,
    /// Sees frames on their way out of an interface, or in.
    TrafficControl,
}

impl Kind {
    fn program_type(self) -> u32 {
        match self {
            Kind::Xdp => 6,
            Kind::TrafficControl => 3,
        }
    }
}

/// Where a program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// In the driver.
    XdpNative,
    /// In the kernel's generic receive path.
    XdpGeneric,
    TcIngress,
    TcEgress,
}

impl Hook {
    /// Attach type and flags.
    fn words(self) -> (u32, u32) {
        match self {
            Hook::XdpNative => (37, 1 << 2),
            Hook::XdpGeneric => (37, 1 << 1),
            Hook::TcIngress => (46, 0),
            Hook::TcEgress => (47, 0),
        }
    }
}

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    /// Zero: the options of traffic control programs.
    rest: [u64; 2],
}

#[repr(C)]
struct LinkUpdate {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

const _: () = assert!(size_of::<ProgLoad>() == 72 && size_of::<MapUpdate>() == 32);

/// # Safety
/// `T` must be what the command reads, without padding, and its addresses valid for what the command does with them.
unsafe fn bpf<T>(command: c_int, attributes: &T) -> Result<usize, Errno> {
    let (place, bytes) = (std::ptr::from_ref(attributes), size_of::<T>());
    // SAFETY: the kernel reads `bytes` bytes; the rest is the caller's.
    call::answer(unsafe { libc::syscall(libc::SYS_bpf, command, place, bytes) })
}

/// # Safety
/// As for [`bpf`], and the command must return a new descriptor.
unsafe fn bpf_fd<T>(command: c_int, attributes: &T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise; a descriptor that comes back is nobody else's.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd as c_int)) }
}

/// A map from queue to XDP socket.
pub(crate) fn socket_map(queues: u32) -> Result<OwnedFd, Errno> {
    let attributes = MapCreate { map_type: MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries: queues, flags: 0 };
    // SAFETY: numbers only.
    unsafe { bpf_fd(MAP_CREATE, &attributes) }
}

pub(crate) fn set_socket(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let socket = socket.as_raw_fd() as u32;
    let (key, value) = ((&raw const queue) as u64, (&raw const socket) as u64);
    let attributes = MapUpdate { map: map.as_raw_fd() as u32, _pad: 0, key, value, flags: 0 };
    // SAFETY: key and value are four bytes each, as the map has them.
    unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
}

/// Loads a program. If it is refused, the verifier's last words come with the answer.
pub(crate) fn load(kind: Kind, program: &[Instruction]) -> Result<OwnedFd, (Errno, String)> {
    let mut name = [0; 16];
    name[..7].copy_from_slice(b"ringway");
    let mut attributes = ProgLoad {
        program_type: kind.program_type(),
        instruction_count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: 0,
        log_bytes: 0,
        log: 0,
        kernel_version: 0,
        flags: if kind == Kind::Xdp { PROG_XDP_HAS_FRAGS } else { 0 },
        name,
        interface: 0,
        attach_type: 0,
    };
    // SAFETY: the addresses are of the program and of a string that never ends.
    let refused = match unsafe { bpf_fd(PROG_LOAD, &attributes) } {
        Ok(fd) => return Ok(fd),
        Err(errno) => errno,
    };
    let mut log = vec![0_u8; LOG_BYTES];
    (attributes.log_level, attributes.log_bytes, attributes.log) = (1, LOG_BYTES as u32, log.as_mut_ptr() as u64);
    // SAFETY: as above, and the log is as long as it says.
    match unsafe { bpf_fd(PROG_LOAD, &attributes) } {
        Ok(fd) => Ok(fd),
        Err(_) => Err((refused, last_words(&log))),
    }
}

/// The last lines of the verifier's log, where the reason stands.
fn last_words(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|b| *b == 0).next().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed ")).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

/// Attaches a program to an interface until the returned descriptor's last copy is closed, however that comes.
pub(crate) fn attach(program: BorrowedFd<'_>, interface: u32, hook: Hook) -> Result<OwnedFd, Errno> {
    let (attach_type, flags) = hook.words();
    let program = program.as_raw_fd() as u32;
    // SAFETY: numbers only.
    unsafe { bpf_fd(LINK_CREATE, &LinkCreate { program, interface, attach_type, flags, rest: [0; 2] }) }
}

/// Puts another program in the place of a link's.
pub(crate) fn replace(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> Result<(), Errno> {
    let (link, program) = (link.as_raw_fd() as u32, program.as_raw_fd() as u32);
    // SAFETY: numbers only.
    unsafe { bpf(LINK_UPDATE, &LinkUpdate { link, program, flags: 0, old_program: 0 }) }.map(drop)
}

/// Runs a program on a frame without any interface (BPF_PROG_TEST_RUN); returns its verdict.
#[cfg(test)]
pub(crate) fn run(program: BorrowedFd<'_>, frame: &[u8]) -> Result<u32, Errno> {
    #[repr(C)]
    struct TestRun {
        program: u32,
        verdict: u32,
        in_bytes: u32,
        out_bytes: u32,
        data_in: u64,
        data_out: u64,
        repeat: u32,
        duration: u32,
    }
    let (in_bytes, data_in) = (frame.len() as u32, frame.as_ptr() as u64);
    let program = program.as_raw_fd() as u32;
    let mut run = TestRun { program, verdict: 0, in_bytes, out_bytes: 0, data_in, data_out: 0, repeat: 1, duration: 0 };
    let (place, bytes) = (&raw mut run, size_of::<TestRun>());
    // SAFETY: the kernel reads the frame, and writes the verdict into the structure.
    call::answer(unsafe { libc::syscall(libc::SYS_bpf, 10, place, bytes) })?;
    Ok(run.verdict)
}
