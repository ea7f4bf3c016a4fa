//! The options of a segment: which there are, read tolerantly and written in Linux's order.
//!
//! ```text
//!   SYN, timestamps      mss 4 | sackOK 2 | TS 10      | nop | wscale 3 | fast open
//!   SYN, none            mss 4 | nop nop sackOK 2      | nop | wscale 3 | fast open
//!   later                nop nop TS 10 | nop nop SACK 2 + 8n
//! ```

mod fast_open;
mod sack;

pub use fast_open::FastOpen;
pub use sack::{SackBlock, SackBlocks};

mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
    pub(super) const MD5: u8 = 19;
    pub(super) const AO: u8 = 29;
    pub(super) const FAST_OPEN: u8 = 34;
    /// RFC 6994; fast open's identifier within is [`super::fast_open::EXPERIMENT`].
    pub(super) const EXPERIMENT_254: u8 = 254;
}

mod len {
    pub(super) const MSS: u8 = 4;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 2;
    pub(super) const TIMESTAMPS: u8 = 10;
    pub(super) const MD5: u8 = 18;
}

/// The largest shift (RFC 7323, 2.3).
pub(super) const WINDOW_SCALE_MAX: u8 = 14;

/// NOP, NOP, timestamps' kind and length: how nearly every segment's options begin.
const TIMESTAMPS_WORD: u32 = u32::from_be_bytes([kind::NOP, kind::NOP, kind::TIMESTAMPS, len::TIMESTAMPS]);

/// How the options of nearly every segment begin, before the two timestamps.
#[inline(always)]
pub(crate) const fn timestamps_word() -> u32 {
    TIMESTAMPS_WORD
}

/// RFC 7323, 3.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the clock value that it echoes; means something only with ACK.
    pub echo: u32,
}

impl Timestamps {
    #[inline(always)]
    fn from_bytes(bytes: &[u8; 8]) -> Timestamps {
        let [a, b, c, d, e, f, g, h] = *bytes;
        Timestamps { value: u32::from_be_bytes([a, b, c, d]), echo: u32::from_be_bytes([e, f, g, h]) }
    }

    #[inline(always)]
    pub(super) fn only(bytes: &[u8]) -> Option<Timestamps> {
        let bytes: &[u8; 12] = bytes.try_into().ok()?;
        let (word, timestamps) = bytes.split_first_chunk::<4>()?;
        (u32::from_be_bytes(*word) == TIMESTAMPS_WORD).then_some(Timestamps::from_bytes(timestamps.try_into().ok()?))
    }
}

/// A signature that the segment carries. Ringway verifies none, so what is signed is not for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// RFC 2385.
    Md5,
    /// RFC 5925.
    Ao,
}

/// The options of one segment. An option that occurs twice counts as it stands last; one of a wrong length is
/// passed over, and so is an unknown one (RFC 9293, MUST-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size, not zero.
    pub mss: Option<u16>,
    /// 0 to 14; larger shifts are taken for 14 (RFC 7323, 2.3).
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    pub timestamps: Option<Timestamps>,
    pub sack: SackBlocks,
    pub fast_open: Option<FastOpen>,
    /// Read only, never written.
    pub authentication: Option<Authentication>,
    /// An option's length was impossible, so it and what follows were passed over, as Linux does; for a counter
    /// (RFC 9293, MUST-7). Read only, never written.
    pub malformed: bool,
}

impl Options {
    pub const NONE: Options = Options {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::EMPTY,
        fast_open: None,
        authentication: None,
        malformed: false,
    };

    /// Reads an option area. At most as many steps as bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Options {
        match Timestamps::only(bytes) {
            None if bytes.is_empty() => Options::NONE,
            None => Options::parse_all(bytes),
            timestamps => Options { timestamps, ..Options::NONE },
        }
    }

    fn parse_all(bytes: &[u8]) -> Options {
        let mut options = Options::NONE;
        let mut rest = bytes;
        loop {
            rest = match *rest {
                [] | [kind::END, ..] => return options,
                [kind::NOP, ref tail @ ..] => tail,
                [number, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                    let (option, tail) = rest.split_at(len.into());
                    options.take(number, len, &option[2..]);
                    tail
                }
                _ => {
                    options.malformed = true;
                    return options;
                }
            };
        }
    }

    /// One option with the bytes behind its length.
    fn take(&mut self, number: u8, len: u8, data: &[u8]) {
        match (number, data) {
            (kind::MSS, &[high, low]) if (high, low) != (0, 0) => self.mss = Some(u16::from_be_bytes([high, low])),
            (kind::WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(WINDOW_SCALE_MAX)),
            (kind::SACK_PERMITTED, []) => self.sack_permitted = true,
            (kind::SACK, blocks) => self.sack = SackBlocks::parse(blocks).unwrap_or(self.sack),
            (kind::TIMESTAMPS, data) => {
                self.timestamps = data.try_into().ok().map(Timestamps::from_bytes).or(self.timestamps);
            }
            (kind::MD5, _) if len == len::MD5 => self.authentication = Some(Authentication::Md5),
            (kind::AO, [_, _, ..]) => self.authentication = Some(Authentication::Ao),
            (kind::FAST_OPEN, cookie) => self.fast_open = FastOpen::parse(cookie, false).or(self.fast_open),
            (kind::EXPERIMENT_254, data) => {
                let cookie = data.strip_prefix(&fast_open::EXPERIMENT.to_be_bytes());
                self.fast_open = cookie.and_then(|c| FastOpen::parse(c, true)).or(self.fast_open);
            }
            _ => {}
        }
    }

    /// The timestamps, if there is nothing else.
    #[inline(always)]
    pub fn only_timestamps(&self) -> Option<Timestamps> {
        let others = self.mss.is_some()
            || self.window_scale.is_some()
            || self.sack_permitted
            || !self.sack.is_empty()
            || self.fast_open.is_some();
        self.timestamps.filter(|_| !others)
    }

    /// How many bytes the options take when written; a multiple of 4. Above 40 they cannot be.
    #[inline(always)]
    pub fn wire_len(&self) -> usize {
        let mut words = 3 * usize::from(self.timestamps.is_some());
        words += usize::from(self.mss.is_some()) + usize::from(self.window_scale.is_some());
        words += usize::from(self.sack_permitted && self.timestamps.is_none());
        if !self.sack.is_empty() {
            words += 1 + 2 * self.sack.len();
        }
        4 * words + self.fast_open.map_or(0, |f| f.wire_len())
    }

    /// How many SACK blocks still find room beside the other options, 0 to 4.
    pub fn sack_room(&self) -> usize {
        let others = Options { sack: SackBlocks::EMPTY, ..*self }.wire_len();
        (super::OPTIONS_LEN_MAX.saturating_sub(others + 4) / 8).min(SackBlocks::MAX)
    }

    /// Writes the options into exactly [`Options::wire_len`] bytes, in the order of Linux's `tcp_options_write`.
    #[inline]
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let mut out = Words(bytes);
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            out.put([kind::MSS, len::MSS, high, low]);
        }
        match (self.timestamps, self.sack_permitted) {
            (Some(timestamps), sack_permitted) => {
                out.put(match sack_permitted {
                    true => [kind::SACK_PERMITTED, len::SACK_PERMITTED, kind::TIMESTAMPS, len::TIMESTAMPS],
                    false => TIMESTAMPS_WORD.to_be_bytes(),
                });
                out.put(timestamps.value.to_be_bytes());
                out.put(timestamps.echo.to_be_bytes());
            }
            (None, true) => out.put([kind::NOP, kind::NOP, kind::SACK_PERMITTED, len::SACK_PERMITTED]),
            (None, false) => {}
        }
        if let Some(shift) = self.window_scale {
            out.put([kind::NOP, kind::WINDOW_SCALE, len::WINDOW_SCALE, shift.min(WINDOW_SCALE_MAX)]);
        }
        if !self.sack.is_empty() {
            out.put([kind::NOP, kind::NOP, kind::SACK, 2 + 8 * self.sack.len() as u8]);
            for block in self.sack.as_slice() {
                out.put(block.left.0.to_be_bytes());
                out.put(block.right.0.to_be_bytes());
            }
        }
        if let Some(fast_open) = self.fast_open {
            fast_open.write(&mut out);
        }
    }
}

/// What is left to write; options come in whole words.
struct Words<'a>(&'a mut [u8]);

impl Words<'_> {
    #[inline(always)]
    fn put(&mut self, word: [u8; 4]) {
        if let Some((first, rest)) = core::mem::take(&mut self.0).split_first_chunk_mut() {
            *first = word;
            self.0 = rest;
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
