//! Packet files: packets, or an error that says what is wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringway_port::pcap::Reader;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = Reader::new(bytes) else { return };
    while let Ok(Some(packet)) = reader.next_packet() {
        assert!(packet.bytes.len() <= bytes.len());
    }
});
