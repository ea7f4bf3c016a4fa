//! The configuration file: `KEY = VALUE` lines with mTCP's keys, and those that name ports and addresses.

use std::net::IpAddr;

use ringway_port::name::PortName;
use ringway_stack::{Config, MacAddress, Prefix};

/// Cores, and so contexts, of a process.
pub(crate) const CORES_MAX: usize = 64;
const CONCURRENCY_MAX: u32 = 1 << 24;
/// Keys of mTCP that have nothing to say here: its drivers, their memory, and its statistics.
const WITHOUT_MEANING: [&str; 8] =
    ["io", "core_mask", "num_mem_ch", "stat_print", "multiprocess", "onvm_inst", "onvm_serv", "onvm_dest"];

#[derive(Clone, Debug)]
pub(crate) struct Conf {
    /// One for each core.
    pub(crate) ports: Vec<PortName>,
    pub(crate) addresses: Vec<Prefix>,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mac: Option<MacAddress>,
    pub(crate) num_cores: usize,
    pub(crate) max_concurrency: u32,
    pub(crate) max_num_buffers: u32,
    /// Seconds of silence after which a peer is asked whether it is still there; 0 is never.
    pub(crate) timeout_s: u32,
    /// 0: none; else connections stay in TIME-WAIT as long as TCP wants.
    pub(crate) timewait_s: u32,
    pub(crate) tcp: Config,
    pub(crate) spin_us: u32,
}

impl Default for Conf {
    fn default() -> Conf {
        Conf {
            ports: vec![],
            addresses: vec![],
            gateways: vec![],
            mac: None,
            num_cores: 0,
            max_concurrency: 100_000,
            max_num_buffers: 100_000,
            timeout_s: 0,
            timewait_s: 60,
            tcp: Config::default(),
            spin_us: 20,
        }
    }
}

impl Conf {
    /// Reads the text of a file; `file` is for messages.
    ///
    /// # Errors
    /// A sentence with file, line, key and what it takes.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Conf, String> {
        let mut conf = Conf::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                conf.line(line).map_err(|wrong| format!("{file}:{}: {wrong}", number + 1))?;
            }
        }
        conf.complete().map_err(|wrong| format!("{file}: {wrong}"))?;
        Ok(conf)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once('=').ok_or_else(|| format!("`{line}`: expected KEY = VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        self.set(key, value).map_err(|takes| format!("{key} = {value}: {takes}"))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "port" => self.ports = words(value, |word| word.parse::<PortName>().map_err(|e| e.to_string()))?,
            "address" => self.addresses.extend(words(value, |word| word.parse::<Prefix>().map_err(|e| e.to_string()))?),
            "gateway" => {
                let parse =
                    |word: &str| word.parse::<IpAddr>().map_err(|_| "expected addresses, as 10.0.0.1".to_owned());
                self.gateways.extend(words(value, parse)?);
            }
            "mac" => self.mac = Some(mac(value).ok_or("expected a station address, as 02:00:00:00:00:01")?),
            "num_cores" => self.num_cores = number(value, 1, CORES_MAX as u32)? as usize,
            "max_concurrency" => self.set_concurrency(number(value, 1, CONCURRENCY_MAX)?),
            "rcvbuf" => self.set_receive_buffer(number(value, 1, i32::MAX as u32)?),
            "sndbuf" => self.set_send_buffer(number(value, 1, i32::MAX as u32)?),
            // -1 is mTCP's word for never.
            "tcp_timeout" if value == "-1" => self.set_timeout(0),
            "tcp_timeout" => self.set_timeout(number(value, 0, 32_767)?),
            "tcp_timewait" => self.set_timewait(number(value, 0, 3600)?),
            "spin_us" => self.spin_us = number(value, 0, 1_000_000)?,
            "cc" => self.tcp.set("tcp_congestion_control", value).map_err(|e| e.to_string())?,
            "max_num_buffers" => self.max_num_buffers = number(value, 1, u32::MAX)?,
            key if WITHOUT_MEANING.contains(&key) => {}
            key if Config::NAMES.contains(&key) => self.tcp.set(key, value).map_err(|e| e.to_string())?,
            _ => return Err("there is no such key; docs/mtcp.md lists those there are".to_owned()),
        }
        Ok(())
    }

    pub(crate) fn set_concurrency(&mut self, connections: u32) {
        (self.max_concurrency, self.tcp.connections_max) = (connections, connections);
    }

    /// Fixed, as mTCP's buffers are.
    pub(crate) fn set_receive_buffer(&mut self, bytes: u32) {
        let sizes = &mut self.tcp.tcp_rmem;
        (sizes.min, sizes.default, sizes.max) = (sizes.min.min(bytes), bytes, bytes);
    }

    pub(crate) fn set_send_buffer(&mut self, bytes: u32) {
        let sizes = &mut self.tcp.tcp_wmem;
        (sizes.min, sizes.default, sizes.max) = (sizes.min.min(bytes), bytes, bytes);
    }

    pub(crate) fn set_timeout(&mut self, seconds: u32) {
        self.timeout_s = seconds;
        self.tcp.tcp_keepalive_time = if seconds > 0 { seconds } else { Config::default().tcp_keepalive_time };
    }

    pub(crate) fn set_timewait(&mut self, seconds: u32) {
        self.timewait_s = seconds;
        self.tcp.tcp_max_tw_buckets = if seconds > 0 { Config::default().tcp_max_tw_buckets } else { 0 };
    }

    /// What needs all lines.
    fn complete(&mut self) -> Result<(), String> {
        if self.ports.is_empty() {
            return Err("no port: name one for each core, as `port = tap:web0`".to_owned());
        }
        self.num_cores = if self.num_cores == 0 { self.ports.len() } else { self.num_cores };
        if self.num_cores > self.ports.len() {
            return Err(format!("num_cores = {}, but port names {} of them", self.num_cores, self.ports.len()));
        }
        if (0..self.num_cores).any(|core| self.addresses_of(core).is_empty()) {
            return Err("each core needs an address of its own, as `address = 10.0.0.2/24`".to_owned());
        }
        Ok(())
    }

    /// All addresses of the only port; else the core's one of each family, in their order.
    pub(crate) fn addresses_of(&self, core: usize) -> Vec<Prefix> {
        if self.ports.len() == 1 {
            return self.addresses.clone();
        }
        let of = |is_v4: bool| self.addresses.iter().filter(move |prefix| prefix.address.is_ipv4() == is_v4).nth(core);
        [of(true), of(false)].into_iter().flatten().copied().collect()
    }
}

fn words<T>(value: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    value.split_whitespace().map(parse).collect()
}

fn number(value: &str, low: u32, high: u32) -> Result<u32, String> {
    let parsed = value.parse().ok().filter(|n| (low..=high).contains(n));
    parsed.ok_or_else(|| format!("expected a number from {low} to {high}"))
}

pub(crate) fn mac(text: &str) -> Option<MacAddress> {
    let mut octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok());
    let mac = [(); 6].map(|()| octets.next().flatten());
    let whole = octets.next().is_none() && mac.iter().all(Option::is_some);
    whole.then(|| MacAddress(mac.map(Option::unwrap_or_default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtcps_keys_and_ours() {
        let text = "# a server\nio = dpdk\nnum_cores = 1\nport = tap:web0 # the device\naddress = 10.0.0.2/24 fd00::2/64\n\
                    max_concurrency = 5000\nrcvbuf = 8192\nsndbuf=4096\ntcp_timeout = 30\ncc = reno\ntcp_sack = 0\n";
        let conf = Conf::parse("x", text).unwrap();
        assert_eq!((conf.num_cores, conf.ports.len(), conf.addresses.len()), (1, 1, 2));
        assert_eq!((conf.max_concurrency, conf.tcp.connections_max, conf.timeout_s), (5000, 5000, 30));
        assert_eq!((conf.tcp.tcp_rmem.max, conf.tcp.tcp_wmem.max, conf.tcp.tcp_sack), (8192, 4096, false));
    }

    #[test]
    fn several_cores_take_a_port_and_an_address_each() {
        let conf = Conf::parse("x", "port = vale0:a vale0:b\naddress = 10.0.0.2/24 10.0.0.3/24 fd00::2/64").unwrap();
        let shown = |core| conf.addresses_of(core).iter().map(Prefix::to_string).collect::<Vec<_>>();
        assert_eq!((conf.num_cores, shown(0)), (2, vec!["10.0.0.2/24".to_owned(), "fd00::2/64".to_owned()]));
        assert_eq!(shown(1), ["10.0.0.3/24"]);
    }

    #[test]
    fn errors_name_file_line_key_and_what_it_takes() {
        for (text, words) in [
            ("port = tap:a\nnum_cores = 0", "x:2: num_cores = 0: expected a number from 1 to 64"),
            ("\nrcvbuf", "x:2: `rcvbuf`: expected KEY = VALUE"),
            ("speed = 5", "x:1: speed = 5: there is no such key"),
            ("address = 10.0.0.2", "x:1: address = 10.0.0.2: `10.0.0.2` is no address"),
            ("cc = bbr", "reno, cubic or dctcp"),
            ("mac = 1:2:3", "x:1: mac = 1:2:3: expected a station address"),
            ("address = 10.0.0.2/24", "x: no port"),
            ("port = tap:a", "x: each core needs an address"),
            ("port = tap:a\naddress = 10.0.0.2/24\nnum_cores = 2", "x: num_cores = 2, but port names 1"),
        ] {
            let wrong = Conf::parse("x", text).unwrap_err();
            assert!(wrong.contains(words), "{wrong}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken_or_refused(text in "([a-z_]{1,9} ?= ?[ -~]{0,20}\n?){0,6}|[ -~\n]{0,60}") {
            let known = ["port", "address", "gateway", "mac", "num_cores", "rcvbuf", "tcp_timeout", "cc"];
            let _ = Conf::parse("x", &text);
            for key in known {
                let _ = Conf::parse("x", &format!("{key} = {text}"));
            }
        }
    }
}
