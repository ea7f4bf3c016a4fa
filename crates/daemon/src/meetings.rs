//! Names at which processes meet, and the memory behind each: a plain table.
//!
//! A name keeps its memory while somebody is about to open a port of it (a *guest*), or has one open; the second the
//! kernel tells by locks on the memory's memfd, however its users ended. What lies in the memory is never looked at here.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{self, Pool};
use ringway_port::meeting::message::{Request, What};

use crate::peer::Peer;

/// Bytes of address space behind one name at most; memory is used as it is touched.
const REGION_BYTES_MAX: usize = 4 << 30;
/// What the kernel counts a file's memory in.
const BLOCK_BYTES: u64 = 512;

/// Beginning of the names of the memfds, as `/proc/PID/fd` shows them; the name of the meeting follows.
pub(crate) const POOL_LABEL: &str = "ringway-port:";
pub(crate) const FABRIC_LABEL: &str = "ringway-switch:";

/// A name, and what is there.
#[derive(Debug)]
pub(crate) struct Meeting {
    pub(crate) what: What,
    /// Who asked for the name first.
    pub(crate) owner: Peer,
    /// A pool's memfd, and for a switch its fabric's.
    pub(crate) memory: Vec<OwnedFd>,
    /// Connections of processes that are about to open a port.
    pub(crate) guests: u32,
    /// Until then it stays in any case: its guests were another monitor's.
    pub(crate) stays_until: Option<Instant>,
}

impl Meeting {
    /// Makes the memory for a request.
    ///
    /// # Errors
    /// The size is out of bounds, or there is no memory.
    pub(crate) fn create(request: &Request, owner: &Peer) -> Result<Meeting, String> {
        let labelled = |label: &str| format!("{label}{}", request.name);
        let pool = Pool::create_labelled(&labelled(POOL_LABEL), request.config).map_err(|e| e.to_string())?;
        if pool.bytes() > REGION_BYTES_MAX {
            return Err(format!("{} bytes of memory behind one name; at most {REGION_BYTES_MAX}", pool.bytes()));
        }
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|e| e.to_string());
        let mut memory = vec![copy(pool.fd())?];
        if request.what == What::Switch {
            let fabric = Fabric::create_labelled(&labelled(FABRIC_LABEL)).map_err(|e| e.to_string())?;
            memory.push(copy(fabric.fd())?);
        }
        if rustix::process::geteuid().is_root() {
            // Whose it is, for a monitor after this one (`recover`).
            let uid = Some(rustix::process::Uid::from_raw(owner.uid));
            memory.iter().try_for_each(|fd| rustix::fs::fchown(fd, uid, None)).map_err(|e| e.to_string())?;
        }
        Ok(Meeting { what: request.what, owner: owner.clone(), memory, guests: 0, stays_until: None })
    }

    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.memory.iter().map(AsFd::as_fd).collect()
    }

    /// Whether anybody has a port open here.
    pub(crate) fn is_in_use(&self) -> bool {
        self.memory.first().is_some_and(|pool| pool::is_in_use(pool.as_fd()))
    }

    fn may_go(&self, now: Instant) -> bool {
        self.guests == 0 && self.stays_until.is_none_or(|until| now >= until) && !self.is_in_use()
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let blocks = self.memory.iter().filter_map(|fd| rustix::fs::fstat(fd).ok()).map(|stat| stat.st_blocks as u64);
        blocks.sum::<u64>() * BLOCK_BYTES
    }
}

/// See the module. The caller bounds the number of names.
#[derive(Debug, Default)]
pub(crate) struct MeetingTable {
    by_name: BTreeMap<String, Meeting>,
    /// Memory behind the names of each user as it was last measured, in bytes.
    sampled: BTreeMap<u32, u64>,
}

impl MeetingTable {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Meeting)> {
        self.by_name.iter()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Meeting> {
        self.by_name.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Meeting> {
        self.by_name.get_mut(name)
    }

    /// Puts memory behind a name, in the place of what was there.
    pub(crate) fn insert(&mut self, name: String, meeting: Meeting) {
        self.by_name.insert(name, meeting);
    }

    pub(crate) fn names_of(&self, uid: u32) -> usize {
        self.by_name.values().filter(|meeting| meeting.owner.uid == uid).count()
    }

    /// Memory behind the names of a user, in bytes.
    pub(crate) fn memory_bytes(&self, uid: u32) -> u64 {
        self.by_name.values().filter(|meeting| meeting.owner.uid == uid).map(Meeting::memory_bytes).sum()
    }

    /// Measures what users have touched since the names were made.
    pub(crate) fn sample_memory(&mut self) {
        self.sampled.clear();
        for meeting in self.by_name.values() {
            *self.sampled.entry(meeting.owner.uid).or_default() += meeting.memory_bytes();
        }
    }

    /// Memory behind the names of a user, in bytes, as last measured: for those who ask often.
    pub(crate) fn charged_bytes(&self, uid: u32) -> u64 {
        self.sampled.get(&uid).copied().unwrap_or_default()
    }

    /// Forgets the name if nobody is there.
    pub(crate) fn tidy(&mut self, name: &str, now: Instant) {
        if self.by_name.get(name).is_some_and(|meeting| meeting.may_go(now)) {
            self.by_name.remove(name);
        }
    }

    /// Forgets all names at which nobody is.
    pub(crate) fn tidy_all(&mut self, now: Instant) {
        self.by_name.retain(|_, meeting| !meeting.may_go(now));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringway_mem::pool::{PoolConfig, RingCounts, Sharing};

    use super::*;

    fn peer(uid: u32) -> Peer {
        Peer { uid, gid: uid, pid: 1, comm: String::new(), cgroup: String::new() }
    }

    fn meeting(what: What, buffers: u32) -> Result<Meeting, String> {
        let config = PoolConfig { buffers, buffer_bytes: 2048, object_pages: 64 };
        let own = rustix::process::geteuid().as_raw();
        Meeting::create(&Request { what, name: "vale0".to_owned(), config }, &peer(own))
    }

    #[test]
    fn a_name_stays_while_a_guest_is_there_or_a_port_is_open() {
        let now = Instant::now();
        let mut table = MeetingTable::default();
        table.insert("vale0".to_owned(), Meeting { guests: 1, ..meeting(What::Switch, 4096).unwrap() });
        table.tidy("vale0", now);
        assert_eq!(table.get("vale0").map(|meeting| meeting.memory.len()), Some(2));
        let pool = Pool::attach(table.get("vale0").unwrap().memory[0].try_clone().unwrap()).unwrap();
        let port = pool.open("a", RingCounts::pairs(1, 16), Sharing::Shared).unwrap();
        table.get_mut("vale0").unwrap().guests = 0;
        table.tidy_all(now);
        assert!(table.get("vale0").is_some_and(Meeting::is_in_use));
        drop(port);
        table.get_mut("vale0").unwrap().stays_until = Some(now + Duration::from_secs(1));
        table.tidy_all(now);
        assert_eq!(table.len(), 1);
        table.tidy_all(now + Duration::from_secs(1));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn memory_is_counted_by_what_is_used_and_bounded_by_its_length() {
        let own = rustix::process::geteuid().as_raw();
        let mut table = MeetingTable::default();
        table.insert("vale0".to_owned(), meeting(What::Pool, 1 << 18).unwrap());
        let before = table.memory_bytes(own);
        assert!(before < 4 << 20, "{before}");
        rustix::io::pwrite(&table.get("vale0").unwrap().memory[0], &[1; 100], 300 << 20).unwrap();
        assert_eq!((table.memory_bytes(own), table.names_of(own)), (before + 4096, 1));
        let large = PoolConfig { buffers: 1 << 20, buffer_bytes: 65_536, object_pages: 64 };
        let request = Request { what: What::Pool, name: "x".to_owned(), config: large };
        assert!(Meeting::create(&request, &peer(own)).unwrap_err().contains("at most"));
    }
}
