//! `ringway gen`: numbered packets into a port.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use ringway_port::clock::monotonic_ns;
use ringway_port::{Port, Ready};

use crate::packets::frame::{self, Addresses, Tag, Template};
use crate::packets::meter::{Count, Meter};
use crate::packets::pace::Pace;
use crate::packets::stop::{NAP, Stop};
use crate::packets::transfer::drain;
use crate::packets::{Common, open_port, parse_mac, parse_rate};

/// Send generated, numbered packets into a port
#[derive(Args)]
#[command(after_help = "\
Examples:
  ringway gen -i vale0:a                          60-byte packets as fast as the port takes them
  ringway gen -i tap:t0 -l 1514 -n 100000 --rate 50000
  ringway gen -i shm:trial --fill                 every byte depends on the packet's number; sink --check looks

The packets are UDP over IPv4 with a number and the time of sending; `ringway sink` finds what was lost, \
repeated, reordered or changed.")]
pub(super) struct Arguments {
    /// Port to send to
    #[arg(short = 'i', long = "port", value_name = "PORT")]
    port: String,
    /// Bytes of a packet, from the Ethernet header on, without frame check sequence
    #[arg(short, long, value_name = "BYTES", default_value_t = frame::LEN_MIN)]
    length: usize,
    /// End after this many packets
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    /// Packets per second [default: as fast as possible]
    #[arg(short, long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Slots handed over at a time
    #[arg(short, long, value_name = "SLOTS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Flows, which differ by their source ports
    #[arg(long, value_name = "FLOWS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,
    /// Fill each packet by its number, for a receiver that checks all bytes
    #[arg(long)]
    fill: bool,
    /// Source address and port
    #[arg(long, value_name = "ADDR:PORT", default_value = "10.0.0.1:1024")]
    source: SocketAddrV4,
    /// Destination address and port
    #[arg(long, value_name = "ADDR:PORT", default_value = "10.1.0.1:2048")]
    destination: SocketAddrV4,
    /// Source hardware address
    #[arg(long, value_name = "MAC", default_value = "02:00:00:00:00:01", value_parser = parse_mac)]
    source_mac: [u8; 6],
    /// Destination hardware address
    #[arg(long, value_name = "MAC", default_value = "ff:ff:ff:ff:ff:ff", value_parser = parse_mac)]
    destination_mac: [u8; 6],
    #[command(flatten)]
    common: Common,
}

pub(super) fn main(arguments: Arguments) -> Result<ExitCode> {
    let of = |address: SocketAddrV4| -> (Ipv4Addr, u16) { (*address.ip(), address.port()) };
    let addresses = Addresses {
        source_mac: ringway_wire::MacAddress(arguments.source_mac),
        destination_mac: ringway_wire::MacAddress(arguments.destination_mac),
        source: of(arguments.source),
        destination: of(arguments.destination),
    };
    let template = Template::new(&addresses, arguments.length, arguments.flows)?;
    let mut port = open_port(&arguments.port)?;
    ensure!(port.tx_rings() > 0, "{} has no tx ring to send on", arguments.port);
    let most = port.info().packet_bytes_max as usize;
    ensure!(arguments.length <= most, "{} takes packets of at most {most} bytes", arguments.port);
    let mut generator = Generator { template, fill: arguments.fill, count: Count::default() };
    let mut stop = Stop::new(arguments.common.duration)?;
    let mut meter = Meter::new("sent", arguments.common.interval, arguments.common.json);
    let outcome = generator.run(&mut port, &arguments, &mut stop, &mut meter);
    meter.finish(generator.count)?;
    outcome?;
    Ok(ExitCode::SUCCESS)
}

struct Generator {
    template: Template,
    fill: bool,
    count: Count,
}

impl Generator {
    fn run(&mut self, port: &mut Port, arguments: &Arguments, stop: &mut Stop, meter: &mut Meter) -> Result<()> {
        let last = arguments.count.unwrap_or(u64::MAX);
        let mut pace = Pace::new(arguments.rate);
        let mut ring = 0;
        while self.count.packets < last {
            let now = Instant::now();
            if stop.reached(now) {
                break;
            }
            meter.tick(now, self.count)?;
            let allowed = pace.allow(now, (last - self.count.packets).min(u64::from(arguments.batch)));
            if allowed == 0 {
                std::thread::sleep(pace.nap(now, NAP));
                continue;
            }
            let sent = self.fill_ring(port, ring, allowed, arguments.batch)?;
            pace.took(sent);
            port.sync_tx(ring)?;
            ring = (ring + 1) % port.tx_rings();
            if sent == 0 {
                port.wait(Ready::TX, Some(NAP))?;
            }
            self.count.dropped = (0..port.tx_rings()).map(|ring| port.tx_counters(ring).dropped).sum();
        }
        drain(port, stop)
    }

    /// Fills free slots of a ring; returns how many packets.
    fn fill_ring(&mut self, port: &mut Port, ring: usize, packets: u64, slots: u32) -> Result<u64> {
        let sent_ns = monotonic_ns();
        let mut batch = port.tx(ring)?;
        let (mut filled, mut sent) = (0, 0);
        while sent < packets && filled < slots {
            let number = self.count.packets;
            if self.fill {
                self.template.fill(number);
            }
            let Some(used) = batch.put(filled, self.template.number(Tag { number, sent_ns })) else { break };
            self.count.add(self.template.len());
            (filled, sent) = (filled + used, sent + 1);
        }
        batch.send(filled);
        Ok(sent)
    }
}
