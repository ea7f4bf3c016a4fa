//! The `ringway` command: one file per sub-command under `cmd/`, shared parts beside it.
//!
//! | module | what it does |
//! |---|---|
//! | `cmd` | the sub-commands: options in, exit code out |
//! | `diagnosis` | the checks of `doctor` |
//! | `launch` | find the library and the program, start a monitor, run and supervise |
//! | `sockets` | kernel sockets and monitor state merged into one list; ss's filter |
//! | `capture` | packets made from ring bytes, written as pcapng |
//! | `live` | rates from two looks, and the live view |
//! | `network` | the engine or the kernel under the TCP programs, as their options say |
//! | `web` | the web server of `http` |
//! | `keeper` | the process that keeps ports, patches and isolated switches |
//! | `packets` | what the packet tools share: generated frames, rates, pace, order |
//! | `monitor` | where the monitor listens, and questions to it |
//! | `bench` | measurements, side by side with the kernel |
//! | `output` | tables, units, colour; quiet on a broken pipe |
#![forbid(unsafe_code)]

mod bench;
mod capture;
mod cmd;
mod diagnosis;
mod keeper;
mod launch;
mod live;
mod load;
mod monitor;
mod network;
mod output;
mod packets;
mod sockets;
mod web;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cmd::Cli::parse();
    match cmd::dispatch(cli) {
        Ok(code) => code,
        // The reader of a pipe has seen enough; that is no failure.
        Err(e) if output::is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            output::talk(format_args!("{}", output::in_full(&e)));
            ExitCode::from(cmd::EXIT_FAILURE)
        }
    }
}
