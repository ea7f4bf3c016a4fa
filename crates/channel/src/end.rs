//! One end of an upgraded connection: what it keeps for itself, and its view of both directions.
//!
//! ```text
//!  end region (4 KiB, private to the processes that hold this end)
//!  0      identity: initialised flag, role, connection, shared flag
//!  128    tx: lock, path, indices           (send side)
//!  256    rx: lock, path, indices, TCP count (receive side)
//!  384    options that belong to the socket, not to a descriptor
//! ```

use std::mem::offset_of;

use ringway_mem::ring::{Consumer, ConsumerState, Producer, ProducerState, Violation};
use ringway_mem::sync::{AtomicU32, AtomicU64, Ordering::*};

use crate::layout::{Direction, END_REGION_BYTES, RingHeader};
use crate::reason::Reason;
use crate::rendezvous::Role;
use crate::wait::SleepWord;

/// Which way a direction's bytes travel. The number is what the shared word holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Path {
    /// Not switched yet.
    Tcp = 0,
    Ring = 1,
    /// Went back to TCP and stays there.
    Demoted = 2,
}

impl Path {
    /// A number that nobody writes reads as `Ring`, the path that trusts the word least.
    pub fn from_number(number: u32) -> Path {
        match number {
            0 => Path::Tcp,
            2 => Path::Demoted,
            _ => Path::Ring,
        }
    }
}

/// Set in [`Options::shutdown`] once this end has shut down sending.
pub const SHUT_TX: u32 = 1;
/// Set in [`Options::shutdown`] once this end has shut down receiving.
pub const SHUT_RX: u32 = 2;

/// [`Options::reset`]: the program is still to be told.
pub const RESET_DUE: u32 = 1;
/// [`Options::reset`]: the program has been told.
pub const RESET_TOLD: u32 = 2;

/// [`EndPage::initialised`]: one process fills in the page.
pub const FILLING: u32 = 1;
/// [`EndPage::initialised`]: the end is upgraded, and whoever gets its regions joins.
pub const READY: u32 = 2;
/// [`EndPage::initialised`]: the end stays on TCP for good: before anybody had upgraded it, somebody got the socket
/// who may not know what the others do.
pub const REFUSED: u32 = 3;

/// The end has shut down sending and goes on receiving.
pub const CLOSING_SENDING: u32 = 1;
/// The end has closed, with everything that it was sent consumed.
pub const CLOSING_ALL: u32 = 2;

/// [`EndPage::shared`]: processes of one fork family hold the end, and know how many they are.
pub const SHARED_FAMILY: u32 = 1;
/// [`EndPage::shared`]: somebody outside the family may hold it as well.
pub const SHARED_BEYOND: u32 = 2;

/// See the module's drawing. All zero is the state before the first attach.
#[repr(C)]
pub struct EndPage {
    /// Whether this end is upgraded, decided once: 0 is undecided, then [`FILLING`] and [`READY`], or [`REFUSED`].
    pub initialised: AtomicU32,
    /// Not 0 once more than one process may hold this end: locks need atomic operations from then on.
    /// [`SHARED_FAMILY`] or [`SHARED_BEYOND`]; only grows.
    pub shared: AtomicU32,
    pub role: AtomicU32,
    _pad: AtomicU32,
    pub connection: AtomicU64,
    pub tx: TxState,
    pub rx: RxState,
    pub options: Options,
}

/// The send side's own state; changed under `lock`.
#[repr(C, align(128))]
pub struct TxState {
    /// Robust futex word: the holder's thread id.
    pub lock: AtomicU32,
    /// [`Path`] as a number.
    pub path: AtomicU32,
    pub ring: ProducerState,
}

/// The receive side's own state; changed under `lock`.
#[repr(C, align(128))]
pub struct RxState {
    /// Robust futex word: the holder's thread id.
    pub lock: AtomicU32,
    /// [`Path`] as a number: where this end looks for the next byte.
    pub path: AtomicU32,
    /// 1 once this end has promised that all its waits know the ring.
    pub ready: AtomicU32,
    _pad: AtomicU32,
    pub ring: ConsumerState,
    /// Bytes taken from TCP since the connection began, doorbells included.
    pub tcp_consumed: AtomicU64,
}

/// Options of the socket that the ring has to honour.
#[repr(C, align(128))]
pub struct Options {
    /// O_NONBLOCK as last set through the library.
    pub nonblocking: AtomicU32,
    /// [`SHUT_TX`] and [`SHUT_RX`].
    pub shutdown: AtomicU32,
    /// 1 once the kernel has shown the peer's FIN or a reset.
    pub peer_finished: AtomicU32,
    /// A reset that the kernel has not seen, or not any more: [`RESET_DUE`] or [`RESET_TOLD`].
    pub reset: AtomicU32,
    /// SO_RCVLOWAT, at least 1.
    pub receive_low_water_bytes: AtomicU32,
    /// SO_RCVTIMEO; 0 = none.
    pub receive_timeout_us: AtomicU64,
    /// SO_SNDTIMEO; 0 = none.
    pub send_timeout_us: AtomicU64,
    /// Largest class that the outgoing ring may grow to.
    pub tx_class_max: AtomicU32,
    /// The program's TCP_NODELAY (the kernel socket itself always has it, for the doorbells).
    pub nodelay: AtomicU32,
    /// [`Reason`] number of this end's own wish to go back to TCP; 0 = none.
    pub demoted_because: AtomicU32,
    /// 1 once nobody may join any more: the program has dissolved the connection (the socket may have another one by now),
    /// or left it to a program that knows the kernel's stream alone.
    pub dissolved: AtomicU32,
}

const _: () = {
    assert!(size_of::<EndPage>() <= END_REGION_BYTES);
    assert!(offset_of!(EndPage, tx) == 128 && offset_of!(EndPage, rx) == 256 && offset_of!(EndPage, options) == 384);
};

/// Where the next byte of the stream is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxSource {
    /// On TCP, and at most this many bytes of it are data.
    Tcp { limit_bytes: u64 },
    /// In the ring, and at most this many bytes before the sender went back to TCP.
    Ring { limit_bytes: u64 },
    /// On TCP behind this many doorbell bytes, which must be thrown away first.
    Doorbells { discard_bytes: u64 },
    /// On TCP, for good.
    TcpAgain,
}

/// A view of one end for the length of a call.
#[derive(Clone, Copy)]
pub struct End<'a> {
    pub page: &'a EndPage,
    outgoing: &'a Direction,
    incoming: &'a Direction,
}

impl<'a> End<'a> {
    pub fn new(header: &'a RingHeader, page: &'a EndPage, role: Role) -> End<'a> {
        let (out, inc) = match role {
            Role::A => (0, 1),
            Role::B => (1, 0),
        };
        End { page, outgoing: &header.directions[out], incoming: &header.directions[inc] }
    }

    #[inline]
    pub fn producer(&self) -> Producer<'a> {
        Producer::new(&self.outgoing.producer, &self.outgoing.consumer, &self.page.tx.ring)
    }

    #[inline]
    pub fn consumer(&self) -> Consumer<'a> {
        Consumer::new(&self.incoming.consumer, &self.incoming.producer, &self.page.rx.ring)
    }

    /// The peer's count of the bytes that it has published: all that has to be looked at to see that no more have come.
    pub fn peer_tail(&self) -> &'a AtomicU64 {
        &self.incoming.producer.tail
    }

    /// The word of the peer that sleeps until this end sends.
    #[inline]
    pub fn peer_receiver(&self) -> SleepWord<'a> {
        SleepWord(&self.outgoing.wait.receiver)
    }

    /// The word of the peer that sleeps until this end makes room.
    #[inline]
    pub fn peer_sender(&self) -> SleepWord<'a> {
        SleepWord(&self.incoming.wait.sender)
    }

    /// This end's word for waiting until bytes arrive.
    #[inline]
    pub fn own_receiver(&self) -> SleepWord<'a> {
        SleepWord(&self.incoming.wait.receiver)
    }

    /// This end's word for waiting until there is room.
    #[inline]
    pub fn own_sender(&self) -> SleepWord<'a> {
        SleepWord(&self.outgoing.wait.sender)
    }

    /// CPU that the peer last sent from, if known. Only a hint: the peer writes it.
    pub fn peer_sending_cpu(&self) -> Option<u32> {
        self.incoming.producer.cpu.load(Relaxed).checked_sub(1)
    }

    /// CPU that the peer last received on, if known. Only a hint.
    pub fn peer_receiving_cpu(&self) -> Option<u32> {
        self.outgoing.consumer.cpu.load(Relaxed).checked_sub(1)
    }

    /// Tells the peer to look at its kernel socket (something happened there that it may sleep through).
    pub fn ask_peer_to_look(&self) {
        self.outgoing.wait.look.fetch_add(1, Release);
    }

    /// Says, before the FIN, how this end is closing.
    pub fn announce_closing(&self, how: u32) {
        self.outgoing.wait.closing.fetch_max(how, Release);
    }

    /// How the peer has said that it is closing; 0 if it has not.
    pub fn peer_closing(&self) -> u32 {
        self.incoming.wait.closing.load(Acquire)
    }

    /// Whether the peer has said that it closes in order, and nothing was sent to it by TCP since: then a
    /// reset in the kernel only comes from a doorbell that was too late.
    pub fn peer_closed_in_order(&self) -> bool {
        self.peer_closing() == CLOSING_ALL && self.tx_path() != Path::Demoted
    }

    /// Whether the program is to be told of a reset: the kernel's, if that was met by a doorbell, or what the
    /// kernel would answer to a peer that ended without a word while bytes of ours lay unread.
    pub fn reset_is_due(&self) -> bool {
        match self.page.options.reset.load(Relaxed) {
            RESET_TOLD => false,
            RESET_DUE => true,
            _ => {
                self.peer_closing() == 0
                    && self.tx_path() == Path::Ring
                    && self.producer().queued().is_ok_and(|n| n > 0)
            }
        }
    }

    /// The program learns of a reset, which shows once only.
    pub fn reset_told(&self) {
        self.page.options.reset.store(RESET_TOLD, Relaxed);
    }

    /// A doorbell met the kernel's reset, which shows once only.
    pub fn owe_reset(&self) {
        let _ = self.page.options.reset.compare_exchange(0, RESET_DUE, Relaxed, Relaxed);
    }

    /// Grows whenever the peer wants this end to look at its kernel socket.
    #[inline]
    pub fn looks_asked(&self) -> u32 {
        self.incoming.wait.look.load(Relaxed)
    }

    // ---- sending -----------------------------------------------------------------------------

    #[inline]
    pub fn tx_path(&self) -> Path {
        Path::from_number(self.page.tx.path.load(Relaxed))
    }

    /// Whether the peer's every wait knows the ring, so that sending may switch to it.
    pub fn peer_is_ready(&self) -> bool {
        self.outgoing.switch.receiver_ready.load(Acquire) == 1
    }

    /// Switches sending from TCP to the ring. `tcp_written` is the number of bytes that this end has
    /// ever written to TCP; the caller holds the send lock and nobody writes to TCP meanwhile.
    pub fn switch_tx(&self, tcp_written: u64) {
        self.outgoing.switch.ring_begins_at.store(tcp_written, Relaxed);
        self.outgoing.switch.path.store(Path::Ring as u32, Release);
        self.page.tx.path.store(Path::Ring as u32, Relaxed);
    }

    /// Switches sending back to TCP for good. `tcp_written` counts doorbells too; same conditions.
    pub fn demote_tx(&self, tcp_written: u64) {
        let switch = &self.outgoing.switch;
        if self.tx_path() == Path::Tcp {
            switch.ring_begins_at.store(tcp_written, Relaxed);
        }
        switch.ring_ends_at.store(self.producer().tail(), Relaxed);
        switch.tcp_resumes_at.store(tcp_written, Relaxed);
        switch.path.store(Path::Demoted as u32, Release);
        self.page.tx.path.store(Path::Demoted as u32, Relaxed);
    }

    /// Whether the peer wants this end's bytes on TCP again (and the peer's reason).
    #[inline]
    pub fn demotion_wanted(&self) -> bool {
        self.outgoing.switch.demote_please.load(Relaxed) != 0
    }

    // ---- receiving ---------------------------------------------------------------------------

    /// Promises that from now on every wait of this end knows the ring.
    pub fn declare_ready(&self) {
        self.incoming.switch.receiver_ready.store(1, Release);
    }

    /// Asks the peer to send by TCP again, for `reason`.
    pub fn ask_for_tcp(&self, reason: Reason) {
        self.incoming.switch.demote_please.store(reason as u32, Release);
    }

    /// Whether the peer's sending has gone back to TCP: its doorbells are silent then.
    #[inline]
    pub fn peer_tx_path(&self) -> Path {
        Path::from_number(self.incoming.switch.path.load(Acquire))
    }

    /// Whether this end reads the ring now, as far as it knows without looking further.
    #[inline]
    pub fn rx_path(&self) -> Path {
        Path::from_number(self.page.rx.path.load(Relaxed))
    }

    /// How many of the `received` bytes that TCP has brought, asked before this call, are data of before the switch.
    pub fn data_among(&self, received: u64) -> u64 {
        match self.peer_tx_path() {
            Path::Tcp => received,
            _ => received.min(self.incoming.switch.ring_begins_at.load(Relaxed)),
        }
    }

    /// Where the next byte is. The caller holds the receive lock. `tcp_unread` is what the kernel
    /// holds unread (SIOCINQ), asked *before* this call: as long as the sender has not switched, just
    /// those bytes are surely data and no doorbells.
    #[inline]
    pub fn rx_source(&self, tcp_unread: impl FnOnce() -> u64) -> Result<RxSource, Violation> {
        if self.rx_path() == Path::Ring && self.peer_tx_path() != Path::Demoted {
            return Ok(RxSource::Ring { limit_bytes: u64::MAX });
        }
        self.rx_source_between(tcp_unread)
    }

    /// As `rx_source`, where the direction is about to move between TCP and the ring.
    #[cold]
    fn rx_source_between(&self, tcp_unread: impl FnOnce() -> u64) -> Result<RxSource, Violation> {
        match self.rx_path() {
            Path::Demoted => return Ok(RxSource::TcpAgain),
            Path::Ring => return self.ring_source(),
            Path::Tcp => {}
        }
        let unread = tcp_unread();
        let consumed = self.page.rx.tcp_consumed.load(Relaxed);
        if self.peer_tx_path() == Path::Tcp {
            return Ok(RxSource::Tcp { limit_bytes: unread });
        }
        let switch = &self.incoming.switch;
        let begins_at = switch.ring_begins_at.load(Relaxed);
        // Gone back without ever having used the ring, maybe long before this end was ready: TCP has everything.
        if self.peer_tx_path() == Path::Demoted
            && switch.ring_ends_at.load(Relaxed) == 0
            && switch.tcp_resumes_at.load(Relaxed) == begins_at
        {
            self.stay_on_tcp();
            return Ok(RxSource::TcpAgain);
        }
        if begins_at < consumed {
            return Err(Violation::Tail { head: consumed, tail: begins_at });
        }
        if begins_at > consumed {
            return Ok(RxSource::Tcp { limit_bytes: begins_at - consumed });
        }
        self.page.rx.path.store(Path::Ring as u32, Relaxed);
        self.ring_source()
    }

    fn ring_source(&self) -> Result<RxSource, Violation> {
        let switch = &self.incoming.switch;
        if Path::from_number(switch.path.load(Acquire)) != Path::Demoted {
            return Ok(RxSource::Ring { limit_bytes: u64::MAX });
        }
        let (head, ends_at) = (self.consumer().head(), switch.ring_ends_at.load(Relaxed));
        // The sender published everything before it went back; without that, this end would look for
        // the missing bytes for ever.
        if ends_at != self.consumer().refresh()? {
            return Err(Violation::Tail { head, tail: ends_at });
        }
        if ends_at > head {
            return Ok(RxSource::Ring { limit_bytes: ends_at - head });
        }
        let (consumed, resumes_at) = (self.page.rx.tcp_consumed.load(Relaxed), switch.tcp_resumes_at.load(Relaxed));
        if resumes_at > consumed {
            return Ok(RxSource::Doorbells { discard_bytes: resumes_at - consumed });
        }
        self.stay_on_tcp();
        Ok(RxSource::TcpAgain)
    }

    /// Whether the ring has the next byte, as far as the shared words say: before a switch, TCP may owe
    /// bytes that come first. Needs no lock and proves nothing.
    pub fn ring_is_next(&self) -> bool {
        match self.rx_path() {
            Path::Ring => true,
            Path::Demoted => false,
            Path::Tcp => {
                let begins_at = &self.incoming.switch.ring_begins_at;
                self.peer_tx_path() != Path::Tcp && begins_at.load(Relaxed) <= self.page.rx.tcp_consumed.load(Relaxed)
            }
        }
    }

    /// The peer has sent what no ring carries and stays on TCP: so does this direction. Receive lock held.
    pub fn stay_on_tcp(&self) {
        self.page.rx.path.store(Path::Demoted as u32, Relaxed);
    }

    /// Counts bytes taken from TCP (data or doorbells) while the receive lock is held.
    pub fn tcp_consumed(&self, bytes: u64) {
        let counter = &self.page.rx.tcp_consumed;
        counter.store(counter.load(Relaxed) + bytes, Relaxed);
    }

    /// How many of `unread` bytes (SIOCINQ, asked before) may be thrown away as doorbells while this
    /// end reads the ring: all, unless the sender has gone back to TCP. Receive lock held.
    pub fn doorbells_among(&self, unread: u64) -> u64 {
        if self.rx_path() != Path::Ring {
            return 0;
        }
        if self.peer_tx_path() != Path::Demoted {
            return unread;
        }
        let resumes_at = self.incoming.switch.tcp_resumes_at.load(Relaxed);
        unread.min(resumes_at.saturating_sub(self.page.rx.tcp_consumed.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests;
