//! The application's side: giving data, taking data, and what the connection is ready for.

use super::{Conn, Flags, Owed, State};
use crate::error::{Error, Result};
use crate::event::Ready;
use crate::options::{ReceiveFlags, SendFlags};

impl Conn<'_> {
    /// Something the application should know.
    pub(crate) fn tell(&mut self, ready: Ready) {
        self.hot.news |= ready;
        let told = self.hot.flags.contains(Flags::IN_EVENT_LIST) || self.cold.waits_for_accept;
        if !told && self.hot.flags.contains(Flags::OPEN) {
            self.hot.flags |= Flags::IN_EVENT_LIST;
            self.shared.event_list.push_back(self.hot.index);
        }
    }

    /// Linux's `tcp_poll`.
    pub(crate) fn readiness(&self) -> Ready {
        let flags = self.hot.flags;
        let ended = flags.intersects(Flags::FIN_RECEIVED | Flags::READ_SHUTDOWN | Flags::DONE);
        let sends_no_more = flags.intersects(Flags::FIN_QUEUED | Flags::DONE);
        let mut ready = Ready::empty();
        ready.set(Ready::READABLE, self.unread() > 0 || ended);
        ready.set(Ready::READ_HANGUP, ended);
        ready.set(Ready::HANGUP, ended && sends_no_more || self.state() == State::Closed);
        ready.set(Ready::URGENT, self.has_urgent());
        ready.set(Ready::ERROR, self.cold.error.is_some());
        let opening = matches!(self.state(), State::SynSent | State::SynReceived);
        ready.set(Ready::WRITABLE, !opening && (sends_no_more || self.is_writable()));
        ready
    }

    /// Bytes that the send buffer may hold.
    fn send_capacity(&self) -> usize {
        let sizes = self.shared.config.tcp_wmem;
        self.cold.options.send_buffer_bytes.unwrap_or(sizes.max).max(sizes.min) as usize
    }

    /// Linux's `sk_stream_is_writeable`: a third of the buffer is free, and not too much is unsent.
    pub(super) fn is_writable(&self) -> bool {
        let unsent = (self.hot.write_seq - self.hot.snd_nxt).max(0) as u32;
        let low = self.cold.options.notsent_lowat_bytes.unwrap_or(self.shared.config.tcp_notsent_lowat);
        let capacity = self.send_capacity();
        self.cold.tx.len() <= capacity - capacity / 3 && unsent < low
    }

    pub(crate) fn send(&mut self, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        if let Some(error) = self.cold.error.take() {
            return Err(error);
        }
        if self.hot.flags.intersects(Flags::FIN_QUEUED | Flags::DONE) || !self.state().takes_data() {
            return Err(Error::BrokenPipe);
        }
        let room = self.send_capacity().saturating_sub(self.cold.tx.len());
        let mut taken = bytes.len().min(room);
        if !self.cold.tx.reserve(self.cold.tx.len() + taken, &mut self.shared.pool) {
            // The budget is spent: what fits into the storage that is there.
            taken = taken.min(self.cold.tx.capacity() - self.cold.tx.len());
        }
        if taken == 0 && !bytes.is_empty() {
            self.hot.flags |= Flags::SEND_BLOCKED;
            return Err(Error::WouldBlock);
        }
        if taken < bytes.len() {
            self.hot.flags |= Flags::SEND_BLOCKED;
        }
        // Linux (`tcp_skb_entail`): a write ends an idle time; what is sent again or probes does not.
        self.before_sending();
        let before = self.hot.write_seq;
        self.cold.tx.push(&bytes[..taken]);
        self.hot.write_seq += taken as u32;
        if flags.contains(SendFlags::URGENT) && taken == bytes.len() {
            self.cold.urgent_sent = Some(self.hot.write_seq);
        }
        self.cold.more_follows = flags.contains(SendFlags::MORE);
        self.cold.let_go = false;
        // Linux (`tcp_sendmsg_locked`): who must wait for room pushes what there is.
        self.push_written(before, self.cold.more_follows && taken == bytes.len());
        if self.state() != State::SynSent {
            self.owe(Owed::DATA);
        } else if self.cold.fast_open.is_deferred() {
            self.owe(Owed::SYN);
        }
        Ok(taken)
    }

    pub(crate) fn recv(&mut self, out: &mut [u8], flags: ReceiveFlags) -> Result<usize> {
        if flags.contains(ReceiveFlags::URGENT) {
            return self.receive_urgent(out, flags.contains(ReceiveFlags::PEEK));
        }
        let most = self.before_mark(out.len());
        if self.unread() == 0 {
            return self.nothing_to_read(out.is_empty());
        }
        let bytes = self.cold.rx.copy_to(0, &mut out[..most]);
        if !flags.contains(ReceiveFlags::PEEK) {
            self.take(bytes);
        }
        Ok(bytes)
    }

    fn nothing_to_read(&mut self, asked_for_nothing: bool) -> Result<usize> {
        let flags = self.hot.flags;
        if flags.intersects(Flags::FIN_RECEIVED | Flags::READ_SHUTDOWN) || asked_for_nothing {
            return Ok(0);
        }
        if let Some(error) = self.cold.error.take() {
            return Err(error);
        }
        match self.state() {
            State::Closed => Ok(0),
            _ => Err(Error::WouldBlock),
        }
    }

    pub(crate) fn consume(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.cold.rx.len() {
            return Err(Error::Invalid);
        }
        self.take(bytes);
        Ok(())
    }

    fn take(&mut self, bytes: usize) {
        self.cold.rx.consume(bytes);
        self.hot.copied += bytes as u32;
        if self.cold.rx.len() == 0 && self.early_end().is_none() {
            self.cold.rx.release(&mut self.shared.pool);
        }
        self.after_read();
    }

    /// Lets go what was held back as too small (Linux: `TCP_NAGLE_PUSH`).
    pub(crate) fn let_go(&mut self) {
        (self.cold.let_go, self.cold.more_follows) = (true, false);
        self.owe(Owed::DATA);
    }

    /// The application changed an option: what was held back may go, timers may begin or end.
    pub(crate) fn options_changed(&mut self) {
        self.owe(Owed::DATA);
        if self.state() == State::FinWait2 && !self.hot.flags.contains(Flags::OPEN) {
            return;
        }
        if self.cold.options.keepalive {
            self.restart_keepalive();
        } else {
            self.cold.timers.stop(super::Timer::Keepalive);
        }
    }
}
