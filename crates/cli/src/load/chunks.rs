//! Where a body in chunks ends (RFC 9112, 7.1). What is in the chunks is nobody's business here.

/// Hexadecimal digits of a chunk's length, at most.
const DIGITS_MAX: u32 = 15;
/// Bytes of a chunk's extensions or of a trailer field, at most.
const LINE_BYTES_MAX: u32 = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The length of a chunk, and how many digits of it have come.
    Length(u64, u32),
    /// Behind the length, up to the end of the line.
    Extension(u64, u32),
    Data(u64),
    /// The line end behind the data.
    DataEnd,
    /// Bytes in the present line behind the last chunk; an empty line ends the body.
    Trailer(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks(Stage);

impl Chunks {
    pub(super) fn new() -> Chunks {
        Chunks(Stage::Length(0, 0))
    }

    /// Takes bytes in; the number of them that belong to the body and whether that is complete. `None` if these are no chunks.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Option<(usize, bool)> {
        let mut at = 0;
        while at < bytes.len() {
            if let Stage::Data(left) = self.0 {
                let here = left.min((bytes.len() - at) as u64);
                at += here as usize;
                self.0 = if here == left { Stage::DataEnd } else { Stage::Data(left - here) };
                continue;
            }
            let ended = self.take_byte(bytes[at])?;
            at += 1;
            if ended {
                return Some((at, true));
            }
        }
        Some((at, false))
    }

    fn take_byte(&mut self, byte: u8) -> Option<bool> {
        let digit = char::from(byte).to_digit(16);
        self.0 = match (self.0, byte, digit) {
            (Stage::Length(value, n), _, Some(digit)) if n < DIGITS_MAX => {
                Stage::Length(value << 4 | u64::from(digit), n + 1)
            }
            (Stage::Length(value, 1..), b'\n', _) => after_length(value),
            (Stage::Length(value, 1..), b'\r' | b';' | b' ' | b'\t', _) => Stage::Extension(value, 0),
            (Stage::Extension(value, _), b'\n', _) => after_length(value),
            (Stage::Extension(value, n), ..) if n < LINE_BYTES_MAX => Stage::Extension(value, n + 1),
            (Stage::DataEnd, b'\r', _) => Stage::DataEnd,
            (Stage::DataEnd, b'\n', _) => Stage::Length(0, 0),
            (Stage::Trailer(0), b'\n', _) => return Some(true),
            (Stage::Trailer(_), b'\n', _) => Stage::Trailer(0),
            (Stage::Trailer(n), b'\r', _) => Stage::Trailer(n),
            (Stage::Trailer(n), ..) if n < LINE_BYTES_MAX => Stage::Trailer(n + 1),
            _ => return None,
        };
        Some(false)
    }
}

fn after_length(value: u64) -> Stage {
    if value == 0 { Stage::Trailer(0) } else { Stage::Data(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"4;why=not\r\nwiki\r\nA\r\n0123456789\r\n0\r\nChecked: yes\r\n\r\n";

    #[test]
    fn the_end_is_found_wherever_the_pieces_are_cut() {
        for cut in 0..BODY.len() {
            let mut chunks = Chunks::new();
            assert_eq!(chunks.take(&BODY[..cut]), Some((cut, false)), "{cut}");
            let mut rest = BODY[cut..].to_vec();
            rest.extend_from_slice(b"HTTP/1.1");
            assert_eq!(chunks.take(&rest), Some((BODY.len() - cut, true)), "{cut}");
        }
    }

    #[test]
    fn what_are_no_chunks() {
        for text in [&b"\r\n"[..], b"x", b"-1\r\n", b"1\r\nab", b"1234567890abcdef0\r\n"] {
            let mut chunks = Chunks::new();
            assert_eq!(chunks.take(text), None, "{text:?}");
        }
    }
}
