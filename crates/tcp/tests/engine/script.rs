//! Scripts: one engine, a scripted peer, virtual time. A script injects segments and says which must come out.
//!
//! Segments are written as packetdrill and tcpdump show them, with sequence numbers counted from each side's first:
//! `S 0:0(0) win 65535 <mss 1460>`, `. 1:101(100) ack 1 win 500`, `F. 1:1(0) ack 1`. What comes out is compared with
//! what is written: window and options only if the script names them.

use std::fmt::Write as _;

use ringway_tcp::{
    Config, ConnId, Engine, Error, Instant, ListenerId, PacketBatch, ReceiveFlags, SendFlags, SocketOptions, State,
};
use ringway_wire::checksum::Fill;
use ringway_wire::tcp::{self, Flags, Options, SackBlock, Timestamps};
use ringway_wire::{Ecn, Endpoint, IpAddress, Protocol, SeqNumber, Verify, icmpv4, ipv4};

use crate::link::{endpoint, pattern};

/// The peer's first sequence number, as the script counts 0.
const PEER_ISN: u32 = 0xffff_f000;

pub(crate) struct Script {
    pub(crate) engine: Engine,
    pub(crate) now: Instant,
    pub(crate) ours: Endpoint,
    pub(crate) theirs: Endpoint,
    /// Our first sequence number, once it was seen.
    isn: Option<SeqNumber>,
    pub(crate) conn: Option<ConnId>,
    pub(crate) listener: Option<ListenerId>,
    out: std::collections::VecDeque<Vec<u8>>,
    /// What our clock showed in the first timestamp, so that scripts can write 0 for it.
    clock_base: Option<u32>,
}

/// A segment as a script writes it.
#[derive(Debug, Clone)]
struct Line {
    flags: Flags,
    seq: u32,
    len: u32,
    ack: Option<u32>,
    window: Option<u16>,
    urgent: Option<u16>,
    options: Option<Options>,
}

impl Script {
    pub(crate) fn new(config: Config) -> Script {
        Script {
            engine: Engine::new(config, 7),
            now: Instant::from_ms(10_000),
            ours: endpoint("192.168.0.1:8080"),
            theirs: endpoint("192.0.2.1:40000"),
            isn: None,
            conn: None,
            listener: None,
            out: Default::default(),
            clock_base: None,
        }
    }

    /// A listener, nothing more.
    pub(crate) fn listening(config: Config, options: &SocketOptions) -> Script {
        let mut script = Script::new(config);
        script.listener = Some(script.engine.listen(script.ours, 5, options).unwrap());
        script
    }

    /// A connection that the peer opened, with SACK and window scale 8 of the peer, accepted.
    pub(crate) fn accepted(config: Config) -> Script {
        Script::accepted_over(0, config)
    }

    /// The same over a path whose round trip takes a while.
    pub(crate) fn accepted_over(rtt_ms: u64, config: Config) -> Script {
        let mut script = Script::listening(config, &SocketOptions::default());
        script.inject("S 0:0(0) win 65535 <mss 1460,sackOK,wscale 8>");
        script.expect("S. 0:0(0) ack 1");
        script.sleep_ms(rtt_ms);
        script.inject(". 1:1(0) ack 1 win 1024");
        script.accept();
        script
    }

    /// A connection without any option but an MSS of 1000.
    pub(crate) fn accepted_plainly(config: Config) -> Script {
        Script::accepted_with_window(65_535, config)
    }

    /// The same with a peer that has little room.
    pub(crate) fn accepted_with_window(window: u16, config: Config) -> Script {
        let mut script = Script::listening(config, &SocketOptions::default());
        script.inject("S 0:0(0) win 65535 <mss 1000>");
        script.expect("S. 0:0(0) ack 1");
        script.inject(&format!(". 1:1(0) ack 1 win {window}"));
        script.accept();
        script
    }

    /// A connection that we opened, SYN on the way.
    pub(crate) fn connecting(config: Config) -> Script {
        let mut script = Script::new(config);
        let options = SocketOptions::default();
        script.conn = Some(script.engine.connect(script.now, script.ours, script.theirs, &options).unwrap());
        script.expect("S 0:0(0)");
        script
    }

    pub(crate) fn connected(config: Config) -> Script {
        let mut script = Script::connecting(config);
        script.inject("S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,wscale 8>");
        script.expect(". 1:1(0) ack 1");
        script
    }

    pub(crate) fn accept(&mut self) {
        self.conn = Some(self.engine.accept(self.listener.unwrap()).expect("a connection to accept"));
    }

    pub(crate) fn id(&self) -> ConnId {
        self.conn.expect("a connection")
    }

    pub(crate) fn state(&self) -> State {
        self.engine.state(self.id()).unwrap()
    }

    /// Advances the clock, doing what is due on the way.
    pub(crate) fn sleep_ms(&mut self, ms: u64) {
        self.sleep_us(ms * 1000);
    }

    /// Sleeps until `at`, and finds `text` coming out there and nothing before; ticks of the wheel may add up to 8 ms.
    #[track_caller]
    pub(crate) fn expect_at(&mut self, at: Instant, text: &str) {
        self.sleep_us(at.since_us(self.now) - 2000);
        self.expect_nothing();
        self.sleep_us(10_000);
        self.expect(text);
    }

    pub(crate) fn sleep_us(&mut self, us: u64) {
        let until = self.now + us;
        self.collect();
        while let Some(at) = self.engine.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.engine.on_timer(self.now);
            self.collect();
        }
        self.now = until;
        self.engine.on_timer(until);
        self.collect();
    }

    pub(crate) fn send(&mut self, bytes: usize) -> usize {
        self.send_with(bytes, SendFlags::empty())
    }

    pub(crate) fn send_with(&mut self, bytes: usize, flags: SendFlags) -> usize {
        let taken = self.engine.send(self.now, self.id(), &pattern(bytes), flags).unwrap();
        self.collect();
        taken
    }

    /// Reads up to `bytes`; answers how many there were.
    pub(crate) fn recv(&mut self, bytes: usize) -> Result<usize, Error> {
        let result = self.engine.recv(self.now, self.id(), &mut vec![0; bytes], ReceiveFlags::empty());
        self.collect();
        result
    }

    pub(crate) fn close(&mut self) {
        self.engine.close(self.now, self.id()).unwrap();
        self.collect();
    }

    pub(crate) fn shutdown(&mut self) {
        self.engine.shutdown(self.now, self.id(), ringway_tcp::Shutdown::Send).unwrap();
        self.collect();
    }

    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut SocketOptions)) {
        self.engine.configure(self.now, self.id(), change).unwrap();
        self.collect();
    }

    fn collect(&mut self) {
        let mut batch = PacketBatch::new(1000);
        while !self.engine.poll_transmit(self.now, &mut batch) {}
        self.out.extend(batch.iter().map(<[u8]>::to_vec));
    }

    /// The peer sends a segment.
    pub(crate) fn inject(&mut self, text: &str) {
        self.inject_with(text, Ecn::NotEct);
    }

    /// The same in a packet that a router has marked.
    pub(crate) fn inject_marked(&mut self, text: &str) {
        self.inject_with(text, Ecn::Ce);
    }

    /// The same in a packet that a router might have marked.
    pub(crate) fn inject_capable(&mut self, text: &str) {
        self.inject_with(text, Ecn::Ect0);
    }

    fn inject_with(&mut self, text: &str, ecn: Ecn) {
        let line = parse(text);
        let ours = self.isn.unwrap_or(SeqNumber(0));
        let mut options = line.options.unwrap_or_default();
        if let Some(timestamps) = &mut options.timestamps {
            timestamps.echo = timestamps.echo.wrapping_add(self.clock_base.unwrap_or(0));
        }
        let mut sack = tcp::SackBlocks::EMPTY;
        for block in options.sack.as_slice() {
            sack.push(SackBlock { left: ours + block.left.0, right: ours + block.right.0 });
        }
        options.sack = sack;
        let header = tcp::Repr {
            source_port: self.theirs.port,
            destination_port: self.ours.port,
            seq: SeqNumber(PEER_ISN) + line.seq,
            ack: line.ack.map_or(SeqNumber(0), |ack| ours + ack),
            flags: line.flags,
            window: line.window.unwrap_or(65_535),
            urgent: line.urgent.unwrap_or(0),
            options,
        };
        let packet = self.packet(&header, &pattern(line.len as usize), ecn);
        self.engine.on_packet(self.now, &packet);
        self.collect();
    }

    /// A router says that our segment at `seq` was larger than `mtu`.
    pub(crate) fn too_big(&mut self, seq: u32, mtu: u16) {
        let (IpAddress::V4(ours), IpAddress::V4(theirs)) = (self.ours.address, self.theirs.address) else {
            unreachable!("scripts are IPv4")
        };
        let mut quoted = vec![0; ipv4::HEADER_LEN + 8];
        let transport = ipv4::Repr::new(ours, theirs, Protocol::TCP, 8).emit(&mut quoted).unwrap();
        transport[..2].copy_from_slice(&self.ours.port.to_be_bytes());
        transport[2..4].copy_from_slice(&self.theirs.port.to_be_bytes());
        let seq = self.isn.expect("our first number") + seq;
        transport[4..].copy_from_slice(&seq.0.to_be_bytes());
        let code = icmpv4::unreachable::FRAGMENTATION_NEEDED;
        let message = icmpv4::Repr::DestinationUnreachable { code, mtu, quoted: &quoted };
        let ip = ipv4::Repr::new(theirs, ours, Protocol::ICMP, message.message_len());
        let mut packet = vec![0; ipv4::HEADER_LEN + ip.payload_len];
        message.emit(ip.emit(&mut packet).unwrap()).unwrap();
        self.engine.on_packet(self.now, &packet);
        self.collect();
    }

    fn packet(&self, header: &tcp::Repr, payload: &[u8], ecn: Ecn) -> Vec<u8> {
        let (IpAddress::V4(source), IpAddress::V4(destination)) = (self.theirs.address, self.ours.address) else {
            unreachable!("scripts are IPv4")
        };
        let mut ip = ipv4::Repr::new(source, destination, Protocol::TCP, header.header_len() + payload.len());
        ip.traffic_class = ecn as u8;
        let mut packet = vec![0; ipv4::HEADER_LEN + ip.payload_len];
        let segment = ip.emit(&mut packet).unwrap();
        segment[header.header_len()..].copy_from_slice(payload);
        header.emit(segment, ip.pseudo(), Fill::Complete).unwrap();
        packet
    }

    /// Our next segment is this one.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        self.collect();
        let Some(packet) = self.out.pop_front() else { panic!("nothing came out; expected {text}") };
        let (found, shown) = self.read(&packet, text);
        assert!(found, "expected {text}\n   found {shown}");
    }

    /// Nothing (more) comes out.
    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        self.collect();
        if let Some(packet) = self.out.pop_front() {
            panic!("expected nothing, found {}", self.read(&packet, ". 0:0(0)").1);
        }
    }

    /// Something comes out, whatever it is.
    #[track_caller]
    pub(crate) fn expect_any(&mut self) {
        self.collect();
        assert!(self.out.pop_front().is_some(), "nothing came out");
    }

    /// The next packet's acknowledgement and window field.
    pub(crate) fn next_ack(&mut self) -> Option<(u32, u32)> {
        self.collect();
        let packet = self.out.pop_front()?;
        let view = ipv4::Packet::new_checked(&packet).unwrap();
        let segment = tcp::Segment::new_checked(view.payload()).unwrap();
        Some((segment.ack().offset_from(SeqNumber(PEER_ISN)), segment.window().into()))
    }

    /// How many packets wait to be looked at; forgets them.
    pub(crate) fn drain(&mut self) -> usize {
        self.collect();
        self.out.drain(..).count()
    }

    /// Whether a packet is what `text` says, and how it looks.
    fn read(&mut self, packet: &[u8], text: &str) -> (bool, String) {
        let line = parse(text);
        let view = ipv4::Packet::new_checked(packet).unwrap();
        let ip = ipv4::Repr::parse(&view, Verify::Compute).unwrap();
        let segment = tcp::Segment::new_checked(view.payload()).unwrap();
        let header = tcp::Repr::parse(&segment, ip.pseudo(), Verify::Compute).unwrap();
        let flags = header.flags;
        if flags.contains(Flags::SYN) {
            self.isn = Some(header.seq);
            self.clock_base = header.options.timestamps.map(|t| t.value);
        }
        let base = self.isn.unwrap_or(SeqNumber(0));
        // A reset without a connection has the numbers that its cause asked for.
        let from_ack = flags.contains(Flags::RST) && !flags.contains(Flags::ACK);
        let seq = if self.isn.is_none() && from_ack { header.seq.0 } else { header.seq.offset_from(base) };
        let (len, ack) = (segment.payload().len() as u32, header.ack.offset_from(SeqNumber(PEER_ISN)));
        let options = self.script_options(&header.options);
        let mut shown = format!("{flags} {seq}:{}({len})", seq.wrapping_add(len));
        if flags.contains(Flags::ACK) {
            write!(shown, " ack {ack}").unwrap();
        }
        write!(shown, " win {} {options:?}", header.window).unwrap();
        let zero_seq = flags.contains(Flags::RST | Flags::ACK) && header.seq == SeqNumber(0) && line.seq == 0;
        let same = flags == line.flags
            && (seq == line.seq || zero_seq)
            && len == line.len
            && line.ack.is_none_or(|expected| expected == ack)
            && line.window.is_none_or(|expected| expected == header.window)
            && line.urgent.is_none_or(|expected| expected == header.urgent)
            && line.options.is_none_or(|expected| expected == options);
        (same, shown)
    }

    /// Options with numbers as the script counts them.
    fn script_options(&self, options: &Options) -> Options {
        let mut sack = tcp::SackBlocks::EMPTY;
        for block in options.sack.as_slice() {
            let count = |seq: SeqNumber| SeqNumber(seq.offset_from(SeqNumber(PEER_ISN)));
            sack.push(SackBlock { left: count(block.left), right: count(block.right) });
        }
        let base = self.clock_base.unwrap_or(0);
        let timestamps = options.timestamps.map(|t| Timestamps { value: t.value.wrapping_sub(base), echo: t.echo });
        Options { sack, timestamps, ..*options }
    }
}

fn parse(text: &str) -> Line {
    let (text, options) = match text.split_once('<') {
        Some((before, rest)) => (before, Some(parse_options(rest.trim_end_matches('>')))),
        None => (text, None),
    };
    let mut words = text.split_whitespace();
    let flags = parse_flags(words.next().expect("flags"));
    let (range, len) = words.next().and_then(|word| word.split_once('(')).expect("seq:end(len)");
    let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("number `{text}`"));
    let seq = number(range.split_once(':').expect("seq:end").0);
    let len = number(len.trim_end_matches(')'));
    let mut line = Line { flags, seq, len, ack: None, window: None, urgent: None, options };
    while let Some(word) = words.next() {
        let value = number(words.next().expect("a value"));
        match word {
            "ack" => line.ack = Some(value),
            "win" => line.window = Some(value as u16),
            "urg" => line.urgent = Some(value as u16),
            other => panic!("`{other}`"),
        }
    }
    line
}

fn parse_flags(text: &str) -> Flags {
    let one = |letter| match letter {
        'S' => Flags::SYN,
        'F' => Flags::FIN,
        'R' => Flags::RST,
        'P' => Flags::PSH,
        'U' => Flags::URG,
        'E' => Flags::ECE,
        'W' => Flags::CWR,
        '.' => Flags::ACK,
        '-' => Flags::NONE,
        other => panic!("flag `{other}`"),
    };
    text.chars().map(one).fold(Flags::NONE, |all, flag| all | flag)
}

fn parse_options(text: &str) -> Options {
    let mut options = Options::NONE;
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let words: Vec<&str> = part.split_whitespace().collect();
        match words[..] {
            ["nop"] => {}
            ["mss", value] => options.mss = value.parse().ok(),
            ["wscale", value] => options.window_scale = value.parse().ok(),
            ["sackOK"] => options.sack_permitted = true,
            ["TS", value, echo] => {
                options.timestamps = Some(Timestamps { value: value.parse().unwrap(), echo: echo.parse().unwrap() });
            }
            ["sack", ..] => {
                for block in &words[1..] {
                    let (left, right) = block.split_once(':').expect("left:right");
                    let number = |text: &str| SeqNumber(text.parse().unwrap());
                    options.sack.push(SackBlock { left: number(left), right: number(right) });
                }
            }
            _ => panic!("option `{part}`"),
        }
    }
    options
}
