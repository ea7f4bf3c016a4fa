use proptest::prelude::*;

use super::synthetic::{Synthetic, random_keys, table, trace_keys};
use super::*;

/// The next hop by looking at every prefix.
fn oracle<A: Address>(prefixes: &[(Prefix<A>, NextHop)], address: A) -> NextHop {
    let holding = prefixes.iter().filter(|(prefix, _)| prefix.contains(address));
    holding.max_by_key(|(prefix, _)| prefix.length()).map_or(NextHop::NONE, |(_, next_hop)| *next_hop)
}

/// The ends of a prefix and their neighbours: where an error by one would show.
fn edges<A: Synthetic + TryFrom<u128> + Into<u128>>(prefix: Prefix<A>) -> Vec<A> {
    let last_bits = A::from_top(1, 1).into();
    let all: u128 = last_bits | (last_bits - 1);
    let (first, span): (u128, u128) = (prefix.address().into(), all.checked_shr(prefix.length()).unwrap_or(0));
    let numbers =
        [first.wrapping_sub(1), first, first + span / 2, first + span, first.wrapping_add(span).wrapping_add(1)];
    numbers.into_iter().filter_map(|number| A::try_from(number & all).ok()).collect()
}

/// Prefixes of all lengths, crowded into a small part of the space so that they nest and touch.
fn crowded<A: Address>() -> impl Strategy<Value = Prefix<A>> {
    (0..=A::BITS, prop::collection::vec((0..A::BITS, any::<bool>()), 0..6)).prop_map(|(len, bits)| {
        let set = bits.into_iter().filter(|(_, set)| *set);
        let address = set.fold(A::default(), |address, (bit, _)| address.or(A::from_top(1, bit + 1)));
        Prefix::of(address, len)
    })
}

#[derive(Clone, Debug)]
enum Change<A> {
    Insert(Prefix<A>, u16),
    Remove(Prefix<A>),
    RemoveNth(usize),
    Commit,
}

fn change<A: Address + 'static>() -> impl Strategy<Value = Change<A>> {
    prop_oneof![
        6 => (crowded(), 0..4u16).prop_map(|(prefix, next_hop)| Change::Insert(prefix, next_hop)),
        1 => crowded().prop_map(Change::Remove),
        3 => any::<usize>().prop_map(Change::RemoveNth),
        2 => Just(Change::Commit),
    ]
}

fn changes_match_the_oracle<A>(direct_bits: u32, changes: &[Change<A>]) -> Result<(), TestCaseError>
where
    A: Synthetic + TryFrom<u128> + Into<u128>,
{
    let mut dxr = Dxr::<A>::new(direct_bits).unwrap();
    let mut prefixes: Vec<(Prefix<A>, NextHop)> = Vec::new();
    let mut keys = vec![A::default()];
    for change in changes {
        let change = match change {
            Change::RemoveNth(n) if !prefixes.is_empty() => Change::Remove(prefixes[n % prefixes.len()].0),
            other => other.clone(),
        };
        match change {
            Change::Insert(prefix, next_hop) => {
                let known = prefixes.iter().position(|(p, _)| *p == prefix);
                let before = known.map(|at| prefixes.swap_remove(at).1);
                prop_assert_eq!(dxr.insert(prefix, NextHop(next_hop)).unwrap(), before);
                prefixes.push((prefix, NextHop(next_hop)));
                keys.extend(edges(prefix));
            }
            Change::Remove(prefix) => {
                let known = prefixes.iter().position(|(p, _)| *p == prefix);
                prop_assert_eq!(dxr.remove(prefix), known.map(|at| prefixes.swap_remove(at).1));
            }
            Change::RemoveNth(_) => {}
            Change::Commit => check(&mut dxr, &prefixes, &keys)?,
        }
    }
    check(&mut dxr, &prefixes, &keys)
}

fn check<A: Synthetic>(dxr: &mut Dxr<A>, prefixes: &[(Prefix<A>, NextHop)], keys: &[A]) -> Result<(), TestCaseError> {
    dxr.commit();
    prop_assert_eq!(dxr.len(), prefixes.len());
    let mut answers = vec![NextHop(0); keys.len()];
    dxr.lookup_batch(keys, &mut answers);
    for (key, answer) in keys.iter().zip(&answers) {
        let expected = oracle(prefixes, *key);
        prop_assert_eq!(*answer, expected, "batch, {}", key.display());
        prop_assert_eq!(dxr.lookup(*key), expected, "single, {}", key.display());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn ipv4_changes_match_the_oracle(changes in prop::collection::vec(change::<u32>(), 1..120), bits in 16..=18_u32) {
        changes_match_the_oracle(bits, &changes)?;
    }

    #[test]
    fn ipv6_changes_match_the_oracle(changes in prop::collection::vec(change::<u128>(), 1..120), bits in 16..=18_u32) {
        changes_match_the_oracle(bits, &changes)?;
    }
}

/// Compares a table of the Internet's shape with the oracle, and after changes with a table made anew.
fn internet_like<A: Synthetic>(direct_bits: u32) {
    let prefixes = table::<A>(1, 2_000, 50);
    let mut dxr = Dxr::new(direct_bits).unwrap();
    for (prefix, next_hop) in &prefixes {
        dxr.insert(*prefix, *next_hop).unwrap();
    }
    dxr.commit();
    for key in random_keys::<A>(2, 500).into_iter().chain(trace_keys(3, &prefixes, 1_000, 1_500)) {
        assert_eq!(dxr.lookup(key), oracle(&prefixes, key), "{}", key.display());
    }
}

#[test]
fn tables_like_the_internets_match_the_oracle() {
    internet_like::<u32>(16);
    internet_like::<u32>(20);
    internet_like::<u128>(16);
    internet_like::<u128>(20);
}

/// Memory must not grow with the number of changes.
#[test]
fn changes_reuse_memory() {
    let prefixes = table::<u32>(1, 20_000, 50);
    let mut dxr = Dxr::new(16).unwrap();
    for (prefix, next_hop) in &prefixes {
        dxr.insert(*prefix, *next_hop).unwrap();
    }
    dxr.commit();
    let bytes = dxr.lookup_bytes();
    for round in 0..20_u16 {
        for (n, (prefix, _)) in prefixes.iter().enumerate() {
            match (n as u16 + round) % 3 {
                0 => drop(dxr.remove(*prefix)),
                _ => drop(dxr.insert(*prefix, NextHop(round)).unwrap()),
            }
            if n % 100 == 0 {
                dxr.commit();
            }
        }
    }
    dxr.commit();
    assert!(dxr.lookup_bytes() < 4 * bytes, "{} bytes, {bytes} at first", dxr.lookup_bytes());
}

#[test]
fn what_is_out_of_bounds_is_refused_by_name() {
    assert_eq!(Dxr::<u32>::new(25).unwrap_err().to_string(), "a direct table of 25 bits; choose 16 to 20");
    let default = Prefix::new(0_u32, 0).unwrap();
    let error = Dxr::default().insert(default, NextHop::NONE).unwrap_err();
    assert_eq!(error.to_string(), "next hop 65535 stands for \"none\"; use a smaller index");
}
