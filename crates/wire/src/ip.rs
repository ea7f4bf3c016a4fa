//! What both versions of IP share: addresses, protocol numbers, ECN.

use core::fmt;
pub use core::net::IpAddr as IpAddress;
use core::net::SocketAddr;

/// What follows an IP header (IANA "Protocol Numbers"); in IPv6 the next header, which may be an extension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol(pub u8);

impl Protocol {
    pub const HOP_BY_HOP: Protocol = Protocol(0);
    pub const ICMP: Protocol = Protocol(1);
    pub const TCP: Protocol = Protocol(6);
    pub const UDP: Protocol = Protocol(17);
    pub const ROUTING: Protocol = Protocol(43);
    pub const FRAGMENT: Protocol = Protocol(44);
    pub const ESP: Protocol = Protocol(50);
    pub const AH: Protocol = Protocol(51);
    pub const ICMPV6: Protocol = Protocol(58);
    pub const NO_NEXT_HEADER: Protocol = Protocol(59);
    pub const DESTINATION_OPTIONS: Protocol = Protocol(60);
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Protocol::ICMP => f.write_str("ICMP"),
            Protocol::TCP => f.write_str("TCP"),
            Protocol::UDP => f.write_str("UDP"),
            Protocol::ICMPV6 => f.write_str("ICMPv6"),
            Protocol(number) => write!(f, "Protocol({number})"),
        }
    }
}

/// Where a fragment belongs in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// 16 bits in IPv4.
    pub identification: u32,
    /// Where its payload begins in the datagram's, in bytes; a multiple of 8.
    pub offset: u16,
    /// It is not the last one.
    pub more: bool,
}

/// Explicit congestion notification, the low two bits of the traffic class (RFC 3168, 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    #[default]
    NotEct = 0,
    Ect1 = 1,
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// From the low two bits of a traffic class.
    #[inline(always)]
    pub const fn from_traffic_class(traffic_class: u8) -> Ecn {
        match traffic_class & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// An address and a port: one end of a flow. Unlike a `SocketAddr` it has no flow label and no scope, so equal
/// ends are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    pub address: IpAddress,
    pub port: u16,
}

impl Endpoint {
    pub const fn new(address: IpAddress, port: u16) -> Endpoint {
        Endpoint { address, port }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(from: SocketAddr) -> Endpoint {
        Endpoint::new(from.ip(), from.port())
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(from: Endpoint) -> SocketAddr {
        SocketAddr::new(from.address, from.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
