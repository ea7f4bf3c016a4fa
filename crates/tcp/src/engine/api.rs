//! What an application calls: open, accept, send, receive, end. Nothing here waits.

use ringway_wire::{Endpoint, SeqNumber};

use super::{Engine, fast_open, kind};
use crate::conn::Conn;
use crate::conn::state::State;
use crate::error::{Error, Result};
use crate::event::{ConnId, ListenerId, Ready};
use crate::info::TcpInfo;
use crate::options::{ReceiveFlags, SendFlags, Shutdown, SocketOptions};
use crate::stats::Counter;
use crate::tables::FlowKey;
use crate::time::Instant;

impl Engine {
    /// Opens a connection from `local` (port 0: one is chosen) to `remote`. It is writable once it is open.
    ///
    /// # Errors
    /// `Invalid` for addresses of two families or an unspecified one, `AddressInUse` if the flow exists,
    /// `AddressNotAvailable` if no port is free, `NoBuffers` if the table is full.
    pub fn connect(
        &mut self,
        now: Instant,
        local: Endpoint,
        remote: Endpoint,
        options: &SocketOptions,
    ) -> Result<ConnId> {
        self.shared.now = now;
        let families_differ = local.address.is_ipv4() != remote.address.is_ipv4();
        if families_differ || local.address.is_unspecified() || remote.address.is_unspecified() || remote.port == 0 {
            return Err(Error::Invalid);
        }
        let (key, iss) = match local.port {
            0 => self.choose_port(local, remote)?,
            _ => {
                let key = FlowKey::new(local, remote);
                (key, self.claim(&key).ok_or(Error::AddressInUse)?)
            }
        };
        let Some(index) = self.allocate(key) else {
            self.shared.count(Counter::TableFull);
            return Err(Error::NoBuffers);
        };
        self.flows.insert(key.hash(self.flow_key), kind::CONNECTION | index);
        self.shared.count(Counter::ActiveOpens);
        self.cold[index].options = options.clone();
        self.with(index, |conn| conn.start_connect(iss));
        Ok(ConnId { index, generation: self.hot[index].generation })
    }

    /// Whether `key` is free for a new connection; a TIME-WAIT that may be taken over says where to begin.
    #[allow(clippy::option_option)]
    fn claim(&mut self, key: &FlowKey) -> Option<Option<SeqNumber>> {
        let Some(value) = self.find_flow(key, key.hash(self.flow_key)) else { return Some(None) };
        if value & kind::MASK != kind::TIME_WAIT {
            return None;
        }
        let slot = value & !kind::MASK;
        let record = &self.time_waits[slot];
        if !record.may_be_taken_over(&self.shared) {
            return None;
        }
        let iss = record.next_iss();
        self.end_time_wait(slot);
        Some(Some(iss))
    }

    // RFC 6056 3.3.1, with a start that nobody can guess and every port tried once.
    fn choose_port(&mut self, local: Endpoint, remote: Endpoint) -> Result<(FlowKey, Option<SeqNumber>)> {
        let (first, last) = (self.shared.config.ip_local_port_first, self.shared.config.ip_local_port_last);
        let ports = (last + 1).saturating_sub(first).max(1);
        for _ in 0..ports {
            self.next_port = self.next_port.wrapping_add(1);
            let port = (first + self.next_port % ports) as u16;
            let key = FlowKey::new(Endpoint::new(local.address, port), remote);
            if let Some(iss) = self.claim(&key) {
                return Ok((key, iss));
            }
        }
        Err(Error::AddressNotAvailable)
    }

    /// Listens at `local`; an unspecified address means any, and an unspecified IPv6 one means IPv4 too. `backlog`
    /// bounds the connections that wait to be accepted.
    ///
    /// # Errors
    /// `Invalid` for port 0, `AddressInUse`, `NoBuffers` if there are too many listeners.
    pub fn listen(&mut self, local: Endpoint, backlog: u32, options: &SocketOptions) -> Result<ListenerId> {
        if local.port == 0 {
            return Err(Error::Invalid);
        }
        if self.ports.is_taken(local) {
            return Err(Error::AddressInUse);
        }
        let index = self.listeners.take().ok_or(Error::NoBuffers)?;
        self.ports.insert(local, index);
        let backlog = backlog.min(self.shared.config.somaxconn);
        let listener = &mut self.listeners[index];
        listener.generation = listener.generation.wrapping_add(1);
        (listener.local, listener.backlog, listener.options) = (Some(local), backlog, options.clone());
        // Linux (`inet_listen`): such a server accepts data with SYNs at every listener, as many as its backlog.
        let all = fast_open::SERVER | fast_open::SERVER_EVERYWHERE;
        if self.shared.config.tcp_fastopen & all == all && listener.options.fast_open_queue == 0 {
            listener.options.fast_open_queue = backlog;
        }
        Ok(ListenerId { index, generation: listener.generation })
    }

    /// The oldest connection that waits at `listener`.
    ///
    /// # Errors
    /// `WouldBlock` if none waits, `BadHandle`.
    pub fn accept(&mut self, listener: ListenerId) -> Result<ConnId> {
        let index = self.listener_index(listener)?;
        let id = self.listeners[index].ready.pop_front().ok_or(Error::WouldBlock)?;
        self.cold[id.index].waits_for_accept = false;
        let ready = self.with(id.index, |conn| conn.readiness());
        self.with(id.index, |conn| conn.tell(ready));
        Ok(id)
    }

    /// Ends a listener; connections that wait to be accepted are reset, half-open ones forgotten.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn close_listener(&mut self, now: Instant, listener: ListenerId) -> Result<()> {
        self.shared.now = now;
        let index = self.listener_index(listener)?;
        if let Some(local) = self.listeners[index].local.take() {
            self.ports.remove(local, index);
        }
        while let Some(id) = self.listeners[index].ready.pop_front() {
            self.with(id.index, |conn| {
                conn.abort();
                conn.close();
            });
        }
        self.end_half_open_of(index);
        self.listeners.give_back(index);
        Ok(())
    }

    /// Gives data to be sent; answers how many bytes were taken, which may be fewer.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room (then the connection becomes writable later), `BrokenPipe` after the end of
    /// sending, `NotConnected`, `BadHandle`, or what ended the connection.
    pub fn send(&mut self, now: Instant, id: ConnId, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        self.on(now, id, |conn| conn.send(bytes, flags))?
    }

    /// Takes received data; 0 means that the peer has ended sending.
    ///
    /// # Errors
    /// `WouldBlock` if there is none yet, `NotConnected`, `BadHandle`, or what ended the connection.
    pub fn recv(&mut self, now: Instant, id: ConnId, out: &mut [u8], flags: ReceiveFlags) -> Result<usize> {
        self.on(now, id, |conn| conn.recv(out, flags))?
    }

    /// The received data in place, in up to two pieces; [`Engine::consume`] frees them.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn received(&self, id: ConnId) -> Result<(&[u8], &[u8])> {
        Ok(self.cold[self.index(id)?].rx.pieces(0, usize::MAX))
    }

    /// Frees `bytes` of the received data.
    ///
    /// # Errors
    /// `Invalid` if there are not so many, `BadHandle`.
    pub fn consume(&mut self, now: Instant, id: ConnId, bytes: usize) -> Result<()> {
        self.on(now, id, |conn| conn.consume(bytes))?
    }

    /// Ends one or both directions.
    ///
    /// # Errors
    /// `NotConnected`, `BadHandle`.
    pub fn shutdown(&mut self, now: Instant, id: ConnId, how: Shutdown) -> Result<()> {
        self.on(now, id, |conn| match conn.state() {
            State::Closed | State::SynSent => Err(Error::NotConnected),
            _ => {
                conn.shutdown(how);
                Ok(())
            }
        })?
    }

    /// Lets go of a connection; what was sent is still delivered in the background. The handle ends.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn close(&mut self, now: Instant, id: ConnId) -> Result<()> {
        self.on(now, id, |conn| conn.close())
    }

    /// Resets a connection and lets go of it. The handle ends.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn abort(&mut self, now: Instant, id: ConnId) -> Result<()> {
        self.on(now, id, |conn| {
            conn.abort();
            conn.close();
        })
    }

    /// Changes a connection's options, which take effect at once.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn configure(&mut self, now: Instant, id: ConnId, change: impl FnOnce(&mut SocketOptions)) -> Result<()> {
        self.on(now, id, |conn| {
            change(&mut conn.cold.options);
            conn.options_changed();
        })
    }

    /// Sends what waits because it is small, corked or not: what `setsockopt` does with `TCP_NODELAY`, and when `TCP_CORK`
    /// is taken off where Nagle's rule is off.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn let_go(&mut self, now: Instant, id: ConnId) -> Result<()> {
        self.on(now, id, |conn| conn.let_go())
    }

    /// A connection's options.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn options(&self, id: ConnId) -> Result<&SocketOptions> {
        Ok(&self.cold[self.index(id)?].options)
    }

    /// Changes a listener's options; connections that begin later have them.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn configure_listener(&mut self, id: ListenerId, change: impl FnOnce(&mut SocketOptions)) -> Result<()> {
        let index = self.listener_index(id)?;
        change(&mut self.listeners[index].options);
        Ok(())
    }

    /// How many bytes the SYN of a fast open can take along while it waits for them (`TCP_FASTOPEN_CONNECT`, RFC 7413
    /// 4.2.1); `None` if the connection has no such SYN, or no more.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn syn_data_room(&mut self, id: ConnId) -> Result<Option<usize>> {
        let index = self.index(id)?;
        Ok(self.with(index, |conn| conn.syn_data_room()))
    }

    /// What a connection is ready for at present: the level, where events are edges.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn readiness(&mut self, id: ConnId) -> Result<Ready> {
        let index = self.index(id)?;
        Ok(self.with(index, |conn| conn.readiness()))
    }

    /// Whether connections wait at a listener.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn acceptable(&self, listener: ListenerId) -> Result<Ready> {
        Ok(self.listener_readiness(self.listener_index(listener)?))
    }

    /// The error that waits, if any, and clears it (`SO_ERROR`).
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn take_error(&mut self, id: ConnId) -> Result<Option<Error>> {
        let index = self.index(id)?;
        Ok(self.cold[index].error.take())
    }

    /// What is known of a connection (`TCP_INFO`).
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn tcp_info(&mut self, now: Instant, id: ConnId) -> Result<TcpInfo> {
        self.on(now, id, |conn| conn.info())
    }

    /// Whether the next byte to read is the urgent one (`SIOCATMARK`).
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn is_at_mark(&mut self, id: ConnId) -> Result<bool> {
        let index = self.index(id)?;
        Ok(self.with(index, |conn| conn.is_at_mark()))
    }

    /// A connection's state.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn state(&self, id: ConnId) -> Result<State> {
        Ok(self.hot[self.index(id)?].state)
    }

    /// A connection's ends, local first.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn endpoints(&self, id: ConnId) -> Result<(Endpoint, Endpoint)> {
        let key = &self.hot[self.index(id)?].key;
        Ok((key.local(), key.remote()))
    }

    /// Connections, half-open connections and TIME-WAITs held now.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.hot.len(), self.half_open.len(), self.time_waits.len())
    }

    fn index(&self, id: ConnId) -> Result<u32> {
        let hot = self.hot.get(id.index).ok_or(Error::BadHandle)?;
        let is_open = hot.generation == id.generation && hot.flags.contains(crate::conn::Flags::OPEN);
        if is_open { Ok(id.index) } else { Err(Error::BadHandle) }
    }

    fn listener_index(&self, id: ListenerId) -> Result<u32> {
        let listener = self.listeners.get(id.index).ok_or(Error::BadHandle)?;
        let is_open = listener.generation == id.generation && listener.local.is_some();
        if is_open { Ok(id.index) } else { Err(Error::BadHandle) }
    }

    fn on<T>(&mut self, now: Instant, id: ConnId, action: impl FnOnce(&mut Conn) -> T) -> Result<T> {
        self.shared.now = now;
        let index = self.index(id)?;
        Ok(self.with(index, action))
    }
}
