//! What the kernel's epoll set says of a registration, read from `/proc/self/fdinfo`.

use libc::c_int;

use crate::sys;

/// Bytes of the file that are looked through at most: about 10,000 registrations.
const BYTES_MAX: usize = 1 << 20;

/// Whether a one-shot registration has fired and waits to be armed again: the kernel then keeps no
/// event bits for it. `None` if the kernel does not say.
pub(super) fn one_shot_has_fired(epfd: c_int, target: c_int) -> Option<bool> {
    let mut path = *b"/proc/self/fdinfo/\0\0\0\0\0\0\0\0\0\0\0\0";
    write_number(path.get_mut(18..)?, epfd);
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: a path of ours that ends with a zero.
    let fd =
        unsafe { sys::syscall6(libc::SYS_openat, libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0) };
    if fd < 0 {
        return None;
    }
    let found = search(fd as c_int, target);
    sys::close(fd as c_int);
    found
}

fn search(fd: c_int, target: c_int) -> Option<bool> {
    let mut buffer = [0u8; 4096];
    let (mut held, mut total) = (0, 0);
    while total < BYTES_MAX {
        let free = buffer.get_mut(held..)?;
        let (at, room) = (free.as_mut_ptr() as usize, free.len());
        // SAFETY: the kernel writes at most `room` bytes into the buffer.
        let n = unsafe { sys::syscall6(libc::SYS_read, fd as usize, at, room, 0, 0, 0) };
        if n <= 0 {
            return None;
        }
        total += n as usize;
        held += n as usize;
        let mut rest = buffer.get(..held)?;
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            if let Some(events) = rest.get(..end).and_then(|line| events_of(line, target)) {
                // Only the flags of the registration itself are left once it has fired.
                return Some(events & 0x0fff_ffff == 0);
            }
            rest = rest.get(end + 1..)?;
        }
        let kept = rest.len();
        buffer.copy_within(held - kept..held, 0);
        held = kept;
    }
    None
}

/// The event bits in a line like `tfd:        6 events:     2019 data: ...` for descriptor `target`.
fn events_of(line: &[u8], target: c_int) -> Option<u32> {
    let mut words = line.split(|&b| b == b' ').filter(|w| !w.is_empty());
    (words.next()? == b"tfd:").then_some(())?;
    let fd = number(words.next()?, 10)?;
    (fd == target as u32 && words.next()? == b"events:").then_some(())?;
    number(words.next()?, 16)
}

fn number(word: &[u8], base: u32) -> Option<u32> {
    word.iter().try_fold(0u32, |n, &b| n.checked_mul(base)?.checked_add((b as char).to_digit(base)?))
}

fn write_number(to: &mut [u8], n: c_int) {
    let digits = n.max(0).checked_ilog10().unwrap_or(0) as usize + 1;
    let mut left = n.max(0);
    for place in to.iter_mut().take(digits).rev() {
        *place = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = b"tfd:       12 events: 40000019 data: 7fff pos:0 ino:1 sdev:2";
        assert_eq!(events_of(line, 12), Some(0x4000_0019));
        assert_eq!(events_of(line, 1), None);
        assert_eq!(events_of(b"pos:\t0", 1), None);
    }

    #[test]
    fn numbers_are_written() {
        let mut out = [0; 4];
        write_number(&mut out, 123);
        assert_eq!(&out, b"123\0");
        write_number(&mut out, 0);
        assert_eq!(out[0], b'0');
    }
}
