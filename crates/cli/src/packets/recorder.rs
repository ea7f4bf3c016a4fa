//! Writing what comes in at a port into a packet file.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use ringway_port::pcap::Writer;
use ringway_port::{Port, Ready};

use super::expression::Expression;
use super::meter::{Count, Meter};
use super::open_port;
use super::stop::{NAP, Stop};

/// When to end, and how much of a packet to keep.
pub(crate) struct Limits {
    pub(crate) snap_bytes: usize,
    pub(crate) packets: u64,
    pub(crate) duration: Option<Duration>,
}

/// What came of it.
pub(crate) struct Recorded {
    /// Packets that came in, wanted or not.
    pub(crate) seen: u64,
    pub(crate) kept: Count,
}

struct Recorder<'a, W: Write> {
    expression: Expression,
    writer: Writer<W>,
    limits: &'a Limits,
    recorded: Recorded,
    /// Room for a packet of several slots.
    packet: Vec<u8>,
}

/// Records what comes in at `port` and matches `expression`, until a limit or a signal.
pub(crate) fn record(
    port: &str,
    expression: &str,
    out: impl Write,
    limits: &Limits,
    meter: &mut Meter,
) -> Result<Recorded> {
    // Before the port is opened: a wrong expression takes no packets.
    let expression = Expression::new(expression)?;
    let mut port = open_port(port)?;
    ensure!(port.rx_rings() > 0, "{} has no rx ring to read", port.info().name);
    let mut stop = Stop::new(limits.duration)?;
    let writer = Writer::pcapng(out).context("writing the capture")?;
    let recorded = Recorded { seen: 0, kept: Count::default() };
    let mut recorder = Recorder { expression, writer, limits, recorded, packet: Vec::new() };
    let outcome = recorder.run(&mut port, &mut stop, meter);
    recorder.writer.flush().context("writing the capture")?;
    outcome?;
    Ok(recorder.recorded)
}

impl<W: Write> Recorder<'_, W> {
    fn run(&mut self, port: &mut Port, stop: &mut Stop, meter: &mut Meter) -> Result<()> {
        while self.recorded.kept.packets < self.limits.packets {
            let now = Instant::now();
            if stop.reached(now) {
                break;
            }
            meter.tick(now, self.recorded.kept)?;
            let mut moved = 0;
            for ring in 0..port.rx_rings() {
                port.sync_rx(ring)?;
                moved += self.empty(port, ring)?;
            }
            self.recorded.kept.dropped = (0..port.rx_rings()).map(|ring| port.rx_counters(ring).dropped).sum();
            if moved == 0 {
                self.writer.flush().context("writing the capture")?;
                port.wait(Ready::RX, Some(NAP))?;
            }
        }
        // What was read is given back before the port closes.
        (0..port.rx_rings()).try_for_each(|ring| port.sync_rx(ring).map(drop))?;
        Ok(())
    }

    /// Records what has come in on a ring; returns how many slots.
    fn empty(&mut self, port: &mut Port, ring: usize) -> Result<u32> {
        let time_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let batch = port.rx(ring)?;
        let mut at = 0;
        while at < batch.len() && self.recorded.kept.packets < self.limits.packets {
            let Some(slots) = batch.packet_slots(at) else { break };
            let packet = if slots == 1 {
                batch.bytes(at)
            } else {
                self.packet.clear();
                batch.copy_packet(at, slots, &mut self.packet);
                &self.packet
            };
            at += slots;
            // What a sender that died left: a slot without a packet.
            if packet.is_empty() {
                continue;
            }
            self.recorded.seen += 1;
            if self.expression.matches(packet) {
                let kept = &packet[..packet.len().min(self.limits.snap_bytes)];
                self.writer.write(time_ns, kept, packet.len()).context("writing the capture")?;
                self.recorded.kept.add(packet.len());
            }
        }
        batch.release(at);
        Ok(at)
    }
}
