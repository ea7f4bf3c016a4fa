//! The monitor that serves this user, and questions to it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ringway_daemon::control::{Control, ControlError};
use ringway_daemon::paths;

/// The folder with the monitor's sockets: the one given, else the one that serves this user.
///
/// # Errors
/// What is wrong with `RINGWAY_SOCKET`, for people.
pub(crate) fn socket_dir(given: Option<PathBuf>) -> Result<PathBuf> {
    match given {
        Some(dir) => Ok(std::path::absolute(dir)?),
        None => paths::find_socket_dir().map_err(anyhow::Error::msg),
    }
}

/// Connects to the monitor in `dir`, or to the one that serves this user.
pub(crate) fn connect(dir: Option<PathBuf>) -> Result<Control> {
    Ok(Control::connect(&socket_dir(dir)?)?)
}

/// Whether the error says that no monitor runs there.
pub(crate) fn is_absent(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ControlError::NotRunning { .. }))
}

/// Whether the sockets in `dir` may be believed; a folder that does not exist yet may.
///
/// # Errors
/// What is wrong with the folder and how to mend it, for people.
pub(crate) fn trust(dir: &Path) -> std::result::Result<(), String> {
    match dir.symlink_metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        _ => paths::verify_socket_dir(dir).map_err(|problem| format!("{}: {problem}", dir.display())),
    }
}
