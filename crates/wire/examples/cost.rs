//! What checksums, reading and writing cost, in nanoseconds: `cargo run --release -p ringway-wire --example cost`.
//!
//! For comparison side by side on one machine; nothing is asserted. Each figure is the median of 31 batches.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::time::Instant;

use ringway_wire::ethernet::{self, EtherType, Frame, MacAddress};
use ringway_wire::rss::{MICROSOFT_KEY, Toeplitz};
use ringway_wire::tcp::{Flags, Options, Segment, SeqNumber, Timestamps};
use ringway_wire::{Error, Fill, Protocol, Sum, Verify, ipv4, tcp};

const BATCHES: usize = 31;
const PER_BATCH: u32 = 100_000;

const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const HEADERS_LEN: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN + tcp::HEADER_LEN + 12;

fn main() {
    for len in [20, 64, 1460, 9000, 65_536] {
        let bytes = vec![0x5a; len];
        let ns = measure(|| Sum::of(black_box(&bytes)).checksum());
        println!("checksum of {len:6} bytes      {ns:8.1} ns  {:6.1} bytes/ns", len as f64 / ns);
    }
    let (from, mut to) = (vec![0x5a; 1460], vec![0; 1460]);
    let ns = measure(|| Sum::copying(black_box(&mut to), black_box(&from)).checksum());
    println!("copy and checksum of 1460 bytes {ns:6.1} ns");

    let mut frame = vec![0; HEADERS_LEN + 64];
    println!("write a segment of 64 bytes      {:6.1} ns", measure(|| write(black_box(&mut frame), Fill::Complete)));
    println!("  leaving its sum to a device    {:6.1} ns", measure(|| write(black_box(&mut frame), Fill::Partial)));
    write(&mut frame, Fill::Complete).expect("room for all");
    println!("read it by views, sums verified  {:6.1} ns", measure(|| views(black_box(&frame), Verify::Compute)));
    println!("  sums trusted                   {:6.1} ns", measure(|| views(black_box(&frame), Verify::Trust)));
    println!("read it into representations     {:6.1} ns", measure(|| reprs(black_box(&frame))));
    let syn = syn_options();
    println!("read a SYN's options             {:6.1} ns", measure(|| Options::parse(black_box(&syn))));
    let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
    println!(
        "hash for RSS                     {:6.1} ns",
        measure(|| toeplitz.v4(black_box(FROM), black_box(TO), 80, 5000))
    );
}

/// The median time of one call, in nanoseconds.
fn measure<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut batches: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..PER_BATCH).for_each(|_| drop(black_box(call())));
            start.elapsed().as_nanos() as f64 / f64::from(PER_BATCH)
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[BATCHES / 2]
}

fn segment_repr() -> tcp::Repr {
    let timestamps = Some(Timestamps { value: 1, echo: 2 });
    tcp::Repr {
        source_port: 80,
        destination_port: 5000,
        seq: SeqNumber(black_box(1)),
        ack: SeqNumber(black_box(2)),
        flags: Flags::PSH.with(Flags::ACK),
        window: 500,
        urgent: 0,
        options: Options { timestamps, ..Options::NONE },
    }
}

/// A frame with headers and whatever payload lies behind them.
#[inline(never)]
fn write(frame: &mut [u8], fill: Fill) -> Result<(), Error> {
    let segment_len = frame.len() - ethernet::HEADER_LEN - ipv4::HEADER_LEN;
    let (destination, source) = (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    let link = ethernet::Repr { destination, source, vlan: None, ether_type: EtherType::IPV4 };
    let network = ipv4::Repr::new(FROM, TO, Protocol::TCP, segment_len);
    segment_repr().emit(network.emit(link.emit(frame)?)?, network.pseudo(), fill)
}

/// What a stack's fast path looks at.
#[inline(never)]
fn views(bytes: &[u8], verify: Verify) -> Option<(u32, u32, u32, u16, usize)> {
    let frame = Frame::new_checked(bytes).ok()?;
    if frame.ether_type() != EtherType::IPV4 {
        return None;
    }
    let packet = ipv4::Packet::new_checked(frame.payload()).ok()?;
    if packet.is_fragment() || packet.protocol() != Protocol::TCP {
        return None;
    }
    let segment = Segment::new_checked(packet.payload()).ok()?;
    if verify == Verify::Compute && !(packet.verify_checksum() && segment.verify_checksum(packet.pseudo())) {
        return None;
    }
    let timestamps = segment.only_timestamps()?;
    Some((segment.seq().0, segment.ack().0, timestamps.value, segment.window(), segment.payload().len()))
}

#[inline(never)]
fn reprs(bytes: &[u8]) -> Result<(ethernet::Repr, ipv4::Repr, tcp::Repr), Error> {
    let frame = Frame::new_checked(bytes)?;
    let packet = ipv4::Packet::new_checked(frame.payload())?;
    let segment = Segment::new_checked(packet.payload())?;
    let transport = tcp::Repr::parse(&segment, packet.pseudo(), Verify::Compute)?;
    Ok((ethernet::Repr::parse(&frame)?, ipv4::Repr::parse(&packet, Verify::Compute)?, transport))
}

fn syn_options() -> Vec<u8> {
    vec![2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 1, 3, 3, 8]
}
