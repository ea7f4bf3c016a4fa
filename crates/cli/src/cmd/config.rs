//! `ringway config`: the policy file's keys, and a check of a file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use ringway_daemon::paths;
use ringway_daemon::policy::{KEYS, Policy};

use super::EXIT_NEGATIVE;
use crate::output::{print_text, talk};

/// Explain and check the policy file
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway config explain                            every key
  ringway config explain memory_per_uid_bytes       one key, with the value in force
  ringway config check /etc/ringway/policy.toml     exit code 0 if the monitor would take it, else 1")]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// What a key means, its values and the one in force
    Explain {
        /// The key; all of them if left out
        key: Option<String>,
    },
    /// Whether the monitor would take this file
    Check {
        /// The policy file
        file: PathBuf,
    },
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    match arguments.action {
        Action::Explain { key } => explain(key),
        Action::Check { file } => match Policy::load(&file) {
            Ok(_) => Ok(ExitCode::SUCCESS),
            Err(e) => {
                talk(format_args!("{e}"));
                Ok(ExitCode::from(EXIT_NEGATIVE))
            }
        },
    }
}

fn explain(key: Option<String>) -> Result<ExitCode> {
    let file = paths::default_policy_file();
    let policy = match file.exists() {
        true => Policy::load(&file)?,
        false => Policy::default(),
    };
    let wanted: Vec<&str> = match &key {
        Some(key) => vec![key],
        None => KEYS.iter().map(|key| key.name).collect(),
    };
    let mut texts = Vec::new();
    for name in wanted {
        match policy.explain(name) {
            Some(text) => texts.push(text),
            None => {
                let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                bail!("there is no key `{name}`; the keys are {}", names.join(", "));
            }
        }
    }
    print_text(&texts.join("\n"))?;
    Ok(ExitCode::SUCCESS)
}
