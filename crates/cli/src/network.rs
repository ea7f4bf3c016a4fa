//! The engine or the kernel under the TCP programs, as their options say.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use ringway_port::device::{DeviceOptions, open_device};
use ringway_port::impair::impaired;
use ringway_port::name::{PortName, Scheme};
use ringway_stack::{KernelSockets, MacAddress, Prefix, Stack, StackConfig};

use crate::output::talk;
use crate::packets::line::LineOptions;
use crate::packets::{open_port, parse_mac, say_limits};

/// Which TCP a program runs on.
#[derive(Args)]
pub(crate) struct Network {
    /// Port for our own TCP to run on, as tap:NAME or xdp:IF
    #[arg(
        short = 'i',
        long = "port",
        value_name = "PORT",
        required_unless_present = "kernel",
        conflicts_with = "kernel"
    )]
    port: Option<String>,
    /// Run on the kernel's TCP
    #[arg(long)]
    kernel: bool,
    /// Our address on that port with its prefix length, as 10.0.0.2/24; may be given several times
    #[arg(long = "address", value_name = "ADDRESS/LEN", conflicts_with = "kernel")]
    addresses: Vec<Prefix>,
    /// Where packets to other networks go; one for IPv4, one for IPv6
    #[arg(long = "gateway", value_name = "ADDRESS", conflicts_with = "kernel")]
    gateways: Vec<IpAddr>,
    /// Our station address; made up where the port is not an interface that exists
    #[arg(long, value_name = "MAC", conflicts_with = "kernel", value_parser = parse_mac)]
    mac: Option<[u8; 6]>,
    /// A setting of our TCP by Linux's name, as tcp_congestion_control=reno; may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE", conflicts_with = "kernel")]
    settings: Vec<String>,
    /// How long to poll for packets before sleeping, in microseconds
    #[arg(long, value_name = "US", default_value_t = 20, conflicts_with = "kernel", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    spin: u32,
    #[command(flatten)]
    line: LineOptions,
}

/// What [`Network::open`] has opened.
pub(crate) enum Opened {
    Engine(Box<Stack>),
    Kernel(KernelSockets),
}

impl Network {
    pub(crate) fn open(&self) -> Result<Opened> {
        let Some(name) = self.port.as_ref().filter(|_| !self.kernel) else {
            ensure!(!self.line.is_bad(), "a bad line needs a port; give --port instead of --kernel");
            return Ok(Opened::Kernel(KernelSockets::new().context("cannot make an epoll set")?));
        };
        Ok(Opened::Engine(Box::new(self.stack(name)?)))
    }

    fn stack(&self, name: &str) -> Result<Stack> {
        ensure!(!self.addresses.is_empty(), "our TCP needs an address on {name}; give --address, as in 10.0.0.2/24");
        let parsed: PortName = name.parse()?;
        let mut tcp = ringway_stack::Config::default();
        for setting in &self.settings {
            let Some((name, value)) = setting.split_once('=') else {
                bail!("--set {setting}: expected NAME=VALUE, as in tcp_congestion_control=reno");
            };
            tcp.set(name, value).with_context(|| format!("--set {setting}"))?;
        }
        let config = StackConfig {
            addresses: self.addresses.clone(),
            gateways: self.gateways.clone(),
            mac: self.mac.map(MacAddress).or_else(|| mac_of(&parsed)),
            tcp,
            spin_us: self.spin,
        };
        let mut port = open(name, &parsed)?;
        if self.line.is_bad() {
            port = impaired(port, self.line.impairment())?;
        }
        let stack = Stack::new(port, config, seed()?)?;
        let addresses: Vec<String> = stack.addresses().iter().map(Prefix::to_string).collect();
        talk(format_args!("{name}: our TCP at {}, station {}", addresses.join(", "), stack.mac()));
        Ok(stack)
    }
}

/// A TAP device is brought up: its other end is useless otherwise.
fn open(name: &str, parsed: &PortName) -> Result<ringway_port::Port> {
    if parsed.scheme != Scheme::Tap {
        return open_port(name);
    }
    let port = open_device(name, &DeviceOptions { up: true, ..DeviceOptions::default() })?;
    say_limits(&port);
    Ok(port)
}

/// Where the port is an interface that exists, its frames come to the interface's own address.
fn mac_of(name: &PortName) -> Option<MacAddress> {
    if !matches!(name.scheme, Scheme::Netmap | Scheme::Xdp { .. } | Scheme::Packet) {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{}/address", name.port)).ok()?;
    parse_mac(text.trim()).ok().map(MacAddress)
}

fn seed() -> Result<u64> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).context("cannot draw a random number")?;
    Ok(u64::from_ne_bytes(seed))
}
