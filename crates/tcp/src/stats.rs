//! Counters of an engine: what happened, by name.

use ringway_wire::Error;

macro_rules! counters {
    ($($name:ident: $text:literal;)+) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $text] $name,)+
        }

        impl Counter {
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)+];

            /// The counter's name, for tools.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$name => stringify!($name),)+ }
            }

            /// What it counts.
            pub const fn text(self) -> &'static str {
                match self { $(Counter::$name => $text,)+ }
            }
        }
    };
}

counters! {
    SegmentsIn: "segments received, whatever became of them";
    SegmentsOut: "segments sent, retransmissions included";
    Retransmitted: "segments sent again";
    Malformed: "packets that are no valid IP packet or TCP segment, bad checksums included";
    NotForUs: "packets that are neither TCP nor ICMP, and fragments";
    NoConnection: "segments for which there is neither connection nor listener";
    ResetSent: "resets sent";
    ResetReceived: "connections reset by the peer";
    ActiveOpens: "connections that we began to open";
    PassiveOpens: "connections that peers opened";
    AcceptQueueFull: "handshakes that ended while the accept queue was full";
    SynQueueFull: "SYNs that found the queue of half-open connections full";
    SynCookieSent: "SYN-ACKs sent without keeping state";
    SynCookieReceived: "connections made from a valid SYN cookie";
    SynCookieFailed: "acknowledgements that held no valid SYN cookie";
    TableFull: "connections refused because the table was full";
    NoMemory: "segments dropped because the memory budget was spent";
    OutOfWindow: "segments outside the receive window";
    WindowFull: "segments with data that found our window closed";
    Duplicate: "segments that brought nothing new";
    Early: "segments that came before their turn";
    EarlyDropped: "segments that came before their turn and found no room";
    Paws: "segments with too old a timestamp";
    NoAck: "segments without ACK where one is required";
    AckOfUnsent: "acknowledgements of what was never sent";
    Challenge: "challenge acknowledgements sent";
    RateLimited: "answers to odd segments left out, to be no amplifier";
    DataAfterClose: "connections reset because data came for an application that had closed";
    TimedOut: "connections given up for want of an answer";
    TimeWaitFull: "connections that got no TIME-WAIT, as there were too many";
    TimeWaitReused: "TIME-WAITs that a new SYN ended early";
    ReplyDropped: "answers outside connections dropped because too many waited";
    RepliesRateLimited: "resets not sent, to be no amplifier";
    Timeouts: "retransmission time-outs";
    TailProbes: "tail loss probes sent";
    FastRecoveries: "recoveries begun by duplicate acknowledgements or SACK";
    SpuriousRecoveries: "recoveries that turned out needless and were undone";
    IcmpIgnored: "ICMP errors that fit no connection or segment";
    FastOpens: "connections opened with data in the SYN";
    FastPath: "segments that took the short way";
}

/// Every counter's value.
#[derive(Clone, Debug)]
pub struct Stats {
    counters: [u64; Counter::ALL.len()],
    malformed: [u64; Error::COUNT],
}

impl Default for Stats {
    fn default() -> Stats {
        Stats { counters: [0; Counter::ALL.len()], malformed: [0; Error::COUNT] }
    }
}

impl Stats {
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// All counters with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> {
        Counter::ALL.iter().copied().zip(self.counters)
    }

    /// How many packets were refused for one cause.
    pub fn malformed(&self, cause: Error) -> u64 {
        self.malformed[cause as usize]
    }

    pub(crate) fn count_malformed(&mut self, cause: Error) {
        self.malformed[cause as usize] += 1;
    }

    #[inline]
    pub(crate) fn count(&mut self, counter: Counter) {
        self.counters[counter as usize] += 1;
    }
}
