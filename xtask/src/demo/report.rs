//! The demo's result: a table on the terminal, one static HTML page, one JSON document.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::loads::Load;
use super::samples::Sample;

/// Everything that the demo found out; the JSON document is this.
#[derive(Serialize)]
pub(crate) struct Report {
    schema: u32,
    machine: String,
    profile: String,
    rounds: u32,
    load_average_before: f64,
    pub(crate) load_average_after: f64,
    pub(crate) rows: Vec<Row>,
}

#[derive(Serialize)]
pub(crate) struct Row {
    load: &'static str,
    before: Sample,
    after: Sample,
    /// Rate after, divided by rate before.
    pub(crate) ratio: f64,
    /// Connections that the server's processes saw upgraded, in all rounds.
    upgraded: u64,
    /// Connections that carried the load.
    loaded: u64,
    /// Why this row is no success.
    pub(crate) problem: Option<String>,
}

impl Row {
    pub(crate) fn new(load: &Load, before: Sample, after: Sample, upgraded: u64, loaded: u64) -> Row {
        let ratio = if before.rate_per_s > 0.0 { after.rate_per_s / before.rate_per_s } else { 0.0 };
        Row { load: load.name, before, after, ratio, upgraded, loaded, problem: None }
    }

    pub(crate) fn problem(load: &Load, why: String) -> Row {
        Row { problem: Some(why), ..Row::new(load, Sample::default(), Sample::default(), 0, 0) }
    }

    fn measured(&self) -> bool {
        self.before.rate_per_s > 0.0 && self.after.rate_per_s > 0.0
    }
}

impl Report {
    pub(crate) fn new(machine: String, profile: &str, rounds: u32, load_average: f64) -> Report {
        let profile = profile.to_owned();
        let (load_average_before, load_average_after) = (load_average, load_average);
        Report { schema: 1, machine, profile, rounds, load_average_before, load_average_after, rows: Vec::new() }
    }

    fn circumstances(&self) -> String {
        format!(
            "{}; profile {}; medians of {} interleaved rounds; load average {:.2} before, {:.2} after",
            self.machine, self.profile, self.rounds, self.load_average_before, self.load_average_after
        )
    }

    /// For the terminal.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "\n{:<36}{:>14}{:>14}{:>8}{:>10}{:>10}{:>13}\n",
            "", "before req/s", "after req/s", "ratio", "p50 us", "after", "upgraded"
        );
        for row in &self.rows {
            let _ = write!(text, "{:<36}", row.load);
            if row.measured() {
                let p50 = |s: &Sample| s.p50_us.map_or("-".to_owned(), |us| format!("{us:.0}"));
                let upgraded = format!("{}/{}", row.upgraded, row.loaded);
                let (before, after) = (row.before.rate_per_s, row.after.rate_per_s);
                let _ = write!(text, "{before:>14.0}{after:>14.0}{:>7.2}x", row.ratio);
                let _ = write!(text, "{:>10}{:>10}{upgraded:>13}", p50(&row.before), p50(&row.after));
            }
            match &row.problem {
                Some(problem) => _ = writeln!(text, "  {problem}"),
                None => text.push('\n'),
            }
        }
        let _ = writeln!(text, "\n{}", self.circumstances());
        text
    }

    /// Writes `report.html` and `report.json`; returns the page's path.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let page = folder.join("report.html");
        std::fs::write(&page, self.html()).with_context(|| format!("cannot write {}", page.display()))?;
        std::fs::write(folder.join("report.json"), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(page)
    }

    fn html(&self) -> String {
        let rows: String = self.rows.iter().map(html_row).collect();
        let circumstances = escaped(&self.circumstances());
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Ringway: before and after</title>\n\
             <style>{STYLE}</style>\n<h1>Before: loopback TCP. After: <code>ringway run</code></h1>\n\
             <table>\n<tr><th>load<th>requests per second<th>ratio<th>p50, &micro;s<th>p99, &micro;s\
             <th>connections upgraded\n{rows}</table>\n<p>{circumstances}.</p>\n\
             <p>The same programs, unchanged, on both sides.</p>\n</html>\n"
        )
    }
}

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.4rem .8rem;border-bottom:1px solid #ddd}\
    .bad{color:#a00}text{font:12px sans-serif}";

const BAR_WIDTH: f64 = 260.0;

fn html_row(row: &Row) -> String {
    let problem = row.problem.as_ref().map_or(String::new(), |p| format!("<br><b class=bad>{}</b>", escaped(p)));
    let name = escaped(row.load);
    if !row.measured() {
        return format!("<tr><td>{name}<td colspan=5>{problem}\n");
    }
    let pair = |of: fn(&Sample) -> Option<f64>| match (of(&row.before), of(&row.after)) {
        (Some(before), Some(after)) => format!("{before:.0} &rarr; {after:.0}"),
        _ => "-".to_owned(),
    };
    format!(
        "<tr><td>{name}{problem}<td>{}<td>{:.2}&times;<td>{}<td>{}<td>{} / {}\n",
        bars(row.before.rate_per_s, row.after.rate_per_s),
        row.ratio,
        pair(|s| s.p50_us),
        pair(|s| s.p99_us),
        row.upgraded,
        row.loaded
    )
}

/// Two bars, drawn to the scale of the larger one.
fn bars(before: f64, after: f64) -> String {
    let scale = BAR_WIDTH / before.max(after);
    let bar = |y: u32, value: f64, colour: &str| {
        let (width, text_y) = (value * scale, y + 12);
        format!(
            "<rect y={y} width={width:.0} height=15 fill=\"{colour}\"/>\
             <text x={:.0} y={text_y}>{value:.0}</text>",
            width + 6.0
        )
    };
    let pair = bar(2, before, "#b5bcc4") + &bar(20, after, "#2a7de1");
    format!("<svg width=\"{:.0}\" height=\"38\">{pair}</svg>", BAR_WIDTH + 90.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::loads::LOADS;

    fn report() -> Report {
        let sample = |rate_per_s| Sample { rate_per_s, p50_us: Some(10.0), p99_us: None };
        let mut report = Report::new("Linux <x>".into(), "balanced", 3, 0.5);
        report.rows.push(Row::new(&LOADS[0], sample(100.0), sample(400.0), 3, 6));
        report.rows.push(Row::problem(&LOADS[1], "skipped: package redis-server is missing".into()));
        report
    }

    #[test]
    fn the_table_shows_ratio_upgrades_and_problems() {
        let table = report().table();
        assert!(table.contains("4.00x") && table.contains("3/6"), "{table}");
        assert!(table.contains("skipped: package redis-server is missing"), "{table}");
    }

    #[test]
    fn page_and_document_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let page = report().write(folder.path()).unwrap();
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains("4.00&times;") && html.contains("Linux &lt;x&gt;"));
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(page.with_extension("json")).unwrap()).unwrap();
        assert_eq!(json["rows"][0]["after"]["rate_per_s"], 400.0);
        assert_eq!(json["schema"], 1);
    }
}
