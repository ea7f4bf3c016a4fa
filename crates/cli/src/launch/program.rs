//! What the program on the command line is, and whether `LD_PRELOAD` can reach it.
//!
//! The dynamic linker loads the library only into dynamically linked programs of our architecture,
//! word size and C library, and never into programs that gain privileges when they start. All that is
//! in the file's first kilobytes and its inode, so it can be told before anything runs.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Scripts may name scripts as their interpreter; the kernel follows this many.
const SCRIPT_DEPTH_MAX: usize = 5;

/// Program headers that are looked at in one file.
const PROGRAM_HEADERS_MAX: usize = 256;

/// Why no program can be started, in the shells' exit codes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// Exit code 127.
    NotFound,
    /// Exit code 126.
    NotExecutable,
}

impl Unusable {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Unusable::NotFound => 127,
            Unusable::NotExecutable => 126,
        }
    }

    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Unusable::NotFound => "command not found",
            Unusable::NotExecutable => "not executable (permission denied, or a folder)",
        }
    }
}

/// Finds the file as `execvp` would: a name with a slash is a path, others are looked up in `PATH`.
pub(crate) fn resolve(name: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, Unusable> {
    if name.is_empty() {
        return Err(Unusable::NotFound);
    }
    if name.as_bytes().contains(&b'/') {
        return executable(PathBuf::from(name));
    }
    let search_path = search_path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let mut verdict = Unusable::NotFound;
    for folder in std::env::split_paths(search_path) {
        match executable(folder.join(name)) {
            Ok(path) => return Ok(path),
            Err(Unusable::NotExecutable) => verdict = Unusable::NotExecutable,
            Err(Unusable::NotFound) => {}
        }
    }
    Err(verdict)
}

fn executable(path: PathBuf) -> Result<PathBuf, Unusable> {
    let metadata = path.metadata().map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => Unusable::NotExecutable,
        _ => Unusable::NotFound,
    })?;
    let may_execute = rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok();
    match metadata.is_file() && may_execute {
        true => Ok(path),
        false => Err(Unusable::NotExecutable),
    }
}

/// Why the library cannot be loaded into a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    pub(crate) text: String,
    /// With the library named in its environment, the program would not start.
    pub(crate) is_fatal: bool,
}

const MUSL: &str = "uses the musl C library, the library is built for glibc";

/// The reason that the library cannot be loaded into the program at `path`; `None` if it can, or if
/// the file does not tell.
pub(crate) fn preload_obstacle(path: &Path) -> Option<Obstacle> {
    let mut path = path.to_path_buf();
    for _ in 0..SCRIPT_DEPTH_MAX {
        let Ok(file) = File::open(&path) else { return None };
        let mut start = [0u8; 256];
        let length = (&file).take(start.len() as u64).read(&mut start).ok()?;
        let start = &start[..length];
        match script_interpreter(start) {
            Some(interpreter) => path = interpreter,
            None if start.starts_with(b"\x7fELF") => {
                let gains = file.metadata().ok().and_then(|m| privilege_gain(&path, &m));
                let why = gains.or_else(|| elf_obstacle(&file, start))?;
                return Some(Obstacle { text: format!("{} {why}", path.display()), is_fatal: why == MUSL });
            }
            // A script without "#!" is run by the shell, which can be preloaded.
            None => return None,
        }
    }
    None
}

/// Whether a program was built by Go, whose runtime makes its system calls without the C library.
pub(crate) fn is_go(path: &Path) -> bool {
    /// What Go's linker writes at the start of the section that describes the build.
    const BUILD_INFO: &[u8] = b"\xff Go buildinf:";
    /// It lies near the start of the data; programs are looked at no further than this.
    const BYTES_MAX: u64 = 256 << 20;
    let Ok(file) = File::open(path) else { return false };
    let mut reader = std::io::BufReader::with_capacity(1 << 20, file.take(BYTES_MAX));
    // The linker aligns it to 16 bytes, so that no piece of the file hides it.
    let mut piece = vec![0; 1 << 16];
    loop {
        match reader.read(&mut piece) {
            Ok(0) | Err(_) => return false,
            Ok(length) => {
                if piece[..length].chunks(16).any(|at| at.starts_with(BUILD_INFO)) {
                    return true;
                }
            }
        }
    }
}

/// The interpreter that a `#!` line names.
fn script_interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let name = line.split(|b| matches!(b, b' ' | b'\t')).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// Programs that gain privileges at exec (`AT_SECURE`) are not preloaded by the dynamic linker.
fn privilege_gain(path: &Path, metadata: &Metadata) -> Option<String> {
    let mode = metadata.permissions().mode();
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if mode & 0o4000 != 0 && metadata.uid() != uid.as_raw() {
        return Some("is a setuid program".into());
    }
    if mode & 0o2000 != 0 && metadata.gid() != gid.as_raw() {
        return Some("is a setgid program".into());
    }
    let mut none: [u8; 0] = [];
    let capabilities = rustix::fs::getxattr(path, "security.capability", &mut none);
    (!uid.is_root() && capabilities.is_ok_and(|bytes| bytes > 0)).then(|| "has file capabilities".into())
}

/// Reads the program headers of a 64-bit little-endian file; other kinds differ from ours anyway.
fn elf_obstacle(file: &File, start: &[u8]) -> Option<String> {
    const PT_INTERP: u32 = 3;
    let own_machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    if start.len() < 64 {
        return None;
    }
    let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let u32_at = |bytes: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let u64_at = |bytes: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    if start[4] != 2 || start[5] != 1 {
        return Some("is not a 64-bit little-endian program as the library is".into());
    }
    if u16_at(start, 18) != own_machine {
        return Some("is built for another processor than the library".into());
    }
    let (table, entry_bytes, entries) = (u64_at(start, 32), u16_at(start, 54), u16_at(start, 56));
    if entry_bytes < 56 || usize::from(entries) > PROGRAM_HEADERS_MAX {
        return None;
    }
    for i in 0..u64::from(entries) {
        let mut header = [0u8; 56];
        let at = table.checked_add(i * u64::from(entry_bytes))?;
        file.read_exact_at(&mut header, at).ok()?;
        if u32_at(&header, 0) == PT_INTERP {
            let mut name = vec![0u8; u64_at(&header, 32).min(256) as usize];
            file.read_exact_at(&mut name, u64_at(&header, 8)).ok()?;
            let is_musl = name.windows(8).any(|w| w == b"/ld-musl");
            return is_musl.then(|| MUSL.into());
        }
    }
    Some("is statically linked".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u16, interpreter: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = vec![0u8; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
        bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
        if let Some(name) = interpreter {
            bytes[64..68].copy_from_slice(&3u32.to_le_bytes());
            bytes[72..80].copy_from_slice(&120u64.to_le_bytes());
            bytes[96..104].copy_from_slice(&(name.len() as u64).to_le_bytes());
            bytes.extend_from_slice(name);
        }
        bytes
    }

    fn judged(bytes: &[u8]) -> Option<Obstacle> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        preload_obstacle(file.path())
    }

    fn obstacle_of(bytes: &[u8]) -> Option<String> {
        judged(bytes).map(|obstacle| obstacle.text)
    }

    const OWN: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

    #[test]
    fn static_musl_foreign_and_32_bit_programs_are_named() {
        assert!(obstacle_of(&elf(OWN, None)).unwrap().ends_with("is statically linked"));
        assert!(obstacle_of(&elf(OWN, Some(b"/lib/ld-musl-x86_64.so.1\0"))).unwrap().contains("musl"));
        assert!(judged(&elf(OWN, Some(b"/lib/ld-musl-x86_64.so.1\0"))).unwrap().is_fatal);
        assert!(!judged(&elf(OWN, None)).unwrap().is_fatal);
        assert!(obstacle_of(&elf(8, Some(b"/lib/ld.so.1\0"))).unwrap().contains("another processor"));
        let mut narrow = elf(OWN, None);
        narrow[4] = 1;
        assert!(obstacle_of(&narrow).unwrap().contains("64-bit"));
        assert_eq!(obstacle_of(&elf(OWN, Some(b"/lib64/ld-linux-x86-64.so.2\0"))), None);
    }

    #[test]
    fn scripts_are_followed_to_their_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("static");
        std::fs::write(&program, elf(OWN, None)).unwrap();
        let script = format!("#! {} -x\necho\n", program.display());
        assert!(obstacle_of(script.as_bytes()).unwrap().starts_with(program.to_str().unwrap()));
        assert_eq!(obstacle_of(b"echo hello\n"), None);
    }

    #[test]
    fn a_script_that_names_itself_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("#!{}\n", file.path().display())).unwrap();
        assert_eq!(preload_obstacle(file.path()), None);
    }

    #[test]
    fn truncated_headers_are_no_panic() {
        let whole = elf(OWN, Some(b"/lib64/ld-linux-x86-64.so.2\0"));
        for length in 0..whole.len() {
            obstacle_of(&whole[..length]);
        }
    }

    #[test]
    fn lookup_follows_the_path_and_tells_the_two_failures_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let path = Some(folder.path().as_os_str());
        assert_eq!(resolve(OsStr::new("tool"), path), Err(Unusable::NotExecutable));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(resolve(OsStr::new("tool"), path), Ok(file.clone()));
        assert_eq!(resolve(OsStr::new("other"), path), Err(Unusable::NotFound));
        assert_eq!(resolve(OsStr::new(""), path), Err(Unusable::NotFound));
        assert_eq!(resolve(folder.path().as_os_str(), path), Err(Unusable::NotExecutable));
    }
}
