//! `ringway keeper`: the process that keeps what `ringway port` and `ringway switch` ask for.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::keeper;
use crate::launch::detach;

/// Keep ports, patches and isolated switches
#[derive(Args)]
pub(super) struct Arguments {
    /// Folder of the monitor's sockets
    #[arg(long, value_name = "DIR")]
    socket_dir: PathBuf,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let folder = std::path::absolute(arguments.socket_dir)?;
    // By hand, to see why it does not start, it stays where it is.
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        detach::from_caller().context("detaching")?;
    }
    keeper::run(&folder)?;
    Ok(ExitCode::SUCCESS)
}
