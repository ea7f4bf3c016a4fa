//! A monitor in a process of its own, and a library that is nothing but messages.

use std::io::{BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ringway_channel::rendezvous::{Kind, MESSAGE_BYTES, Message};
use ringway_daemon::control::Control;
use ringway_daemon::{Options, paths};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg, socket_with, sockopt,
};

/// Nothing here waits longer; only a hang comes near it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

const DIR: &str = "RINGWAY_TEST_MONITOR_DIR";
const IDLE: &str = "RINGWAY_TEST_IDLE_EXIT_S";
const TAKEOVER: &str = "RINGWAY_TEST_TAKEOVER";
const METRICS: &str = "RINGWAY_TEST_METRICS";

/// What the child process of [`Monitor::start`] runs: this test program again, with only this test. It is
/// the monitor.
#[test]
#[ignore = "the body of the monitor's process, started by the other tests"]
fn monitor_process() {
    let variable = |name| std::env::var(name).ok();
    let Some(dir) = variable(DIR) else { return };
    let options = Options {
        config: Some(PathBuf::from(&dir).join("policy.toml")),
        idle_exit: variable(IDLE).map(|s| Duration::from_secs(s.parse().unwrap())),
        takeover: variable(TAKEOVER).is_some(),
        metrics_addr: variable(METRICS).map(|address| address.parse().unwrap()),
        ..Options::new(dir.into())
    };
    ringway_daemon::log_to_stderr();
    let outcome = ringway_daemon::run(options);
    if let Err(e) = &outcome {
        eprintln!("monitor failed: {e}");
    }
    std::process::exit(i32::from(outcome.is_err()));
}

/// A monitor in a directory of its own; killed at the end.
pub(crate) struct Monitor {
    pub(crate) dir: PathBuf,
    pub(crate) child: Child,
    owns_dir: bool,
}

/// Prepares a directory that any user may enter, with a policy file.
pub(crate) fn directory(policy: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("ringway-monitor-test-{}-{number}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(dir.join("policy.toml"), policy).unwrap();
    dir
}

pub(crate) fn spawn(dir: &Path, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // SAFETY: between fork and exec only async-signal-safe functions are called.
    unsafe { command.pre_exec(block_signals) };
    command
        .args(["harness::monitor_process", "--exact", "--ignored", "--nocapture"])
        .env(DIR, dir)
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The test harness has threads of its own, which must not take the monitor's signals.
fn block_signals() -> std::io::Result<()> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set before it is read.
    match unsafe {
        libc::sigfillset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut())
    } {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(error)),
    }
}

impl Monitor {
    pub(crate) fn start(policy: &str) -> Monitor {
        Monitor::start_with(policy, &[])
    }

    pub(crate) fn start_with(policy: &str, variables: &[(&str, &str)]) -> Monitor {
        let dir = directory(policy);
        let child = spawn(&dir, variables);
        let monitor = Monitor { dir, child, owns_dir: true };
        monitor.wait_ready();
        monitor
    }

    /// Wraps a process that is on its way, and the directory made for it.
    pub(crate) fn of(dir: PathBuf, child: Child) -> Monitor {
        Monitor { dir, child, owns_dir: true }
    }

    pub(crate) fn idle_exit(seconds: u32) -> Monitor {
        Monitor::start_with("", &[(IDLE, &seconds.to_string())])
    }

    pub(crate) fn with_metrics(address: &str) -> Monitor {
        Monitor::start_with("", &[(METRICS, address)])
    }

    /// Another monitor in the same directory, which continues the first one's work.
    pub(crate) fn successor(&self) -> Monitor {
        let child = spawn(&self.dir, &[(TAKEOVER, "1")]);
        Monitor { dir: self.dir.clone(), child, owns_dir: false }
    }

    pub(crate) fn wait_ready(&self) {
        wait_for("the monitor", || Control::connect(&self.dir).and_then(|mut c| c.status()).is_ok());
    }

    pub(crate) fn control(&self) -> Control {
        Control::connect(&self.dir).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the process to end; returns its exit code and what it logged.
    pub(crate) fn finish(&mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        let mut status = None;
        wait_for("the monitor's end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        std::io::Read::read_to_string(&mut stderr, &mut log).unwrap();
        (status.unwrap().code(), log)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.owns_dir {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// Looks until `holds`; fails by name after [`PATIENCE`].
#[track_caller]
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The monitor's view of a program: one connection that sends and receives messages.
pub(crate) struct Library {
    pub(crate) socket: OwnedFd,
    pub(crate) page: Option<OwnedFd>,
}

impl Library {
    /// Connects without a word.
    pub(crate) fn connect(dir: &Path) -> Library {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(paths::monitor_socket(dir)).unwrap()).unwrap();
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE)).unwrap();
        Library { socket, page: None }
    }

    /// Connects and is welcome.
    pub(crate) fn hello(dir: &Path) -> Library {
        let mut library = Library::connect(dir);
        library.send(Message { profile: 1, ..Message::new(Kind::Hello) }, &[]).unwrap();
        let (welcome, mut fds) = library.receive().expect("a welcome");
        assert_eq!(welcome.kind, Kind::Welcome, "{welcome:?}");
        assert_ne!(welcome.connection, 0);
        library.page = fds.pop();
        library
    }

    pub(crate) fn send(&self, message: Message, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        self.send_bytes(&message.encode(), fds)
    }

    pub(crate) fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).map(|_| ())
    }

    pub(crate) fn offer(&self, socket: impl AsFd, token: u64) {
        self.send(Message { token, ..Message::new(Kind::Offer) }, &[socket.as_fd()]).unwrap();
    }

    pub(crate) fn attach(&self, socket: impl AsFd, token: u64) {
        self.send(Message { token, ..Message::new(Kind::Attach) }, &[socket.as_fd()]).unwrap();
    }

    /// The next message; `None` when the monitor has closed the connection.
    pub(crate) fn receive(&self) -> Option<(Message, Vec<OwnedFd>)> {
        let mut bytes = [0u8; MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC);
        let fds = control
            .drain()
            .filter_map(|m| match m {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
                _ => None,
            })
            .flatten()
            .collect();
        match got {
            Ok(got) if got.bytes > 0 => Some((Message::decode(&bytes[..got.bytes]).unwrap(), fds)),
            Ok(_) | Err(Errno::CONNRESET) => None,
            Err(e) => panic!("no message came: {e}"),
        }
    }

    #[track_caller]
    pub(crate) fn expect(&self, kind: Kind) -> (Message, Vec<OwnedFd>) {
        let (message, fds) = self.receive().expect("a message");
        assert_eq!(message.kind, kind, "{message:?}");
        (message, fds)
    }

    #[track_caller]
    pub(crate) fn expect_refused(&self, token: u64, reason: ringway_channel::Reason) {
        let (message, _) = self.expect(Kind::Refused);
        assert_eq!((message.token, message.reason), (token, reason));
    }

    /// What the mailbox word of the process page says.
    pub(crate) fn mailbox(&self) -> u32 {
        let mut word = [0u8; 4];
        rustix::io::pread(self.page.as_ref().unwrap(), &mut word, 0).unwrap();
        u32::from_ne_bytes(word)
    }
}

/// A connected pair over `address` (with port 0).
pub(crate) fn tcp_pair(address: &str) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(address).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Offers both ends and returns what both get.
pub(crate) fn pair(a: &Library, b: &Library, sockets: &(TcpStream, TcpStream)) -> [(Message, Vec<OwnedFd>); 2] {
    a.offer(&sockets.0, 1);
    b.offer(&sockets.1, 2);
    [a.expect(Kind::Paired), b.expect(Kind::Paired)]
}

/// Sends one line to the control socket and returns the line that comes back.
pub(crate) fn raw_request(dir: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(paths::control_socket(dir)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    // Closed with bytes unread, the connection is reset: that is an answer, too.
    let _ = BufReader::new(stream).read_line(&mut answer);
    answer
}

/// Runs `work` on a thread with another effective user; false (and a word) if that is not permitted.
pub(crate) fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to become uid {uid}");
        return None;
    }
    // Credentials of a thread are its own when they are set by the bare system call.
    Some(std::thread::scope(|scope| {
        let inner = move || {
            rustix::thread::set_thread_res_gid(
                rustix::fs::Gid::from_raw(uid),
                rustix::fs::Gid::from_raw(uid),
                rustix::fs::Gid::from_raw(uid),
            )
            .unwrap();
            rustix::thread::set_thread_res_uid(
                rustix::fs::Uid::from_raw(uid),
                rustix::fs::Uid::from_raw(uid),
                rustix::fs::Uid::from_raw(uid),
            )
            .unwrap();
            work()
        };
        scope.spawn(inner).join().unwrap()
    }))
}
