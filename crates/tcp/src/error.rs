//! What a call on a connection or a listener can answer instead of doing it: Linux's errno values.

use core::fmt;

macro_rules! errors {
    ($($name:ident = $errno:literal, $text:literal;)+) => {
        /// Why a call was refused or a connection ended. Each is the errno that Linux gives in its place.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Error {
            $(#[doc = $text] $name,)+
        }

        impl Error {
            /// Linux's number (x86-64 and the generic ABI).
            pub const fn errno(self) -> i32 {
                match self { $(Error::$name => $errno,)+ }
            }

            /// The value with that number.
            pub const fn from_errno(errno: i32) -> Option<Error> {
                match errno {
                    $($errno => Some(Error::$name),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Error::$name => $text,)+ })
            }
        }
    };
}

errors! {
    NotFound = 2, "there is nothing of that name (ENOENT)";
    BadHandle = 9, "the handle names no open connection or listener (EBADF)";
    WouldBlock = 11, "nothing can be done before another packet or timer (EAGAIN)";
    Invalid = 22, "the call or its arguments make no sense in this state (EINVAL)";
    BrokenPipe = 32, "this side has been shut down for sending (EPIPE)";
    ProtocolError = 71, "the peer broke the protocol (EPROTO)";
    MessageSize = 90, "the packet is too large for the path (EMSGSIZE)";
    ProtocolUnreachable = 92, "the remote host does not speak TCP (ENOPROTOOPT)";
    AddressInUse = 98, "the local address is taken (EADDRINUSE)";
    AddressNotAvailable = 99, "no local port is left for this remote address (EADDRNOTAVAIL)";
    NetworkUnreachable = 101, "the remote network cannot be reached (ENETUNREACH)";
    ConnectionAborted = 103, "the connection was given up (ECONNABORTED)";
    ConnectionReset = 104, "the peer reset the connection (ECONNRESET)";
    NoBuffers = 105, "a table is full or the memory budget is spent (ENOBUFS)";
    AlreadyConnected = 106, "the connection exists already (EISCONN)";
    NotConnected = 107, "there is no connection (ENOTCONN)";
    TimedOut = 110, "the peer did not answer in time (ETIMEDOUT)";
    ConnectionRefused = 111, "the peer refused the connection (ECONNREFUSED)";
    HostUnreachable = 113, "the remote host cannot be reached (EHOSTUNREACH)";
}

impl core::error::Error for Error {}

pub type Result<T> = core::result::Result<T, Error>;
