//! `ringway lb`: packets of one port spread over pipes, each flow to one of them.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use ringway_port::{Port, Ready};

use crate::packets::meter::{Count, Meter};
use crate::packets::stop::{NAP, Stop};
use crate::packets::{Common, flow, open_port, transfer};

/// Spread the packets of a port over pipes by flow
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway lb -i netmap:veth0 -p netmap:lb -n 4    four readers open netmap:lb}0 to netmap:lb}3
  ringway lb -i vale0:mirror -n 2                 pipes of the port's own name, without copying

Both directions of a flow go to the same pipe. A packet for a full pipe is dropped and counted, so that one \
slow reader does not hold up the others.")]
pub(super) struct Arguments {
    /// Port to read
    #[arg(short = 'i', long = "port", value_name = "PORT")]
    port: String,
    /// Name of the pipes without number [default: the port's]
    #[arg(short, long, value_name = "NAME")]
    pipes: Option<String>,
    /// How many pipes
    #[arg(short = 'n', long, value_name = "PIPES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    count: u32,
    #[command(flatten)]
    common: Common,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let mut port = open_port(&arguments.port)?;
    ensure!(port.rx_rings() > 0, "{} has no rx ring to read", arguments.port);
    let name = arguments.pipes.as_ref().unwrap_or(&arguments.port);
    let pipes: Result<Vec<Port>> = (0..arguments.count).map(|n| open_port(&format!("{name}{{{n}"))).collect();
    let mut spreader = Spreader { pipes: pipes?, count: Count::default() };
    let mut stop = Stop::new(arguments.common.duration)?;
    let mut meter = Meter::new("spread", arguments.common.interval, arguments.common.json);
    loop {
        let now = Instant::now();
        if stop.reached(now) {
            break;
        }
        meter.tick(now, spreader.count)?;
        let mut moved = false;
        for ring in 0..port.rx_rings() {
            port.sync_rx(ring)?;
            moved |= spreader.spread(&mut port, ring)?;
        }
        if !moved {
            port.wait(Ready::RX, Some(NAP))?;
        }
    }
    meter.finish(spreader.count)?;
    Ok(ExitCode::SUCCESS)
}

struct Spreader {
    pipes: Vec<Port>,
    count: Count,
}

impl Spreader {
    /// Everything that has come in on a ring; whether there was anything.
    fn spread(&mut self, port: &mut Port, ring: usize) -> Result<bool> {
        let mut received = port.rx(ring)?;
        let mut at = 0;
        while let Some(slots) = (at < received.len()).then(|| received.packet_slots(at)).flatten() {
            let pipe = flow::hash(received.bytes(at)) as usize % self.pipes.len();
            let bytes: usize = (at..at + slots).map(|i| usize::from(received.slot(i).len)).sum();
            let mut free = self.pipes[pipe].tx(0)?;
            match transfer::pass_packet(&mut received, at, slots, &mut free, 0) {
                Some(used) => {
                    free.send(used);
                    self.count.add(bytes);
                }
                None => self.count.dropped += 1,
            }
            at += slots;
        }
        received.release(at);
        self.pipes.iter_mut().try_for_each(|pipe| pipe.sync_tx(0).map(|_| ()))?;
        Ok(at > 0)
    }
}
