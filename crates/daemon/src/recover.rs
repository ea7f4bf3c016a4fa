//! After a monitor was killed: the names at which processes still have ports open, found again.
//!
//! The memory lives on in the processes that have it mapped, and `/proc/PID/fd` shows its memfds with their names. Whose
//! it is says the inode's owner, which only the monitor that made it could set: what somebody else puts there under such a
//! name is his own at most. Without this, who opens a port after the kill would find an empty switch beside the busy one.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ringway_mem::fabric::Fabric;
use ringway_mem::pool::{self, Pool};
use ringway_port::meeting::message::What;
use rustix::fs::{Mode, OFlags};

use crate::meetings::{FABRIC_LABEL, Meeting, POOL_LABEL};
use crate::monitor::Monitor;
use crate::peer::Peer;

/// Descriptors looked at, of all processes together.
const LOOKS_MAX: usize = 1 << 20;

/// Memory with a name, by inode number: the same one is found in every process that has it.
type Files = BTreeMap<u64, File>;

/// What was found under the name of one user.
#[derive(Default)]
struct Remains {
    pools: Files,
    fabrics: Files,
}

impl Monitor {
    /// Looks through the processes that this monitor may look into.
    pub(crate) fn recover_meetings(&mut self) {
        for ((name, uid), remains) in look_everywhere() {
            if self.meetings.get(&name).is_some() || !self.has_room_for_name_of(uid) {
                tracing::warn!(
                    "{name} of uid {uid} is in use by processes of an earlier monitor, but not to be met at"
                );
                continue;
            }
            match revive(remains, uid) {
                Ok(Some(meeting)) => self.meetings.insert(name, meeting),
                Ok(None) => {}
                Err(why) => tracing::warn!("{name} of uid {uid} cannot be met at any more: {why}"),
            }
        }
    }
}

fn look_everywhere() -> BTreeMap<(String, u32), Remains> {
    let mut found = BTreeMap::<_, Remains>::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let folders = processes.filter(|entry| is_process(&entry.file_name())).map(|entry| entry.path().join("fd"));
    let descriptors = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    for (looks, descriptor) in descriptors.enumerate() {
        if looks == LOOKS_MAX {
            tracing::warn!("only {LOOKS_MAX} descriptors were searched for memory behind names: names may be missing");
            break;
        }
        look_at(&descriptor.path(), &mut found);
    }
    found
}

/// Keeps what a descriptor stands for if that is memory with a name.
fn look_at(descriptor: &Path, found: &mut BTreeMap<(String, u32), Remains>) {
    let Ok(target) = std::fs::read_link(descriptor) else { return };
    let Some(label) = target.to_str().and_then(|text| text.strip_prefix("/memfd:")?.strip_suffix(" (deleted)")) else {
        return;
    };
    let (name, is_pool) = match (label.strip_prefix(POOL_LABEL), label.strip_prefix(FABRIC_LABEL)) {
        (Some(name), _) => (name, true),
        (_, Some(name)) => (name, false),
        _ => return,
    };
    let Some((file, meta)) = open_memory(descriptor) else { return };
    if !rustix::process::geteuid().is_root() && meta.uid() != rustix::process::geteuid().as_raw() {
        return;
    }
    let remains = found.entry((name.to_owned(), meta.uid())).or_default();
    let files = if is_pool { &mut remains.pools } else { &mut remains.fabrics };
    files.insert(meta.ino(), file);
}

/// Opens what a descriptor stands for if it is a file without a name. It is looked at first: it may be another by now,
/// and to open a device has effects.
fn open_memory(descriptor: &Path) -> Option<(File, Metadata)> {
    let held = rustix::fs::open(descriptor, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let held = File::from(held);
    let meta = held.metadata().ok().filter(|meta| meta.is_file() && meta.nlink() == 0)?;
    let file = OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{}", held.as_raw_fd()));
    Some((file.ok()?, meta))
}

/// The meeting, if anybody is there.
///
/// # Errors
/// Why what is left is no meeting.
fn revive(remains: Remains, uid: u32) -> Result<Option<Meeting>, String> {
    let mut pools = remains.pools.into_values().filter(|file| pool::is_in_use(file.as_fd()));
    let Some(pool) = pools.next() else { return Ok(None) };
    let mut fabrics = remains.fabrics.into_values();
    let fabric = fabrics.next();
    if pools.next().is_some() || fabrics.next().is_some() {
        return Err("its memory is there more than once".to_owned());
    }
    let copy = |file: &File| file.try_clone().map(OwnedFd::from).map_err(|e| e.to_string());
    // The length, the seals and the beginning are as they must be.
    Pool::attach(copy(&pool)?).map_err(|e| e.to_string())?;
    let mut memory = vec![pool.into()];
    if let Some(fabric) = fabric {
        Fabric::attach(copy(&fabric)?).map_err(|e| e.to_string())?;
        memory.push(fabric.into());
    }
    let what = if memory.len() == What::Switch.descriptors() { What::Switch } else { What::Pool };
    let owner = Peer { uid, gid: u32::MAX, pid: 0, comm: String::new(), cgroup: String::new() };
    Ok(Some(Meeting { what, owner, memory, guests: 0, stays_until: None }))
}
