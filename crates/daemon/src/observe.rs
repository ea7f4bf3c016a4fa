//! Reads the shared memory of others for display. Nothing here trusts what it finds.

use std::mem::offset_of;
use std::os::fd::AsFd;

use ringway_channel::Reason;
use ringway_channel::layout::{CLASS_BYTES, ConsumerLine, Direction, ProducerLine, RingHeader, SwitchLine};

use crate::connections::{End, Life};
use crate::control::{self, ProcessName};

/// Bytes of the header that hold both directions.
const HEADER_USED: usize = size_of::<RingHeader>();

/// Both directions of a ring region. Read with `pread`: ten thousand connections need no mapping.
pub(crate) fn directions(ring: impl AsFd) -> [control::Direction; 2] {
    let mut header = [0u8; HEADER_USED];
    match rustix::io::pread(ring, &mut header, 0) {
        Ok(got) if got == HEADER_USED => [0, 1].map(|i| {
            let at = offset_of!(RingHeader, directions) + i * size_of::<Direction>();
            direction(&header[at..at + size_of::<Direction>()])
        }),
        _ => Default::default(),
    }
}

fn direction(bytes: &[u8]) -> control::Direction {
    let u64_at = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let u32_at = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
    let switch = offset_of!(Direction, switch);
    let producer = offset_of!(Direction, producer);
    let tail = u64_at(producer + offset_of!(ProducerLine, tail));
    let head = u64_at(offset_of!(Direction, consumer) + offset_of!(ConsumerLine, head));
    let class = u64_at(producer + offset_of!(ProducerLine, epoch)) & 3;
    let asked = u32_at(switch + offset_of!(SwitchLine, demote_please));
    let path = match u32_at(switch + offset_of!(SwitchLine, path)) {
        0 => "tcp",
        1 => "ring",
        2 => "demoted",
        _ => "invalid",
    };
    control::Direction {
        path: path.into(),
        tail,
        head,
        queued_bytes: tail.saturating_sub(head),
        capacity_bytes: CLASS_BYTES[class as usize] as u64,
        tcp_bytes_before: u64_at(switch + offset_of!(SwitchLine, ring_begins_at)),
        demote_please: u16::try_from(asked).ok().and_then(Reason::from_number).and_then(reason_name),
    }
}

pub(crate) fn end(end: &End, role: &str, processes: Vec<ProcessName>) -> control::End {
    let state = match end.life {
        Life::Held => "held",
        Life::Suspect { .. } => "suspect",
        Life::Gone => "gone",
    };
    control::End {
        role: role.into(),
        local: end.endpoint.tuple.local,
        remote: end.endpoint.tuple.remote,
        netns: end.endpoint.id.netns,
        cookie: end.endpoint.id.cookie,
        uid: end.uid,
        state: state.into(),
        demoted: reason_name(end.demoted),
        processes,
    }
}

fn reason_name(reason: Reason) -> Option<String> {
    (reason != Reason::None).then(|| reason.name().to_string())
}

/// Name of a waiting profile.
pub(crate) fn profile(number: u32) -> &'static str {
    match number {
        0 => "latency",
        1 => "balanced",
        2 => "efficient",
        _ => "unknown",
    }
}
