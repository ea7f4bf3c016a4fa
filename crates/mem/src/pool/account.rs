//! Counting a pool's buffers.

use std::sync::Arc;

use super::layout::RESERVED_BUFFERS;
use super::{Pool, PortId};

/// Where the buffers are. `free + owned == total` always; at rest, `lost` and `doubled` are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// All that can be handed out.
    pub total: u32,
    pub free: u32,
    /// Owned by ports that exist.
    pub owned: u32,
    /// Owned by nobody who exists: never handed out again until that is mended.
    pub lost: u32,
    /// Slots whose buffer is in an earlier slot, too, or is free.
    pub doubled: u32,
    /// Owned, but in no slot: extra buffers, or in a program's hands.
    pub outside: u32,
}

impl Pool {
    /// Looks at every owner word and slot. A picture of a moment: exact when nothing moves.
    pub fn account(self: &Arc<Pool>) -> Account {
        let owners = self.buffer_owners();
        let mut account = Account { total: self.config().buffers - RESERVED_BUFFERS, ..Account::default() };
        for buffer in RESERVED_BUFFERS..self.config().buffers {
            match owners.of(buffer) {
                0 => account.free += 1,
                owner if self.record(owner).is_ok() => account.owned += 1,
                _ => account.lost += 1,
            }
        }
        let mut in_slot = vec![false; self.config().buffers as usize];
        let mut distinct = 0;
        for cell in self.ports().flat_map(|port| self.rings(port)).flat_map(|ring| slots_of(&ring)) {
            match in_slot.get_mut(cell as usize) {
                Some(seen) if !*seen && owners.of(cell) != 0 => {
                    *seen = true;
                    distinct += 1;
                }
                _ => account.doubled += 1,
            }
        }
        account.outside = account.owned.saturating_sub(distinct);
        account
    }

    /// Buffers that a port owns.
    pub fn owned_by(&self, port: PortId) -> u32 {
        self.buffer_owners().all_of(port.0).count() as u32
    }
}

pub(super) fn slots_of(ring: &super::Ring) -> Vec<u32> {
    ring.slots().iter().map(|cell| cell.load_word().buf_idx).collect()
}
