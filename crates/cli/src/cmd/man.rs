//! `ringway man`: manual pages of the command and of each sub-command, and the hand-written ones.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};

/// Pages that no option table can give: the concepts, and the policy file.
const WRITTEN: [(&str, &str); 2] = [
    ("ringway.7", include_str!("../../../../docs/man/ringway.7")),
    ("ringway.toml.5", include_str!("../../../../docs/man/ringway.toml.5")),
];

/// Write the manual pages
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway man --dir /usr/local/share/man        man1/ringway.1, man1/ringway-run.1, man7/ringway.7, ...
  man -M /usr/local/share/man ringway-run")]
pub(super) struct Arguments {
    /// Folder that gets man1, man5 and man7
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let mut root = super::Cli::command();
    root.build();
    write_pages(&root, "ringway", &arguments.dir)?;
    for (name, text) in WRITTEN {
        write(&arguments.dir, name, text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of `command` and those of its sub-commands, `ringway-config-check(1)` included.
fn write_pages(command: &clap::Command, name: &str, dir: &Path) -> Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    write(dir, &format!("{name}.1"), &text)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(sub, &format!("{name}-{}", sub.get_name()), dir)?;
    }
    Ok(())
}

fn write(dir: &Path, name: &str, text: &[u8]) -> Result<()> {
    let section = name.rsplit('.').next().unwrap_or("1");
    let folder = dir.join(format!("man{section}"));
    let path = folder.join(name);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("writing {}", path.display()))
}
