//! The repository's text files, read once.

use std::path::Path;

use anyhow::{Context, Result};

use super::lexer;

/// Folders that hold no text of ours.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "artifacts", "node_modules", "__pycache__", ".venv"];
/// What we read, by the end of the name; everything else is taken for data.
const TEXT: &[&str] =
    &["rs", "toml", "md", "py", "c", "h", "sh", "service", "socket", "yml", "yaml", "json", "html", "lock", "run"];

/// One text file.
pub(crate) struct File {
    /// Relative to the root, with slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Rust only: the text with comments and literals blanked out, line for line.
    pub(crate) code: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> File {
        let code = if path.ends_with(".rs") { lexer::code_only(text) } else { String::new() };
        File { path: path.to_owned(), text: text.to_owned(), code }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The crate's folder name, for files below `crates/`; `xtask` and `fuzz` for these.
    pub(crate) fn package(&self) -> Option<&str> {
        let mut parts = self.path.split('/');
        match parts.next()? {
            "crates" => parts.next(),
            top @ ("xtask" | "fuzz") => Some(top),
            _ => None,
        }
    }

    /// `path:line: what`, with lines counted from 1.
    pub(crate) fn at(&self, line_index: usize, what: &str) -> String {
        format!("{}:{}: {what}", self.path, line_index + 1)
    }
}

/// All of them, in the order of their paths.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        read_folder(root, root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| f.is_rust())
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| File::new(path, text)).collect() }
    }
}

fn read_folder(root: &Path, folder: &Path, files: &mut Vec<File>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                read_folder(root, &path, files)?;
            }
        } else if kind.is_file() && TEXT.contains(&name.rsplit('.').next().unwrap_or_default()) {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.push(File::new(&path.strip_prefix(root)?.to_string_lossy(), &text));
        }
    }
    Ok(())
}
