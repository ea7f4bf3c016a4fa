//! The sub-commands, one file each.

mod bench;
mod bridge;
mod completions;
mod config;
mod daemon;
mod doctor;
mod env;
mod r#gen;
mod http;
mod keeper;
mod lb;
mod load;
mod man;
mod pcap;
mod ping;
mod port;
mod replay;
mod run;
mod sink;
mod ss;
mod status;
mod switch;
mod top;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A negative answer: `doctor` found a failure, nothing could be upgraded, no monitor answers.
pub(crate) const EXIT_NEGATIVE: u8 = 1;

/// Wrong usage, or the command itself failed.
pub(crate) const EXIT_FAILURE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  ringway run -- redis-server --port 7000     run a program with its local connections accelerated
  ringway run --require -v -- redis-benchmark -p 7000
  ringway ss -tn                              sockets, the path that each takes, and why
  ringway doctor                              what this host lacks, with the command that mends it

Exit codes: 0 fine, 1 negative answer, 2 usage or failure; `run` passes the program's own code on.";

/// Carries local TCP connections of unmodified programs over shared memory.
#[derive(Parser)]
#[command(name = "ringway", version, about, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Ss(ss::Arguments),
    Top(top::Arguments),
    Status(status::Arguments),
    Doctor(doctor::Arguments),
    Pcap(pcap::Arguments),
    Gen(r#gen::Arguments),
    Sink(sink::Arguments),
    Ping(ping::Arguments),
    Bridge(bridge::Arguments),
    Lb(lb::Arguments),
    Replay(replay::Arguments),
    Port(port::Arguments),
    Switch(switch::Arguments),
    #[command(hide = true)]
    Keeper(keeper::Arguments),
    Http(http::Arguments),
    Load(load::Arguments),
    Bench(bench::Arguments),
    #[command(hide = true)]
    BenchWorker(bench::WorkerArguments),
    Daemon(daemon::Arguments),
    Config(config::Arguments),
    Env(env::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

pub(crate) fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Run(arguments) => run::main(arguments),
        Command::Ss(arguments) => ss::main(arguments),
        Command::Top(arguments) => top::main(arguments),
        Command::Status(arguments) => status::main(arguments),
        Command::Doctor(arguments) => doctor::main(arguments),
        Command::Pcap(arguments) => pcap::main(arguments),
        Command::Gen(arguments) => r#gen::main(arguments),
        Command::Sink(arguments) => sink::main(arguments),
        Command::Ping(arguments) => ping::main(arguments),
        Command::Bridge(arguments) => bridge::main(arguments),
        Command::Lb(arguments) => lb::main(arguments),
        Command::Replay(arguments) => replay::main(arguments),
        Command::Port(arguments) => port::main(arguments),
        Command::Switch(arguments) => switch::main(arguments),
        Command::Keeper(arguments) => keeper::main(arguments),
        Command::Http(arguments) => http::main(arguments),
        Command::Load(arguments) => load::main(arguments),
        Command::Bench(arguments) => bench::main(arguments),
        Command::BenchWorker(arguments) => bench::worker(arguments),
        Command::Daemon(arguments) => daemon::main(arguments),
        Command::Config(arguments) => config::main(arguments),
        Command::Env(arguments) => env::main(arguments),
        Command::Completions(arguments) => completions::main(arguments),
        Command::Man(arguments) => man::main(arguments),
    }
}
