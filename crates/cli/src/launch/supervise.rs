//! Staying the parent of a program without the program, its terminal or its caller noticing.
//!
//! The program stays in our process group, so the terminal reaches it directly: signals made by the
//! kernel (Ctrl-C, Ctrl-Z, a resized window) arrive there by themselves and must not be doubled.
//! Signals that somebody sent to us alone are passed on. Job control mirrors the program: when it
//! stops, so do we (for the shell to see), and when we are continued, it is.

use std::ffi::CString;

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Signals that are passed on. Faults and aborts are not: they belong to whoever caused them.
const FORWARDED: [Signal; 12] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGPWR,
    Signal::SIGURG,
];

/// `si_code` of signals that the kernel made for the whole foreground group of a terminal.
const SI_KERNEL: i32 = 0x80;

/// A program to start: its file, its arguments (name included) and its environment.
pub(crate) struct Command {
    pub path: CString,
    pub arguments: Vec<CString>,
    pub environment: Vec<CString>,
}

/// Runs the program to its end and returns its exit code (128 + signal if a signal killed it).
pub(crate) fn run(command: &Command) -> Result<u8> {
    let mut watched = SigSet::from_iter(FORWARDED);
    watched.add(Signal::SIGCHLD);
    // Blocked before the start, so that no signal is lost between the start and the loop.
    let inherited = watched.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)?;
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC)?;
    let child = start(command, &inherited)?;
    loop {
        if let Some(code) = reap(child)? {
            return Ok(code);
        }
        match signals.read_signal() {
            Ok(Some(info)) => pass_on(&info, child),
            Ok(None) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e).context("reading signals"),
        }
    }
}

/// Starts the program with the signal mask that we inherited and SIGPIPE as programs expect it.
fn start(command: &Command, mask: &SigSet) -> Result<Pid> {
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
    attributes.set_sigmask(mask)?;
    attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
    let actions = PosixSpawnFileActions::init()?;
    let spawn = |path: &CString, arguments: &[CString]| {
        posix_spawn(path.as_c_str(), &actions, &attributes, arguments, &command.environment)
    };
    let started = match spawn(&command.path, &command.arguments) {
        // A script without "#!": the shell runs it, as execvp and shells have it.
        Err(Errno::ENOEXEC) => {
            let mut arguments = vec![c"sh".to_owned(), command.path.clone()];
            arguments.extend(command.arguments.iter().skip(1).cloned());
            spawn(&c"/bin/sh".to_owned(), &arguments)
        }
        other => other,
    };
    started.map_err(|e| std::io::Error::from_raw_os_error(e as i32).into())
}

/// Collects state changes of the program; its exit code once it has ended.
fn reap(child: Pid) -> Result<Option<u8>> {
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(Some(code as u8)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Some(128 + signal as u8)),
            Ok(WaitStatus::Stopped(..)) => {
                raise(Signal::SIGSTOP)?;
                // Continued: the shell usually wakes the whole group, `kill -CONT` only us.
                let _ = kill(child, Signal::SIGCONT);
            }
            Ok(_) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(e) => return Err(e).context("waiting for the program"),
        }
    }
}

fn pass_on(info: &siginfo, child: Pid) {
    let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else { return };
    let from_terminal = info.ssi_code == SI_KERNEL;
    let from_program = info.ssi_pid == child.as_raw() as u32;
    if signal != Signal::SIGCHLD && !from_terminal && !from_program {
        // The program may have ended meanwhile; `reap` finds out.
        let _ = kill(child, signal);
    }
}
