//! The documents: those that everybody expects, and the links between them.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::tree::Tree;
use crate::workspace::Workspace;

const EXPECTED: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "STYLE.md",
    "clippy.toml",
    "deny.toml",
    "rust-toolchain.toml",
];

pub(crate) fn documents(workspace: &Workspace, _: &Tree) -> Result<Vec<String>> {
    let missing = EXPECTED.iter().filter(|name| !workspace.root.join(name).is_file());
    Ok(missing.map(|name| format!("{name} is missing")).collect())
}

pub(crate) fn resolve(workspace: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in tree.files.iter().filter(|f| f.path.ends_with(".md")) {
        for (line, target) in links(&file.text) {
            let path = normalized(Path::new(&file.path).parent().unwrap_or(Path::new("")), &target);
            let exists = path.is_some_and(|p| workspace.root.join(p).exists());
            if !exists {
                problems.push(file.at(line, &format!("link to `{target}` leads nowhere")));
            }
        }
    }
    Ok(problems)
}

/// Targets of `[text](target)` that are paths, with their line; code is passed over.
fn links(markdown: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (n, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        if in_fence {
            continue;
        }
        // Every second piece between backticks is code.
        let prose: String = line.split('`').enumerate().map(|(i, s)| if i % 2 == 0 { s } else { "code" }).collect();
        for piece in prose.split("](").skip(1) {
            let target = piece.split([')', ' ', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push((n, target.to_owned()));
            }
        }
    }
    found
}

/// `folder/target` without `.` and `..`; `None` if it leaves the repository.
fn normalized(folder: &Path, target: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir if path.pop() => {}
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text = "[a](b.md) and [c](https://example.org) `[d](e)`\n```\n[f](g)\n```\n[h](i/j.md#part) [k](#l)\n";
        assert_eq!(links(text), [(0, "b.md".to_owned()), (4, "i/j.md".to_owned())]);
    }

    #[test]
    fn dead_links_are_found() {
        let workspace = Workspace::find().unwrap();
        let tree = Tree::of(&[("docs/a.md", "[x](../Cargo.toml) [y](nowhere.md) [z](../../out.md)\n")]);
        assert_eq!(resolve(&workspace, &tree).unwrap().len(), 2);
    }
}
