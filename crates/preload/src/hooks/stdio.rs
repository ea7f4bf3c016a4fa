//! Streams on descriptors, and the functions that print to a descriptor without one.

use core::arch::naked_asm;
use core::ffi::c_char;

use libc::{FILE, c_int, c_void};

use super::io::export;
use crate::ops::stdio;
use crate::{config, real};

export!(fdopen, _IO_fdopen = fn(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's own call.
    unsafe {
        let ours = if config::enabled() { stdio::open(fd, mode) } else { None };
        ours.unwrap_or_else(|| real::fdopen()(fd, mode))
    }
});

// A va_list is an array in C: it travels as a pointer.
export!(vdprintf = fn(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        let ours = if config::enabled() { stdio::print(fd, 0, format, list) } else { None };
        ours.unwrap_or_else(|| real::vdprintf()(fd, format, list))
    }
});

export!(__vdprintf_chk = fn(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int {
    // SAFETY: the program's own call.
    unsafe {
        let ours = if config::enabled() { stdio::print(fd, flag, format, list) } else { None };
        ours.unwrap_or_else(|| real::__vdprintf_chk()(fd, flag, format, list))
    }
});

/// A variadic function that makes a va_list of its arguments and hands it on, as C's `va_start` does (System V
/// ABI, 3.5.7). `$named` is the size of the named arguments in registers, `$list` the register of the last one.
macro_rules! variadic {
    ($name:ident => $target:ident, $named:literal, $list:literal) => {
        /// # Safety
        /// As libc's function of this name.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C-unwind" fn $name() -> c_int {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                concat!("mov dword ptr [rsp], ", $named),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $list, ", rsp"),
                "call {target}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    };
}

variadic!(dprintf => vdprintf, "16", "rdx");
variadic!(__dprintf_chk => __vdprintf_chk, "24", "rcx");
