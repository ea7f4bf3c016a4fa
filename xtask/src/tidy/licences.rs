//! The licences of the packages that we build with: those that deny.toml allows.
//!
//! `cargo deny` checks more; this much needs no further tool.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::tree::Tree;
use crate::workspace::Workspace;

pub(crate) fn allowed(workspace: &Workspace, tree: &Tree) -> Result<Vec<String>> {
    let deny = tree.files.iter().find(|f| f.path == "deny.toml").map_or("", |f| f.text.as_str());
    let allow = allow_list(deny);
    ensure!(!allow.is_empty(), "deny.toml has no list `allow = [...]`");
    let mut command = workspace.cargo(&["tree", "--workspace", "--locked", "--edges", "normal,build"]);
    let output = command.args(["--prefix", "none", "--format", "{p}|{l}"]).output()?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let packages: BTreeSet<(&str, &str)> =
        text.lines().filter_map(|l| l.trim_end_matches(" (*)").split_once('|')).collect();
    let bad = packages.into_iter().filter(|(_, licence)| !acceptable(licence, &allow));
    Ok(bad.map(|(package, licence)| format!("{package}: licence `{licence}` is not in deny.toml")).collect())
}

/// The strings in `allow = [ ... ]`.
fn allow_list(deny: &str) -> Vec<&str> {
    let list = deny.split("\nallow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    list.split('"').skip(1).step_by(2).collect()
}

/// Does the licence expression leave a choice that is allowed? `(A OR B) AND C` is the only use of
/// brackets that occurs: every factor must hold, and a factor holds if one of its choices does.
fn acceptable(expression: &str, allow: &[&str]) -> bool {
    let good = |name: &str| allow.contains(&name.trim().trim_matches(['(', ')']));
    let choice = |factor: &str| factor.replace('/', " OR ").split(" OR ").any(good);
    if expression.contains('(') || !expression.contains(" AND ") {
        expression.split(" AND ").all(choice)
    } else {
        expression.split(" OR ").any(|way| way.split(" AND ").all(good))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_found() {
        assert_eq!(allow_list("[licenses]\nallow = [\n  \"MIT\",\n  \"ISC\",\n]\nx = [\"no\"]\n"), ["MIT", "ISC"]);
        assert!(allow_list("nothing").is_empty());
    }

    #[test]
    fn choices_and_combinations_are_judged() {
        let allow = ["MIT", "Unicode-3.0"];
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "GPL-3.0/MIT",
            "GPL-3.0 OR MIT AND Unicode-3.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
        ] {
            assert!(acceptable(good, &allow), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0"] {
            assert!(!acceptable(bad, &allow), "{bad}");
        }
    }
}
