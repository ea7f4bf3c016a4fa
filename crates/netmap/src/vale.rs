//! Requests about switches and their ports: VALE_LIST, PORT_HDR_SET and GET, VALE_NEWIF, DELIF, ATTACH and DETACH. In user
//! space there is nobody to move a network device's packets for a switch, so attaching one is refused (`EOPNOTSUPP`): a
//! program does that, `ringway bridge` for one. For the same reason there is no polling by the kernel.

use ringway_port::PortName;
use ringway_port::name::{Conf, Scheme};
use ringway_switch::directory::{self, Member};
use ringway_switch::persistent::{self, InterfaceError};
use rustix::io::Errno;

use crate::abi::{NewInterface, Polling, Register, ValeList, mode};
use crate::error::errno;
use crate::{info, name};

/// Lengths that a virtio-net header can have, in bytes.
const HEADER_BYTES: [u32; 3] = [0, 10, 12];

/// The port of a switch that a request names.
fn port_of_switch(name: &str) -> Result<PortName, Errno> {
    let parsed = name::parse(name)?;
    if matches!(parsed.scheme, Scheme::Vale { .. }) { Ok(parsed) } else { Err(Errno::INVAL) }
}

/// VALE_LIST: without a name, the first port at or after the place that the request gives, whose name is returned; with
/// one, its place. Ports are those of the switches that this process is at.
pub(crate) fn list(name: &str, request: &mut ValeList) -> Result<String, Errno> {
    let members = directory::members();
    let place = |member: &Member| (member.switch, u32::from(member.port));
    let from = (usize::from(request.nr_bridge_idx), request.nr_port_idx);
    let found = if name.is_empty() {
        members.iter().find(|member| place(member) >= from)
    } else if name.starts_with("vale") {
        members.iter().find(|member| member.name == name)
    } else {
        return Err(Errno::INVAL);
    };
    let found = found.ok_or(Errno::NOENT)?;
    (request.nr_bridge_idx, request.nr_port_idx) = (found.switch as u16, found.port.into());
    Ok(found.name.clone())
}

/// PORT_HDR_SET.
pub(crate) fn set_header(name: &str, bytes: u32) -> Result<(), Errno> {
    if !HEADER_BYTES.contains(&bytes) {
        return Err(Errno::INVAL);
    }
    let port = port_of_switch(name).map_err(|_| Errno::NXIO)?;
    if directory::set_header_bytes(&port, bytes) { Ok(()) } else { Err(Errno::NXIO) }
}

/// PORT_HDR_GET: ports of switches have headers if told so, others none.
pub(crate) fn header(name: &str) -> Result<u32, Errno> {
    let parsed = name::parse(name)?;
    match parsed.scheme {
        Scheme::Vale { .. } => directory::header_bytes(&parsed).ok_or(Errno::NXIO),
        _ => info::exists(&parsed).map(|()| 0),
    }
}

/// VALE_NEWIF.
pub(crate) fn new_interface(name: &str, request: &NewInterface) -> Result<(), Errno> {
    let parsed = name::parse(name)?;
    if parsed.scheme != Scheme::Netmap || parsed.port != name {
        return Err(Errno::INVAL);
    }
    let conf = Conf {
        tx_rings: request.nr_tx_rings.into(),
        rx_rings: request.nr_rx_rings.into(),
        tx_slots: request.nr_tx_slots,
        rx_slots: request.nr_rx_slots,
        ..Conf::default()
    };
    persistent::create(name, conf).map_err(|e| interface_errno(&e))
}

/// VALE_DELIF.
pub(crate) fn delete_interface(name: &str) -> Result<(), Errno> {
    persistent::remove(name).map_err(|e| interface_errno(&e))
}

/// VALE_ATTACH.
pub(crate) fn attach(name: &str, register: &Register) -> Result<(), Errno> {
    let port = port_of_switch(name)?;
    match register.nr_mode {
        mode::ALL_NIC | mode::NIC_SW => {}
        _ => return Err(Errno::INVAL),
    }
    match persistent::attach(&port) {
        Err(InterfaceError::Unknown) if info::is_interface(&port.port) => Err(Errno::OPNOTSUPP),
        result => result.map_err(|e| interface_errno(&e)),
    }
}

/// VALE_DETACH.
pub(crate) fn detach(name: &str) -> Result<(), Errno> {
    persistent::detach(&port_of_switch(name)?).map_err(|e| interface_errno(&e))
}

/// VALE_POLLING_ENABLE and DISABLE: only for attached network devices, of which there are none.
pub(crate) fn polling(name: &str, _request: &Polling) -> Result<(), Errno> {
    port_of_switch(name).and(Err(Errno::OPNOTSUPP))
}

fn interface_errno(e: &InterfaceError) -> Errno {
    match e {
        InterfaceError::Exists => Errno::EXIST,
        InterfaceError::Unknown => Errno::NXIO,
        InterfaceError::Busy => Errno::BUSY,
        InterfaceError::Full => Errno::NOMEM,
        InterfaceError::Port(e) => errno(e),
    }
}
