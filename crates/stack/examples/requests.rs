//! Requests of 64 bytes and their echoes between two stacks, all in one thread: the workload whose instructions are counted
//! (`cargo xtask instructions`).
//!
//!   requests CONNECTIONS REQUESTS
//!
//! Both ends together make REQUESTS requests on each of CONNECTIONS connections; two runs that differ in REQUESTS alone differ
//! by what these take.

use std::error::Error;
use std::time::Duration;

use ringway_stack::{Endpoint, ListenerId, Ready, Sockets, Source, Stack, StackConfig};

const REQUEST: [u8; 64] = [7; 64];
const PORT: u16 = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Some(connections), Some(requests)) = (numbers.next().transpose()?, numbers.next().transpose()?) else {
        return Err("usage: requests CONNECTIONS REQUESTS".into());
    };
    let (mut server, mut client) = (host(1)?, host(2)?);
    let at = Endpoint::new(server.addresses()[0].address, PORT);
    let listener = server.listen(at, connections as u32)?;
    let mut left: Vec<u64> = Vec::new();
    for _ in 0..connections {
        let conn = client.connect(at)?;
        client.send(conn, &REQUEST)?;
        left.resize(left.len().max(conn.index as usize + 1), 0);
        left[conn.index as usize] = requests;
    }
    let mut unanswered = connections * requests;
    while unanswered > 0 {
        ask(&mut client, &mut left, &mut unanswered)?;
        echo(&mut server, listener)?;
    }
    Ok(())
}

fn host(number: u8) -> Result<Stack, Box<dyn Error>> {
    let config = StackConfig { addresses: vec![format!("10.0.0.{number}/24").parse()?], ..StackConfig::default() };
    Ok(Stack::new(ringway_port::open("shm:requests")?, config, number.into())?)
}

/// Takes answers, and asks again.
fn ask(client: &mut Stack, left: &mut [u64], unanswered: &mut u64) -> Result<(), Box<dyn Error>> {
    let (mut events, mut answer) = (Vec::new(), [0; REQUEST.len()]);
    client.poll(&mut events, Some(Duration::ZERO))?;
    for event in &events {
        let Source::Connection(conn) = event.source else { continue };
        if !event.ready.contains(Ready::READABLE) {
            continue;
        }
        if client.recv(conn, &mut answer)? != REQUEST.len() || answer != REQUEST {
            return Err("a request came back changed".into());
        }
        let left = &mut left[conn.index as usize];
        (*left, *unanswered) = (*left - 1, *unanswered - 1);
        if *left > 0 {
            client.send(conn, &REQUEST)?;
        }
    }
    Ok(())
}

fn echo(server: &mut Stack, listener: ListenerId) -> Result<(), Box<dyn Error>> {
    let (mut events, mut request) = (Vec::new(), [0; 4096]);
    server.poll(&mut events, Some(Duration::ZERO))?;
    for event in &events {
        match event.source {
            Source::Listener(_) => while server.accept(listener).is_ok() {},
            Source::Connection(conn) => {
                if let Ok(bytes) = server.recv(conn, &mut request) {
                    server.send(conn, &request[..bytes])?;
                }
            }
        }
    }
    Ok(())
}
