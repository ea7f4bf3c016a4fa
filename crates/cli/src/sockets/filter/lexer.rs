//! Words of a filter and where they stand.

use std::ops::Range;

/// One word with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub text: String,
    pub place: Range<usize>,
}

/// Splits a filter into words; brackets and operators are words of their own, with or without spaces.
pub(super) fn split(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut previous = Kind::Space;
    for (at, c) in text.char_indices() {
        let kind = Kind::of(c);
        let place = at..at + c.len_utf8();
        match tokens.last_mut() {
            // Brackets stand alone; other characters join those of their kind.
            Some(last) if kind == previous && kind != Kind::Bracket && kind != Kind::Space => {
                last.text.push(c);
                last.place.end = place.end;
            }
            _ if kind != Kind::Space => tokens.push(Token { text: c.into(), place }),
            _ => {}
        }
        previous = kind;
    }
    tokens
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Bracket,
    Operator,
    Word,
}

impl Kind {
    fn of(c: char) -> Kind {
        match c {
            c if c.is_whitespace() => Kind::Space,
            '(' | ')' => Kind::Bracket,
            '=' | '!' | '<' | '>' | '&' | '|' => Kind::Operator,
            _ => Kind::Word,
        }
    }
}
