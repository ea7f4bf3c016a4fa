//! Options of a port's name: `@NAME=VALUE` and `@NAME:KEY=VALUE,...`, matched against a list of parsers.

use std::ffi::{CString, c_char, c_int, c_void};

use crate::context::report;
use crate::decode::Wrong;
use crate::layout::{MAXKEYS, Nmctx, OptKey, OptParser, ParseContext};
use crate::text;

pub(crate) const KEY_ALLOWEMPTY: u32 = 1 << 0;
pub(crate) const KEY_MUSTSET: u32 = 1 << 1;
pub(crate) const KEY_DEFAULT: u32 = 1 << 2;
pub(crate) const DISABLED: u32 = 1 << 0;
const ALLOWEMPTY: u32 = 1 << 1;

/// Values by key id.
type Values = [Option<CString>; MAXKEYS];

/// One option, taken apart: its name, and what follows `=` or `:`.
struct Written<'a> {
    name: &'a [u8],
    /// The separator and what follows it.
    value: Option<(u8, &'a [u8])>,
}

impl<'a> Written<'a> {
    fn new(option: &'a [u8]) -> Written<'a> {
        match option.iter().position(|b| b"=:".contains(b)) {
            Some(at) => Written { name: &option[..at], value: Some((option[at], &option[at + 1..])) },
            None => Written { name: option, value: None },
        }
    }

    /// The values of the parser's keys.
    fn values(&self, parser: &OptParser) -> Result<Values, Wrong> {
        let keys = &parser.keys[..(parser.nr_keys.max(0) as usize).min(MAXKEYS)];
        let mut values = Values::default();
        match self.value {
            None if parser.flags & ALLOWEMPTY != 0 => {}
            None => return Err("needs a value".to_owned()),
            Some((b'=', value)) => assign(&mut values, default_of(parser, keys)?, value)?,
            Some((_, list)) => {
                for part in list.split(|b| *b == b',') {
                    assign_part(&mut values, parser, keys, part)?;
                }
            }
        }
        let missing = keys.iter().find(|key| key.flags & KEY_MUSTSET != 0 && values[place(key)].is_none());
        missing.map_or(Ok(values), |key| Err(format!("needs a value for {}", key_name(key))))
    }
}

fn place(key: &OptKey) -> usize {
    key.id.clamp(0, MAXKEYS as c_int - 1) as usize
}

fn key_name(key: &OptKey) -> String {
    // SAFETY: a key has a name (the contract of `nmreq_options_decode`).
    text::shown(unsafe { text::bytes(key.key) })
}

/// The key that a value alone is for.
fn default_of<'a>(parser: &OptParser, keys: &'a [OptKey]) -> Result<&'a OptKey, Wrong> {
    let found = keys.iter().find(|key| key.flags & KEY_DEFAULT != 0 || key.id == parser.default_key);
    found.ok_or_else(|| "takes KEY=VALUE only".to_owned())
}

/// `KEY=VALUE`, a key that may be empty, or a value for the default key.
fn assign_part(values: &mut Values, parser: &OptParser, keys: &[OptKey], part: &[u8]) -> Result<(), Wrong> {
    let (name, value) = match part.iter().position(|b| *b == b'=') {
        Some(at) => (&part[..at], Some(&part[at + 1..])),
        None => (part, None),
    };
    let known = keys.iter().find(|key| key_name(key).as_bytes() == name);
    match (known, value) {
        (Some(key), Some(value)) => assign(values, key, value),
        (Some(key), None) if key.flags & KEY_ALLOWEMPTY != 0 => assign(values, key, b""),
        (None, None) => assign(values, default_of(parser, keys)?, part),
        (Some(_), None) => Err(format!("{} needs a value", text::shown(name))),
        (None, Some(_)) => Err(format!("has no key {}", text::shown(name))),
    }
}

fn assign(values: &mut Values, key: &OptKey, value: &[u8]) -> Result<(), Wrong> {
    if value.is_empty() && key.flags & KEY_ALLOWEMPTY == 0 {
        return Err(format!("{} needs a value", key_name(key)));
    }
    // A piece of a C string has no zero inside.
    let value = CString::new(value).unwrap_or_default();
    match values[place(key)].replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("has {} twice", key_name(key))),
    }
}

/// Takes the options apart and has each parser use the values of its own.
///
/// # Safety
/// `options` points to a string; the parsers, their names and keys are valid; `ctx` is a valid context.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_options_decode(
    options: *const c_char,
    parsers: *mut OptParser,
    token: *mut c_void,
    ctx: *mut Nmctx,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let all = text::bytes(options);
        let Some(list) = all.strip_prefix(b"@") else {
            if all.is_empty() {
                return 0;
            }
            report(ctx, libc::EINVAL, &format!("{:?}: an option begins with @", text::shown(all)));
            return -1;
        };
        for option in list.split(|b| *b == b'@') {
            let answer = decode_one(option, parsers, token, ctx);
            if answer != 0 {
                return answer;
            }
        }
    }
    0
}

/// # Safety
/// As [`nmreq_options_decode`].
unsafe fn decode_one(option: &[u8], parsers: *mut OptParser, token: *mut c_void, ctx: *mut Nmctx) -> c_int {
    let written = Written::new(option);
    // SAFETY: the caller's promise, for all of this.
    unsafe {
        let next = |parser: &*mut OptParser| Some((**parser).next).filter(|next| !next.is_null());
        let mut chain = std::iter::successors(Some(parsers).filter(|first| !first.is_null()), next);
        let parser = chain.find(|parser| text::bytes((**parser).prefix) == written.name);
        let result = match parser {
            None => Err("is no option".to_owned()),
            Some(parser) if (*parser).flags & DISABLED != 0 => Err("is disabled".to_owned()),
            Some(parser) => written.values(&*parser).map(|values| (parser, values)),
        };
        match result {
            Ok((parser, values)) => {
                let keys = std::array::from_fn(|i| values[i].as_ref().map_or(std::ptr::null(), |v| v.as_ptr()));
                let mut context = ParseContext { ctx, token, keys };
                (*parser).parse.map_or(0, |parse| parse(&raw mut context))
            }
            Err(wrong) => {
                report(ctx, libc::EINVAL, &format!("option {:?} {wrong}", text::shown(option)));
                -1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parser() -> OptParser {
        let none = OptKey { key: std::ptr::null(), id: 0, flags: 0 };
        let mut keys = [none; MAXKEYS];
        keys[0] = OptKey { key: c"file".as_ptr(), id: 3, flags: KEY_DEFAULT | KEY_MUSTSET };
        keys[1] = OptKey { key: c"num".as_ptr(), id: 1, flags: 0 };
        let prefix = c"mem".as_ptr();
        OptParser { prefix, parse: None, default_key: 3, nr_keys: 2, flags: 0, next: std::ptr::null_mut(), keys }
    }

    fn values(option: &str) -> Result<(String, String), Wrong> {
        let values = Written::new(option.as_bytes()).values(&parser())?;
        let of = |id: usize| values[id].as_ref().map_or(String::new(), |v| text::shown(v.to_bytes()));
        Ok((of(3), of(1)))
    }

    #[test]
    fn values_alone_and_by_key() {
        let both = Ok(("/a".to_owned(), "5".to_owned()));
        assert_eq!(values("mem:file=/a,num=5"), both);
        assert_eq!(values("mem:num=5,/a"), both);
        assert_eq!(values("mem=/a,b"), Ok(("/a,b".to_owned(), String::new())));
    }

    #[test]
    fn missing_unknown_and_repeated_keys_are_refused() {
        for option in ["mem", "mem=", "mem:num=5", "mem:file=a,file=b", "mem:file=a,what=1", "mem:file=a,num", "mem:"] {
            assert!(values(option).is_err(), "{option}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_option_is_taken_or_refused(option in "(mem)?[=:]?([a-z]{0,4}=?[a-z0-9]{0,3},?){0,4}|[ -~]{0,40}") {
            if let Ok((file, _)) = values(&option) {
                proptest::prop_assert!(!file.is_empty());
            }
        }
    }
}
