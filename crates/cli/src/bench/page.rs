//! Results for the browser.

use std::fmt::Write;

use super::path::Path;
use super::plot::{Bar, bars, document, escaped};
use super::report::{CaseResult, PathResult, Report};
use super::table::{circumstances, quantity};
use super::worker::Sample;

/// The whole page.
pub(crate) fn page(report: &Report) -> String {
    let cases: String = report.cases.iter().map(section).collect();
    let title = format!("ringway bench {}", report.bench);
    document(&title, &circumstances(report), &(targets(report) + &cases))
}

fn targets(report: &Report) -> String {
    if report.targets.is_empty() {
        return String::new();
    }
    let mut text = "<h2>Targets</h2>\n<table><tr><th>case<th>ratio of<th>target<th>measured<th>\n".to_owned();
    for v in &report.targets {
        let ratio = v.ratio.map_or("not measured".to_owned(), |r| format!("{:.3}", r.median));
        let kept = if v.kept { "kept" } else { "<b class=bad>missed</b>" };
        let (path, against) = (v.path.name(), v.against.name());
        let _ = writeln!(text, "<tr><td>{}<td>{path} / {against}<td>{}<td>{ratio}<td>{kept}", v.case, v.target);
    }
    text + "</table>\n"
}

fn section(case: &CaseResult) -> String {
    let mut text = format!("<h2>{}</h2>\n", escaped(&case.title));
    if let Some(why) = &case.skipped {
        let _ = writeln!(text, "<p class=bad>skipped: {}</p>", escaped(why));
        return text;
    }
    text += &bars(&case.paths.iter().filter_map(|path| bar(case, path)).collect::<Vec<_>>());
    for (path, why) in case.paths.iter().filter_map(|p| Some((p.path, p.failed.as_ref()?))) {
        let _ = writeln!(text, "<p class=bad>{}: {}</p>", path.name(), escaped(why));
    }
    text + &details(case)
}

fn bar<'a>(case: &CaseResult, path: &'a PathResult) -> Option<Bar<'a>> {
    let figure = *path.metrics.get(&case.metric)?;
    let times = path.times_tcp.map_or(String::new(), |t| format!(" ({:.2}x)", t.median));
    let text = quantity(&case.metric, figure.median) + &times;
    Some(Bar { name: path.path.name(), figure, colour: colour(path), text })
}

fn colour(path: &PathResult) -> &'static str {
    match path.path.profile() {
        _ if path.path == Path::Engine => "#1f6feb",
        Some("latency") => "#1f6feb",
        Some("balanced") => "#4c8ef7",
        Some(_) => "#8fb8fb",
        None => "#b5bcc4",
    }
}

/// All metrics, medians of the rounds.
fn details(case: &CaseResult) -> String {
    let names: std::collections::BTreeSet<&String> = case.paths.iter().flat_map(|p| p.metrics.keys()).collect();
    let mut text = "<details><summary>all metrics</summary><table><tr><th>".to_owned();
    text.extend(names.iter().map(|name| format!("<th>{name}")));
    for path in &case.paths {
        let medians: Sample = path.metrics.iter().map(|(name, s)| (name.clone(), s.median)).collect();
        let _ = write!(text, "\n<tr><td>{}", path.path.name());
        text.extend(names.iter().map(|n| medians.get(*n).map_or("<td>".into(), |v| format!("<td>{v:.3}"))));
    }
    text + "</table></details>\n"
}
