//! Opening the port of a device: which back end, which rings, which memory.

use ringway_mem::pool::{Kind, PoolConfig, Registration, RingCounts, Sharing};
use ringway_mem::slot::NETMAP_MAX_FRAGS;
use rustix::io::Errno;

use super::host::{Host, WithHost};
use super::{DeviceOptions, Interface, Step, refusal};
use crate::backend::Backend;
use crate::error::PortError;
use crate::info::Transport;
use crate::name::{PortName, RingsName, Scheme};
use crate::open::{info, sharing};
use crate::packet::Packet;
use crate::port::{Port, Rings};
use crate::registry;
use crate::sys::device::{packet, tun, xsk};
use crate::tap::{self, Tap};
use crate::xdp::{self, Rule};

/// Slots of a ring if the name does not say.
const SLOTS: u32 = 1024;
/// Queues of a TAP device at most, as in the kernel.
const TAP_QUEUES_MAX: u32 = 256;
/// Buffers beyond those in the rings' slots: for a monitor, and extra ones.
const SPARE_BUFFERS: u32 = 4096;

/// Opens the port of a device: `netmap:IF` (with its rings), `xdp:IF/QUEUE`, `packet:IF` or `tap:NAME`.
///
/// # Errors
/// [`PortError::Refused`] says what was asked of the kernel, what it answered, and what to try.
pub fn open_device(name: &str, options: &DeviceOptions) -> Result<Port, PortError> {
    open(&name.parse()?, options)
}

/// Puts other steering rules in the place of those of an interface that this process has open, for all its ports, at
/// once and without losing a frame.
pub fn steer(interface: &str, rules: &[Rule]) -> Result<(), PortError> {
    if rules.len() > xdp::RULES_MAX {
        return Err(PortError::refused(
            interface,
            format!("an interface has at most {} steering rules", xdp::RULES_MAX),
        ));
    }
    xdp::replace_rules(&Interface::find(interface)?, rules)
}

pub(crate) fn open(name: &PortName, options: &DeviceOptions) -> Result<Port, PortError> {
    match &name.scheme {
        Scheme::Tap => open_tap(name, options),
        Scheme::Packet => open_packet(name, options, None),
        _ => open_interface(name, options),
    }
}

/// What a port is made of besides its back end.
struct Draft {
    registration: Registration,
    rings: Rings,
    counts: RingCounts,
}

/// A port of these rings in the pool of its name.
fn draft(name: &PortName, counts: RingCounts, sharing: Sharing) -> Result<Draft, PortError> {
    let default = PoolConfig::default();
    let extmem = name.options.extmem.clone().unwrap_or_default();
    let or = |asked: u32, otherwise: u32| if asked > 0 { asked } else { otherwise };
    let config = PoolConfig {
        buffers: or(extmem.buffers, counts.all_slots() + SPARE_BUFFERS),
        buffer_bytes: or(extmem.buffer_bytes, default.buffer_bytes),
        object_pages: default.object_pages.max(counts.all_slots() / 32),
    };
    let found = registry::pool(&name.pool_name(), config)?;
    let pool = &found.pool;
    if let Some(region) = name.options.region.filter(|region| *region != registry::region_of(pool)) {
        let why = format!("a device's memory is its own, region {}, not {region}", registry::region_of(pool));
        return Err(PortError::refused(name.to_string(), why));
    }
    let registration = pool.open(&name.port_name(), counts, sharing)?;
    let counts = pool.counts(registration.port())?;
    Ok(Draft { rings: rings_of(name, counts)?, registration, counts })
}

/// The rings that a name asks for.
fn rings_of(name: &PortName, counts: RingCounts) -> Result<Rings, PortError> {
    let (kinds, only): (&[Kind], Option<u32>) = match name.rings {
        RingsName::AllNic => (&[Kind::Tx, Kind::Rx], None),
        RingsName::Nic(k) => (&[Kind::Tx, Kind::Rx], Some(k.into())),
        RingsName::AllHost => (&[Kind::HostTx, Kind::HostRx], None),
        RingsName::Host(k) => (&[Kind::HostTx, Kind::HostRx], Some(k.into())),
        RingsName::NicAndHost => (&Kind::ALL, None),
        RingsName::Master(_) | RingsName::Slave(_) => return Err(PortError::refused(name.to_string(), "is a pipe")),
    };
    let only = match (&name.scheme, only) {
        (Scheme::Xdp { queue }, _) => *queue,
        (_, only) => only,
    };
    let most = kinds.iter().map(|kind| counts.of(*kind)).max().unwrap_or_default();
    if let Some(ring) = only.filter(|ring| *ring >= most) {
        let why = format!("there is no queue {ring}, only {most} from 0 on; `ethtool -l {}` shows them", name.port);
        return Err(PortError::refused(name.to_string(), why));
    }
    let wanted = |kind: &&Kind| if kind.sends() { !name.flags.rx_only } else { !name.flags.tx_only };
    let each = kinds.iter().filter(wanted).flat_map(|kind| (0..counts.of(*kind)).map(move |index| (*kind, index)));
    Ok(each.filter(|(_, index)| only.is_none_or(|only| only == *index)).collect())
}

fn slots(asked: u32) -> u32 {
    if asked > 0 { asked } else { SLOTS }
}

/// The part of the rings that a back end moves: NIC rings or host rings.
fn of_nic(rings: &Rings) -> (Rings, Rings) {
    rings.iter().partition(|(kind, _)| matches!(kind, Kind::Tx | Kind::Rx))
}

/// `netmap:IF`, `xdp:IF`: by XDP sockets, and by a packet socket where the kernel has none; said aloud.
fn open_interface(name: &PortName, options: &DeviceOptions) -> Result<Port, PortError> {
    let mut interface = Interface::find(&name.port)?;
    let mut limits = vec![];
    refuse_default_route(name, &interface, options)?;
    interface.settle(options.up, &mut limits)?;
    if name.rings == RingsName::AllNic && !xsk::exists() {
        let because = format!("{}: this kernel has no XDP sockets", name.port);
        return open_packet(name, options, Some(because));
    }
    if options.vnet_header {
        return Err(PortError::refused(
            name.to_string(),
            "XDP sockets have no virtio-net headers; tap: and packet: do",
        ));
    }
    let conf = name.options.conf;
    let counts = RingCounts {
        tx: interface.tx_queues.min(interface.rx_queues),
        rx: interface.rx_queues,
        host_tx: 1,
        host_rx: 1,
        tx_slots: slots(conf.tx_slots),
        rx_slots: slots(conf.rx_slots),
    };
    for (asked, found) in
        [(conf.tx_rings, counts.tx), (conf.rx_rings, counts.rx), (conf.host_tx_rings, 1), (conf.host_rx_rings, 1)]
    {
        if asked > 0 && asked != found {
            let why =
                format!("has {found} rings where {asked} are asked for; queues are the interface's (`ethtool -L`)");
            return Err(PortError::refused(name.to_string(), why));
        }
    }
    let Draft { registration, rings, counts } = draft(name, counts, sharing(name.flags))?;
    let (nic, host) = of_nic(&rings);
    let mut info = info(name, &registration, Transport::KernelCopy)?;
    info.packet_bytes_max = interface.frame_bytes_max();
    let mut backend: Option<Box<dyn Backend>> = None;
    if !nic.is_empty() {
        let opened = xdp::open(&interface, registration.pool(), registration.port(), (&nic, counts), options)?;
        (info.transport, info.packet_bytes_max) = (opened.transport, opened.frame_bytes_max);
        limits.extend(opened.limits);
        backend = Some(Box::new(opened.backend));
    }
    if !host.is_empty() {
        let host = Host::open(&interface)?;
        limits.push(format!("{}: what the host sends goes to the host rings, not to the wire", interface.name));
        if info.transport == Transport::KernelGeneric {
            limits.push(
                "frames for the host pass the generic program and come back; steer, so that they do not match"
                    .to_owned(),
            );
        }
        let count = |sends: bool| nic.iter().filter(|(kind, _)| kind.sends() == sends).count();
        backend = Some(match backend {
            Some(nic) => Box::new(WithHost { nic, nic_tx: count(true), nic_rx: count(false), host }),
            None => Box::new(host),
        });
    }
    let Some(backend) = backend else { return Err(PortError::refused(name.to_string(), "asks for no ring")) };
    info.limits = limits;
    Port::new(registration, &rings, backend, info)
}

fn refuse_default_route(name: &PortName, interface: &Interface, options: &DeviceOptions) -> Result<(), PortError> {
    if options.force || !interface.has_default_route() {
        return Ok(());
    }
    let why = "the default route leads through this interface, and this machine might be cut off; \
               take another one";
    Err(PortError::refused(name.to_string(), why))
}

/// `packet:IF`.
fn open_packet(name: &PortName, options: &DeviceOptions, because: Option<String>) -> Result<Port, PortError> {
    let mut interface = Interface::find(&name.port)?;
    let mut limits: Vec<String> = because.into_iter().collect();
    interface.settle(options.up, &mut limits)?;
    let conf = name.options.conf;
    let counts =
        RingCounts { tx_slots: slots(conf.tx_slots), rx_slots: slots(conf.rx_slots), ..RingCounts::pairs(1, SLOTS) };
    let Draft { registration, rings, .. } = draft(name, counts, Sharing::Exclusive)?;
    let fd = packet::open(interface.index, options.promiscuous);
    let fd = fd.map_err(|errno| refusal(&interface.name, Step::PacketSocket, errno))?;
    let mut info = info(name, &registration, Transport::KernelGeneric)?;
    info.packet_bytes_max = interface.frame_bytes_max();
    if options.vnet_header {
        info.vnet_header_bytes = packet::HEADER_BYTES as u32;
        info.packet_bytes_max = tap::OFFLOAD_BYTES_MAX;
    }
    enough_slots(name, counts.rx_slots, info.packet_bytes_max, info.buffer_bytes)?;
    limits.push(format!("{}: a packet socket; the host gets all frames as well", interface.name));
    if !options.promiscuous {
        limits.push(format!("{}: frames to other addresses come only if the interface is promiscuous", interface.name));
    }
    info.limits = limits;
    Port::new(registration, &rings, Box::new(Packet::new(fd, options.vnet_header)), info)
}

/// `tap:NAME`.
fn open_tap(name: &PortName, options: &DeviceOptions) -> Result<Port, PortError> {
    let conf = name.options.conf;
    let queues = conf.tx_rings.max(conf.rx_rings).max(1);
    if queues > TAP_QUEUES_MAX {
        return Err(PortError::refused(name.to_string(), format!("a TAP device has at most {TAP_QUEUES_MAX} queues")));
    }
    let existed = Interface::exists(&name.port);
    let counts = RingCounts {
        tx_slots: slots(conf.tx_slots),
        rx_slots: slots(conf.rx_slots),
        ..RingCounts::pairs(queues, SLOTS)
    };
    let Draft { registration, rings, .. } = draft(name, counts, Sharing::Exclusive)?;
    let fds = tap_queues(&name.port, queues)?;
    for fd in &fds {
        tun::set_offload(fd, options.vnet_header).map_err(|errno| refusal(&name.port, Step::TapOffload, errno))?;
    }
    let mut interface = Interface::find(&name.port)?;
    let mut limits = vec![match existed {
        true => format!("{}: attached to a device that was there, and stays", name.port),
        false => format!("{}: a TAP device, made now; it goes with the port", name.port),
    }];
    interface.settle(options.up, &mut limits)?;
    let mut info = info(name, &registration, Transport::KernelCopy)?;
    info.packet_bytes_max = interface.frame_bytes_max();
    if options.vnet_header {
        info.vnet_header_bytes = tap::HEADER_BYTES as u32;
        info.packet_bytes_max = tap::OFFLOAD_BYTES_MAX;
        limits.push(format!("{}: frames may lack checksums and be 64 KiB long, as their headers say", name.port));
    }
    enough_slots(name, counts.rx_slots, info.packet_bytes_max, info.buffer_bytes)?;
    info.limits = limits;
    let tap = Tap::new(fds, options.vnet_header, info.packet_bytes_max);
    Port::new(registration, &rings, Box::new(tap), info)
}

/// The queues of a TAP device. One that was made with a single queue has just that, and wants to be attached to so.
fn tap_queues(name: &str, queues: u32) -> Result<Vec<std::os::fd::OwnedFd>, PortError> {
    let open = |multi_queue: bool| (0..queues).map(|_| tun::open(name, multi_queue)).collect::<Result<Vec<_>, Errno>>();
    let opened = match open(true) {
        Err(Errno::INVAL) if queues == 1 => open(false),
        other => other,
    };
    opened.map_err(|errno| refusal(name, Step::TapDevice, errno))
}

/// A frame must fit into the ring as a whole.
fn enough_slots(name: &PortName, ring_slots: u32, packet_bytes: u32, buffer_bytes: u32) -> Result<(), PortError> {
    let needed = packet_bytes.div_ceil(buffer_bytes);
    if needed < ring_slots && needed as usize <= NETMAP_MAX_FRAGS {
        return Ok(());
    }
    let why = format!(
        "a frame of {packet_bytes} bytes needs {needed} slots of {buffer_bytes} bytes; use longer rings or larger buffers"
    );
    Err(PortError::refused(name.to_string(), why))
}
