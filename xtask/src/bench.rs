//! `cargo xtask bench`: `ringway bench` in a release build; `bench sockets` unless another is named first.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

const BUILD_LIMIT: Duration = Duration::from_secs(1200);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Passed on to `ringway bench`, `sockets` before them unless they begin with the name of a bench.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds, then becomes the bench; comes back only with an error.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    process::run_visibly(&mut workspace.build_release(), BUILD_LIMIT)?;
    let mut command = Command::new(workspace.ringway());
    let named = options.arguments.first().is_some_and(|first| !first.starts_with('-'));
    let bench: &[&str] = if named { &["bench"] } else { &["bench", "sockets"] };
    let error = command.args(bench).args(&options.arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", workspace.relative(&workspace.ringway())))
}
