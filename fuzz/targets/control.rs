//! Requests on the control socket: what is understood means the same when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringway_daemon::control::Request;

fuzz_target!(|line: &[u8]| {
    if let Ok(request) = serde_json::from_slice::<Request>(line) {
        let again = serde_json::to_vec(&request).expect("a request that cannot be written");
        assert_eq!(serde_json::from_slice::<Request>(&again).expect("what was just written"), request);
    }
});
