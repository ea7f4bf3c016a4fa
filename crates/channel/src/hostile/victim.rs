//! The victim's side of a hostile run, as the library uses an [`End`].

use ringway_mem::ring::{CLASS_BYTES, Epoch, Spans, Violation};
use ringway_mem::sync::Ordering::*;

use super::{PEER, VICTIM};
use crate::end::{CLOSING_ALL, End, EndPage, Path, RxSource};
use crate::layout::RingHeader;
use crate::reason::Reason;

/// Looks that one call may take: more means that the peer can keep it busy for ever.
const LOOKS_MAX: u32 = 64;

/// How a connection came to its end.
#[derive(Debug)]
pub(super) enum Ended {
    /// The peer broke the rules.
    Reset,
    /// Closed, by either side.
    Closed,
}

impl From<Violation> for Ended {
    fn from(_: Violation) -> Ended {
        Ended::Reset
    }
}

/// What the kernel holds for the victim, and what it has written: the pretended TCP connection.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) unread: u64,
    pub(super) finished: bool,
    taken: u64,
    written: u64,
}

impl Wire {
    /// Bytes that the peer has written so far.
    pub(super) fn peer_written(&self) -> u64 {
        self.taken + self.unread
    }

    fn take(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.unread);
        self.unread -= taken;
        self.taken += taken;
        taken
    }
}

pub(super) struct Victim {
    pub(super) header: Box<RingHeader>,
    page: Box<EndPage>,
    peer_page: Box<EndPage>,
    pub(super) wire: Wire,
}

/// A zeroed value of a type made of atomic integers only.
fn zeroed<T>() -> Box<T> {
    // SAFETY: used for RingHeader and EndPage, plain atomic integers for which zero is valid.
    unsafe { Box::new(std::mem::MaybeUninit::<T>::zeroed().assume_init()) }
}

/// The copy: outside the area of its class it would be the crash that must not be.
fn copy(spans: Spans, wanted: usize) -> usize {
    let area = CLASS_BYTES[spans.class];
    assert!(spans.at + spans.first <= area && spans.second <= area, "outside the area: {spans:?}");
    assert!(spans.second == 0 || spans.second <= spans.at, "onto itself: {spans:?}");
    assert!(spans.bytes() <= wanted, "{spans:?} is more than {wanted}");
    spans.bytes()
}

impl Victim {
    pub(super) fn new() -> Victim {
        let victim = Victim { header: zeroed(), page: zeroed(), peer_page: zeroed(), wire: Wire::default() };
        victim.end().declare_ready();
        victim
    }

    pub(super) fn end(&self) -> End<'_> {
        End::new(&self.header, &self.page, VICTIM)
    }

    /// The other end, held by a peer with a correct copy of its own indices.
    pub(super) fn peer(&self) -> End<'_> {
        End::new(&self.header, &self.peer_page, PEER)
    }

    pub(super) fn send(&mut self, bytes: usize, class_max: usize) -> Result<usize, Ended> {
        let end = self.end();
        match end.tx_path() {
            Path::Tcp if end.peer_is_ready() => end.switch_tx(self.wire.written),
            Path::Ring if end.demotion_wanted() => end.demote_tx(self.wire.written),
            _ => {}
        }
        if end.tx_path() != Path::Ring {
            self.wire.written += bytes as u64;
            return Ok(bytes);
        }
        let producer = end.producer();
        let mut sent = 0;
        for _ in 0..LOOKS_MAX {
            producer.make_room(bytes - sent, class_max)?;
            let spans = producer.spans(producer.free(bytes - sent)?.min(bytes - sent));
            sent += copy(spans, bytes - sent);
            producer.publish(spans.bytes(), 2);
            if spans.is_empty() || sent == bytes {
                return Ok(sent);
            }
        }
        panic!("a send that does not end");
    }

    pub(super) fn receive(&mut self, wanted: usize) -> Result<usize, Ended> {
        let mut received = 0;
        for _ in 0..LOOKS_MAX {
            if received == wanted {
                return Ok(received);
            }
            match self.receive_once(wanted - received)? {
                Some(n) => received += n,
                None if received == 0 && self.wire.finished => return Err(Ended::Closed),
                None => return Ok(received),
            }
        }
        panic!("a receive that does not end");
    }

    /// `None`: nothing there, or the end.
    fn receive_once(&mut self, wanted: usize) -> Result<Option<usize>, Ended> {
        let unread = self.wire.unread;
        match self.end().rx_source(|| unread)? {
            RxSource::Ring { limit_bytes } => {
                let wanted = wanted.min(limit_bytes.min(usize::MAX as u64) as usize);
                let consumer = self.end().consumer();
                let taken = copy(consumer.spans(wanted)?, wanted);
                consumer.consume(taken, 2);
                consumer.queued()?;
                let more = self.wire.finished && (consumer.has_news() || self.end().peer_tx_path() == Path::Demoted);
                Ok((taken > 0 || more).then_some(taken))
            }
            RxSource::Tcp { limit_bytes } => {
                let taken = self.wire.take(limit_bytes.min(wanted as u64));
                self.end().tcp_consumed(taken);
                Ok((taken > 0).then_some(taken as usize))
            }
            RxSource::Doorbells { discard_bytes } => {
                let gone = self.wire.take(discard_bytes.min(1 << 20));
                self.end().tcp_consumed(gone);
                Ok((gone > 0).then_some(0))
            }
            RxSource::TcpAgain => {
                let taken = self.wire.take(wanted as u64);
                Ok((taken > 0).then_some(taken as usize))
            }
        }
    }

    /// MSG_PEEK.
    pub(super) fn look_ahead(&mut self, wanted: usize) -> Result<(), Ended> {
        let unread = self.wire.unread;
        let RxSource::Ring { limit_bytes } = self.end().rx_source(|| unread)? else { return Ok(()) };
        let wanted = wanted.min(limit_bytes.min(usize::MAX as u64) as usize);
        let (head, mut seen) = (self.end().consumer().head(), 0);
        for _ in 0..LOOKS_MAX {
            let spans = self.end().consumer().ahead(seen, wanted - seen)?;
            seen += copy(spans, wanted - seen);
            if spans.is_empty() || seen == wanted {
                assert_eq!(self.end().consumer().head(), head, "looking took something");
                return Ok(());
            }
        }
        panic!("a look ahead that does not end");
    }

    /// What poll, ioctl and the spinning reader ask; they hold no lock and trust nothing.
    pub(super) fn poll(&self) -> Result<(), Ended> {
        let (end, consumer) = (self.end(), self.end().consumer());
        let _ = (consumer.has_news(), consumer.published(), consumer.known(), end.looks_asked());
        let _ = (end.peer_sending_cpu(), end.peer_receiving_cpu(), end.peer_closed_in_order(), end.reset_is_due());
        assert!(consumer.next_position_in_first_class() < CLASS_BYTES[0]);
        assert!(end.doorbells_among(self.wire.unread) <= self.wire.unread);
        end.producer().is_writable(3)?;
        end.producer().queued()?;
        consumer.queued()?;
        Ok(())
    }

    /// Demotes, asks for TCP, or repairs what a dead sibling left.
    pub(super) fn go_back(&self, which: u64) {
        match which {
            0 => self.end().demote_tx(self.wire.written),
            1 => self.end().ask_for_tcp(Reason::Splice),
            2 => self.end().announce_closing(crate::end::CLOSING_SENDING),
            3 => self.end().producer().repair(),
            4 => self.end().consumer().repair(),
            5 => self.end().ask_peer_to_look(),
            _ => {}
        }
    }

    pub(super) fn close(&self) -> Result<(), Ended> {
        self.end().announce_closing(CLOSING_ALL);
        Err(Ended::Closed)
    }

    /// The victim's own indices are in order.
    pub(super) fn check(&self) {
        let (tx, rx) = (&self.page.tx.ring, &self.page.rx.ring);
        let (head, seen) = (rx.head.load(Relaxed), rx.tail_seen.load(Relaxed));
        assert!(head <= seen, "head {head} beyond the tail {seen}");
        let (tail, head_seen, epoch) =
            (tx.tail.load(Relaxed), tx.head_seen.load(Relaxed), Epoch(tx.epoch.load(Relaxed)));
        assert!(head_seen <= tail && epoch.start() <= tail, "tail {tail}, head seen {head_seen}, {epoch:?}");
        assert!(tail - head_seen.max(epoch.start()) <= epoch.capacity(), "more in the ring than fits");
        if self.end().rx_path() != Path::Demoted {
            assert_eq!(self.page.rx.tcp_consumed.load(Relaxed), self.wire.taken, "TCP bytes are counted");
        }
    }
}
