//! The loop of one core: a port, a host, an engine, and the application that calls.

use std::io;
use std::time::Duration;

use ringway_port::{Port, PortError, clock};
use ringway_tcp::options::{ReceiveFlags, SendFlags};
use ringway_tcp::{ConnId, Engine, Error, Event, Instant, ListenerId, Shutdown, SocketOptions};
use ringway_wire::ethernet::HEADER_LEN;
use ringway_wire::{Endpoint, IpAddress, MacAddress};

use crate::config::{ConfigError, Prefix, StackConfig};
use crate::frames::Frames;
use crate::host::Host;
use crate::host::counters::Counters;
use crate::sleep::{Patience, sleep};
use crate::sockets::Sockets;

/// Frames that are sorted before the engine sees them, and their connections looked up together.
const BURST: usize = 32;
/// Slots received before what they caused is told and sent, at most.
const TURN_SLOTS: u32 = 256;
/// Of few slots only a half is received before what they caused is sent: the other side works on that while we work on
/// the rest. Fewer than this are not worth a turn.
const TURN_SLOTS_MIN: u32 = 8;
/// Events of one poll.
const EVENTS_MAX: usize = 1024;
/// The smallest MTU (RFC 791, 3.2).
const MTU_MIN: usize = 576;

/// A TCP/IP host over one port. It takes all rx rings of it, and sends on the first tx ring.
pub struct Stack {
    port: Port,
    host: Host,
    engine: Engine,
    now: Instant,
    patience: Patience,
    /// The tx ring had no room for all there was.
    is_full: bool,
    /// The last turn brought no frame.
    is_idle: bool,
    /// A packet that lies in several slots, put together.
    gathered: Vec<u8>,
}

impl Stack {
    /// A stack over `port`. All its secrets follow from `seed`: draw it from a good source.
    ///
    /// # Errors
    /// The configuration contradicts itself, or does not fit the port.
    pub fn new(port: Port, config: StackConfig, seed: u64) -> Result<Stack, ConfigError> {
        let info = port.info();
        if port.tx_rings() == 0 || port.rx_rings() == 0 {
            return Err(ConfigError::OneWay(info.name.clone()));
        }
        if info.vnet_header_bytes > 0 {
            return Err(ConfigError::VnetHeader);
        }
        let frame_bytes = info.packet_bytes_max.min(info.buffer_bytes) as usize;
        let mtu = (config.tcp.mtu as usize).min(frame_bytes.saturating_sub(HEADER_LEN));
        if mtu < MTU_MIN {
            return Err(ConfigError::Mtu(mtu as u32));
        }
        let mac = config.mac.unwrap_or_else(|| made_up_mac(seed));
        let mut stack = Stack {
            host: Host::new(&config, mac, mtu)?,
            engine: Engine::new(ringway_tcp::Config { mtu: mtu as u32, ..config.tcp }, seed),
            port,
            now: Instant::ZERO,
            patience: Patience::new(config.spin_us),
            is_full: false,
            is_idle: false,
            gathered: Vec::new(),
        };
        stack.tick();
        Ok(stack)
    }

    /// Addresses, the link-local one of IPv6 included.
    pub fn addresses(&self) -> &[Prefix] {
        self.host.routes.addresses()
    }

    /// The address that connections to `to` come from; `None` if nothing leads there.
    pub fn source_for(&self, to: IpAddress) -> Option<IpAddress> {
        self.host.routes.source_for(to)
    }

    pub fn mac(&self) -> MacAddress {
        self.host.mac
    }

    pub fn port(&self) -> &Port {
        &self.port
    }

    /// What became of frames.
    pub fn counters(&self) -> &Counters {
        &self.host.counters
    }

    /// TCP itself, for what is not a call of its own here: options, `TCP_INFO`, counters.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Like [`Sockets::connect`], with options.
    ///
    /// # Errors
    /// `NetworkUnreachable`, and those of [`Engine::connect`].
    pub fn connect_with(&mut self, to: Endpoint, options: &SocketOptions) -> Result<ConnId, Error> {
        let source = self.source_for(to.address).ok_or(Error::NetworkUnreachable)?;
        self.engine.connect(self.now, Endpoint::new(source, 0), to, options)
    }

    /// Sends what there is, as far as there are slots.
    ///
    /// # Errors
    /// Those of the port.
    pub fn transmit(&mut self) -> Result<(), PortError> {
        let mut frames = Frames::new(self.port.tx(0)?, &mut self.host, self.now);
        frames.fill_from_host();
        let done = self.engine.poll_transmit(self.now, &mut frames);
        let sent = frames.finish();
        self.is_full = !done || !self.host.outbox.is_empty();
        // A port may hold back what it was given; it looks at the time in its syncs.
        if sent > 0 || self.is_full || self.is_idle {
            self.port.sync_tx(0)?;
        }
        Ok(())
    }

    /// Takes what has come; answers how many slots.
    fn receive(&mut self, now_ns: u64) -> Result<u32, PortError> {
        let mut slots = 0;
        for ring in 0..self.port.rx_rings() {
            self.port.sync_rx_at(ring, now_ns)?;
            slots += self.receive_ring(ring)?;
        }
        for packet in self.host.take_inbox() {
            self.engine.on_packet(self.now, &packet);
        }
        Ok(slots)
    }

    fn receive_ring(&mut self, ring: usize) -> Result<u32, PortError> {
        let batch = self.port.rx(ring)?;
        let end = batch.len().min((batch.len() / 2).clamp(TURN_SLOTS_MIN, TURN_SLOTS));
        let mut at = 0;
        while at < end {
            let mut packets: [&[u8]; BURST] = [&[]; BURST];
            let mut n = 0;
            while at < end && n < BURST {
                if batch.slot(at).more_fragments() {
                    break;
                }
                if let Some(packet) = self.host.arrive(self.now, batch.bytes(at)) {
                    packets[n] = packet;
                    n += 1;
                }
                at += 1;
            }
            self.engine.on_packets(self.now, &packets[..n]);
            if at == end || n == BURST {
                continue;
            }
            let Some(slots) = batch.packet_slots(at) else { break };
            self.gathered.clear();
            batch.copy_packet(at, slots, &mut self.gathered);
            if let Some(packet) = self.host.arrive(self.now, &self.gathered) {
                self.engine.on_packet(self.now, packet);
            }
            at += slots;
        }
        batch.release(at);
        Ok(at)
    }

    fn tick(&mut self) -> u64 {
        let now_ns = clock::monotonic_ns();
        self.now = Instant::from_us(now_ns / 1000);
        now_ns
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.engine.next_deadline().into_iter().chain(self.host.next_deadline()).min()
    }

    fn run_timers(&mut self) {
        if self.engine.next_deadline().is_some_and(|at| at <= self.now) {
            self.engine.on_timer(self.now);
        }
        if self.host.next_deadline().is_some_and(|at| at <= self.now) {
            self.host.on_timer(self.now);
        }
    }

    /// One turn: send, receive, timers, events. Answers whether frames came.
    fn turn(&mut self, now_ns: u64, events: &mut Vec<Event>) -> Result<bool, PortError> {
        self.transmit()?;
        let slots = self.receive(now_ns)?;
        self.is_idle = slots == 0;
        self.run_timers();
        self.engine.poll_events(events, EVENTS_MAX);
        Ok(slots > 0)
    }

    /// [`Sockets::poll`], with the port's errors.
    ///
    /// # Errors
    /// Those of the port.
    pub fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> Result<(), PortError> {
        events.clear();
        let mut now_ns = self.tick();
        let until_ns = timeout.map(|timeout| now_ns.saturating_add(timeout.as_nanos() as u64));
        loop {
            let came = self.turn(now_ns, events)?;
            if came {
                self.patience.on_work();
            }
            if !events.is_empty() || until_ns.is_some_and(|until| now_ns >= until) {
                return Ok(());
            }
            if !came && !self.patience.spins(now_ns) {
                let deadline_ns = self.next_deadline().map(|at| at.us().saturating_mul(1000));
                let until_ns = deadline_ns.into_iter().chain(until_ns).min();
                // What the last turn caused leaves before the sleep.
                self.transmit()?;
                sleep(&mut self.port, &mut self.patience, self.is_full, until_ns)?;
            }
            now_ns = self.tick();
        }
    }
}

impl Sockets for Stack {
    fn now(&self) -> Instant {
        self.now
    }

    fn listen(&mut self, at: Endpoint, backlog: u32) -> io::Result<ListenerId> {
        if !at.address.is_unspecified() && !self.host.routes.is_ours(at.address) {
            return Err(io_error(Error::AddressNotAvailable));
        }
        let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
        self.engine.listen(at, backlog, &options).map_err(io_error)
    }

    fn connect(&mut self, to: Endpoint) -> io::Result<ConnId> {
        let options = SocketOptions { nodelay: true, ..SocketOptions::default() };
        self.connect_with(to, &options).map_err(io_error)
    }

    #[inline]
    fn accept(&mut self, listener: ListenerId) -> Result<ConnId, Error> {
        self.engine.accept(listener)
    }

    #[inline]
    fn recv(&mut self, conn: ConnId, out: &mut [u8]) -> Result<usize, Error> {
        self.engine.recv(self.now, conn, out, ReceiveFlags::empty())
    }

    #[inline]
    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Error> {
        self.engine.send(self.now, conn, bytes, SendFlags::empty())
    }

    fn shutdown(&mut self, conn: ConnId, how: Shutdown) -> Result<(), Error> {
        self.engine.shutdown(self.now, conn, how)
    }

    fn close(&mut self, conn: ConnId) {
        // An unknown handle: the connection is gone already, as was wanted.
        let _ = self.engine.close(self.now, conn);
    }

    fn abort(&mut self, conn: ConnId) {
        let _ = self.engine.abort(self.now, conn);
    }

    fn take_error(&mut self, conn: ConnId) -> Option<Error> {
        self.engine.take_error(conn).ok().flatten()
    }

    fn peer(&self, conn: ConnId) -> Result<Endpoint, Error> {
        self.engine.endpoints(conn).map(|(_, remote)| remote)
    }

    fn poll(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        self.wait(events, timeout).map_err(io::Error::other)
    }
}

fn io_error(error: Error) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

/// A station address that its maker has administered himself (IEEE 802, 8.4), from the seed.
fn made_up_mac(seed: u64) -> MacAddress {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [_, _, b, c, d, e, f, g] = mixed.to_be_bytes();
    MacAddress([b & 0xfc | 2, c, d, e, f, g])
}
