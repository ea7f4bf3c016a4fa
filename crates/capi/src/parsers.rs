//! The options that a port's name may have: share, conf, extmem and offset (which is off until it is enabled).

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::context::{report, set_errno};
use crate::extmem::{self, nmport_extmem_from_file, nmport_offset};
use crate::layout::{MAXKEYS, Nmctx, Nmport, OptKey, OptParser, ParseContext};
use crate::options::nmreq_get_mem_id;
use crate::parse::{DISABLED, KEY_DEFAULT, KEY_MUSTSET, nmreq_options_decode};
use crate::text;

type Parse = unsafe extern "C" fn(*mut ParseContext) -> c_int;

/// An option: its name, what it does, the place of its default key and the names of its keys in the order of their ids.
struct Known {
    name: &'static CStr,
    parse: Parse,
    default_key: c_int,
    must_set: bool,
    keys: &'static [&'static CStr],
}

const KNOWN: [Known; 4] = [
    Known { name: c"share", parse: share, default_key: 0, must_set: true, keys: &[c"port"] },
    Known {
        name: c"conf",
        parse: conf,
        default_key: 0,
        must_set: false,
        keys: &[
            c"rings",
            c"tx-rings",
            c"rx-rings",
            c"host-rings",
            c"host-tx-rings",
            c"host-rx-rings",
            c"slots",
            c"tx-slots",
            c"rx-slots",
        ],
    },
    Known {
        name: c"extmem",
        parse: from_file,
        default_key: 0,
        must_set: true,
        keys: &[c"file", c"if-num", c"if-size", c"ring-num", c"ring-size", c"buf-num", c"buf-size"],
    },
    Known { name: c"offset", parse: offset, default_key: 0, must_set: true, keys: &[c"initial", c"bits"] },
];
const OFFSET: u32 = 3;

/// Which of them are disabled, a bit each.
static OFF: AtomicU32 = AtomicU32::new(1 << OFFSET);

fn bit_of(name: *const c_char) -> Option<u32> {
    // SAFETY: callers pass a string.
    let name = unsafe { text::bytes(name) };
    KNOWN.iter().position(|known| known.name.to_bytes() == name).map(|at| 1 << at)
}

/// From now on the option is refused in names.
///
/// # Safety
/// `option` points to a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_disable_option(option: *const c_char) {
    OFF.fetch_or(bit_of(option).unwrap_or(0), Relaxed);
}

/// # Safety
/// `option` points to a string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmport_enable_option(option: *const c_char) -> c_int {
    let Some(bit) = bit_of(option) else {
        set_errno(libc::EOPNOTSUPP);
        return -1;
    };
    OFF.fetch_and(!bit, Relaxed);
    0
}

/// Applies the options of a name to a port.
///
/// # Safety
/// `options` points to a string, `port` is a valid port.
pub(crate) unsafe fn apply(options: *const c_char, port: *mut Nmport) -> c_int {
    let mut parsers: [OptParser; KNOWN.len()] = std::array::from_fn(parser);
    for i in 1..parsers.len() {
        let next = &raw mut parsers[i];
        parsers[i - 1].next = next;
    }
    // SAFETY: the caller's promise; the parsers live until the call is over.
    unsafe { nmreq_options_decode(options, &raw mut parsers[0], port.cast(), (*port).ctx) }
}

fn parser(at: usize) -> OptParser {
    let known = &KNOWN[at];
    let mut keys = [OptKey { key: std::ptr::null(), id: 0, flags: 0 }; MAXKEYS];
    for (id, (key, name)) in keys.iter_mut().zip(known.keys).enumerate() {
        let is_default = id == known.default_key as usize;
        let must_set = if is_default && known.must_set { KEY_MUSTSET } else { 0 };
        *key =
            OptKey { key: name.as_ptr(), id: id as c_int, flags: if is_default { KEY_DEFAULT | must_set } else { 0 } };
    }
    OptParser {
        prefix: known.name.as_ptr(),
        parse: Some(known.parse),
        default_key: known.default_key,
        nr_keys: known.keys.len() as c_int,
        flags: if OFF.load(Relaxed) & 1 << at != 0 { DISABLED } else { 0 },
        next: std::ptr::null_mut(),
        keys,
    }
}

/// The number that a key has; None if it has none.
///
/// # Safety
/// `context` is what a parser gets.
unsafe fn number(context: *mut ParseContext, key: usize, max: u64) -> Result<Option<u64>, ()> {
    // SAFETY: the caller's promise.
    unsafe {
        let text = text::bytes((*context).keys[key]);
        if (*context).keys[key].is_null() {
            return Ok(None);
        }
        let value = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
        match value.filter(|n| *n <= max) {
            Some(n) => Ok(Some(n)),
            None => {
                let wrong = format!("{:?} is no number from 0 to {max}", text::shown(text));
                report((*context).ctx, libc::EINVAL, &wrong);
                Err(())
            }
        }
    }
}

/// The port whose options are parsed.
///
/// # Safety
/// `context` is what a parser of [`apply`] gets.
unsafe fn port_of(context: *mut ParseContext) -> (*mut Nmport, *mut Nmctx) {
    // SAFETY: `apply` passes the port as the token.
    unsafe { ((*context).token.cast(), (*context).ctx) }
}

unsafe extern "C" fn share(context: *mut ParseContext) -> c_int {
    // SAFETY: as in `port_of`.
    unsafe {
        let (port, ctx) = port_of(context);
        let mut name = (*context).keys[0];
        let mem_id = nmreq_get_mem_id(&raw mut name, ctx);
        if mem_id < 0 {
            return -1;
        }
        if (*port).reg.nr_mem_id != 0 && i32::from((*port).reg.nr_mem_id) != mem_id {
            report(ctx, libc::EINVAL, "two different memory regions for one port");
            return -1;
        }
        (*port).reg.nr_mem_id = mem_id as u16;
    }
    0
}

unsafe extern "C" fn conf(context: *mut ParseContext) -> c_int {
    // SAFETY: as in `port_of`.
    let result = unsafe { read_conf(context) };
    result.map_or(-1, |()| 0)
}

/// Less specific keys first, so that the others override them.
///
/// # Safety
/// As [`port_of`].
unsafe fn read_conf(context: *mut ParseContext) -> Result<(), ()> {
    // SAFETY: the caller's promise.
    unsafe {
        let reg = &mut (*port_of(context).0).reg;
        let rings = |key| number(context, key, u16::MAX.into()).map(|n| n.map(|n| n as u16));
        let slots = |key| number(context, key, u32::MAX.into()).map(|n| n.map(|n| n as u32));
        let (both, host, of_each) = (rings(0)?, rings(3)?, slots(6)?);
        for (field, both, own) in [
            (&mut reg.nr_tx_rings, both, rings(1)?),
            (&mut reg.nr_rx_rings, both, rings(2)?),
            (&mut reg.nr_host_tx_rings, host, rings(4)?),
            (&mut reg.nr_host_rx_rings, host, rings(5)?),
        ] {
            *field = own.or(both).unwrap_or(*field);
        }
        for (field, own) in [(&mut reg.nr_tx_slots, slots(7)?), (&mut reg.nr_rx_slots, slots(8)?)] {
            *field = own.or(of_each).unwrap_or(*field);
        }
    }
    Ok(())
}

unsafe extern "C" fn from_file(context: *mut ParseContext) -> c_int {
    // SAFETY: as in `port_of`.
    unsafe {
        let (port, _) = port_of(context);
        let mut sizes = [0; 6];
        for (key, size) in sizes.iter_mut().enumerate() {
            let Ok(found) = number(context, key + 1, u32::MAX.into()) else { return -1 };
            *size = found.unwrap_or(0) as u32;
        }
        if nmport_extmem_from_file(port, (*context).keys[0]) != 0 {
            return -1;
        }
        extmem::set_sizes(port, sizes);
    }
    0
}

unsafe extern "C" fn offset(context: *mut ParseContext) -> c_int {
    // SAFETY: as in `port_of`.
    unsafe {
        let (port, _) = port_of(context);
        let (Ok(initial), Ok(bits)) = (number(context, 0, u64::MAX), number(context, 1, 64)) else { return -1 };
        let initial = initial.unwrap_or(0);
        nmport_offset(port, initial, initial, bits.unwrap_or(0), 0)
    }
}
