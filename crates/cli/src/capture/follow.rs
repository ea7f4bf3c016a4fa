//! One upgraded connection, its two rings looked at in turns.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use ringway_channel::Path;
use ringway_channel::observe::{Cursor, RingObserver};
use ringway_daemon::control::Connection;
use ringway_mem::ring::Violation;

use super::packet::{PAYLOAD_MAX, Segment};
use super::pcapng::Writer;

/// A connection under observation.
pub(crate) struct Followed {
    number: u64,
    observer: RingObserver,
    /// Whose connection it is: the comment of its first packet.
    introduction: String,
    /// Ends A and B.
    addresses: [SocketAddr; 2],
    cursors: [Cursor; 2],
    /// Stream position up to which each direction was shown, for acknowledgement numbers.
    shown_to: [u64; 2],
    outlived: bool,
}

/// What looking has brought so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub packets: u64,
    pub payload_bytes: u64,
    pub lost_bytes: u64,
}

impl Followed {
    /// Begins with the oldest bytes that are still unread.
    pub(crate) fn begin(observer: RingObserver, connection: &Connection) -> Followed {
        let end = |i: usize| {
            let end = &connection.ends[i];
            let holders: Vec<_> = end.processes.iter().map(|p| format!("{}[{}]", p.comm, p.pid)).collect();
            format!("{} {}", end.local, holders.join(","))
        };
        let introduction = format!("ringway: connection {}, {} - {}", connection.connection, end(0), end(1));
        let cursors = [observer.cursor(0), observer.cursor(1)];
        let shown_to = [0, 1].map(|i| stream_position(&observer, i, observer.progress(i).head));
        let addresses = [connection.ends[0].local, connection.ends[1].local];
        Followed {
            number: connection.connection,
            observer,
            introduction,
            addresses,
            cursors,
            shown_to,
            outlived: false,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Notes that the connection has ended; `true` the first time.
    pub(crate) fn outlive(&mut self) -> bool {
        !std::mem::replace(&mut self.outlived, true)
    }

    /// Writes what is new as packets, at most `packets_max` of them; whether anything was.
    pub(crate) fn look<W: Write>(
        &mut self,
        now: Duration,
        out: &mut Writer<W>,
        packets_max: u64,
        tally: &mut Tally,
    ) -> Result<bool, LookError> {
        let mut moved = false;
        let mut bytes = Vec::new();
        for direction in [0, 1] {
            bytes.clear();
            let look = self.observer.look(&mut self.cursors[direction], now, &mut bytes)?;
            let lost = match look.lost_bytes {
                0 => String::new(),
                lost => format!("ringway: {lost} bytes before this packet were overwritten before they could be read"),
            };
            let mut comments = vec![lost];
            tally.lost_bytes += look.lost_bytes;
            moved |= look.lost_bytes > 0 || !bytes.is_empty();
            let begin = stream_position(&self.observer, direction, look.offset);
            for (i, payload) in bytes.chunks(PAYLOAD_MAX).enumerate() {
                if tally.packets >= packets_max {
                    return Ok(true);
                }
                let position = begin.wrapping_add((i * PAYLOAD_MAX) as u64);
                let segment = Segment {
                    source: self.addresses[direction],
                    destination: self.addresses[1 - direction],
                    sequence: sequence(position),
                    acknowledgement: sequence(self.shown_to[1 - direction]),
                    payload,
                };
                comments.push(std::mem::take(&mut self.introduction));
                comments.retain(|comment| !comment.is_empty());
                out.packet(SystemTime::now(), &segment.to_packet(), &comments)?;
                comments.clear();
                tally.packets += 1;
                tally.payload_bytes += payload.len() as u64;
                self.shown_to[direction] = position.wrapping_add(payload.len() as u64);
            }
        }
        Ok(moved)
    }
}

/// Position in the connection's byte stream of a ring offset: TCP's bytes came before.
fn stream_position(observer: &RingObserver, direction: usize, ring_offset: u64) -> u64 {
    let progress = observer.progress(direction);
    let before = if progress.path == Path::Tcp { 0 } else { progress.ring_begins_at };
    before.wrapping_add(ring_offset)
}

/// Relative sequence number: the first byte of a stream has 1, as if the SYN had 0.
fn sequence(position: u64) -> u32 {
    position.wrapping_add(1) as u32
}

/// Why a connection cannot be followed further.
#[derive(Debug)]
pub(crate) enum LookError {
    /// The capture cannot be written.
    Write(io::Error),
    /// An end has scribbled impossible values; the others go on.
    Violation(Violation),
}

impl From<io::Error> for LookError {
    fn from(e: io::Error) -> LookError {
        LookError::Write(e)
    }
}

impl From<Violation> for LookError {
    fn from(e: Violation) -> LookError {
        LookError::Violation(e)
    }
}
