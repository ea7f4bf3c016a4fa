//! `ringway bridge`: packets of one port out of the other, both ways.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use ringway_port::Ready;

use crate::packets::meter::{Count, Meter};
use crate::packets::stop::{NAP, Stop};
use crate::packets::transfer::pass_on;
use crate::packets::{Common, open_port};

/// Longest sleep while both ports are silent: each can be waited for only by itself.
const TURN: Duration = Duration::from_micros(200);

/// Turns without a packet before the bridge sleeps between turns.
const IDLE_TURNS: u32 = 200;

/// Pass packets on between two ports, both ways
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway bridge -i tap:t0 -i shm:to-engine
  ringway bridge -i netmap:veth0 -i vale0:up

Buffers change places where both ports share a pool of memory, and are copied where they do not. What finds \
no room in the other port waits in its own; nothing is thrown away here.")]
pub(super) struct Arguments {
    /// The two ports
    #[arg(short = 'i', long = "port", value_name = "PORT", num_args = 1, required = true)]
    ports: Vec<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let [left, right] = &arguments.ports[..] else {
        anyhow::bail!("a bridge has two ports: give -i PORT twice, not {} times", arguments.ports.len())
    };
    let (mut left, mut right) = (open_port(left)?, open_port(right)?);
    for port in [&left, &right] {
        let name = &port.info().name;
        ensure!(port.tx_rings() > 0 && port.rx_rings() > 0, "{name} cannot both send and receive");
    }
    let mut stop = Stop::new(arguments.common.duration)?;
    let mut meter = Meter::new("passed on", arguments.common.interval, arguments.common.json);
    let (mut count, mut idle) = (Count::default(), 0);
    loop {
        let now = Instant::now();
        if stop.reached(now) {
            break;
        }
        meter.tick(now, count)?;
        let moved = pass_on(&mut left, &mut right, &mut count)? + pass_on(&mut right, &mut left, &mut count)?;
        idle = if moved > 0 { 0 } else { idle + 1 };
        if idle > IDLE_TURNS {
            left.wait(Ready::RX, Some(if idle > 100 * IDLE_TURNS { NAP / 50 } else { TURN }))?;
        }
    }
    meter.finish(count)?;
    Ok(ExitCode::SUCCESS)
}
