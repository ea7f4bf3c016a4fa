//! What an application needs of TCP, as a trait: the same program runs on the engine and on the kernel.

use std::io;
use std::time::Duration;

use ringway_tcp::{ConnId, Error, Event, Instant, ListenerId, Shutdown};
use ringway_wire::Endpoint;

/// Listeners and connections of one thread. Nothing but [`Sockets::poll`] waits, and events are edges: after one, go on
/// until `WouldBlock`, or until a call brings less than was asked for.
pub trait Sockets {
    /// The time of the last [`Sockets::poll`].
    fn now(&self) -> Instant;

    /// Listens at `at`; port 0 is no port, and any IPv6 address means any IPv4 one, too. `backlog` bounds the connections that wait to be accepted.
    ///
    /// # Errors
    /// Those of `bind` and `listen`, by Linux's numbers.
    fn listen(&mut self, at: Endpoint, backlog: u32) -> io::Result<ListenerId>;

    /// Opens a connection without Nagle's delay. It is writable once it is open, and in error if that fails.
    ///
    /// # Errors
    /// Those of `connect`, by Linux's numbers; nothing leads there: `ENETUNREACH`.
    fn connect(&mut self, to: Endpoint) -> io::Result<ConnId>;

    /// The oldest connection that waits at `listener`, without Nagle's delay.
    ///
    /// # Errors
    /// `WouldBlock` if none waits, `BadHandle`.
    fn accept(&mut self, listener: ListenerId) -> Result<ConnId, Error>;

    /// Takes received data; 0 means that the peer has ended sending.
    ///
    /// # Errors
    /// `WouldBlock`, `BadHandle`, or what ended the connection.
    fn recv(&mut self, conn: ConnId, out: &mut [u8]) -> Result<usize, Error>;

    /// Gives data to be sent; answers how many bytes were taken. Before the connection is open the engine keeps them and
    /// the kernel takes none (`WouldBlock`).
    ///
    /// # Errors
    /// `WouldBlock` (the connection becomes writable later), `BrokenPipe`, `BadHandle`, or what ended the connection.
    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Error>;

    /// Ends one or both directions.
    ///
    /// # Errors
    /// `NotConnected`, `BadHandle`.
    fn shutdown(&mut self, conn: ConnId, how: Shutdown) -> Result<(), Error>;

    /// Lets go of a connection; what was sent is still delivered. An unknown handle is no error: it is gone already.
    fn close(&mut self, conn: ConnId);

    /// Resets a connection and lets go of it.
    fn abort(&mut self, conn: ConnId);

    /// The error that waits at a connection, and clears it.
    fn take_error(&mut self, conn: ConnId) -> Option<Error>;

    /// The other end of a connection.
    ///
    /// # Errors
    /// `BadHandle`, `NotConnected`.
    fn peer(&self, conn: ConnId) -> Result<Endpoint, Error>;

    /// Sends what is to be sent, receives what has come, and replaces `events` by what is new; waits for it, but no longer
    /// than `timeout` (`None` is for ever). No events then.
    ///
    /// # Errors
    /// The port or the kernel failed; nothing works any more.
    fn poll(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()>;
}
