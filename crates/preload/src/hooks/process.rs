//! Processes: making them, replacing them, ending them.
//!
//! `fork` itself needs no hook: libc runs the handlers of `process`. `execl` and its like are variadic and call
//! no name that could be hooked, so they are rebuilt here from their vectors.

use core::arch::naked_asm;
use core::ffi::c_char;

use libc::{AT_FDCWD, c_int, c_long, c_uint, c_void, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use super::io::export;
use crate::exec::{self, How, Image};
use crate::growable::Growable;
use crate::real::{self, CloneMain};
use crate::table::GUARDS;
use crate::{confine, exit, process, sys};

type Strings = *const *const c_char;

export!(_Fork = fn() -> pid_t {
    // SAFETY: the program's own call.
    process::fork_by(|| unsafe { real::_Fork()() } as isize) as pid_t
});

/// The child runs on the caller's frame, so the return address is kept in a register, as in libc. While the
/// child lives, the table is guarded.
macro_rules! vfork {
    ($name:ident) => {
        /// # Safety
        /// As libc's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C-unwind" fn $name() -> pid_t {
            naked_asm!(
                ".cfi_startproc",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_register rip, rdi",
                "lock inc dword ptr [rip + {guards}]",
                "mov eax, 58",
                "syscall",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_offset rip, -8",
                "test rax, rax",
                "jz 2f",
                "lock dec dword ptr [rip + {guards}]",
                "cmp rax, -4095",
                "jae 3f",
                "2:",
                "ret",
                "3:",
                "mov rdi, rax",
                "jmp {finish}",
                ".cfi_endproc",
                guards = sym GUARDS,
                finish = sym finish,
            )
        }
    };
}

vfork!(vfork);
vfork!(__vfork);

extern "C-unwind" fn finish(answer: isize) -> isize {
    sys::finish(answer)
}

export!(clone, __clone = fn(
    main: Option<CloneMain>, stack: *mut c_void, flags: c_int, arg: *mut c_void,
    parent_tid: *mut pid_t, tls: *mut c_void, child_tid: *mut pid_t,
) -> c_int {
    // SAFETY: the program's own call.
    let original = |main, arg| unsafe { real::clone()(main, stack, flags, arg, parent_tid, tls, child_tid) };
    match main.filter(|_| !stack.is_null()) {
        Some(first) => process::clone_by(first, arg, flags, |main, arg| original(Some(main), arg)),
        None => original(main, arg),
    }
});

export!(unshare = fn(flags: c_int) -> c_int {
    process::about_to_unshare(flags);
    // SAFETY: the program's own call.
    unsafe { real::unshare()(flags) }
});

// The variadic arguments are words in registers.
export!(prctl = fn(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // Without a filter it is only a question whether there could be one.
    let filters = a == libc::SECCOMP_MODE_STRICT as usize || (a == libc::SECCOMP_MODE_FILTER as usize && b != 0);
    if option == libc::PR_SET_SECCOMP && filters {
        confine::about_to_filter();
    }
    // SAFETY: the program's own call.
    unsafe { real::prctl()(option, a, b, c, d) }
});

/// `seccomp`, which libc has no function for.
pub(super) unsafe fn seccomp(operation: c_uint, flags: usize, filter: usize) -> c_long {
    let strict = operation == libc::SECCOMP_SET_MODE_STRICT;
    if strict || (operation == libc::SECCOMP_SET_MODE_FILTER && filter != 0) {
        confine::about_to_filter();
    }
    // SAFETY: the program's own call.
    unsafe { real::syscall()(libc::SYS_seccomp, operation as usize, flags, filter, 0, 0, 0) }
}

export!(_exit, _Exit = fn(status: c_int) -> ! {
    exit::part_all();
    // SAFETY: the program's own call.
    unsafe { real::_exit()(status) };
    std::process::abort()
});

export!(execve = fn(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: the program's own call.
    exec::hand_over(How::Exec, Image::At(AT_FDCWD, path), envp, |envp| unsafe { real::execve()(path, argv, envp) })
});

export!(execv = fn(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the program's own call.
    unsafe { execve(path, argv, environment()) }
});

export!(execvpe = fn(file: *const c_char, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: the program's own call.
    exec::hand_over(How::Exec, Image::Named(file), envp, |envp| unsafe { real::execvpe()(file, argv, envp) })
});

export!(execvp = fn(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the program's own call.
    unsafe { execvpe(file, argv, environment()) }
});

export!(fexecve = fn(fd: c_int, argv: Strings, envp: Strings) -> c_int {
    // SAFETY: the program's own call.
    exec::hand_over(How::Exec, Image::Open(fd), envp, |envp| unsafe { real::fexecve()(fd, argv, envp) })
});

export!(execveat = fn(directory: c_int, path: *const c_char, argv: Strings, envp: Strings, flags: c_int) -> c_int {
    let image = if flags & libc::AT_EMPTY_PATH != 0 { Image::Open(directory) } else { Image::At(directory, path) };
    // SAFETY: the program's own call.
    exec::hand_over(How::Exec, image, envp, |envp| unsafe { real::execveat()(directory, path, argv, envp, flags) })
});

type Actions = *const posix_spawn_file_actions_t;
type Attributes = *const posix_spawnattr_t;

export!(posix_spawn = fn(
    pid: *mut pid_t, path: *const c_char, actions: Actions, attributes: Attributes, argv: Strings, envp: Strings,
) -> c_int {
    // SAFETY: the program's own call.
    exec::hand_over(How::Spawn, Image::At(AT_FDCWD, path), envp, |envp| unsafe {
        real::posix_spawn()(pid, path, actions, attributes, argv.cast(), envp.cast())
    })
});

export!(posix_spawnp = fn(
    pid: *mut pid_t, file: *const c_char, actions: Actions, attributes: Attributes, argv: Strings, envp: Strings,
) -> c_int {
    // SAFETY: the program's own call.
    exec::hand_over(How::Spawn, Image::Named(file), envp, |envp| unsafe {
        real::posix_spawnp()(pid, file, actions, attributes, argv.cast(), envp.cast())
    })
});

export!(posix_spawn_file_actions_adddup2 = fn(actions: *mut posix_spawn_file_actions_t, fd: c_int, to: c_int) -> c_int {
    if crate::config::enabled() {
        exec::lend(fd);
    }
    // SAFETY: the program's own call.
    unsafe { real::posix_spawn_file_actions_adddup2()(actions, fd, to) }
});

fn environment() -> Strings {
    unsafe extern "C" {
        static environ: Strings;
    }
    // SAFETY: libc's own variable, which execv reads the same way.
    unsafe { environ }
}

/// Arguments that need no pages, which a child of vfork would leave behind in its parent.
const FEW: usize = 128;

/// The arguments of a variadic call: six in registers, which the trampoline has stored, then those on the stack.
struct Arguments {
    registers: *const usize,
    stack: *const usize,
}

impl Arguments {
    fn get(&self, i: usize) -> usize {
        // SAFETY: callers stop at the null pointer that ends every list of arguments to `execl`.
        unsafe { if i < 6 { *self.registers.add(i) } else { *self.stack.add(i - 6) } }
    }

    /// Runs `exec` with the strings from the second argument on, and the place of their null pointer.
    fn with_vector(&self, exec: impl FnOnce(Strings, usize) -> c_int) -> c_int {
        let end = (1..).find(|&i| self.get(i) == 0).unwrap_or(1);
        let mut few = [0usize; FEW];
        if end <= FEW {
            few.iter_mut().zip(1..=end).for_each(|(to, i)| *to = self.get(i));
            return exec(few.as_ptr().cast(), end);
        }
        let mut many = Growable::new();
        let complete = (1..=end).all(|i| many.push(self.get(i)));
        let answer = if complete {
            exec(many.as_slice().as_ptr().cast(), end)
        } else {
            sys::finish(-(libc::ENOMEM as isize)) as c_int
        };
        many.clear();
        answer
    }
}

unsafe extern "C-unwind" fn execl_of(registers: *const usize, stack: *const usize) -> c_int {
    let arguments = Arguments { registers, stack };
    let path = arguments.get(0) as *const c_char;
    // SAFETY: the program's own call.
    arguments.with_vector(|argv, _| unsafe { execv(path, argv) })
}

unsafe extern "C-unwind" fn execlp_of(registers: *const usize, stack: *const usize) -> c_int {
    let arguments = Arguments { registers, stack };
    let file = arguments.get(0) as *const c_char;
    // SAFETY: the program's own call.
    arguments.with_vector(|argv, _| unsafe { execvp(file, argv) })
}

unsafe extern "C-unwind" fn execle_of(registers: *const usize, stack: *const usize) -> c_int {
    let arguments = Arguments { registers, stack };
    let path = arguments.get(0) as *const c_char;
    // SAFETY: the program's own call.
    arguments.with_vector(|argv, end| unsafe { execve(path, argv, arguments.get(end + 1) as Strings) })
}

/// A variadic function that stores its register arguments and passes on where all arguments are.
macro_rules! variadic {
    ($name:ident => $target:ident) => {
        /// # Safety
        /// As libc's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C-unwind" fn $name() -> c_int {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 56",
                ".cfi_adjust_cfa_offset 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                "lea rsi, [rsp + 64]",
                "call {target}",
                "add rsp, 56",
                ".cfi_adjust_cfa_offset -56",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    };
}

variadic!(execl => execl_of);
variadic!(execlp => execlp_of);
variadic!(execle => execle_of);
