//! Watching a ring without taking part: for captures.
//!
//! An observer maps the ring region read-only and copies bytes that the producer may be overwriting
//! at that moment, so it proves afterwards that they stood still, or counts them as lost:
//!
//! * Bytes of the current epoch stood still if epoch and tail, read after the copy, leave them out of
//!   the producer's reach. Its reach beyond the published tail is [`unpublished_max_bytes`].
//! * The last bytes of an epoch are often overtaken: a quiet ring starts over at its area's first byte
//!   at every page. Whether the write that was under way during the copy hit them shows when it is
//!   published; until then they are held back, [`SETTLE`] at most.
//! * What lies further back than the previous epoch is lost.
//!
//! Nothing here slows the two ends, and what they scribble leads to wrong captures, never further.

use std::os::fd::AsFd;
use std::sync::atomic::{Ordering::*, fence};
use std::time::Duration;

use ringway_mem::region::{Region, RegionError};
use ringway_mem::ring::{Epoch, Violation};

use crate::end::Path;
use crate::layout::{Direction, RING_MAGIC, RING_REGION_BYTES, RingHeader, area_offset};
use crate::rendezvous::PROTOCOL_VERSION;

/// How far beyond its tail a producer writes before it publishes, by the ring's capacity.
/// A producer that exceeds it is served correctly, but its captures may show torn bytes.
pub const fn unpublished_max_bytes(capacity_bytes: u64) -> u64 {
    capacity_bytes / 4
}

/// How long bytes are held back for the next publication; then the worst is assumed of it.
pub const SETTLE: Duration = Duration::from_millis(5);

/// Looks, [`SETTLE`] apart, after which a direction that rests has shown everything: one for what is held
/// back, two for the rest of the epoch after it, one for the current epoch.
pub const FINAL_LOOKS: u32 = 4;

/// Why a descriptor cannot be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveError {
    Region(RegionError),
    /// Not the header of a ring region of this release.
    Header {
        magic: u64,
        version: u32,
    },
}

impl std::fmt::Display for ObserveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ObserveError::Region(e) => e.fmt(f),
            ObserveError::Header { magic, version } => {
                write!(f, "not a ring of this release (magic {magic:#x}, version {version})")
            }
        }
    }
}

impl std::error::Error for ObserveError {}

/// A read-only view of both directions of one connection.
#[derive(Debug)]
pub struct RingObserver {
    region: Region,
}

/// The public words of one direction at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Ring bytes published.
    pub tail: u64,
    /// Ring bytes consumed.
    pub head: u64,
    pub capacity_bytes: u64,
    pub path: Path,
    /// TCP bytes before the ring begins; only meaningful if `path` is not [`Path::Tcp`].
    pub ring_begins_at: u64,
}

/// How far one direction has been observed.
#[derive(Debug)]
pub struct Cursor {
    direction: usize,
    at: u64,
    epoch: Epoch,
    overtaken: Option<Overtaken>,
}

/// Copied bytes of the previous epoch that a write may have hit during the copy.
#[derive(Debug)]
struct Overtaken {
    bytes: Vec<u8>,
    /// Position of the first byte in its area.
    position: u64,
    /// The epoch that overwrites them, and its tail after the copy.
    by: Epoch,
    tail: u64,
    since: Duration,
}

/// What one look found: first `lost_bytes` that nobody can show any more, then the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub lost_bytes: u64,
    /// Ring offset of the first byte found.
    pub offset: u64,
}

impl RingObserver {
    /// Maps the ring region behind `fd` for reading.
    ///
    /// # Errors
    /// A region of another size, without its seals, or with another release's header.
    pub fn open(fd: impl AsFd) -> Result<RingObserver, ObserveError> {
        let region = Region::open_read_only(fd, RING_REGION_BYTES).map_err(ObserveError::Region)?;
        let observer = RingObserver { region };
        let (magic, version) = (observer.header().magic.load(Relaxed), observer.header().version.load(Relaxed));
        match magic == RING_MAGIC && version == u32::from(PROTOCOL_VERSION) {
            true => Ok(observer),
            false => Err(ObserveError::Header { magic, version }),
        }
    }

    fn header(&self) -> &RingHeader {
        // SAFETY: the mapping is page-aligned and longer than the header (checked by `Region::open`), which
        // consists of atomics, valid for any bytes; it lives as long as `self`. Only loads are done,
        // so that the mapping may be read-only.
        unsafe { self.region.base().cast::<RingHeader>().as_ref() }
    }

    fn words(&self, direction: usize) -> &Direction {
        &self.header().directions[direction]
    }

    /// The monitor's number for the connection.
    pub fn connection(&self) -> u64 {
        self.header().connection.load(Relaxed)
    }

    /// The public words of `direction` (0: A sends, 1: B sends).
    pub fn progress(&self, direction: usize) -> Progress {
        let words = self.words(direction);
        // Head first: it never exceeds a tail that is read later.
        let head = words.consumer.head.load(Acquire);
        let path = Path::from_number(words.switch.path.load(Acquire));
        Progress {
            head,
            path,
            tail: words.producer.tail.load(Acquire),
            capacity_bytes: Epoch(words.producer.epoch.load(Acquire)).capacity(),
            ring_begins_at: words.switch.ring_begins_at.load(Relaxed),
        }
    }

    /// A cursor at the oldest byte of `direction` that is not consumed yet.
    pub fn cursor(&self, direction: usize) -> Cursor {
        let words = self.words(direction);
        let head = words.consumer.head.load(Acquire);
        let epoch = Epoch(words.producer.epoch.load(Acquire));
        Cursor { direction, at: head.max(epoch.start()), epoch, overtaken: None }
    }

    /// Appends what is new in the direction to `out`, at most one ring's capacity. `now` is any clock
    /// that does not go back.
    ///
    /// # Errors
    /// The producer's words are impossible; the cursor is of no more use.
    pub fn look(&self, cursor: &mut Cursor, now: Duration, out: &mut Vec<u8>) -> Result<Look, Violation> {
        if let Some(overtaken) = cursor.overtaken.take() {
            return Ok(self.settle(cursor, overtaken, now, out));
        }
        let line = &self.words(cursor.direction).producer;
        let epoch = Epoch(line.epoch.load(Acquire));
        if epoch != cursor.epoch {
            let previous = Epoch(line.previous_epoch.load(Acquire));
            return self.follow(cursor, epoch, previous, now, out);
        }
        let tail = line.tail.load(Acquire);
        let head = self.words(cursor.direction).consumer.head.load(Acquire);
        if tail < cursor.at {
            return Err(Violation::Tail { head, tail });
        }
        let begin = cursor.at.max(tail.saturating_sub(epoch.capacity()));
        let kept = out.len();
        self.copy(cursor.direction, epoch, begin, tail - begin, out);
        fence(Acquire);
        if line.epoch.load(Relaxed) != epoch.0 {
            // The producer has started over meanwhile; the next look sorts it out.
            out.truncate(kept);
            return Ok(Look { lost_bytes: 0, offset: cursor.at });
        }
        let reach = line.tail.load(Relaxed).saturating_add(unpublished_max_bytes(epoch.capacity()));
        // What the consumer has not given back cannot be overwritten, however near the producer is.
        let unread_from = self.words(cursor.direction).consumer.head.load(Relaxed);
        let still_from = reach.saturating_sub(epoch.capacity()).min(unread_from);
        let torn = still_from.saturating_sub(begin).min(tail - begin);
        out.drain(kept..kept + torn as usize);
        let look = Look { lost_bytes: begin + torn - cursor.at, offset: begin + torn };
        cursor.at = tail;
        Ok(look)
    }

    /// Goes on to a new epoch, with the rest of the old one if that can still be read.
    #[cold]
    fn follow(
        &self,
        cursor: &mut Cursor,
        epoch: Epoch,
        previous: Epoch,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<Look, Violation> {
        let (old, at) = (cursor.epoch, cursor.at);
        if epoch.start() < at {
            return Err(Violation::Epoch { start: epoch.start(), head: at });
        }
        (cursor.epoch, cursor.at) = (epoch, epoch.start());
        let rest = epoch.start() - at;
        // A smaller epoch may have given the pages of the old area back.
        if rest == 0 || previous != old || epoch.class() < old.class() {
            return Ok(Look { lost_bytes: rest, offset: cursor.at });
        }
        let begin = at.max(epoch.start().saturating_sub(old.capacity()));
        let kept = out.len();
        self.copy(cursor.direction, old, begin, epoch.start() - begin, out);
        fence(Acquire);
        let line = &self.words(cursor.direction).producer;
        if line.epoch.load(Relaxed) != epoch.0 {
            out.truncate(kept);
            return Ok(Look { lost_bytes: rest, offset: cursor.at });
        }
        if epoch.class() == old.class() {
            let bytes = out.split_off(kept);
            let position = old.position(begin);
            let tail = line.tail.load(Relaxed);
            cursor.overtaken = Some(Overtaken { bytes, position, by: epoch, tail, since: now });
        }
        Ok(Look { lost_bytes: begin - at, offset: begin })
    }

    /// Decides about held-back bytes once the write that may have hit them is known.
    fn settle(&self, cursor: &mut Cursor, overtaken: Overtaken, now: Duration, out: &mut Vec<u8>) -> Look {
        let Overtaken { bytes, position, by, tail, since } = &overtaken;
        let line = &self.words(cursor.direction).producer;
        let epoch = Epoch(line.epoch.load(Acquire));
        let written_to = match epoch == *by {
            true => Some(line.tail.load(Acquire)),
            false if line.previous_epoch.load(Acquire) == by.0 => Some(epoch.start()),
            false => None,
        };
        let offset = by.start() - bytes.len() as u64;
        if written_to == Some(*tail) && epoch == *by && now.saturating_sub(*since) < SETTLE {
            cursor.overtaken = Some(overtaken);
            return Look { lost_bytes: 0, offset };
        }
        // Nothing published since the copy: a write of any size may have been under way.
        let unpublished = match written_to == Some(*tail) && epoch == *by {
            true => unpublished_max_bytes(by.capacity()),
            false => 0,
        };
        let reach = written_to.map_or(u64::MAX, |to| to.saturating_sub(by.start()).saturating_add(unpublished));
        let torn = bytes_hit(*position, bytes.len() as u64, by.capacity(), reach);
        out.extend_from_slice(&bytes[torn as usize..]);
        Look { lost_bytes: torn, offset: offset + torn }
    }

    /// Appends `len` bytes from stream offset `offset` on, as `epoch` places them.
    fn copy(&self, direction: usize, epoch: Epoch, offset: u64, len: u64, out: &mut Vec<u8>) {
        let capacity = epoch.capacity();
        debug_assert!(len <= capacity);
        let at = epoch.position(offset);
        let first = len.min(capacity - at);
        let area = area_offset(epoch.class(), direction);
        for (position, len) in [(at, first), (0, len - first)] {
            let from = area + position as usize;
            assert!(from + len as usize <= self.region.bytes());
            out.reserve(len as usize);
            // SAFETY: the source lies inside the mapping (asserted) and is only read; the destination was just
            // reserved and does not overlap it. Another process may change the bytes during the copy:
            // they are plain bytes, valid whatever they hold, and the caller judges them afterwards.
            unsafe {
                let source = self.region.base().as_ptr().add(from);
                let target = out.as_mut_ptr().add(out.len());
                std::ptr::copy_nonoverlapping(source, target, len as usize);
                out.set_len(out.len() + len as usize);
            }
        }
    }
}

/// How many of `len` bytes at ring position `position` must be given up if the positions below
/// `reach` were overwritten: all up to the last byte hit.
fn bytes_hit(position: u64, len: u64, capacity: u64, reach: u64) -> u64 {
    let before_wrap = len.min(capacity - position);
    let hit_after_wrap = (len - before_wrap).min(reach);
    match hit_after_wrap {
        0 => before_wrap.min(reach.saturating_sub(position)),
        hit => before_wrap + hit,
    }
}

#[cfg(test)]
mod tests;
