//! A static page with bars as inline SVG, nothing from elsewhere.

use std::fmt::Write;

use super::report::Summary;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}\
    h2{font-size:1.05rem;margin:2rem 0 .3rem}text{font:12px sans-serif;fill:#222}\
    table{border-collapse:collapse}td,th{text-align:left;padding:.2rem .8rem;border-bottom:1px solid #ddd}\
    .bad{color:#a00}";

const LABEL_WIDTH: f64 = 180.0;
const BAR_WIDTH: f64 = 420.0;
const ROW_HEIGHT: f64 = 22.0;

/// A figure to draw.
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    /// The bar is the median; a line through its end is the spread of the rounds.
    pub(super) figure: Summary,
    pub(super) colour: &'a str,
    /// Behind the bar.
    pub(super) text: String,
}

/// A page with this title, a paragraph, and a body in HTML.
pub(super) fn document(title: &str, circumstances: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n<h1>{title}</h1>\n<p>{}</p>\n{body}</html>\n",
        escaped(circumstances),
    )
}

pub(super) fn bars(all: &[Bar<'_>]) -> String {
    let longest = all.iter().map(|bar| bar.figure.max).fold(0.0, f64::max);
    let scale = if longest > 0.0 { BAR_WIDTH / longest } else { 0.0 };
    let (width, height) = (LABEL_WIDTH + BAR_WIDTH + 260.0, ROW_HEIGHT * all.len() as f64);
    let mut svg = format!("<svg width=\"{width}\" height=\"{height}\" role=\"img\">\n");
    for (row, Bar { name, figure, colour, text }) in all.iter().enumerate() {
        let (top, text_y) = (row as f64 * ROW_HEIGHT, row as f64 * ROW_HEIGHT + 15.0);
        let (from, to, middle) = (LABEL_WIDTH + figure.min * scale, LABEL_WIDTH + figure.max * scale, top + 11.0);
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{text_y}\">{}</text>\
             <rect x=\"{LABEL_WIDTH}\" y=\"{}\" width=\"{:.1}\" height=\"14\" fill=\"{colour}\"/>\
             <line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"{text_y}\">{}</text>",
            escaped(name),
            top + 4.0,
            figure.median * scale,
            to + 8.0,
            escaped(text),
        );
    }
    svg + "</svg>\n"
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
