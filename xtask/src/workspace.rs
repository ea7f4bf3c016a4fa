//! Where things are in this checkout.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The checkout's folders.
pub(crate) struct Workspace {
    /// The repository's root.
    pub(crate) root: PathBuf,
    /// Cargo's target directory.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Finds the checkout from what `cargo run` says about this package.
    pub(crate) fn find() -> Result<Workspace> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").context("start this with `cargo xtask ...`")?;
        let root = Path::new(&manifest).parent().context("xtask has no parent folder")?.to_path_buf();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |t| root.join(t));
        Ok(Workspace { root, target })
    }

    /// A `cargo` command that starts in the root.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// The release build of everything that users get.
    pub(crate) fn build_release(&self) -> Command {
        self.cargo(&["build", "--release", "--workspace", "--exclude", "xtask", "--quiet"])
    }

    /// The release build of the `ringway` command.
    pub(crate) fn ringway(&self) -> PathBuf {
        self.target.join("release/ringway")
    }

    /// The release build of the preloaded library.
    pub(crate) fn library(&self) -> PathBuf {
        self.target.join("release/libringway.so")
    }

    /// The crates' folders, in alphabetical order.
    pub(crate) fn crates(&self) -> Result<Vec<PathBuf>> {
        let folder = self.root.join("crates");
        let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
        let mut found: Vec<PathBuf> =
            entries.flatten().map(|e| e.path()).filter(|p| p.join("Cargo.toml").is_file()).collect();
        found.sort();
        Ok(found)
    }

    /// `path` as people write it: relative to the root.
    pub(crate) fn relative<'p>(&self, path: &'p Path) -> std::path::Display<'p> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}
