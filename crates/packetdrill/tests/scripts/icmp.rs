//! ICMP errors as scripts write them: `icmp unreachable frag_needed mtu 1200 [1:1461(1460)]`.

use crate::flow::Version;

/// An error about our segment at `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IcmpError {
    pub(crate) kind: u8,
    pub(crate) code: u8,
    /// The word behind the checksum.
    pub(crate) rest: u32,
    pub(crate) seq: u32,
}

type TypeAndCode = (u8, u8);

/// RFC 792 and RFC 4443: name, type and code over IPv4, over IPv6.
const ERRORS: &[(&str, TypeAndCode, TypeAndCode)] = &[
    ("net_unreachable", (3, 0), (1, 0)),
    ("host_unreachable", (3, 1), (1, 3)),
    ("port_unreachable", (3, 3), (1, 4)),
    ("frag_needed", (3, 4), (2, 0)),
    ("admin_prohibited", (3, 13), (1, 1)),
    ("time_exceeded", (11, 0), (3, 0)),
];

/// The error that `text` means; `None` if it is a segment.
pub(crate) fn parse(text: &str, version: Version) -> Result<Option<IcmpError>, String> {
    let Some(rest) = text.strip_prefix("icmp") else { return Ok(None) };
    let (mut found, mut mtu, mut seq) = (None, 0, 0);
    let mut words = rest.split_whitespace();
    while let Some(word) = words.next() {
        if word == "mtu" {
            mtu = words.next().and_then(|word| word.parse().ok()).ok_or("mtu what?")?;
        } else if let Some(range) = word.strip_prefix('[') {
            seq = range.split(':').next().and_then(|word| word.parse().ok()).ok_or("which segment?")?;
        } else if word != "unreachable" {
            let (_, v4, v6) = ERRORS.iter().find(|(name, ..)| *name == word).ok_or(format!("`{word}` is unknown"))?;
            found = Some(if version == Version::V4 { *v4 } else { *v6 });
        }
    }
    let (kind, code) = found.ok_or("which error?")?;
    Ok(Some(IcmpError { kind, code, rest: mtu, seq }))
}
