//! TCP fast open (RFC 7413) between two engines, where cookies are asked for, given, used and refused.

use crate::link::{Pair, endpoint};
use ringway_tcp::{Config, ConnId, ListenerId, ReceiveFlags, SendFlags, SocketOptions, State};

fn fast(bits: u32) -> Config {
    Config { tcp_fastopen: bits, ..Config::default() }
}

fn listener(pair: &mut Pair) -> ListenerId {
    let options = SocketOptions { fast_open_queue: 2, ..SocketOptions::default() };
    pair.ends[1].listen(endpoint("10.0.0.2:80"), 10, &options).unwrap()
}

/// Opens a connection and gives it `bytes` at once.
fn open(pair: &mut Pair, bytes: &[u8]) -> ConnId {
    let options = SocketOptions { fast_open_connect: true, ..SocketOptions::default() };
    let (here, there) = (endpoint("10.0.0.1:0"), endpoint("10.0.0.2:80"));
    let client = pair.ends[0].connect(pair.now, here, there, &options).unwrap();
    assert_eq!(pair.ends[0].send(pair.now, client, bytes, SendFlags::empty()), Ok(bytes.len()));
    client
}

/// How long after opening the data can be read by the server, in one-way delays.
fn delays_until_read(pair: &mut Pair, listener: ListenerId, bytes: &[u8]) -> u64 {
    let begin = pair.now;
    let client = open(pair, bytes);
    let mut server = None;
    loop {
        pair.run_for(pair.delay_us);
        server = server.or_else(|| pair.ends[1].accept(listener).ok());
        let Some(server) = server else { continue };
        let mut out = vec![0; 9000];
        if let Ok(got) = pair.ends[1].recv(pair.now, server, &mut out, ReceiveFlags::empty()) {
            assert_eq!(&out[..got], bytes);
            let delays = pair.now.since_us(begin) / pair.delay_us;
            pair.run_for(300_000);
            assert_eq!(pair.ends[0].state(client), Ok(State::Established));
            assert_eq!(pair.ends[1].state(server), Ok(State::Established));
            return delays;
        }
    }
}

#[test]
fn the_second_connection_brings_data_with_its_syn() {
    let mut pair = Pair::new(fast(3));
    let listener = listener(&mut pair);
    assert_eq!(delays_until_read(&mut pair, listener, b"first"), 3);
    assert_eq!(delays_until_read(&mut pair, listener, b"second"), 1);
}

#[test]
fn without_cookies_the_first_one_does() {
    let mut pair = Pair::new(fast(0x207));
    let listener = listener(&mut pair);
    assert_eq!(delays_until_read(&mut pair, listener, b"first"), 1);
}

#[test]
fn where_either_side_does_not_know_it_nothing_changes() {
    for bits in [1, 2, 0] {
        let mut pair = Pair::new(fast(bits));
        let listener = listener(&mut pair);
        for _ in 0..2 {
            assert_eq!(delays_until_read(&mut pair, listener, b"hello"), 3);
        }
    }
}

#[test]
fn a_syn_with_data_that_is_lost_is_sent_again_without() {
    let mut pair = Pair::new(fast(3));
    let listener = listener(&mut pair);
    delays_until_read(&mut pair, listener, b"first");
    let mut lost = false;
    pair.fates[0] = Some(Box::new(move |_, _| if core::mem::replace(&mut lost, true) { vec![0] } else { vec![] }));
    assert!(delays_until_read(&mut pair, listener, b"second") > 200);
}

#[test]
fn a_cookie_of_another_server_is_no_use() {
    let mut pair = Pair::new(fast(3));
    let listener = listener(&mut pair);
    delays_until_read(&mut pair, listener, b"first");
    // The server starts anew, with other secrets.
    pair.ends[1] = ringway_tcp::Engine::new(fast(3), 99);
    let options = SocketOptions { fast_open_queue: 2, ..SocketOptions::default() };
    let listener = pair.ends[1].listen(endpoint("10.0.0.2:80"), 10, &options).unwrap();
    assert_eq!(delays_until_read(&mut pair, listener, b"second"), 3);
    assert_eq!(delays_until_read(&mut pair, listener, b"third"), 1);
}

#[test]
fn the_server_may_answer_before_the_handshake_is_over() {
    let mut pair = Pair::new(fast(3));
    let listener = listener(&mut pair);
    delays_until_read(&mut pair, listener, b"first");
    let client = open(&mut pair, b"question");
    pair.run_for(pair.delay_us);
    let server = pair.ends[1].accept(listener).unwrap();
    assert_eq!(pair.ends[1].state(server), Ok(State::SynReceived));
    assert_eq!(pair.recv(1, server), b"question");
    assert_eq!(pair.send(1, server, b"answer"), 6);
    pair.run_for(pair.delay_us);
    assert_eq!(pair.recv(0, client), b"answer");
    pair.run_for(300_000);
    assert_eq!(pair.ends[1].state(server), Ok(State::Established));
    pair.transfer(0, client, server, &crate::link::pattern(50_000), 10_000_000);
}
