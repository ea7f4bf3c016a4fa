//! Segments as scripts write them, and as bytes. Written here once more, by hand, so that the engine is not judged by
//! its own encoder.

use std::fmt;

/// A TCP option, in the order of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opt {
    End,
    Nop,
    Mss(u16),
    Scale(u8),
    SackPermitted,
    Sack(Vec<(u32, u32)>),
    Timestamps(u32, u32),
    FastOpen(Vec<u8>),
    Other(u8, Vec<u8>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The flags' letters, sorted as packetdrill sorts them; `.` is ACK.
    pub(crate) flags: String,
    pub(crate) seq: u32,
    pub(crate) len: u32,
    pub(crate) ack: u32,
    /// Not checked if a script does not say it.
    pub(crate) window: Option<u16>,
    pub(crate) urgent: u16,
    /// `None`: not checked (`<...>`).
    pub(crate) options: Option<Vec<Opt>>,
    /// The two bits of the IP header; not checked if a script does not say them.
    pub(crate) ecn: Option<u8>,
}

const LETTERS: [(char, u8); 8] = [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('.', 16), ('U', 32), ('E', 64), ('W', 128)];

impl Segment {
    pub(crate) fn parse(text: &str) -> Result<Segment, String> {
        let (ecn, text) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((mark, rest)) => (Some(parse_ecn(mark)?), rest.trim()),
            None => (None, text),
        };
        let (head, options) = match text.split_once('<') {
            Some((head, rest)) => (head, parse_options(rest.trim_end_matches('>').trim())?),
            None => (text, Some(Vec::new())),
        };
        let mut words = head.split_whitespace();
        let letters = words.next().ok_or("no flags")?;
        let range = words.next().ok_or("no sequence numbers")?;
        let (seq, len) = range
            .split_once(':')
            .and_then(|(seq, rest)| {
                let (_, len) = rest.split_once('(')?;
                Some((seq.parse().ok()?, len.trim_end_matches(')').parse().ok()?))
            })
            .ok_or_else(|| format!("`{range}` is not of the form seq:end(len)"))?;
        let mut segment = Segment { flags: sorted(letters)?, seq, len, options, ecn, ..Segment::default() };
        while let Some(word) = words.next() {
            let value: u32 = words.next().and_then(|value| value.parse().ok()).ok_or(format!("{word} what?"))?;
            match word {
                "ack" => segment.ack = value,
                "win" => segment.window = Some(value as u16),
                "urg" => segment.urgent = value as u16,
                _ => return Err(format!("`{word}`")),
            }
        }
        Ok(segment)
    }

    pub(crate) fn has(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }

    /// Whether what came out is what a script said.
    pub(crate) fn matches(&self, said: &Segment) -> bool {
        self.flags == said.flags
            && (self.seq, self.len, self.urgent) == (said.seq, said.len, said.urgent)
            && (!said.has('.') || self.ack == said.ack)
            && said.window.is_none_or(|window| self.window == Some(window))
            && said.ecn.is_none_or(|ecn| self.ecn == Some(ecn))
            && said.options.as_ref().is_none_or(|options| self.options.as_ref() == Some(options))
    }

    /// The header and its options, checksum still 0, numbers as they are.
    pub(crate) fn header(&self, ports: (u16, u16)) -> Vec<u8> {
        let mut options = Vec::new();
        self.options.iter().flatten().for_each(|option| option.write(&mut options));
        options.resize(options.len().next_multiple_of(4), 0);
        let bits = LETTERS.iter().filter(|(letter, _)| self.has(*letter)).fold(0, |bits, (_, bit)| bits | bit);
        let mut header = Vec::new();
        header.extend(ports.0.to_be_bytes());
        header.extend(ports.1.to_be_bytes());
        header.extend(self.seq.to_be_bytes());
        header.extend(self.ack.to_be_bytes());
        header.extend([(((20 + options.len()) / 4) << 4) as u8, bits]);
        header.extend(self.window.unwrap_or(65_535).to_be_bytes());
        header.extend([0, 0]);
        header.extend(self.urgent.to_be_bytes());
        header.extend(options);
        header
    }

    /// Reads a TCP segment's bytes: the segment, and its payload.
    pub(crate) fn read(bytes: &[u8], ecn: u8) -> (Segment, Vec<u8>) {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let half = |at: usize| u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap());
        let data = usize::from(bytes[12] >> 4) * 4;
        let flags = LETTERS.iter().filter(|(_, bit)| bytes[13] & bit != 0).map(|(letter, _)| *letter).collect();
        let segment = Segment {
            flags,
            seq: word(4),
            len: (bytes.len() - data) as u32,
            ack: word(8),
            window: Some(half(14)),
            urgent: half(18),
            options: Some(read_options(&bytes[20..data])),
            ecn: Some(ecn),
        };
        (segment, bytes[data..].to_vec())
    }
}

fn sorted(letters: &str) -> Result<String, String> {
    if let Some(unknown) = letters.chars().find(|c| *c != '-' && !LETTERS.iter().any(|(letter, _)| letter == c)) {
        return Err(format!("`{unknown}` is no flag"));
    }
    Ok(LETTERS.iter().map(|(letter, _)| *letter).filter(|letter| letters.contains(*letter)).collect())
}

fn parse_ecn(mark: &str) -> Result<u8, String> {
    match mark {
        "noecn" => Ok(0),
        "ect1" => Ok(1),
        "ect0" => Ok(2),
        "ce" => Ok(3),
        _ => Err(format!("`[{mark}]` is no mark")),
    }
}

fn parse_options(text: &str) -> Result<Option<Vec<Opt>>, String> {
    if text == "..." {
        return Ok(None);
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(parse_option).collect::<Result<_, _>>().map(Some)
}

fn parse_option(text: &str) -> Result<Opt, String> {
    let wrong = || format!("`{text}` is no option");
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok()).ok_or_else(wrong);
    Ok(match words[0] {
        "eol" => Opt::End,
        "nop" => Opt::Nop,
        "mss" => Opt::Mss(number(1)? as u16),
        "wscale" => Opt::Scale(number(1)? as u8),
        "sackOK" => Opt::SackPermitted,
        "TS" => Opt::Timestamps(number(2)?, number(4)?),
        "FO" => Opt::FastOpen(hex(words.get(1).copied().unwrap_or_default()).ok_or_else(wrong)?),
        "raw" => Opt::Other(number(1)? as u8, hex(words.get(2).copied().unwrap_or_default()).ok_or_else(wrong)?),
        "sack" => {
            let block = |word: &&str| {
                let (left, right) = word.split_once(':')?;
                Some((left.parse().ok()?, right.parse().ok()?))
            };
            Opt::Sack(words[1..].iter().map(block).collect::<Option<_>>().ok_or_else(wrong)?)
        }
        _ => return Err(wrong()),
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| core::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

impl Opt {
    fn write(&self, out: &mut Vec<u8>) {
        let mut with_length = |kind: u8, data: &[u8]| {
            out.extend([kind, data.len() as u8 + 2]);
            out.extend(data);
        };
        match self {
            Opt::End => out.push(0),
            Opt::Nop => out.push(1),
            Opt::Mss(mss) => with_length(2, &mss.to_be_bytes()),
            Opt::Scale(shift) => with_length(3, &[*shift]),
            Opt::SackPermitted => with_length(4, &[]),
            Opt::Sack(blocks) => {
                let bytes = blocks.iter().flat_map(|(left, right)| [left.to_be_bytes(), right.to_be_bytes()].concat());
                with_length(5, &bytes.collect::<Vec<u8>>());
            }
            Opt::Timestamps(value, echo) => with_length(8, &[value.to_be_bytes(), echo.to_be_bytes()].concat()),
            Opt::FastOpen(cookie) => with_length(34, cookie),
            Opt::Other(kind, data) => with_length(*kind, data),
        }
    }
}

fn read_options(mut bytes: &[u8]) -> Vec<Opt> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = bytes {
        if *kind < 2 {
            options.push(if *kind == 0 { Opt::End } else { Opt::Nop });
            bytes = rest;
            continue;
        }
        let length = usize::from(rest[0]);
        let data = &bytes[2..length];
        let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
        options.push(match kind {
            2 => Opt::Mss(u16::from_be_bytes(data.try_into().unwrap())),
            3 => Opt::Scale(data[0]),
            4 => Opt::SackPermitted,
            5 => Opt::Sack((0..data.len() / 8).map(|n| (word(8 * n), word(8 * n + 4))).collect()),
            8 => Opt::Timestamps(word(0), word(4)),
            34 => Opt::FastOpen(data.to_vec()),
            _ => Opt::Other(*kind, data.to_vec()),
        });
        bytes = &bytes[length..];
    }
    options
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (flags, seq, len) = (&self.flags, self.seq, self.len);
        write!(f, "{flags} {seq}:{}({len}) ack {}", seq.wrapping_add(len), self.ack)?;
        write!(f, " win {:?} urg {} {:?} ecn {:?}", self.window, self.urgent, self.options, self.ecn)
    }
}
