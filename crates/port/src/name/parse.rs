//! The parser of port names: one pass from left to right; whatever does not fit is reported with its place.

use super::{Conf, Extmem, Flags, NameError, Offset, Options, PortName, RingsName, Scheme};

/// Bytes of a name at most. All parts have bounds too, so that a name in full, which may be longer than what was parsed,
/// parses as well.
const NAME_BYTES_MAX: usize = 1024;
/// Bytes of a file's path at most.
const FILE_BYTES_MAX: usize = 512;
/// Bytes of the port's own name; with its scheme and a pipe's id it must fit into a port record.
const PORT_BYTES_MAX: usize = 40;
const PIPE_ID_BYTES_MAX: usize = 16;

/// What is left to read.
struct Rest<'a> {
    name: &'a str,
    at: usize,
}

pub(super) fn parse(name: &str) -> Result<PortName, NameError> {
    let mut rest = Rest { name, at: 0 };
    if name.len() > NAME_BYTES_MAX {
        rest.at = (0..=NAME_BYTES_MAX).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        return rest.expect(&format!("the end (a name has at most {NAME_BYTES_MAX} bytes)"));
    }
    let Some((scheme, _)) = name.split_once(':') else {
        return rest.expect("a scheme (netmap: valeS: shm: xdp: packet: tap: pcap: null:)");
    };
    let scheme_name = scheme;
    let scheme = match scheme {
        "netmap" => Scheme::Netmap,
        "shm" => Scheme::Shm,
        "xdp" => Scheme::Xdp { queue: None },
        "packet" => Scheme::Packet,
        "tap" => Scheme::Tap,
        "pcap" => Scheme::Pcap,
        "null" => Scheme::Null { source_bytes: 0 },
        _ => match scheme.strip_prefix("vale") {
            Some(switch) if switch.len() <= 16 && switch.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
                Scheme::Vale { switch: switch.to_owned() }
            }
            _ => return rest.expect("a scheme (netmap: valeS: shm: xdp: packet: tap: pcap: null:)"),
        },
    };
    rest.at = scheme_name.len() + 1;
    let bare = |scheme, port: String| PortName {
        scheme,
        port,
        rings: RingsName::AllNic,
        flags: Flags::default(),
        options: Options::default(),
    };
    match scheme {
        Scheme::Null { .. } => {
            let source_bytes = if rest.is_at_end() { 0 } else { rest.number("a packet length", 65_535)? as u16 };
            rest.end(bare(Scheme::Null { source_bytes }, String::new()), "the end")
        }
        Scheme::Pcap => rest.file(),
        Scheme::Xdp { .. } => {
            let port = rest.port("an interface")?;
            let queue = if rest.skip('/') { Some(rest.number("a queue number", 65_535)?) } else { None };
            rest.end(bare(Scheme::Xdp { queue }, port), "the end, or / and a queue number")
        }
        Scheme::Packet | Scheme::Tap => {
            let name = bare(scheme, rest.port("an interface")?);
            rest.flags_and_options(name, "the end, /FLAGS or @OPTION")
        }
        Scheme::Shm => {
            let name = bare(scheme, rest.port("a name")?);
            rest.flags_and_options(name, "the end, /FLAGS or @OPTION")
        }
        Scheme::Netmap | Scheme::Vale { .. } => {
            let mut name = bare(scheme, rest.port("an interface or port")?);
            name.rings = rest.rings()?;
            rest.flags_and_options(name, "the end, RINGS, /FLAGS or @OPTION")
        }
    }
}

impl<'a> Rest<'a> {
    fn text(&self) -> &'a str {
        &self.name[self.at..]
    }

    fn is_at_end(&self) -> bool {
        self.at == self.name.len()
    }

    fn expect<T>(&self, expected: &str) -> Result<T, NameError> {
        Err(NameError { name: self.name.to_owned(), at: self.at, expected: expected.to_owned() })
    }

    fn end(&self, name: PortName, expected: &str) -> Result<PortName, NameError> {
        if self.is_at_end() { Ok(name) } else { self.expect(expected) }
    }

    fn skip(&mut self, c: char) -> bool {
        let found = self.text().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    /// Text up to one of `stops`.
    fn word(&mut self, stops: &[char]) -> &'a str {
        let text = self.text();
        let word = &text[..text.find(stops).unwrap_or(text.len())];
        self.at += word.len();
        word
    }

    fn number(&mut self, what: &str, max: u32) -> Result<u32, NameError> {
        let text = self.text();
        let digits = &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())];
        match digits.parse::<u32>() {
            Ok(n) if n <= max => {
                self.at += digits.len();
                Ok(n)
            }
            _ => self.expect(&format!("{what} (0 to {max})")),
        }
    }

    fn port(&mut self, what: &str) -> Result<String, NameError> {
        let start = self.at;
        let text = self.text();
        let legal = |c: char| c.is_ascii_alphanumeric() || "_.:+".contains(c);
        let port = &text[..text.find(|c| !legal(c)).unwrap_or(text.len())];
        if port.is_empty() {
            return self.expect(&format!("{what} (letters, digits, _ . : +)"));
        }
        if port.len() > PORT_BYTES_MAX {
            self.at = start + PORT_BYTES_MAX;
            return self.expect(&format!("the end of the name, which has at most {PORT_BYTES_MAX} bytes,"));
        }
        self.at += port.len();
        Ok(port.to_owned())
    }

    /// `pcap:FILE[/R|/T]`: everything but the last two characters is the file's path.
    fn file(&mut self) -> Result<PortName, NameError> {
        let text = self.text();
        let (path, flags) = match (text.strip_suffix("/T"), text.strip_suffix("/R")) {
            (Some(path), _) => (path, Flags { tx_only: true, ..Flags::default() }),
            (_, Some(path)) => (path, Flags { rx_only: true, ..Flags::default() }),
            _ => (text, Flags { rx_only: true, ..Flags::default() }),
        };
        self.check_file(path)?;
        if path.is_empty() {
            return self.expect("a file");
        }
        let (port, rings, options) = (path.to_owned(), RingsName::AllNic, Options::default());
        Ok(PortName { scheme: Scheme::Pcap, port, rings, flags, options })
    }

    fn check_file(&self, path: &str) -> Result<(), NameError> {
        match path.len() > FILE_BYTES_MAX || path.contains('\0') {
            true => self.expect(&format!("a file's path (at most {FILE_BYTES_MAX} bytes, none of them zero)")),
            false => Ok(()),
        }
    }

    fn rings(&mut self) -> Result<RingsName, NameError> {
        let number = |rest: &mut Self, what| rest.number(what, 65_535).map(|n| n as u16);
        Ok(if self.skip('-') {
            RingsName::Nic(number(self, "a ring number")?)
        } else if self.skip('^') {
            let numbered = self.text().starts_with(|c: char| c.is_ascii_digit());
            if numbered { RingsName::Host(number(self, "a ring number")?) } else { RingsName::AllHost }
        } else if self.skip('*') {
            RingsName::NicAndHost
        } else if self.skip('{') {
            RingsName::Master(self.pipe_id()?)
        } else if self.skip('}') {
            RingsName::Slave(self.pipe_id()?)
        } else {
            RingsName::AllNic
        })
    }

    fn pipe_id(&mut self) -> Result<String, NameError> {
        let text = self.text();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        if !(1..=PIPE_ID_BYTES_MAX).contains(&end) {
            return self.expect("a pipe's id (1 to 16 letters, digits, _)");
        }
        self.at += end;
        Ok(text[..end].to_owned())
    }

    fn flags_and_options(&mut self, mut name: PortName, expected: &str) -> Result<PortName, NameError> {
        let options_of_none = name.options.clone();
        if self.skip('/') {
            name.flags = self.flags()?;
        }
        while self.skip('@') {
            self.option(&mut name.options)?;
        }
        let expected = match (name.flags == Flags::default(), name.options == options_of_none) {
            (true, true) => expected,
            (false, true) => "the end, a flag (x z t r R T) or @OPTION",
            (_, false) => "the end or @OPTION",
        };
        self.end(name, expected)
    }

    fn flags(&mut self) -> Result<Flags, NameError> {
        let mut flags = Flags::default();
        while let Some(letter) = self.text().chars().next().filter(|c| *c != '@') {
            let flag = match letter {
                'x' => &mut flags.exclusive,
                'z' => &mut flags.zero_copy_monitor,
                't' => &mut flags.monitor_tx,
                'r' => &mut flags.monitor_rx,
                'R' => &mut flags.rx_only,
                'T' => &mut flags.tx_only,
                _ => return self.expect("a flag (x z t r R T)"),
            };
            if std::mem::replace(flag, true) || (flags.rx_only && flags.tx_only) {
                return self.expect("another flag (each once, R or T but not both)");
            }
            self.at += 1;
        }
        Ok(flags)
    }

    /// One option; the `@` is behind us.
    fn option(&mut self, options: &mut Options) -> Result<(), NameError> {
        let start = self.at;
        if self.text().starts_with(|c: char| c.is_ascii_digit()) {
            let region = self.number("a memory region", 65_535)? as u16;
            return self.once(options.region.replace(region).is_none(), start);
        }
        let key = self.word(&[':', '@']);
        if !matches!(key, "share" | "conf" | "extmem" | "offset") || !self.skip(':') {
            self.at = start;
            return self.expect("a memory region or one of share: conf: extmem: offset:");
        }
        let fresh = match key {
            "share" => options.share.replace(self.port("a port")?).is_none(),
            "conf" => std::mem::replace(&mut options.conf, self.conf()?) == Conf::default(),
            "extmem" => options.extmem.replace(self.extmem()?).is_none(),
            _ => options.offset.replace(self.offset()?).is_none(),
        };
        self.once(fresh, start)
    }

    fn once(&mut self, fresh: bool, start: usize) -> Result<(), NameError> {
        if fresh {
            return Ok(());
        }
        self.at = start;
        self.expect("another option (each once)")
    }

    /// `KEY=N`, of these keys; the key's place in `keys` and the number.
    fn pair(&mut self, keys: &[&str]) -> Result<(usize, u32), NameError> {
        let start = self.at;
        let word = self.word(&['=', ',', '@']);
        let Some(key) = keys.iter().position(|key| *key == word).filter(|_| self.skip('=')) else {
            self.at = start;
            return self.expect(&format!("KEY=N, KEY one of {}", keys.join(" ")));
        };
        Ok((key, self.number("a number", 1 << 24)?))
    }

    fn conf(&mut self) -> Result<Conf, NameError> {
        const KEYS: [&str; 9] = [
            "rings",
            "host-rings",
            "slots",
            "tx-rings",
            "rx-rings",
            "host-tx-rings",
            "host-rx-rings",
            "tx-slots",
            "rx-slots",
        ];
        let mut conf = Conf::default();
        loop {
            let (key, n) = self.pair(&KEYS)?;
            match KEYS[key] {
                "rings" => (conf.tx_rings, conf.rx_rings) = (n, n),
                "host-rings" => (conf.host_tx_rings, conf.host_rx_rings) = (n, n),
                "slots" => (conf.tx_slots, conf.rx_slots) = (n, n),
                "tx-rings" => conf.tx_rings = n,
                "rx-rings" => conf.rx_rings = n,
                "host-tx-rings" => conf.host_tx_rings = n,
                "host-rx-rings" => conf.host_rx_rings = n,
                "tx-slots" => conf.tx_slots = n,
                _ => conf.rx_slots = n,
            }
            if !self.skip(',') {
                return Ok(conf);
            }
        }
    }

    fn extmem(&mut self) -> Result<Extmem, NameError> {
        let text = self.text();
        let file = text[..text.find([',', '@']).unwrap_or(text.len())].to_owned();
        self.check_file(&file)?;
        self.at += file.len();
        let mut extmem = Extmem { file, ..Extmem::default() };
        while self.skip(',') {
            match self.pair(&["buf-num", "buf-size"])? {
                (0, n) => extmem.buffers = n,
                (_, n) => extmem.buffer_bytes = n,
            }
        }
        Ok(extmem)
    }

    fn offset(&mut self) -> Result<Offset, NameError> {
        let initial_bytes = self.number("an offset in bytes", 65_535)?;
        let bits = if self.skip(',') { self.pair(&["bits"])?.1 } else { 0 };
        Ok(Offset { initial_bytes, bits })
    }
}
