//! The generator against the web server, on our TCP over a pipe and on the kernel's.

use std::sync::atomic::{AtomicBool, Ordering};

use ringway_stack::{Endpoint, KernelSockets, Stack, StackConfig};

use super::*;
use crate::load::{Report, Sizes};
use crate::web::{Content, Done, Limits, Server};

const PLAN: Plan =
    Plan { connections: 7, ending: Ending::Keep, rate: None, timeout: Duration::from_secs(60), requests_max: 500 };

/// Two ends of one kind of TCP.
fn on_kernel() -> (KernelSockets, KernelSockets, Endpoint) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (KernelSockets::new().unwrap(), KernelSockets::new().unwrap(), free.into())
}

fn on_engine(name: &str) -> (Stack, Stack, Endpoint) {
    let host = |n: u8| {
        let config =
            StackConfig { addresses: vec![format!("10.0.0.{n}/24").parse().unwrap()], ..StackConfig::default() };
        Stack::new(ringway_port::open(&format!("shm:{name}")).unwrap(), config, n.into()).unwrap()
    };
    (host(1), host(2), Endpoint::new([10, 0, 0, 1].into(), 80))
}

/// Runs the generator to its end against a server with `content`.
fn run<S: Sockets + Send>(ends: (S, S, Endpoint), content: Content, plan: Plan, http: bool) -> (Report, Tally, Done) {
    let (mut server_side, mut client_side, at) = ends;
    let limits = Limits { clients_max: 1000, idle: Duration::from_secs(60) };
    let mut server = Server::new(&mut server_side, at, content, limits).unwrap();
    let over = AtomicBool::new(false);
    let text = std::net::SocketAddr::from(at);
    let text = if http { format!("http://{text}/") } else { text.to_string() };
    let sizes = Sizes { request_bytes: 100_000, response_bytes: 100_000 };
    let target = Target::parse(&text, sizes, plan.ending != Ending::Keep).unwrap();
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut events = Vec::new();
            while !over.load(Ordering::Relaxed) {
                server_side.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
                server.serve(&mut server_side, &events);
            }
            server.done()
        });
        let mut generator = Generator::new(vec![target], plan);
        let mut events = Vec::new();
        while !generator.is_connected() {
            generator.turn(&mut client_side, &mut events).unwrap();
        }
        generator.start();
        while !generator.is_done() {
            generator.turn(&mut client_side, &mut events).unwrap();
        }
        over.store(true, Ordering::Relaxed);
        let report = Report::new(&generator, Duration::from_secs(1));
        (report, generator.tally, served.join().unwrap())
    })
}

fn is_clean(outcome: &(Report, Tally, Done), answers: u64) {
    let (report, tally, _) = outcome;
    assert!(report.is_clean(), "{}", report.text());
    assert_eq!(tally.answers(), answers);
}

#[test]
fn connections_are_kept() {
    for outcome in [
        run(on_kernel(), Content::Fixed(3000), PLAN, true),
        run(on_engine("loadkeep"), Content::Fixed(3000), PLAN, true),
    ] {
        is_clean(&outcome, 500);
        let (_, tally, done) = outcome;
        assert_eq!((tally.opened, done.accepted, done.requests), (7, 7, 500));
        assert!(tally.received_bytes > 500 * 3000 && tally.statuses[&200] == 500);
    }
}

#[test]
fn large_requests_go_in_pieces() {
    let plan = Plan { requests_max: 60, ..PLAN };
    for outcome in
        [run(on_kernel(), Content::Echo, plan, false), run(on_engine("loadlarge"), Content::Echo, plan, false)]
    {
        is_clean(&outcome, 60);
        assert_eq!((outcome.1.sent_bytes, outcome.1.received_bytes), (6_000_000, 6_000_000));
    }
}

#[test]
fn each_request_has_a_connection_of_its_own() {
    for ending in [Ending::Peer, Ending::Own, Ending::Reset] {
        let plan = Plan { ending, requests_max: 100, ..PLAN };
        for outcome in [
            run(on_kernel(), Content::Fixed(64), plan, true),
            run(on_engine("loadclose"), Content::Fixed(64), plan, true),
        ] {
            is_clean(&outcome, 100);
            assert_eq!(outcome.2.accepted, 100, "{ending:?}");
        }
    }
}

#[test]
fn a_rate_is_not_exceeded() {
    let started = monotonic_ns();
    let plan = Plan { rate: Some(1000.0), requests_max: 101, ..PLAN };
    is_clean(&run(on_engine("loadrate"), Content::Fixed(64), plan, true), 101);
    assert!(monotonic_ns() - started >= 100_000_000);
}

#[test]
fn failures_are_counted_by_name() {
    let plan = Plan { requests_max: 3, connections: 3, ..PLAN };
    // The server refuses 100,000 bytes that are no HTTP.
    let (report, tally, _) = run(on_kernel(), Content::Fixed(64), plan, false);
    assert!(!report.is_clean());
    assert_eq!((tally.failures(), tally.answers()), (3, 0), "{}", report.text());
}

#[test]
fn nobody_listens() {
    let (_, mut client, at) = on_kernel();
    let sizes = Sizes { request_bytes: 1, response_bytes: 1 };
    let target = Target::parse(&std::net::SocketAddr::from(at).to_string(), sizes, false).unwrap();
    let mut generator = Generator::new(vec![target], PLAN);
    let mut events = Vec::new();
    while generator.hopeless().is_none() {
        generator.turn(&mut client, &mut events).unwrap();
    }
    assert_eq!(generator.hopeless(), Some(Error::ConnectionRefused));
}
