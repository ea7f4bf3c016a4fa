//! The repository's own rules, as tests: layers, lengths, words, unsafe code, links.
//!
//! Every rule is one function from the files to a list of problems, each `path:line: what is wrong`.

mod layers;
mod lengths;
mod lexer;
mod licences;
mod links;
mod tree;
mod unsafety;
mod words;

use anyhow::Result;

use crate::counts::Counts;
use crate::workspace::Workspace;
use tree::Tree;

type Rule = fn(&Workspace, &Tree) -> Result<Vec<String>>;

const RULES: &[(&str, Rule)] = &[
    ("crates are flat, folder = crate name, arrows as drawn", layers::arrows),
    ("the data-plane crates stay within their package budget", layers::data_plane_budget),
    ("files have at most 800 lines", lengths::files),
    ("functions have fewer than 70 lines", lengths::functions),
    ("no tabs, no blanks at line ends, one newline at the end", words::whitespace),
    ("no banned words or machine paths", words::banned),
    ("packages come from crates.io only", words::package_sources),
    ("packages have licences that deny.toml allows", licences::allowed),
    ("module files begin with their documentation", words::module_docs),
    ("ignored tests give a reason", words::ignored_tests),
    ("unsafe code only where it is allowed, forbidden elsewhere", unsafety::places),
    ("every unsafe block is preceded by its proof", unsafety::proofs),
    ("the documents that everybody expects exist", links::documents),
    ("links between the repository's documents resolve", links::resolve),
];

/// `cargo xtask tidy`: prints the problems; `true` if there are none.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let (counts, problems) = check_all(workspace)?;
    for problem in problems {
        println!("{problem}");
    }
    println!("{}", lengths::summary(&Tree::read(&workspace.root)?));
    println!("{counts}");
    Ok(counts.failed == 0)
}

/// Applies every rule; each counts as one test.
pub(crate) fn check_all(workspace: &Workspace) -> Result<(Counts, Vec<String>)> {
    let tree = Tree::read(&workspace.root)?;
    let (mut counts, mut lines) = (Counts::default(), Vec::new());
    for (name, rule) in RULES {
        let problems = rule(workspace, &tree)?;
        if problems.is_empty() {
            counts.passed += 1;
            continue;
        }
        counts.failed += 1;
        lines.push(format!("broken rule: {name}"));
        lines.extend(problems.into_iter().map(|p| format!("  {p}")));
    }
    Ok((counts, lines))
}
