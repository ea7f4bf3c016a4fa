//! The process of an isolated switch: it takes guests in and forwards for them.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringway_mem::cells::Cells;
use ringway_mem::pool::{Pool, PortId};
use ringway_port::PortError;
use ringway_port::clock::monotonic_ns;
use ringway_port::meeting::message::{Answer, DESCRIPTORS_MAX, REQUEST_BYTES, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, connect, listen, recv, recvmsg, send, socket_with,
};

use crate::served::Served;
use crate::switch::Switch;

/// Bytes of address space that a guest may have mapped here.
const POOL_BYTES_MAX: usize = 1 << 30;
/// Guests that have connected and not said yet what they want, at most, and how long they may take.
const SILENT_MAX: usize = 16;
const SILENCE: Duration = Duration::from_secs(5);
/// Turns without a frame before the switch sleeps.
const IDLE_TURNS: u32 = 1000;
/// Turns between two looks for who comes and goes, while frames flow.
const BUSY_TURNS: u32 = 256;
/// Longest sleep: so often `run` asks whether to go on.
const NAP: Duration = Duration::from_millis(50);

/// An isolated switch. Dropping it ends it for all guests.
pub struct Host {
    switch: Arc<Switch>,
    socket: PathBuf,
    listener: OwnedFd,
    silent: Vec<(OwnedFd, Instant)>,
    guests: Vec<Guest>,
}

/// A port that is served.
struct Guest {
    line: OwnedFd,
    name: String,
    cells: Cells,
    served: Served,
}

impl Host {
    /// Begins to serve `switch` at `socket`, where a process that has ended may have served before; `mode` says who may
    /// connect, as of a file.
    ///
    /// # Errors
    /// Somebody serves there, or the socket cannot be made.
    pub fn new(switch: Arc<Switch>, socket: &Path, mode: u32) -> Result<Host, PortError> {
        let failed = |errno| PortError::os(format!("serve a switch at {}", socket.display()), errno);
        let new_line = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let address = SocketAddrUnix::new(socket).map_err(failed)?;
        match connect(new_line().map_err(failed)?, &address) {
            Ok(()) => return Err(failed(Errno::ADDRINUSE)),
            Err(Errno::CONNREFUSED) => std::fs::remove_file(socket).map_err(|_| failed(Errno::ADDRINUSE))?,
            Err(_) => {}
        }
        let listener = new_line().map_err(failed)?;
        bind(&listener, &address).map_err(failed)?;
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(socket, permissions).map_err(|_| failed(Errno::PERM))?;
        listen(&listener, SILENT_MAX as i32).map_err(failed)?;
        rustix::io::ioctl_fionbio(&listener, true).map_err(failed)?;
        Ok(Host { switch, socket: socket.to_owned(), listener, silent: vec![], guests: vec![] })
    }

    /// Names of the ports and their numbers at the switch.
    pub fn ports(&self) -> impl Iterator<Item = (&str, u8)> {
        self.guests.iter().map(|guest| (guest.name.as_str(), guest.served.number()))
    }

    /// Serves until `goes_on` says no; it is asked every 50 ms at least.
    pub fn run(&mut self, mut goes_on: impl FnMut(&Host) -> bool) {
        let (mut idle, mut turns) = (0, 0_u32);
        while goes_on(self) {
            for _ in 0..BUSY_TURNS {
                turns = turns.wrapping_add(1);
                idle = if self.serve() { 0 } else { idle + 1 };
                if idle >= IDLE_TURNS {
                    self.sleep();
                    idle = 0;
                }
            }
            self.receive_guests();
        }
    }

    /// Forwards what guests have sent; whether anything was.
    pub fn serve(&mut self) -> bool {
        let now_ns = monotonic_ns();
        // Everybody is served, so no short circuit.
        self.guests.iter_mut().fold(false, |moved, guest| moved | guest.serve(now_ns))
    }

    /// Takes in who has come and sends away who has gone.
    pub fn receive_guests(&mut self) {
        while self.silent.len() < SILENT_MAX
            && let Ok(line) = accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        {
            self.silent.push((line, Instant::now()));
        }
        // Those who have gone first: who comes may want a name or a place of theirs.
        self.guests.retain(Guest::is_there);
        for (line, since) in std::mem::take(&mut self.silent) {
            match receive(&line) {
                Err(Errno::AGAIN | Errno::INTR) if since.elapsed() < SILENCE => self.silent.push((line, since)),
                Err(_) => {}
                Ok((bytes, memory)) => self.admit(line, &bytes, memory),
            }
        }
    }

    fn admit(&mut self, line: OwnedFd, bytes: &[u8], memory: Vec<OwnedFd>) {
        let (answer, served) = match self.serve_new(bytes, memory) {
            Ok(served) => (Answer::Met, Some(served)),
            Err(why) => (Answer::Refused(why), None),
        };
        let said = send(&line, &answer.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        if let (Ok(_), Some((name, cells, served))) = (said, served) {
            self.guests.push(Guest { line, name, cells, served });
        }
    }

    /// Checks what a guest brings and gives its port a place.
    fn serve_new(&self, bytes: &[u8], memory: Vec<OwnedFd>) -> Result<(String, Cells, Served), String> {
        let name = Request::decode(bytes)?.name;
        if self.guests.iter().any(|guest| guest.name == name) {
            return Err(format!("{name} is in use"));
        }
        let count = memory.len();
        let [pool, cells] = <[OwnedFd; 2]>::try_from(memory).map_err(|_| format!("{count} descriptors, not 2"))?;
        let pool = Pool::attach(pool).map_err(|e| e.to_string())?;
        if pool.bytes() > POOL_BYTES_MAX {
            return Err(format!("a pool of {} bytes; at most {POOL_BYTES_MAX}", pool.bytes()));
        }
        if self.guests.iter().any(|guest| guest.served.pool() == pool.id()) {
            return Err("a pool that says that it is another's".to_owned());
        }
        let cells = Cells::attach(cells).map_err(|e| e.to_string())?;
        let port: PortId = pool.find(&name).ok_or_else(|| format!("the pool has no port {name}"))?;
        let served = Served::new(&self.switch, &pool, port).map_err(|e| e.to_string())?;
        Ok((name, cells, served))
    }

    /// Sleeps until a guest has sent something or somebody comes or goes.
    fn sleep(&mut self) {
        self.want_kicks(true);
        if !self.serve() {
            let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
            let lines = self.guests.iter().map(|guest| &guest.line).chain(self.silent.iter().map(|(line, _)| line));
            fds.extend(lines.map(|line| PollFd::new(line, PollFlags::IN)));
            let nap = Timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as i64 };
            let _ = poll(&mut fds, Some(&nap));
        }
        self.want_kicks(false);
        self.receive_guests();
    }

    fn want_kicks(&self, wanted: bool) {
        let all = self.guests.iter().flat_map(|guest| guest.cells.all());
        all.for_each(|cells| cells.server.want_kick(wanted));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Guest {
    fn serve(&mut self, now_ns: u64) -> bool {
        let (tx, rx) = (self.served.tx_rings(), self.served.rx_rings());
        let mut moved = false;
        for (ring, cells) in self.cells.all()[..tx].iter().enumerate() {
            moved |= self.served.serve_tx(ring, &cells.app, &cells.server, now_ns);
        }
        for ring in 0..rx {
            if let Some(cells) = self.cells.rx(ring) {
                self.served.serve_rx(ring, &cells.app, &cells.server);
            }
        }
        moved
    }

    /// Takes the kicks; whether the guest's process has the port still.
    fn is_there(&self) -> bool {
        let mut kicks = [0; 8];
        // Bounded: more kicks than that stay for the next time.
        for _ in 0..64 {
            match recv(self.line.as_fd(), &mut kicks[..], RecvFlags::DONTWAIT) {
                Ok((1.., _)) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Ok((0, _)) | Err(_) => return false,
            }
        }
        true
    }
}

fn receive(line: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    let mut bytes = [0; REQUEST_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got =
        recvmsg(line, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)?;
    let mut memory = Vec::with_capacity(DESCRIPTORS_MAX);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            memory.extend(fds);
        }
    }
    if got.bytes == 0 { Err(Errno::CONNRESET) } else { Ok((bytes[..got.bytes].to_vec(), memory)) }
}
