//! Names of ports: netmap's grammar, and short schemes for what netmap has no name for.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

/// The grammar, as error messages show it.
pub const GRAMMAR: &str = "\
netmap:IF[RINGS][/FLAGS][OPTIONS]  valeS:P[RINGS][/FLAGS][OPTIONS]  shm:NAME[/FLAGS][OPTIONS]
xdp:IF[/QUEUE]  packet:IF  tap:IF  pcap:FILE[/R|/T]  null:[BYTES]
  RINGS    -K one NIC ring pair, ^ host rings, ^K one of them, * NIC and host rings, {ID or }ID end of a pipe (ID: 1 to 16 letters, digits, _)
  FLAGS    x exclusive, z zero-copy monitor, t or r monitor of the tx or rx side, R or T rx or tx rings only
  OPTIONS  @N memory region, @share:PORT, @conf:KEY=N,..., @extmem:[FILE][,KEY=N...], @offset:BYTES[,bits=N]";

/// What kind of port a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `netmap:IF`: an interface, or with `{` and `}` a pipe.
    Netmap,
    /// `valeS:P`: port P of switch S (S may be empty).
    Vale { switch: String },
    /// `shm:NAME`: one end of a pipe; who comes first gets the `{` end.
    Shm,
    /// `xdp:IF/QUEUE`.
    Xdp { queue: Option<u32> },
    /// `packet:IF`.
    Packet,
    /// `tap:IF`.
    Tap,
    /// `pcap:FILE`: packets out of a file, or with `/T` into one.
    Pcap,
    /// `null:` or `null:BYTES`.
    Null { source_bytes: u16 },
}

/// Which rings of the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RingsName {
    #[default]
    AllNic,
    Nic(u16),
    AllHost,
    Host(u16),
    NicAndHost,
    /// `{ID`: this end of pipe ID.
    Master(String),
    /// `}ID`
    Slave(String),
}

/// The letters after `/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub exclusive: bool,
    pub zero_copy_monitor: bool,
    pub monitor_tx: bool,
    pub monitor_rx: bool,
    pub rx_only: bool,
    pub tx_only: bool,
}

/// `@conf:`; 0 leaves a number to the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conf {
    pub tx_rings: u32,
    pub rx_rings: u32,
    pub host_tx_rings: u32,
    pub host_rx_rings: u32,
    pub tx_slots: u32,
    pub rx_slots: u32,
}

/// `@extmem:`; 0 leaves a number to the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extmem {
    /// Empty: anonymous memory.
    pub file: String,
    pub buffers: u32,
    pub buffer_bytes: u32,
}

/// `@offset:`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// First offset of the data in each buffer, in bytes.
    pub initial_bytes: u32,
    /// Bits of `ptr` that hold it; 0 for as many as there are.
    pub bits: u32,
}

/// What follows `@`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `@N`: share the memory region with this number.
    pub region: Option<u16>,
    /// `@share:PORT`: share the memory of this port.
    pub share: Option<String>,
    pub conf: Conf,
    pub extmem: Option<Extmem>,
    pub offset: Option<Offset>,
}

/// A name, taken apart. Displays as the name in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    pub scheme: Scheme,
    /// Interface, port of a switch, name or file.
    pub port: String,
    pub rings: RingsName,
    pub flags: Flags,
    pub options: Options,
}

impl std::str::FromStr for PortName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<PortName, NameError> {
        parse::parse(name)
    }
}

/// Where a name breaks the grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    pub name: String,
    /// Byte offset of the first character that does not fit.
    pub at: usize,
    /// What could stand there.
    pub expected: String,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, found) = self.name.split_at_checked(self.at).unwrap_or((&self.name, ""));
        write!(f, "{:?} is no port name: after {before:?}, ", self.name)?;
        match found.chars().next() {
            Some(c) => write!(f, "at {c:?}, ")?,
            None => write!(f, "where it ends, ")?,
        }
        write!(f, "{} is expected. Names are\n{GRAMMAR}", self.expected)
    }
}

impl std::error::Error for NameError {}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = &self.port;
        match &self.scheme {
            Scheme::Netmap => write!(f, "netmap:{port}")?,
            Scheme::Vale { switch } => write!(f, "vale{switch}:{port}")?,
            Scheme::Shm => write!(f, "shm:{port}")?,
            Scheme::Xdp { queue: None } => write!(f, "xdp:{port}")?,
            Scheme::Xdp { queue: Some(queue) } => write!(f, "xdp:{port}/{queue}")?,
            Scheme::Packet => write!(f, "packet:{port}")?,
            Scheme::Tap => write!(f, "tap:{port}")?,
            Scheme::Pcap => write!(f, "pcap:{port}")?,
            Scheme::Null { source_bytes: 0 } => write!(f, "null:")?,
            Scheme::Null { source_bytes } => write!(f, "null:{source_bytes}")?,
        }
        match &self.rings {
            RingsName::AllNic => {}
            RingsName::Nic(k) => write!(f, "-{k}")?,
            RingsName::AllHost => write!(f, "^")?,
            RingsName::Host(k) => write!(f, "^{k}")?,
            RingsName::NicAndHost => write!(f, "*")?,
            RingsName::Master(id) => write!(f, "{{{id}")?,
            RingsName::Slave(id) => write!(f, "}}{id}")?,
        }
        let letters = self.flags.letters();
        if !letters.is_empty() {
            write!(f, "/{letters}")?;
        }
        self.options.fmt(f)
    }
}

impl Flags {
    fn letters(self) -> String {
        let all = [
            (self.exclusive, 'x'),
            (self.zero_copy_monitor, 'z'),
            (self.monitor_tx, 't'),
            (self.monitor_rx, 'r'),
            (self.rx_only, 'R'),
            (self.tx_only, 'T'),
        ];
        all.iter().filter(|(set, _)| *set).map(|(_, letter)| letter).collect()
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(region) = self.region {
            write!(f, "@{region}")?;
        }
        if let Some(share) = &self.share {
            write!(f, "@share:{share}")?;
        }
        let conf: Vec<String> =
            self.conf.pairs().iter().filter(|(_, n)| *n != 0).map(|(k, n)| format!("{k}={n}")).collect();
        if !conf.is_empty() {
            write!(f, "@conf:{}", conf.join(","))?;
        }
        if let Some(Extmem { file, buffers, buffer_bytes }) = &self.extmem {
            write!(f, "@extmem:{file}")?;
            for (key, n) in [("buf-num", buffers), ("buf-size", buffer_bytes)].iter().filter(|(_, n)| **n != 0) {
                write!(f, ",{key}={n}")?;
            }
        }
        if let Some(Offset { initial_bytes, bits }) = self.offset {
            write!(f, "@offset:{initial_bytes}")?;
            if bits != 0 {
                write!(f, ",bits={bits}")?;
            }
        }
        Ok(())
    }
}

impl Conf {
    fn pairs(&self) -> [(&'static str, u32); 6] {
        [
            ("tx-rings", self.tx_rings),
            ("rx-rings", self.rx_rings),
            ("host-tx-rings", self.host_tx_rings),
            ("host-rx-rings", self.host_rx_rings),
            ("tx-slots", self.tx_slots),
            ("rx-slots", self.rx_slots),
        ]
    }
}
