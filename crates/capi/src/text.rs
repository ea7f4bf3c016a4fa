//! C strings as bytes, and bytes as C strings.

use std::ffi::{CStr, c_char};

/// The bytes of a string up to its end; none for a null pointer.
///
/// # Safety
/// `text` is null or points to a string that ends and stays as long as the result is used.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}

/// For messages.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies a name into a field, which ends with a zero byte at least; false if it is too long.
pub(crate) fn fill(field: &mut [u8], name: &[u8]) -> bool {
    if name.len() >= field.len() {
        return false;
    }
    field.fill(0);
    field[..name.len()].copy_from_slice(name);
    true
}

/// The bytes before the first zero.
pub(crate) fn of_field(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|b| *b == 0).unwrap_or(field.len())]
}
