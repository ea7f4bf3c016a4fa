//! Copies between the program's buffers and ring memory that survive bad addresses.
//!
//! The kernel answers a bad buffer with EFAULT or a short count, so a library that copies itself must not
//! crash there. The copy is assembly with a known address range; when a fault hits it, the fault handler
//! (`signals`) asks [`resume_address`] where to go on: at a byte-wise copy of what is left, and from there, on
//! the next fault, at the exit that reports how much was not copied. Works from [`crate::signals::arm`] on.

use core::arch::global_asm;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, Ordering};

unsafe extern "C" {
    fn ringway_copy(dst: *mut u8, src: *const u8, bytes: usize) -> usize;
    static ringway_copy_retry: u8;
    static ringway_copy_bytes: u8;
    static ringway_copy_done: u8;
    static ringway_copy_avx: AtomicU8;
}

// Whether the machine and the kernel support AVX. Defined here because only a hidden symbol can be reached from
// position independent code across object files.
global_asm!(
    ".pushsection .bss.ringway_copy_avx,\"aw\",@nobits",
    ".globl ringway_copy_avx",
    ".hidden ringway_copy_avx",
    ".type ringway_copy_avx, @object",
    ".size ringway_copy_avx, 1",
    "ringway_copy_avx: .zero 1",
    ".popsection"
);

// rdi, rsi and rdx describe exactly what is still to be copied whenever an instruction can fault: every block is
// loaded before any of it is stored, and the registers move on only after that. In the byte-wise part the count is rcx.
// Plain vector loops beat `rep movsb` here: that is slow to start, and several times slower where source and
// destination lie unluckily to each other, as in a ring they sooner or later do.
global_asm!(
    ".pushsection .text.ringway_copy,\"ax\",@progbits",
    ".macro RINGWAY_LABEL name",
    ".globl \\name",
    ".hidden \\name",
    "\\name:",
    ".endm",
    ".p2align 6",
    "RINGWAY_LABEL ringway_copy",
    ".type ringway_copy, @function",
    ".cfi_startproc",
    "cmp rdx, 16",
    "jb 20f",
    // 16 to 32 bytes: both ends, which may overlap; so in all blocks below.
    "10:",
    "cmp rdx, 32",
    "ja 30f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    // 0 to 15 bytes.
    "20:",
    "cmp edx, 8",
    "jb 21f",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "21:",
    "cmp edx, 4",
    "jb 22f",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "22:",
    "test edx, edx",
    "jz 23f",
    "mov r8, rdx",
    "shr r8, 1",
    "movzx eax, byte ptr [rsi]",
    "movzx ecx, byte ptr [rsi + r8]",
    "movzx r9d, byte ptr [rsi + rdx - 1]",
    "mov [rdi], al",
    "mov [rdi + r8], cl",
    "mov [rdi + rdx - 1], r9b",
    "23:",
    "xor eax, eax",
    "ret",
    // 33 to 64 bytes.
    "30:",
    "cmp rdx, 64",
    "ja 40f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "xor eax, eax",
    "ret",
    "40:",
    "cmp byte ptr [rip + ringway_copy_avx], 0",
    "jne 50f",
    // More, without AVX.
    "41:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "cmp rdx, 64",
    "ja 41b",
    "cmp rdx, 16",
    "jae 10b",
    "jmp 20b",
    // More, with AVX: up to the destination's next 32-byte boundary, then 128 bytes a turn.
    "50:",
    "cmp rdx, 128",
    "jbe 53f",
    "vmovdqu ymm4, [rsi]",
    "vmovdqu [rdi], ymm4",
    "mov rcx, rdi",
    "or rcx, 31",
    "inc rcx",
    "sub rcx, rdi",
    "add rsi, rcx",
    "add rdi, rcx",
    "sub rdx, rcx",
    "jmp 52f",
    ".p2align 5",
    "51:",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + 64]",
    "vmovdqu ymm3, [rsi + 96]",
    "vmovdqa [rdi], ymm0",
    "vmovdqa [rdi + 32], ymm1",
    "vmovdqa [rdi + 64], ymm2",
    "vmovdqa [rdi + 96], ymm3",
    "sub rsi, -128",
    "sub rdi, -128",
    "add rdx, -128",
    "52:",
    "cmp rdx, 128",
    "ja 51b",
    // 65 to 128 bytes.
    "53:",
    "cmp rdx, 64",
    "jbe 54f",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + rdx - 64]",
    "vmovdqu ymm3, [rsi + rdx - 32]",
    "vmovdqu [rdi], ymm0",
    "vmovdqu [rdi + 32], ymm1",
    "vmovdqu [rdi + rdx - 64], ymm2",
    "vmovdqu [rdi + rdx - 32], ymm3",
    "vzeroupper",
    "xor eax, eax",
    "ret",
    // The last 1 to 64 bytes of more than 128.
    "54:",
    "vmovdqu ymm0, [rsi + rdx - 64]",
    "vmovdqu ymm1, [rsi + rdx - 32]",
    "vmovdqu [rdi + rdx - 64], ymm0",
    "vmovdqu [rdi + rdx - 32], ymm1",
    "vzeroupper",
    "xor eax, eax",
    "ret",
    // After a fault: what is left, byte by byte.
    "RINGWAY_LABEL ringway_copy_retry",
    "mov rcx, rdx",
    "cmp byte ptr [rip + ringway_copy_avx], 0",
    "je ringway_copy_bytes",
    "vzeroupper",
    "RINGWAY_LABEL ringway_copy_bytes",
    "mov al, [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rcx",
    "jnz ringway_copy_bytes",
    // After a fault in that, or at its end.
    "RINGWAY_LABEL ringway_copy_done",
    "mov rax, rcx",
    "ret",
    ".cfi_endproc",
    ".size ringway_copy, . - ringway_copy",
    ".popsection"
);

/// Chooses the instructions. Called when rings come into use; copies before that are right, too.
pub(crate) fn init() {
    // SAFETY: one byte, written through an atomic only.
    unsafe { ringway_copy_avx.store(u8::from(std::arch::is_x86_feature_detected!("avx")), Ordering::Relaxed) };
}

/// Copies `bytes` bytes; returns how many, at the end, could not be copied because an address is bad.
///
/// # Safety
/// `dst..dst + bytes` must be memory that the caller (or the program that passed it) may overwrite, or not
/// be accessible at all. The ranges must not overlap. Other threads may change either at any time.
#[inline(always)]
pub(crate) unsafe fn copy(dst: *mut u8, src: *const u8, bytes: usize) -> usize {
    // SAFETY: the assembly touches nothing but the two ranges and scratch registers; faults are mended.
    unsafe { ringway_copy(dst, src, bytes) }
}

/// Reads a plain value from an address that the program gave; None if it is bad.
///
/// # Safety
/// Any bit pattern must be a valid `T`.
#[inline(always)]
pub(crate) unsafe fn read<T: Copy>(from: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the destination is on this frame; the source may be anything.
    let left = unsafe { copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) };
    // SAFETY: all bytes are there, and any pattern is valid by the caller's promise.
    if left == 0 { Some(unsafe { value.assume_init() }) } else { None }
}

/// Writes a plain value (without padding) to an address that the program gave; false if it is bad.
///
/// # Safety
/// As for [`copy`]'s destination.
#[inline(always)]
pub(crate) unsafe fn write<T: Copy>(to: *mut T, value: T) -> bool {
    // SAFETY: the source is on this frame; the destination is the caller's promise.
    unsafe { copy(to.cast(), (&raw const value).cast(), size_of::<T>()) == 0 }
}

/// Where to go on after a fault at `at`; None if that is no instruction of the copy.
pub(crate) fn resume_address(at: usize) -> Option<usize> {
    let start = ringway_copy as *const () as usize;
    // Addresses only; none of these labels is read.
    let retry = (&raw const ringway_copy_retry).addr();
    let bytes = (&raw const ringway_copy_bytes).addr();
    let done = (&raw const ringway_copy_done).addr();
    if (start..retry).contains(&at) {
        Some(retry)
    } else if (bytes..done).contains(&at) {
        Some(done)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
