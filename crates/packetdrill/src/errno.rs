//! Why a call failed, as libc numbers it.

use ringway_tcp::Error;

/// An errno value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

pub(crate) type Result<T> = core::result::Result<T, Errno>;

impl Errno {
    pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);
    pub(crate) const BADF: Errno = Errno(libc::EBADF);
    pub(crate) const FAULT: Errno = Errno(libc::EFAULT);
    pub(crate) const INVAL: Errno = Errno(libc::EINVAL);
    pub(crate) const NOPROTOOPT: Errno = Errno(libc::ENOPROTOOPT);
    pub(crate) const NOTCONN: Errno = Errno(libc::ENOTCONN);
    pub(crate) const OPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);
}

impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        Errno(error.errno())
    }
}
