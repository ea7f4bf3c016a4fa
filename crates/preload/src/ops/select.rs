//! `select` and `pselect` when upgraded connections are among the descriptors: a poll in other clothes.

use libc::{
    POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI, POLLRDBAND, POLLRDNORM, POLLWRBAND, POLLWRNORM, c_int,
    fd_set, pollfd, sigset_t,
};

use crate::copy;
use crate::epoll::Timeout;
use crate::growable::{Growable, Pages};
use crate::leave::Hold;
use crate::ops::poll;

/// What makes a descriptor show in each of the three sets (include/linux/poll.h, fs/select.c).
const IN_SET: i16 = POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR;
const OUT_SET: i16 = POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR;
const EX_SET: i16 = POLLPRI;

const WORD_BITS: usize = u64::BITS as usize;

/// One of the program's sets, of `count` bits, at an address that may be bad.
#[derive(Clone, Copy)]
pub(crate) struct Bits {
    base: *mut u64,
}

impl Bits {
    pub(crate) fn new(set: *mut fd_set) -> Bits {
        Bits { base: set.cast() }
    }

    /// Word `i`; 0 for a missing set, `None` for a bad address.
    fn word(self, i: usize) -> Option<u64> {
        if self.base.is_null() {
            return Some(0);
        }
        // SAFETY: a bad address is survived.
        unsafe { copy::read(self.base.wrapping_add(i).cast_const()) }
    }

    fn set_word(self, i: usize, value: u64) -> bool {
        // SAFETY: a bad address is survived.
        self.base.is_null() || unsafe { copy::write(self.base.wrapping_add(i), value) }
    }
}

/// Whether any descriptor in the sets concerns this library.
pub(crate) fn concerns_us(count: c_int, sets: [Bits; 3]) -> bool {
    let mut any = false;
    for_each(count, sets, |fd, _| any = any || poll::concerns_us(fd));
    any
}

fn for_each(count: c_int, sets: [Bits; 3], mut f: impl FnMut(c_int, [bool; 3])) -> bool {
    for i in 0..(count.max(0) as usize).div_ceil(WORD_BITS) {
        let [Some(r), Some(w), Some(x)] = sets.map(|s| s.word(i)) else { return false };
        let mut any = r | w | x;
        while any != 0 {
            let bit = any.trailing_zeros() as usize;
            any &= any - 1;
            let fd = i * WORD_BITS + bit;
            if fd < count as usize {
                f(fd as c_int, [r, w, x].map(|word| word >> bit & 1 != 0));
            }
        }
    }
    true
}

/// The whole call; sets are rewritten. A count or a negated errno.
pub(crate) fn select(count: c_int, sets: [Bits; 3], timeout: Timeout, mask: *const sigset_t) -> isize {
    let mut fds = Growable::new();
    let pages = &raw mut fds;
    let mut full = false;
    let readable = for_each(count, sets, |fd, [r, w, x]| {
        let events = if r { IN_SET & !(POLLHUP | POLLERR) } else { 0 }
            | if w { OUT_SET & !POLLERR } else { 0 }
            | if x { EX_SET } else { 0 };
        full |= !fds.push(pollfd { fd, events, revents: 0 });
    });
    Pages(pages).during(|| match (readable, full) {
        (false, _) => -(libc::EFAULT as isize),
        (_, true) => -(libc::ENOMEM as isize),
        // SAFETY: on this frame, and freed only when the call uses it no more.
        _ => poll_and_write(count, sets, unsafe { &mut *pages }.as_mut_slice(), timeout, mask),
    })
}

fn poll_and_write(count: c_int, sets: [Bits; 3], fds: &mut [pollfd], timeout: Timeout, mask: *const sigset_t) -> isize {
    let answer = poll::poll(fds, timeout, mask);
    if answer < 0 {
        return answer;
    }
    if fds.iter().any(|p| p.revents & POLLNVAL != 0) {
        return -(libc::EBADF as isize);
    }
    let mut total = 0;
    let mut next = 0;
    for i in 0..(count.max(0) as usize).div_ceil(WORD_BITS) {
        let [Some(r), Some(w), Some(x)] = sets.map(|s| s.word(i)) else { return -(libc::EFAULT as isize) };
        let mut out = [0u64; 3];
        while let Some(p) = fds.get(next).filter(|p| p.fd as usize / WORD_BITS == i) {
            let bit = 1u64 << (p.fd as usize % WORD_BITS);
            for (slot, (asked, events)) in out.iter_mut().zip([(r, IN_SET), (w, OUT_SET), (x, EX_SET)]) {
                if asked & bit != 0 && p.revents & events != 0 {
                    *slot |= bit;
                    total += 1;
                }
            }
            next += 1;
        }
        if !sets.iter().zip(out).all(|(s, word)| s.set_word(i, word)) {
            return -(libc::EFAULT as isize);
        }
    }
    total
}
