//! Unit and property tests of the matching table.

use super::*;
use proptest::prelude::*;
use std::net::SocketAddr;

fn endpoint(netns: u64, cookie: u64, local: u16, remote: u16) -> Endpoint {
    let at = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
    Endpoint { id: SocketId { netns, cookie }, tuple: Tuple { local: at(local), remote: at(remote) }, interface: 0 }
}

fn waiter(client: u64, token: u64) -> Waiter {
    Waiter { client, token }
}

fn table(limit: usize, endpoints: &[Endpoint]) -> OfferTable {
    let mut table = OfferTable::new(limit);
    for (i, endpoint) in endpoints.iter().enumerate() {
        table.insert(*endpoint, waiter(i as u64, 7), Instant::now()).unwrap();
    }
    table
}

#[test]
fn the_reversed_addresses_in_the_same_namespace_match() {
    let (a, b) = (endpoint(1, 1, 80, 5000), endpoint(1, 2, 5000, 80));
    let table = table(8, &[a]);
    assert_eq!(table.partner(&b, false), Partner::Found(a.id));
    assert_eq!(table.partner(&a, false), Partner::Absent, "never itself");
}

#[test]
fn a_socket_given_up_at_once_is_not_said_to_lack_a_partner() {
    let start = Instant::now();
    let mut table = table(8, &[endpoint(1, 1, 80, 5000)]);
    let id = SocketId { netns: 1, cookie: 1 };
    assert_eq!(table.get(id).unwrap().verdict(start), Reason::NotConnected);
    assert_eq!(table.get(id).unwrap().verdict(Instant::now() + Duration::from_secs(9)), Reason::NoPartner);
    table.note(id, Reason::ForeignNamespace);
    assert_eq!(table.get(id).unwrap().verdict(start), Reason::ForeignNamespace);
}

#[test]
fn across_namespaces_only_by_policy_and_only_if_unique() {
    let (a, b) = (endpoint(1, 1, 80, 5000), endpoint(2, 2, 5000, 80));
    let mut table = table(8, &[a]);
    assert_eq!(table.partner(&b, false), Partner::Foreign(a.id));
    assert_eq!(table.partner(&b, true), Partner::Found(a.id));
    table.insert(endpoint(3, 3, 80, 5000), waiter(9, 9), Instant::now()).unwrap();
    assert_eq!(table.partner(&b, true), Partner::Ambiguous);
}

#[test]
fn a_twin_of_the_offered_socket_elsewhere_is_ambiguous_too() {
    let (a, twin) = (endpoint(1, 1, 80, 5000), endpoint(3, 3, 5000, 80));
    let table = table(8, &[a, twin]);
    assert_eq!(table.partner(&endpoint(2, 2, 5000, 80), true), Partner::Ambiguous);
}

#[test]
fn loopback_addresses_never_cross() {
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let tuple = Tuple { local: at(80), remote: at(5000) };
    let a = Endpoint { id: SocketId { netns: 1, cookie: 1 }, tuple, interface: 0 };
    let b = Endpoint { id: SocketId { netns: 2, cookie: 2 }, tuple: tuple.reversed(), interface: 0 };
    assert_eq!(table(8, &[a]).partner(&b, true), Partner::Absent);
}

#[test]
fn bounds_hold_and_waiters_of_one_socket_share_an_entry() {
    let a = endpoint(1, 1, 80, 5000);
    let mut table = table(1, &[a]);
    for token in 0..WAITERS_MAX as u64 - 1 {
        table.insert(a, waiter(5, token), Instant::now()).unwrap();
    }
    assert_eq!(table.insert(a, waiter(6, 1), Instant::now()), Err(Reason::TableFull));
    assert_eq!(table.insert(endpoint(1, 2, 81, 5000), waiter(6, 1), Instant::now()), Err(Reason::TableFull));
    assert_eq!(table.len(), 1);
}

#[test]
fn offers_expire_in_order_and_a_second_life_counts_anew() {
    let (a, start) = (endpoint(1, 1, 80, 5000), Instant::now());
    let after = |s| start + Duration::from_secs(s);
    let mut table = OfferTable::new(8);
    table.insert(a, waiter(1, 1), start).unwrap();
    table.withdraw(a.id, waiter(1, 1));
    table.insert(a, waiter(1, 2), after(5)).unwrap();
    assert_eq!(table.expired(after(10), Duration::from_secs(10)), None);
    assert_eq!(table.expired(after(15), Duration::from_secs(10)).map(|o| o.waiters), Some(vec![waiter(1, 2)]));
    assert_eq!((table.len(), table.by_tuple.len()), (0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Insert { netns: u64, cookie: u64, local: u16, remote: u16, client: u64 },
    Remove(u64, u64),
    Withdraw { netns: u64, cookie: u64, client: u64 },
    Expire(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0..4u64;
    prop_oneof![
        4 => (0..2u64, 0..8u64, 0..3u16, 0..3u16, small.clone()).prop_map(|(netns, cookie, local, remote, client)|
            Step::Insert { netns, cookie, local, remote, client }),
        1 => (0..2u64, 0..8u64).prop_map(|(netns, cookie)| Step::Remove(netns, cookie)),
        2 => (0..2u64, 0..8u64, small).prop_map(|(netns, cookie, client)| Step::Withdraw { netns, cookie, client }),
        1 => (0..30u64).prop_map(Step::Expire),
    ]
}

proptest! {
    /// Whatever happens, both indexes agree, the bound holds, and partners are what a plain search finds.
    #[test]
    fn the_table_agrees_with_a_plain_list(steps in prop::collection::vec(step(), 1..80)) {
        let start = Instant::now();
        let (mut table, mut clock) = (OfferTable::new(6), 0);
        for step in steps {
            clock += 1;
            let now = start + Duration::from_secs(clock);
            match step {
                Step::Insert { netns, cookie, local, remote, client } => {
                    // A cookie belongs to one socket, and so to one pair of addresses.
                    let known = table.get(SocketId { netns, cookie }).map(|o| o.endpoint);
                    let fresh = endpoint(netns, cookie, local, remote);
                    let _ = table.insert(known.unwrap_or(fresh), waiter(client, clock), now);
                }
                Step::Remove(netns, cookie) => { table.remove(SocketId { netns, cookie }); }
                Step::Withdraw { netns, cookie, client } => {
                    let id = SocketId { netns, cookie };
                    let of_client = |o: &Offer| o.waiters.iter().find(|w| w.client == client).copied();
                    if let Some(w) = table.get(id).and_then(of_client) {
                        table.withdraw(id, w);
                        prop_assert!(table.get(id).is_none_or(|o| !o.waiters.contains(&w)));
                    }
                }
                Step::Expire(age) => {
                    let timeout = Duration::from_secs(age);
                    while table.expired(now, timeout).is_some() {}
                    prop_assert!(table.iter().all(|o| now - o.since < timeout));
                }
            }
            prop_assert!(table.len() <= 6);
            prop_assert_eq!(table.by_tuple.values().map(Vec::len).sum::<usize>(), table.len());
            prop_assert!(table.iter().all(|o| !o.waiters.is_empty()));
            for offer in table.iter() {
                prop_assert!(table.by_tuple[&offer.endpoint.tuple].contains(&offer.endpoint.id));
                let plain = table.iter().filter(|o| o.endpoint.id != offer.endpoint.id
                    && o.endpoint.tuple == offer.endpoint.tuple.reversed()
                    && o.endpoint.id.netns == offer.endpoint.id.netns).count();
                match table.partner(&offer.endpoint, false) {
                    Partner::Found(id) => prop_assert!(plain > 0 && id.netns == offer.endpoint.id.netns),
                    _ => prop_assert_eq!(plain, 0),
                }
            }
        }
    }
}
