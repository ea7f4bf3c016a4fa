//! Where the monitor's sockets and its policy file live.

use std::env;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::DaemonError;

/// Directory of the system-wide monitor.
pub const SYSTEM_SOCKET_DIR: &str = "/run/ringway";
/// File name of the socket that libraries talk to.
pub const MONITOR_SOCKET: &str = "monitor.sock";
/// File name of the socket that tools talk to.
pub const CONTROL_SOCKET: &str = "control.sock";
/// File name of the socket that processes with packet ports talk to.
pub const PORTS_SOCKET: &str = ringway_port::meeting::SOCKET;
/// File name of the lock that says which process owns the directory.
pub const LOCK_FILE: &str = "monitor.lock";
/// Environment variable that names the monitor's socket.
pub const SOCKET_VARIABLE: &str = "RINGWAY_SOCKET";

/// How long a monitor with a full queue is knocked at.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

/// The library's socket in `dir`.
pub fn monitor_socket(dir: &Path) -> PathBuf {
    dir.join(MONITOR_SOCKET)
}

/// The tools' socket in `dir`.
pub fn control_socket(dir: &Path) -> PathBuf {
    dir.join(CONTROL_SOCKET)
}

/// The socket of processes with packet ports, in `dir`.
pub fn ports_socket(dir: &Path) -> PathBuf {
    dir.join(PORTS_SOCKET)
}

/// The directory of the calling user's own monitor: `$XDG_RUNTIME_DIR/ringway`, or `/tmp/ringway-UID`.
pub fn user_socket_dir() -> PathBuf {
    match env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute()) {
        Some(dir) => dir.join("ringway"),
        None => PathBuf::from(format!("/tmp/ringway-{}", rustix::process::geteuid().as_raw())),
    }
}

/// The directory that a monitor started by this user without further word uses.
pub fn own_socket_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() { SYSTEM_SOCKET_DIR.into() } else { user_socket_dir() }
}

/// The directory whose monitor serves this user: the one that `RINGWAY_SOCKET` names; else the system's
/// if a monitor answers there; else the user's own.
///
/// # Errors
/// What is wrong with `RINGWAY_SOCKET`, for people.
pub fn find_socket_dir() -> Result<PathBuf, String> {
    match env::var_os(SOCKET_VARIABLE).filter(|socket| !socket.is_empty()) {
        Some(socket) => named_socket_dir(Path::new(&socket)),
        None => {
            let system = PathBuf::from(SYSTEM_SOCKET_DIR);
            Ok(if answers(&system) { system } else { user_socket_dir() })
        }
    }
}

/// The directory of the socket that `RINGWAY_SOCKET` names.
fn named_socket_dir(socket: &Path) -> Result<PathBuf, String> {
    let dir = socket.parent().filter(|_| socket.is_absolute() && socket.file_name() == Some(MONITOR_SOCKET.as_ref()));
    dir.map(Path::to_path_buf).ok_or_else(|| {
        format!(
            "{SOCKET_VARIABLE} is {}, which is no monitor's socket: write the folder in full and /{MONITOR_SOCKET}, \
             for example {SYSTEM_SOCKET_DIR}/{MONITOR_SOCKET}, or unset it",
            socket.display()
        )
    })
}

/// Whether a monitor listens in `dir`, be it busy or stopped.
pub fn answers(dir: &Path) -> bool {
    crate::control::dial(&control_socket(dir), ANSWER_WAIT).is_ok_and(|line| line.is_some())
}

/// The command that starts a monitor in `dir`.
pub fn start_command(dir: &Path) -> String {
    match dir == own_socket_dir() {
        true => "ringway daemon".into(),
        false => format!("ringway daemon --socket-dir {}", dir.display()),
    }
}

/// The policy file that is read unless another one is named.
pub fn default_policy_file() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/etc/ringway/policy.toml".into();
    }
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let config = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute()).or_else(home);
    config.unwrap_or_else(|| "/etc".into()).join("ringway/policy.toml")
}

/// Makes `dir` if need be and checks that nobody else could have planted sockets there.
///
/// # Errors
/// [`DaemonError::SocketDir`] when it belongs to another user or others may write to it.
pub fn prepare_socket_dir(dir: &Path) -> Result<(), DaemonError> {
    let fail = |problem: String| DaemonError::SocketDir { dir: dir.to_path_buf(), problem };
    let mode = if dir == Path::new(SYSTEM_SOCKET_DIR) { 0o755 } else { 0o700 };
    match std::fs::DirBuilder::new().mode(mode).create(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(fail(e.to_string())),
        _ => {}
    }
    verify_socket_dir(dir).map_err(fail)
}

/// Checks ownership and mode of `dir` without following a symbolic link; says what is wrong.
pub fn verify_socket_dir(dir: &Path) -> Result<(), String> {
    let meta = std::fs::symlink_metadata(dir).map_err(|e| e.to_string())?;
    let uid = rustix::process::geteuid().as_raw();
    if !meta.is_dir() {
        return Err("it is not a directory".into());
    }
    if meta.uid() != uid && meta.uid() != 0 {
        return Err(format!("it belongs to uid {}, not to uid {uid}; remove it or choose another", meta.uid()));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(format!("others may write to it (mode {:o}); run chmod go-w on it", meta.mode() & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_full_path_of_a_monitors_socket_names_a_directory() {
        assert_eq!(named_socket_dir(Path::new("/run/x/monitor.sock")), Ok(PathBuf::from("/run/x")));
        for wrong in ["/nonexistent", "/run/x/other.sock", "monitor.sock", "x/monitor.sock", "/run/x/"] {
            let said = named_socket_dir(Path::new(wrong)).unwrap_err();
            assert!(said.contains(wrong) && said.contains("/monitor.sock"), "{said}");
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let dir = env::temp_dir().join(format!("ringway-paths-{}", std::process::id()));
        prepare_socket_dir(&dir).unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o777)).unwrap();
        let said = prepare_socket_dir(&dir).unwrap_err().to_string();
        assert!(said.contains("chmod go-w"), "{said}");
        std::fs::remove_dir(&dir).unwrap();
        std::os::unix::fs::symlink("/tmp", &dir).unwrap();
        assert!(verify_socket_dir(&dir).is_err());
        std::fs::remove_file(&dir).unwrap();
    }
}
