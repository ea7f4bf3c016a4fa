//! `ringway completions`: for the shells.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::output::print_text;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway completions bash > /etc/bash_completion.d/ringway
  ringway completions zsh > /usr/local/share/zsh/site-functions/_ringway
  ringway completions fish > ~/.config/fish/completions/ringway.fish")]
pub(super) struct Arguments {
    shell: Shell,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Cli::command(), "ringway", &mut text);
    print_text(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
