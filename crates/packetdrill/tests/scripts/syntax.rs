//! One line of a script: when, and what.

/// When a line happens, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// After the line before, at the earliest and at the latest.
    After(u64, u64),
    /// Since the script began.
    At(u64),
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A packet from the peer.
    In(String),
    /// A packet that must come out.
    Out(String),
    Call(String),
    Assert(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) when: When,
    /// A call that returns only that much later.
    pub(crate) lasts_us: Option<u64>,
    pub(crate) what: What,
}

impl Event {
    pub(crate) fn parse(text: &str) -> Result<Event, String> {
        let (when, lasts_us, rest) = time(text)?;
        let rest = rest.trim();
        let what = if let Some(packet) = rest.strip_prefix('<') {
            What::In(packet.trim().to_owned())
        } else if let Some(packet) = rest.strip_prefix('>') {
            What::Out(packet.trim().to_owned())
        } else if let Some(code) = rest.strip_prefix("%{").and_then(|rest| rest.strip_suffix("}%")) {
            What::Assert(code.trim().to_owned())
        } else {
            What::Call(rest.to_owned())
        };
        Ok(Event { when, lasts_us, what })
    }
}

/// The time before a line, how long it lasts, and the rest of the line.
fn time(text: &str) -> Result<(When, Option<u64>, &str), String> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !word.starts_with(['+', '*', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        return Ok((When::After(0, 0), None, text));
    }
    if word == "*" {
        return Ok((When::Any, None, rest));
    }
    let one = |word: &str| -> Result<When, String> {
        let us = seconds(word)?;
        Ok(if word.starts_with('+') { When::After(us, us) } else { When::At(us) })
    };
    if let Some((from, until)) = word.split_once("...") {
        return Ok((one(from)?, Some(seconds(until)?.saturating_sub(seconds(from)?)), rest));
    }
    if let Some((from, until)) = word.split_once('~') {
        return Ok((When::After(seconds(from)?, seconds(until)?), None, rest));
    }
    Ok((one(word)?, None, rest))
}

fn seconds(text: &str) -> Result<u64, String> {
    let number = text.trim_start_matches('+').parse::<f64>().map_err(|_| format!("`{text}` is no time"))?;
    Ok((number * 1e6).round() as u64)
}

/// Splits at `separator` outside of brackets.
pub(crate) fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            c if c == separator && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}
