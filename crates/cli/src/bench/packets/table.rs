//! Results for the terminal.

use super::super::machine::Load;
use super::super::report::Summary;
use super::report::{CaseResult, ContestantResult, Report};
use super::targets::Verdict;
use crate::output;
use crate::packets::meter::human;

/// The whole report.
pub(crate) fn table(report: &Report) -> String {
    let rows: Vec<_> = report.cases.iter().flat_map(case_rows).collect();
    let header = ["CASE", "BY", "MEDIAN", "MIN", "MAX", "BITS", "1st IS TIMES", ""];
    let mut text = output::table(&header, &rows, &[2, 3, 4, 5, 6]);
    text += &circumstances(report);
    if !report.targets.is_empty() {
        text += "\n";
        let rows: Vec<_> = report.targets.iter().map(verdict_row).collect();
        text += &output::table(&["", "CASE", "WHAT", "TARGET", "SEEN"], &rows, &[]);
    }
    text
}

fn case_rows(case: &CaseResult) -> Vec<Vec<String>> {
    case.contestants.iter().enumerate().map(|(n, contestant)| row(case, contestant, n == 0)).collect()
}

fn row(case: &CaseResult, contestant: &ContestantResult, is_first: bool) -> Vec<String> {
    let figure = contestant.metrics.get(&case.metric);
    let cell = |of: fn(&Summary) -> f64| figure.map_or(String::new(), |s| quantity(&case.metric, of(s)));
    let bits = contestant.metrics.get("bits_per_s").filter(|bits| bits.median > 0.0);
    let note = match (&contestant.skipped, &contestant.failed, contestant.metrics.get("table_bytes")) {
        (Some(why), ..) => format!("skipped: {why}"),
        (_, Some(why), _) => format!("FAILED: {why}"),
        (.., Some(bytes)) => output::human_bytes(bytes.median as u64),
        _ => String::new(),
    };
    vec![
        if is_first { case.case.clone() } else { String::new() },
        contestant.contestant.clone(),
        cell(|s| s.median),
        cell(|s| s.min),
        cell(|s| s.max),
        bits.map_or(String::new(), |bits| quantity("bits_per_s", bits.median)),
        contestant.first_to_this.map_or(String::new(), |s| format!("{:.2}", s.median)),
        note,
    ]
}

/// A rate with its unit.
pub(super) fn quantity(metric: &str, value: f64) -> String {
    let unit = match metric {
        "packets_per_s" => "pps",
        "bits_per_s" => "bit/s",
        "table_bytes" => return output::human_bytes(value as u64),
        _ => "/s",
    };
    human(value) + unit
}

/// The machine and its load, and how it was measured.
pub(super) fn circumstances(report: &Report) -> String {
    let Load { average_1min: before, .. } = report.load_before;
    let place = report.cpus.map_or("unpinned".to_owned(), |[a, b]| format!("senders on CPU {a}, receivers on CPU {b}"));
    format!(
        "\n{}\nmedians of {} interleaved rounds of {} s, {place}; ratios by round; load average {before:.2} before, \
         {:.2} after, {:.1}% of CPU time stolen\n",
        report.machine.describe(),
        report.rounds,
        report.duration_s,
        report.load_after.average_1min,
        report.load_after.steal_percent(&report.load_before),
    )
}

/// What is promised, in words: what of it, and how much.
pub(super) fn promise(verdict: &Verdict) -> (String, String) {
    match (&verdict.against, &verdict.metric) {
        (Some(other), _) => (format!("{} / {other}", verdict.contestant), format!("at least {}", verdict.at_least)),
        (None, metric) => {
            let metric = metric.as_deref().unwrap_or_default();
            (verdict.contestant.clone(), format!("at least {}", quantity(metric, verdict.at_least)))
        }
    }
}

/// What was seen, in words.
pub(super) fn seen(verdict: &Verdict) -> String {
    let number = |x: f64| match &verdict.metric {
        Some(metric) => quantity(metric, x),
        None => format!("{x:.2}"),
    };
    verdict
        .seen
        .map_or("not measured".to_owned(), |s| format!("{} ({} to {})", number(s.median), number(s.min), number(s.max)))
}

fn verdict_row(verdict: &Verdict) -> Vec<String> {
    let (what, target) = promise(verdict);
    let kept = if verdict.kept { "pass" } else { "MISS" };
    vec![kept.into(), verdict.case.clone(), what, target, seen(verdict)]
}
