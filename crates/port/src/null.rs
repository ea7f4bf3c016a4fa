//! `null:`: takes everything and gives nothing. `null:BYTES` gives as many packets of that length as there is
//! room for.

use crate::backend::Backend;
use crate::error::PortError;
use crate::kring::{RxKring, TxKring};
use ringway_mem::slot::Slot;

pub(crate) struct Null {
    /// Length of the packets it gives, in bytes; 0 for none.
    pub(crate) source_bytes: u16,
}

impl Backend for Null {
    fn sync_tx(&mut self, _ring: usize, tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        let pending = tx.pending();
        let (mut packets, mut bytes) = (0, 0);
        for slot in (0..pending).map(|i| tx.slot(i)) {
            packets += u32::from(!slot.more_fragments());
            bytes += u64::from(slot.len);
        }
        tx.take(pending);
        tx.count(packets, bytes);
        Ok(())
    }

    fn sync_rx(&mut self, _ring: usize, rx: &RxKring, _released: u32, _now_ns: u64) -> Result<(), PortError> {
        let free = if self.source_bytes == 0 { 0 } else { rx.free() };
        for i in 0..free {
            rx.set_slot(i, Slot { buf_idx: rx.slot(i).buf_idx, len: self.source_bytes, flags: 0, ptr: 0 });
        }
        rx.publish(free);
        rx.count(free, u64::from(free) * u64::from(self.source_bytes));
        Ok(())
    }
}
