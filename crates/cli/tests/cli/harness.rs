//! A monitor of our own, and a program that speaks to it as the library does, with the ring written
//! through the file instead of through memory.

use std::mem::{MaybeUninit, offset_of};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ringway_channel::layout::{Direction, ProducerLine, RingHeader, SwitchLine, area_offset};
use ringway_channel::rendezvous::{Kind, MESSAGE_BYTES, Message};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketType, recvmsg, sendmsg,
};
use rustix::process::Pid;
use tempfile::TempDir;

/// Longest wait for anything that must happen; only a broken build waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The command with a clean environment: nothing of the caller's settings shines through.
pub(crate) fn ringway() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
    for name in [
        "RINGWAY_SOCKET",
        "RINGWAY_LIBRARY",
        "RINGWAY_PROFILE",
        "RINGWAY_RUN_ID",
        "RINGWAY_DISABLE",
        "LD_PRELOAD",
        "RINGWAY_UPGRADE_CALLS",
        "RINGWAY_IO_URING",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    ringway().args(arguments).output().unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Calls `ready` until it says yes.
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a program is installed; says so once if not.
pub(crate) fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A monitor in a folder of its own; ends with the test.
pub(crate) struct Monitor {
    process: Child,
    folder: TempDir,
}

impl Monitor {
    pub(crate) fn start() -> Monitor {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("ringway");
        let process = ringway().arg("daemon").arg("--socket-dir").arg(&dir).spawn().unwrap();
        let monitor = Monitor { process, folder };
        wait_until("the monitor's answer", || ringway_daemon::paths::answers(&monitor.dir()));
        monitor
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("ringway")
    }

    /// The command, pointed at this monitor.
    pub(crate) fn ringway(&self) -> Command {
        let mut command = ringway();
        command.env("RINGWAY_SOCKET", self.dir().join("monitor.sock"));
        command
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.ringway().args(arguments).output().unwrap()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Speaks as the library of one process.
pub(crate) struct Client {
    socket: OwnedFd,
}

impl Client {
    pub(crate) fn connect(dir: &Path, run_id: u64) -> Client {
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(dir.join("monitor.sock")).unwrap()).unwrap();
        let client = Client { socket };
        client.send(Message { pid: std::process::id(), token: run_id, ..Message::new(Kind::Hello) }, None);
        assert_eq!(client.receive().0.kind, Kind::Welcome);
        client
    }

    pub(crate) fn send(&self, message: Message, socket: Option<&TcpStream>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = socket.iter().map(|s| s.as_fd()).collect();
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        sendmsg(&self.socket, &[IoSlice::new(&message.encode())], &mut control, SendFlags::empty()).unwrap();
    }

    pub(crate) fn receive(&self) -> (Message, Vec<OwnedFd>) {
        let mut bytes = [0u8; MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        (Message::decode(&bytes).unwrap(), fds)
    }
}

/// An upgraded connection: end A is the client's socket.
pub(crate) struct Upgraded {
    pub(crate) a: TcpStream,
    pub(crate) b: TcpStream,
    pub(crate) number: u64,
    ring: OwnedFd,
    tails: [u64; 2],
    _client: Client,
}

impl Upgraded {
    pub(crate) fn new(monitor: &Monitor, address: &str) -> Upgraded {
        let listener = TcpListener::bind(address).unwrap();
        let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let b = listener.accept().unwrap().0;
        let client = Client::connect(&monitor.dir(), 0);
        client.send(Message { token: 1, ..Message::new(Kind::Offer) }, Some(&a));
        client.send(Message { token: 2, ..Message::new(Kind::Offer) }, Some(&b));
        let (first, mut fds) = client.receive();
        assert_eq!((first.kind, first.token, fds.len()), (Kind::Paired, 1, 2));
        assert_eq!(client.receive().0.kind, Kind::Paired);
        let ring = fds.swap_remove(0);
        let upgraded = Upgraded { a, b, number: first.connection, ring, tails: [0; 2], _client: client };
        for direction in 0..2 {
            let switch = direction_at(direction) + offset_of!(Direction, switch);
            upgraded.put(switch + offset_of!(SwitchLine, ring_begins_at), &100u64.to_ne_bytes());
            upgraded.put(switch + offset_of!(SwitchLine, path), &1u32.to_ne_bytes());
        }
        upgraded
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        assert_eq!(rustix::io::pwrite(&self.ring, bytes, at as u64).unwrap(), bytes.len());
    }

    /// Sends in direction 0 (A to B) or 1; nobody consumes, so all stays in the first, smallest ring.
    pub(crate) fn send(&mut self, direction: usize, bytes: &[u8]) {
        let tail = self.tails[direction];
        self.put(area_offset(0, direction) + tail as usize, bytes);
        self.tails[direction] = tail + bytes.len() as u64;
        let line = direction_at(direction) + offset_of!(Direction, producer) + offset_of!(ProducerLine, tail);
        self.put(line, &self.tails[direction].to_ne_bytes());
    }
}

fn direction_at(direction: usize) -> usize {
    offset_of!(RingHeader, directions) + direction * size_of::<Direction>()
}
