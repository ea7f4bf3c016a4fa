//! Where the tools' ports meet those of other processes: at the user's monitor, started if need be.

use std::path::PathBuf;

use anyhow::Result;
use ringway_daemon::paths;
use ringway_port::PortName;
use ringway_port::meeting::meet_in;
use ringway_port::name::Scheme;

use crate::launch::autostart;
use crate::monitor;
use crate::output::{in_full, talk};

/// Before a port of this name is opened. A pipe or a port of a switch is there to be met, so a monitor is started for
/// it if none answers; an interface only has its pipes' memory there.
pub(crate) fn prepare(name: &PortName) {
    if !name.is_meeting_point() && name.scheme != Scheme::Netmap {
        return;
    }
    match place(name.is_meeting_point()) {
        Ok(folder) => meet_in(&folder),
        Err(e) => talk(format_args!("no monitor: {}; ports of other processes cannot be met", in_full(&e))),
    }
}

/// The folder of the monitor's sockets; a monitor is started if `start` and none answers.
///
/// # Errors
/// A folder that cannot be trusted, or a monitor that does not start.
pub(crate) fn place(start: bool) -> Result<PathBuf> {
    let folder = monitor::socket_dir(None)?;
    monitor::trust(&folder).map_err(anyhow::Error::msg)?;
    if start && !paths::answers(&folder) {
        autostart::start(&folder)?;
    }
    Ok(folder)
}
