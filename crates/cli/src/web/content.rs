//! What a request's target means: a file below a folder, or a reply of a fixed size.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use super::reply::Status;

/// What the server answers with.
pub(crate) enum Content {
    /// Files below this folder, which is an absolute path without links.
    Folder(PathBuf),
    /// So many bytes for every target.
    Fixed(u64),
    /// No HTTP: what comes goes back (RFC 862).
    Echo,
}

/// A reply's body.
#[derive(Debug)]
pub(crate) enum Body {
    /// So many bytes of a file, from where it stands.
    File(File, u64),
    /// So many bytes of filling.
    Filling(u64),
}

/// A body with what its head says.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) body: Body,
    pub(crate) bytes: u64,
    pub(crate) content_type: &'static str,
    pub(crate) modified: Option<SystemTime>,
}

impl Content {
    /// # Errors
    /// There is no such folder.
    pub(crate) fn folder(path: &Path) -> Result<Content> {
        let path = path.canonicalize().with_context(|| format!("folder {}", path.display()))?;
        ensure!(path.is_dir(), "{} is no folder", path.display());
        Ok(Content::Folder(path))
    }

    pub(crate) fn find(&self, target: &str) -> Result<Found, Status> {
        match self {
            Content::Fixed(bytes) => Ok(Found {
                body: Body::Filling(*bytes),
                bytes: *bytes,
                content_type: "application/octet-stream",
                modified: None,
            }),
            Content::Folder(root) => find_file(root, target),
            Content::Echo => Err(Status::NotImplemented),
        }
    }
}

fn find_file(root: &Path, target: &str) -> Result<Found, Status> {
    let mut path = root.join(relative(target)?);
    if path.is_dir() {
        path.push("index.html");
    }
    // Links may lead out of the folder; what lies there is nobody's business.
    let path = path.canonicalize().map_err(|_| Status::NotFound)?;
    if !path.starts_with(root) {
        return Err(Status::NotFound);
    }
    let content_type = content_type(&path);
    let metadata = path.metadata().map_err(|_| Status::NotFound)?;
    // Opening a pipe would wait for its other end.
    if !metadata.is_file() {
        return Err(Status::NotFound);
    }
    let file = File::open(&path).map_err(|_| Status::Failed)?;
    let bytes = metadata.len();
    Ok(Found { body: Body::File(file, bytes), bytes, content_type, modified: metadata.modified().ok() })
}

/// A target's path without its leading slash, decoded; never one that leads upwards.
fn relative(target: &str) -> Result<PathBuf, Status> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    // RFC 9112 3.2.2: "a server MUST accept the absolute-form in requests".
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => path,
    };
    let path = path.strip_prefix('/').ok_or(Status::BadRequest)?;
    let decoded = String::from_utf8(decode(path).ok_or(Status::BadRequest)?).map_err(|_| Status::BadRequest)?;
    let is_tame = |part: &str| part != ".." && !part.contains('\0');
    if decoded.starts_with('/') || !decoded.split('/').all(is_tame) {
        return Err(Status::NotFound);
    }
    Ok(PathBuf::from(decoded))
}

/// `%41` becomes `A` (RFC 3986, 2.1).
fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
                (digit()? << 4 | digit()?) as u8
            }
            byte => byte,
        });
    }
    Some(out)
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("txt" | "md" | "log") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_become_paths_that_stay_inside() {
        let path = |target| relative(target).map(|path| path.to_str().unwrap().to_owned());
        assert_eq!(path("/a/b.txt?c=../d").as_deref(), Ok("a/b.txt"));
        assert_eq!(path("http://host/a%20b").as_deref(), Ok("a b"));
        assert_eq!(path("http://host").as_deref(), Ok(""));
        for out in ["/../x", "/a/../../x", "/%2e%2e/x", "//etc/passwd", "/a%00"] {
            assert_eq!(path(out), Err(Status::NotFound), "{out}");
        }
        for bad in ["*", "a", "/%4", "/%zz", "/%ff"] {
            assert_eq!(path(bad), Err(Status::BadRequest), "{bad}");
        }
    }

    #[test]
    fn files_are_found_and_links_out_of_the_folder_are_not() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/index.html"), "hello").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
        let content = Content::folder(folder.path()).unwrap();
        let found = content.find("/sub/").unwrap();
        assert_eq!((found.bytes, found.content_type), (5, "text/html; charset=utf-8"));
        assert_eq!(content.find("/out").unwrap_err(), Status::NotFound);
        assert_eq!(content.find("/nothing").unwrap_err(), Status::NotFound);
        assert!(Content::folder(Path::new("/etc/passwd")).is_err());
    }
}
