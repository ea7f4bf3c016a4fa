//! Which process holds which socket, by the links in `/proc/PID/fd`.

use std::collections::HashMap;
use std::path::Path;

/// A process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Owner {
    pub name: String,
    pub pid: u32,
    pub fd: u32,
}

/// Descriptors that are looked at in one process.
const DESCRIPTORS_MAX: usize = 1 << 20;

/// Holders of sockets by inode; processes that we may not look into are left out.
pub(crate) fn by_inode() -> HashMap<u64, Vec<Owner>> {
    let mut owners: HashMap<u64, Vec<Owner>> = HashMap::new();
    let Ok(processes) = std::fs::read_dir("/proc") else { return owners };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let folder = format!("/proc/{pid}/fd");
        let Ok(descriptors) = std::fs::read_dir(&folder) else { continue };
        let mut name = None;
        for entry in descriptors.flatten().take(DESCRIPTORS_MAX) {
            let Some(inode) = socket_inode(&entry.path()) else { continue };
            let Some(fd) = entry.file_name().to_str().and_then(|fd| fd.parse().ok()) else { continue };
            let name = name.get_or_insert_with(|| process_name(pid)).clone();
            owners.entry(inode).or_default().push(Owner { name, pid, fd });
        }
    }
    owners
}

/// The command name of a process; `?` if it has gone.
pub(crate) fn process_name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map_or("?".into(), |name| name.trim_end().into())
}

fn socket_inode(link: &Path) -> Option<u64> {
    let target = std::fs::read_link(link).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn own_sockets_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = listener.as_raw_fd() as u32;
        let inode = socket_inode(Path::new(&format!("/proc/self/fd/{fd}"))).unwrap();
        let found = by_inode().remove(&inode).unwrap();
        assert!(found.iter().any(|o| o.pid == std::process::id() && o.fd == fd));
    }
}
