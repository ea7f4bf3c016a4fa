//! The program's own limits. What the library takes, address space for rings and one descriptor, must not be
//! missing to the program.

use core::sync::atomic::{AtomicUsize, Ordering::*};

use libc::{c_int, rlimit};
use ringway_channel::layout::{END_REGION_BYTES, RING_REGION_BYTES};

use crate::sys;

/// Where RLIMIT_AS is set, rings take at most this fraction of it.
const RINGS_SHARE: u64 = 8;
/// The library's descriptor lies at this number or above, if the program cannot have it at the end of its range.
const HIGH: c_int = 980;
/// Up to this soft limit on open files, the library's descriptor lies above the limit. Beyond, one fewer is no loss to
/// the program, and the kernel's table would have to grow a lot.
const SCARCE: u64 = 4096;

/// Connections whose regions are mapped.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn mapped() {
    MAPPED.fetch_add(1, Relaxed);
}

pub(crate) fn unmapped() {
    MAPPED.fetch_sub(1, Relaxed);
}

/// Whether the address space has room for one more connection's regions, and for the program besides.
pub(crate) fn allow_mapping() -> bool {
    let all = (MAPPED.load(Relaxed) as u64 + 1) * (RING_REGION_BYTES + END_REGION_BYTES) as u64;
    get(libc::RLIMIT_AS).is_none_or(|own| own.rlim_cur == libc::RLIM_INFINITY || all <= own.rlim_cur / RINGS_SHARE)
}

/// Runs `make` with the number at or above which a descriptor of the library's takes none away from the program: the
/// soft limit, which is raised meanwhile. The caller keeps signals and forks away.
pub(crate) fn beyond_the_programs<T>(make: impl FnOnce(c_int) -> T) -> T {
    let raisable = |limit: &rlimit| limit.rlim_cur <= SCARCE && limit.rlim_cur < limit.rlim_max;
    match get(libc::RLIMIT_NOFILE).filter(raisable) {
        Some(own) if set_open_files(rlimit { rlim_cur: own.rlim_cur + 1, ..own }) => {
            let made = make(own.rlim_cur as c_int);
            // A limit that another thread has set meanwhile is the program's wish, and stays.
            if get(libc::RLIMIT_NOFILE).is_some_and(|now| now.rlim_cur == own.rlim_cur + 1) {
                set_open_files(own);
            }
            made
        }
        _ => make(HIGH),
    }
}

fn get(resource: libc::__rlimit_resource_t) -> Option<rlimit> {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    let (which, to) = (resource as usize, (&raw mut limit) as usize);
    // SAFETY: the kernel writes one rlimit.
    let answer = unsafe { sys::syscall6(libc::SYS_prlimit64, 0, which, 0, to, 0, 0) };
    (answer == 0).then_some(limit)
}

fn set_open_files(limit: rlimit) -> bool {
    let (which, from) = (libc::RLIMIT_NOFILE as usize, (&raw const limit) as usize);
    // SAFETY: the kernel reads one rlimit.
    unsafe { sys::syscall6(libc::SYS_prlimit64, 0, which, from, 0, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_child;

    fn limit_to(resource: libc::__rlimit_resource_t, soft: u64) {
        let hard = get(resource).unwrap().rlim_max;
        // SAFETY: an rlimit of ours.
        assert_eq!(unsafe { libc::setrlimit(resource, &rlimit { rlim_cur: soft, rlim_max: hard }) }, 0);
    }

    #[test]
    fn rings_leave_most_of_a_limited_address_space_alone() {
        in_child(|| {
            assert!(allow_mapping());
            limit_to(libc::RLIMIT_AS, 3 * (RING_REGION_BYTES + END_REGION_BYTES) as u64 * RINGS_SHARE);
            mapped();
            mapped();
            assert!(allow_mapping());
            mapped();
            assert!(!allow_mapping());
            unmapped();
            assert!(allow_mapping());
            limit_to(libc::RLIMIT_AS, get(libc::RLIMIT_AS).unwrap().rlim_max);
        });
    }

    #[test]
    fn a_descriptor_beyond_the_limit_takes_none_from_the_program() {
        in_child(|| {
            limit_to(libc::RLIMIT_NOFILE, 16);
            // SAFETY: harmless calls.
            unsafe {
                let highest = || (0..20).map(|_| libc::dup(0)).max();
                assert_eq!(highest(), Some(15));
                let made = beyond_the_programs(|from| {
                    assert_eq!(from, 16);
                    libc::fcntl(0, libc::F_DUPFD_CLOEXEC, from)
                });
                assert_eq!((made, get(libc::RLIMIT_NOFILE).unwrap().rlim_cur), (16, 16));
                assert_eq!(libc::dup(0), -1);
            }
        });
    }

    #[test]
    fn a_hard_limit_is_not_exceeded() {
        in_child(|| {
            // SAFETY: an rlimit of ours.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &rlimit { rlim_cur: 16, rlim_max: 16 }) }, 0);
            assert_eq!(beyond_the_programs(|from| from), HIGH);
        });
    }
}
