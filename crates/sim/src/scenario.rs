//! Scenarios: hosts, a path and transfers, run until everything has arrived; and tables of what came out.

use std::fmt;

use ringway_tcp::Config;
use ringway_tcp::stats::Counter;

use crate::link::{LinkConfig, LinkStats};
use crate::transfer::{Transfer, TransferConfig};
use crate::world::World;

/// Steps between two audits of the engines' insides.
const AUDIT_STEPS: u64 = 32;

/// A pair of hosts with a path there and back.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub client: Config,
    pub server: Config,
    /// From the client to the server.
    pub up: LinkConfig,
    /// And back.
    pub down: LinkConfig,
    pub transfers: Vec<TransferConfig>,
    /// Virtual time that the transfers may take.
    pub limit_us: u64,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            seed: 1,
            client: Config::default(),
            server: Config::default(),
            up: LinkConfig::default(),
            down: LinkConfig::default(),
            transfers: vec![TransferConfig::default()],
            limit_us: 3_600_000_000,
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Until the last octet was read.
    pub elapsed_us: u64,
    /// Octets that were to arrive, and did.
    pub bytes: u64,
    /// Segments sent again, by both.
    pub retransmitted: u64,
    /// Retransmission timeouts, of both.
    pub timeouts: u64,
    pub packets: u64,
    pub steps: u64,
    pub up: LinkStats,
    pub down: LinkStats,
}

impl Outcome {
    /// Octets of the application a second, in bits.
    pub fn goodput_bits_per_s(&self) -> f64 {
        self.bytes as f64 * 8e6 / self.elapsed_us.max(1) as f64
    }
}

/// Why a scenario failed; its seed repeats it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub at_us: u64,
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, at {:.6} s: {}", self.seed, self.at_us as f64 / 1e6, self.what)
    }
}

impl std::error::Error for Failure {}

impl Scenario {
    /// The same links both ways.
    pub fn over(link: LinkConfig) -> Scenario {
        Scenario { up: link.clone(), down: link, ..Scenario::default() }
    }

    /// Runs it to the end, and on until nothing is left of it.
    ///
    /// # Errors
    /// A rule of the tap is broken, an engine's audit fails, a transfer ends with an error or not in time, nothing
    /// would ever happen again, or something is left over.
    pub fn run(&self) -> Result<Outcome, Failure> {
        let mut world = World::new(self.seed);
        let (client, server) = (world.add_host(self.client.clone()), world.add_host(self.server.clone()));
        let (up, down) = (world.add_link(self.up.clone()), world.add_link(self.down.clone()));
        world.set_path(client, server, &[up]);
        world.set_path(server, client, &[down]);
        let begin = world.now;
        let ports = 80..;
        let mut transfers: Vec<Transfer> = ports
            .zip(self.transfers.iter().cloned())
            .map(|(port, transfer)| Transfer::start(&mut world, client, server, TransferConfig { port, ..transfer }))
            .collect();
        let elapsed_us = self.drive(&mut world, &mut transfers)?;
        let count = |counter| world.hosts.iter().map(|host| host.engine.stats().get(counter)).sum::<u64>();
        let outcome = Outcome {
            elapsed_us,
            bytes: transfers.iter().map(Transfer::expected).sum(),
            retransmitted: count(Counter::Retransmitted),
            timeouts: count(Counter::Timeouts),
            packets: world.tap.packets(),
            steps: world.steps(),
            up: world.link_stats(up),
            down: world.link_stats(down),
        };
        debug_assert!(world.now >= begin);
        self.check_nothing_is_left(&mut world)?;
        Ok(outcome)
    }

    /// Answers how long it took until the last octet was read.
    fn drive(&self, world: &mut World, transfers: &mut [Transfer]) -> Result<u64, Failure> {
        let begin = world.now;
        let (mut read_us, mut audited) = (None, 0);
        loop {
            let events = world.take_events();
            for transfer in &mut *transfers {
                transfer.poll(world, &events);
            }
            let elapsed_us = world.now.since_us(begin);
            if read_us.is_none() && transfers.iter().all(|t| t.received() == t.expected()) {
                read_us = Some(elapsed_us);
            }
            if let Some(failed) = transfers.iter().find(|transfer| transfer.failure().is_some()) {
                return Err(self.failure(world, format!("a transfer failed: {}", failed.progress())));
            }
            if transfers.iter().all(Transfer::is_done) {
                return Ok(read_us.unwrap_or(elapsed_us));
            }
            if elapsed_us >= self.limit_us {
                let progress: Vec<String> = transfers.iter().map(Transfer::progress).collect();
                return Err(self.failure(world, format!("not done in time: {}", progress.join("; "))));
            }
            let next_read = transfers.iter().filter_map(Transfer::next_read_ms).min();
            let until =
                next_read.map_or(begin + self.limit_us, ringway_tcp::Instant::from_ms).min(begin + self.limit_us);
            world.flush();
            if world.is_asleep() && !world.has_events() && next_read.is_none() {
                let progress: Vec<String> = transfers.iter().map(Transfer::progress).collect();
                return Err(self.failure(world, format!("nothing will ever happen again: {}", progress.join("; "))));
            }
            if !world.has_events() {
                world.step(until);
            }
            if world.steps() >= audited + AUDIT_STEPS {
                audited = world.steps();
                self.check(world)?;
            }
        }
    }

    fn check(&self, world: &World) -> Result<(), Failure> {
        if let Some(broken) = world.tap.broken().first() {
            return Err(self.failure(world, format!("on the wire: {broken}")));
        }
        for (number, host) in world.hosts.iter().enumerate() {
            host.engine.audit().map_err(|what| self.failure(world, format!("host {number}: {what}")))?;
        }
        Ok(())
    }

    /// When all is over, no connection is left, and no memory.
    fn check_nothing_is_left(&self, world: &mut World) -> Result<(), Failure> {
        let end = world.now + self.limit_us;
        while world.now < end && !world.is_asleep() {
            world.step(end);
        }
        self.check(world)?;
        for (number, host) in world.hosts.iter().enumerate() {
            let left = (host.engine.counts(), host.engine.buffer_bytes());
            if left != ((0, 0, 0), 0) {
                return Err(self.failure(world, format!("host {number} keeps {left:?}")));
            }
        }
        Ok(())
    }

    fn failure(&self, world: &World, what: String) -> Failure {
        Failure { seed: self.seed, at_us: world.now.us(), what }
    }
}

/// A table of text: what the snapshots are made of.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&str]) -> Table {
        Table { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| self.rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  "))?;
        }
        Ok(())
    }
}
