//! What a descriptor is bound to, in the few bits that travel with it (`Registration::note`): whoever gets it, by
//! SCM_RIGHTS or across exec, goes on with the same rings and flags.

use ringway_mem::pool::NOTE_BITS;

use crate::abi::{Register, flag};

const MODE_BITS: u32 = 4;
const RINGID_BITS: u32 = 12;
const FLAGS_AT: u32 = MODE_BITS + RINGID_BITS;
/// The flags of a registration are bits 8 to 17.
const FLAG_SHIFT: u32 = 8;
const FLAG_BITS: u32 = 10;
const _: () = assert!(FLAGS_AT + FLAG_BITS <= NOTE_BITS && flag::NO_TX_POLL >> FLAG_SHIFT < 1 << FLAG_BITS);

/// See the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) mode: u32,
    pub(crate) ringid: u16,
    pub(crate) flags: u64,
}

impl Note {
    pub(crate) fn of(request: &Register) -> Note {
        Note { mode: request.nr_mode, ringid: request.nr_ringid, flags: request.nr_flags }
    }

    pub(crate) fn to_bits(self) -> u32 {
        let flags = (self.flags >> FLAG_SHIFT) as u32 & ((1 << FLAG_BITS) - 1);
        self.mode & ((1 << MODE_BITS) - 1)
            | (u32::from(self.ringid) & ((1 << RINGID_BITS) - 1)) << MODE_BITS
            | flags << FLAGS_AT
    }

    pub(crate) fn from_bits(bits: u32) -> Note {
        Note {
            mode: bits & ((1 << MODE_BITS) - 1),
            ringid: (bits >> MODE_BITS & ((1 << RINGID_BITS) - 1)) as u16,
            flags: u64::from(bits >> FLAGS_AT & ((1 << FLAG_BITS) - 1)) << FLAG_SHIFT,
        }
    }

    pub(crate) fn has(self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_its_bits() {
        let note = Note { mode: 8, ringid: 0xfff, flags: flag::NO_TX_POLL | flag::MONITOR_TX | flag::EXCLUSIVE };
        assert_eq!(Note::from_bits(note.to_bits()), note);
    }
}
