//! Our TCP at the ends of a shared-memory pipe.

use anyhow::Result;
use ringway_port::Port;
use ringway_stack::{Config, Endpoint, Stack, StackConfig};

use super::PORTS;

/// The pipe; its two ends find each other within this process.
const PIPE: &str = "shm:ringwaybench";
const SERVER: u8 = 1;
const CLIENT: u8 = 2;
/// Both ends have a CPU to themselves: polling costs nobody anything.
const SPIN_US: u32 = 10_000;

/// Server, client, and where the server is.
pub(super) fn two() -> Result<(Stack, Stack, Vec<Endpoint>)> {
    Ok((host(ringway_port::open(PIPE)?, SERVER)?, host(ringway_port::open(PIPE)?, CLIENT)?, addresses()))
}

/// A server's port, a client on our TCP at its other end, and where it expects the server.
#[cfg(feature = "comparators")]
pub(super) fn one() -> Result<(Port, Stack, Vec<Endpoint>)> {
    let port = ringway_port::open(PIPE)?;
    Ok((port, host(ringway_port::open(PIPE)?, CLIENT)?, addresses()))
}

fn addresses() -> Vec<Endpoint> {
    (0..PORTS as u16).map(|n| Endpoint::new([10, 0, 0, SERVER].into(), 7000 + n)).collect()
}

fn host(port: Port, number: u8) -> Result<Stack> {
    let tcp = Config { ip_local_port_first: 1024, ip_local_port_last: 65_535, ..Config::default() };
    let addresses = vec![format!("10.0.0.{number}/24").parse()?];
    let config = StackConfig { addresses, spin_us: SPIN_US, tcp, ..StackConfig::default() };
    Ok(Stack::new(port, config, number.into())?)
}
