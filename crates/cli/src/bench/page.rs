//! Results for the browser: one static page, plots as inline SVG, nothing from elsewhere.

use std::fmt::Write;

use super::report::{CaseResult, PathResult, Report};
use super::table::{circumstances, quantity};
use super::worker::Sample;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}\
    h2{font-size:1.05rem;margin:2rem 0 .3rem}text{font:12px sans-serif;fill:#222}\
    table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem;border-bottom:1px solid #ddd}\
    .bad{color:#a00}";

const LABEL_WIDTH: f64 = 140.0;
const BAR_WIDTH: f64 = 420.0;
const ROW_HEIGHT: f64 = 22.0;

/// The whole page.
pub(crate) fn page(report: &Report) -> String {
    let cases: String = report.cases.iter().map(section).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>ringway bench sockets</title>\n\
         <style>{STYLE}</style>\n<h1>ringway bench sockets</h1>\n<p>{}</p>\n{}{cases}</html>\n",
        escaped(&circumstances(report)),
        targets(report),
    )
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
    text += &bars(case);
    for (path, why) in case.paths.iter().filter_map(|p| Some((p.path, p.failed.as_ref()?))) {
        let _ = writeln!(text, "<p class=bad>{}: {}</p>", path.name(), escaped(why));
    }
    text + &details(case)
}

/// A bar for each path, with the spread of the rounds as a line through its end.
fn bars(case: &CaseResult) -> String {
    let figures = case.paths.iter().filter_map(|path| Some((path, path.metrics.get(&case.metric)?)));
    let figures: Vec<_> = figures.collect();
    let longest = figures.iter().map(|(_, s)| s.max).fold(0.0, f64::max);
    let scale = if longest > 0.0 { BAR_WIDTH / longest } else { 0.0 };
    let (width, height) = (LABEL_WIDTH + BAR_WIDTH + 220.0, ROW_HEIGHT * figures.len() as f64);
    let mut svg = format!("<svg width=\"{width}\" height=\"{height}\" role=\"img\">\n");
    for (row, (path, s)) in figures.iter().enumerate() {
        let (top, text_y) = (row as f64 * ROW_HEIGHT, row as f64 * ROW_HEIGHT + 15.0);
        let (name, colour) = (path.path.name(), colour(path));
        let times = path.times_tcp.map_or(String::new(), |t| format!(" ({:.2}x)", t.median));
        let (from, to, middle) = (LABEL_WIDTH + s.min * scale, LABEL_WIDTH + s.max * scale, top + 11.0);
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{text_y}\">{name}</text>\
             <rect x=\"{LABEL_WIDTH}\" y=\"{}\" width=\"{:.1}\" height=\"14\" fill=\"{colour}\"/>\
             <line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"{text_y}\">{}{times}</text>",
            top + 4.0,
            s.median * scale,
            to + 8.0,
            quantity(&case.metric, s.median),
        );
    }
    svg + "</svg>\n"
}

fn colour(path: &PathResult) -> &'static str {
    match path.path.profile() {
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
