//! The monitor: it pairs the two ends of local TCP connections and hands out the memory between them; and it hands out
//! the memory of packet ports by name.
//!
//! ```text
//!   libraries --- monitor.sock ---> exchange  (Hello, Offer, Attach, Closed, ...)
//!                                      |  endpoint: what the kernel says about an offered socket
//!                                      |  offers: who waits for whom     policy: who may
//!                                      |  connections: regions, members, memory
//!   packet ports -- ports.sock ---> guests    (the memory behind a name)
//!                                      |  meetings: names     recover: those of a monitor that died
//!   tools ------- control.sock ---> requests  (status, connections, tap, takeover, ...)
//!   Prometheus -- HTTP -----------> metrics
//!   every second ---------------> sweep      (time-outs, dead connections)
//! ```
//!
//! One thread and one epoll set. No data path waits for it: kill it at any moment and connections in
//! flight live on, new ones are plain TCP. Every table is bounded (see [`policy::KEYS`] and the constants
//! named `*_MAX`).
//!
//! Needs Linux 5.14 (`SO_NETNS_COOKIE`); rules by control group need 6.5 (`SO_PEERPIDFD`).

pub mod budget;
mod client;
mod connections;
pub mod control;
mod diag;
mod endpoint;
mod exchange;
mod guests;
mod http;
mod listener;
mod meetings;
mod metrics;
mod monitor;
mod observe;
mod offers;
pub mod paths;
mod peer;
pub mod policy;
mod poller;
mod recover;
mod requests;
mod runs;
pub mod surroundings;
mod sweep;
mod sys;
mod takeover;
mod throttle;
mod vault;
mod verdicts;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use ringway_channel::Reason;

/// How a monitor is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of both sockets and the lock; made if missing.
    pub socket_dir: PathBuf,
    /// Policy file; without one, [`paths::default_policy_file`] if it exists.
    pub config: Option<PathBuf>,
    /// Where to serve Prometheus metrics over HTTP; `None` = nowhere.
    pub metrics_addr: Option<SocketAddr>,
    /// Ends the monitor once it has had neither clients nor connections for this long.
    pub idle_exit: Option<Duration>,
    /// If a monitor runs in this directory already, continue its work in its place; otherwise give up
    /// with [`DaemonError::AlreadyRunning`].
    pub takeover: bool,
}

impl Options {
    /// A monitor in `socket_dir`, everything else as a plain `ringway daemon` has it.
    pub fn new(socket_dir: PathBuf) -> Options {
        Options { socket_dir, config: None, metrics_addr: None, idle_exit: None, takeover: false }
    }
}

/// Why the monitor cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The socket directory cannot be made or trusted.
    #[error("socket directory {}: {problem}", .dir.display())]
    SocketDir { dir: PathBuf, problem: String },
    /// Another monitor serves this directory.
    #[error("a monitor already runs in {}; stop it first, or take over from it: {} --takeover",
            .dir.display(), paths::start_command(.dir))]
    AlreadyRunning { dir: PathBuf },
    /// The policy file is unusable.
    #[error(transparent)]
    Policy(#[from] policy::PolicyError),
    /// The metrics address cannot be used.
    #[error("metrics address {address}: {source}")]
    Metrics { address: SocketAddr, source: std::io::Error },
    /// The running monitor did not hand over.
    #[error("the running monitor did not hand over: {0}")]
    Takeover(String),
    /// The limit on open files is too low.
    #[error("the limit on open files is {limit}, the monitor needs {least} at least; raise it (`ulimit -n`)")]
    OpenFiles { limit: u64, least: u64 },
    /// A system call failed.
    #[error("{what}: {source}")]
    Os { what: &'static str, source: std::io::Error },
}

/// Runs the monitor until SIGTERM or SIGINT (or until it is idle, or a successor takes over). SIGHUP reads
/// the policy file again. Call it on the main thread, before others are started.
///
/// # Errors
/// [`DaemonError`], before the first client is served.
pub fn run(options: Options) -> Result<(), DaemonError> {
    monitor::Monitor::start(options)?.run()
}

/// Writes the log to standard error, one line per event; `RUST_LOG` changes what is shown (default
/// "warn": silent when it works).
pub fn log_to_stderr() {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A second call, or a program that has its own log, is fine.
    let _ = match std::io::stderr().is_terminal() {
        true => log.try_init(),
        // The journal adds its own time.
        false => log.with_ansi(false).without_time().try_init(),
    };
}
