//! What a stack is told when it is made: its addresses, where the rest of the world is, and TCP's settings.

use core::fmt;
use core::str::FromStr;

use ringway_wire::{IpAddress, MacAddress};

/// An address with the length of its network's prefix: `10.0.0.2/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub address: IpAddress,
    /// In bits.
    pub len: u8,
}

impl Prefix {
    /// Whether `other` is in the same network.
    pub fn contains(&self, other: IpAddress) -> bool {
        match (self.address, other) {
            (IpAddress::V4(ours), IpAddress::V4(theirs)) => {
                let differing = u32::from(ours) ^ u32::from(theirs);
                differing.checked_shr(32 - u32::from(self.len)).unwrap_or(0) == 0
            }
            (IpAddress::V6(ours), IpAddress::V6(theirs)) => {
                let differing = u128::from(ours) ^ u128::from(theirs);
                differing.checked_shr(128 - u32::from(self.len)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Whether `other` reaches all stations of this network (RFC 919, 7).
    pub fn is_broadcast(&self, other: IpAddress) -> bool {
        match other {
            IpAddress::V4(v4) if self.len < 31 && self.contains(other) => {
                u32::from(v4) | u32::MAX << (32 - u32::from(self.len).max(1)) == u32::MAX
            }
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// A text that is no [`Prefix`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixError(String);

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no address with a prefix length; write it as 10.0.0.2/24 or fd00::2/64", self.0)
    }
}

impl core::error::Error for PrefixError {}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let parsed = text.split_once('/').and_then(|(address, len)| {
            let prefix = Prefix { address: address.parse().ok()?, len: len.parse().ok()? };
            let most = if prefix.address.is_ipv4() { 32 } else { 128 };
            let usable = !prefix.address.is_unspecified() && !prefix.address.is_multicast();
            (usable && (1..=most).contains(&prefix.len) && !prefix.is_broadcast(prefix.address)).then_some(prefix)
        });
        parsed.ok_or_else(|| PrefixError(text.to_owned()))
    }
}

/// How a stack begins.
#[derive(Clone, Debug, Default)]
pub struct StackConfig {
    /// At least one; the first of a family is what connections to other networks come from.
    pub addresses: Vec<Prefix>,
    /// Where packets to other networks go: at most one of each family, each in the network of an address.
    pub gateways: Vec<IpAddress>,
    /// The port's own station address; `None` makes one up, which is right for a TAP device or a pipe, and wrong for an
    /// interface that exists.
    pub mac: Option<MacAddress>,
    /// TCP's settings. `mtu` is lowered to what the port can carry.
    pub tcp: ringway_tcp::Config,
    /// How long to poll the port before sleeping, in microseconds; 0 sleeps at once.
    pub spin_us: u32,
}

/// Why a stack cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    NoAddress,
    /// No address is in the gateway's network.
    Gateway(IpAddress),
    /// Buffers or packets are too small for even the smallest MTU, in bytes.
    Mtu(u32),
    /// The port cannot both send and receive.
    OneWay(String),
    /// The port puts a virtio-net header before each frame.
    VnetHeader,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::NoAddress => write!(f, "a stack needs an address; give one, as in 10.0.0.2/24"),
            ConfigError::Gateway(gateway) => {
                write!(f, "gateway {gateway} is in none of the addresses' networks, and could not be reached")
            }
            ConfigError::Mtu(bytes) => write!(f, "the port carries packets of {bytes} bytes; IP needs at least 576"),
            ConfigError::OneWay(port) => write!(f, "{port} cannot both send and receive"),
            ConfigError::VnetHeader => write!(f, "the port has virtio-net headers; open it without them"),
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_know_their_network() {
        let prefix: Prefix = "10.1.2.3/20".parse().unwrap();
        assert_eq!(prefix.to_string(), "10.1.2.3/20");
        assert!(prefix.contains([10, 1, 15, 255].into()) && !prefix.contains([10, 1, 16, 0].into()));
        assert!(prefix.is_broadcast([10, 1, 15, 255].into()) && !prefix.is_broadcast([10, 1, 14, 255].into()));
        let v6: Prefix = "fd00::2/64".parse().unwrap();
        assert!(v6.contains("fd00::ffff:0:0:1".parse().unwrap()) && !v6.contains("fd00:0:0:1::2".parse().unwrap()));
        assert!(!v6.contains(prefix.address) && !prefix.contains(v6.address));
        let host: Prefix = "10.0.0.1/32".parse().unwrap();
        assert!(host.contains(host.address) && !host.contains([10, 0, 0, 2].into()));
        assert!(!host.is_broadcast(host.address));
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_an_example() {
        for text in ["", "10.0.0.2", "10.0.0.2/33", "10.0.0.2/0", "0.0.0.0/8", "224.0.0.1/4", "10.0.0.255/24", "x/24"] {
            let error = text.parse::<Prefix>().unwrap_err();
            assert!(error.to_string().contains("10.0.0.2/24"), "{error}");
        }
    }
}
