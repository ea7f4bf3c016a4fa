//! What must hold of every packet, as a stranger on the wire sees it: one who knows the pattern that is sent, and
//! nothing of the engines' insides.

use std::collections::HashMap;

use ringway_tcp::Instant;
use ringway_tcp::span::widen;
use ringway_wire::tcp::{self, Flags};
use ringway_wire::{Endpoint, Protocol, SeqNumber, Verify, ipv4};

use crate::transfer::pattern;

/// Broken rules beyond this many are only counted.
const KEPT_MAX: usize = 10;

/// The two ends of a direction, sender first.
type Flow = (Endpoint, Endpoint);

/// What is known of one direction of a connection. Offsets count from its SYN, which is 0.
#[derive(Clone, Debug, Default)]
struct Direction {
    first: SeqNumber,
    /// Behind the highest octet sent.
    sent: u64,
    fin: Option<u64>,
    scale: Option<u8>,
    /// Of the other direction: the highest acknowledgement and right edge of the window that this sender has sent.
    acknowledged: u64,
    right_edge: u64,
    /// The highest right edge that this sender has been told.
    allowed: u64,
    /// The flow has begun anew while the old connection lived on at one end: packets of two connections mix.
    mixed: bool,
}

/// Listens in on all hosts.
#[derive(Default)]
pub struct Tap {
    directions: HashMap<Flow, Direction>,
    broken: Vec<String>,
    broken_count: u64,
    packets: u64,
    payload_bytes: u64,
}

struct Seen<'a> {
    flow: Flow,
    segment: tcp::Segment<'a>,
}

impl Tap {
    /// The rules that were broken, in words.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Packets that hosts have sent.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Octets of payload in them, retransmissions counted.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    /// A host sends `packet`; its link takes `mtu` octets.
    pub fn on_sent(&mut self, now: Instant, packet: &[u8], mtu: usize) {
        self.packets += 1;
        if packet.len() > mtu {
            self.complain(now, None, &format!("{} octets on a link of {mtu}", packet.len()));
        }
        match parse(packet) {
            Err(error) => self.complain(now, None, &format!("an invalid packet: {error:?}")),
            Ok(None) => {}
            Ok(Some(seen)) => self.judge(now, &seen),
        }
    }

    /// `packet` reaches a host. What was corrupted on the way is not judged.
    pub fn on_delivered(&mut self, packet: &[u8]) {
        let Ok(Some(Seen { flow, segment })) = parse(packet) else { return };
        if !self.directions.contains_key(&flow) {
            return;
        }
        if segment.flags().contains(Flags::ACK) && !segment.flags().contains(Flags::RST) {
            let scale = self.scale_of(&flow, &segment);
            let Some(teller_acks) = self.ack_offset(&flow, &segment) else { return };
            let edge = teller_acks + (u64::from(segment.window()) << scale);
            if let Some(sender) = self.directions.get_mut(&reverse(flow)) {
                sender.allowed = sender.allowed.max(edge);
            }
        }
    }

    fn judge(&mut self, now: Instant, seen: &Seen) {
        let (flow, segment) = (seen.flow, &seen.segment);
        self.payload_bytes += segment.payload().len() as u64;
        let flags = segment.flags();
        if flags.contains(Flags::SYN) {
            self.on_syn(flow, segment);
        }
        if flags.contains(Flags::RST) || self.directions.get(&flow).is_none_or(|direction| direction.mixed) {
            return;
        }
        let mut complaints = Vec::new();
        self.judge_sequence(flow, segment, &mut complaints);
        if flags.contains(Flags::ACK) {
            self.judge_acknowledgement(flow, segment, &mut complaints);
        }
        for complaint in complaints {
            self.complain(now, Some((flow, segment)), &complaint);
        }
    }

    fn on_syn(&mut self, flow: Flow, segment: &tcp::Segment) {
        let direction = self.directions.entry(flow).or_default();
        if direction.sent == 0 || direction.first != segment.seq() {
            let mixed = direction.sent > 0;
            let scale = segment.options().window_scale;
            *direction = Direction { first: segment.seq(), scale, mixed, ..Direction::default() };
            if let Some(other) = self.directions.get_mut(&reverse(flow)) {
                other.mixed |= mixed;
            }
        }
    }

    /// What is sent lies within the window, after what was sent before or the same as then.
    fn judge_sequence(&mut self, flow: Flow, segment: &tcp::Segment, complaints: &mut Vec<String>) {
        let Some(direction) = self.directions.get_mut(&flow) else { return };
        let start = widen(direction.sent, segment.seq().offset_from(direction.first));
        let end = start + u64::from(segment.seq_len());
        if start > direction.sent {
            complaints.push(format!("{start} is sent before {}", direction.sent));
        }
        let new = end > direction.sent;
        if new && direction.allowed > 0 && end > direction.allowed {
            complaints.push(format!("{start}..{end} is beyond the window's edge {}", direction.allowed));
        }
        if direction.fin.is_some_and(|fin| end > fin + 1) {
            complaints.push(format!("{start}..{end} lies behind the FIN at {:?}", direction.fin));
        }
        if segment.flags().contains(Flags::FIN) {
            let fin = *direction.fin.get_or_insert(end - 1);
            if fin != end - 1 {
                complaints.push(format!("the FIN moves from {fin} to {}", end - 1));
            }
        }
        let data = start + u64::from(segment.flags().contains(Flags::SYN));
        let differs =
            (data..).zip(segment.payload()).find(|(offset, byte)| *offset > 0 && **byte != pattern(*offset - 1));
        if let Some((offset, _)) = differs {
            complaints.push(format!("octet {offset} is not what was given to be sent"));
        }
        direction.sent = direction.sent.max(end);
    }

    /// Acknowledgements cover what was sent, and neither they nor the window move back.
    fn judge_acknowledgement(&mut self, flow: Flow, segment: &tcp::Segment, complaints: &mut Vec<String>) {
        let scale = self.scale_of(&flow, segment);
        let Some(ack) = self.ack_offset(&flow, segment) else { return };
        let Some(other) = self.directions.get(&reverse(flow)) else { return };
        let (first, sent) = (other.first, other.sent);
        let Some(direction) = self.directions.get_mut(&flow) else { return };
        if ack > sent {
            complaints.push(format!("{ack} is acknowledged, only {sent} was sent"));
        }
        if ack < direction.acknowledged {
            complaints.push(format!("the acknowledgement moves back from {} to {ack}", direction.acknowledged));
        }
        let edge = ack + (u64::from(segment.window()) << scale);
        // RFC 7323 2.4: a scaled window may seem to shrink by less than one unit.
        if edge + (1 << scale) <= direction.right_edge {
            complaints.push(format!("the window shrinks from {} to {edge}", direction.right_edge));
        }
        direction.acknowledged = direction.acknowledged.max(ack);
        direction.right_edge = direction.right_edge.max(edge);
        let mut duplicates = 0;
        for (index, block) in segment.options().sack.as_slice().iter().enumerate() {
            let (left, right) = (widen(ack, block.left.offset_from(first)), widen(ack, block.right.offset_from(first)));
            duplicates += u32::from(right <= ack);
            let misplaced = left <= ack && right > ack || right <= ack && index > 0;
            if left >= right || right > sent || misplaced || duplicates > 1 {
                complaints.push(format!("SACK block {index}, {left}..{right}, with {ack} acknowledged of {sent}"));
            }
        }
    }

    /// The offset that a segment acknowledges, if the other direction has begun.
    fn ack_offset(&self, flow: &Flow, segment: &tcp::Segment) -> Option<u64> {
        let other = self.directions.get(&reverse(*flow))?;
        Some(widen(other.sent, segment.ack().offset_from(other.first)))
    }

    /// RFC 7323 2.2: windows are scaled if both SYNs said so, and never in a SYN.
    fn scale_of(&self, flow: &Flow, segment: &tcp::Segment) -> u8 {
        let scale = |flow| self.directions.get(&flow).and_then(|direction| direction.scale);
        let agreed = scale(*flow).zip(scale(reverse(*flow)));
        if segment.flags().contains(Flags::SYN) { 0 } else { agreed.map_or(0, |(ours, _)| ours) }
    }

    fn complain(&mut self, now: Instant, about: Option<(Flow, &tcp::Segment)>, what: &str) {
        self.broken_count += 1;
        if self.broken.len() < KEPT_MAX {
            let flow = about.map(|((from, to), s)| format!("{from:?} to {to:?} {:?} ", s.flags())).unwrap_or_default();
            self.broken.push(format!("{now:?} {flow}{what}"));
        }
    }
}

fn reverse((from, to): Flow) -> Flow {
    (to, from)
}

/// A TCP segment with a right checksum; `None` for other protocols.
fn parse(packet: &[u8]) -> Result<Option<Seen<'_>>, ringway_wire::Error> {
    let view = ipv4::Packet::new_checked(packet)?;
    let ip = ipv4::Repr::parse(&view, Verify::Compute)?;
    if ip.protocol != Protocol::TCP {
        return Ok(None);
    }
    let segment = tcp::Segment::new_checked(view.payload())?;
    tcp::Repr::parse(&segment, ip.pseudo(), Verify::Compute)?;
    let from = Endpoint::new(ip.source.into(), segment.source_port());
    let to = Endpoint::new(ip.destination.into(), segment.destination_port());
    Ok(Some(Seen { flow: (from, to), segment }))
}
