//! Results for the terminal.

use super::machine::Load;
use super::path::Path;
use super::report::{CaseResult, PathResult, Report, Summary};
use crate::output;

/// The whole report.
pub(crate) fn table(report: &Report) -> String {
    let rows: Vec<_> = report.cases.iter().flat_map(case_rows).collect();
    let header = ["CASE", "PATH", "MEDIAN", "MIN", "MAX", "x TCP", "P50", "P99", "MEMORY", ""];
    let mut text = output::table(&header, &rows, &[2, 3, 4, 5, 6, 7, 8]);
    text += &circumstances(report);
    if !report.targets.is_empty() {
        text += "\n";
        text += &verdicts(report);
    }
    text
}

fn case_rows(case: &CaseResult) -> Vec<Vec<String>> {
    if let Some(why) = &case.skipped {
        let mut row = vec![String::new(); 10];
        row[0] = case.case.clone();
        row[9] = format!("skipped: {why}");
        return vec![row];
    }
    case.paths.iter().map(|path| path_row(case, path)).collect()
}

fn path_row(case: &CaseResult, path: &PathResult) -> Vec<String> {
    let figure = path.metrics.get(&case.metric);
    let cell = |of: fn(&Summary) -> f64| figure.map_or(String::new(), |s| quantity(&case.metric, of(s)));
    let percentile = |which: &str| {
        let found = path.metrics.iter().find(|(name, _)| name.ends_with(&format!("_{which}_us")));
        found.map_or(String::new(), |(name, s)| quantity(name, s.median))
    };
    let is_first = case.paths.first().is_some_and(|first| first.path == path.path);
    let memory = path.metrics.get("memory_per_connection_bytes");
    vec![
        if is_first { case.case.clone() } else { String::new() },
        path.path.name().to_owned(),
        cell(|s| s.median),
        cell(|s| s.min),
        cell(|s| s.max),
        path.times_tcp.map_or(String::new(), |s| format!("{:.2}", s.median)),
        percentile("p50"),
        percentile("p99"),
        memory.map_or(String::new(), |s| output::human_bytes(s.median as u64)),
        path.failed.as_ref().map_or(String::new(), |why| format!("FAILED: {why}")),
    ]
}

/// A value with the unit that its name ends with.
pub(super) fn quantity(metric: &str, value: f64) -> String {
    if metric.ends_with("_us") {
        return if value < 10.0 { format!("{value:.3} us") } else { format!("{value:.1} us") };
    }
    let unit = if metric.ends_with("bytes_per_s") { "B/s" } else { "/s" };
    match value {
        v if v >= 1e9 => format!("{:.2} G{unit}", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M{unit}", v / 1e6),
        v if v >= 1e3 => format!("{:.1} k{unit}", v / 1e3),
        v => format!("{v:.0} {unit}"),
    }
}

/// The machine and its load, and how it was measured.
pub(super) fn circumstances(report: &Report) -> String {
    let Load { average_1min: before, .. } = report.load_before;
    let place = report.cpus.map_or("unpinned".to_owned(), |[a, b]| format!("own workers on CPUs {a} and {b}"));
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

fn verdicts(report: &Report) -> String {
    let row = |v: &super::targets::Verdict| {
        let digits = |x: f64| if x < 0.1 { format!("{x:.4}") } else { format!("{x:.2}") };
        let ratio = v.ratio.map_or("not measured".into(), |r| {
            format!("{} ({} to {})", digits(r.median), digits(r.min), digits(r.max))
        });
        let kept = if v.kept { "pass" } else { "MISS" };
        vec![kept.into(), v.case.clone(), format!("{} / {}", v.path.name(), v.against.name()), v.target.clone(), ratio]
    };
    let rows: Vec<_> = report.targets.iter().map(row).collect();
    output::table(&["", "CASE", "RATIO OF", "TARGET", "MEASURED"], &rows, &[])
}

/// Two reports side by side: the compared metric of each case and path in both, and how much better
/// the second is.
pub(crate) fn comparison(old: &Report, new: &Report) -> String {
    let mut rows = Vec::new();
    for case in &new.cases {
        let Some(before) = old.cases.iter().find(|c| c.case == case.case) else { continue };
        for path in Path::ALL {
            let median = |c: &CaseResult| c.path(path)?.metrics.get(&case.metric).map(|s| s.median);
            let (Some(a), Some(b)) = (median(before), median(case)) else { continue };
            let better = if case.higher_is_better { b / a } else { a / b };
            let times = |c: &CaseResult| {
                c.path(path).and_then(|p| p.times_tcp).map_or(String::new(), |s| format!("{:.2}", s.median))
            };
            let (old, new) = (quantity(&case.metric, a), quantity(&case.metric, b));
            let name = path.name().to_owned();
            rows.push(vec![case.case.clone(), name, old, new, format!("{better:.2}"), times(before), times(case)]);
        }
    }
    let header = ["CASE", "PATH", "OLD", "NEW", "x BETTER", "OLD x TCP", "NEW x TCP"];
    output::table(&header, &rows, &[2, 3, 4, 5, 6])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        assert_eq!(quantity("round_trip_p50_us", 0.4567), "0.457 us");
        assert_eq!(quantity("bytes_per_s", 4.5e9), "4.50 GB/s");
        assert_eq!(quantity("requests_per_s", 1234.0), "1.2 k/s");
    }
}
