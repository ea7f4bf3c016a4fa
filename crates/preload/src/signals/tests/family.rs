//! The `sigaction` family against libc's own.

use super::*;

/// Actions read back after every member of the family, armed or not, as libc itself tells them.
#[test]
fn the_family_behaves_as_libcs() {
    type Calls = [unsafe extern "C-unwind" fn(c_int, usize) -> usize; 3];
    unsafe extern "C-unwind" {
        fn signal(signal: c_int, handler: usize) -> usize;
        fn sysv_signal(signal: c_int, handler: usize) -> usize;
        fn sigset(signal: c_int, handler: usize) -> usize;
        fn sigignore(signal: c_int) -> c_int;
        fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int;
    }
    let handler = on_signal as *const () as usize;
    let describe = |real: bool, answer: usize| {
        let told = if real {
            let mut old = MaybeUninit::zeroed();
            // SAFETY: on this frame.
            unsafe {
                libc::sigaction(SIGUSR1, std::ptr::null(), old.as_mut_ptr());
                old.assume_init()
            }
        } else {
            get(SIGUSR1)
        };
        // SAFETY: plain bits.
        let mask = unsafe { (&raw const told.sa_mask).cast::<u64>().read() };
        format!("{answer:x} {:x} {:x} {mask:x} {}\n", told.sa_sigaction, told.sa_flags, sys::rt_sigprocmask(0, 0))
    };
    let script = |real: bool, log: &mut String| {
        let [plain, sysv, set]: Calls =
            if real { [signal, sysv_signal, sigset] } else { [hook::signal, hook::sysv_signal, hook::sigset] };
        let (ignore, interrupt) =
            if real { (sigignore as _, siginterrupt as _) } else { (hook::sigignore as _, hook::siginterrupt as _) };
        let (ignore, interrupt): (
            unsafe extern "C-unwind" fn(c_int) -> c_int,
            unsafe extern "C-unwind" fn(c_int, c_int) -> c_int,
        ) = (ignore, interrupt);
        // SAFETY: handlers of this test.
        unsafe {
            for number in [SIGUSR1, 0, 65, -1, libc::SIGKILL, 32] {
                for call in [plain, sysv, set] {
                    log.push_str(&describe(real, call(number, handler)));
                    log.push_str(&describe(real, call(number, libc::SIG_ERR)));
                    log.push_str(&describe(real, call(number, libc::SIG_DFL)));
                }
            }
            log.push_str(&describe(real, set(SIGUSR1, 2)));
            log.push_str(&describe(real, set(SIGUSR1, 2)));
            log.push_str(&describe(real, set(SIGUSR1, handler)));
            log.push_str(&describe(real, interrupt(SIGUSR1, 1) as usize));
            log.push_str(&describe(real, plain(SIGUSR1, handler)));
            log.push_str(&describe(real, interrupt(SIGUSR1, 0) as usize));
            log.push_str(&describe(real, plain(SIGUSR1, handler)));
            log.push_str(&describe(real, ignore(SIGUSR1) as usize));
            log.push_str(&describe(real, ignore(0) as usize));
        }
    };
    in_child(|| {
        let (mut theirs, mut unarmed, mut armed) = Default::default();
        script(true, &mut theirs);
        set(SIGUSR1, &action(libc::SIG_DFL, 0, 0));
        script(false, &mut unarmed);
        arm();
        set(SIGUSR1, &action(libc::SIG_DFL, 0, 0));
        script(false, &mut armed);
        assert_eq!(theirs, unarmed);
        assert_eq!(theirs, armed);
    });
}
