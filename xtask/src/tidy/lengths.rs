//! Lengths of files and functions.

use anyhow::Result;

use super::tree::{File, Tree};
use crate::workspace::Workspace;

const FILE_LINES_MAX: usize = 800;
/// From here on a file is named in the summary.
const FILE_LINES_LONG: usize = 600;
const FUNCTION_LINES_MAX: usize = 69;

pub(crate) fn files(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let source = tree.files.iter().filter(|f| is_source(f));
    let too_long = source.filter(|f| f.text.lines().count() > FILE_LINES_MAX);
    Ok(too_long.map(|f| format!("{}: {} lines", f.path, f.text.lines().count())).collect())
}

pub(crate) fn functions(_: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    Ok(tree.rust().flat_map(long_functions).collect())
}

/// The figures that people like to see beside the rules.
pub(crate) fn summary(tree: &Tree) -> String {
    let mut sizes: Vec<(usize, &str)> = tree.rust().map(|f| (f.text.lines().count(), f.path.as_str())).collect();
    sizes.sort();
    let Some((longest, path)) = sizes.last() else { return "no Rust files".into() };
    let median = sizes[sizes.len() / 2].0;
    let mut text = format!("{} Rust files, median {median} lines, longest {longest} ({path})", sizes.len());
    for (lines, path) in sizes.iter().filter(|(lines, _)| *lines > FILE_LINES_LONG) {
        text += &format!("\nlong: {path} ({lines} lines)");
    }
    text
}

fn is_source(file: &File) -> bool {
    [".rs", ".py", ".c", ".h"].iter().any(|end| file.path.ends_with(end))
}

/// In code that rustfmt formatted, a body ends at the first `}` that is indented like its `fn`.
fn long_functions(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.code.lines().collect();
    let mut problems = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let Some(length) = body_lines(&lines[start..]) else { continue };
        if length > FUNCTION_LINES_MAX {
            problems.push(file.at(start, &format!("function `{name}` has {length} lines")));
        }
    }
    problems
}

/// The name, if a function's signature begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    while let Some((word, tail)) = rest.split_once(' ') {
        match word {
            "fn" => return tail.split(['(', '<']).next(),
            "pub" | "const" | "async" | "unsafe" | "extern" | "default" => rest = tail.trim_start(),
            _ if word.starts_with("pub(") => rest = tail.trim_start(),
            _ => return None,
        }
    }
    None
}

/// Lines from the signature to the closing brace; `None` for a declaration without a body.
fn body_lines(lines: &[&str]) -> Option<usize> {
    let indent = lines[0].len() - lines[0].trim_start().len();
    for (n, line) in lines.iter().enumerate() {
        let (at, trimmed) = (line.len() - line.trim_start().len(), line.trim());
        let ends_here = trimmed == "}" && at == indent;
        let one_line = n == 0 && trimmed.ends_with('}');
        if ends_here || one_line {
            return Some(n + 1);
        }
        if at == indent && trimmed.ends_with(';') {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_functions_are_found_and_short_ones_are_not() {
        let body =
            |n| format!("impl X {{\n    pub(crate) unsafe fn f(&self) {{\n{}    }}\n}}\n", "        a();\n".repeat(n));
        let long = File::new("crates/mem/src/a.rs", &body(68));
        assert_eq!(long_functions(&long), ["crates/mem/src/a.rs:2: function `f` has 70 lines"]);
        assert!(long_functions(&File::new("a.rs", &body(67))).is_empty());
    }

    #[test]
    fn declarations_and_one_liners_are_passed_over() {
        let text = format!("trait T {{\n    fn a(&self);\n    fn b() {{}}\n}}\n{}", "// x\n".repeat(100));
        assert!(long_functions(&File::new("a.rs", &text)).is_empty());
    }

    #[test]
    fn long_files_are_found() {
        let workspace = Workspace::find().unwrap();
        let tree = Tree::of(&[("a.py", &"x\n".repeat(801)), ("b.py", &"x\n".repeat(800))]);
        assert_eq!(files(&workspace, &tree).unwrap(), ["a.py: 801 lines"]);
    }
}
