//! Where unsafe code may be, and that each block is proven.

use anyhow::Result;

use super::tree::{File, Tree};
use crate::workspace::Workspace;

/// Path prefixes below which unsafe code is allowed; everything else forbids it.
const ALLOWED: &[&str] = &[
    "crates/mem/",
    "crates/channel/",
    "crates/preload/",
    "crates/daemon/",
    "crates/port/src/sys/",
    "crates/capi/",
    "crates/mtcp/src/calls/",
    "crates/mtcp/src/signal.rs",
    "crates/packetdrill/src/abi",
    "crates/packetdrill/src/preload.rs",
    "crates/packetdrill/tests/scripts/host.rs",
    "fuzz/",
];

/// Crates whose root must say `#![forbid(unsafe_code)]`: those with no allowed place in them.
pub(crate) fn places(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in tree.rust() {
        if !ALLOWED.iter().any(|prefix| file.path.starts_with(prefix)) {
            let lines = file.code.lines().enumerate().filter(|(_, line)| has_unsafe(line));
            problems.extend(lines.map(|(n, _)| file.at(n, "unsafe code is not allowed here")));
        }
        if is_crate_root(file) && !may_be_unsafe(file) && !file.text.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{}: say `#![forbid(unsafe_code)]`", file.path));
        }
    }
    Ok(problems)
}

pub(crate) fn proofs(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    Ok(tree.rust().flat_map(unproven).collect())
}

fn is_crate_root(file: &File) -> bool {
    file.package().is_some() && (file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs"))
}

fn may_be_unsafe(file: &File) -> bool {
    let folder = file.path.trim_end_matches("lib.rs").trim_end_matches("main.rs");
    ALLOWED.iter().any(|prefix| folder.starts_with(prefix) || prefix.starts_with(folder))
}

/// The keyword as a word of its own.
fn has_unsafe(line: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
}

/// Blocks and impls without a note. The note may stand above the statement that holds the block.
fn unproven(file: &File) -> Vec<String> {
    let code: Vec<&str> = file.code.lines().collect();
    let text: Vec<&str> = file.text.lines().collect();
    let needs_proof = |line: &str| line.contains("unsafe {") || line.trim_start().starts_with("unsafe impl");
    let open = code.iter().enumerate().filter(|(n, line)| needs_proof(line) && !is_proven(&code, &text, *n));
    open.map(|(n, _)| file.at(n, "unsafe without a `// SAFETY:` note above it")).collect()
}

fn is_proven(code: &[&str], text: &[&str], at: usize) -> bool {
    if text[at].contains("SAFETY:") {
        return true;
    }
    for n in (0..at).rev() {
        if text[n].contains("SAFETY:") && !code[n].contains("SAFETY:") {
            return true;
        }
        // Another statement ends (or a block begins) here: what is above belongs to that one.
        if code[n].trim_end().ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        places(&Workspace::find().unwrap(), &Tree::of(&[(path, text)])).unwrap()
    }

    #[test]
    fn unsafe_code_in_the_wrong_place_is_found() {
        let text = "//! X.\n#![forbid(unsafe_code)]\nfn f() { unsafe { g() } } // unsafe\n";
        assert_eq!(
            problems("crates/cli/src/main.rs", text),
            ["crates/cli/src/main.rs:3: unsafe code is not allowed here"]
        );
        assert!(problems("crates/mem/src/lib.rs", text).is_empty());
        assert!(problems("crates/port/src/sys/xdp.rs", text).is_empty());
        assert_eq!(problems("crates/port/src/pipe.rs", text).len(), 1);
    }

    #[test]
    fn a_safe_crate_must_say_so() {
        assert_eq!(problems("crates/wire/src/lib.rs", "//! X.\n").len(), 1);
        assert!(problems("crates/port/src/lib.rs", "//! X.\n").is_empty());
    }

    #[test]
    fn a_block_needs_its_own_proof() {
        let proven = "// SAFETY: it is so.\nlet a = call(\n    unsafe { f() },\n);\nunsafe { g() };\n";
        assert_eq!(unproven(&File::new("a.rs", proven)).len(), 1);
        assert_eq!(unproven(&File::new("a.rs", "fn f() {\n    unsafe { g() }\n}\n")).len(), 1);
        assert!(unproven(&File::new("a.rs", "// SAFETY: yes.\nunsafe impl Send for A {}\n")).is_empty());
        assert!(unproven(&File::new("a.rs", "let s = \"unsafe { }\";\n")).is_empty());
    }
}
