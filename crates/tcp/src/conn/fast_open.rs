//! TCP fast open in the connection's terms (RFC 7413): data that go with our SYN, data that came with theirs.

use ringway_wire::tcp::{FastOpen, Flags as Bits, Options};

use super::{Conn, Handshake, Owed, State};
use crate::engine::fast_open::{CLIENT, CLIENT_WITHOUT_COOKIE};
use crate::packet::Segment;

/// What fast open means to a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FastOpening {
    #[default]
    No,
    /// Our SYN asks for a cookie.
    Asks,
    /// Our SYN waits for data and takes them along, with this cookie, or none where none is needed.
    Sends { cookie: Option<FastOpen>, peer_mss: u16 },
    /// Their SYN brought data: we may answer before the handshake is over.
    Answers,
}

impl FastOpening {
    pub(super) fn is_deferred(self) -> bool {
        matches!(self, FastOpening::Sends { .. })
    }

    pub(super) fn answers_early(self) -> bool {
        self == FastOpening::Answers
    }

    /// The option for our SYN.
    pub(super) fn option(self) -> Option<FastOpen> {
        match self {
            FastOpening::Asks => Some(FastOpen::request(false)),
            FastOpening::Sends { cookie, .. } => cookie,
            FastOpening::No | FastOpening::Answers => None,
        }
    }
}

impl Conn<'_> {
    /// Whether the SYN of an active open waits for the first data.
    pub(super) fn plan_fast_open(&mut self) -> bool {
        let bits = self.shared.config.tcp_fastopen;
        if !self.cold.options.fast_open_connect || bits & CLIENT == 0 {
            return false;
        }
        let known = self.shared.fast_open.theirs(self.hot.key.remote().address);
        self.cold.fast_open = match known {
            Some((cookie, peer_mss)) => FastOpening::Sends { cookie: Some(cookie), peer_mss },
            None if bits & CLIENT_WITHOUT_COOKIE != 0 => {
                FastOpening::Sends { cookie: None, peer_mss: super::window::MSS_DEFAULT }
            }
            None => FastOpening::Asks,
        };
        self.cold.fast_open.is_deferred()
    }

    /// How many bytes go with our SYN, whose options are known.
    pub(super) fn syn_data_len(&self, options: &Options) -> u32 {
        let FastOpening::Sends { peer_mss, .. } = self.cold.fast_open else { return 0 };
        let most = usize::from(peer_mss.min(self.cold.window.advertised_mss)).saturating_sub(options.wire_len());
        if self.state() == State::SynSent { self.cold.tx.len().min(most) as u32 } else { 0 }
    }

    /// How many bytes of data the SYN can take along, while it waits for them; `None` if it does not wait.
    pub(crate) fn syn_data_room(&self) -> Option<usize> {
        let FastOpening::Sends { peer_mss, .. } = self.cold.fast_open else { return None };
        let waits = self.state() == State::SynSent && self.hot.snd_nxt == self.cold.iss && self.cold.tx.len() == 0;
        let most = usize::from(peer_mss.min(self.cold.window.advertised_mss));
        waits.then(|| most.saturating_sub(self.syn_options().wire_len()))
    }

    // RFC 7413 4.1.3: a SYN that is sent again does without, in case the path drops what it does not know.
    pub(super) fn give_up_fast_open(&mut self) {
        if self.state() == State::SynSent {
            self.cold.fast_open = FastOpening::No;
            self.hot.snd_nxt = self.cold.iss + 1;
        }
    }

    /// The SYN-ACK says how much of our SYN's data arrived; the rest is sent anew.
    pub(super) fn settle_syn_data(&mut self, segment: &Segment) {
        if let Some(cookie) = segment.options.fast_open.filter(|cookie| !cookie.is_request()) {
            let mss = segment.options.mss.unwrap_or(super::window::MSS_DEFAULT);
            self.shared.fast_open.remember(self.hot.key.remote().address, cookie, mss);
        }
        (self.hot.snd_una, self.hot.snd_nxt) = (segment.ack, segment.ack);
        self.drop_acknowledged();
    }

    /// A SYN with data and a good cookie: the connection begins in SYN-RECEIVED, its data can be read (RFC 7413 4.2.2).
    pub(crate) fn begin_fast(&mut self, handshake: Handshake, segment: &Segment) {
        self.begin_passive(handshake);
        self.cold.fast_open = FastOpening::Answers;
        self.hot.snd_wnd = u32::from(segment.window);
        self.cold.max_window = self.hot.snd_wnd;
        let (seq, flags) = (segment.seq + 1, segment.flags - Bits::SYN);
        if !segment.payload.is_empty() {
            self.receive_with_syn(&Segment { seq, flags, ..*segment });
        }
        self.hot.owed = Owed::SYN;
    }
}
