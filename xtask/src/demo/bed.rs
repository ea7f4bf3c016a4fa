//! The test bed: a private folder and monitor, servers on free ports, all ended when it goes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::loads::Load;
use crate::workspace::Workspace;
use crate::{packages, process};

const START_LIMIT: Duration = Duration::from_secs(10);

/// Before or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Tcp,
    Ringway,
}

/// A process group that ends with this value.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = process::end_group(&mut self.0) {
            eprintln!("cannot end process {}: {error:#}", self.0.id());
        }
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) side: Side,
    pub(crate) port: u16,
    group: Group,
}

pub(crate) struct Bed {
    ringway: PathBuf,
    profile: String,
    // Fields are dropped in this order: first the monitor, then the folder with its sockets.
    _monitor: Group,
    folder: tempfile::TempDir,
}

impl Bed {
    /// Makes the folder and starts a monitor that serves it alone.
    pub(crate) fn new(workspace: &Workspace, profile: &str) -> Result<Bed> {
        let folder = tempfile::Builder::new().prefix("ringway-demo-").tempdir()?;
        let mut command = Command::new(workspace.ringway());
        command.args(["daemon", "--socket-dir"]).arg(folder.path());
        let mut monitor = Group(start(command, folder.path().join("monitor.log"))?);
        wait_until("the monitor", &mut monitor.0, || folder.path().join("control.sock").exists())
            .with_context(|| std::fs::read_to_string(folder.path().join("monitor.log")).unwrap_or_default())?;
        Ok(Bed { ringway: workspace.ringway(), profile: profile.to_owned(), _monitor: monitor, folder })
    }

    /// A path in the private folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `program` as the side runs it.
    pub(crate) fn command(&self, side: Side, program: &str, arguments: &[String]) -> Command {
        let program = packages::find_program(program).unwrap_or_else(|| program.into());
        let mut command = match side {
            Side::Tcp => Command::new(program),
            Side::Ringway => {
                let mut command = Command::new(&self.ringway);
                command.args(["run", "--profile", &self.profile, "--"]).arg(program);
                command.env("RINGWAY_SOCKET", self.path("monitor.sock"));
                command
            }
        };
        command.args(arguments);
        command
    }

    /// Asks the monitor: one line there, one JSON document back.
    fn question(&self, line: &str) -> Result<Value> {
        let mut stream = UnixStream::connect(self.path("control.sock")).context("the monitor does not answer")?;
        stream.set_read_timeout(Some(START_LIMIT))?;
        writeln!(stream, "{line}")?;
        stream.shutdown(Shutdown::Write)?;
        serde_json::from_reader(stream).context("the monitor's answer is no JSON")
    }

    /// Starts the load's server on a free port.
    pub(crate) fn serve(&self, load: &Load, side: Side) -> Result<Server> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let folder = self.path(&format!("{}-{port}", load.server));
        std::fs::create_dir(&folder)?;
        let command = self.command(side, load.server, &(load.server_arguments)(&folder, port)?);
        let log = folder.join("server.log");
        let mut group = Group(start(command, log.clone())?);
        let listens = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        wait_until(load.server, &mut group.0, listens)
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        Ok(Server { side, port, group })
    }

    /// Connections that the server's processes (its process group) have seen upgraded.
    pub(crate) fn upgraded(&self, server: &Server) -> Result<u64> {
        if server.side == Side::Tcp {
            return Ok(0);
        }
        let of_processes = upgraded_by_process(&self.question("{\"cmd\":\"processes\"}")?)?;
        let ours = of_processes.into_iter().filter(|(pid, _)| group_of(*pid) == Some(server.group.0.id()));
        Ok(ours.map(|(_, upgraded)| upgraded).sum())
    }
}

/// Process id to upgraded connections, from the monitor's list of processes.
fn upgraded_by_process(answer: &Value) -> Result<BTreeMap<u32, u64>> {
    let processes = answer["processes"].as_array().with_context(|| format!("the monitor answered {answer}"))?;
    let read = |process: &Value| {
        let number = |value: &Value| value.as_u64().with_context(|| format!("a number is missing in {process}"));
        Ok((u32::try_from(number(&process["pid"])?)?, number(&process["counters"]["connections_upgraded"])?))
    };
    processes.iter().map(read).collect()
}

/// The process group of a live process: the third field after the name.
fn group_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(2)?.parse().ok()
}

fn start(mut command: Command, log: PathBuf) -> Result<Child> {
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))
}

fn wait_until(name: &str, child: &mut Child, ready: impl Fn() -> bool) -> Result<()> {
    let started = Instant::now();
    while !ready() {
        process::check_interrupt()?;
        if let Some(status) = child.try_wait()? {
            bail!("{name} ended early ({status})");
        }
        if started.elapsed() > START_LIMIT {
            bail!("{name} was not ready after {} s", START_LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_monitors_list_is_read_by_process() {
        let answer = json!({"processes": [{"pid": 7, "counters": {"connections_upgraded": 50}}]});
        assert_eq!(upgraded_by_process(&answer).unwrap()[&7], 50);
        assert!(upgraded_by_process(&json!({"error": "busy"})).is_err());
        assert!(upgraded_by_process(&json!({"processes": [{"pid": 7}]})).is_err());
    }

    #[test]
    fn a_process_has_a_group() {
        assert!(group_of(std::process::id()).is_some());
        assert_eq!(group_of(u32::MAX), None);
    }
}
