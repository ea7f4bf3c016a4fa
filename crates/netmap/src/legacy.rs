//! The interface before version 12: one `struct nmreq` for everything. Each of its requests is taken for its twin of
//! version 14, and answered in the old form. An unknown or retired `nr_cmd` is `EOPNOTSUPP`.

use ringway_mem::user;
use rustix::io::Errno;

use crate::abi::{
    self, Legacy, LegacyPools, NewInterface, Polling, PoolsInfo, PortInfo, Register, ValeList, flag, legacy, mode,
};
use crate::device::{Answer, Device};
use crate::request::{self, Options};
use crate::{info, vale};

/// A `struct nmreq`, copied.
struct LegacyRequest {
    address: u64,
    name: String,
    fields: Legacy,
}

/// NIOCREGIF.
pub(crate) fn regif(device: &Device, address: u64) -> Result<Answer, Errno> {
    let mut request = LegacyRequest::read(address)?;
    match request.fields.nr_cmd {
        legacy::CMD_NONE => {
            let (name, mut fields) = request.register()?;
            device.register(&name, &mut fields, &mut Options::none())?;
            request.answer_register(&fields)?;
            return Ok(Answer::Bound);
        }
        legacy::CMD_ATTACH => {
            let (name, mut fields) = request.register()?;
            let with_host = request.fields.nr_arg1 & legacy::ATTACH_HOST != 0;
            fields.nr_mode = if with_host { mode::NIC_SW } else { mode::ALL_NIC };
            vale::attach(&name, &fields)?;
        }
        legacy::CMD_DETACH => vale::detach(&request.name)?,
        legacy::CMD_VNET_HDR => vale::set_header(&request.name, request.fields.nr_arg1.into())?,
        legacy::CMD_VNET_HDR_GET => request.fields.nr_arg1 = vale::header(&request.name)? as u16,
        legacy::CMD_NEWIF => vale::new_interface(&request.name, &request.new_interface())?,
        legacy::CMD_DELIF => vale::delete_interface(&request.name)?,
        legacy::CMD_POLLING_ON | legacy::CMD_POLLING_OFF => vale::polling(&request.name, &Polling::default())?,
        legacy::CMD_POOLS_INFO => {
            let mut pools = PoolsInfo::default();
            info::pools(&request.name, &mut pools)?;
            LegacyPools::from(pools).write(request.pools_address())?;
        }
        _ => return Err(Errno::OPNOTSUPP),
    }
    request.answer().map(|()| Answer::Done)
}

/// NIOCGINFO.
pub(crate) fn ginfo(address: u64) -> Result<Answer, Errno> {
    let mut request = LegacyRequest::read(address)?;
    if request.fields.nr_cmd == legacy::CMD_LIST {
        let mut place = ValeList { nr_bridge_idx: request.fields.nr_arg1, nr_port_idx: request.fields.nr_arg2.into() };
        let name = vale::list(&request.name, &mut place)?;
        (request.fields.nr_arg1, request.fields.nr_arg2) = (place.nr_bridge_idx, place.nr_port_idx as u16);
        request.answer()?;
        return request::write_name(address, abi::LEGACY_NAME, &name).map(|()| Answer::Done);
    }
    let mut fields = PortInfo::default();
    info::port(&request.name, &mut fields)?;
    request.answer_info(&fields).map(|()| Answer::Done)
}

impl LegacyRequest {
    /// # Errors
    /// `EFAULT`; `EINVAL` for a version before 11. Later ones than ours are taken: the old form does not change.
    fn read(address: u64) -> Result<LegacyRequest, Errno> {
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

    /// The REGISTER that it means, and the name in it: pipes had their id apart from it.
    fn register(&self) -> Result<(String, Register), Errno> {
        let old = &self.fields;
        let mode_given = old.nr_flags & legacy::MODE_MASK;
        let mut nr_mode = if mode_given != 0 { mode_given } else { mode_of_ring_id(old.nr_ringid) };
        let mut nr_flags = u64::from(old.nr_flags & !legacy::MODE_MASK);
        for (bit, meaning) in [(legacy::NO_TX_POLL, flag::NO_TX_POLL), (legacy::DO_RX_POLL, flag::DO_RX_POLL)] {
            if old.nr_ringid & bit != 0 {
                nr_flags |= meaning;
            }
        }
        let (mut name, mut nr_ringid) = (self.name.clone(), old.nr_ringid & legacy::RING_MASK);
        for (pipe, letter) in [(mode::PIPE_MASTER, '{'), (mode::PIPE_SLAVE, '}')] {
            if nr_mode == pipe {
                name = format!("{name}{letter}{nr_ringid}");
                (nr_mode, nr_ringid) = (mode::ALL_NIC, 0);
            }
        }
        if name.len() >= abi::HEADER_NAME.len() {
            return Err(Errno::NOBUFS);
        }
        let register = Register {
            nr_tx_slots: old.nr_tx_slots,
            nr_rx_slots: old.nr_rx_slots,
            nr_tx_rings: old.nr_tx_rings,
            nr_rx_rings: old.nr_rx_rings,
            nr_mem_id: old.nr_arg2,
            nr_ringid,
            nr_mode,
            nr_extra_bufs: old.nr_arg3,
            nr_flags,
            ..Register::default()
        };
        Ok((name, register))
    }

    fn new_interface(&self) -> NewInterface {
        let old = &self.fields;
        NewInterface {
            nr_tx_slots: old.nr_tx_slots,
            nr_rx_slots: old.nr_rx_slots,
            nr_tx_rings: old.nr_tx_rings,
            nr_rx_rings: old.nr_rx_rings,
            nr_mem_id: old.nr_arg2,
        }
    }

    /// Where the program wants to have its pools described: a pointer that begins at `nr_arg1`.
    fn pools_address(&self) -> u64 {
        let old = &self.fields;
        u64::from(old.nr_arg1) | u64::from(old.nr_arg2) << 16 | u64::from(old.nr_arg3) << 32
    }

    /// Answers as a registration; flags and ring id stay as the program wrote them.
    fn answer_register(&mut self, new: &Register) -> Result<(), Errno> {
        let old = &mut self.fields;
        old.nr_offset = new.nr_offset as u32;
        old.nr_memsize = new.nr_memsize.min(u32::MAX.into()) as u32;
        (old.nr_tx_slots, old.nr_rx_slots) = (new.nr_tx_slots, new.nr_rx_slots);
        (old.nr_tx_rings, old.nr_rx_rings) = (new.nr_tx_rings, new.nr_rx_rings);
        (old.nr_arg2, old.nr_arg3) = (new.nr_mem_id, new.nr_extra_bufs);
        self.answer()
    }

    fn answer_info(&mut self, new: &PortInfo) -> Result<(), Errno> {
        let old = &mut self.fields;
        old.nr_memsize = new.nr_memsize.min(u32::MAX.into()) as u32;
        (old.nr_tx_slots, old.nr_rx_slots) = (new.nr_tx_slots, new.nr_rx_slots);
        (old.nr_tx_rings, old.nr_rx_rings) = (new.nr_tx_rings, new.nr_rx_rings);
        old.nr_arg2 = new.nr_mem_id;
        self.answer()
    }
}

impl From<PoolsInfo> for LegacyPools {
    fn from(pools: PoolsInfo) -> LegacyPools {
        LegacyPools {
            memsize: pools.nr_memsize,
            memid: pools.nr_mem_id.into(),
            if_pool_offset: pools.nr_if_pool_offset as u32,
            if_pool_objtotal: pools.nr_if_pool_objtotal,
            if_pool_objsize: pools.nr_if_pool_objsize,
            ring_pool_offset: pools.nr_ring_pool_offset as u32,
            ring_pool_objtotal: pools.nr_ring_pool_objtotal,
            ring_pool_objsize: pools.nr_ring_pool_objsize,
            buf_pool_offset: pools.nr_buf_pool_offset as u32,
            buf_pool_objtotal: pools.nr_buf_pool_objtotal,
            buf_pool_objsize: pools.nr_buf_pool_objsize,
        }
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
