//! How the tools speak: data on stdout, talk on stderr, colour only where somebody sees it.

use std::fmt::{Arguments, Display};
use std::io::{self, IsTerminal, Write};

/// One line for people on stderr. A closed stderr is nobody's business.
pub(crate) fn talk(message: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "ringway: {message}");
}

/// The error and its causes, each once: many an error's text already ends with its cause's.
pub(crate) fn in_full(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// Whether the error comes from writing to a pipe that nobody reads any more.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| match cause.downcast_ref::<io::Error>() {
        Some(e) => e.kind() == io::ErrorKind::BrokenPipe,
        None => {
            cause.downcast_ref::<serde_json::Error>().and_then(|e| e.io_error_kind()) == Some(io::ErrorKind::BrokenPipe)
        }
    })
}

/// Prints a document as one line of JSON.
pub(crate) fn print_json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, document)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints a finished text.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Colours of the three verdicts.
#[derive(Clone, Copy)]
pub(crate) enum Paint {
    Good,
    Warning,
    Bad,
}

/// Wraps `text` in a colour if stdout is a terminal and `NO_COLOR` is unset or empty.
pub(crate) fn paint(colour: Paint, text: impl Display) -> String {
    let wanted = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if !wanted {
        return text.to_string();
    }
    let code = match colour {
        Paint::Good => "32",
        Paint::Warning => "33",
        Paint::Bad => "31",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// A byte count with a binary unit, as `1.5 MiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A duration as the two largest units, as `3d 4h` or `12m 7s`.
pub(crate) fn human_seconds(seconds: u64) -> String {
    let (d, h, m, s) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (d, h, m) {
        (0, 0, 0) => format!("{s}s"),
        (0, 0, _) => format!("{m}m {s}s"),
        (0, _, _) => format!("{h}h {m}m"),
        _ => format!("{d}d {h}h"),
    }
}

/// Rows as left-aligned columns two spaces apart; the last column is not padded.
/// `right` lists the columns of numbers, which are aligned right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|r| r[column].chars().count());
        cells.chain([header[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (i, cell) in cells.iter().enumerate() {
            let pad = widths[i] - cell.chars().count();
            let is_last = i + 1 == cells.len();
            if right.contains(&i) {
                text.push_str(&" ".repeat(pad));
            }
            text.push_str(cell);
            if !is_last {
                text.push_str(&" ".repeat(if right.contains(&i) { 2 } else { pad + 2 }));
            }
        }
        text.truncate(text.trim_end().len());
        text + "\n"
    };
    let titles: Vec<String> = header.iter().map(|t| t.to_string()).collect();
    rows.iter().fold(line(&titles), |text, row| text + &line(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_readable() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_bytes(3 << 20), "3.0 MiB");
        assert!(human_bytes(u64::MAX).ends_with("PiB"));
        assert_eq!(human_seconds(7), "7s");
        assert_eq!(human_seconds(3 * 86_400 + 4 * 3600 + 59), "3d 4h");
    }

    #[test]
    fn tables_align_text_left_and_numbers_right() {
        let rows = vec![vec!["a".into(), "10".into(), "x".into()], vec!["long".into(), "5".into(), "".into()]];
        assert_eq!(table(&["N", "Q", "R"], &rows, &[1]), "N      Q  R\na     10  x\nlong   5\n");
    }

    #[test]
    fn a_broken_pipe_is_recognised_through_context_and_json() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&anyhow::Error::new(pipe()).context("writing")));
        assert!(is_broken_pipe(&serde_json::Error::io(pipe()).into()));
        assert!(!is_broken_pipe(&anyhow::anyhow!("other")));
    }
}
