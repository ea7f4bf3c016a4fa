//! Address prefixes of both families, with the bit arithmetic that the table needs.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::arena::Entry;

/// An address as a number, most significant bit first: `u32` for IPv4, `u128` for IPv6.
pub trait Address: Copy + Ord + Default + fmt::Debug {
    /// Length of an address, in bits.
    const BITS: u32;
    /// How many bits one level of ranges resolves behind the direct table.
    const LEVEL_BITS: u32;
    /// A range as it lies in memory.
    type Entry: Entry;

    /// The first `len` bits, the others zero.
    fn masked(self, len: u32) -> Self;
    /// All but the first `len` bits, those zero.
    fn unmasked(self, len: u32) -> Self;
    /// The bits that either has.
    fn or(self, other: Self) -> Self;
    /// `count` bits (at most 32) behind the first `from`, as a number.
    fn bits(self, from: u32, count: u32) -> u32;
    /// The address whose first `count` bits are `value` and whose others are zero.
    fn from_top(value: u32, count: u32) -> Self;
    /// How many leading bits `self` and `other` share.
    fn common_bits(self, other: Self) -> u32;
    /// In the family's usual notation.
    fn display(self) -> String;
    /// Reads the family's usual notation.
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! address {
    ($number:ty, $text:ty, $level_bits:expr, $entry:ty) => {
        impl Address for $number {
            const BITS: u32 = <$number>::BITS;
            const LEVEL_BITS: u32 = $level_bits;
            type Entry = $entry;

            fn masked(self, len: u32) -> Self {
                if len == 0 { 0 } else { self & <$number>::MAX << (Self::BITS - len) }
            }

            fn unmasked(self, len: u32) -> Self {
                self ^ self.masked(len)
            }

            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline]
            fn bits(self, from: u32, count: u32) -> u32 {
                ((self << from) >> (Self::BITS - count)) as u32
            }

            fn from_top(value: u32, count: u32) -> Self {
                (value as $number) << (Self::BITS - count)
            }

            fn common_bits(self, other: Self) -> u32 {
                (self ^ other).leading_zeros()
            }

            fn display(self) -> String {
                <$text>::from(self).to_string()
            }

            fn parse(text: &str) -> Option<Self> {
                <$text>::from_str(text).ok().map(Self::from)
            }
        }
    };
}

address!(u32, Ipv4Addr, 16, u32);
address!(u128, Ipv6Addr, 32, u64);

/// Why something is no prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// Not `ADDRESS/LENGTH` in this family's notation.
    Syntax { text: String },
    /// The length exceeds the address's.
    TooLong { len: u32, max: u32 },
    /// Bits behind the prefix are set, which is more often a slip than meant.
    HostBits { text: String, network: String },
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { text } => write!(f, "`{text}` is no prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8"),
            Self::TooLong { len, max } => write!(f, "prefix length {len} exceeds {max}"),
            Self::HostBits { text, network } => write!(f, "`{text}` has bits set behind its length; write {network}"),
        }
    }
}

impl std::error::Error for PrefixError {}

/// The addresses that share their first `len` bits. Ordered by address, shorter before longer: a prefix
/// comes before all that lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix<A> {
    address: A,
    len: u8,
}

impl<A: Address> Prefix<A> {
    /// # Errors
    /// A length beyond the address, or bits that are set behind it.
    pub fn new(address: A, len: u32) -> Result<Self, PrefixError> {
        if len > A::BITS {
            return Err(PrefixError::TooLong { len, max: A::BITS });
        }
        let network = address.masked(len);
        if network != address {
            let text = |a: A| format!("{}/{len}", a.display());
            return Err(PrefixError::HostBits { text: text(address), network: text(network) });
        }
        Ok(Prefix { address, len: len as u8 })
    }

    /// The prefix of `len` bits (at most the address's) that holds `address`.
    pub fn of(address: A, len: u32) -> Self {
        let len = len.min(A::BITS);
        Prefix { address: address.masked(len), len: len as u8 }
    }

    /// A position in the order of prefixes, for searches; unlike a prefix it may have bits behind its length.
    pub(super) fn position(address: A, len: u32) -> Self {
        Prefix { address, len: len as u8 }
    }

    /// Its first address.
    pub fn address(self) -> A {
        self.address
    }

    /// Its length, in bits.
    pub fn length(self) -> u32 {
        self.len.into()
    }

    /// Whether it is the default route, which holds every address.
    pub fn is_default(self) -> bool {
        self.len == 0
    }

    /// The address of this prefix whose bits behind the prefix are those of `host`.
    pub fn with_host(self, host: A) -> A {
        self.address.or(host.unmasked(self.length()))
    }

    pub fn contains(self, address: A) -> bool {
        self.address.common_bits(address) >= self.length()
    }
}

impl<A: Address> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address.display(), self.len)
    }
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = PrefixError;

    /// `10.0.0.0/8`, `2001:db8::/32`; an address alone is a prefix of its full length.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let syntax = || PrefixError::Syntax { text: text.to_owned() };
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, len.parse().map_err(|_| syntax())?),
            None => (text, A::BITS),
        };
        Prefix::new(A::parse(address).ok_or_else(syntax)?, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation_is_read_and_written() {
        let v4: Prefix<u32> = "10.1.0.0/16".parse().unwrap();
        assert_eq!((v4.address(), v4.length(), v4.to_string().as_str()), (0x0a01_0000, 16, "10.1.0.0/16"));
        let v6: Prefix<u128> = "2001:db8::/32".parse().unwrap();
        assert_eq!((v6.address() >> 96, v6.to_string().as_str()), (0x2001_0db8, "2001:db8::/32"));
        assert_eq!("10.0.0.1".parse::<Prefix<u32>>().unwrap().length(), 32);
        assert!("0.0.0.0/0".parse::<Prefix<u32>>().unwrap().contains(u32::MAX));
    }

    #[test]
    fn what_is_no_prefix_says_why() {
        let error = |text: &str| text.parse::<Prefix<u32>>().unwrap_err().to_string();
        assert_eq!(error("10.0.0/8"), "`10.0.0/8` is no prefix; write ADDRESS/LENGTH, such as 10.0.0.0/8");
        assert_eq!(error("10.0.0.0/33"), "prefix length 33 exceeds 32");
        assert_eq!(error("10.1.2.3/8"), "`10.1.2.3/8` has bits set behind its length; write 10.0.0.0/8");
    }

    #[test]
    fn bits_are_counted_from_the_top() {
        assert_eq!(0x1234_5678_u32.bits(0, 16), 0x1234);
        assert_eq!(0x1234_5678_u32.bits(20, 12), 0x678);
        assert_eq!(u128::from_top(0x20010, 20).bits(0, 32), 0x2001_0000);
        assert_eq!((u128::MAX - 1).bits(116, 12), 0xffe);
    }
}
