//! `ringway daemon`: the monitor, in the foreground or detached.
use std::path::PathBuf;
use std::process::ExitCode;
use anyhow::Result;
use clap::Args;

/// Run the monitor that pairs the two ends of connections
#[derive(Args)]
pub(super) struct Arguments {
    /// Folder of the monitor's sockets
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
}

pub(super) fn main(_arguments: Arguments) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
