//! How a connection ends: in order, by reset, by time-out; and what is left behind.

use ringway_wire::tcp::{Flags as Bits, Repr};

use super::{Conn, Flags, Owed, State, Timer};
use crate::engine::Reply;
use crate::error::Error;
use crate::event::Ready;
use crate::options::Shutdown;

impl Conn<'_> {
    /// The application ends one or both directions.
    pub(crate) fn shutdown(&mut self, how: Shutdown) {
        if how != Shutdown::Send {
            self.hot.flags |= Flags::READ_SHUTDOWN;
            self.tell(Ready::READABLE | Ready::READ_HANGUP);
        }
        if how != Shutdown::Receive {
            self.end_sending();
        }
    }

    /// The application lets go of the connection; what it has sent is still delivered.
    pub(crate) fn close(&mut self) {
        let unread = self.cold.rx.len() > 0;
        self.hot.flags -= Flags::OPEN;
        self.cold.rx.release(&mut self.shared.pool);
        self.forget_early();
        match self.state() {
            State::SynSent => self.finish(),
            // RFC 9293 3.6.1 (MUST-19, SHLD-3): "If such a host issues a CLOSE call while received data is still pending
            // in TCP... its TCP SHOULD send a RST to show that data was lost."
            _ if unread && !self.hot.flags.contains(Flags::DONE) => self.abort(),
            _ if self.cold.options.linger_s == Some(0) && !self.hot.flags.contains(Flags::DONE) => self.abort(),
            State::FinWait2 => self.await_fin_alone(),
            _ => self.end_sending(),
        }
    }

    /// The application gives the connection up.
    pub(crate) fn abort(&mut self) {
        // RFC 9293 3.10.5: a reset where the peer knows of the connection, and nothing where it does not.
        match self.state() {
            State::Closed | State::SynSent | State::Listen | State::TimeWait => {}
            _ => self.send_reset(),
        }
        self.finish();
    }

    /// "<SEQ=SND.NXT><CTL=RST>" (RFC 9293 3.10.5), with ACK as Linux sends it. It leaves even though the connection
    /// ends now.
    pub(super) fn send_reset(&mut self) {
        let header = Repr { flags: Bits::RST | Bits::ACK, window: 0, ..self.header() };
        self.shared.reply(Reply { key: self.hot.key, header, traffic_class: self.cold.options.traffic_class });
    }

    /// No more data from the application: FIN follows what it gave us.
    fn end_sending(&mut self) {
        if self.hot.flags.contains(Flags::FIN_QUEUED) {
            return;
        }
        match self.state() {
            // RFC 9293 3.10.4: "SYN-RECEIVED STATE: If no SENDs have been issued... then form a FIN segment and send
            // it, and enter FIN-WAIT-1 state"; it goes out when the handshake is over.
            State::SynReceived => {}
            State::SynSent => return self.finish(),
            // "ESTABLISHED STATE: ... then form a FIN segment and send it. In any case, enter FIN-WAIT-1 state."
            State::Established => self.set_state(State::FinWait1),
            // "CLOSE-WAIT STATE: Queue this request until all preceding SENDs have been segmentized; then send a FIN
            // segment, enter LAST-ACK state."
            State::CloseWait => self.set_state(State::LastAck),
            _ => return,
        }
        self.hot.flags |= Flags::FIN_QUEUED;
        self.cold.more_follows = false;
        self.owe(Owed::DATA);
        self.tell(Ready::WRITABLE);
    }

    /// Our FIN is acknowledged and theirs has not come.
    pub(super) fn enter_fin_wait_2(&mut self) {
        self.set_state(State::FinWait2);
        self.cold.timers.stop(Timer::Retransmit);
        if !self.hot.flags.contains(Flags::OPEN) {
            self.await_fin_alone();
        }
    }

    /// FIN-WAIT-2 that nobody holds ends by itself (Linux: `tcp_fin_timeout`, `TCP_LINGER2`).
    fn await_fin_alone(&mut self) {
        match self.cold.options.fin_timeout_s {
            Some(seconds) if seconds < 0 => self.abort(),
            chosen => {
                let seconds = chosen.filter(|s| *s > 0).map_or(self.shared.config.tcp_fin_timeout, |s| s as u32);
                self.cold.timers.set(Timer::Keepalive, self.shared.now + u64::from(seconds) * 1_000_000);
            }
        }
    }

    /// Both directions have ended in order: a small record answers what may still come.
    pub(super) fn enter_time_wait(&mut self) {
        self.hot.flags |= Flags::LINGERS;
        self.finish();
    }

    /// The connection has ended with an error.
    pub(super) fn end(&mut self, error: Error) {
        self.cold.error = Some(error);
        self.tell(Ready::ERROR);
        self.finish();
    }

    /// The protocol is done with the connection. What was received in order can still be read.
    pub(super) fn finish(&mut self) {
        self.set_state(State::Closed);
        self.hot.flags |= Flags::DONE;
        self.hot.owed &= Owed::ACK;
        self.cold.timers.stop_all();
        self.cold.tx.release(&mut self.shared.pool);
        self.cold.tx_base = self.hot.write_seq;
        self.forget_early();
        self.release_recovery();
        self.tell(Ready::READABLE | Ready::WRITABLE | Ready::HANGUP | Ready::READ_HANGUP);
    }
}
