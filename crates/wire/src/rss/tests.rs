use super::*;
use proptest::prelude::*;

/// Destination, source, hash of the addresses, hash with ports: from Microsoft's "Verifying the RSS Hash Calculation".
const VECTORS: [(&str, &str, u32, u32); 8] = [
    ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
    ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
    ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
    ("[fe80::200:f8ff:fe21:67cf]:38024", "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251", 0x4b61_e985, 0x02d1_feef),
];

fn hash(toeplitz: &Toeplitz, source: core::net::SocketAddr, destination: core::net::SocketAddr) -> u32 {
    let ports = (source.port(), destination.port());
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => toeplitz.v4(from, to, ports.0, ports.1),
        (IpAddr::V6(from), IpAddr::V6(to)) => toeplitz.v6(from, to, ports.0, ports.1),
        families => panic!("{families:?}"),
    }
}

#[test]
fn microsofts_vectors() {
    let toeplitz = Toeplitz::new(&MICROSOFT_KEY);
    for (destination, source, addresses, with_ports) in VECTORS {
        let (destination, source): (core::net::SocketAddr, core::net::SocketAddr) =
            (destination.parse().unwrap(), source.parse().unwrap());
        assert_eq!(toeplitz.addresses(source.ip(), destination.ip()), addresses, "{source}");
        assert_eq!(hash(&toeplitz, source, destination), with_ports, "{source}");
    }
}

/// The definition, bit by bit.
fn by_the_book(key: &[u8; KEY_LEN], input: &[u8]) -> u32 {
    let key_bit = |at: usize| u32::from(key.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1));
    let mut hash = 0;
    for at in (0..8 * input.len()).filter(|at| input[at / 8] >> (7 - at % 8) & 1 == 1) {
        hash ^= (0..32).fold(0, |bits, n| bits << 1 | key_bit(at + n));
    }
    hash
}

proptest! {
    #[test]
    fn tables_agree_with_the_definition(
        key in prop::collection::vec(any::<u8>(), KEY_LEN), from: [u8; 16], to: [u8; 16], ports: (u16, u16),
    ) {
        let key: [u8; KEY_LEN] = key.try_into().unwrap();
        let toeplitz = Toeplitz::new(&key);
        let input = [&from[..], &to, &ports.0.to_be_bytes(), &ports.1.to_be_bytes()].concat();
        prop_assert_eq!(toeplitz.v6(from.into(), to.into(), ports.0, ports.1), by_the_book(&key, &input));
        prop_assert_eq!(toeplitz.addresses(IpAddr::from(from), IpAddr::from(to)), by_the_book(&key, &input[..32]));
    }

    #[test]
    fn the_symmetric_key_is(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16)) {
        let toeplitz = Toeplitz::new(&SYMMETRIC_KEY);
        prop_assert_eq!(toeplitz.v4(from, to, ports.0, ports.1), toeplitz.v4(to, from, ports.1, ports.0));
    }
}
