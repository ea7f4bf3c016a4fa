//! Fragments put together, within bounds (RFC 791, 3.2; RFC 8200, 4.5; RFC 5722).
//!
//! Fragments are kept as they come, each once, so that what is kept is what was sent: a datagram of one small
//! fragment at a high offset costs its own bytes and no more. The pieces are copied into place when the last one
//! has come. What cannot be right makes a datagram *given up*: its bytes go, its entry stays until its time is
//! over, so that fragments that come later do not begin it anew (RFC 5722, 4).

use alloc::vec::Vec;

use crate::Error;
use crate::ip::{Ecn, Fragment, IpAddress, Protocol};
use crate::ipv6::extensions::Upper;
use crate::{ipv4, ipv6};

/// What a [`Reassembler`] keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Unfinished datagrams, those given up included.
    pub datagrams: usize,
    /// Bytes of fragments, of all datagrams together.
    pub bytes: usize,
    /// Fragments of one datagram.
    pub fragments: usize,
    /// The longest datagram, in bytes of payload.
    pub payload_len: usize,
    /// How long a datagram may take from its first fragment on.
    pub timeout_us: u64,
}

impl Limits {
    /// Linux's 30 s and 4 MiB; 64 fragments carry 65,535 bytes over links of 1,070 bytes or more.
    pub const IPV4: Limits = Limits {
        datagrams: 256,
        bytes: 4 << 20,
        fragments: 64,
        payload_len: ipv4::PAYLOAD_LEN_MAX,
        timeout_us: 30_000_000,
    };
    /// 60 s (RFC 8200, 4.5).
    pub const IPV6: Limits = Limits { payload_len: ipv6::PAYLOAD_LEN_MAX, timeout_us: 60_000_000, ..Limits::IPV4 };
}

/// What fragments of one datagram have in common, besides their identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub source: IpAddress,
    pub destination: IpAddress,
    /// In IPv4 a part of the identity (RFC 791); in IPv6 not, and [`Protocol::FRAGMENT`] stands here.
    pub protocol: Protocol,
}

/// One fragment with what it says of its datagram.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub key: Key,
    pub fragment: Fragment,
    /// What the payload is; counts in the first fragment.
    pub protocol: Protocol,
    pub ecn: Ecn,
    pub payload: &'a [u8],
}

impl<'a> Part<'a> {
    /// `None` if the packet is a whole datagram.
    pub fn v4(packet: &ipv4::Packet<'a>) -> Option<Part<'a>> {
        let protocol = packet.protocol();
        let key = Key { source: packet.source().into(), destination: packet.destination().into(), protocol };
        let fragment = packet.fragment()?;
        Some(Part { key, fragment, protocol, ecn: packet.ecn(), payload: packet.payload() })
    }

    /// `None` if `upper`, what was found behind the packet's extension headers, is a whole datagram.
    pub fn v6(packet: &ipv6::Packet<'a>, upper: &Upper<'a>) -> Option<Part<'a>> {
        let (source, destination) = (packet.source().into(), packet.destination().into());
        let key = Key { source, destination, protocol: Protocol::FRAGMENT };
        let (protocol, payload) = (upper.protocol, upper.payload);
        Some(Part { key, fragment: upper.fragment?, protocol, ecn: packet.ecn(), payload })
    }
}

/// A datagram that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// What the first fragment said of the payload.
    pub protocol: Protocol,
    /// CE if any fragment said so (RFC 3168, 5.3).
    pub ecn: Ecn,
    pub payload: &'a [u8],
}

/// A datagram whose time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<'a> {
    pub key: Key,
    pub identification: u32,
    /// The first fragment's payload if it came: the sender is then told so (RFC 1122, 3.3.2; RFC 8200, 4.5).
    pub first: Option<&'a [u8]>,
}

/// One fragment's place: `offset..offset + len` of the datagram lies at `start` of the bytes kept.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset: usize,
    len: usize,
    start: usize,
}

impl Piece {
    fn end(&self) -> usize {
        self.offset + self.len
    }
}

#[derive(Debug)]
struct Partial {
    key: Key,
    identification: u32,
    deadline_us: u64,
    /// By the fragment with offset 0.
    protocol: Protocol,
    /// Bit `1 << ecn` for each value seen.
    ecn_seen: u8,
    /// Known once the last fragment has come.
    total_len: Option<usize>,
    given_up: bool,
    /// Sorted by offset, without overlap.
    pieces: Vec<Piece>,
    kept: Vec<u8>,
}

/// Datagrams that are being put together; one for each version of IP.
#[derive(Debug)]
pub struct Reassembler {
    limits: Limits,
    /// Oldest first, so that deadlines are in order.
    partial: Vec<Partial>,
    bytes: usize,
    /// The datagram that was completed last.
    complete: Vec<u8>,
}

impl Reassembler {
    pub const fn new(limits: Limits) -> Reassembler {
        Reassembler { limits, partial: Vec::new(), bytes: 0, complete: Vec::new() }
    }

    /// Takes a fragment; `Ok(Some(...))` if its datagram is complete with it. At most one pass over the datagrams and
    /// one over this one's fragments.
    ///
    /// # Errors
    /// The fragment is not kept: `FragmentLength`, `FragmentTooLong`, `FragmentDuplicate`, `ReassemblyDatagrams`,
    /// `ReassemblyBytes`. The whole datagram is given up: `FragmentOverlap`, `FragmentEcn`, `FragmentsTooMany`;
    /// what comes of it later is refused with `FragmentOverlap`.
    pub fn push(&mut self, now_us: u64, part: &Part) -> Result<Option<Datagram<'_>>, Error> {
        self.judge_length(part.fragment, part.payload)?;
        if self.bytes + part.payload.len() > self.limits.bytes {
            return Err(Error::ReassemblyBytes);
        }
        let index = self.find_or_begin(now_us, part.key, part.fragment.identification)?;
        let partial = &mut self.partial[index];
        let before = partial.kept.len();
        let result = partial.take(part, self.limits.fragments);
        self.bytes = self.bytes - before + partial.kept.len();
        result?;
        Ok(self.finish(index))
    }

    /// Forgets the oldest datagram whose time is over, and says which; call it until it says `None`.
    pub fn expire(&mut self, now_us: u64) -> Option<Expired<'_>> {
        let deadline_us = self.next_deadline_us()?;
        if now_us < deadline_us {
            return None;
        }
        let Partial { key, identification, pieces, kept, .. } = self.remove(0);
        let first = pieces.first().filter(|p| p.offset == 0).map(|p| p.start..p.start + p.len);
        self.complete = kept;
        Some(Expired { key, identification, first: first.map(|range| &self.complete[range]) })
    }

    /// When [`Reassembler::expire`] has something to do.
    pub fn next_deadline_us(&self) -> Option<u64> {
        self.partial.first().map(|p| p.deadline_us)
    }

    /// Unfinished datagrams, those given up included.
    pub fn datagrams(&self) -> usize {
        self.partial.len()
    }

    /// Bytes of fragments that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn judge_length(&self, fragment: Fragment, payload: &[u8]) -> Result<(), Error> {
        if payload.is_empty() || fragment.more && !payload.len().is_multiple_of(8) {
            return Err(Error::FragmentLength);
        }
        let end = usize::from(fragment.offset) + payload.len();
        if end > self.limits.payload_len { Err(Error::FragmentTooLong) } else { Ok(()) }
    }

    fn find_or_begin(&mut self, now_us: u64, key: Key, identification: u32) -> Result<usize, Error> {
        let same = |p: &Partial| p.identification == identification && p.key == key;
        if let Some(index) = self.partial.iter().position(same) {
            return Ok(index);
        }
        if self.partial.len() >= self.limits.datagrams {
            return Err(Error::ReassemblyDatagrams);
        }
        // Deadlines stay in order even if a caller's clock does not.
        let latest_us = self.partial.last().map_or(0, |p| p.deadline_us);
        self.partial.push(Partial {
            key,
            identification,
            deadline_us: now_us.saturating_add(self.limits.timeout_us).max(latest_us),
            protocol: key.protocol,
            ecn_seen: 0,
            total_len: None,
            given_up: false,
            pieces: Vec::new(),
            kept: Vec::new(),
        });
        Ok(self.partial.len() - 1)
    }

    fn remove(&mut self, index: usize) -> Partial {
        let partial = self.partial.remove(index);
        self.bytes -= partial.kept.len();
        partial
    }

    /// If the datagram is complete, takes it out and copies its pieces into place.
    fn finish(&mut self, index: usize) -> Option<Datagram<'_>> {
        let partial = &self.partial[index];
        if partial.total_len != Some(partial.kept.len()) {
            return None;
        }
        let partial = self.remove(index);
        self.complete.clear();
        for piece in &partial.pieces {
            self.complete.extend_from_slice(&partial.kept[piece.start..][..piece.len]);
        }
        Some(Datagram { protocol: partial.protocol, ecn: partial.ecn(), payload: &self.complete })
    }
}

impl Partial {
    /// Keeps a fragment's payload, or gives the datagram up.
    fn take(&mut self, part: &Part, pieces_max: usize) -> Result<(), Error> {
        if self.given_up {
            return Err(Error::FragmentOverlap);
        }
        let (more, offset) = (part.fragment.more, usize::from(part.fragment.offset));
        let piece = Piece { offset, len: part.payload.len(), start: self.kept.len() };
        let place = self.pieces.partition_point(|p| p.offset < offset);
        if self.is_duplicate(place, piece, part.payload) && more == (self.total_len != Some(piece.end())) {
            return Err(Error::FragmentDuplicate);
        }
        let judged = self.judge_place(place, piece, more).and_then(|()| self.judge_ecn(part.ecn));
        if let Err(error) = judged {
            self.give_up();
            return Err(error);
        }
        if self.pieces.len() >= pieces_max {
            self.give_up();
            return Err(Error::FragmentsTooMany);
        }
        if !more {
            self.total_len = Some(piece.end());
        }
        if offset == 0 {
            self.protocol = part.protocol;
        }
        self.pieces.insert(place, piece);
        self.kept.extend_from_slice(part.payload);
        Ok(())
    }

    fn is_duplicate(&self, place: usize, piece: Piece, payload: &[u8]) -> bool {
        let same = |p: &&Piece| p.offset == piece.offset && p.len == piece.len;
        self.pieces.get(place).filter(same).is_some_and(|p| self.kept[p.start..][..p.len] == *payload)
    }

    fn judge_place(&self, place: usize, piece: Piece, more: bool) -> Result<(), Error> {
        let overlaps_before = place > 0 && self.pieces[place - 1].end() > piece.offset;
        let overlaps_behind = self.pieces.get(place).is_some_and(|next| next.offset < piece.end());
        let highest = self.pieces.last().map_or(0, Piece::end);
        let disagrees_about_end = match self.total_len {
            Some(total_len) => piece.end() > total_len || !more,
            None => !more && piece.end() < highest,
        };
        if overlaps_before || overlaps_behind || disagrees_about_end { Err(Error::FragmentOverlap) } else { Ok(()) }
    }

    /// RFC 3168, 5.3: whether ECN is spoken is one answer for the whole datagram.
    fn judge_ecn(&mut self, ecn: Ecn) -> Result<(), Error> {
        self.ecn_seen |= 1 << ecn as u8;
        let not_ect = 1 << Ecn::NotEct as u8;
        if self.ecn_seen & not_ect != 0 && self.ecn_seen != not_ect { Err(Error::FragmentEcn) } else { Ok(()) }
    }

    fn give_up(&mut self) {
        self.given_up = true;
        self.pieces = Vec::new();
        self.kept = Vec::new();
    }

    fn ecn(&self) -> Ecn {
        [Ecn::Ce, Ecn::Ect0, Ecn::Ect1]
            .into_iter()
            .find(|ecn| self.ecn_seen & (1 << *ecn as u8) != 0)
            .unwrap_or(Ecn::NotEct)
    }
}

#[cfg(test)]
mod tests;
