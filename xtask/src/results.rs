//! The table that a complete test run leaves in the repository.

use std::fmt::Write;

use anyhow::{Context, Result};

use crate::counts::Counts;
use crate::test::SuiteResult;
use crate::workspace::Workspace;

const PATH: &str = "docs/results/sockets.md";

/// Writes the table of a complete run.
pub(crate) fn write(workspace: &Workspace, results: &[SuiteResult], sum: Counts) -> Result<()> {
    let path = workspace.root.join(PATH);
    std::fs::create_dir_all(path.parent().context("no parent folder")?)?;
    std::fs::write(&path, render(results, sum)).with_context(|| format!("cannot write {PATH}"))?;
    println!("results: {PATH}");
    Ok(())
}

fn render(results: &[SuiteResult], sum: Counts) -> String {
    let mut text = String::from("# Results of `cargo xtask test --full`\n\n");
    let _ = writeln!(text, "Machine: {}.\n", machine());
    text.push_str("| suite | passed | failed | skipped | seconds |\n|---|---:|---:|---:|---:|\n");
    for r in results {
        let c = r.counts;
        let seconds = r.elapsed.as_secs();
        let _ = writeln!(text, "| {} | {} | {} | {} | {seconds} |", r.name, c.passed, c.failed, c.skipped);
    }
    let _ = writeln!(text, "| **all** | {} | {} | {} | |", sum.passed, sum.failed, sum.skipped);
    let remarks: Vec<_> = results.iter().filter(|r| !r.remarks.is_empty()).collect();
    if !remarks.is_empty() {
        text.push_str("\n## Skipped and remarked\n\n");
        for r in remarks {
            r.remarks.iter().for_each(|remark| _ = writeln!(text, "- {}: {remark}", r.name));
        }
    }
    text
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

    #[test]
    fn a_row_for_each_suite_and_the_skipped_names() {
        let counts = Counts { passed: 4, failed: 0, skipped: 1 };
        let remarks = vec!["SKIP wrk: not installed".to_owned()];
        let result = SuiteResult { name: "programs".into(), counts, elapsed: Default::default(), remarks };
        let text = render(&[result], counts);
        assert!(text.contains("| programs | 4 | 0 | 1 | 0 |"));
        assert!(text.contains("- programs: SKIP wrk: not installed"));
    }
}
