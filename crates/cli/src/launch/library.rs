//! Where `libringway.so` is, and how it gets into a program's environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Overrides the search for the library.
pub(crate) const LIBRARY_VARIABLE: &str = "RINGWAY_LIBRARY";

/// File name of the library.
pub(crate) const LIBRARY_NAME: &str = "libringway.so";

/// Finds the library: `RINGWAY_LIBRARY`, beside the command (and cargo's `deps`), or in the `lib`
/// folders of the command's prefix.
pub(crate) fn find() -> Result<PathBuf> {
    let found = match std::env::var_os(LIBRARY_VARIABLE) {
        Some(path) if !path.is_empty() => {
            let path = PathBuf::from(path);
            if !path.is_file() {
                bail!("{LIBRARY_VARIABLE} names {}, which is no file; unset it or correct the path", path.display());
            }
            path
        }
        _ => {
            let command = std::env::current_exe().context("cannot find the ringway command itself")?;
            search_beside(&command)?
        }
    };
    let path = std::path::absolute(&found)?;
    if path.as_os_str().as_bytes().iter().any(|b| matches!(b, b':' | b' ' | b'\t' | b'\n')) {
        bail!("LD_PRELOAD cannot express the path {:?}: move the library to a path without colon or space", path);
    }
    Ok(path)
}

fn search_beside(command: &Path) -> Result<PathBuf> {
    let folder = command.parent().unwrap_or(Path::new("/"));
    let triplet = format!("../lib/{}-linux-gnu", std::env::consts::ARCH);
    let folders = [".", "deps", "../lib", "../lib/ringway", &triplet].map(|f| folder.join(f));
    let candidates = folders.iter().map(|f| f.join(LIBRARY_NAME));
    match candidates.clone().find(|path| path.is_file()) {
        // Shown in /proc/PID/maps and in messages, so without the dots.
        Some(path) => Ok(path.canonicalize()?),
        None => {
            let looked: Vec<_> = candidates.map(|path| path.display().to_string()).collect();
            bail!("{LIBRARY_NAME} not found (looked at {}); set {LIBRARY_VARIABLE} to its path", looked.join(", "))
        }
    }
}

/// `LD_PRELOAD` with `library` appended, other libraries kept and in front, never named twice.
pub(crate) fn preload_value(existing: Option<&OsStr>, library: &Path) -> OsString {
    let library = library.as_os_str().as_bytes();
    let existing = existing.map(OsStr::as_bytes).unwrap_or_default();
    let is_separator = |b: &u8| matches!(b, b':' | b' ');
    let mut entries: Vec<&[u8]> = existing.split(is_separator).filter(|e| !e.is_empty()).collect();
    if !entries.contains(&library) {
        entries.push(library);
    }
    OsString::from_vec(entries.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_appended_once() {
        let library = Path::new("/usr/lib/libringway.so");
        let with = |existing: Option<&str>| preload_value(existing.map(OsStr::new), library);
        assert_eq!(with(None), "/usr/lib/libringway.so");
        assert_eq!(with(Some("")), "/usr/lib/libringway.so");
        assert_eq!(with(Some("/a.so")), "/a.so:/usr/lib/libringway.so");
        assert_eq!(with(Some("/a.so /b.so")), "/a.so:/b.so:/usr/lib/libringway.so");
        assert_eq!(with(Some("/a.so:/usr/lib/libringway.so")), "/a.so:/usr/lib/libringway.so");
    }

    #[test]
    fn the_search_names_every_place_it_looked_at() {
        let error = search_beside(Path::new("/nowhere/bin/ringway")).unwrap_err().to_string();
        for place in ["/nowhere/bin/./lib", "/nowhere/bin/../lib/lib", "ringway/lib", "RINGWAY_LIBRARY"] {
            assert!(error.contains(place), "{place} missing in {error}");
        }
    }

    #[test]
    fn the_prefix_layout_is_found() {
        let prefix = tempfile::tempdir().unwrap();
        let library = prefix.path().join("lib/ringway");
        std::fs::create_dir_all(&library).unwrap();
        std::fs::create_dir_all(prefix.path().join("bin")).unwrap();
        std::fs::write(library.join(LIBRARY_NAME), "").unwrap();
        let found = search_beside(&prefix.path().join("bin/ringway")).unwrap();
        assert_eq!(found, library.canonicalize().unwrap().join(LIBRARY_NAME));
    }
}
