//! Whether a program, once executed, will load what LD_PRELOAD names.

use core::ffi::{CStr, c_char};

use libc::{AT_FDCWD, c_int, stat};

use crate::sys;

/// How much of a file is looked at: the headers of an ELF file, the first line of a script. Little, because programs
/// call exec from handlers on small stacks.
const HEAD_BYTES: usize = 1024;
/// Longest path that is looked at.
const PATH_BYTES: usize = 1024;
/// How much of a loader's name is looked at.
const LOADER_BYTES: usize = 128;
/// Scripts whose interpreter is a script, as in the kernel (BINPRM_BUF_SIZE loops).
const SCRIPTS_MAX: u32 = 5;

const ELF64_X86: (u8, u8) = (2, 62);
const PT_INTERP: u8 = 3;

/// What a program does with a library that LD_PRELOAD names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loading {
    /// Loads it.
    Loads,
    /// Never looks at it: static, or run as somebody else.
    Ignores,
    /// Cannot be started with it: musl's loader finds nothing of what a library made for glibc needs.
    Fails,
}

use Loading::{Fails, Ignores, Loads};

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
    pub(crate) fn loading(self) -> Loading {
        match self {
            Image::Open(fd) => inspect(fd, 0),
            Image::At(directory, path) => at(directory, path, 0),
            Image::Named(name) => search(name),
        }
    }
}

fn at(directory: c_int, path: *const c_char, scripts: u32) -> Loading {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY) as usize;
    // SAFETY: the kernel checks the path.
    let fd = unsafe { sys::syscall6(libc::SYS_openat, directory as usize, path as usize, flags, 0, 0, 0) };
    if fd < 0 {
        return Loads;
    }
    let loading = inspect(fd as c_int, scripts);
    sys::close(fd as c_int);
    loading
}

/// Looks where `execvp` would find the name.
fn search(name: *const c_char) -> Loading {
    if name.is_null() {
        return Loads;
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
    Loads
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

fn inspect(fd: c_int, scripts: u32) -> Loading {
    let mut head = [0u8; HEAD_BYTES];
    let head = read_at(fd, &mut head, 0);
    if changes_user(fd) {
        return Ignores;
    }
    match head {
        [0x7f, b'E', b'L', b'F', ..] => match loader(head) {
            Some(name_at) if is_musl(fd, name_at) => Fails,
            Some(_) => Loads,
            None => Ignores,
        },
        [b'#', b'!', line @ ..] if scripts < SCRIPTS_MAX => interpreter_loading(line, scripts),
        _ => Loads,
    }
}

fn read_at(fd: c_int, to: &mut [u8], offset: usize) -> &[u8] {
    let (at, bytes) = (to.as_mut_ptr() as usize, to.len());
    // SAFETY: the buffer has so many bytes.
    let n = unsafe { sys::syscall6(libc::SYS_pread64, fd as usize, at, bytes, offset, 0, 0) };
    to.get(..n.max(0) as usize).unwrap_or(&[])
}

fn interpreter_loading(line: &[u8], scripts: u32) -> Loading {
    let line = line.split(|&b| b == b'\n').next().unwrap_or(&[]).trim_ascii_start();
    let path = line.split(|&b| b == b' ' || b == b'\t').next().unwrap_or(&[]);
    let mut terminated = [0u8; 256];
    if path.is_empty() || path.len() >= terminated.len() {
        return Loads;
    }
    terminated.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
    at(AT_FDCWD, terminated.as_ptr().cast(), scripts + 1)
}

/// Where the name of its dynamic loader lies in an ELF file of our kind, if it has one.
fn loader(head: &[u8]) -> Option<usize> {
    let half = |at: usize| Some(u16::from_le_bytes([*head.get(at)?, *head.get(at + 1)?]) as usize);
    let (class, machine, headers, size, count) = (*head.get(4)?, *head.get(18)?, half(32)?, half(54)?, half(56)?);
    if (class, machine) != ELF64_X86 {
        return None;
    }
    let header = (0..count).map(|i| headers + i * size).find(|&at| head.get(at) == Some(&PT_INTERP))?;
    let name_at: [u8; 8] = head.get(header + 8..header + 16)?.try_into().ok()?;
    Some(u64::from_le_bytes(name_at) as usize)
}

fn is_musl(fd: c_int, name_at: usize) -> bool {
    let mut name = [0u8; LOADER_BYTES];
    let name = read_at(fd, &mut name, name_at).split(|&b| b == 0).next().unwrap_or(&[]);
    name.rsplit(|&b| b == b'/').next().is_some_and(|file| file.starts_with(b"ld-musl"))
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

    fn loading(path: &std::path::Path) -> Loading {
        let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        Image::At(AT_FDCWD, path.as_ptr()).loading()
    }

    fn takes(path: &std::path::Path) -> bool {
        loading(path) == Loads
    }

    #[test]
    fn dynamic_programs_and_scripts_take_it() {
        assert!(takes(&std::env::current_exe().unwrap()));
        for name in [c"sh", c"/bin/sh", c"no-such-program-anywhere"] {
            assert_eq!(Image::Named(name.as_ptr()).loading(), Loads);
        }
    }

    #[test]
    fn static_setuid_and_musl_programs_do_not() {
        let directory = std::env::temp_dir().join(format!("ringway-image-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        // A 64-bit x86 header with one program header, PT_LOAD.
        let mut elf = vec![0u8; 160];
        elf[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2]);
        (elf[18], elf[32], elf[54], elf[56], elf[64]) = (62, 64, 56, 1, 1);
        let file = directory.join("program");
        std::fs::write(&file, &elf).unwrap();
        assert_eq!(loading(&file), Ignores, "static");
        let script = directory.join("script");
        std::fs::write(&script, format!("#! {} -x\n", file.display())).unwrap();
        assert!(!takes(&script), "a script of a static interpreter");
        elf[64] = PT_INTERP;
        std::fs::write(&file, &elf).unwrap();
        elf[72] = 130;
        elf[130..157].copy_from_slice(b"/lib64/ld-linux-x86-64.so.2");
        std::fs::write(&file, &elf).unwrap();
        assert!(takes(&file) && takes(&script));
        elf[130..157].copy_from_slice(b"/lib/ld-musl-x86_64.so.1\0\0\0");
        std::fs::write(&file, &elf).unwrap();
        assert_eq!((loading(&file), loading(&script)), (Fails, Fails));
        elf[130] = 0;
        std::fs::write(&file, &elf).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert!(takes(&file), "setuid to the user that runs it already");
        elf[4] = 1;
        std::fs::write(&file, &elf).unwrap();
        assert!(!takes(&file), "32 bits");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
