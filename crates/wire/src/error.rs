//! Why bytes are refused: one value for each cause, so that causes can be counted.

use core::fmt;

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident: $text:literal,)+) => {
        /// Why bytes are no packet of a kind, or why a packet cannot be written. One cause each; `error as usize`
        /// indexes an array of [`Error::COUNT`] counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Error {
            $($(#[$doc])* #[doc = $text] $name,)+
        }

        impl Error {
            /// All causes, in the order of their numbers.
            pub const ALL: &'static [Error] = &[$(Error::$name,)+];
            /// How many causes there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The cause's name, for counters.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Error::$name => stringify!($name),)+
                }
            }

            const fn text(self) -> &'static str {
                match self {
                    $(Error::$name => $text,)+
                }
            }
        }
    };
}

causes! {
    BufferTooShort: "the buffer is too short for what is to be written",
    PayloadTooLong: "the payload is longer than the length field can say",

    EthernetTruncated: "the frame is shorter than an Ethernet header",
    EthernetLength: "the Ethernet type is an 802.3 length",
    VlanTruncated: "the frame ends within its VLAN tag",

    Ipv4Truncated: "the IPv4 packet is shorter than a header",
    Ipv4Version: "the version of an IPv4 packet is not 4",
    Ipv4HeaderLength: "the IPv4 header length is below 20 bytes or beyond the total length",
    Ipv4TotalLength: "the IPv4 total length is below the header's or beyond the bytes received",
    Ipv4Checksum: "the IPv4 header checksum is wrong",
    Ipv4Option: "an IPv4 option has an impossible length",
    Ipv4SourceRoute: "the IPv4 packet asks for source routing",

    Ipv6Truncated: "the IPv6 packet is shorter than a header",
    Ipv6Version: "the version of an IPv6 packet is not 6",
    Ipv6PayloadLength: "the IPv6 payload length is beyond the bytes received",

    TcpTruncated: "the TCP segment is shorter than a header",
    TcpDataOffset: "the TCP data offset is below 20 bytes or beyond the segment",
    TcpChecksum: "the TCP checksum is wrong",
    TcpPort: "a TCP port is zero",
    TcpOptionsTooLong: "the TCP options need more than 40 bytes",
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_index_the_table() {
        assert!(Error::ALL.iter().enumerate().all(|(n, e)| *e as usize == n));
        assert_eq!(Error::TcpChecksum.name(), "TcpChecksum");
    }
}
