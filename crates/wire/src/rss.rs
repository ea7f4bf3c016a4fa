//! Receive-side scaling: the Toeplitz hash by which network cards spread flows over queues.
//!
//! The input is `source address, destination address, source port, destination port` as they stand in the packet.
//! Each bit of it that is set adds the 32 bits of the key that begin at its position (Microsoft, "RSS Hashing
//! Functions").

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// In bytes.
pub const KEY_LEN: usize = 40;
/// Two IPv6 addresses and two ports, in bytes.
const INPUT_LEN_MAX: usize = 36;

/// The key of Microsoft's test vectors, which most drivers use.
pub const MICROSOFT_KEY: [u8; KEY_LEN] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// A key whose hash is the same for both directions of a flow (Woo and Park, "Scalable TCP Session Monitoring with
/// Symmetric Receive-side Scaling").
pub const SYMMETRIC_KEY: [u8; KEY_LEN] = {
    let mut key = [0x6d; KEY_LEN];
    let mut at = 1;
    while at < KEY_LEN {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// A key, prepared: for each half byte of the input what its values add.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    halves: [[u32; 16]; 2 * INPUT_LEN_MAX],
}

impl Toeplitz {
    pub const fn new(key: &[u8; KEY_LEN]) -> Toeplitz {
        let mut halves = [[0; 16]; 2 * INPUT_LEN_MAX];
        let mut half = 0;
        while half < halves.len() {
            let mut value = 0;
            while value < 16 {
                halves[half][value] = added(key, 4 * half, value);
                value += 1;
            }
            half += 1;
        }
        Toeplitz { halves }
    }

    /// Of TCP or UDP over IPv4.
    #[inline]
    pub fn v4(&self, source: Ipv4Addr, destination: Ipv4Addr, source_port: u16, destination_port: u16) -> u32 {
        let (from, to) = (source.octets(), destination.octets());
        self.bytes(0, &from) ^ self.bytes(4, &to) ^ self.ports(8, source_port, destination_port)
    }

    /// Of TCP or UDP over IPv6.
    #[inline]
    pub fn v6(&self, source: Ipv6Addr, destination: Ipv6Addr, source_port: u16, destination_port: u16) -> u32 {
        let (from, to) = (source.octets(), destination.octets());
        self.bytes(0, &from) ^ self.bytes(16, &to) ^ self.ports(32, source_port, destination_port)
    }

    /// Of what has no ports: fragments and other protocols. Addresses of two families hash by their mapped forms.
    pub fn addresses(&self, source: IpAddr, destination: IpAddr) -> u32 {
        let mapped = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        match (source, destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => self.bytes(0, &from.octets()) ^ self.bytes(4, &to.octets()),
            (from, to) => self.bytes(0, &mapped(from).octets()) ^ self.bytes(16, &mapped(to).octets()),
        }
    }

    #[inline(always)]
    fn ports(&self, at: usize, source: u16, destination: u16) -> u32 {
        self.bytes(at, &source.to_be_bytes()) ^ self.bytes(at + 2, &destination.to_be_bytes())
    }

    /// What `bytes` add that stand `at` bytes from the beginning of the input.
    #[inline(always)]
    fn bytes<const LEN: usize>(&self, at: usize, bytes: &[u8; LEN]) -> u32 {
        let mut hash = 0;
        for (n, byte) in bytes.iter().enumerate() {
            hash ^= self.halves[2 * (at + n)][usize::from(byte >> 4)];
            hash ^= self.halves[2 * (at + n) + 1][usize::from(byte & 0xf)];
        }
        hash
    }
}

/// What the four bits of `value` add at bit position `at`, the highest first.
const fn added(key: &[u8; KEY_LEN], at: usize, value: usize) -> u32 {
    let mut hash = 0;
    let mut bit = 0;
    while bit < 4 {
        if value >> (3 - bit) & 1 != 0 {
            hash ^= window(key, at + bit);
        }
        bit += 1;
    }
    hash
}

/// The 32 bits of the key that begin at bit `at`.
const fn window(key: &[u8; KEY_LEN], at: usize) -> u32 {
    let byte = at / 8;
    let mut bits = 0u64;
    let mut n = 0;
    while n < 5 {
        let next = if byte + n < KEY_LEN { key[byte + n] } else { 0 };
        bits = bits << 8 | next as u64;
        n += 1;
    }
    (bits >> (8 - at % 8)) as u32
}

#[cfg(test)]
mod tests;
