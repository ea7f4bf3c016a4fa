//! The upgraded connections: their descriptors, their members, and the memory they hold.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use ringway_channel::Reason;
use ringway_channel::end::EndPage;
use ringway_channel::layout::{CLASS_BYTES, END_REGION_BYTES, HEADER_BYTES, RING_MAGIC, RING_REGION_BYTES, RingHeader};
use ringway_channel::rendezvous::{PROTOCOL_VERSION, Role};
use ringway_mem::region::{RegionError, create_sealed};

use crate::endpoint::{Endpoint, SocketId};
use crate::vault::{Slot, Vault};

/// What a connection is charged with at least: the header, the smallest rings, both end regions.
pub(crate) const CONNECTION_BYTES_MIN: u64 = (HEADER_BYTES + 2 * CLASS_BYTES[0] + 2 * END_REGION_BYTES) as u64;

/// Whether an end still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// A process that holds it is connected to the monitor.
    Held,
    /// Nobody connected is known to hold it; the sweep finds out.
    Suspect { since: Instant },
    /// The kernel says that the socket is no more.
    Gone,
}

/// One end of an upgraded connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    pub(crate) uid: u32,
    /// Clients that were given this end.
    pub(crate) members: Vec<u64>,
    pub(crate) life: Life,
    /// Whether it stands in the queue of suspects (it does so once at most).
    queued: bool,
    /// Why it went back to TCP; `None` while it has not.
    pub(crate) demoted: Reason,
}

impl End {
    /// An end that a process is about to get.
    pub(crate) fn new(endpoint: Endpoint, uid: u32) -> End {
        let (life, demoted) = (Life::Held, Reason::None);
        End { endpoint, uid, members: Vec::new(), life, queued: false, demoted }
    }
}

/// One upgraded connection; `ends[0]` has role A.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) ring: OwnedFd,
    pub(crate) ends: [End; 2],
    pub(crate) charged_bytes: u64,
    /// Where both end regions lie.
    slot: Slot,
}

impl Connection {
    fn uids(&self) -> impl Iterator<Item = u32> + use<> {
        let [a, b] = [self.ends[0].uid, self.ends[1].uid];
        std::iter::once(a).chain((a != b).then_some(b))
    }

    pub(crate) fn end(&self, role: Role) -> &End {
        &self.ends[role as usize]
    }
}

/// An end by connection number and role.
pub(crate) type EndRef = (u64, Role);

/// See the module. The caller bounds the number of connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    vault: Vault,
    /// The end regions of the newest connection, which is about to be handed out.
    newest: Option<(u64, [OwnedFd; 2])>,
    by_number: BTreeMap<u64, Connection>,
    by_id: HashMap<SocketId, EndRef>,
    uid_bytes: HashMap<u32, u64>,
    suspects: VecDeque<EndRef>,
    /// Where the next sampling of memory goes on.
    sampled_to: u64,
    last_number: u64,
}

impl ConnectionTable {
    pub(crate) fn new(vault: Vault) -> ConnectionTable {
        ConnectionTable {
            vault,
            newest: None,
            by_number: BTreeMap::new(),
            by_id: HashMap::new(),
            uid_bytes: HashMap::new(),
            suspects: VecDeque::new(),
            sampled_to: 0,
            last_number: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Connection> {
        self.by_number.get(&number)
    }

    /// The end that this socket is. A socket keeps its cookie when its program dissolves the connection and makes
    /// another one: what is known of the old one is forgotten then.
    pub(crate) fn find(&mut self, endpoint: &Endpoint) -> Option<EndRef> {
        let end = self.by_id.get(&endpoint.id).copied()?;
        let same = self.get(end.0).is_some_and(|known| known.end(end.1).endpoint.tuple == endpoint.tuple);
        if !same {
            self.remove(end.0);
        }
        same.then_some(end)
    }

    /// Connections whose number is at least `from`, ascending.
    pub(crate) fn from(&self, from: u64) -> impl Iterator<Item = &Connection> {
        self.by_number.range(from..).map(|(_, connection)| connection)
    }

    /// The highest number given out so far.
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Never gives out a number up to `number` again.
    pub(crate) fn skip_to(&mut self, number: u64) {
        self.last_number = self.last_number.max(number);
    }

    /// Bytes that count against the cap of `uid`.
    pub(crate) fn charged_bytes(&self, uid: u32) -> u64 {
        self.uid_bytes.get(&uid).copied().unwrap_or(0)
    }

    pub(crate) fn charged_by_uid(&self) -> impl Iterator<Item = (u32, u64)> {
        self.uid_bytes.iter().map(|(uid, bytes)| (*uid, *bytes))
    }

    /// Makes the regions of a new connection and enters it; `ends` are A and B with their owners.
    pub(crate) fn create(&mut self, ends: [(Endpoint, u32); 2]) -> Result<u64, RegionError> {
        let number = self.last_number + 1;
        let ring = create_ring(number)?;
        let regions =
            [create_sealed("ringway-end", END_REGION_BYTES)?, create_sealed("ringway-end", END_REGION_BYTES)?];
        let ends = ends.map(|(endpoint, uid)| End::new(endpoint, uid));
        self.insert(number, ring, ends, regions, CONNECTION_BYTES_MIN)?;
        Ok(number)
    }

    /// Enters a connection as it is.
    pub(crate) fn insert(
        &mut self,
        number: u64,
        ring: OwnedFd,
        mut ends: [End; 2],
        regions: [OwnedFd; 2],
        charged_bytes: u64,
    ) -> Result<(), RegionError> {
        let slot = self.vault.put(number, [regions[0].as_fd(), regions[1].as_fd()])?;
        self.newest = Some((number, regions));
        self.skip_to(number);
        for (end, role) in ends.iter_mut().zip([Role::A, Role::B]) {
            self.by_id.insert(end.endpoint.id, (number, role));
            end.queued = matches!(end.life, Life::Suspect { .. });
            if end.queued {
                self.suspects.push_back((number, role));
            }
        }
        let connection = Connection { number, ring, ends, charged_bytes, slot };
        for uid in connection.uids() {
            *self.uid_bytes.entry(uid).or_default() += charged_bytes;
        }
        self.by_number.insert(number, connection);
        Ok(())
    }

    /// Both end regions of a connection.
    pub(crate) fn end_regions(&self, number: u64) -> Option<[OwnedFd; 2]> {
        match &self.newest {
            Some((newest, [a, b])) if *newest == number => Some([a.try_clone().ok()?, b.try_clone().ok()?]),
            _ => self.vault.get(self.get(number)?.slot),
        }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.by_number.remove(&number)?;
        self.vault.forget(connection.slot);
        self.newest = self.newest.take().filter(|(newest, _)| *newest != number);
        for end in &connection.ends {
            // The kernel may have given both ends' addresses to a newer connection, never the cookies.
            self.by_id.remove(&end.endpoint.id);
        }
        for uid in connection.uids() {
            self.credit(uid, connection.charged_bytes);
        }
        Some(connection)
    }

    fn credit(&mut self, uid: u32, bytes: u64) {
        if let Some(sum) = self.uid_bytes.get_mut(&uid) {
            *sum = sum.saturating_sub(bytes);
            if *sum == 0 {
                self.uid_bytes.remove(&uid);
            }
        }
    }

    fn end_mut(&mut self, (number, role): EndRef) -> Option<&mut End> {
        self.by_number.get_mut(&number).map(|connection| &mut connection.ends[role as usize])
    }

    /// `client` holds this end from now on.
    pub(crate) fn join(&mut self, at: EndRef, client: u64) {
        let Some(end) = self.end_mut(at) else { return };
        end.life = Life::Held;
        if !end.members.contains(&client) {
            end.members.push(client);
        }
        if end.members.len() == 2
            && let Some(regions) = self.end_regions(at.0)
        {
            mark_shared(&regions[at.1 as usize]);
        }
    }

    /// `client` holds this end no more.
    pub(crate) fn leave(&mut self, at: EndRef, client: u64, now: Instant) {
        let Some(end) = self.end_mut(at) else { return };
        end.members.retain(|member| *member != client);
        if end.members.is_empty() && end.life == Life::Held {
            end.life = Life::Suspect { since: now };
            if !std::mem::replace(&mut end.queued, true) {
                self.suspects.push_back(at);
            }
        }
    }

    pub(crate) fn demote(&mut self, at: EndRef, reason: Reason) {
        if let Some(end) = self.end_mut(at) {
            end.demoted = reason;
        }
    }

    pub(crate) fn suspects(&self) -> usize {
        self.suspects.len()
    }

    /// The next suspect in turn, with the time when it became one; the caller answers with
    /// `keep_suspect` or `bury`.
    pub(crate) fn next_suspect(&mut self) -> Option<(EndRef, Endpoint, Instant)> {
        while let Some(at) = self.suspects.pop_front() {
            let Some(end) = self.end_mut(at) else { continue };
            end.queued = false;
            if let Life::Suspect { since } = end.life {
                return Some((at, end.endpoint, since));
            }
        }
        None
    }

    /// Its socket lives: ask again later.
    pub(crate) fn keep_suspect(&mut self, at: EndRef) {
        if let Some(end) = self.end_mut(at).filter(|end| !end.queued) {
            end.queued = true;
            self.suspects.push_back(at);
        }
    }

    /// Its socket is gone. Once both ends are, the connection leaves the table.
    pub(crate) fn bury(&mut self, at: EndRef) -> Option<Connection> {
        self.end_mut(at)?.life = Life::Gone;
        let over = self.get(at.0)?.ends.iter().all(|end| end.life == Life::Gone);
        over.then(|| self.remove(at.0)).flatten()
    }

    /// Measures the resident memory of the next `count` connections, in turn.
    pub(crate) fn sample_memory(&mut self, count: usize) {
        let mut numbers: Vec<u64> = self.by_number.range(self.sampled_to + 1..).map(|(n, _)| *n).take(count).collect();
        if numbers.is_empty() {
            numbers = self.by_number.keys().copied().take(count).collect();
        }
        for number in numbers {
            self.sampled_to = number;
            let Some(connection) = self.by_number.get_mut(&number) else { continue };
            let measured = resident_bytes(connection).max(CONNECTION_BYTES_MIN);
            let before = std::mem::replace(&mut connection.charged_bytes, measured);
            for uid in connection.uids() {
                let sum = self.uid_bytes.entry(uid).or_default();
                *sum = (*sum + measured).saturating_sub(before);
            }
        }
    }
}

/// Tells the holders of an end that they are several: only the monitor sees it when relatives of one
/// process attach on their own.
fn mark_shared(region: &OwnedFd) {
    let _ = rustix::io::pwrite(region, &1u32.to_ne_bytes(), offset_of!(EndPage, shared) as u64);
}

fn resident_bytes(connection: &Connection) -> u64 {
    // st_blocks counts 512-byte units whatever the block size.
    let blocks = rustix::fs::fstat(&connection.ring).map_or(0, |stat| stat.st_blocks as u64);
    512 * blocks + 2 * END_REGION_BYTES as u64
}

/// A ring region with its header filled in. Nobody else knows the file yet, so plain writes will do.
fn create_ring(number: u64) -> Result<OwnedFd, RegionError> {
    let ring = create_sealed("ringway-ring", RING_REGION_BYTES)?;
    let mut header = [0u8; offset_of!(RingHeader, connection) + 8];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(offset_of!(RingHeader, magic), &RING_MAGIC.to_ne_bytes());
    put(offset_of!(RingHeader, version), &u32::from(PROTOCOL_VERSION).to_ne_bytes());
    put(offset_of!(RingHeader, region_bytes), &(RING_REGION_BYTES as u32).to_ne_bytes());
    put(offset_of!(RingHeader, connection), &number.to_ne_bytes());
    match rustix::io::pwrite(&ring, &header, 0)? {
        n if n == header.len() => Ok(ring),
        _ => Err(RegionError::Os(rustix::io::Errno::NOSPC)),
    }
}
