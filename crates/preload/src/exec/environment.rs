//! An environment for a new program, with this library in it.

use core::ffi::{CStr, c_char};
use core::fmt::Write;

use crate::{config, copy, spin};

/// Variables that an environment may have to be extended.
const VARIABLES_MAX: usize = 1024;
/// Bytes for the variables that are added; LD_PRELOAD may be long.
const TEXT_BYTES: usize = 8192;
/// Longest LD_PRELOAD that is extended.
const VALUE_BYTES: usize = 4096;

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const SOCKET: &[u8] = b"RINGWAY_SOCKET=";
const DISABLE: &[u8] = b"RINGWAY_DISABLE=";
/// RINGWAY_PROFILE by [`spin::Profile`]'s numbers.
const PROFILES: [&[u8]; 3] = [b"latency", b"balanced", b"efficient"];

/// Room on the caller's stack, where a child of vfork leaves nothing behind.
pub(super) struct Environment {
    variables: [*const c_char; VARIABLES_MAX],
    text: [u8; TEXT_BYTES],
    used: usize,
}

impl Environment {
    pub(super) fn new() -> Environment {
        Environment { variables: [core::ptr::null(); VARIABLES_MAX], text: [0; TEXT_BYTES], used: 0 }
    }

    /// `envp` if the library is in it, otherwise a copy with the library added. `None` if Ringway is switched
    /// off in it or a bound is reached.
    pub(super) fn with_library(&mut self, envp: *const *const c_char) -> Option<*const *const c_char> {
        let path = library_path()?;
        let file_name = path.rsplit(|&b| b == b'/').next()?;
        let mut value = [0u8; VALUE_BYTES];
        let (mut count, mut preload, mut has_socket) = (0, &[][..], false);
        for i in 0.. {
            let variable = at(envp, i)?;
            if variable.is_null() {
                break;
            }
            if begins_with(variable, DISABLE) && !begins_with(variable, b"RINGWAY_DISABLE=0\0") {
                return None;
            }
            has_socket |= begins_with(variable, SOCKET);
            if begins_with(variable, PRELOAD) {
                preload = string(variable.wrapping_add(PRELOAD.len()), &mut value)?;
                continue;
            }
            *self.variables.get_mut(count)? = variable;
            count += 1;
        }
        let has_library = preload.windows(file_name.len()).any(|part| part == file_name);
        if has_library && has_socket {
            return Some(envp);
        }
        let parts: [&[u8]; 4] = match (preload, has_library) {
            (b"", _) => [PRELOAD, path, b"", b""],
            (value, true) => [PRELOAD, value, b"", b""],
            (value, false) => [PRELOAD, value, b":", path],
        };
        count = self.add(count, &parts)?;
        if !has_socket {
            count = self.add_settings(count)?;
        }
        *self.variables.get_mut(count)? = core::ptr::null();
        Some(self.variables.as_ptr())
    }

    /// A copy of `envp` whose LD_PRELOAD does not name the library. `None` if it has none, or a bound is reached.
    ///
    /// # Safety
    /// `envp` is null or an environment as exec takes it: faults may not be survivable yet.
    pub(super) unsafe fn without_library(&mut self, envp: *const *const c_char) -> Option<*const *const c_char> {
        let file_name = library_path()?.rsplit(|&b| b == b'/').next()?;
        let (mut count, mut found) = (0, false);
        for i in 0.. {
            // SAFETY: the array ends with a null pointer, and its strings with a zero.
            let variable =
                unsafe { envp.wrapping_add(i).as_ref().copied().filter(|v| !v.is_null()).map(|v| CStr::from_ptr(v)) };
            let Some(variable) = variable else { break };
            if let Some(preload) = variable.to_bytes().strip_prefix(PRELOAD) {
                found = true;
                count = self.add_preload_without(count, preload, file_name)?;
            } else {
                *self.variables.get_mut(count)? = variable.as_ptr();
                count += 1;
            }
        }
        *self.variables.get_mut(count)? = core::ptr::null();
        found.then_some(self.variables.as_ptr())
    }

    fn add_preload_without(&mut self, count: usize, preload: &[u8], file_name: &[u8]) -> Option<usize> {
        let start = self.used;
        let mut text = Text { bytes: &mut self.text, used: &mut self.used };
        text.push(PRELOAD)?;
        let others = preload.split(|b| b" :".contains(b)).filter(|path| !path.is_empty() && !path.ends_with(file_name));
        for (i, path) in others.enumerate() {
            text.push(if i == 0 { b"" } else { b":" })?;
            text.push(path)?;
        }
        text.push(b"\0")?;
        self.enter(count, start)
    }

    /// What `ringway run` had set for this process.
    fn add_settings(&mut self, count: usize) -> Option<usize> {
        let count = self.add(count, &[SOCKET, config::socket_path()])?;
        let count = self.add(count, &[b"RINGWAY_PROFILE=", PROFILES.get(spin::profile() as usize)?])?;
        let start = self.used;
        let mut text = Text { bytes: &mut self.text, used: &mut self.used };
        write!(text, "RINGWAY_RUN_ID={}\0", config::run_id()).ok()?;
        self.enter(count, start)
    }

    /// Adds a variable made of `parts`.
    fn add(&mut self, count: usize, parts: &[&[u8]]) -> Option<usize> {
        let start = self.used;
        let mut text = Text { bytes: &mut self.text, used: &mut self.used };
        parts.iter().chain(&[&b"\0"[..]]).try_for_each(|part| text.push(part))?;
        self.enter(count, start)
    }

    fn enter(&mut self, count: usize, start: usize) -> Option<usize> {
        *self.variables.get_mut(count)? = self.text.get(start..)?.as_ptr().cast();
        Some(count + 1)
    }
}

/// Appends to a bounded text.
struct Text<'a> {
    bytes: &'a mut [u8; TEXT_BYTES],
    used: &'a mut usize,
}

impl Text<'_> {
    fn push(&mut self, part: &[u8]) -> Option<()> {
        self.bytes.get_mut(*self.used..*self.used + part.len())?.copy_from_slice(part);
        *self.used += part.len();
        Some(())
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, part: &str) -> core::fmt::Result {
        self.push(part.as_bytes()).ok_or(core::fmt::Error)
    }
}

/// Where this library was loaded from.
fn library_path() -> Option<&'static [u8]> {
    // SAFETY: an all-zero Dl_info is valid; the name lives as long as the library is loaded.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        let found = libc::dladdr(library_path as *const () as *const _, &raw mut info) != 0;
        (found && !info.dli_fname.is_null()).then(|| CStr::from_ptr(info.dli_fname).to_bytes())
    }
}

/// Variable number `i`; null at the end (also of a missing environment), `None` for a bad address.
fn at(envp: *const *const c_char, i: usize) -> Option<*const c_char> {
    if envp.is_null() {
        return Some(core::ptr::null());
    }
    // SAFETY: a bad address is survived.
    unsafe { copy::read(envp.wrapping_add(i)) }
}

fn begins_with(variable: *const c_char, prefix: &[u8]) -> bool {
    let mut head = [0u8; 32];
    // SAFETY: the buffer is longer than every prefix; a bad address is survived.
    let missing = unsafe { copy::copy(head.as_mut_ptr(), variable.cast(), prefix.len().min(32)) };
    missing == 0 && head.starts_with(prefix)
}

/// The string at `from` without its final zero; `None` if it is unreadable or too long.
fn string(from: *const c_char, to: &mut [u8; VALUE_BYTES]) -> Option<&[u8]> {
    // SAFETY: the destination has VALUE_BYTES bytes; a bad source is survived.
    let missing = unsafe { copy::copy(to.as_mut_ptr(), from.cast(), VALUE_BYTES) };
    let end = to.iter().position(|&b| b == 0).filter(|&end| end < VALUE_BYTES - missing)?;
    to.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals;
    use crate::testing::in_child;
    use std::ffi::CString;

    fn extended(variables: &[&str]) -> Option<Vec<String>> {
        let strings: Vec<_> = variables.iter().map(|v| CString::new(*v).unwrap()).collect();
        let mut envp: Vec<_> = strings.iter().map(|s| s.as_ptr()).collect();
        envp.push(std::ptr::null());
        let mut environment = Environment::new();
        let given = environment.with_library(envp.as_ptr())?;
        let mut found = Vec::new();
        // SAFETY: a null-terminated array of strings.
        unsafe {
            for i in 0.. {
                if (*given.add(i)).is_null() {
                    break;
                }
                found.push(CStr::from_ptr(*given.add(i)).to_str().unwrap().to_string());
            }
        }
        Some(found)
    }

    fn own_path() -> String {
        String::from_utf8(library_path().unwrap().to_vec()).unwrap()
    }

    #[test]
    fn an_environment_with_the_library_stays_as_it_is() {
        in_child(|| {
            signals::arm();
            let preload = format!("LD_PRELOAD=/lib/other.so:{}", own_path());
            let complete = ["A=1", &preload, "RINGWAY_SOCKET=/x", "B="];
            assert_eq!(extended(&complete).unwrap(), complete);
        });
    }

    #[test]
    fn what_is_missing_is_added() {
        in_child(|| {
            signals::arm();
            let added = extended(&["A=1"]).unwrap();
            assert_eq!(added[..2], ["A=1".to_string(), format!("LD_PRELOAD={}", own_path())]);
            assert!(added[2].starts_with("RINGWAY_SOCKET=") && added[3].starts_with("RINGWAY_PROFILE="));
            assert_eq!(added[4..], ["RINGWAY_RUN_ID=0"]);
            let added = extended(&["LD_PRELOAD=/lib/other.so", "RINGWAY_SOCKET=/x", "A=1"]).unwrap();
            assert_eq!(added[0], "RINGWAY_SOCKET=/x");
            assert_eq!(added[1..], ["A=1".to_string(), format!("LD_PRELOAD=/lib/other.so:{}", own_path())]);
        });
    }

    #[test]
    fn the_library_alone_is_taken_out() {
        in_child(|| {
            let without = |preload: &str| {
                let strings = [CString::new("A=1").unwrap(), CString::new(format!("LD_PRELOAD={preload}")).unwrap()];
                let envp = [strings[0].as_ptr(), strings[1].as_ptr(), std::ptr::null()];
                let mut environment = Environment::new();
                // SAFETY: an environment of ours.
                let given = unsafe { environment.without_library(envp.as_ptr()) }.unwrap();
                // SAFETY: two strings and the end.
                unsafe {
                    assert_eq!((CStr::from_ptr(*given), (*given.add(2)).is_null()), (c"A=1", true));
                    CStr::from_ptr(*given.add(1)).to_str().unwrap().to_string()
                }
            };
            assert_eq!(without(&own_path()), "LD_PRELOAD=");
            assert_eq!(
                without(&format!("/lib/one.so:{} /lib/two.so", own_path())),
                "LD_PRELOAD=/lib/one.so:/lib/two.so"
            );
            // SAFETY: an environment of ours.
            assert!(unsafe { Environment::new().without_library([std::ptr::null()].as_ptr()) }.is_none());
        });
    }

    #[test]
    fn switched_off_stays_switched_off() {
        in_child(|| {
            signals::arm();
            assert_eq!(extended(&["RINGWAY_DISABLE=1"]), None);
            assert!(extended(&["RINGWAY_DISABLE=0"]).is_some());
        });
    }

    #[test]
    fn bounds_and_bad_addresses_are_refused() {
        in_child(|| {
            signals::arm();
            let many: Vec<String> = (0..VARIABLES_MAX).map(|i| format!("V{i}=")).collect();
            assert_eq!(extended(&many.iter().map(String::as_str).collect::<Vec<_>>()), None);
            let long = format!("LD_PRELOAD={}", "x".repeat(VALUE_BYTES));
            assert_eq!(extended(&[&long]), None);
            let mut environment = Environment::new();
            assert!(environment.with_library(std::ptr::null()).is_some(), "no environment is an empty one");
        });
    }
}
