//! Results for the browser.

use std::fmt::Write;

use super::super::plot::{Bar, bars, document, escaped};
use super::super::worker::Sample;
use super::report::{CaseResult, ContestantResult, Report};
use super::table::{circumstances, promise, quantity, seen};

/// The whole page.
pub(crate) fn page(report: &Report) -> String {
    let cases: String = report.cases.iter().map(section).collect();
    document("ringway bench packets", &circumstances(report), &(targets(report) + &cases))
}

fn targets(report: &Report) -> String {
    if report.targets.is_empty() {
        return String::new();
    }
    let mut text = "<h2>Targets</h2>\n<table><tr><th>case<th>what<th>target<th>seen<th>\n".to_owned();
    for verdict in &report.targets {
        let (what, target) = promise(verdict);
        let kept = if verdict.kept { "kept" } else { "<b class=bad>missed</b>" };
        let _ = writeln!(text, "<tr><td>{}<td>{what}<td>{target}<td>{}<td>{kept}", verdict.case, seen(verdict));
    }
    text + "</table>\n"
}

fn section(case: &CaseResult) -> String {
    let mut text = format!("<h2>{}</h2>\n", escaped(&case.title));
    let all: Vec<Bar> = case.contestants.iter().filter_map(|contestant| bar(case, contestant)).collect();
    text += &bars(&all);
    for contestant in &case.contestants {
        for (what, why) in [("skipped", &contestant.skipped), ("failed", &contestant.failed)] {
            if let Some(why) = why {
                let _ = writeln!(text, "<p class=bad>{} {what}: {}</p>", escaped(&contestant.contestant), escaped(why));
            }
        }
    }
    text + &details(case)
}

fn bar<'a>(case: &CaseResult, contestant: &'a ContestantResult) -> Option<Bar<'a>> {
    let figure = *contestant.metrics.get(&case.metric)?;
    let is_first = contestant.first_to_this.is_none();
    let times = contestant.first_to_this.map_or(String::new(), |t| format!(" (first is {:.2} times)", t.median));
    Some(Bar {
        name: &contestant.contestant,
        figure,
        colour: if is_first { "#1f6feb" } else { "#b5bcc4" },
        text: quantity(&case.metric, figure.median) + &times,
    })
}

/// All metrics, medians of the rounds.
fn details(case: &CaseResult) -> String {
    let names: std::collections::BTreeSet<&String> = case.contestants.iter().flat_map(|c| c.metrics.keys()).collect();
    let mut text = "<details><summary>all metrics</summary><table><tr><th>".to_owned();
    text.extend(names.iter().map(|name| format!("<th>{name}")));
    for contestant in &case.contestants {
        let medians: Sample = contestant.metrics.iter().map(|(name, s)| (name.clone(), s.median)).collect();
        let _ = write!(text, "\n<tr><td>{}", escaped(&contestant.contestant));
        text.extend(
            names.iter().map(|n| medians.get(*n).map_or("<td>".into(), |v| format!("<td>{}", quantity(n, *v)))),
        );
    }
    text + "</table></details>\n"
}
