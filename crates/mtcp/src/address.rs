//! Socket addresses as C has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::c_int;
use ringway_stack::Endpoint;

use crate::errno::{Errno, Result};

const V4_BYTES: usize = 16;
/// Without `sin6_scope_id`, as RFC 2133 had it.
const V6_BYTES_LEAST: usize = 24;
const V6_BYTES: usize = 28;

/// What a socket was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn domain(self) -> c_int {
        match self {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        }
    }

    pub(crate) fn any(self) -> IpAddr {
        match self {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Reads a `sockaddr`. An IPv4 address in IPv6's clothes is an IPv4 address.
    ///
    /// # Errors
    /// `EINVAL` if it is too short, `EAFNOSUPPORT` for another family.
    pub(crate) fn read(self, bytes: &[u8]) -> Result<Endpoint> {
        let family = bytes.first_chunk().map(|b| c_int::from(u16::from_ne_bytes(*b))).ok_or(Errno::INVAL)?;
        let least = if self == Family::V4 { V4_BYTES } else { V6_BYTES_LEAST };
        if bytes.len() < least {
            return Err(Errno::INVAL);
        }
        if family != self.domain() {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        let address = match self {
            Family::V4 => IpAddr::from([bytes[4], bytes[5], bytes[6], bytes[7]]),
            Family::V6 => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[8..24]);
                let v6 = Ipv6Addr::from(octets);
                v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
            }
        };
        Ok(Endpoint::new(address, port))
    }

    /// The `sockaddr` of an endpoint; IPv4 in IPv6's clothes for a socket of that family.
    pub(crate) fn write(self, endpoint: Endpoint) -> Vec<u8> {
        let mut bytes = vec![0; if self == Family::V4 { V4_BYTES } else { V6_BYTES }];
        bytes[..2].copy_from_slice(&(self.domain() as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&endpoint.port.to_be_bytes());
        match (self, endpoint.address) {
            (Family::V4, IpAddr::V4(v4)) => bytes[4..8].copy_from_slice(&v4.octets()),
            (Family::V6, IpAddr::V4(v4)) => bytes[8..24].copy_from_slice(&v4.to_ipv6_mapped().octets()),
            (_, IpAddr::V6(v6)) => bytes[8..24].copy_from_slice(&v6.octets()),
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::from(text.parse::<SocketAddr>().unwrap())
    }

    #[test]
    fn addresses_survive_their_bytes() {
        for (family, text) in [(Family::V4, "10.1.2.3:80"), (Family::V6, "[fd00::5]:443"), (Family::V6, "10.1.2.3:80")]
        {
            let bytes = family.write(endpoint(text));
            assert_eq!(family.read(&bytes), Ok(endpoint(text)));
        }
    }

    #[test]
    fn short_and_foreign_ones_are_refused_as_linux_does() {
        let v4 = Family::V4.write(endpoint("10.1.2.3:80"));
        assert_eq!(Family::V4.read(&v4[..15]), Err(Errno::INVAL));
        assert_eq!(Family::V6.read(&v4), Err(Errno::INVAL));
        let mut local = v4;
        local[0] = libc::AF_UNIX as u8;
        assert_eq!(Family::V4.read(&local), Err(Errno(libc::EAFNOSUPPORT)));
        assert_eq!(Family::V4.read(&[]), Err(Errno::INVAL));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_address_or_an_error(bytes: [u8; 32], length in 0usize..33, family in 0u16..12) {
            let mut bytes = bytes;
            bytes[..2].copy_from_slice(&family.to_ne_bytes());
            for family in [Family::V4, Family::V6] {
                if let Ok(endpoint) = family.read(&bytes[..length]) {
                    proptest::prop_assert_eq!(family.read(&family.write(endpoint)), Ok(endpoint));
                }
            }
        }
    }
}
