//! Who is at the other end of a Unix socket.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use crate::sys;

/// A process as the kernel described it when it connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// 0 when the process is not visible in the monitor's pid namespace.
    pub(crate) pid: u32,
    /// Name of the program, 15 bytes at most; for people only.
    pub(crate) comm: String,
    /// Path in the unified hierarchy; empty (no rule matches) when it cannot be known for certain.
    pub(crate) cgroup: String,
}

impl Peer {
    pub(crate) fn of(socket: impl AsFd) -> io::Result<Peer> {
        let credentials = sys::peer_credentials(&socket)?;
        let pid = u32::try_from(credentials.pid).unwrap_or(0);
        let pidfd = sys::peer_pidfd(&socket);
        let comm = read_proc(pid, "comm").unwrap_or_default().trim_end().to_string();
        let cgroup = read_proc(pid, "cgroup").and_then(|text| unified_path(&text)).unwrap_or_default();
        // Rules by cgroup are access control: the number may have been given to another process between
        // connect and here. While the pidfd's process lives, its number is its own.
        let certain = pidfd.is_some_and(|fd| {
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
        });
        let cgroup = if certain { cgroup } else { String::new() };
        Ok(Peer { uid: credentials.uid, gid: credentials.gid, pid, comm, cgroup })
    }
}

fn read_proc(pid: u32, file: &str) -> Option<String> {
    if pid == 0 {
        return None;
    }
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The line `0::/path` of `/proc/PID/cgroup`.
fn unified_path(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_socket_of_our_own_names_ourselves() {
        let (a, _b) = UnixStream::pair().unwrap();
        let peer = Peer::of(&a).unwrap();
        assert_eq!((peer.uid, peer.pid), (rustix::process::geteuid().as_raw(), std::process::id()));
        assert!(!peer.comm.is_empty());
    }

    #[test]
    fn only_the_unified_hierarchy_counts() {
        assert_eq!(unified_path("12:cpu:/x\n0::/system.slice/a.service\n").as_deref(), Some("/system.slice/a.service"));
        assert_eq!(unified_path("12:cpu:/x\n"), None);
    }
}
