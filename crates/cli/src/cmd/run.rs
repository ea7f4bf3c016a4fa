//! `ringway run`: a program under the library.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ringway_daemon::paths::{self, SOCKET_VARIABLE};

use super::EXIT_NEGATIVE;
use crate::launch::{autostart, library, outcome, program, supervise};
use crate::monitor;
use crate::output::{in_full, talk};

/// How a program waits for its peer; read by the library.
pub(super) const PROFILE_VARIABLE: &str = "RINGWAY_PROFILE";

/// Also read by the library: see the README.
const UPGRADE_CALLS_VARIABLE: &str = "RINGWAY_UPGRADE_CALLS";
const IO_URING_VARIABLE: &str = "RINGWAY_IO_URING";
const DISABLE_VARIABLE: &str = "RINGWAY_DISABLE";

const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// Marks the processes of one `ringway run` for the monitor; a number, read by the library.
const RUN_ID_VARIABLE: &str = "RINGWAY_RUN_ID";

/// Run a program with its local TCP connections over shared memory
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway run -- redis-server --port 7000
  ringway run -p latency -- ./server           spin longer before sleeping
  ringway run --require -v -- curl http://127.0.0.1:8080/

Without --require and -v the command becomes the program: same process id, same terminal, same exit \
code. With them it stays as the parent, passes signals on, and ends with the program's exit code, or \
with 1 if that is 0 and --require finds that nothing was upgraded. 126: not executable, 127: not found, 128+N: \
killed by signal N, 2: ringway itself failed.")]
pub(super) struct Arguments {
    /// How long to wait actively for the peer before sleeping
    #[arg(short, long, value_enum, default_value_t = Profile::Balanced, env = PROFILE_VARIABLE, hide_env = true)]
    profile: Profile,
    /// Fail (exit code 1) if not a single connection was upgraded
    #[arg(long)]
    require: bool,
    /// Say what is set up, and at the end how many connections were upgraded
    #[arg(short, long)]
    verbose: bool,
    /// Do not start a monitor in the background when none answers
    #[arg(long)]
    no_daemon: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Profile {
    /// Spins longest: lowest round trip, most CPU
    Latency,
    /// Spins while it pays
    Balanced,
    /// Sleeps at once: least CPU
    Efficient,
}

impl Profile {
    pub(super) fn name(self) -> &'static str {
        match self {
            Profile::Latency => "latency",
            Profile::Balanced => "balanced",
            Profile::Efficient => "efficient",
        }
    }
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let name = &arguments.command[0];
    let path = match program::resolve(name, std::env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(why) => {
            talk(format_args!("{}: {}", name.display(), why.describe()));
            return Ok(ExitCode::from(why.exit_code()));
        }
    };
    check_variables()?;
    let socket_dir = monitor::socket_dir(None)?;
    let mut environment = match monitor::trust(&socket_dir) {
        Ok(()) => environment(&library::find()?, &socket_dir, arguments.profile),
        Err(problem) => {
            talk(format_args!("no monitor: {problem}; going on with plain TCP"));
            if arguments.require {
                return Ok(ExitCode::from(EXIT_NEGATIVE));
            }
            Vec::new()
        }
    };
    if !environment.is_empty() {
        find_monitor(&socket_dir, !arguments.no_daemon);
    }
    if let Some(obstacle) = program::preload_obstacle(&path) {
        talk(format_args!("{}: its connections stay on plain TCP", obstacle.text));
        if obstacle.is_fatal {
            environment.retain(|(name, _)| name != PRELOAD_VARIABLE);
        }
    }
    if !arguments.require && !arguments.verbose {
        return Ok(become_program(&arguments.command, &environment));
    }
    let run_id = run_id();
    environment.push((RUN_ID_VARIABLE.into(), run_id.to_string().into()));
    stay_parent(&arguments, path, &environment, &socket_dir, run_id)
}

/// What the library would ignore, because it has nobody to tell, is refused here.
fn check_variables() -> Result<()> {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let is_number = |value: &OsString| value.to_str().is_some_and(|text| text.parse::<u64>().is_ok());
    if let Some(calls) = value(UPGRADE_CALLS_VARIABLE).filter(|calls| !is_number(calls)) {
        bail!("{UPGRADE_CALLS_VARIABLE} is {}, which is no number of calls; 0 or more, or unset it", calls.display());
    }
    if let Some(word) = value(IO_URING_VARIABLE).filter(|word| word != "deny" && word != "allow") {
        bail!("{IO_URING_VARIABLE} is {}, allowed are deny and allow", word.display());
    }
    if value(DISABLE_VARIABLE).is_some_and(|value| value != "0") {
        talk(format_args!("{DISABLE_VARIABLE} is set: all connections stay on plain TCP"));
    }
    Ok(())
}

/// Makes sure that a monitor answers, or says why the program goes on without.
fn find_monitor(socket_dir: &Path, may_start: bool) {
    if paths::answers(socket_dir) {
        return;
    }
    if !may_start {
        let (dir, start) = (socket_dir.display(), paths::start_command(socket_dir));
        talk(format_args!("no monitor answers in {dir}; plain TCP until one does: {start}"));
    } else if let Err(e) = autostart::start(socket_dir) {
        talk(format_args!("no monitor: {}; going on with plain TCP", in_full(&e)));
    }
}

/// What the library reads, and how it gets loaded.
pub(super) fn environment(library: &Path, socket_dir: &Path, profile: Profile) -> Vec<(OsString, OsString)> {
    let preload = library::preload_value(std::env::var_os(PRELOAD_VARIABLE).as_deref(), library);
    vec![
        (PRELOAD_VARIABLE.into(), preload),
        (SOCKET_VARIABLE.into(), paths::monitor_socket(socket_dir).into()),
        (PROFILE_VARIABLE.into(), profile.name().into()),
    ]
}

/// Replaces this process; comes back only with the exit code of a failure.
fn become_program(command: &[OsString], environment: &[(OsString, OsString)]) -> ExitCode {
    let pairs = environment.iter().map(|(name, value)| (name, value));
    let error = std::process::Command::new(&command[0]).args(&command[1..]).envs(pairs).exec();
    start_failure(&command[0], &error)
}

fn start_failure(name: &OsStr, error: &std::io::Error) -> ExitCode {
    talk(format_args!("{}: {error}", name.display()));
    ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
}

/// A number that no other run on this host is likely to have; zero means "none".
fn run_id() -> u64 {
    let mut bytes = [0u8; 8];
    // Cannot fail for so few bytes once the system is up; the process id alone would do as well.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_le_bytes(bytes) ^ u64::from(std::process::id()) | 1
}

fn stay_parent(
    arguments: &Arguments,
    path: PathBuf,
    environment: &[(OsString, OsString)],
    socket_dir: &Path,
    run_id: u64,
) -> Result<ExitCode> {
    if arguments.verbose {
        let settings: Vec<_> =
            environment.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        talk(format_args!("{}", settings.join(" ")));
    }
    let name = &arguments.command[0];
    let command = supervise::Command {
        path: c_string(path.into_os_string())?,
        arguments: arguments.command.iter().cloned().map(c_string).collect::<Result<_>>()?,
        environment: merged_environment(environment)?,
    };
    let code = match supervise::run(&command) {
        Ok(code) => code,
        Err(e) => match e.downcast_ref::<std::io::Error>() {
            Some(e) => return Ok(start_failure(name, e)),
            None => return Err(e.context(format!("running {}", name.display()))),
        },
    };
    let nothing = report(arguments, socket_dir, run_id);
    // A failure of the program itself says more than ours.
    Ok(ExitCode::from(if code == 0 && nothing && arguments.require { EXIT_NEGATIVE } else { code }))
}

/// Says what the run has brought; whether that is nothing.
fn report(arguments: &Arguments, socket_dir: &Path, run_id: u64) -> bool {
    let run = match outcome::ask(socket_dir, run_id) {
        Ok(run) => run,
        Err(e) => {
            talk(format_args!("nothing was upgraded, as far as can be told: {e}"));
            return true;
        }
    };
    if arguments.verbose {
        talk(format_args!("{}", outcome::summary(&run)));
    }
    let nothing = outcome::upgraded(&run) == 0;
    if nothing && arguments.require && !arguments.verbose {
        talk(format_args!("nothing was upgraded: {}", outcome::why_nothing(&run)));
    }
    nothing
}

fn merged_environment(own: &[(OsString, OsString)]) -> Result<Vec<CString>> {
    let inherited = std::env::vars_os().filter(|(name, _)| own.iter().all(|(o, _)| o != name));
    inherited
        .chain(own.iter().cloned())
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c_string(name)
        })
        .collect()
}

fn c_string(text: OsString) -> Result<CString> {
    CString::new(text.into_vec()).with_context(|| "an argument contains a NUL byte".to_owned())
}
