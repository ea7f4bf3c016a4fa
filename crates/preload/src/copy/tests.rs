use super::*;
use crate::signals;
use crate::testing::in_child;

const PAGE: usize = 4096;

/// `pages` pages of which only the inner ones are accessible.
fn guarded_pages(pages: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new mappings of this test.
    unsafe {
        let base = libc::mmap(std::ptr::null_mut(), (pages + 2) * PAGE, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(base, libc::MAP_FAILED);
        let inner = base.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(inner.cast(), pages * PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
        inner
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// All sizes around the branches of the copy, with odd alignments.
fn sizes() -> impl Iterator<Item = usize> {
    (0..300).chain(500..530).chain(1000..1050).chain(2030..2070).chain([3000, 4095, 4096, 4097, 8191, 65_536, 300_001])
}

/// Runs `body` in a child, faults mended, once per set of instructions that the machine has.
fn with_each_instruction_set(body: impl Fn()) {
    for avx in [0, u8::from(std::arch::is_x86_feature_detected!("avx"))] {
        in_child(|| {
            signals::arm();
            // SAFETY: as in `init`.
            unsafe { ringway_copy_avx.store(avx, Ordering::Relaxed) };
            body();
        });
    }
}

#[test]
fn copies_what_memcpy_would() {
    with_each_instruction_set(copy_all_sizes);
}

fn copy_all_sizes() {
    let source = pattern(300_100);
    for bytes in sizes() {
        for (from, to) in [(0, 0), (1, 0), (0, 3), (7, 5), (63, 1)] {
            let mut target = vec![0xAA; bytes + 80];
            // SAFETY: both ranges are inside their vectors.
            let left = unsafe { copy(target.as_mut_ptr().add(to), source.as_ptr().add(from), bytes) };
            assert_eq!(left, 0);
            assert_eq!(&target[to..to + bytes], &source[from..from + bytes], "{bytes} bytes");
            assert!(target[..to].iter().chain(&target[to + bytes..]).all(|&b| b == 0xAA), "{bytes} bytes");
        }
    }
}

#[test]
fn a_bad_end_is_reported_to_the_byte() {
    with_each_instruction_set(|| {
        let inner = guarded_pages(2);
        let source = pattern(3 * PAGE);
        for bytes in sizes().filter(|&bytes| bytes <= 2 * PAGE + 500) {
            for good in [0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 200, 1000, 1024, 4000, PAGE, 5000]
            {
                if good >= bytes {
                    continue;
                }
                // SAFETY: `good` bytes before the guard page are ours.
                unsafe {
                    let end = inner.add(2 * PAGE);
                    inner.write_bytes(0xAA, 2 * PAGE);
                    assert_eq!(copy(end.sub(good), source.as_ptr(), bytes), bytes - good, "to, {bytes} with {good}");
                    assert_eq!(std::slice::from_raw_parts(end.sub(good), good), &source[..good]);
                    end.sub(good).copy_from(source.as_ptr(), good);
                    let mut target = vec![0; bytes];
                    assert_eq!(
                        copy(target.as_mut_ptr(), end.sub(good), bytes),
                        bytes - good,
                        "from, {bytes} with {good}"
                    );
                    assert_eq!(&target[..good], &source[..good]);
                }
            }
        }
    });
}

#[test]
fn bad_starts_and_wild_addresses_copy_nothing() {
    with_each_instruction_set(|| {
        let source = pattern(5000);
        // A null pointer, a low one, one without meaning on this machine, kernel memory.
        for address in [0usize, 8, 0x1234_5678_9ABC_DEF0, usize::MAX - 10_000] {
            for bytes in [1, 3, 7, 12, 16, 40, 64, 65, 100, 1024, 5000] {
                let (bad, mut target) = (address as *mut u8, vec![0; bytes]);
                // SAFETY: the bad side is not accessible, the other is a live vector.
                unsafe {
                    assert_eq!(copy(bad, source.as_ptr(), bytes), bytes);
                    assert_eq!(copy(target.as_mut_ptr(), bad, bytes), bytes);
                }
            }
            // SAFETY: plain integers.
            unsafe {
                assert_eq!(read(address as *const u64), None);
                assert!(!write(address as *mut u64, 1));
            }
        }
    });
}

#[test]
fn a_truncated_file_is_a_bad_address() {
    with_each_instruction_set(|| {
        // SAFETY: a file and a mapping of this test.
        unsafe {
            let fd = libc::memfd_create(c"copy".as_ptr(), 0);
            assert_eq!(libc::ftruncate(fd, PAGE as i64), 0);
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(std::ptr::null_mut(), 2 * PAGE, prot, libc::MAP_SHARED, fd, 0).cast::<u8>();
            let mut target = vec![0; 2 * PAGE];
            assert_eq!(copy(target.as_mut_ptr(), base, 2 * PAGE), PAGE);
            assert_eq!(copy(base.add(PAGE - 10), target.as_ptr(), 100), 90);
        }
    });
}

#[test]
fn memory_that_comes_and_goes_never_kills() {
    with_each_instruction_set(|| {
        let inner = guarded_pages(2).addr();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let source = pattern(2 * PAGE);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000 {
                    let prot = if round % 2 == 0 { libc::PROT_NONE } else { libc::PROT_READ | libc::PROT_WRITE };
                    // SAFETY: the second page is only touched by the copies.
                    unsafe { libc::mprotect((inner + PAGE) as *mut _, PAGE, prot) };
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            let mut bytes = 1;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                bytes = bytes % 2000 + 1;
                // SAFETY: the page is this test's.
                let left = unsafe { copy((inner + PAGE - 500) as *mut u8, source.as_ptr(), bytes) };
                assert!(left == 0 || left <= bytes.saturating_sub(500));
            }
        });
    });
}
