//! Socket addresses in C's layout.

use std::net::{Ipv4Addr, Ipv6Addr};

use ringway_wire::{Endpoint, IpAddress};

use crate::errno::{Errno, Result};

const V4_BYTES: usize = size_of::<libc::sockaddr_in>();
const V6_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// The family of a socket, which decides how it shows addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn from_domain(domain: i32) -> Result<Family> {
        match domain {
            libc::AF_INET => Ok(Family::V4),
            libc::AF_INET6 => Ok(Family::V6),
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }

    pub(crate) fn domain(self) -> i32 {
        match self {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        }
    }
}

/// What a `sockaddr` says: an end, IPv4-mapped ones taken for IPv4; `None` for `AF_UNSPEC`.
pub(crate) fn parse(bytes: &[u8], family: Family) -> Result<Option<Endpoint>> {
    let said = bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)?;
    if i32::from(said) == libc::AF_UNSPEC {
        return Ok(None);
    }
    if i32::from(said) != family.domain() {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let port = bytes.get(2..4).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes).ok_or(Errno::INVAL)?;
    let address = match family {
        Family::V4 => bytes.get(4..8).and_then(|b| <[u8; 4]>::try_from(b).ok()).map(IpAddress::from),
        Family::V6 => {
            let address = bytes.get(8..24).and_then(|b| <[u8; 16]>::try_from(b).ok()).map(Ipv6Addr::from);
            address.map(|v6| v6.to_ipv4_mapped().map_or(IpAddress::V6(v6), IpAddress::V4))
        }
    };
    Ok(Some(Endpoint::new(address.ok_or(Errno::INVAL)?, port)))
}

/// The `sockaddr` that a socket of `family` shows for an end.
pub(crate) fn show(end: Endpoint, family: Family) -> Vec<u8> {
    let mut bytes = vec![0; if family == Family::V4 { V4_BYTES } else { V6_BYTES }];
    bytes[..2].copy_from_slice(&(family.domain() as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&end.port.to_be_bytes());
    match (family, end.address) {
        (Family::V4, IpAddress::V4(v4)) => bytes[4..8].copy_from_slice(&v4.octets()),
        (Family::V4, IpAddress::V6(_)) => {}
        (Family::V6, IpAddress::V4(v4)) => bytes[8..24].copy_from_slice(&v4.to_ipv6_mapped().octets()),
        (Family::V6, IpAddress::V6(v6)) => bytes[8..24].copy_from_slice(&v6.octets()),
    }
    bytes
}

/// The address from which the stack speaks of itself to `remote`, if the script bound none.
pub(crate) fn own(remote: IpAddress) -> IpAddress {
    match remote {
        IpAddress::V4(_) => Ipv4Addr::new(192, 168, 0, 1).into(),
        IpAddress::V6(_) => Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for (text, family) in
            [("192.0.2.1:80", Family::V4), ("192.0.2.1:80", Family::V6), ("[2001:db8::1]:9", Family::V6)]
        {
            let end: Endpoint = text.parse::<std::net::SocketAddr>().unwrap().into();
            assert_eq!(parse(&show(end, family), family), Ok(Some(end)));
        }
    }

    #[test]
    fn short_and_foreign_addresses_are_refused() {
        let v4 = show("192.0.2.1:80".parse::<std::net::SocketAddr>().unwrap().into(), Family::V4);
        assert_eq!(parse(&v4, Family::V6), Err(Errno(libc::EAFNOSUPPORT)));
        assert_eq!(parse(&v4[..7], Family::V4), Err(Errno::INVAL));
        assert_eq!(parse(&[0; 16], Family::V4), Ok(None));
    }
}
