//! `ringway env`: what `ringway run` sets, for places that cannot use it.

use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::run::{Profile, environment};
use crate::launch::library;
use crate::monitor;
use crate::output::print_text;

/// Print the environment that `ringway run` sets
#[derive(Args)]
#[command(after_help = "\
Examples:
  eval \"$(ringway env)\"                         this shell and all that it starts
  ringway env --format systemd >> nginx.env     for EnvironmentFile= of a unit

The library is appended to LD_PRELOAD. No monitor is started: enable the service `ringway`, or run \
`ringway daemon`.")]
pub(super) struct Arguments {
    /// How long to wait actively for the peer before sleeping
    #[arg(short, long, value_enum, default_value_t = Profile::Balanced)]
    profile: Profile,
    /// Who is to read it
    #[arg(short, long, value_enum, default_value_t = Format::Shell)]
    format: Format,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// `export NAME='value'`
    Shell,
    /// `NAME="value"`, for EnvironmentFile=
    Systemd,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let variables = environment(&library::find()?, &monitor::socket_dir(None)?, arguments.profile);
    let mut text = String::new();
    for (name, value) in variables {
        let (name, value) =
            (name.to_string_lossy().into_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned());
        text += &match arguments.format {
            Format::Shell => format!("export {name}='{}'\n", value.replace('\'', r"'\''")),
            Format::Systemd => format!("{name}=\"{}\"\n", value.replace('\\', r"\\").replace('"', "\\\"")),
        };
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}
