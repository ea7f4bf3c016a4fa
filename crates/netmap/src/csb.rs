//! CSB mode: the program says in cells of its own memory how far it is, and is told so there, instead of calling.
//! The cells are `ringway_mem::csb`'s, one each way for every bound ring, tx rings first; here they lie at addresses that the
//! program gave, which may be wild at any time, so each access is a copy.

use std::sync::atomic::{Ordering::SeqCst, fence};

use ringway_mem::pool::Ring;
use ringway_mem::user;
use rustix::io::Errno;

use crate::abi::{CsbOption, flag};
use crate::bound::Binding;

/// Bytes of a cell, either way.
const CELL_BYTES: usize = 64;
/// Of the program's cell: head, cur, appl_need_kick; of ours: hwcur, hwtail, kern_need_kick.
const FIRST: u64 = 0;
const SECOND: u64 = 4;
const NEED_KICK: u64 = 8;

/// Where the cells of a binding are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Csb {
    from_program: u64,
    to_program: u64,
}

impl Csb {
    /// Checks that the cells can be read and written, and fills them with where the rings are.
    ///
    /// # Errors
    /// `EINVAL` if no ring is bound, or not exclusively; `EFAULT` for wild addresses.
    pub(crate) fn new(binding: &Binding, option: &CsbOption) -> Result<Csb, Errno> {
        let rings = binding.tx.len() + binding.rx.len();
        if rings == 0 || !binding.note.has(flag::EXCLUSIVE) {
            return Err(Errno::INVAL);
        }
        for address in [option.csb_atok, option.csb_ktoa] {
            let mut cells = vec![0; rings * CELL_BYTES];
            user::read(address, &mut cells)?;
            user::write(address, &cells)?;
        }
        let csb = Csb { from_program: option.csb_atok, to_program: option.csb_ktoa };
        for (cell, ring) in binding.tx_rings().chain(binding.rx_rings()).map(|(_, ring)| ring).enumerate() {
            let (head, cur) = (&ring.header().head, &ring.header().cur);
            csb.write(csb.from_program, cell, FIRST, head.load(SeqCst))?;
            csb.write(csb.from_program, cell, SECOND, cur.load(SeqCst))?;
            csb.write(csb.from_program, cell, NEED_KICK, 1)?;
            csb.publish(cell, ring)?;
            csb.want_kick(cell, true)?;
        }
        Ok(csb)
    }

    fn read(self, base: u64, cell: usize, at: u64) -> Result<u32, Errno> {
        let mut word = [0; 4];
        user::read(base.wrapping_add((cell * CELL_BYTES) as u64 + at), &mut word)?;
        Ok(u32::from_ne_bytes(word))
    }

    fn write(self, base: u64, cell: usize, at: u64, word: u32) -> Result<(), Errno> {
        user::write(base.wrapping_add((cell * CELL_BYTES) as u64 + at), &word.to_ne_bytes())
    }

    /// Head and cur, not bounded: head first, for the program writes it last.
    pub(crate) fn head_and_cur(self, cell: usize) -> Result<(u32, u32), Errno> {
        let head = self.read(self.from_program, cell, FIRST)?;
        fence(SeqCst);
        Ok((head, self.read(self.from_program, cell, SECOND)?))
    }

    /// Shows the program how far its ring is: hwcur first.
    pub(crate) fn publish(self, cell: usize, ring: &Ring) -> Result<(), Errno> {
        let (kring, n) = (ring.kring(), ring.num_slots());
        self.write(self.to_program, cell, FIRST, kring.hwcur.get(n))?;
        fence(SeqCst);
        self.write(self.to_program, cell, SECOND, kring.hwtail.get(n))
    }

    /// Whether the program sleeps, after something was published to it.
    pub(crate) fn wants_kick(self, cell: usize) -> Result<bool, Errno> {
        fence(SeqCst);
        Ok(self.read(self.from_program, cell, NEED_KICK)? != 0)
    }

    /// Whether the program is to say when it has moved its words.
    pub(crate) fn want_kick(self, cell: usize, wanted: bool) -> Result<(), Errno> {
        self.write(self.to_program, cell, NEED_KICK, wanted.into())?;
        fence(SeqCst);
        Ok(())
    }
}
