//! The interface before version 12: one `struct nmreq` for everything. NIOCREGIF and NIOCGINFO are taken for REGISTER
//! and PORT_INFO_GET, and answered in the old form.

use ringway_mem::user;
use rustix::io::Errno;

use crate::abi::{self, Legacy, PortInfo, Register, flag, legacy, mode};
use crate::request;

/// A `struct nmreq`, copied.
pub(crate) struct LegacyRequest {
    address: u64,
    pub(crate) name: String,
    pub(crate) fields: Legacy,
}

impl LegacyRequest {
    /// # Errors
    /// `EFAULT`; `EINVAL` for a version before 11. Later ones than ours are taken: the old form does not change.
    pub(crate) fn read(address: u64) -> Result<LegacyRequest, Errno> {
        let mut bytes = [0; Legacy::BYTES];
        user::read(address, &mut bytes)?;
        let fields = Legacy::from_bytes(&bytes);
        if fields.nr_version < abi::LEGACY_API_MIN {
            return Err(Errno::INVAL);
        }
        Ok(LegacyRequest { address, name: request::name(&bytes[abi::LEGACY_NAME]), fields })
    }

    /// Writes the fields back; the name stays.
    fn answer(&self) -> Result<(), Errno> {
        let at = abi::LEGACY_NAME.end;
        user::write(self.address + at as u64, &self.fields.to_bytes()[at..])
    }

    /// The REGISTER that it means.
    pub(crate) fn register(&self) -> Register {
        let old = &self.fields;
        let mode_given = old.nr_flags & legacy::MODE_MASK;
        let nr_mode = if mode_given != 0 { mode_given } else { mode_of_ring_id(old.nr_ringid) };
        let mut nr_flags = u64::from(old.nr_flags & !legacy::MODE_MASK);
        for (bit, meaning) in [(legacy::NO_TX_POLL, flag::NO_TX_POLL), (legacy::DO_RX_POLL, flag::DO_RX_POLL)] {
            if old.nr_ringid & bit != 0 {
                nr_flags |= meaning;
            }
        }
        Register {
            nr_tx_slots: old.nr_tx_slots,
            nr_rx_slots: old.nr_rx_slots,
            nr_tx_rings: old.nr_tx_rings,
            nr_rx_rings: old.nr_rx_rings,
            nr_mem_id: old.nr_arg2,
            nr_ringid: old.nr_ringid & legacy::RING_MASK,
            nr_mode,
            nr_extra_bufs: old.nr_arg3,
            nr_flags,
            ..Register::default()
        }
    }

    /// Answers as a registration; flags and ring id stay as the program wrote them.
    pub(crate) fn answer_register(&mut self, new: &Register) -> Result<(), Errno> {
        let old = &mut self.fields;
        old.nr_offset = new.nr_offset as u32;
        old.nr_memsize = new.nr_memsize.min(u32::MAX.into()) as u32;
        (old.nr_tx_slots, old.nr_rx_slots) = (new.nr_tx_slots, new.nr_rx_slots);
        (old.nr_tx_rings, old.nr_rx_rings) = (new.nr_tx_rings, new.nr_rx_rings);
        (old.nr_arg2, old.nr_arg3) = (new.nr_mem_id, new.nr_extra_bufs);
        self.answer()
    }

    pub(crate) fn answer_info(&mut self, new: &PortInfo) -> Result<(), Errno> {
        let old = &mut self.fields;
        old.nr_memsize = new.nr_memsize.min(u32::MAX.into()) as u32;
        (old.nr_tx_slots, old.nr_rx_slots) = (new.nr_tx_slots, new.nr_rx_slots);
        (old.nr_tx_rings, old.nr_rx_rings) = (new.nr_tx_rings, new.nr_rx_rings);
        old.nr_arg2 = new.nr_mem_id;
        self.answer()
    }
}

/// How programs chose rings before there were modes.
fn mode_of_ring_id(ring_id: u16) -> u32 {
    match ring_id & (legacy::HW_RING | legacy::SW_RING) {
        legacy::HW_RING => mode::ONE_NIC,
        legacy::SW_RING => mode::SW,
        _ => mode::ALL_NIC,
    }
}
