//! `ringway sink`: takes packets out of a port and says what was wrong with them.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use ringway_port::{Port, Ready};

use super::EXIT_NEGATIVE;
use crate::output::{print_json, print_text};
use crate::packets::meter::{Count, Meter};
use crate::packets::order::Order;
use crate::packets::stop::{NAP, Stop};
use crate::packets::{Common, open_port};

/// Receive packets from a port and check their order and content
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway sink -i vale0:b                         count, with rates, until Ctrl-C
  ringway sink -i shm:trial --check -n 1000000    every byte; exit code 1 if one is wrong or missing

Only packets of `ringway gen` have numbers; others are counted as foreign.")]
pub(super) struct Arguments {
    /// Port to receive from
    #[arg(short = 'i', long = "port", value_name = "PORT")]
    port: String,
    /// End after this many packets
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    /// Compare every byte with what `ringway gen --fill` sends; exit code 1 for anything lost, repeated, reordered,
    /// changed or foreign
    #[arg(long)]
    check: bool,
    /// Do not look into the packets at all
    #[arg(long, conflicts_with = "check")]
    blind: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let mut port = open_port(&arguments.port)?;
    ensure!(port.rx_rings() > 0, "{} has no rx ring to receive from", arguments.port);
    let mut stop = Stop::new(arguments.common.duration)?;
    let mut meter = Meter::new("received", arguments.common.interval, arguments.common.json);
    let orders = (0..port.rx_rings()).map(|_| Order::new(arguments.check)).collect();
    let mut sink = Sink { orders, blind: arguments.blind, count: Count::default(), packet: Vec::new() };
    let outcome = sink.run(&mut port, arguments.count.unwrap_or(u64::MAX), &mut stop, &mut meter);
    meter.finish(sink.count)?;
    let clean = arguments.blind || sink.report(arguments.common.json)?;
    outcome?;
    Ok(if clean || !arguments.check { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NEGATIVE) })
}

struct Sink {
    /// One stream of numbers for each ring.
    orders: Vec<Order>,
    blind: bool,
    count: Count,
    /// Room for a packet of several slots.
    packet: Vec<u8>,
}

impl Sink {
    fn run(&mut self, port: &mut Port, last: u64, stop: &mut Stop, meter: &mut Meter) -> Result<()> {
        while self.count.packets < last {
            let now = Instant::now();
            if stop.reached(now) {
                break;
            }
            meter.tick(now, self.count)?;
            let mut moved = false;
            for ring in 0..port.rx_rings() {
                port.sync_rx(ring)?;
                moved |= self.empty(port, ring, last)? > 0;
            }
            self.count.dropped = (0..port.rx_rings()).map(|ring| port.rx_counters(ring).dropped).sum();
            if !moved {
                port.wait(Ready::RX, Some(NAP))?;
            }
        }
        // What was read is given back before the port closes.
        (0..port.rx_rings()).try_for_each(|ring| port.sync_rx(ring).map(|_| ()))?;
        Ok(())
    }

    /// Reads what has come in on a ring; returns how many slots.
    fn empty(&mut self, port: &mut Port, ring: usize, last: u64) -> Result<u32> {
        let batch = port.rx(ring)?;
        let mut at = 0;
        while at < batch.len() && self.count.packets < last {
            let Some(slots) = batch.packet_slots(at) else { break };
            let bytes = if slots == 1 {
                batch.bytes(at)
            } else {
                self.packet.clear();
                batch.copy_packet(at, slots, &mut self.packet);
                &self.packet
            };
            self.count.add(bytes.len());
            if !self.blind {
                self.orders[ring].frame(bytes);
            }
            at += slots;
        }
        batch.release(at);
        Ok(at)
    }

    /// Prints the findings; whether there are none.
    fn report(&self, json: bool) -> Result<bool> {
        let mut clean = true;
        for (ring, order) in self.orders.iter().enumerate() {
            let found = order.findings;
            clean &= found == Default::default();
            if json {
                print_json(&serde_json::json!({ "schema": 1, "ring": ring, "findings": found }))?;
            } else {
                let crate::packets::order::Findings { lost, reordered, duplicated, corrupt, foreign } = found;
                print_text(&format!(
                    "ring {ring}: {lost} lost, {reordered} reordered, {duplicated} repeated, {corrupt} changed, {foreign} foreign\n"
                ))?;
            }
        }
        Ok(clean)
    }
}
