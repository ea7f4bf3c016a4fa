//! What no file may hold, and what each must begin with.

use anyhow::Result;

use super::tree::{File, Tree};
use crate::workspace::Workspace;

/// Written in two halves, so that this file does not hold them itself.
const BANNED: &[(&str, &str)] = &[
    (concat!("todo", "!("), "finish it or leave it out"),
    (concat!("unimplemented", "!("), "finish it or leave it out"),
    (concat!("dbg", "!("), "left over from debugging"),
    (concat!("TO", "DO"), "do it, or open an issue"),
    (concat!("FIX", "ME"), "mend it, or open an issue"),
    (concat!("XX", "X"), "say what is meant"),
    (concat!("for ", "now"), "say until when, or what the limit is"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("artifact", "ory"), "a registry's host"),
    (concat!("sparse+", "http"), "a registry's address"),
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn banned(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    Ok(problems(tree.files.iter().filter(|f| f.path != "Cargo.lock"), |line| {
        let (word, why) = BANNED.iter().find(|(word, _)| line.contains(word))?;
        Some(format!("`{word}`: {why}"))
    }))
}

pub(crate) fn whitespace(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let ours = || tree.files.iter().filter(|f| f.path != "Cargo.lock");
    let mut found = problems(ours(), |line| {
        let what = if line.contains('\t') {
            "a tab"
        } else if line.ends_with([' ', '\r']) {
            "blank at the end"
        } else {
            return None;
        };
        Some(what.to_owned())
    });
    let open = ours().filter(|f| !f.text.is_empty() && (!f.text.ends_with('\n') || f.text.ends_with("\n\n")));
    found.extend(open.map(|f| format!("{}: ends with no newline, or with more than one", f.path)));
    Ok(found)
}

pub(crate) fn module_docs(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    // What a file of tests is for, its name and its tests say.
    let modules = tree.rust().filter(|f| f.path.contains("/src/") && !f.path.ends_with("tests.rs"));
    let bare = modules.filter(|f| !f.text.starts_with("//!"));
    Ok(bare.map(|f| format!("{}: begin with `//!` and what the module is for", f.path)).collect())
}

pub(crate) fn ignored_tests(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let bare = concat!("#[ign", "ore]");
    Ok(problems(tree.rust(), |line| {
        line.trim_start().starts_with(bare).then(|| format!("{bare} without a reason; write `= \"why\"`"))
    }))
}

/// The lock file and Cargo's configuration must not lead to some private mirror.
pub(crate) fn package_sources(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let of = |name: &'static str| tree.files.iter().filter(move |f| f.path == name);
    let mut found = problems(of("Cargo.lock"), |line| {
        let source = line.strip_prefix("source = ")?;
        (source.trim_matches('"') != CRATES_IO).then(|| format!("package source {source}"))
    });
    found.extend(problems(of(".cargo/config.toml"), |line| {
        let changed = line.trim_start().starts_with("[source") || line.trim_start().starts_with("[registr");
        changed.then(|| "changes where packages come from".to_owned())
    }));
    Ok(found)
}

fn problems<'t>(files: impl Iterator<Item = &'t File>, judge: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let of_file = |file: &File| -> Vec<String> {
        let lines = file.text.split_terminator('\n').enumerate();
        lines.filter_map(|(n, line)| judge(line).map(|what| file.at(n, &what))).collect()
    };
    files.flat_map(of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: super::super::Rule, path: &str, text: &str) -> usize {
        rule(&Workspace::find().unwrap(), &Tree::of(&[(path, text)])).unwrap().len()
    }

    #[test]
    fn every_banned_word_is_found() {
        for (word, _) in BANNED {
            assert_eq!(check(banned, "a.md", &format!("ok\n a {word} b\n")), 1, "{word}");
        }
        assert_eq!(check(banned, "a.md", "all is well\n"), 0);
    }

    #[test]
    fn stray_blanks_are_found() {
        assert_eq!(check(whitespace, "a.md", "a \nb\tc\nd\r\n"), 3);
        assert_eq!(check(whitespace, "a.md", "a\n\n"), 1);
        assert_eq!(check(whitespace, "a.md", "a"), 1);
        assert_eq!(check(whitespace, "a.md", "a\nb\n"), 0);
    }

    #[test]
    fn a_module_without_documentation_is_found() {
        assert_eq!(check(module_docs, "crates/mem/src/a.rs", "use x;\n"), 1);
        assert_eq!(check(module_docs, "crates/mem/src/a.rs", "//! About.\nuse x;\n"), 0);
    }

    #[test]
    fn an_ignored_test_without_a_reason_is_found() {
        assert_eq!(check(ignored_tests, "a.rs", concat!("    #[ign", "ore]\n")), 1);
        assert_eq!(check(ignored_tests, "a.rs", "#[ignore = \"needs root\"]\n"), 0);
    }

    #[test]
    fn a_mirror_is_found() {
        assert_eq!(check(package_sources, "Cargo.lock", "source = \"registry+https://mirror.example.org\"\n"), 1);
        assert_eq!(check(package_sources, "Cargo.lock", &format!("source = \"{CRATES_IO}\"\n")), 0);
        assert_eq!(check(package_sources, ".cargo/config.toml", "[source.crates-io]\n"), 1);
    }
}
