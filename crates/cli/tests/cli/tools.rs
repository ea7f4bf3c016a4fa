//! status, doctor, config, env, completions, man: texts, documents and exit codes.

use std::process::Stdio;

use ringway_daemon::control::Control;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Monitor, ringway, run, stderr, stdout, wait_until};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn help_has_examples_and_lists_every_command() {
    let help = stdout(&run(&["--help"]));
    for command in ["run", "ss", "top", "status", "doctor", "pcap", "daemon", "config", "env", "completions", "man"] {
        assert!(help.contains(&format!("  {command} ")), "{command} missing in\n{help}");
        let own = stdout(&run(&[command, "--help"]));
        assert!(own.contains("Examples:"), "{command} --help has no examples");
    }
    assert_eq!(run(&["nonsense"]).status.code(), Some(2));
}

#[test]
fn status_is_one_without_a_monitor_and_names_the_remedy() {
    let output = ringway().env("RINGWAY_SOCKET", "/proc/nonexistent/monitor.sock").arg("status").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    assert!(
        stderr(&output)
            .contains("/proc/nonexistent/control.sock; start one with `ringway daemon --socket-dir /proc/nonexistent`")
    );
}

#[test]
fn status_tells_socket_pid_and_bounds() {
    let monitor = Monitor::start();
    let text = stdout(&monitor.run(&["status"]));
    assert!(text.contains("socket") && text.contains("connections  0 of "), "{text}");
    let document = json(&stdout(&monitor.run(&["status", "-j"])));
    assert_eq!(document["schema"], 1);
    for key in ["pid", "version", "uptime_s", "socket", "connections", "connections_max", "memory_per_uid_bytes"] {
        assert!(!document[key].is_null(), "{key} missing in {document}");
    }
}

#[test]
fn doctor_reports_each_check_with_verdict_and_remedy() {
    let monitor = Monitor::start();
    let document = json(&stdout(
        &monitor.ringway().args(["doctor", "-j"]).env("RINGWAY_LIBRARY", "/nonexistent").output().unwrap(),
    ));
    assert_eq!(keys(&document), ["checks", "failures", "schema", "warnings"]);
    let check = |name: &str| {
        let checks = document["checks"].as_array().unwrap();
        checks.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{name} missing")).clone()
    };
    assert_eq!(check("monitor")["verdict"], "ok");
    assert_eq!(check("library")["verdict"], "fail");
    assert!(check("library")["remedy"].as_str().unwrap().contains("RINGWAY_LIBRARY"));
    for name in
        ["kernel", "shared memory", "loopback", "socket folder", "open files", "mappings", "processors", "io_uring"]
    {
        check(name);
    }
}

#[test]
fn doctor_fails_with_one_and_prints_what_mends() {
    let output = ringway().arg("doctor").env("RINGWAY_LIBRARY", "/nonexistent").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("fail  library") && text.contains("mend: export RINGWAY_LIBRARY="), "{text}");
    assert!(!text.contains('\x1b'), "colour without a terminal");
    // A file that is no library: the linker's own words are shown.
    let broken = ringway().arg("doctor").env("RINGWAY_LIBRARY", "/etc/passwd").output().unwrap();
    assert_eq!(broken.status.code(), Some(1));
    assert!(stdout(&broken).contains("cannot be preloaded"), "{}", stdout(&broken));
}

#[test]
fn config_explains_keys_and_checks_files() {
    let all = stdout(&run(&["config", "explain"]));
    assert!(all.contains("memory_per_uid_bytes") && all.contains("limits.connections"));
    let one = stdout(&run(&["config", "explain", "offer_timeout_s"]));
    assert!(one.contains("in seconds") && !one.contains("limits.connections"));
    let unknown = run(&["config", "explain", "speed"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no key `speed`; the keys are default"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "default = \"any\"\n").unwrap();
    assert_eq!(run(&["config", "check", file.path().to_str().unwrap()]).status.code(), Some(0));
    std::fs::write(file.path(), "\ndefault = \"all\"\n").unwrap();
    let wrong = run(&["config", "check", file.path().to_str().unwrap()]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains(":2:") && stderr(&wrong).contains("same-uid"), "{}", stderr(&wrong));
}

#[test]
fn the_daemon_names_what_stops_it() {
    let monitor = Monitor::start();
    let second = ringway().arg("daemon").arg("--socket-dir").arg(monitor.dir()).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("already runs"));
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    std::fs::write(&policy, "nonsense = 1").unwrap();
    let mut background = ringway();
    background
        .args(["daemon", "--background", "--socket-dir"])
        .arg(folder.path().join("d"))
        .arg("--config")
        .arg(&policy);
    let background = background.output().unwrap();
    assert_eq!(background.status.code(), Some(2));
    assert!(stderr(&background).contains("nonsense"));
}

/// The monitor's own tests block its signals for it; here it is a process as a service manager starts it.
#[test]
fn the_daemon_reads_its_policy_again_at_a_hangup_and_tidies_up_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, policy) = (folder.path().join("d"), folder.path().join("policy.toml"));
    std::fs::write(&policy, "").unwrap();
    let mut daemon =
        ringway().arg("daemon").arg("--socket-dir").arg(&dir).arg("--config").arg(&policy).spawn().unwrap();
    wait_until("the monitor's answer", || ringway_daemon::paths::answers(&dir));
    let pid = Pid::from_child(&daemon);
    let cap_bytes = || Control::connect(&dir).unwrap().status().unwrap().memory_per_uid_bytes;
    for bytes in [1_048_577, 1_048_578] {
        std::fs::write(&policy, format!("memory_per_uid_bytes = {bytes}")).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
        wait_until("the new policy", || cap_bytes() == bytes);
    }
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert!(!dir.join("monitor.sock").exists() && !dir.join("control.sock").exists());
}

#[test]
fn env_prints_what_shells_and_systemd_read() {
    let command = |format: &str| {
        let mut command = ringway();
        command.env("RINGWAY_LIBRARY", "/bin/true").env("RINGWAY_SOCKET", "/run/it's/monitor.sock");
        stdout(&command.args(["env", "-p", "efficient", "--format", format]).output().unwrap())
    };
    let expected = "export LD_PRELOAD='/bin/true'\nexport RINGWAY_SOCKET='/run/it'\\''s/monitor.sock'\nexport RINGWAY_PROFILE='efficient'\n";
    assert_eq!(command("shell"), expected);
    assert!(command("systemd").contains("RINGWAY_SOCKET=\"/run/it's/monitor.sock\"\n"));
}

#[test]
fn completions_and_manual_pages_cover_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&run(&["completions", shell])).contains("doctor"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["man", "--dir", folder.path().to_str().unwrap()]).status.success());
    for page in [
        "man1/ringway.1",
        "man1/ringway-run.1",
        "man1/ringway-ss.1",
        "man1/ringway-config.1",
        "man1/ringway-config-check.1",
        "man7/ringway.7",
        "man5/ringway.toml.5",
    ] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"));
        assert!(text.contains(".SH"), "{page}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child =
        ringway().args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}
