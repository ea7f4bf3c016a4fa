//! Routing tables and keys for tests and benchmarks, shaped like the Internet's and made from a seed.

use super::{Address, NextHop, Prefix};

/// Prefixes per 1,000 by length, as the IPv4 tables of large networks have held them for years:
/// three in five are /24, hardly any are longer.
const V4_LENGTHS: &[(u32, u32)] = &[
    (8, 1),
    (10, 1),
    (11, 1),
    (12, 1),
    (13, 1),
    (14, 2),
    (15, 3),
    (16, 15),
    (17, 9),
    (18, 15),
    (19, 27),
    (20, 45),
    (21, 54),
    (22, 118),
    (23, 105),
    (24, 600),
    (28, 1),
    (32, 1),
];
/// The same for IPv6: /48 and /32 dominate.
const V6_LENGTHS: &[(u32, u32)] = &[
    (20, 1),
    (24, 2),
    (28, 5),
    (29, 35),
    (30, 10),
    (32, 130),
    (33, 20),
    (34, 20),
    (36, 50),
    (40, 80),
    (42, 20),
    (44, 110),
    (46, 40),
    (47, 30),
    (48, 440),
    (56, 4),
    (64, 3),
];

/// A small generator (splitmix64): the same seed gives the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly below `bound` (at least 1), as far as 64 bits allow.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }
}

/// A family for which tables can be made.
pub trait Synthetic: Address {
    /// Lengths with their shares per 1,000.
    const LENGTHS: &'static [(u32, u32)];
    /// A random address where networks have theirs; tables crowd them into allocated blocks.
    fn random_in_block(random: &mut Random) -> Self;
    /// A random address of the whole space that is routed.
    fn random(random: &mut Random) -> Self;
}

impl Synthetic for u32 {
    const LENGTHS: &'static [(u32, u32)] = V4_LENGTHS;

    /// 1.0.0.0 to 223.255.255.255, where neighbours of a used /16 are likelier used, too.
    fn random_in_block(random: &mut Random) -> u32 {
        let block = crowded(random, 223 << 8) as u32 + (1 << 8);
        block << 16 | random.number() as u32 & 0xffff
    }

    fn random(random: &mut Random) -> u32 {
        (1 << 24) + random.below(223 << 24) as u32
    }
}

impl Synthetic for u128 {
    const LENGTHS: &'static [(u32, u32)] = V6_LENGTHS;

    /// The registries' blocks 2001::/16, 2400::/12, 2600::/12, 2800::/12, 2a00::/12 and 2c00::/12.
    fn random_in_block(random: &mut Random) -> u128 {
        const BLOCKS: [u16; 6] = [0x2001, 0x2400, 0x2600, 0x2800, 0x2a00, 0x2c00];
        let block = BLOCKS[random.below(6) as usize];
        let within = if block == 0x2001 { 0 } else { crowded(random, 16) as u16 };
        let network = crowded(random, 1 << 16) as u128;
        let rest = u128::from(random.number()) << 32 | u128::from(random.number() as u32);
        u128::from(block + within) << 112 | network << 96 | rest
    }

    fn random(random: &mut Random) -> u128 {
        1 << 125 | (u128::from(random.number()) << 64 | u128::from(random.number())) >> 3
    }
}

/// Below `bound`, some numbers much likelier than others: four draws in five fall on a quarter of them.
fn crowded(random: &mut Random, bound: u64) -> u64 {
    let number = random.below(bound);
    // Which numbers these are depends on the number alone.
    let is_popular = |n: u64| Random::new(n).number().is_multiple_of(4);
    if random.below(5) == 0 || is_popular(number) {
        return number;
    }
    (0..8).map(|_| random.below(bound)).find(|n| is_popular(*n)).unwrap_or(number)
}

/// `count` different prefixes with one of `next_hops` next hops each.
pub fn table<A: Synthetic>(seed: u64, count: usize, next_hops: u16) -> Vec<(Prefix<A>, NextHop)> {
    let mut random = Random::new(seed);
    let mut seen = std::collections::BTreeSet::new();
    let mut table = Vec::with_capacity(count);
    while table.len() < count {
        let prefix = Prefix::of(A::random_in_block(&mut random), length::<A>(&mut random));
        if seen.insert(prefix) {
            table.push((prefix, NextHop(random.below(next_hops.into()) as u16)));
        }
    }
    table
}

fn length<A: Synthetic>(random: &mut Random) -> u32 {
    let total = A::LENGTHS.iter().map(|(_, share)| u64::from(*share)).sum();
    let mut draw = random.below(total) as u32;
    for (length, share) in A::LENGTHS {
        match draw.checked_sub(*share) {
            Some(rest) => draw = rest,
            None => return *length,
        }
    }
    unreachable!("the draw is below the sum of the shares")
}

/// `count` addresses drawn evenly from the routed space.
pub fn random_keys<A: Synthetic>(seed: u64, count: usize) -> Vec<A> {
    let mut random = Random::new(seed);
    (0..count).map(|_| A::random(&mut random)).collect()
}

/// `count` addresses as in a packet trace: hosts in the table's prefixes, the i-th most popular of
/// `hosts` with a share of about 1/i (Zipf).
pub fn trace_keys<A: Synthetic>(seed: u64, table: &[(Prefix<A>, NextHop)], hosts: usize, count: usize) -> Vec<A> {
    let mut random = Random::new(seed);
    let host = |random: &mut Random| {
        let (prefix, _) = table[random.below(table.len() as u64) as usize];
        prefix.with_host(A::random(random))
    };
    let hosts: Vec<A> = (0..hosts).map(|_| host(&mut random)).collect();
    let log_hosts = (hosts.len() as f64).ln();
    // The inverse of the harmonic distribution, continuous.
    let rank = |draw: u64| ((draw as f64 / u64::MAX as f64 * log_hosts).exp() as usize).clamp(1, hosts.len()) - 1;
    (0..count).map(|_| hosts[rank(random.number())]).collect()
}
