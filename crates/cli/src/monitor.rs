//! The monitor that serves this user, and questions to it.

use std::path::{Path, PathBuf};

use ringway_daemon::control::{Control, ControlError};
use ringway_daemon::paths;

/// The folder with the monitor's sockets: the one given, else the one that serves this user.
pub(crate) fn socket_dir(given: Option<PathBuf>) -> PathBuf {
    given.unwrap_or_else(paths::find_socket_dir)
}

/// Connects to the monitor in `dir`, or to the one that serves this user.
pub(crate) fn connect(dir: Option<PathBuf>) -> Result<Control, ControlError> {
    Control::connect(&socket_dir(dir))
}

/// Whether the sockets in `dir` may be believed; a folder that does not exist yet may.
///
/// # Errors
/// What is wrong with the folder and how to mend it, for people.
pub(crate) fn trust(dir: &Path) -> Result<(), String> {
    match dir.symlink_metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        _ => paths::verify_socket_dir(dir).map_err(|problem| format!("{}: {problem}", dir.display())),
    }
}
