//! The directory's lock and the three Unix sockets in it.

use std::fs::{File, OpenOptions, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use crate::{DaemonError, paths};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// What a monitor owns in its directory. Nothing needs cleaning up after a kill: the kernel drops the
/// lock, and the next monitor replaces the socket files.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) dir: PathBuf,
    pub(crate) lock: OwnedFd,
    /// `SOCK_SEQPACKET`, for libraries.
    pub(crate) libraries: OwnedFd,
    /// `SOCK_STREAM`, for tools.
    pub(crate) tools: OwnedFd,
    /// `SOCK_SEQPACKET`, for processes with packet ports.
    pub(crate) ports: OwnedFd,
}

/// Takes the directory's lock; `None` if another monitor has it.
pub(crate) fn lock(dir: &Path) -> Result<Option<OwnedFd>, DaemonError> {
    let os = |what| move |source| DaemonError::Os { what, source };
    let file: File = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(dir.join(paths::LOCK_FILE))
        .map_err(os("opening the lock file"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file.into())),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(e) => Err(os("locking the lock file")(e.into())),
    }
}

impl Listeners {
    /// Makes the sockets; the caller holds the lock, so files in the way are left-overs.
    pub(crate) fn create(dir: &Path, lock: OwnedFd) -> Result<Listeners, DaemonError> {
        let libraries = listen_at(&paths::monitor_socket(dir), SocketType::SEQPACKET)?;
        let tools = listen_at(&paths::control_socket(dir), SocketType::STREAM)?;
        let ports = listen_at(&paths::ports_socket(dir), SocketType::SEQPACKET)?;
        Ok(Listeners { dir: dir.to_path_buf(), lock, libraries, tools, ports })
    }

    /// Removes the socket files, so that programs started from now on do not even try.
    pub(crate) fn unlink(&self) {
        for of in [paths::monitor_socket, paths::control_socket, paths::ports_socket] {
            let path = of(&self.dir);
            let _ = std::fs::remove_file(path);
        }
    }
}

fn listen_at(path: &Path, kind: SocketType) -> Result<OwnedFd, DaemonError> {
    let os =
        |e: rustix::io::Errno| DaemonError::Os { what: "making a socket in the socket directory", source: e.into() };
    let _ = std::fs::remove_file(path);
    let socket =
        socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None).map_err(os)?;
    bind(&socket, &SocketAddrUnix::new(path).map_err(os)?).map_err(os)?;
    // Who may enter the directory may connect; the policy decides by the credentials of the peer.
    std::fs::set_permissions(path, Permissions::from_mode(0o666))
        .map_err(|source| DaemonError::Os { what: "opening a socket for clients", source })?;
    listen(&socket, BACKLOG).map_err(os)?;
    Ok(socket)
}
