//! `ringway daemon`: the monitor, in the foreground or detached.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use ringway_daemon::{DaemonError, Options, budget, paths, policy::Policy};

use crate::launch::detach;

/// Longest wait for a monitor in the background.
const START_WAIT: Duration = Duration::from_secs(2);

/// The part of its starter's environment that a monitor in the background reads.
const KEPT_VARIABLES: [&str; 4] = ["HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "RUST_LOG"];

/// How often it is looked for meanwhile.
const START_LOOK: Duration = Duration::from_millis(2);

/// Run the monitor that pairs the two ends of connections
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway daemon                                  in the foreground, until SIGTERM or SIGINT
  ringway daemon --background --idle-exit 60      what `ringway run` starts when no monitor answers
  ringway daemon --metrics 127.0.0.1:9469         with metrics for Prometheus

SIGHUP reads the policy file again. Connections that are up outlive the monitor; until one is back, \
new connections are plain TCP.")]
pub(super) struct Arguments {
    /// Folder of the monitor's sockets [default: /run/ringway for root, else $XDG_RUNTIME_DIR/ringway]
    #[arg(long, value_name = "DIR")]
    socket_dir: Option<PathBuf>,
    /// Policy file (see `ringway config explain`) [default: /etc/ringway/policy.toml for root, else
    /// ~/.config/ringway/policy.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Serve metrics over HTTP for Prometheus
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// Detach; return when the monitor answers
    #[arg(long)]
    background: bool,
    /// End after this many seconds without a program or a connection
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    idle_exit: Option<u64>,
    /// Take over from the monitor that runs there
    #[arg(long)]
    takeover: bool,
    /// Second half of --background: leave the caller's session, then run
    #[arg(long, hide = true)]
    detached: bool,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    if arguments.detached {
        detach::from_caller().context("detaching")?;
    }
    let socket_dir = arguments.socket_dir.clone().unwrap_or_else(paths::own_socket_dir);
    let options = Options {
        socket_dir: std::path::absolute(socket_dir)?,
        config: arguments.config.map(std::path::absolute).transpose()?,
        metrics_addr: arguments.metrics,
        idle_exit: arguments.idle_exit.map(Duration::from_secs),
        takeover: arguments.takeover,
    };
    if arguments.background {
        return start_in_background(&options);
    }
    ringway_daemon::log_to_stderr();
    ringway_daemon::run(options)?;
    Ok(ExitCode::SUCCESS)
}

fn start_in_background(options: &Options) -> Result<ExitCode> {
    // The detached monitor has nobody to tell, so what would stop it is found out before.
    paths::prepare_socket_dir(&options.socket_dir)?;
    let policy_file = options.config.clone().unwrap_or_else(paths::default_policy_file);
    let policy = match options.config.is_some() || policy_file.exists() {
        true => Policy::load(&policy_file)?,
        false => Policy::default(),
    };
    budget::raise_open_files(&policy)?;
    if paths::answers(&options.socket_dir) && !options.takeover {
        return Err(DaemonError::AlreadyRunning { dir: options.socket_dir.clone() }.into());
    }
    let mut daemon = Command::new(std::env::current_exe()?);
    daemon.args(["daemon", "--detached", "--socket-dir"]).arg(&options.socket_dir);
    if let Some(config) = &options.config {
        daemon.arg("--config").arg(config);
    }
    if let Some(address) = options.metrics_addr {
        daemon.arg("--metrics").arg(address.to_string());
    }
    if let Some(idle) = options.idle_exit {
        daemon.arg("--idle-exit").arg(idle.as_secs().to_string());
    }
    if options.takeover {
        daemon.arg("--takeover");
    }
    // What the caller's environment says is not for a monitor of all programs (`NOTIFY_SOCKET`, `LD_PRELOAD`).
    daemon.env_clear().envs(KEPT_VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let mut daemon = daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    wait_until_it_answers(&options.socket_dir, &mut daemon)?;
    Ok(ExitCode::SUCCESS)
}

fn wait_until_it_answers(socket_dir: &Path, daemon: &mut std::process::Child) -> Result<()> {
    let deadline = Instant::now() + START_WAIT;
    let mut ended = None;
    loop {
        // Also when another monitor was quicker: then ours has ended, and that is fine.
        if paths::answers(socket_dir) {
            return Ok(());
        }
        let by_hand = format!("run `{}` to see why", paths::start_command(socket_dir));
        match ended {
            // The quicker one may need another moment until it listens.
            Some(status) if Instant::now() >= deadline => bail!("the monitor ended at once ({status}); {by_hand}"),
            None if Instant::now() >= deadline => bail!("the monitor did not answer within 2 s; {by_hand}"),
            None => ended = daemon.try_wait()?,
            Some(_) => {}
        }
        std::thread::sleep(START_LOOK);
    }
}
