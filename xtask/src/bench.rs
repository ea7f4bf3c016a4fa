//! `cargo xtask bench`: `ringway bench sockets` in a release build.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

const BUILD_LIMIT: Duration = Duration::from_secs(1200);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Passed on to `ringway bench sockets`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds, then becomes the bench; comes back only with an error.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    process::run_visibly(&mut workspace.build_release(), BUILD_LIMIT)?;
    let mut command = Command::new(workspace.ringway());
    let error = command.args(["bench", "sockets"]).args(&options.arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", workspace.relative(&workspace.ringway())))
}
