//! The table that the complete matrix leaves in the repository: a row for each suite, with the commit it ran on.
//!
//! The matrix takes long, so it can be run in parts (`--full --filter`): a part replaces its own rows, as soon as each
//! suite has ended.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::test::SuiteResult;
use crate::workspace::Workspace;

pub(crate) const PATH: &str = "docs/results/tests.md";

/// See the module.
pub(crate) struct Table {
    path: PathBuf,
    /// Of the code that is being tested.
    commit: String,
    rows: Vec<Row>,
}

/// A suite's name, its line in the table, and the lines of what it left out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: String,
    line: String,
    remarks: Vec<String>,
}

impl Table {
    /// The table with the rows of these suites as far as they have been run before.
    pub(crate) fn open(workspace: &Workspace, suites: &[String]) -> Result<Table> {
        let path = workspace.root.join(PATH);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut earlier = parse(&text);
        let known = |row: &Row| suites.contains(&row.name);
        earlier.retain(known);
        std::fs::create_dir_all(path.parent().context("no parent folder")?)?;
        Ok(Table { path, commit: commit(workspace), rows: earlier })
    }

    /// Replaces a suite's row and writes the file.
    pub(crate) fn put(&mut self, result: &SuiteResult) -> Result<()> {
        let row = Row::new(result, &self.commit);
        match self.rows.iter_mut().find(|r| r.name == row.name) {
            Some(earlier) => *earlier = row,
            None => self.rows.push(row),
        }
        std::fs::write(&self.path, render(&self.rows)).with_context(|| format!("cannot write {PATH}"))
    }
}

impl Row {
    fn new(result: &SuiteResult, commit: &str) -> Row {
        let (name, c, seconds) = (&result.name, result.counts, result.elapsed.as_secs());
        Row {
            name: name.clone(),
            line: format!("| {name} | {} | {} | {} | {seconds} | {commit} |", c.passed, c.failed, c.skipped),
            remarks: result.remarks.iter().map(|remark| format!("- {name}: {remark}")).collect(),
        }
    }
}

fn render(rows: &[Row]) -> String {
    let mut text = String::from("# Results of `cargo xtask test --full`\n\n");
    let _ = writeln!(text, "Machine: {}.\n", machine());
    text.push_str("| suite | passed | failed | skipped | seconds | commit |\n|---|---:|---:|---:|---:|---|\n");
    rows.iter().for_each(|row| _ = writeln!(text, "{}", row.line));
    if rows.iter().any(|row| !row.remarks.is_empty()) {
        text.push_str("\n## Skipped and remarked\n\n");
        rows.iter().flat_map(|row| &row.remarks).for_each(|remark| _ = writeln!(text, "{remark}"));
    }
    text
}

/// The rows of a text that [`render`] wrote.
fn parse(text: &str) -> Vec<Row> {
    let lines = text.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let row = |line: &str| {
        let name = line.strip_prefix("| ")?.split(' ').next()?.to_owned();
        let mark = format!("- {name}: ");
        let remarks = text.lines().filter(|l| l.starts_with(&mark)).map(str::to_owned).collect();
        Some(Row { name, line: line.to_owned(), remarks })
    };
    lines.map_while(row).collect()
}

/// The commit, with a plus sign if the checkout differs from it.
fn commit(workspace: &Workspace) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(&workspace.root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--", ".", &format!(":!{PATH}")]).is_none_or(|s| !s.is_empty());
    if changed { commit + "+" } else { commit }
}

/// Kernel and number of processors.
pub(crate) fn machine() -> String {
    let uname = rustix::system::uname();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = uname.release().to_string_lossy();
    format!("{} {kernel}, {}, {processors} processors", uname.sysname().to_string_lossy(), std::env::consts::ARCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Counts;

    fn row(name: &str, passed: u64, remarks: &[&str]) -> Row {
        let counts = Counts { passed, failed: 0, skipped: 1 };
        let remarks = remarks.iter().map(|&r| r.to_owned()).collect();
        Row::new(&SuiteResult { name: name.into(), counts, elapsed: Default::default(), remarks }, "abc")
    }

    #[test]
    fn a_row_for_each_suite_and_the_skipped_names() {
        let text = render(&[row("programs", 4, &["SKIP wrk: not installed"])]);
        assert!(text.contains("| programs | 4 | 0 | 1 | 0 | abc |"));
        assert!(text.contains("- programs: SKIP wrk: not installed"));
    }

    #[test]
    fn what_was_written_reads_back() {
        let rows = [row("pairs", 4, &[]), row("pairs-full", 5, &["SKIP a: b", "SKIP c: d"])];
        assert_eq!(parse(&render(&rows)), rows);
        assert_eq!(parse(""), []);
    }
}
