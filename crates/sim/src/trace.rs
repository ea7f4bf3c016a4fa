//! Packets as lines of text, to see what went on before a rule was broken.

use std::fmt::Write;

use ringway_tcp::Instant;
use ringway_wire::tcp::{Flags, Segment};
use ringway_wire::{Ecn, Protocol, ipv4};

/// The environment variable that turns tracing on, whatever its value.
pub const VARIABLE: &str = "RINGWAY_TRACE";

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    Sent,
    Delivered,
    Lost,
}

/// One line for one packet: numbers as they stand on the wire, so that they can be searched for.
pub fn line(now: Instant, happening: Happening, packet: &[u8]) -> String {
    let mark = match happening {
        Happening::Sent => "->",
        Happening::Delivered => "=>",
        Happening::Lost => "-x",
    };
    let mut text = format!("{now:?} {mark} ");
    let Ok(view) = ipv4::Packet::new_checked(packet) else { return text + "no IPv4 packet" };
    let _ = write!(text, "{} {}", view.source(), view.destination());
    if view.ecn() == Ecn::Ce {
        text += " CE";
    }
    if view.protocol() != Protocol::TCP {
        let _ = write!(text, " {:?}", view.protocol());
        return text;
    }
    match Segment::new_checked(view.payload()) {
        Ok(segment) => describe(&mut text, &segment),
        Err(error) => text += &format!(" {error:?}"),
    }
    text
}

fn describe(text: &mut String, segment: &Segment) {
    let names = [
        (Flags::SYN, "S"),
        (Flags::FIN, "F"),
        (Flags::RST, "R"),
        (Flags::PSH, "P"),
        (Flags::ECE, "E"),
        (Flags::CWR, "W"),
        (Flags::ACK, "."),
    ];
    let flags: String = names.iter().filter(|(flag, _)| segment.flags().contains(*flag)).map(|(_, n)| *n).collect();
    let (ports, len) = ((segment.source_port(), segment.destination_port()), segment.payload().len());
    let _ = write!(text, " {}>{} {flags} {}+{len}", ports.0, ports.1, segment.seq());
    let _ = write!(text, " ack {} win {}", segment.ack(), segment.window());
    for block in segment.options().sack.as_slice() {
        let _ = write!(text, " sack {}..{}", block.left, block.right);
    }
}
