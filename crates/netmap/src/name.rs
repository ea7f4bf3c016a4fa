//! What a request's name, mode and flags mean together, as a port's name.

use ringway_port::PortName;
use ringway_port::name::{Conf, RingsName, Scheme};
use ringway_port::registry;
use rustix::io::Errno;

use crate::abi::{Register, flag, mode};

/// The port that a name in a request means. Switch ports and our own schemes are written out; everything else is
/// an interface or a pipe.
pub(crate) fn parse(name: &str) -> Result<PortName, Errno> {
    let written_out = name.contains(':');
    let full = if written_out { name.to_owned() } else { format!("netmap:{name}") };
    let parsed: PortName = full.parse().map_err(|_| Errno::INVAL)?;
    let is_bare = parsed.flags == Default::default() && parsed.options == Default::default();
    let has_rings = matches!(parsed.rings, RingsName::AllNic | RingsName::Master(_) | RingsName::Slave(_));
    if is_bare && has_rings { Ok(parsed) } else { Err(Errno::INVAL) }
}

/// The port that a registration asks for.
pub(crate) fn wanted(name: &str, request: &Register) -> Result<PortName, Errno> {
    let both = flag::RX_RINGS_ONLY | flag::TX_RINGS_ONLY;
    if request.nr_flags & both == both {
        return Err(Errno::INVAL);
    }
    let mut wanted = match request.nr_mode {
        mode::NULL => null(),
        // Deprecated: the pipe's id apart from the name.
        mode::PIPE_MASTER => parse(&format!("{name}{{{}", request.nr_ringid))?,
        mode::PIPE_SLAVE => parse(&format!("{name}}}{}", request.nr_ringid))?,
        _ => parse(name)?,
    };
    let is_pipe = matches!(wanted.rings, RingsName::Master(_) | RingsName::Slave(_));
    let rings = match request.nr_mode {
        mode::ALL_NIC | mode::PIPE_MASTER | mode::PIPE_SLAVE | mode::NULL => RingsName::AllNic,
        mode::ONE_NIC => RingsName::Nic(request.nr_ringid),
        mode::SW if !is_pipe => RingsName::AllHost,
        mode::NIC_SW if !is_pipe => RingsName::NicAndHost,
        mode::ONE_SW if !is_pipe => RingsName::Host(request.nr_ringid),
        _ => return Err(Errno::INVAL),
    };
    if !is_pipe {
        wanted.rings = rings;
    }
    wanted.flags.monitor_tx = request.nr_flags & flag::MONITOR_TX != 0;
    wanted.flags.monitor_rx = request.nr_flags & flag::MONITOR_RX != 0;
    wanted.flags.zero_copy_monitor = request.nr_flags & flag::ZCOPY_MON != 0;
    wanted.flags.exclusive = request.nr_flags & flag::EXCLUSIVE != 0;
    // An interface's memory stays in netmap, so programs open it again with the number that they were told. Ours goes with
    // its last port, and the number of what is gone means nothing.
    wanted.options.region = Some(request.nr_mem_id).filter(|region| *region != 0 && registry::is_region(*region));
    wanted.options.conf = Conf {
        tx_rings: request.nr_tx_rings.into(),
        rx_rings: request.nr_rx_rings.into(),
        host_tx_rings: request.nr_host_tx_rings.into(),
        host_rx_rings: request.nr_host_rx_rings.into(),
        tx_slots: request.nr_tx_slots,
        rx_slots: request.nr_rx_slots,
    };
    Ok(wanted)
}

fn null() -> PortName {
    PortName {
        scheme: Scheme::Null { source_bytes: 0 },
        port: String::new(),
        rings: RingsName::AllNic,
        flags: Default::default(),
        options: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str, nr_mode: u32, nr_ringid: u16) -> Result<String, Errno> {
        let request = Register { nr_mode, nr_ringid, ..Register::default() };
        wanted(name, &request).map(|name| name.to_string())
    }

    #[test]
    fn modes_choose_rings() {
        assert_eq!(shown("eth0", mode::ALL_NIC, 0).as_deref(), Ok("netmap:eth0"));
        assert_eq!(shown("eth0", mode::SW, 0).as_deref(), Ok("netmap:eth0^"));
        assert_eq!(shown("eth0", mode::NIC_SW, 0).as_deref(), Ok("netmap:eth0*"));
        assert_eq!(shown("eth0", mode::ONE_NIC, 3).as_deref(), Ok("netmap:eth0-3"));
        assert_eq!(shown("eth0", mode::ONE_SW, 1).as_deref(), Ok("netmap:eth0^1"));
        assert_eq!(shown("x{pipe1", mode::ALL_NIC, 0).as_deref(), Ok("netmap:x{pipe1"));
        assert_eq!(shown("x", mode::PIPE_SLAVE, 7).as_deref(), Ok("netmap:x}7"));
        assert_eq!(shown("vale0:a", mode::ALL_NIC, 0).as_deref(), Ok("vale0:a"));
        assert_eq!(shown("anything at all", mode::NULL, 0).as_deref(), Ok("null:"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (name, nr_mode) in [("eth0", 0), ("eth0", 9), ("", mode::ALL_NIC), ("x{1", mode::NIC_SW), ("x{1", mode::SW)]
        {
            assert_eq!(shown(name, nr_mode, 0), Err(Errno::INVAL), "{name} {nr_mode}");
        }
        let nr_flags = flag::RX_RINGS_ONLY | flag::TX_RINGS_ONLY;
        let request = Register { nr_mode: mode::ALL_NIC, nr_flags, ..Register::default() };
        assert_eq!(wanted("x{1", &request), Err(Errno::INVAL));
        for name in ["x{1/x", "x-1", "x@1", "x^"] {
            assert_eq!(parse(name), Err(Errno::INVAL), "{name}");
        }
    }
}
