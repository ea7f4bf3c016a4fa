//! Why packets were dropped, each reason counted by itself.

use ringway_wire::Error;

macro_rules! reasons {
    ($($name:ident: $text:literal;)+) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum DropReason {
            $(#[doc = $text] $name,)+
        }

        impl DropReason {
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name,)+];

            /// What it means, for people.
            pub const fn text(self) -> &'static str {
                match self { $(DropReason::$name => $text,)+ }
            }
        }
    };
}

reasons! {
    Malformed: "no valid packet";
    OtherStation: "a frame for another station";
    Tagged: "a frame with a VLAN tag";
    EtherType: "a frame of an unknown type";
    OtherAddress: "an IP packet to another address";
    Broadcast: "an IP packet to many that only one can answer";
    Martian: "an IP packet from an address that no station can have, or from ours";
    Protocol: "an IP packet of an unknown protocol";
    Port: "a datagram to a port that nobody has";
    Fragment: "a fragment that cannot be used";
    Expired: "a datagram whose fragments did not all come in time";
    Icmp: "an ICMP message that asks nothing of us";
    AnswerLimit: "an answer left out, to be no amplifier";
    AnswerTooLong: "an echo that is longer than a packet can be";
    OutboxFull: "an answer that found too many waiting to be sent";
    NoRoute: "a packet to a network that no gateway leads to";
    Unresolved: "a packet to a neighbour that does not answer";
    ResolveQueueFull: "a packet to a neighbour that many already wait for";
}

/// What came, went and was dropped.
#[derive(Clone, Debug)]
pub struct Counters {
    pub frames_in: u64,
    pub frames_out: u64,
    drops: [u64; DropReason::ALL.len()],
    malformed: [u64; Error::COUNT],
}

impl Default for Counters {
    fn default() -> Counters {
        Counters { frames_in: 0, frames_out: 0, drops: [0; DropReason::ALL.len()], malformed: [0; Error::COUNT] }
    }
}

impl Counters {
    /// Packets dropped for one reason.
    pub fn dropped(&self, why: DropReason) -> u64 {
        self.drops[why as usize]
    }

    /// Packets that were no valid ones for one cause.
    pub fn malformed(&self, cause: Error) -> u64 {
        self.malformed[cause as usize]
    }

    /// All reasons for which packets were dropped, with their number.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.iter().copied().zip(self.drops).filter(|(_, n)| *n > 0)
    }

    pub(crate) fn count(&mut self, why: DropReason) {
        self.drops[why as usize] += 1;
    }

    pub(crate) fn count_malformed(&mut self, cause: Error) {
        self.malformed[cause as usize] += 1;
        self.count(DropReason::Malformed);
    }
}
