//! Opening a port by its name.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ringway_mem::pool::{PORTS_MAX, Pool, PoolConfig, PoolError, Registration, RingCounts, Sharing};

use crate::backend::Backend;
use crate::device::{self, DeviceOptions};
use crate::error::PortError;
use crate::info::{Info, Transport};
use crate::monitor;
use crate::name::{Conf, Flags, PortName, RingsName, Scheme};
use crate::null::Null;
use crate::pcap::{Sink, Source};
use crate::pipe::Pipe;
use crate::port::{Port, Rings, all_rings};
use crate::registry::{self, Found};

/// Slots of a ring if the name does not say.
const SLOTS: u32 = 1024;
/// Slots of a pipe's ring at most, as in netmap.
const PIPE_SLOTS_MAX: u32 = 4096;

/// Opens a port by name; [`crate::name::GRAMMAR`] says how names look.
///
/// # Errors
/// The name breaks the grammar, is in use exclusively, or asks for what this machine cannot do; the error says which.
pub fn open(name: &str) -> Result<Port, PortError> {
    open_name(&name.parse()?)
}

/// Like [`open`], for a name that is already taken apart.
pub fn open_name(name: &PortName) -> Result<Port, PortError> {
    refuse_options(name)?;
    if monitor::is_monitor(name.flags) {
        return open_monitor(name);
    }
    match &name.scheme {
        Scheme::Null { source_bytes } => open_null(name, *source_bytes),
        Scheme::Shm => open_shm(name),
        Scheme::Netmap => match &name.rings {
            RingsName::Master(id) => open_pipe_by_name(name, id, true),
            RingsName::Slave(id) => open_pipe_by_name(name, id, false),
            _ => device::open(name, &DeviceOptions::default()),
        },
        Scheme::Vale { .. } => Err(PortError::refused(name.to_string(), "a port of a switch: open it there")),
        Scheme::Pcap if name.flags.tx_only => {
            let sink = Sink::create(&name.port)?;
            open_private(name, ring_counts(name.options.conf), Transport::None, Box::new(sink))
        }
        Scheme::Pcap => {
            let source = Source::open(&name.port)?;
            open_private(name, ring_counts(name.options.conf), Transport::None, Box::new(source))
        }
        Scheme::Xdp { .. } | Scheme::Packet | Scheme::Tap => device::open(name, &DeviceOptions::default()),
    }
}

/// Options that a port of this kind does not serve.
fn refuse_options(name: &PortName) -> Result<(), PortError> {
    let options = &name.options;
    let is_pipe = matches!(name.rings, RingsName::Master(_) | RingsName::Slave(_)) || name.scheme == Scheme::Shm;
    let is_device =
        !is_pipe && matches!(name.scheme, Scheme::Netmap | Scheme::Tap | Scheme::Packet | Scheme::Xdp { .. });
    let refused = |why: &str| Err(PortError::refused(name.to_string(), why));
    if options.offset.is_some() {
        return refused("batches begin at the first byte of a buffer; offsets are for netmap's programs (OFFSETS)");
    }
    if options.extmem.as_ref().is_some_and(|extmem| !extmem.file.is_empty()) {
        return refused("memory of a file cannot be a port's, for it is not sealed; leave the file out");
    }
    if options.share.is_some() && options.region.is_some() {
        return refused("@N and @share both say whose memory it is; leave one out");
    }
    if is_device && options.share.is_some() {
        return refused("a device's memory is its own; leave @share out");
    }
    Ok(())
}

/// The memory of a pipe or of a port that nobody else finds: the one that the name asks for, or the one of its own name.
fn memory_of(name: &PortName, config: PoolConfig) -> Result<Found, PortError> {
    match (name.options.region, &name.options.share) {
        (Some(region), _) => registry::region(region, config),
        (None, Some(port)) => {
            let full = if port.contains(':') { port.clone() } else { format!("netmap:{port}") };
            let shared: PortName = full.parse()?;
            let of_switch = matches!(shared.scheme, Scheme::Vale { .. });
            let find = if of_switch { registry::switch } else { registry::pool };
            find(&shared.pool_name(), config)
        }
        (None, None) => registry::pool(&name.pool_name(), config),
    }
}

/// A monitor of a port whose memory others can find by its name.
fn open_monitor(name: &PortName) -> Result<Port, PortError> {
    if !matches!(name.scheme, Scheme::Netmap | Scheme::Tap | Scheme::Packet) {
        let why =
            "ports of this kind have nobody else's traffic to monitor; netmap:, tap:, packet: and vale ports have";
        return Err(PortError::refused(name.to_string(), why));
    }
    let found = registry::pool(&name.pool_name(), PoolConfig::default())?;
    let mut port = monitor::open(&found.pool, name)?;
    port.add_limit(found.limit);
    Ok(port)
}

/// Opens one end of a pipe (`IF{ID`, `IF}ID`) in a pool that is at hand, instead of the one of that name.
///
/// # Errors
/// As for [`open`]; other kinds of names are refused.
pub fn open_in(pool: &Arc<Pool>, name: &str) -> Result<Port, PortError> {
    let name: PortName = name.parse()?;
    let counts = pipe_counts(&name)?;
    match &name.rings {
        RingsName::Master(id) => open_pipe((pool, None), &name, id, true, counts),
        RingsName::Slave(id) => open_pipe((pool, None), &name, id, false, counts),
        _ => {
            Err(PortError::refused(name.to_string(), "only ends of pipes (IF{ID, IF}ID) can be opened in a given pool"))
        }
    }
}

/// Rings as `@conf:` has them, the rest by default.
fn ring_counts(conf: Conf) -> RingCounts {
    let or = |n: u32, default: u32| if n == 0 { default } else { n };
    RingCounts {
        tx: or(conf.tx_rings, 1),
        rx: or(conf.rx_rings, 1),
        host_tx: 0,
        host_rx: 0,
        tx_slots: or(conf.tx_slots, SLOTS),
        rx_slots: or(conf.rx_slots, SLOTS),
    }
}

pub(crate) fn sharing(flags: Flags) -> Sharing {
    if flags.exclusive { Sharing::Exclusive } else { Sharing::Shared }
}

/// The rings that the flags leave.
pub(crate) fn rings_of(counts: RingCounts, flags: Flags) -> Rings {
    let mut rings = all_rings(counts);
    rings.retain(|(kind, _)| if kind.sends() { !flags.rx_only } else { !flags.tx_only });
    rings
}

/// A pool as large as ports of these rings need, and as `@extmem:` asks for.
fn pool_config(name: &PortName, slots: u32) -> PoolConfig {
    let default = PoolConfig::default();
    let extmem = name.options.extmem.clone().unwrap_or_default();
    PoolConfig {
        buffers: if extmem.buffers > 0 { extmem.buffers } else { default.buffers.max(slots + slots / 2) },
        buffer_bytes: if extmem.buffer_bytes > 0 { extmem.buffer_bytes } else { default.buffer_bytes },
        object_pages: default.object_pages.max(slots / 64),
    }
}

/// A port whose pool nobody else has, unless the name asks for a memory region.
pub(crate) fn open_private(
    name: &PortName,
    counts: RingCounts,
    transport: Transport,
    backend: Box<dyn Backend>,
) -> Result<Port, PortError> {
    let config = pool_config(name, counts.all_slots());
    let registration = match (name.options.region, &name.options.share) {
        (None, None) => Pool::create(config)?.open(&name.port_name(), counts, Sharing::Exclusive)?,
        _ => open_nameless(&memory_of(name, config)?.pool, &name.port_name(), counts)?,
    };
    let info = info(name, &registration, transport)?;
    Port::new(registration, &rings_of(counts, name.flags), backend, info)
}

/// A port in a pool where many may have the same name.
fn open_nameless(pool: &Arc<Pool>, name: &str, counts: RingCounts) -> Result<Registration, PoolError> {
    let numbered = |n| pool.open(&format!("{name}.{n}"), counts, Sharing::Exclusive);
    let opened = (1..PORTS_MAX).map(numbered).find(|opened| !matches!(opened, Err(PoolError::Busy(_))));
    opened.unwrap_or(Err(PoolError::PortsExhausted))
}

/// The port that a descriptor stands for which another process, or this one before it executed a program, opened.
///
/// # Errors
/// It is none, or of a kind whose other side cannot be reached by its memory alone.
pub fn adopt(fd: OwnedFd) -> Result<Port, PortError> {
    adopt_registration(registry::attach(fd.as_fd())?.registration_of(fd)?)
}

/// Like [`adopt`], for what the descriptor has been found to stand for.
///
/// # Errors
/// As for [`adopt`].
pub fn adopt_registration(registration: Registration) -> Result<Port, PortError> {
    let (pool, port) = (registration.pool().clone(), registration.port());
    let port_name = pool.name(port)?;
    if pool.feed_of(port).is_some() {
        return monitor::adopt(&port_name, registration);
    }
    if pool.peer(port).is_some() {
        let met_at = pool.met_at();
        let of_switch = met_at.starts_with("vale").then_some(met_at.as_str());
        let name: PortName = format!("{}:{port_name}", of_switch.unwrap_or("netmap")).parse()?;
        return pipe_port(&name, registration, None);
    }
    if !port_name.starts_with("null") {
        return Err(PortError::refused(port_name, "only pipes and null ports can be taken over by their descriptor"));
    }
    let name: PortName = "null:".parse()?;
    let info = info(&name, &registration, Transport::None)?;
    Port::new(registration, &rings_of(info.counts, name.flags), Box::new(Null { source_bytes: 0 }), info)
}

fn open_null(name: &PortName, source_bytes: u16) -> Result<Port, PortError> {
    let config = PoolConfig::default();
    if u32::from(source_bytes) > config.buffer_bytes {
        let why = format!("packets have at most {} bytes here, one buffer", config.buffer_bytes);
        return Err(PortError::refused(name.to_string(), why));
    }
    open_private(name, ring_counts(name.options.conf), Transport::None, Box::new(Null { source_bytes }))
}

/// `shm:NAME`: the end that nobody has yet.
fn open_shm(name: &PortName) -> Result<Port, PortError> {
    let counts = pipe_counts(name)?;
    let found = memory_of(name, pool_config(name, 2 * counts.all_slots()))?;
    let ends = [format!("{}{{0", name.port), format!("{}}}0", name.port)];
    for (ours, theirs) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
        match found.pool.open_pipe(ours, theirs, counts, Sharing::Exclusive) {
            Ok(registration) => return pipe_port(name, registration, found.limit),
            Err(PoolError::Busy(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(PortError::refused(name.to_string(), "both ends are in use; take another name"))
}

fn open_pipe_by_name(name: &PortName, id: &str, master: bool) -> Result<Port, PortError> {
    let counts = pipe_counts(name)?;
    let found = memory_of(name, pool_config(name, 2 * counts.all_slots()))?;
    open_pipe((&found.pool, found.limit.clone()), name, id, master, counts)
}

/// One end of pipe `id` of the port that `name` names, in a pool with its limit.
fn open_pipe(
    (pool, limit): (&Arc<Pool>, Option<String>),
    name: &PortName,
    id: &str,
    master: bool,
    counts: RingCounts,
) -> Result<Port, PortError> {
    let (master_name, slave_name) = (format!("{}{{{id}", name.port), format!("{}}}{id}", name.port));
    let (ours, theirs) = if master { (master_name, slave_name) } else { (slave_name, master_name) };
    pipe_port(name, pool.open_pipe(&ours, &theirs, counts, sharing(name.flags))?, limit)
}

fn pipe_counts(name: &PortName) -> Result<RingCounts, PortError> {
    let counts = ring_counts(name.options.conf);
    if counts.tx_slots.max(counts.rx_slots) > PIPE_SLOTS_MAX {
        return Err(PortError::refused(name.to_string(), format!("a pipe's ring has at most {PIPE_SLOTS_MAX} slots")));
    }
    Ok(counts)
}

fn pipe_port(name: &PortName, registration: Registration, limit: Option<String>) -> Result<Port, PortError> {
    let mut info = info(name, &registration, Transport::ZeroCopy)?;
    info.limits.extend(limit);
    let rings = rings_of(info.counts, name.flags);
    let peer_is_there = Pipe::new(&registration, &rings);
    let pipe = peer_is_there.ok_or_else(|| PortError::refused(name.to_string(), "exists, but is no pipe"))?;
    Port::new(registration, &rings, Box::new(pipe), info)
}

pub(crate) fn info(name: &impl ToString, registration: &Registration, transport: Transport) -> Result<Info, PortError> {
    let pool = registration.pool();
    let buffer_bytes = pool.config().buffer_bytes;
    Ok(Info {
        name: name.to_string(),
        counts: pool.counts(registration.port())?,
        buffer_bytes,
        transport,
        packet_bytes_max: buffer_bytes * ringway_mem::slot::NETMAP_MAX_FRAGS as u32,
        vnet_header_bytes: 0,
        pool_id: pool.id(),
        limits: vec![],
    })
}

impl PortName {
    /// The name of the port in its pool, without a pipe's id.
    pub fn port_name(&self) -> String {
        match self.scheme {
            Scheme::Null { .. } => "null".to_owned(),
            Scheme::Pcap => "pcap".to_owned(),
            _ => self.port.clone(),
        }
    }

    /// The name under which the pool of the port is found. All ports of a switch have one pool, so that each of its
    /// senders can reach all receivers.
    pub fn pool_name(&self) -> String {
        match &self.scheme {
            Scheme::Vale { switch } => format!("vale{switch}"),
            Scheme::Shm => format!("shm:{}", self.port),
            Scheme::Tap => format!("tap:{}", self.port),
            Scheme::Packet => format!("packet:{}", self.port),
            _ => format!("netmap:{}", self.port),
        }
    }

    /// Whether ports of other processes can be met at this name.
    pub fn is_meeting_point(&self) -> bool {
        let is_pipe = matches!(self.rings, RingsName::Master(_) | RingsName::Slave(_));
        is_pipe || matches!(self.scheme, Scheme::Vale { .. } | Scheme::Shm)
    }
}
