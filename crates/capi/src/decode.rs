//! Names of ports and what follows them: `subsystem:port`, then rings, memory region and flags.
//!
//! Everything that follows the name is optional: `-3`, `^`, `^0` or `*`, then `@7`, then `/xzrtRT`.

use std::ffi::{c_char, c_int};

use ringway_netmap::abi::{flag, mode};

use crate::context::report;
use crate::layout::{Nmctx, NmreqHeader, NmreqRegister};
use crate::text;

/// Ring numbers have so many bits.
const RING_MAX: u32 = 0xfff;

/// What goes wrong, in words.
pub(crate) type Wrong = String;

/// Rings, flags and memory of a port, as its name has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) mode: u32,
    pub(crate) ringid: u16,
    pub(crate) flags: u64,
    /// None leaves it as it is.
    pub(crate) mem_id: Option<u16>,
}

fn is_identifier(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || b"_.:+".contains(b))
}

/// The port's name as requests have it, and how many bytes it and its subsystem take.
pub(crate) fn name(spec: &[u8]) -> Result<(&[u8], usize), Wrong> {
    let (name_at, port_at) = if spec.starts_with(b"netmap:") {
        (7, 7)
    } else if spec.starts_with(b"vale") {
        let colon = spec.iter().position(|b| *b == b':').ok_or("missing ':' behind the name of a switch")?;
        if !spec[4..colon].iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            return Err("a switch's name has letters, digits and _".to_owned());
        }
        (0, colon + 1)
    } else {
        return Err("a port begins with netmap: or vale".to_owned());
    };
    let end = spec[port_at..].iter().position(|b| b"-*^/@".contains(b)).map_or(spec.len(), |n| port_at + n);
    let mut parts = spec[port_at..end].split(|b| b"{}".contains(b));
    let port = parts.next().unwrap_or_default();
    let pipe = parts.next();
    if !is_identifier(port) || pipe.is_some_and(|pipe| !is_identifier(pipe)) || parts.next().is_some() {
        return Err(format!("{:?} is no name of a port or pipe", text::shown(&spec[port_at..end])));
    }
    Ok((&spec[name_at..end], end))
}

/// Rings, memory region and flags at the beginning of `rest`, and how many bytes they take. It stops before an `@`
/// that no number follows.
pub(crate) fn mode(rest: &[u8]) -> Result<(Mode, usize), Wrong> {
    let mut found = Mode { mode: mode::ALL_NIC, ..Mode::default() };
    let mut at = 0;
    match rest.first() {
        Some(b'-') => {
            (found.mode, at) = (mode::ONE_NIC, 1);
            found.ringid = number(rest, &mut at, RING_MAX, "a ring")? as u16;
        }
        Some(b'^') => {
            (found.mode, at) = (mode::SW, 1);
            if rest.get(at).is_some_and(u8::is_ascii_digit) {
                found.mode = mode::ONE_SW;
                found.ringid = number(rest, &mut at, RING_MAX, "a ring")? as u16;
            }
        }
        Some(b'*') => (found.mode, at) = (mode::NIC_SW, 1),
        _ => {}
    }
    loop {
        match rest.get(at) {
            Some(b'@') if rest.get(at + 1).is_some_and(u8::is_ascii_digit) && found.mem_id.is_none() => {
                at += 1;
                found.mem_id = Some(number(rest, &mut at, u16::MAX.into(), "a memory region")? as u16);
            }
            Some(b'/') => {
                at += 1;
                while let Some(letter) = rest.get(at).filter(|b| **b != b'@') {
                    found.flags |= flag_of(*letter)?;
                    at += 1;
                }
            }
            None | Some(b'@') => return Ok((found, at)),
            Some(other) => return Err(format!("unexpected '{}' behind a port", char::from(*other))),
        }
    }
}

fn flag_of(letter: u8) -> Result<u64, Wrong> {
    Ok(match letter {
        b'x' => flag::EXCLUSIVE,
        b'z' => flag::ZCOPY_MON,
        b't' => flag::MONITOR_TX,
        b'r' => flag::MONITOR_RX,
        b'R' => flag::RX_RINGS_ONLY,
        b'T' => flag::TX_RINGS_ONLY,
        _ => return Err(format!("'{}' is none of the flags x z t r R T", char::from(letter))),
    })
}

fn number(text: &[u8], at: &mut usize, max: u32, what: &str) -> Result<u32, Wrong> {
    let digits = text[*at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[*at..*at + digits]).ok().and_then(|digits| digits.parse().ok());
    *at += digits;
    value.filter(|n| *n <= max).ok_or_else(|| format!("the number of {what} is 0 to {max}"))
}

/// # Safety
/// `spec` points to a string, `header` to a header, `ctx` to a context.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_header_decode(
    spec: *mut *const c_char,
    header: *mut NmreqHeader,
    ctx: *mut Nmctx,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let text = text::bytes(*spec);
        let mut field = [0; 64];
        let result = name(text).and_then(|(name, taken)| match text::fill(&mut field, name) {
            true => Ok(taken),
            false => Err(format!("a name has at most {} bytes", field.len() - 1)),
        });
        match result {
            Ok(taken) => {
                (*header).nr_name = field;
                *spec = (*spec).add(taken);
                0
            }
            Err(wrong) => wrong_spec(ctx, text, &wrong),
        }
    }
}

/// # Safety
/// `spec` points to a string, `reg` to a registration, `ctx` to a context.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_register_decode(
    spec: *mut *const c_char,
    reg: *mut NmreqRegister,
    ctx: *mut Nmctx,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let text = text::bytes(*spec);
        match mode(text) {
            Ok((found, taken)) => {
                ((*reg).nr_mode, (*reg).nr_ringid, (*reg).nr_flags) = (found.mode, found.ringid, found.flags);
                (*reg).nr_mem_id = found.mem_id.unwrap_or((*reg).nr_mem_id);
                *spec = (*spec).add(taken);
                0
            }
            Err(wrong) => wrong_spec(ctx, text, &wrong),
        }
    }
}

/// # Safety
/// `ctx` is a valid context.
unsafe fn wrong_spec(ctx: *mut Nmctx, text: &[u8], wrong: &str) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { report(ctx, libc::EINVAL, &format!("{:?}: {wrong}", text::shown(text))) };
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_rings_flags_or_options_begin() {
        for (spec, expected, rest) in [
            ("netmap:eth0", "eth0", ""),
            ("netmap:eth0.5-3/x", "eth0.5", "-3/x"),
            ("netmap:x{1", "x{1", ""),
            ("netmap:x}name@7", "x}name", "@7"),
            ("vale:p", "vale:p", ""),
            ("vale0:1{b@conf:rings=2", "vale0:1{b", "@conf:rings=2"),
            ("netmap:eth0*", "eth0", "*"),
        ] {
            let (found, taken) = name(spec.as_bytes()).unwrap();
            assert_eq!((text::shown(found).as_str(), &spec[taken..]), (expected, rest));
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for spec in ["", "eth0", "netmap:", "netmap:{1", "netmap:x{", "netmap:x{1{2", "vale0", "vale!:p", "netmap:a b"]
        {
            assert!(name(spec.as_bytes()).is_err(), "{spec}");
        }
    }

    #[test]
    fn rings_memory_and_flags() {
        let plain = Mode { mode: mode::ALL_NIC, ..Mode::default() };
        let both = flag::MONITOR_TX | flag::ZCOPY_MON;
        for (rest, expected, left) in [
            ("", plain, ""),
            ("-12", Mode { mode: mode::ONE_NIC, ringid: 12, ..plain }, ""),
            ("^", Mode { mode: mode::SW, ..plain }, ""),
            ("^3@7", Mode { mode: mode::ONE_SW, ringid: 3, mem_id: Some(7), ..plain }, ""),
            ("*/xR", Mode { mode: mode::NIC_SW, flags: flag::EXCLUSIVE | flag::RX_RINGS_ONLY, ..plain }, ""),
            ("@2/zt", Mode { mem_id: Some(2), flags: both, ..plain }, ""),
            ("/zt@conf:rings=2", Mode { flags: both, ..plain }, "@conf:rings=2"),
        ] {
            let (found, taken) = mode(rest.as_bytes()).unwrap();
            assert_eq!((found, &rest[taken..]), (expected, left), "{rest}");
        }
    }

    #[test]
    fn broken_rings_and_flags_are_refused() {
        for rest in ["-", "-x", "-4096", "*5", "^0x", "/q", "@70000", "-1-2", "x"] {
            assert!(mode(rest.as_bytes()).is_err(), "{rest}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_name_or_refused(text in "(netmap:|vale[0-9]?:?)?[a-z0-9{}^*@/:._+-]{0,20}|[ -~]{0,80}") {
            if let Ok((name, taken)) = name(text.as_bytes()) {
                proptest::prop_assert!(!name.is_empty() && taken <= text.len());
                if let Ok((_, more)) = mode(&text.as_bytes()[taken..]) {
                    proptest::prop_assert!(taken + more <= text.len());
                }
            }
        }
    }
}
