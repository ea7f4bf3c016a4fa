//! Values of socket options, as scripts write them and as C has them.

use crate::words::{member, number};

pub(crate) const TCP_INFO: i32 = 11;

/// The bytes that `text` stands for: `[1]`, `"cubic"`, `{onoff=1, linger=0}` or `{tv_sec=1, tv_usec=0}`.
pub(crate) fn encode(text: &str) -> Result<Vec<u8>, String> {
    if let Some(name) = text.trim_start_matches('[').strip_prefix('"') {
        return Ok(name.trim_end_matches([']', '"']).as_bytes().to_vec());
    }
    if text.contains("onoff") {
        let words = [member(text, "onoff")? as i32, member(text, "linger")? as i32];
        return Ok(words.map(i32::to_ne_bytes).concat());
    }
    if text.contains("tv_sec") {
        return Ok([member(text, "tv_sec")?, member(text, "tv_usec")?].map(i64::to_ne_bytes).concat());
    }
    Ok((number(text)? as i32).to_ne_bytes().to_vec())
}

/// Whether an option's `value` is what `text` stands for.
pub(crate) fn check(text: &str, value: &[u8]) -> Result<(), String> {
    let expected = encode(text)?;
    if value.starts_with(&expected) { Ok(()) } else { Err(format!("the option is {value:?}, not {expected:?}")) }
}
