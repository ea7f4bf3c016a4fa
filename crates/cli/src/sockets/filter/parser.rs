//! Words to a tree, or an error that points at the word.

use std::net::IpAddr;
use std::ops::Range;

use ringway_channel::Reason;

use super::lexer::{self, Token};
use super::{Comparison, Expression, Filter, Network, Side};
use crate::sockets::Via;
use crate::sockets::state::States;

/// Brackets and negations may nest this deep.
const DEPTH_MAX: usize = 64;

/// What is wrong with a filter, with the offending word underlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterError {
    text: String,
    place: Range<usize>,
    problem: String,
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = self.text[..self.place.start].chars().count();
        let marked = self.text[self.place.clone()].chars().count().max(1);
        write!(f, "filter: {}\n  {}\n  {}{}", self.problem, self.text, " ".repeat(before), "^".repeat(marked))
    }
}

impl std::error::Error for FilterError {}

/// Reads a filter; an empty one matches everything.
///
/// # Errors
/// [`FilterError`] points at the word and says what would have been right.
pub(crate) fn parse(text: &str) -> Result<Filter, FilterError> {
    let mut parser = Parser { text, tokens: lexer::split(text), next: 0, depth: 0 };
    let states = parser.states()?;
    let expression = match parser.peek() {
        None => None,
        Some(_) => Some(parser.or()?),
    };
    match parser.peek() {
        None => Ok(Filter { states, expression }),
        Some(")") => Err(parser.error_here("this bracket closes nothing")),
        Some(word) => Err(parser.error_here(&unknown(word))),
    }
}

fn unknown(word: &str) -> String {
    format!(
        "unknown word `{word}`; expected src, dst, sport, dport, via, reason, not, or a bracket (state comes first)"
    )
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.next).map(|t| t.text.as_str())
    }

    /// Takes the next word if it is one of these.
    fn accept(&mut self, words: &[&str]) -> bool {
        let found = self.peek().is_some_and(|word| words.contains(&word));
        self.next += usize::from(found);
        found
    }

    /// Takes the next word; `wanted` says what is missing if there is none.
    fn word(&mut self, wanted: &str) -> Result<String, FilterError> {
        match self.tokens.get(self.next) {
            Some(token) => {
                self.next += 1;
                Ok(token.text.clone())
            }
            None => Err(self.error_here(&format!("the filter ends too early; expected {wanted}"))),
        }
    }

    fn error_here(&self, problem: &str) -> FilterError {
        let end = self.text.len();
        let place = self.tokens.get(self.next).map_or(end..end, |t| t.place.clone());
        FilterError { text: self.text.into(), place, problem: problem.into() }
    }

    /// An error about the word taken last.
    fn error_before(&mut self, problem: &str) -> FilterError {
        self.next -= 1;
        self.error_here(problem)
    }

    fn states(&mut self) -> Result<Option<States>, FilterError> {
        let mut states = None;
        loop {
            let exclude = match self.peek() {
                Some("state") => false,
                Some("exclude") => true,
                _ => return Ok(states),
            };
            self.next += 1;
            let word = self.word("a state, for example `established`")?;
            let Some(named) = States::named(&word) else {
                return Err(self.error_before(&format!(
                    "unknown state `{word}`; expected all, connected, synchronized, bucket, big, established, syn-sent, \
                     syn-recv, fin-wait-1, fin-wait-2, time-wait, closed, close-wait, last-ack, listening or closing"
                )));
            };
            states = Some(match (exclude, states) {
                (false, before) => before.unwrap_or(States::NONE).with(named),
                (true, before) => before.unwrap_or(States::ALL).without(named),
            });
        }
    }

    fn or(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.and()?;
        while self.accept(&["or", "|", "||"]) {
            left = Expression::Or(left.into(), self.and()?.into());
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, FilterError> {
        let mut left = self.not()?;
        loop {
            let joined = self.accept(&["and", "&", "&&"]);
            if !joined && matches!(self.peek(), None | Some(")" | "or" | "|" | "||")) {
                return Ok(left);
            }
            left = Expression::And(left.into(), self.not()?.into());
        }
    }

    fn not(&mut self) -> Result<Expression, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error_here(&format!("more than {DEPTH_MAX} brackets inside each other")));
        }
        let expression = if self.accept(&["not", "!"]) {
            Expression::Not(self.not()?.into())
        } else if self.accept(&["("]) {
            let inner = self.or()?;
            if !self.accept(&[")"]) {
                return Err(self.error_here("expected `)`"));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn test(&mut self) -> Result<Expression, FilterError> {
        let word = self.word("a test, for example `dport = :80`")?;
        match word.as_str() {
            "src" => self.address(Side::Source),
            "dst" => self.address(Side::Destination),
            "sport" => self.port(Side::Source),
            "dport" => self.port(Side::Destination),
            "via" => self.via(),
            "reason" => self.reason(),
            _ => Err(self.error_before(&unknown(&word))),
        }
    }

    fn comparison(&mut self) -> Comparison {
        let comparison = match self.peek() {
            Some("=" | "==" | "eq") => Comparison::Equal,
            Some("!=" | "ne" | "neq") => Comparison::NotEqual,
            Some(">" | "gt") => Comparison::Greater,
            Some(">=" | "ge" | "geq") => Comparison::GreaterOrEqual,
            Some("<" | "lt") => Comparison::Less,
            Some("<=" | "le" | "leq") => Comparison::LessOrEqual,
            _ => return Comparison::Equal,
        };
        self.next += 1;
        comparison
    }

    /// An operator that may only say "is" or "is not".
    fn equality(&mut self) -> Result<bool, FilterError> {
        match self.comparison() {
            Comparison::Equal => Ok(true),
            Comparison::NotEqual => Ok(false),
            _ => Err(self.error_before("only = and != make sense here")),
        }
    }

    fn address(&mut self, side: Side) -> Result<Expression, FilterError> {
        let equal = self.equality()?;
        let word = self.word("an address, for example `127.0.0.1:80`")?;
        match address(&word) {
            Ok((network, port)) => Ok(Expression::Address { side, network, port, equal }),
            Err(problem) => Err(self.error_before(&problem)),
        }
    }

    fn port(&mut self, side: Side) -> Result<Expression, FilterError> {
        let comparison = self.comparison();
        let word = self.word("a port, for example `:80`")?;
        match port(word.trim_start_matches(':')) {
            Ok(Some(port)) => Ok(Expression::Port { side, comparison, port }),
            Ok(None) => Err(self.error_before("`*` is every port; leave the test out")),
            Err(problem) => Err(self.error_before(&problem)),
        }
    }

    fn via(&mut self) -> Result<Expression, FilterError> {
        let equal = self.equality()?;
        let word = self.word("`ring`, `tcp` or `unknown`")?;
        let via = [Via::Ring, Via::Tcp, Via::Unknown].into_iter().find(|via| via.name() == word);
        match via {
            Some(via) => Ok(Expression::Via { via, equal }),
            None => Err(self.error_before(&format!("unknown path `{word}`; expected ring, tcp or unknown"))),
        }
    }

    fn reason(&mut self) -> Result<Expression, FilterError> {
        let equal = self.equality()?;
        let name = self.word("a reason, for example `no-partner`")?;
        match Reason::ALL.iter().any(|reason| reason.name() == name) {
            true => Ok(Expression::Reason { name, equal }),
            false => {
                let names: Vec<_> = Reason::ALL.iter().map(|r| r.name()).collect();
                Err(self.error_before(&format!("unknown reason `{name}`; expected one of {}", names.join(", "))))
            }
        }
    }
}

/// `ADDRESS[/PREFIX][:PORT]`, with an IPv6 address in brackets if a port follows; `*` stands for any.
fn address(word: &str) -> Result<(Network, Option<u16>), String> {
    let bad = || format!("`{word}` is no address; expected 127.0.0.1, 10.0.0.0/8, [::1], with :PORT if wanted");
    let (host, rest) = match word.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']').ok_or_else(bad)?;
            (host, rest)
        }
        None if word.parse::<IpAddr>().is_ok() => (word, ""),
        None => match word.split_once([':', '/']) {
            Some((host, _)) if word.matches(':').nth(1).is_none() => (host, &word[host.len()..]),
            Some(_) => word.split_once('/').map_or((word, ""), |(host, _)| (host, &word[host.len()..])),
            None => (word, ""),
        },
    };
    let (prefix, port_text) = match rest.strip_prefix('/') {
        Some(rest) => match rest.split_once(':') {
            Some((prefix, port)) => (Some(prefix), Some(port)),
            None => (Some(rest), None),
        },
        None if rest.is_empty() => (None, None),
        None => (None, Some(rest.strip_prefix(':').ok_or_else(bad)?)),
    };
    let port = port_text.map_or(Ok(None), port)?;
    if matches!(host, "" | "*") && prefix.is_none() {
        return Ok((Network(None), port));
    }
    let ip: IpAddr = host.parse().map_err(|_| bad())?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => longest,
        Some(text) => text
            .parse()
            .ok()
            .filter(|p| *p <= longest)
            .ok_or_else(|| format!("`/{text}` is no prefix length of {ip}; expected 0 to {longest}"))?,
    };
    Ok((Network(Some((ip, prefix))), port))
}

/// A number, a name of `/etc/services`, or `*` for any.
fn port(text: &str) -> Result<Option<u16>, String> {
    if text == "*" {
        return Ok(None);
    }
    let known = || crate::sockets::kernel::Services::load().port(text);
    match text.parse().ok().or_else(known) {
        Some(port) => Ok(Some(port)),
        None => Err(format!("`{text}` is no port; expected 0 to 65535 or a name of /etc/services")),
    }
}
