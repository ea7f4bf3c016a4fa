//! Messages between library and monitor: bytes that decode are bytes that encode again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringway_channel::rendezvous::Message;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = Message::decode(bytes) {
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
});
