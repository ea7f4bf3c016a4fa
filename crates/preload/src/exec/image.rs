//! Whether a program, once executed, will load what LD_PRELOAD names.

use core::ffi::{CStr, c_char};

use libc::{AT_FDCWD, c_int, stat};

use crate::sys;

/// How much of a file is looked at: the headers of an ELF file, the first line of a script.
const HEAD_BYTES: usize = 4096;
/// Longest path that is looked at.
const PATH_BYTES: usize = 4096;
/// Scripts whose interpreter is a script, as in the kernel (BINPRM_BUF_SIZE loops).
const SCRIPTS_MAX: u32 = 5;

const ELF64_X86: (u8, u8) = (2, 62);
const PT_INTERP: u8 = 3;

/// The file that is to be executed. What cannot be looked at counts as an ordinary program: either the
/// exec fails, or it is one.
#[derive(Clone, Copy)]
pub(crate) enum Image {
    /// A path, relative to a directory's descriptor or AT_FDCWD.
    At(c_int, *const c_char),
    /// An open file.
    Open(c_int),
    /// A name to be looked for as `execvp` does.
    Named(*const c_char),
}

impl Image {
    pub(crate) fn takes_library(self) -> bool {
        match self {
            Image::Open(fd) => inspect(fd, 0),
            Image::At(directory, path) => at(directory, path, 0),
            Image::Named(name) => search(name),
        }
    }
}

fn at(directory: c_int, path: *const c_char, scripts: u32) -> bool {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY) as usize;
    // SAFETY: the kernel checks the path.
    let fd = unsafe { sys::syscall6(libc::SYS_openat, directory as usize, path as usize, flags, 0, 0, 0) };
    if fd < 0 {
        return true;
    }
    let takes = inspect(fd as c_int, scripts);
    sys::close(fd as c_int);
    takes
}

/// Looks where `execvp` would find the name.
fn search(name: *const c_char) -> bool {
    if name.is_null() {
        return true;
    }
    // SAFETY: execvp itself reads the name as a string.
    let name = unsafe { CStr::from_ptr(name) };
    if name.to_bytes().contains(&b'/') {
        return at(AT_FDCWD, name.as_ptr(), 0);
    }
    // SAFETY: the environment is the program's; execvp reads it the same way.
    let path = unsafe { libc::getenv(c"PATH".as_ptr()).cast_const() };
    // SAFETY: a string of the environment.
    let path = if path.is_null() { c"/bin:/usr/bin" } else { unsafe { CStr::from_ptr(path) } };
    let mut candidate = [0u8; PATH_BYTES];
    for directory in path.to_bytes().split(|&b| b == b':') {
        if join(&mut candidate, directory, name.to_bytes()) && is_executable(&candidate) {
            return at(AT_FDCWD, candidate.as_ptr().cast(), 0);
        }
    }
    true
}

fn join(to: &mut [u8; PATH_BYTES], directory: &[u8], name: &[u8]) -> bool {
    let directory = if directory.is_empty() { b"." } else { directory };
    if directory.len() + name.len() + 2 > PATH_BYTES {
        return false;
    }
    let parts = directory.iter().chain(b"/").chain(name).chain(&[0]);
    to.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
    true
}

fn is_executable(path: &[u8; PATH_BYTES]) -> bool {
    let (at, mode) = (AT_FDCWD as usize, libc::X_OK as usize);
    // SAFETY: a string of ours.
    unsafe { sys::syscall6(libc::SYS_faccessat, at, path.as_ptr() as usize, mode, 0, 0, 0) == 0 }
}

fn inspect(fd: c_int, scripts: u32) -> bool {
    let mut head = [0u8; HEAD_BYTES];
    // SAFETY: the buffer has HEAD_BYTES bytes.
    let n = unsafe { sys::syscall6(libc::SYS_pread64, fd as usize, head.as_mut_ptr() as usize, HEAD_BYTES, 0, 0, 0) };
    let head = head.get(..n.max(0) as usize).unwrap_or(&[]);
    if changes_user(fd) {
        return false;
    }
    match head {
        [0x7f, b'E', b'L', b'F', ..] => is_dynamic(head),
        [b'#', b'!', line @ ..] if scripts < SCRIPTS_MAX => interpreter_takes_library(line, scripts),
        _ => true,
    }
}

fn interpreter_takes_library(line: &[u8], scripts: u32) -> bool {
    let line = line.split(|&b| b == b'\n').next().unwrap_or(&[]).trim_ascii_start();
    let path = line.split(|&b| b == b' ' || b == b'\t').next().unwrap_or(&[]);
    let mut terminated = [0u8; 256];
    if path.is_empty() || path.len() >= terminated.len() {
        return true;
    }
    terminated.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
    at(AT_FDCWD, terminated.as_ptr().cast(), scripts + 1)
}

/// Whether an ELF file of our kind names a dynamic loader.
fn is_dynamic(head: &[u8]) -> bool {
    let half = |at: usize| Some(u16::from_le_bytes([*head.get(at)?, *head.get(at + 1)?]) as usize);
    let (Some(&class), Some(&machine), Some(headers), Some(size), Some(count)) =
        (head.get(4), head.get(18), half(32), half(54), half(56))
    else {
        return false;
    };
    (class, machine) == ELF64_X86 && (0..count).any(|i| head.get(headers + i * size) == Some(&PT_INTERP))
}

/// Whether executing the file changes the user or the capabilities: then the loader ignores LD_PRELOAD.
fn changes_user(fd: c_int) -> bool {
    // SAFETY: an all-zero stat is valid, and the kernel fills in no more than it.
    let (info, found) = unsafe {
        let mut info: stat = core::mem::zeroed();
        let answer = sys::syscall6(libc::SYS_fstat, fd as usize, (&raw mut info) as usize, 0, 0, 0, 0);
        (info, answer == 0)
    };
    // SAFETY: no arguments.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let name = c"security.capability".as_ptr() as usize;
    // SAFETY: asks for the attribute's length only.
    let capable = unsafe { sys::syscall6(libc::SYS_fgetxattr, fd as usize, name, 0, 0, 0, 0) } > 0;
    let changes = info.st_mode & libc::S_ISUID != 0 && info.st_uid != uid
        || info.st_mode & libc::S_ISGID != 0 && info.st_gid != gid;
    found && (changes || capable && uid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn takes(path: &std::path::Path) -> bool {
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        Image::At(AT_FDCWD, path.as_ptr()).takes_library()
    }

    #[test]
    fn dynamic_programs_and_scripts_take_it() {
        assert!(takes(&std::env::current_exe().unwrap()));
        assert!(Image::Named(c"sh".as_ptr()).takes_library());
        assert!(Image::Named(c"/bin/sh".as_ptr()).takes_library());
        assert!(Image::Named(c"no-such-program-anywhere".as_ptr()).takes_library());
    }

    #[test]
    fn static_and_setuid_programs_do_not() {
        let directory = std::env::temp_dir().join(format!("ringway-image-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        // A 64-bit x86 header with one program header, PT_LOAD.
        let mut elf = vec![0u8; 120];
        elf[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2]);
        (elf[18], elf[32], elf[54], elf[56], elf[64]) = (62, 64, 56, 1, 1);
        let file = directory.join("program");
        std::fs::write(&file, &elf).unwrap();
        assert!(!takes(&file), "static");
        let script = directory.join("script");
        std::fs::write(&script, format!("#! {} -x\n", file.display())).unwrap();
        assert!(!takes(&script), "a script of a static interpreter");
        elf[64] = PT_INTERP;
        std::fs::write(&file, &elf).unwrap();
        assert!(takes(&file) && takes(&script));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(takes(&file), "setuid to the user that runs it already");
        elf[4] = 1;
        std::fs::write(&file, &elf).unwrap();
        assert!(!takes(&file), "32 bits");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
