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
    Ipv6ExtensionTruncated: "the IPv6 packet ends within an extension header",
    Ipv6ExtensionsTooMany: "the IPv6 packet has more than 8 extension headers",
    Ipv6HopByHopMisplaced: "an IPv6 hop-by-hop header is not the first one",
    Ipv6Option: "an IPv6 option goes beyond its extension header",
    Ipv6OptionsTooMany: "an IPv6 extension header has more than 8 options",
    Ipv6UnknownOption: "an IPv6 option is unknown and forbids to pass over it",
    Ipv6RoutingHeader: "an IPv6 routing header of an unknown type has segments left",

    FragmentLength: "a fragment is empty, or not the last and no multiple of 8 bytes long",
    FragmentTooLong: "a fragment goes beyond the longest datagram",
    FragmentDuplicate: "a fragment has come before; it is passed over",
    FragmentOverlap: "fragments of one datagram overlap or disagree about its end; it is given up",
    FragmentEcn: "fragments of one datagram disagree whether ECN is spoken; it is given up",
    FragmentsTooMany: "the datagram has more fragments than are kept; it is given up",
    ReassemblyDatagrams: "as many datagrams as are allowed are being put together",
    ReassemblyBytes: "as many bytes of fragments as are allowed are being kept",

    TcpTruncated: "the TCP segment is shorter than a header",
    TcpDataOffset: "the TCP data offset is below 20 bytes or beyond the segment",
    TcpChecksum: "the TCP checksum is wrong",
    TcpPort: "a TCP port is zero",
    TcpOptionsTooLong: "the TCP options need more than 40 bytes",

    UdpTruncated: "the UDP datagram is shorter than its header",
    UdpLength: "the UDP length is below 8 bytes or beyond the bytes received",
    UdpChecksum: "the UDP checksum is wrong",
    UdpChecksumMissing: "the UDP datagram over IPv6 has no checksum",
    UdpPort: "the UDP destination port is zero",

    ArpTruncated: "the ARP packet is shorter than one for Ethernet and IPv4",
    ArpFormat: "the ARP packet is not for Ethernet and IPv4",
    ArpOperation: "the ARP operation is neither request nor reply",
    ArpAddress: "the ARP sender's hardware address is no station's",

    IcmpTruncated: "the ICMP message is shorter than its header",
    IcmpChecksum: "the ICMP checksum is wrong",
    IcmpType: "the ICMP message's type is not known",
    IcmpQuoteTruncated: "the packet that an ICMP error quotes is too short to tell what it belongs to",

    NdTruncated: "the neighbor discovery message is shorter than its kind",
    NdHopLimit: "the hop limit of a neighbor discovery message is not 255",
    NdCode: "the code of a neighbor discovery message is not 0",
    NdTarget: "the target of a neighbor discovery message is a multicast address",
    NdOption: "a neighbor discovery option is empty or goes beyond the message",

    VirtioTruncated: "the buffer is shorter than a virtio-net header",
    VirtioGso: "the virtio-net header asks for segmentation that is unknown or has no size",
    VirtioChecksum: "the virtio-net header's checksum lies beyond the packet",
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
