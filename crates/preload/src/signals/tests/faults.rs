//! Faults: the library's own, the program's, and threads that block them.

use super::*;

#[test]
fn a_fault_without_a_handler_kills_as_usual() {
    for (signal, flags) in [(SIGSEGV, libc::MAP_ANONYMOUS), (SIGBUS, 0)] {
        let status = status_of_child(|| {
            // The test program's runtime has a handler of its own.
            set(signal, &action(libc::SIG_DFL, 0, 0));
            arm();
            // SAFETY: the access is meant to kill this child.
            unsafe {
                let fd = libc::memfd_create(c"empty".as_ptr(), 0);
                let prot = if signal == SIGSEGV { libc::PROT_NONE } else { libc::PROT_READ };
                let base = libc::mmap(std::ptr::null_mut(), 4096, prot, libc::MAP_PRIVATE | flags, fd, 0);
                base.cast::<u8>().read_volatile();
            }
        });
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == signal, "status {status:#x}");
    }
    for signal in [SIGSEGV, SIGBUS] {
        let status = status_of_child(|| {
            set(signal, &action(libc::SIG_DFL, 0, 0));
            arm();
            raise(signal);
        });
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == signal, "sent, status {status:#x}");
        in_child(|| {
            set(signal, &action(libc::SIG_IGN, 0, 0));
            arm();
            raise(signal);
        });
    }
}

static PAGE: AtomicUsize = AtomicUsize::new(0);

/// What runtimes do: mend the fault and go on.
extern "C" fn mend(_: c_int, info: *mut siginfo_t, _: *mut ucontext_t) {
    RUNS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's pointer; the page is the test's.
    unsafe {
        assert_eq!((*info).si_addr().addr() & !4095, PAGE.load(Ordering::Relaxed));
        libc::mprotect(PAGE.load(Ordering::Relaxed) as *mut _, 4096, libc::PROT_READ | libc::PROT_WRITE);
    }
}

#[test]
fn the_programs_fault_handler_sees_its_own_faults_only() {
    in_child(|| {
        set(SIGSEGV, &action(mend as *const () as usize, libc::SA_SIGINFO, 0));
        arm();
        // SAFETY: a mapping of this test.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0).cast::<u8>();
            PAGE.store(page.addr(), Ordering::Relaxed);
            let critical = thread::enter();
            assert_eq!(copy::copy(page, [1u8; 100].as_ptr(), 100), 100);
            drop(critical);
            assert_eq!(runs(), 0);
            page.write_volatile(5);
            assert_eq!((page.read_volatile(), runs()), (5, 1));
        }
    });
}

#[test]
fn stack_overflow_reaches_a_handler_on_its_own_stack() {
    extern "C" fn leave(_: c_int, _: *mut siginfo_t, _: *mut ucontext_t) {
        // SAFETY: ends this child.
        unsafe { libc::_exit(42) }
    }
    #[inline(never)]
    fn dive(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 64]);
        if depth == u64::MAX { 0 } else { dive(depth + 1) + frame[63] }
    }
    let status = status_of_child(|| {
        let stack = Box::leak(vec![0u8; 65_536].into_boxed_slice());
        // SAFETY: the stack is leaked, so it outlives its use.
        unsafe {
            let ours = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
            assert_eq!(libc::sigaltstack(&ours, std::ptr::null_mut()), 0);
        }
        set(SIGSEGV, &action(leave as *const () as usize, libc::SA_SIGINFO | libc::SA_ONSTACK, 0));
        arm();
        dive(0);
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 42, "status {status:#x}");
}

fn sigset(mask: u64) -> libc::sigset_t {
    action(0, 0, mask).sa_mask
}

fn masked(how: c_int, mask: Option<u64>) -> u64 {
    let (set, mut old) = (sigset(mask.unwrap_or(0)), sigset(0));
    let set = if mask.is_some() { &raw const set } else { std::ptr::null() };
    // SAFETY: both sets are on this frame; their first word is the kernel's mask.
    unsafe {
        assert_eq!(hook::pthread_sigmask(how, set, &raw mut old), 0);
        (&raw const old).cast::<u64>().read()
    }
}

#[test]
fn a_thread_that_blocks_everything_survives_bad_buffers() {
    let everything = !(bit(libc::SIGKILL) | bit(libc::SIGSTOP) | INTERNAL);
    let bad_buffer = || {
        let critical = thread::enter();
        // SAFETY: the address is meant to be bad.
        assert_eq!(unsafe { copy::copy(8 as *mut u8, [0u8; 100].as_ptr(), 100) }, 100);
        drop(critical);
    };
    in_child(|| {
        assert_eq!(masked(libc::SIG_BLOCK, Some(!0)), 0);
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), everything, "unarmed, the kernel blocks what was wanted");
        arm();
        bad_buffer();
        assert_eq!(masked(libc::SIG_BLOCK, None), everything, "the program sees what it did");
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), everything & !FAULTS);
        assert_eq!(masked(libc::SIG_UNBLOCK, Some(bit(SIGSEGV) | bit(SIGUSR1))), everything);
        assert_eq!(masked(libc::SIG_BLOCK, None), everything & !bit(SIGSEGV) & !bit(SIGUSR1));
        assert_eq!(masked(libc::SIG_SETMASK, Some(bit(SIGSEGV))), everything & !bit(SIGSEGV) & !bit(SIGUSR1));
        bad_buffer();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(masked(libc::SIG_SETMASK, Some(!0)), 0);
                bad_buffer();
                assert_eq!(masked(99, None), everything, "how does not matter without a set");
            });
        });
        assert_eq!(masked(libc::SIG_SETMASK, Some(0)), bit(SIGSEGV));
        // SAFETY: sets of this test.
        unsafe {
            assert_eq!(hook::pthread_sigmask(99, &sigset(!0), std::ptr::null_mut()), libc::EINVAL);
            assert_eq!(hook::sigprocmask(99, &sigset(!0), std::ptr::null_mut()), -1);
        }
        assert_eq!(sys::errno(), libc::EINVAL);
        assert_eq!(masked(libc::SIG_BLOCK, None), 0);
        // A handler's mask.
        extern "C" fn receive(_: c_int) {
            // SAFETY: the address is meant to be bad.
            assert_eq!(unsafe { copy::copy(8 as *mut u8, [0u8; 9].as_ptr(), 9) }, 9);
        }
        set(SIGUSR1, &action(receive as *const () as usize, 0, !0));
        raise(SIGUSR1);
        // SAFETY: plain bits.
        let told = unsafe { std::ptr::from_ref(&get(SIGUSR1).sa_mask).cast::<u64>().read() };
        assert_eq!(told, !(bit(libc::SIGKILL) | bit(libc::SIGSTOP)));
    });
}
