//! Two engines talk to each other: the whole of a connection's life over a link.

use crate::link::{Pair, endpoint, pattern};
use ringway_tcp::{Config, Error, ReceiveFlags, SendFlags, Shutdown, State};

#[test]
fn bytes_go_both_ways() {
    let (mut pair, client, server) = Pair::connected(Config::default());
    let bytes = pattern(300_000);
    pair.transfer(0, client, server, &bytes, 10_000_000);
    pair.transfer(1, server, client, &bytes, 10_000_000);
}

#[test]
fn a_lost_packet_is_sent_again() {
    let (mut pair, client, server) = Pair::connected(Config::default());
    pair.fates[0] = Some(Box::new(|number, _| if number == 5 { vec![] } else { vec![0] }));
    pair.transfer(0, client, server, &pattern(50_000), 10_000_000);
}

fn states(pair: &Pair, client: ringway_tcp::ConnId, server: ringway_tcp::ConnId) -> (State, State) {
    (pair.ends[0].state(client).unwrap(), pair.ends[1].state(server).unwrap())
}

#[test]
fn the_client_ends_first() {
    let (mut pair, client, server) = Pair::connected(Config::default());
    pair.send(0, client, b"last words");
    pair.ends[0].shutdown(pair.now, client, Shutdown::Send).unwrap();
    pair.run_for(100_000);
    assert_eq!(states(&pair, client, server), (State::FinWait2, State::CloseWait));
    assert_eq!(pair.recv(1, server), b"last words");
    assert_eq!(pair.ends[1].recv(pair.now, server, &mut [0; 9], ReceiveFlags::empty()), Ok(0));
    pair.send(1, server, b"goodbye");
    pair.ends[1].close(pair.now, server).unwrap();
    pair.run_for(100_000);
    assert_eq!(pair.recv(0, client), b"goodbye");
    assert_eq!(pair.ends[0].recv(pair.now, client, &mut [0; 9], ReceiveFlags::empty()), Ok(0));
    pair.ends[0].close(pair.now, client).unwrap();
    assert_eq!((pair.ends[0].counts(), pair.ends[1].counts()), ((0, 0, 1), (0, 0, 0)));
    pair.run_for(61_000_000);
    assert_eq!(pair.ends[0].counts(), (0, 0, 0));
    assert_eq!([pair.ends[0].buffer_bytes(), pair.ends[1].buffer_bytes()], [0, 0]);
}

#[test]
fn both_end_at_once() {
    let (mut pair, client, server) = Pair::connected(Config::default());
    pair.ends[0].close(pair.now, client).unwrap();
    pair.ends[1].close(pair.now, server).unwrap();
    pair.run_for(100_000);
    assert_eq!((pair.ends[0].counts(), pair.ends[1].counts()), ((0, 0, 1), (0, 0, 1)));
}

#[test]
fn a_reset_reaches_the_other_side() {
    let (mut pair, client, server) = Pair::connected(Config::default());
    pair.ends[0].abort(pair.now, client).unwrap();
    pair.run_for(100_000);
    let result = pair.ends[1].recv(pair.now, server, &mut [0; 9], ReceiveFlags::empty());
    assert_eq!(result, Err(Error::ConnectionReset));
    assert_eq!(pair.ends[1].send(pair.now, server, b"x", SendFlags::empty()), Err(Error::BrokenPipe));
    assert_eq!(pair.ends[0].recv(pair.now, client, &mut [0; 9], ReceiveFlags::empty()), Err(Error::BadHandle));
}

#[test]
fn nobody_listens() {
    let mut pair = Pair::new(Config::default());
    let (here, there) = (endpoint("10.0.0.1:0"), endpoint("10.0.0.2:80"));
    let client = pair.ends[0].connect(pair.now, here, there, &Default::default()).unwrap();
    pair.run_for(100_000);
    assert_eq!(pair.ends[0].take_error(client), Ok(Some(Error::ConnectionRefused)));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let (mut pair, client, server) = Pair::connected(Config::default());
        let trace = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let writer = trace.clone();
        pair.fates[0] = Some(Box::new(move |number, packet: &[u8]| {
            writer.borrow_mut().extend_from_slice(packet);
            if number % 7 == 3 { vec![] } else { vec![number % 3 * 1000] }
        }));
        pair.transfer(0, client, server, &pattern(100_000), 100_000_000);
        trace.take()
    };
    assert!(run() == run());
}

/// Loss, reordering and duplication together, both ways at once.
#[test]
fn a_bad_link_delivers_everything() {
    for seed in 0..20u64 {
        let (mut pair, client, server) = Pair::connected(Config::default());
        for end in 0..2 {
            let mut state = seed * 2 + end as u64 + 1;
            pair.fates[end] = Some(Box::new(move |_, _| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                match (state >> 33) % 20 {
                    0 | 1 => vec![],
                    2 => vec![0, 3000],
                    3 => vec![20_000],
                    _ => vec![0],
                }
            }));
        }
        let bytes = pattern(200_000);
        pair.transfer(0, client, server, &bytes, 600_000_000);
        pair.transfer(1, server, client, &bytes, 600_000_000);
    }
}

/// A reader that is slow to read closes the window; probes and window updates keep things going.
#[test]
fn a_slow_reader_stalls_nobody_for_ever() {
    let (mut pair, client, server) = Pair::connected(Config::default());
    let bytes = pattern(2_000_000);
    let (mut sent, mut got) = (0, 0);
    while got < bytes.len() {
        if sent < bytes.len() {
            sent += pair.send(0, client, &bytes[sent..]);
        }
        pair.run_for(3_000_000);
        let mut out = vec![0; 50_000];
        let taken = pair.ends[1].recv(pair.now, server, &mut out, ReceiveFlags::empty()).unwrap();
        assert!(taken > 0 && out[..taken] == bytes[got..got + taken]);
        got += taken;
    }
}

#[test]
fn ipv6_carries_it_as_well() {
    let mut pair = Pair::new(Config::default());
    let (here, there) = (endpoint("[2001:db8::1]:0"), endpoint("[2001:db8::2]:80"));
    let listener = pair.ends[1].listen(endpoint("[::]:80"), 10, &Default::default()).unwrap();
    let client = pair.ends[0].connect(pair.now, here, there, &Default::default()).unwrap();
    pair.run_for(20_000);
    let server = pair.ends[1].accept(listener).unwrap();
    assert_eq!(pair.ends[1].endpoints(server).unwrap().0, there);
    pair.transfer(0, client, server, &pattern(100_000), 10_000_000);
    let info = pair.ends[0].tcp_info(pair.now, client).unwrap();
    assert_eq!((info.snd_mss, info.advmss), (1428, 1440));
}

/// Many connections at once: each echoes, then all end, and nothing is left.
#[test]
fn thousands_live_and_leave_nothing_behind() {
    const CONNECTIONS: usize = 3000;
    let mut pair = Pair::new(Config::default());
    let listener = pair.ends[1].listen(endpoint("0.0.0.0:80"), 4096, &Default::default()).unwrap();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let here = endpoint(&format!("10.0.{}.1:0", n % 7));
            pair.ends[0].connect(pair.now, here, endpoint("10.0.0.2:80"), &Default::default()).unwrap()
        })
        .collect();
    // More SYNs at once than answers may wait: some are sent again.
    pair.run_for(10_000_000);
    let servers: Vec<_> = (0..CONNECTIONS).map(|_| pair.ends[1].accept(listener).unwrap()).collect();
    for (n, &client) in clients.iter().enumerate() {
        pair.send(0, client, &n.to_be_bytes());
    }
    pair.run_for(20_000);
    for &server in &servers {
        let bytes = pair.recv(1, server);
        assert_eq!(bytes.len(), 8);
        pair.send(1, server, &bytes);
        pair.ends[1].close(pair.now, server).unwrap();
    }
    pair.run_for(100_000);
    for (n, &client) in clients.iter().enumerate() {
        assert_eq!(pair.recv(0, client), n.to_be_bytes());
        pair.ends[0].close(pair.now, client).unwrap();
    }
    // The same for the last acknowledgements.
    pair.run_for(5_000_000);
    assert_eq!((pair.ends[0].counts(), pair.ends[1].counts()), ((0, 0, 0), (0, 0, CONNECTIONS)));
    assert_eq!([pair.ends[0].buffer_bytes(), pair.ends[1].buffer_bytes()], [0, 0]);
    pair.run_for(61_000_000);
    assert_eq!(pair.ends[1].counts(), (0, 0, 0));
}
