//! The server on the kernel's loopback, with clients that the standard library makes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use ringway_stack::KernelSockets;

use super::*;
use crate::web::Content;

/// Runs `client` against a server in another thread.
fn with_server(content: Content, limits: Limits, client: impl FnOnce(SocketAddr)) -> Done {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sockets = KernelSockets::new().unwrap();
    let mut server = Server::new(&mut sockets, free.into(), content, limits).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut events = Vec::new();
            while !over.load(Ordering::Relaxed) {
                sockets.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
                server.serve(&mut sockets, &events);
            }
            server.done()
        });
        // The server ends even if the client fails.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(free)));
        over.store(true, Ordering::Relaxed);
        let done = served.join().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done
    })
}

fn limits() -> Limits {
    Limits { clients_max: 100, idle: Duration::from_secs(60) }
}

/// Sends `request` and reads until the server ends.
fn exchange(at: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(request).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8(reply).unwrap()
}

#[test]
fn requests_that_come_together_are_answered_in_order() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "first").unwrap();
    std::fs::write(folder.path().join("b"), "y".repeat(300_000)).unwrap();
    let done = with_server(Content::folder(folder.path()).unwrap(), limits(), |at| {
        let part = |target, fields| format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        let requests = [
            part("/a", "Content-Length: 5\r\n") + "12345",
            part("/b", ""),
            part("/none", ""),
            part("/a", "Connection: close\r\n"),
        ];
        let reply = exchange(at, requests.concat().as_bytes());
        let bodies: Vec<&str> = reply.split("HTTP/1.1 ").skip(1).collect();
        assert_eq!(bodies.len(), 4, "{reply:.300}");
        assert!(bodies[0].starts_with("200 OK") && bodies[0].ends_with("\r\n\r\nfirst"));
        assert!(bodies[1].contains("Content-Length: 300000") && bodies[1].ends_with(&"y".repeat(300_000)));
        assert!(bodies[2].starts_with("404 "));
        assert!(bodies[3].contains("Connection: close") && bodies[3].ends_with("first"));
    });
    assert_eq!((done.requests, done.refused, done.accepted), (4, 1, 1));
}

#[test]
fn a_client_that_pipelines_without_reading_gets_everything_once_it_reads() {
    let reply_bytes = 100_000;
    let done = with_server(Content::Fixed(reply_bytes), limits(), |at| {
        let mut stream = TcpStream::connect(at).unwrap();
        let requests = "GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(99) + "HEAD / HTTP/1.0\r\n\r\n";
        stream.write_all(requests.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        let filling = reply.iter().filter(|byte| **byte == b'x').count() as u64;
        assert!(filling >= 99 * reply_bytes && filling < 99 * reply_bytes + 1000, "{filling}");
    });
    assert_eq!(done.requests, 100);
}

#[test]
fn a_refused_body_does_not_reset_the_answer() {
    let done = with_server(Content::Fixed(8), limits(), |at| {
        let mut request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n".to_vec();
        request.resize(request.len() + 200_000, b'z');
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 405 ") && reply.contains("Allow: GET, HEAD"), "{reply}");
    });
    assert_eq!((done.requests, done.refused), (1, 1));
}

#[test]
fn clients_are_bounded_and_silent_ones_let_go() {
    let limits = Limits { clients_max: 1, idle: Duration::from_millis(1) };
    let done = with_server(Content::Fixed(8), limits, |at| {
        let mut slow = TcpStream::connect(at).unwrap();
        slow.write_all(b"GET / HT").unwrap();
        let mut turned_away = TcpStream::connect(at).unwrap();
        let mut byte = [0];
        assert!(!matches!(turned_away.read(&mut byte), Ok(1..)));
        let mut reply = String::new();
        slow.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 408 "), "{reply}");
    });
    assert_eq!(done.turned_away, 1);
}

#[test]
fn an_echo_sends_back_what_comes() {
    with_server(Content::Echo, limits(), |at| {
        let mut stream = TcpStream::connect(at).unwrap();
        let mut back = [0; 5];
        for _ in 0..3 {
            stream.write_all(b"hello").unwrap();
            stream.read_exact(&mut back).unwrap();
            assert_eq!(&back, b"hello");
        }
    });
}
