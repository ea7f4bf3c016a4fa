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

/// TCP connections that a server's processes have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connections {
    pub(crate) seen: u64,
    pub(crate) upgraded: u64,
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

    /// What the server's processes (its process group) have counted, as the monitor sees it.
    pub(crate) fn connections(&self, server: &Server) -> Result<Connections> {
        if server.side == Side::Tcp {
            return Ok(Connections::default());
        }
        let of_processes = count_processes(&self.question("{\"cmd\":\"processes\"}")?)?;
        let ours = of_processes.into_iter().filter(|(pid, _)| group_of(*pid) == Some(server.group.0.id()));
        let mut sum = Connections::default();
        for (_, counted) in ours {
            sum.seen += counted.seen;
            sum.upgraded += counted.upgraded;
        }
        Ok(sum)
    }
}

/// Process id to connections, from the monitor's list of processes.
fn count_processes(answer: &Value) -> Result<BTreeMap<u32, Connections>> {
    let processes = answer["processes"].as_array().with_context(|| format!("the monitor answered {answer}"))?;
    let read = |process: &Value| {
        let number = |value: &Value| value.as_u64().with_context(|| format!("a number is missing in {process}"));
        let counters = &process["counters"];
        let seen = number(&counters["connections_seen"])?;
        let upgraded = number(&counters["connections_upgraded"])?;
        Ok((u32::try_from(number(&process["pid"])?)?, Connections { seen, upgraded }))
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
    fn status_is_read_by_process() {
        let status = json!({"processes": [
            {"pid": 7, "counters": {"connections_seen": 51, "connections_upgraded": 50}}]});
        let counted = count_processes(&status).unwrap();
        assert_eq!(counted[&7], Connections { seen: 51, upgraded: 50 });
        assert!(count_processes(&json!({})).is_err());
        assert!(count_processes(&json!({"processes": [{"pid": 7}]})).is_err());
    }

    #[test]
    fn a_process_has_a_group() {
        assert!(group_of(std::process::id()).is_some());
        assert_eq!(group_of(u32::MAX), None);
    }
}
