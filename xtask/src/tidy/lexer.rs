//! Just enough of Rust's lexical grammar to tell code from comments and literals.

/// The text with the contents of comments and of string and character literals replaced by blanks;
/// line breaks stay, so line numbers agree.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_or_comment_end(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` itself if none begins there.
fn literal_or_comment_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |c| c == '\n'),
        '/' if next == Some('*') => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        'r' if !follows_word(chars, at) => raw_string_end(chars, at).unwrap_or(at),
        '\'' => char_end(chars, at).unwrap_or(at),
        _ => at,
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    chars[from..].iter().position(|&c| stop(c)).map_or(chars.len(), |n| from + n)
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `b"` and `c"` are no words before a raw string's `r`, as in `br"..."`.
fn follows_word(chars: &[char], at: usize) -> bool {
    let word = |i: usize| chars.get(i).is_some_and(|c| c.is_alphanumeric() || *c == '_');
    let prefixed = at > 0 && matches!(chars[at - 1], 'b' | 'c') && !(at > 1 && word(at - 2));
    at > 0 && word(at - 1) && !prefixed
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let quote = find(chars, at + 1, |c| c != '#');
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - at - 1;
    let closes = |i: &usize| chars[*i] == '"' && chars[i + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
    Some((quote + 1..chars.len()).find(closes).map_or(chars.len(), |i| i + 1 + hashes))
}

/// A character literal; `None` for a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    if chars.get(at + 1) == Some(&'\\') {
        return Some((find(chars, at + 3, |c| c == '\'') + 1).min(chars.len()));
    }
    (chars.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

#[cfg(test)]
mod tests {
    use super::code_only;

    fn words(text: &str) -> Vec<String> {
        code_only(text).split_ascii_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_vanish() {
        assert_eq!(words("a // unsafe\nb /* x /* y */ unsafe */ c"), ["a", "b", "c"]);
    }

    #[test]
    fn strings_vanish() {
        assert_eq!(words(r##"a "un\"safe" b r#"x " unsafe"# c br"y" d"##), ["a", "b", "c", "b", "d"]);
    }

    #[test]
    fn lifetimes_stay_and_characters_vanish() {
        assert_eq!(words("fn f<'a>(x: &'a u8) { '\"'; '\\''; '\\n'; y }").concat(), "fnf<'a>(x:&'au8){;;;y}");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let text = "\"a\nb\" // c\n/*\n*/ d\n";
        assert_eq!(code_only(text).lines().count(), text.lines().count());
    }
}
