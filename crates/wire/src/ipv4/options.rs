//! The options of an IPv4 header: walked, judged, never written (RFC 791, 3.1).

use crate::Error;

/// What an option asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    RecordRoute,
    Timestamp,
    LooseSourceRoute,
    StrictSourceRoute,
    /// RFC 2113.
    RouterAlert,
    /// Any other, by its number.
    Unknown(u8),
}

impl Kind {
    fn from_number(number: u8) -> Kind {
        match number {
            7 => Kind::RecordRoute,
            68 => Kind::Timestamp,
            131 => Kind::LooseSourceRoute,
            137 => Kind::StrictSourceRoute,
            148 => Kind::RouterAlert,
            other => Kind::Unknown(other),
        }
    }
}

/// An option and the bytes behind its length.
pub type Entry<'a> = (Kind, &'a [u8]);

const END: u8 = 0;
const NOP: u8 = 1;

/// The options in `bytes`, padding left out. After an impossible length comes `Err(Ipv4Option)`, and no more.
pub fn iter(bytes: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, Error>> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        while let [NOP, tail @ ..] = rest {
            rest = tail;
        }
        match *rest {
            [] | [END, ..] => None,
            [number, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                let (option, tail) = rest.split_at(len.into());
                rest = tail;
                Some(Ok((Kind::from_number(number), &option[2..])))
            }
            _ => {
                rest = &[];
                Some(Err(Error::Ipv4Option))
            }
        }
    })
}

/// Refuses broken options and those by which a sender chooses the way of the answers, as hosts do by default
/// (RFC 7126, 4.3 and 4.4; Linux: `accept_source_route` 0).
#[cold]
pub(super) fn judge(bytes: &[u8]) -> Result<(), Error> {
    for option in iter(bytes) {
        if let (Kind::LooseSourceRoute | Kind::StrictSourceRoute, _) = option? {
            return Err(Error::Ipv4SourceRoute);
        }
    }
    Ok(())
}
