//! Where the monitor listens, and questions to it.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Names the monitor's socket, for the library and for the tools.
pub(crate) const SOCKET_VARIABLE: &str = "RINGWAY_SOCKET";

/// Folder of the monitor that serves the whole host.
const SYSTEM_FOLDER: &str = "/run/ringway";

/// A monitor's folder with its two sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    folder: PathBuf,
}

impl Endpoint {
    pub(crate) fn in_folder(folder: impl Into<PathBuf>) -> Endpoint {
        Endpoint { folder: folder.into() }
    }

    /// The monitor that programs of this user are meant to use: the one that `RINGWAY_SOCKET` names,
    /// else the host's if it answers, else the user's own (which may have to be started).
    pub(crate) fn discover() -> Endpoint {
        if let Some(socket) = std::env::var_os(SOCKET_VARIABLE).filter(|s| !s.is_empty()) {
            let folder = Path::new(&socket).parent().unwrap_or(Path::new("."));
            return Endpoint::in_folder(folder);
        }
        let system = Endpoint::in_folder(SYSTEM_FOLDER);
        if system.answers() { system } else { Endpoint::of_user() }
    }

    fn of_user() -> Endpoint {
        match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| Path::new(d).is_absolute()) {
            Some(folder) => Endpoint::in_folder(Path::new(&folder).join("ringway")),
            None => Endpoint::in_folder(format!("/tmp/ringway-{}", rustix::process::geteuid().as_raw())),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the library says hello.
    pub(crate) fn monitor_socket(&self) -> PathBuf {
        self.folder.join("monitor.sock")
    }

    /// Where the tools ask.
    pub(crate) fn control_socket(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    /// Whether somebody accepts questions there.
    pub(crate) fn answers(&self) -> bool {
        UnixStream::connect(self.control_socket()).is_ok()
    }
}
