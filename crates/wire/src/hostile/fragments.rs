//! Fragments as an attacker would send them, against a model that keeps single bytes.

use alloc::collections::BTreeMap;
use alloc::vec;
use core::net::Ipv4Addr;

use crate::Error;
use crate::ip::{Ecn, Fragment, IpAddress, Protocol};
use crate::reassembly::{Key, Limits, Part, Reassembler};

/// Small, so that every bound is met.
const LIMITS: Limits = Limits { datagrams: 3, bytes: 300, fragments: 5, payload_len: 240, timeout_us: 1000 };

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentTally {
    pub kept: u64,
    pub complete: u64,
    pub expired: u64,
    pub given_up: u64,
    pub refused: u64,
}

/// The bytes of a datagram that were accepted, by their place.
type Model = BTreeMap<usize, u8>;

/// Sends the fragments that `choices` describes, five bytes each.
///
/// # Panics
/// A bound was exceeded, or a datagram came out that was not sent so.
pub fn fragments(choices: &[u8], tally: &mut FragmentTally) {
    let mut reassembler = Reassembler::new(LIMITS);
    let mut models: BTreeMap<u32, Model> = BTreeMap::new();
    let mut now_us = 0;
    for &[which, place, len, fill, time] in choices.as_chunks().0 {
        now_us += u64::from(time) * 2;
        while let Some(expired) = reassembler.expire(now_us) {
            let model = models.remove(&expired.identification).expect("only what was begun expires");
            let matches = |first: &[u8]| first.iter().enumerate().all(|(at, byte)| model.get(&at) == Some(byte));
            assert!(expired.first.is_none_or(matches), "a first fragment that was not sent so");
            tally.expired += 1;
        }
        let identification = u32::from(which & 3);
        let fragment = Fragment { identification, offset: u16::from(place & 31) * 8, more: which & 4 != 0 };
        let payload = vec![fill; usize::from(len % 65)];
        let ecn = Ecn::from_traffic_class(if which & 0xf0 == 0xf0 { which >> 3 } else { 2 });
        push(&mut reassembler, &mut models, (now_us, fragment, ecn, &payload), tally);
        assert!(reassembler.bytes() <= LIMITS.bytes && reassembler.datagrams() <= LIMITS.datagrams);
        assert_eq!(reassembler.datagrams(), models.len());
    }
}

fn push(
    reassembler: &mut Reassembler,
    models: &mut BTreeMap<u32, Model>,
    (now_us, fragment, ecn, payload): (u64, Fragment, Ecn, &[u8]),
    tally: &mut FragmentTally,
) {
    let address = IpAddress::V4(Ipv4Addr::LOCALHOST);
    let key = Key { source: address, destination: address, protocol: Protocol::UDP };
    let part = Part { key, fragment, protocol: Protocol::UDP, ecn, payload };
    let bytes = payload.iter().enumerate().map(|(n, byte)| (usize::from(fragment.offset) + n, *byte));
    match reassembler.push(now_us, &part) {
        Ok(complete) => {
            let model = models.entry(fragment.identification).or_default();
            for (at, byte) in bytes {
                assert_eq!(model.insert(at, byte), None, "an overlap was accepted");
            }
            tally.kept += 1;
            if let Some(datagram) = complete {
                let sent: alloc::vec::Vec<u8> = model.values().copied().collect();
                assert_eq!(model.last_key_value().map(|(at, _)| at + 1), Some(sent.len()), "a hole was left");
                assert_eq!(datagram.payload, sent);
                models.remove(&fragment.identification);
                tally.complete += 1;
            }
        }
        Err(Error::FragmentOverlap | Error::FragmentEcn | Error::FragmentsTooMany) => {
            // Given up: nothing of it may come out any more, so no byte may stay in the model either.
            models.entry(fragment.identification).or_default().clear();
            tally.given_up += 1;
        }
        Err(_) => tally.refused += 1,
    }
}
