//! What an IP packet carries, without the packet: deeper at once. The first byte chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringway_wire::Protocol;
use ringway_wire::hostile::{Tally, some_pseudo, transport};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let protocol = [Protocol::TCP, Protocol::UDP, Protocol::ICMP, Protocol::ICMPV6][usize::from(choice & 3)];
    let hop_limit = if choice & 4 == 0 { 255 } else { 64 };
    transport(protocol, bytes, some_pseudo(protocol, choice & 8 != 0), hop_limit, &mut Tally::default());
});
