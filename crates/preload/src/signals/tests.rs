use std::mem::{MaybeUninit, zeroed};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::{SIGALRM, SIGBUS, SIGSEGV, SIGTERM, SIGUSR1, SIGUSR2, c_int, siginfo_t, ucontext_t};

use super::*;
use crate::hooks::signal as hook;
use crate::testing::{in_child, status_of_child, until};

mod family;
mod faults;
mod unwinding;

static RUNS: AtomicU32 = AtomicU32::new(0);
static VALUE: AtomicUsize = AtomicUsize::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static SENDER: AtomicI32 = AtomicI32::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_signal(_: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    RUNS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's pointers.
    unsafe {
        CODE.store((*info).si_code, Ordering::Relaxed);
        SENDER.store((*info).si_pid(), Ordering::Relaxed);
        VALUE.store((*info).si_value().sival_ptr.addr(), Ordering::Relaxed);
        assert_ne!((*context).uc_mcontext.gregs[libc::REG_RSP as usize], 0);
    }
    MASK.store(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), Ordering::Relaxed);
    assert!(thread::critical_slot().is_none(), "handlers never run inside a critical section");
}

fn action(handler: usize, flags: c_int, mask: u64) -> libc::sigaction {
    // SAFETY: all-zero is a valid struct; its first mask word is the kernel's mask.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        (&raw mut action.sa_mask).cast::<u64>().write(mask);
        action
    }
}

fn set(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    let mut old = MaybeUninit::zeroed();
    // SAFETY: both structs are on frames of this test.
    unsafe {
        assert_eq!(hook::sigaction(signal, action, old.as_mut_ptr()), 0);
        old.assume_init()
    }
}

fn get(signal: c_int) -> libc::sigaction {
    let mut old = MaybeUninit::zeroed();
    // SAFETY: as above.
    unsafe {
        assert_eq!(hook::sigaction(signal, std::ptr::null(), old.as_mut_ptr()), 0);
        old.assume_init()
    }
}

fn handle(signal: c_int, flags: c_int) {
    set(signal, &action(on_signal as *const () as usize, flags | libc::SA_SIGINFO, 0));
}

fn raise(signal: c_int) {
    assert_eq!(sys::tgkill(sys::getpid(), sys::gettid(), signal), 0);
}

fn queue_value(signal: c_int, value: usize) {
    // SAFETY: a signal to this process.
    assert_eq!(unsafe { libc::sigqueue(libc::getpid(), signal, libc::sigval { sival_ptr: value as *mut _ }) }, 0);
}

fn runs() -> u32 {
    RUNS.load(Ordering::Relaxed)
}

fn kernel_handler(signal: c_int) -> usize {
    // SAFETY: only reads.
    unsafe { sys::rt_sigaction(signal, None) }.unwrap().handler
}

#[test]
fn nothing_changes_before_arming_and_only_handlers_do_after() {
    in_child(|| {
        handle(SIGUSR1, 0);
        set(SIGUSR2, &action(libc::SIG_IGN, 0, 0));
        let own = on_signal as *const () as usize;
        assert_eq!(kernel_handler(SIGUSR1), own);
        assert_eq!(kernel_handler(SIGSEGV), get(SIGSEGV).sa_sigaction);
        let before: Vec<usize> = (1..=64).filter(|&s| is_managed(s)).map(|s| get(s).sa_sigaction).collect();
        arm();
        arm();
        assert_eq!(kernel_handler(SIGUSR1), deliver::trampoline_address());
        assert_eq!(kernel_handler(SIGSEGV), deliver::trampoline_address());
        assert_eq!(kernel_handler(SIGBUS), deliver::trampoline_address());
        assert_eq!(kernel_handler(SIGUSR2), libc::SIG_IGN);
        assert_eq!(kernel_handler(SIGTERM), libc::SIG_DFL);
        let after: Vec<usize> = (1..=64).filter(|&s| is_managed(s)).map(|s| get(s).sa_sigaction).collect();
        assert_eq!(before, after, "the program sees its own actions");
        raise(SIGUSR1);
        assert_eq!(runs(), 1);
    });
}

#[test]
fn a_signal_waits_for_the_end_of_the_outermost_section() {
    in_child(|| {
        handle(SIGUSR1, 0);
        arm();
        let outer = thread::enter();
        let inner = thread::enter();
        queue_value(SIGUSR1, 0xABCD);
        drop(inner);
        assert_eq!(runs(), 0);
        drop(outer);
        assert_eq!(runs(), 1);
        assert_eq!(VALUE.load(Ordering::Relaxed), 0xABCD);
        assert_eq!(CODE.load(Ordering::Relaxed), libc::SI_QUEUE);
        assert_eq!(SENDER.load(Ordering::Relaxed), sys::getpid());
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), 0, "the mask is as before");
        assert_eq!(MASK.load(Ordering::Relaxed), bit(SIGUSR1), "the handler's mask is the program's");
    });
}

#[test]
fn many_signals_in_a_section_all_arrive_once() {
    in_child(|| {
        let real_time = 40;
        for signal in [SIGUSR1, SIGUSR2, SIGALRM, real_time] {
            handle(signal, 0);
        }
        arm();
        let critical = thread::enter();
        for signal in [SIGUSR1, SIGUSR2, SIGALRM, real_time] {
            raise(signal);
        }
        for value in 0..3 {
            queue_value(real_time, value);
        }
        assert_eq!(runs(), 0);
        drop(critical);
        assert_eq!(runs(), 7);
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), 0);
    });
}

#[test]
fn two_signals_delivered_at_once_into_a_section_keep_the_outer_mask() {
    in_child(|| {
        handle(SIGUSR1, 0);
        handle(SIGUSR2, 0);
        arm();
        let both = bit(SIGUSR1) | bit(SIGUSR2);
        let critical = thread::enter();
        sys::rt_sigprocmask(libc::SIG_BLOCK, both);
        raise(SIGUSR1);
        raise(SIGUSR2);
        // The kernel builds two frames in one go: one trampoline is interrupted before its first instruction.
        sys::rt_sigprocmask(libc::SIG_UNBLOCK, both);
        assert_eq!(runs(), 0);
        drop(critical);
        assert_eq!(runs(), 2);
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), 0);
    });
}

#[test]
fn a_storm_of_signals_is_counted_exactly() {
    in_child(|| {
        let (first, last) = (40, 47);
        (first..=last).for_each(|signal| handle(signal, 0));
        arm();
        let main = sys::gettid();
        let done = AtomicU32::new(0);
        let sent = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                sys::rt_sigprocmask(libc::SIG_BLOCK, DEFERRABLE);
                let mut sent = 0;
                for round in 0..20_000 {
                    // EAGAIN: the queue is full for the moment.
                    while sys::tgkill(sys::getpid(), main, first + round % 8) != 0 {
                        sys::sched_yield();
                    }
                    sent += 1;
                }
                done.store(1, Ordering::Release);
                sent
            });
            while done.load(Ordering::Acquire) == 0 {
                let _outer = thread::enter();
                let before = runs();
                let _inner = thread::enter();
                std::hint::spin_loop();
                assert_eq!(runs(), before);
            }
            sender.join().unwrap()
        });
        until(|| runs() == sent);
        drop(thread::enter());
        assert_eq!(runs(), sent);
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), 0);
    });
}

#[test]
fn waits_learn_of_handlers_that_interrupt() {
    in_child(|| {
        handle(SIGUSR1, 0);
        handle(SIGUSR2, libc::SA_RESTART);
        arm();
        let start = thread::interrupted_count();
        raise(SIGUSR2);
        assert_eq!(thread::interrupted_count(), start);
        raise(SIGUSR1);
        assert_eq!(thread::interrupted_count(), start + 1);
        let critical = thread::enter();
        raise(SIGUSR1);
        assert_eq!(thread::interrupted_count(), start + 1);
        drop(critical);
        assert_eq!(thread::interrupted_count(), start + 2);
    });
}

#[test]
fn one_shot_handlers_run_once() {
    let status = status_of_child(|| {
        handle(SIGUSR1, libc::SA_RESETHAND);
        arm();
        let flags = get(SIGUSR1).sa_flags;
        let critical = thread::enter();
        raise(SIGUSR1);
        assert_eq!(get(SIGUSR1).sa_sigaction, on_signal as *const () as usize);
        drop(critical);
        assert_eq!(runs(), 1);
        assert_eq!(get(SIGUSR1).sa_sigaction, libc::SIG_DFL);
        assert_eq!(get(SIGUSR1).sa_flags, flags);
        raise(SIGUSR1);
    });
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == SIGUSR1, "status {status:#x}");
}

#[test]
fn masks_and_flags_are_honoured_and_told_back() {
    in_child(|| {
        arm();
        let wanted =
            action(on_signal as *const () as usize, libc::SA_SIGINFO | libc::SA_NODEFER, bit(SIGTERM) | bit(9));
        let old = set(SIGUSR1, &wanted);
        assert_eq!(old.sa_sigaction, libc::SIG_DFL);
        raise(SIGUSR1);
        assert_eq!(MASK.load(Ordering::Relaxed), bit(SIGTERM));
        let told = get(SIGUSR1);
        assert_eq!(told.sa_sigaction, wanted.sa_sigaction);
        assert_eq!(told.sa_flags & 0x3FF_FFFF | told.sa_flags & !0x7FF_FFFF, wanted.sa_flags);
        let back = set(SIGUSR1, &action(libc::SIG_IGN, 0, 0));
        assert_eq!(back.sa_sigaction, wanted.sa_sigaction);
        raise(SIGUSR1);
        assert_eq!(runs(), 1);
        assert_eq!(kernel_handler(SIGUSR1), libc::SIG_IGN);
    });
}

#[test]
fn a_handler_may_jump_away_after_a_section() {
    static FRAME: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C-unwind" {
        #[link_name = "__sigsetjmp"]
        fn sigsetjmp(frame: *mut [u64; 32], save_mask: c_int) -> c_int;
        fn siglongjmp(frame: *mut [u64; 32], value: c_int) -> !;
    }
    extern "C-unwind" fn jump(_: c_int) {
        RUNS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the frame is that of the test below, which is still running.
        unsafe { siglongjmp(FRAME.load(Ordering::Relaxed) as *mut _, 1) }
    }
    in_child(|| {
        set(SIGUSR1, &action(jump as *const () as usize, 0, 0));
        arm();
        let mut frame = [0u64; 32];
        FRAME.store((&raw mut frame).addr(), Ordering::Relaxed);
        // SAFETY: returns twice; only statics and the frame itself live across.
        unsafe { sigsetjmp(&raw mut frame, 1) };
        if runs() < 100 {
            let critical = thread::enter();
            raise(SIGUSR1);
            drop(critical);
            unreachable!("the handler jumps");
        }
        assert!(thread::critical_slot().is_none());
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), 0);
    });
}

#[test]
fn blocked_signals_still_go_to_sigwait_and_signalfd() {
    in_child(|| {
        handle(SIGUSR1, 0);
        arm();
        // SAFETY: sets, descriptors and buffers of this test.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigaddset(&raw mut set, SIGUSR1);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let critical = thread::enter();
            raise(SIGUSR1);
            drop(critical);
            let mut signal = 0;
            assert_eq!(libc::sigwait(&set, &raw mut signal), 0);
            assert_eq!(signal, SIGUSR1);
            let fd = libc::signalfd(-1, &set, 0);
            queue_value(SIGUSR1, 77);
            let mut info: libc::signalfd_siginfo = zeroed();
            let bytes = size_of::<libc::signalfd_siginfo>();
            assert_eq!(libc::read(fd, (&raw mut info).cast(), bytes), bytes as isize);
            assert_eq!((info.ssi_signo, info.ssi_ptr), (SIGUSR1 as u32, 77));
        }
        assert_eq!(runs(), 0);
    });
}

#[test]
fn changes_while_arming_are_not_lost() {
    for _ in 0..50 {
        in_child(|| {
            let handler = on_signal as *const () as usize;
            let go = AtomicU32::new(0);
            std::thread::scope(|scope| {
                for signal in [SIGUSR1, SIGUSR2, SIGTERM] {
                    let go = &go;
                    scope.spawn(move || {
                        go.fetch_add(1, Ordering::SeqCst);
                        until(|| go.load(Ordering::SeqCst) == 4);
                        for _ in 0..30 {
                            set(signal, &action(handler, libc::SA_SIGINFO, 0));
                            let old = set(signal, &action(libc::SIG_IGN, 0, 0));
                            assert_eq!(old.sa_sigaction, handler);
                            assert_eq!(get(signal).sa_sigaction, libc::SIG_IGN);
                            let old = set(signal, &action(handler, libc::SA_SIGINFO, 0));
                            assert_eq!(old.sa_sigaction, libc::SIG_IGN);
                        }
                    });
                }
                go.fetch_add(1, Ordering::SeqCst);
                until(|| go.load(Ordering::SeqCst) == 4);
                arm();
            });
            for signal in [SIGUSR1, SIGUSR2, SIGTERM] {
                assert_eq!(kernel_handler(signal), deliver::trampoline_address());
                assert_eq!(get(signal).sa_sigaction, handler);
            }
        });
    }
}

#[test]
fn raw_sigaction_answers_as_the_kernel() {
    in_child(|| {
        arm();
        let new = KernelSigaction {
            handler: on_signal as *const () as usize,
            flags: deliver::SA_SIGINFO | deliver::SA_RESTORER,
            restorer: restorer_address(),
            mask: bit(SIGUSR2),
        };
        let mut old = KernelSigaction::default();
        let (nothing, bad) = (std::ptr::null::<KernelSigaction>(), 16 as *mut KernelSigaction);
        // SAFETY: structs of this test, or addresses that are meant to be refused.
        unsafe {
            assert_eq!(raw_sigaction(SIGUSR1, &new, std::ptr::null_mut(), 8), 0);
            assert_eq!(raw_sigaction(SIGUSR1, nothing, &raw mut old, 8), 0);
            assert_eq!(old, new);
            assert_eq!(raw_sigaction(SIGUSR1, nothing, &raw mut old, 16), -(libc::EINVAL as isize));
            assert_eq!(raw_sigaction(SIGUSR1, nothing, bad, 8), -(libc::EFAULT as isize));
            assert_eq!(raw_sigaction(SIGUSR1, bad, &raw mut old, 8), -(libc::EFAULT as isize));
            assert_eq!(raw_sigaction(99, nothing, &raw mut old, 8), -(libc::EINVAL as isize));
            assert_eq!(raw_sigaction(libc::SIGKILL, &new, &raw mut old, 8), -(libc::EINVAL as isize));
        }
        raise(SIGUSR1);
        assert_eq!(runs(), 1);
    });
}

#[test]
fn a_child_of_fork_has_its_own_armed_table() {
    in_child(|| {
        handle(SIGUSR1, 0);
        arm();
        in_child(|| {
            handle(SIGUSR2, 0);
            let critical = thread::enter();
            raise(SIGUSR1);
            raise(SIGUSR2);
            assert_eq!(runs(), 0);
            drop(critical);
            assert_eq!(runs(), 2);
        });
        assert_eq!(get(SIGUSR2).sa_sigaction, libc::SIG_DFL);
        assert_eq!(runs(), 0);
    });
}

#[test]
fn a_fork_in_the_middle_of_a_change_leaves_the_child_usable() {
    in_child(|| {
        handle(SIGUSR1, 0);
        for armed in [false, true] {
            if armed {
                arm();
            }
            let change = lock();
            in_child(|| {
                sys::rt_sigprocmask(libc::SIG_UNBLOCK, !0);
                arm();
                handle(SIGUSR2, 0);
                raise(SIGUSR1);
                raise(SIGUSR2);
                assert_eq!(runs(), 2);
                assert_eq!(kernel_handler(SIGUSR1), deliver::trampoline_address());
            });
            drop(change);
        }
    });
}

#[test]
fn a_deferred_signal_is_not_the_forked_childs() {
    in_child(|| {
        handle(SIGUSR1, 0);
        arm();
        thread::hold();
        raise(SIGUSR1);
        in_child(|| {
            thread::let_go();
            assert_eq!(runs(), 0);
            assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), 0);
            raise(SIGUSR1);
            assert_eq!(runs(), 1);
        });
        assert_eq!(runs(), 0);
        thread::let_go();
        assert_eq!(runs(), 1);
        assert_eq!(sys::rt_sigprocmask(libc::SIG_BLOCK, 0), 0);
    });
}
