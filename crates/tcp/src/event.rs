//! What an application learns: which connections and listeners are ready, and for what.

/// A connection, until the application closes it. Numbers are used again, generations are not soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    pub index: u32,
    pub generation: u32,
}

/// A listener, until the application closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId {
    pub index: u32,
    pub generation: u32,
}

bitflags::bitflags! {
    /// What a connection or listener is ready for; the bits mean what `epoll`'s do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Ready: u16 {
        /// Data, the end of data, or a connection to accept. `EPOLLIN`.
        const READABLE = 0x01;
        /// Urgent data. `EPOLLPRI`.
        const URGENT = 0x02;
        /// Room to send, or a send would fail. `EPOLLOUT`.
        const WRITABLE = 0x04;
        /// An error waits. `EPOLLERR`.
        const ERROR = 0x08;
        /// Both directions have ended. `EPOLLHUP`.
        const HANGUP = 0x10;
        /// The peer sends no more. `EPOLLRDHUP`.
        const READ_HANGUP = 0x2000;
    }
}

/// Who is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Connection(ConnId),
    Listener(ListenerId),
}

/// Something happened that [`Ready`] describes. Each is told once (edges); [`crate::Engine::readiness`] tells levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub source: Source,
    pub ready: Ready,
}
