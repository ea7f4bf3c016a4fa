//! `ringway run` is the program: its output, its signals, its exit code.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Client, Monitor, ringway, stderr, stdout, wait_until};

/// `ringway run` with a library that does nothing (any file will do: the linker only complains), and no
/// monitor.
fn run(options: &[&str], program: &[&str]) -> Command {
    let mut command = ringway();
    command.env("RINGWAY_LIBRARY", "/bin/true").env("RINGWAY_SOCKET", "/proc/nonexistent/monitor.sock");
    command.arg("run").arg("--no-daemon").args(options).arg("--").args(program);
    command
}

const BOTH: [&[&str]; 2] = [&[], &["-v"]];

#[test]
fn exit_codes_are_the_programs() {
    for options in BOTH {
        for code in [0, 1, 7, 255] {
            let status = run(options, &["sh", "-c", &format!("exit {code}")]).output().unwrap().status;
            assert_eq!(status.code(), Some(code), "{options:?}");
        }
    }
    // Without a parent the signal itself is the caller's to see, with one it is 128 + number.
    let killed = ["sh", "-c", "kill -TERM $$"];
    assert_eq!(run(&[], &killed).output().unwrap().status.signal(), Some(15));
    assert_eq!(run(&["-v"], &killed).output().unwrap().status.code(), Some(143));
}

#[test]
fn programs_that_cannot_start_give_126_and_127() {
    for options in BOTH {
        let missing = run(options, &["no-such-program-anywhere"]).output().unwrap();
        assert_eq!(missing.status.code(), Some(127));
        assert!(stderr(&missing).contains("no-such-program-anywhere: command not found"));
        let plain = tempfile::NamedTempFile::new().unwrap();
        let refused = run(options, &[plain.path().to_str().unwrap()]).output().unwrap();
        assert_eq!(refused.status.code(), Some(126));
        assert!(stderr(&refused).contains("not executable"));
    }
}

#[test]
fn the_environment_is_extended_not_replaced() {
    for options in BOTH {
        let mut command =
            run(options, &["/bin/sh", "-c", "echo $LD_PRELOAD; echo $RINGWAY_PROFILE $KEPT; echo $RINGWAY_SOCKET"]);
        command.env("LD_PRELOAD", "/lib/other.so").env("KEPT", "yes");
        let shown = stdout(&command.output().unwrap());
        assert_eq!(shown, "/lib/other.so:/bin/true\nbalanced yes\n/proc/nonexistent/monitor.sock\n");
    }
    let shown = stdout(&run(&["-p", "latency"], &["/bin/sh", "-c", "echo $RINGWAY_PROFILE"]).output().unwrap());
    assert_eq!(shown, "latency\n");
}

#[test]
fn wrong_usage_is_two_and_names_the_choice() {
    let unknown = run(&["-p", "turbo"], &["true"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("latency, balanced, efficient"));
    assert_eq!(ringway().arg("run").output().unwrap().status.code(), Some(2));
    let lost = run(&[], &["true"]).env("RINGWAY_LIBRARY", "/nonexistent.so").output().unwrap();
    assert_eq!(lost.status.code(), Some(2));
    assert!(stderr(&lost).contains("RINGWAY_LIBRARY names /nonexistent.so"));
}

#[test]
fn scripts_without_an_interpreter_line_run() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "echo \"$1\"; exit 3\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    for options in BOTH {
        let output = run(options, &[script.to_str().unwrap(), "an argument"]).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), "an argument\n"));
    }
}

#[test]
fn the_input_reaches_the_program_and_streams_stay_apart() {
    let mut child = run(&["-v"], &["sh", "-c", "read line; echo \"got $line\"; echo bad >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"hello\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "got hello\n");
    assert!(stderr(&output).contains("bad\n"));
}

/// Starts a program and waits for the line by which it says that its traps are set. A shell cannot trap what
/// its caller ignores (as the callers of background jobs do), so every signal starts with its default.
fn start_and_wait(command: Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut started = Command::new("env");
    started.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => started.env(name, value),
            None => started.env_remove(name),
        };
    }
    let mut child = started.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (child, out)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[test]
fn signals_are_passed_on() {
    let signals = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::WINCH, "WINCH"),
    ];
    for (signal, name) in signals {
        let script = format!("trap 'echo {name}; exit 9' {name}; echo ready; while :; do sleep 0.01; done");
        let (mut child, mut out) = start_and_wait(run(&["-v"], &["sh", "-c", &script]));
        kill_process(pid_of(&child), signal).unwrap();
        wait_until(&format!("the end by {name}"), || child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, format!("{name}\n"));
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let script = "trap '' HUP; exec \"$@\"";
    let inner = run(&["-v"], &["sh", "-c", "kill -HUP $$; echo survived"]);
    let mut outer = Command::new("sh");
    outer.args(["-c", script, "sh"]).arg(inner.get_program()).args(inner.get_args());
    outer.env("RINGWAY_LIBRARY", "/bin/true").env("RINGWAY_SOCKET", "/proc/nonexistent/monitor.sock");
    assert_eq!(stdout(&outer.output().unwrap()), "survived\n");
}

fn state_of(pid: Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
}

#[test]
fn stopping_and_continuing_is_mirrored() {
    let script = "echo ready; kill -STOP $$; echo continued";
    let (mut child, mut out) = start_and_wait(run(&["-v"], &["sh", "-c", script]));
    let pid = pid_of(&child);
    wait_until("the parent's stop", || state_of(pid) == 'T');
    kill_process(pid, Signal::CONT).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "continued\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_program_that_cannot_be_preloaded_gets_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tiny");
    std::fs::write(&program, tiny_static_program()).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let output = run(&[], &[program.to_str().unwrap()]).output().unwrap();
    let said = stderr(&output);
    let (monitor, obstacle) = said.split_once('\n').unwrap();
    assert!(monitor.contains("no monitor answers in /proc/nonexistent; plain TCP until one does"), "{said}");
    assert!(obstacle.ends_with("is statically linked: its connections stay on plain TCP\n"), "{said}");
}

/// The smallest static program of this architecture that the kernel takes: it has one loadable segment
/// and ends at once (on machines where the code is not ours to write, by a fault).
fn tiny_static_program() -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let mut bytes = vec![0u8; 120];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[16..18].copy_from_slice(&2u16.to_le_bytes());
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[20..24].copy_from_slice(&1u32.to_le_bytes());
    bytes[24..32].copy_from_slice(&0x40_0078u64.to_le_bytes());
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[52..54].copy_from_slice(&64u16.to_le_bytes());
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
    bytes[64..68].copy_from_slice(&1u32.to_le_bytes());
    bytes[68..72].copy_from_slice(&5u32.to_le_bytes());
    bytes[80..88].copy_from_slice(&0x40_0000u64.to_le_bytes());
    bytes[96..104].copy_from_slice(&256u64.to_le_bytes());
    bytes[104..112].copy_from_slice(&256u64.to_le_bytes());
    bytes[112..120].copy_from_slice(&4096u64.to_le_bytes());
    bytes.extend_from_slice(&[0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]);
    bytes.resize(256, 0);
    bytes
}

#[test]
fn require_fails_when_nothing_was_upgraded_and_says_why() {
    let monitor = Monitor::start();
    let output =
        monitor.ringway().env("RINGWAY_LIBRARY", "/bin/true").args(["run", "--require", "--", "true"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nothing was upgraded: it made no TCP connection"), "{}", stderr(&output));
    let program_failed = monitor
        .ringway()
        .env("RINGWAY_LIBRARY", "/bin/true")
        .args(["run", "--require", "--", "false"])
        .output()
        .unwrap();
    assert_eq!(program_failed.status.code(), Some(1));
    let absent = run(&["--require"], &["true"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(1));
    assert!(stderr(&absent).contains("no monitor answers"));
}

#[test]
fn processes_that_say_the_run_id_are_counted_also_when_they_have_left() {
    let monitor = Monitor::start();
    let first = Client::connect(&monitor.dir(), 77);
    let _second = Client::connect(&monitor.dir(), 77);
    let _other = Client::connect(&monitor.dir(), 78);
    drop(first);
    let mut control = ringway_daemon::control::Control::connect(&monitor.dir()).unwrap();
    assert_eq!(control.run(77).unwrap().processes_total, 2);
    assert_eq!(control.run(79).unwrap().processes_total, 0);
}

#[test]
fn a_monitor_that_says_nothing_is_named_after_a_second() {
    let monitor = Monitor::start();
    kill_process(monitor.pid(), Signal::STOP).unwrap();
    let output = monitor.ringway().env("RINGWAY_LIBRARY", "/bin/true").args(["run", "-v", "--", "true"]).output();
    kill_process(monitor.pid(), Signal::CONT).unwrap();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(said.contains("says nothing for 1 s: it is stopped, hung or overloaded"), "{said}");
}

#[test]
fn variables_that_mean_nothing_are_refused_by_name() {
    let cases = [
        ("RINGWAY_SOCKET", "/proc/nonexistent", "which is no monitor's socket"),
        ("RINGWAY_SOCKET", "/tmp/some.sock", "which is no monitor's socket"),
        ("RINGWAY_UPGRADE_CALLS", "abc", "no number of calls"),
        ("RINGWAY_IO_URING", "perhaps", "deny and allow"),
    ];
    for (name, value, problem) in cases {
        let output = run(&[], &["true"]).env(name, value).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{name} is {value}")) && said.contains(problem), "{said}");
    }
    let disabled = run(&[], &["true"]).env("RINGWAY_DISABLE", "1").output().unwrap();
    assert!(stderr(&disabled).contains("RINGWAY_DISABLE is set: all connections stay on plain TCP"));
}

/// One that serves others too must not live by what its first caller was allowed.
#[test]
fn a_monitor_does_not_inherit_its_starters_limits() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("ringway");
    let script = "ulimit -Sn 30; ulimit -Sf 0; ulimit -Sv 4000000; ulimit -St 5; umask 0; trap '' HUP TERM; \
                  exec nice -n 3 \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_ringway"), "run", "--", "true"]).env("SECRET", "x");
    command.env("RINGWAY_SOCKET", dir.join("monitor.sock")).env("RINGWAY_LIBRARY", "/bin/true");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let status = ringway_daemon::control::Control::connect(&dir).unwrap().status().unwrap();
    let proc = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", status.pid)).unwrap();
    let limits = proc("limits");
    for name in ["Max open files", "Max file size", "Max address space", "Max cpu time"] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], words[1], "{name} at its hard limit: {line}");
    }
    assert!(!proc("environ").contains("SECRET"));
    assert!(proc("status").contains("Umask:\t0077\n"));
    let nice = proc("stat").rsplit(") ").next().unwrap().split(' ').nth(16).unwrap().to_string();
    if rustix::process::geteuid().is_root() {
        assert_eq!(nice, "0");
    }
    // An ignored signal would not reach it.
    kill_process(Pid::from_raw(status.pid as i32).unwrap(), Signal::TERM).unwrap();
    wait_until("the monitor's end", || !ringway_daemon::paths::answers(&dir));
}

#[test]
fn a_second_monitor_names_the_way_to_take_over_and_a_missing_policy_is_named_once() {
    let monitor = Monitor::start();
    let dir = monitor.dir().display().to_string();
    for options in [&["daemon", "--socket-dir", &dir][..], &["daemon", "--background", "--socket-dir", &dir]] {
        let second = ringway().args(options).output().unwrap();
        assert_eq!(second.status.code(), Some(2));
        let remedy = format!("ringway daemon --socket-dir {dir} --takeover");
        assert!(stderr(&second).contains(&remedy), "{}", stderr(&second));
    }
    let lost = ringway()
        .args(["daemon", "--config", "/proc/nonexistent", "--socket-dir", "/proc/nonexistent"])
        .output()
        .unwrap();
    let said = stderr(&lost);
    assert_eq!(said.matches("No such file").count(), 1, "{said}");
    assert!(
        said.contains("the policy file /proc/nonexistent cannot be read") && said.contains("correct its path"),
        "{said}"
    );
    let absent = ringway().args(["status", "--socket-dir", "/proc/nonexistent"]).output().unwrap();
    assert!(stderr(&absent).contains("start one with `ringway daemon --socket-dir /proc/nonexistent`"));
}

/// The monitor that `run` starts belongs to nobody: no child of the program, no descriptor of the caller.
#[test]
fn a_monitor_is_started_once_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("ringway");
    let pipe = || {
        let mut command = ringway();
        command.env("XDG_RUNTIME_DIR", folder.path()).env("RINGWAY_SOCKET", dir.join("monitor.sock"));
        command.env("RINGWAY_LIBRARY", "/bin/true").args([
            "run",
            "--",
            "sh",
            "-c",
            "wait; cat /proc/$$/task/$$/children; true",
        ]);
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let (one, two) = (pipe(), pipe());
    for child in [one, two] {
        // Reading to the end would hang if the monitor held the pipe.
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        // Only cat itself.
        assert_eq!(stdout(&output).split_whitespace().count(), 1, "{}", stdout(&output));
    }
    let status = ringway_daemon::control::Control::connect(&dir).unwrap().status().unwrap();
    let pid = Pid::from_raw(status.pid as i32).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", status.pid)).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!((fields[3], fields[4]), (status.pid.to_string().as_str(), "0"), "own session, no terminal: {stat}");
    for entry in std::fs::read_dir(format!("/proc/{}/fd", status.pid)).unwrap().flatten() {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        assert!(!target.to_string_lossy().starts_with("pipe:"), "{target:?}");
    }
    kill_process(pid, Signal::TERM).unwrap();
    wait_until("the monitor's end", || !ringway_daemon::paths::answers(&dir));
}

#[test]
fn a_folder_that_others_may_write_to_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut command = ringway();
    command.env("RINGWAY_SOCKET", folder.path().join("monitor.sock")).env("RINGWAY_LIBRARY", "/bin/true");
    let output = command.args(["run", "--", "sh", "-c", "echo \"[$RINGWAY_PROFILE]\""]).output().unwrap();
    assert_eq!(stdout(&output), "[]\n");
    assert!(stderr(&output).contains("going on with plain TCP"));
}
