//! What a call answers instead of doing its work: one of Linux's numbers.

use libc::c_int;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

pub(crate) type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);
    pub(crate) const BADF: Errno = Errno(libc::EBADF);
    pub(crate) const FAULT: Errno = Errno(libc::EFAULT);
    pub(crate) const INTR: Errno = Errno(libc::EINTR);
    pub(crate) const INVAL: Errno = Errno(libc::EINVAL);
    pub(crate) const NOTCONN: Errno = Errno(libc::ENOTCONN);
    pub(crate) const NOTSOCK: Errno = Errno(libc::ENOTSOCK);
}

impl From<ringway_tcp::Error> for Errno {
    fn from(error: ringway_tcp::Error) -> Errno {
        Errno(error.errno())
    }
}
