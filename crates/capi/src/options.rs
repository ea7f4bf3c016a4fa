//! The list of options behind a request's header.

use std::ffi::{c_char, c_int, c_void};

use ringway_netmap::abi::{self, PortInfo, option, reqtype};

use crate::context::{errno, in_words, nmctx_free, nmctx_get, report};
use crate::decode::nmreq_header_decode;
use crate::device;
use crate::layout::{Nmctx, NmreqHeader, NmreqOption};

/// Options of a request at most: as many headers as fit into its 4096 bytes.
const OPTIONS_MAX: usize = abi::REQUEST_BYTES_MAX / size_of::<NmreqOption>();

/// # Safety
/// `header` is a request, whose body, if it has one, is `body`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_header_init(header: *mut NmreqHeader, reqtype: u16, body: *mut c_void) {
    let empty = NmreqHeader {
        nr_version: abi::NETMAP_API,
        nr_reqtype: reqtype,
        nr_reserved: 0,
        nr_name: [0; 64],
        nr_options: 0,
        nr_body: body as u64,
    };
    // SAFETY: the caller's promise.
    unsafe { header.write(empty) };
}

/// # Safety
/// `header` is a request and `option` an option that stays as long as it is in the list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_push_option(header: *mut NmreqHeader, option: *mut NmreqOption) {
    // SAFETY: the caller's promise.
    unsafe {
        (*option).nro_next = (*header).nr_options;
        (*header).nr_options = option as u64;
    }
}

/// The places that say where an option is: the header's word, then each option's; the walk is bounded.
///
/// # Safety
/// `header` is a request with a valid list, which stays as long as the result is used.
unsafe fn links(header: *mut NmreqHeader) -> impl Iterator<Item = *mut u64> {
    // SAFETY: the caller's promise.
    let mut link = unsafe { &raw mut (*header).nr_options };
    std::iter::from_fn(move || {
        let found = link;
        // SAFETY: `link` is the header's word or that of a valid option.
        let option = unsafe { *link } as *mut NmreqOption;
        if option.is_null() {
            return None;
        }
        // SAFETY: the list's options are valid.
        link = unsafe { &raw mut (*option).nro_next };
        Some(found)
    })
    .take(OPTIONS_MAX)
}

/// # Safety
/// `header` is a request with a valid list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_remove_option(header: *mut NmreqHeader, option: *mut NmreqOption) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(link) = links(header).find(|link| **link == option as u64) {
            *link = (*option).nro_next;
            (*option).nro_next = 0;
        }
    }
}

/// # Safety
/// `header` is a request with a valid list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_find_option(header: *mut NmreqHeader, reqtype: u32) -> *mut NmreqOption {
    // SAFETY: the caller's promise.
    unsafe {
        let mut options = links(header).map(|link| *link as *mut NmreqOption);
        options.find(|option| (**option).nro_reqtype == reqtype).unwrap_or(std::ptr::null_mut())
    }
}

/// Frees all options, which are of the default context's memory.
///
/// # Safety
/// `header` is a request with a valid list.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_free_options(header: *mut NmreqHeader) {
    // SAFETY: the caller's promise.
    unsafe { free_options(header, nmctx_get()) }
}

/// Frees all options, which are of the memory of `ctx`.
///
/// # Safety
/// `header` is a request with a valid list, and `ctx` a context.
pub(crate) unsafe fn free_options(header: *mut NmreqHeader, ctx: *mut Nmctx) {
    // SAFETY: the caller's promise; the list is walked before anything is freed.
    unsafe {
        let all: Vec<u64> = links(header).map(|link| *link).collect();
        (*header).nr_options = 0;
        all.into_iter().for_each(|option| nmctx_free(ctx, option as *mut c_void));
    }
}

/// What messages call an option.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nmreq_option_name(reqtype: u32) -> *const c_char {
    let name = match reqtype {
        option::EXTMEM => c"extmem",
        option::SYNC_KLOOP_EVENTFDS => c"sync-kloop-eventfds",
        option::CSB => c"csb",
        option::SYNC_KLOOP_MODE => c"sync-kloop-mode",
        option::OFFSETS => c"offsets",
        _ => c"unknown",
    };
    name.as_ptr()
}

/// What the device said of each option that it refused.
///
/// # Safety
/// `header` is a request with a valid list.
pub(crate) unsafe fn refusals(header: *mut NmreqHeader) -> String {
    // SAFETY: the caller's promise; option names are constants.
    unsafe {
        let options = links(header).map(|link| *link as *mut NmreqOption);
        let refused = options.filter(|option| (**option).nro_status != 0).map(|option| {
            let name = crate::text::shown(crate::text::bytes(nmreq_option_name((*option).nro_reqtype)));
            format!("; option {name}: {}", in_words((*option).nro_status as c_int))
        });
        refused.collect()
    }
}

/// The memory region of the port that `*spec` names, which then points behind the name; -1 if there is none.
///
/// # Safety
/// `spec` points to a string, `ctx` is a valid context.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn nmreq_get_mem_id(spec: *mut *const c_char, ctx: *mut Nmctx) -> i32 {
    let mut body = [0u64; PortInfo::BYTES / 8];
    // SAFETY: the caller's promise; the body is as long as the request's.
    unsafe {
        let mut header = std::mem::zeroed::<NmreqHeader>();
        nmreq_header_init(&raw mut header, reqtype::PORT_INFO_GET, body.as_mut_ptr().cast());
        let before = *spec;
        if nmreq_header_decode(spec, &raw mut header, ctx) != 0 {
            return -1;
        }
        let fd = device::open(ctx);
        let answer = if fd < 0 { -1 } else { device::control(fd, &raw mut header) };
        let errno = errno();
        if fd >= 0 {
            libc::close(fd);
        }
        if answer < 0 {
            let name = crate::text::shown(crate::text::of_field(&header.nr_name));
            if fd >= 0 {
                report(ctx, errno, &format!("{name}: cannot ask for its memory region: {}", in_words(errno)));
            }
            *spec = before;
            return -1;
        }
        let bytes: [u8; PortInfo::BYTES] = std::mem::transmute(body);
        PortInfo::from_bytes(&bytes).nr_mem_id.into()
    }
}
