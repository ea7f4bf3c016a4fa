//! Two engines joined by a link with a virtual clock: delay, loss and reordering as told.

use std::collections::BTreeMap;

use ringway_tcp::{Config, ConnId, Engine, Event, Instant, PacketBatch, ReceiveFlags, SendFlags, SocketOptions};
use ringway_wire::Endpoint;

pub(crate) fn endpoint(text: &str) -> Endpoint {
    text.parse::<std::net::SocketAddr>().unwrap().into()
}

/// What the link does to a packet: its number, counted per direction, and its bytes come in.
pub(crate) type Fate = Box<dyn FnMut(u64, &[u8]) -> Vec<u64>>;

pub(crate) struct Pair {
    pub now: Instant,
    pub ends: [Engine; 2],
    /// Packets under way, by when and in which order they arrive; and to which end.
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: [u64; 2],
    order: u64,
    pub delay_us: u64,
    /// For each direction: the extra delays of the copies that arrive; none is a loss.
    pub fates: [Option<Fate>; 2],
    pub events: [Vec<Event>; 2],
}

impl Pair {
    pub(crate) fn new(config: Config) -> Pair {
        Pair {
            now: Instant::from_ms(1000),
            ends: [Engine::new(config.clone(), 1), Engine::new(config, 2)],
            flying: BTreeMap::new(),
            sent: [0; 2],
            order: 0,
            delay_us: 5000,
            fates: [None, None],
            events: [Vec::new(), Vec::new()],
        }
    }

    /// A connection from end 0 to a listener on end 1, accepted.
    pub(crate) fn connected(config: Config) -> (Pair, ConnId, ConnId) {
        let mut pair = Pair::new(config);
        let options = SocketOptions::default();
        let listener = pair.ends[1].listen(endpoint("10.0.0.2:80"), 10, &options).unwrap();
        let client = pair.ends[0].connect(pair.now, endpoint("10.0.0.1:0"), endpoint("10.0.0.2:80"), &options).unwrap();
        pair.run_for(20_000);
        let server = pair.ends[1].accept(listener).unwrap();
        (pair, client, server)
    }

    /// Lets all that the ends want to send leave.
    pub(crate) fn flush(&mut self) {
        for from in 0..2 {
            let mut batch = PacketBatch::new(32);
            loop {
                batch.clear();
                let all = self.ends[from].poll_transmit(self.now, &mut batch);
                for packet in batch.iter() {
                    let number = self.sent[from];
                    self.sent[from] += 1;
                    let copies = self.fates[from].as_mut().map_or(vec![0], |fate| fate(number, packet));
                    for extra_us in copies {
                        self.order += 1;
                        let at = self.now + self.delay_us + extra_us;
                        self.flying.insert((at, self.order), (1 - from, packet.to_vec()));
                    }
                }
                if all {
                    break;
                }
            }
            self.ends[from].poll_events(&mut self.events[from], usize::MAX);
        }
    }

    /// Advances to the next arrival or timer, at most to `until`; `false` if there is none before.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        self.flush();
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let timers = self.ends.iter().filter_map(Engine::next_deadline).min();
        let Some(at) = [arrival, timers].into_iter().flatten().min().filter(|at| *at <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(at);
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, packet) = entry.remove();
            self.ends[to].on_packet(self.now, &packet);
        }
        for end in &mut self.ends {
            end.on_timer(self.now);
        }
        self.flush();
        true
    }

    pub(crate) fn run_for(&mut self, us: u64) {
        let until = self.now + us;
        while self.step(until) {}
    }

    pub(crate) fn send(&mut self, end: usize, id: ConnId, bytes: &[u8]) -> usize {
        self.ends[end].send(self.now, id, bytes, SendFlags::empty()).unwrap_or(0)
    }

    pub(crate) fn recv(&mut self, end: usize, id: ConnId) -> Vec<u8> {
        let mut out = vec![0; 1 << 20];
        let bytes = self.ends[end].recv(self.now, id, &mut out, ReceiveFlags::empty()).unwrap_or(0);
        out.truncate(bytes);
        out
    }

    /// Sends `bytes` from `end` to its peer and checks what arrives there; answers how long it took.
    pub(crate) fn transfer(&mut self, end: usize, from: ConnId, to: ConnId, bytes: &[u8], limit_us: u64) -> u64 {
        let (begin, mut sent, mut got) = (self.now, 0, 0);
        while got < bytes.len() {
            assert!(self.now.since_us(begin) < limit_us, "{got} of {} bytes after {limit_us} us", bytes.len());
            sent += if sent < bytes.len() { self.send(end, from, &bytes[sent..]) } else { 0 };
            let until = self.now + limit_us;
            self.step(until);
            let part = self.recv(1 - end, to);
            assert!(part == bytes[got..got + part.len()], "bytes differ after {got}");
            got += part.len();
        }
        self.now.since_us(begin)
    }
}

/// Bytes that differ everywhere.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
