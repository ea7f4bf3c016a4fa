use ringway_wire::Sum;

use super::*;
use crate::headers::tests::udp_v4;

const fn mac(n: u8) -> MacAddress {
    MacAddress([2, 0, 0, 0, 0, n])
}

/// Router addresses 02::1 at port 0 (as `udp_v4` sends to) and 02::11 at port 1; 10.0.0.0/8 and 2001:db8::/32 behind port 1.
fn router() -> Router {
    let router = Router::default();
    router.change(|routes| {
        routes.interfaces[0] = Some(mac(1));
        routes.interfaces[1] = Some(mac(0x11));
        routes.hops = vec![Hop { port: 1, station: mac(0x22) }];
        routes.v4.insert("10.0.0.0/8".parse().unwrap(), NextHop(0)).unwrap();
        routes.v4.insert("10.9.0.0/16".parse().unwrap(), NextHop(7)).unwrap();
        routes.v6.insert("2001:db8::/32".parse().unwrap(), NextHop(0)).unwrap();
    });
    router
}

fn route(router: &Router, bytes: &[u8]) -> (Verdict, Vec<u8>) {
    let mut frames = [Frame::of(bytes)];
    router.lookup(&mut Source::default(), 0, &mut frames);
    (frames[0].verdict, frames[0].head().to_vec())
}

#[test]
fn a_routed_packet_gets_new_addresses_and_ages() {
    for ttl in 2..=255 {
        let mut bytes = udp_v4([172, 16, 0, 1], [10, 1, 2, 3], (1000, u16::from(ttl)), None);
        set_ttl(&mut bytes, ttl);
        let (verdict, head) = route(&router(), &bytes);
        assert_eq!(verdict, Verdict::To { port: 1, ring: 0 });
        assert_eq!((&head[..6], &head[6..12], head[22]), (&mac(0x22).0[..], &mac(0x11).0[..], ttl - 1));
        assert!(Sum::of(&head[14..34]).is_valid(), "TTL {ttl}");
        assert_eq!((&head[24 + 2..], &head[12..22]), (&bytes[24 + 2..], &bytes[12..22]));
    }
}

fn set_ttl(bytes: &mut [u8], ttl: u8) {
    bytes[22] = ttl;
    bytes[24..26].fill(0);
    let checksum = Sum::of(&bytes[14..34]).checksum();
    bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn ipv6_is_routed() {
    let mut bytes = [&mac(1).0[..], &mac(2).0, &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]].concat();
    bytes.extend(0x2001_0db8_0000_0000_0000_0000_0000_0001_u128.to_be_bytes());
    bytes.extend(0x2001_0db8_0000_0000_0000_0000_0000_0002_u128.to_be_bytes());
    bytes.extend([0; 8]);
    let (verdict, head) = route(&router(), &bytes);
    assert_eq!((verdict, head[21]), (Verdict::To { port: 1, ring: 0 }, 63));
    // Link-local and groups stay.
    for first in [[0xfe, 0x80], [0xff, 0x02]] {
        bytes[38..40].copy_from_slice(&first);
        assert_eq!(route(&router(), &bytes).0, Verdict::Drop);
    }
}

#[test]
fn what_is_not_routed_goes_to_the_host_unchanged_or_nowhere() {
    let good = udp_v4([172, 16, 0, 1], [10, 1, 2, 3], (1000, 53), None);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let mut expired = good.clone();
    set_ttl(&mut expired, 1);
    let cases = [
        ("another station's", changed(5, 9)),
        ("another type", changed(13, 6)),
        ("a wrong checksum", changed(24, !good[24])),
        ("a wrong version", changed(14, 0x55)),
        ("too long for its frame", changed(16, 0x10)),
        ("expired", expired),
        ("no route", udp_v4([172, 16, 0, 1], [11, 1, 2, 3], (1, 2), None)),
        ("a next hop that is not there", udp_v4([172, 16, 0, 1], [10, 9, 2, 3], (1, 2), None)),
        ("a group", udp_v4([172, 16, 0, 1], [224, 0, 0, 5], (1, 2), None)),
        ("cut short", good[..33].to_vec()),
    ];
    let router = router();
    for (what, bytes) in &cases {
        assert_eq!(route(&router, bytes), (Verdict::Drop, bytes.clone()), "{what}");
    }
    router.change(|routes| routes.host = Some(5));
    for (what, bytes) in &cases {
        assert_eq!(route(&router, bytes), (Verdict::To { port: 5, ring: 0 }, bytes.clone()), "{what}");
    }
    assert_eq!(route(&router, &good).0, Verdict::To { port: 1, ring: 0 });
}

/// Readers see a change as a whole while it is made: a packet always has a route, the old one or the new.
#[test]
fn lookups_go_on_while_tables_change() {
    let router = router();
    let bytes = udp_v4([172, 16, 0, 1], [10, 1, 2, 3], (1000, 53), None);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..40_u8 {
                router.change(|routes| {
                    routes.v4.remove("10.0.0.0/8".parse().unwrap());
                    routes.hops[0].station = mac(n);
                    routes.v4.insert("10.0.0.0/8".parse().unwrap(), NextHop(0)).unwrap();
                });
            }
            done.store(true, Release);
        });
        while !done.load(Acquire) {
            assert_eq!(route(&router, &bytes).0, Verdict::To { port: 1, ring: 0 });
        }
    });
    assert_eq!(route(&router, &bytes).1[..6], mac(39).0);
}
