//! Making the port of an interface: the program, a socket for each queue, and what came of it in words.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ringway_mem::pool::{Kind, Pool, PortId, RingCounts};
use rustix::io::Errno;

use super::attach::{Attachment, attach};
use super::queue::{Queue, Shape, TAIL_BYTES};
use super::{RULES_MAX, Xdp};
use crate::device::{DeviceOptions, Interface, Step, refusal};
use crate::error::PortError;
use crate::info::Transport;
use crate::port::Rings;
use crate::sys::device::bpf::Hook;
use crate::sys::device::xsk::{Bind, CHUNK_BYTES, HEADROOM_BYTES, Refused, Socket, Umem};

/// The kernel frees a queue some time after its last socket was closed: a bind that finds it busy is repeated for
/// this long.
const BIND_TRIES: u32 = 40;
const BIND_PAUSE: Duration = Duration::from_millis(25);
/// Parts of a frame at most where the kernel copies: MAX_SKB_FRAGS and the linear part.
const PARTS_MAX: u32 = 18;
/// Buffers in the fill ring of a port that only sends.
pub(crate) const SPARES: u32 = 64;

/// An open back end, and what to say of it.
pub(crate) struct Opened {
    pub(crate) backend: Xdp,
    pub(crate) transport: Transport,
    pub(crate) frame_bytes_max: u32,
    pub(crate) limits: Vec<String>,
}

/// Sockets for the queues that `rings` name, over the buffers of `pool`.
pub(crate) fn open(
    interface: &Interface,
    pool: &Arc<Pool>,
    port: PortId,
    (rings, counts): (&Rings, RingCounts),
    options: &DeviceOptions,
) -> Result<Opened, PortError> {
    let name = &interface.name;
    if options.steering.len() > RULES_MAX {
        return Err(PortError::refused(name, format!("an interface has at most {RULES_MAX} steering rules")));
    }
    let attachment = attach(interface, options)?;
    let of_kind = |kind: Kind| rings.iter().filter(move |(k, _)| *k == kind).map(|(_, index)| *index);
    let mut numbers: Vec<u32> = of_kind(Kind::Tx).chain(of_kind(Kind::Rx)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let entries = counts.tx_slots.max(counts.rx_slots).next_power_of_two();
    let plan = Plan { interface, pool, entries, options, generic: attachment.hook == Hook::XdpGeneric };
    let mut queues: Vec<Queue> = vec![];
    let mut chosen = None;
    for number in &numbers {
        let (socket, shape) = match (&chosen, queues.first()) {
            (Some(way), Some(first)) => {
                (plan.socket(*number, *way, Some(first.socket())).map_err(|r| plan.refused(r))?, *way)
            }
            _ => plan.first_socket(*number)?,
        };
        chosen = Some(shape);
        if options.busy_poll_us > 0 {
            let polled = socket.busy_poll(options.busy_poll_us);
            polled.map_err(|errno| refusal(name, Step::BusyPoll, errno))?;
        }
        let mut queue = Queue::new(socket, pool.clone(), plan.shape(shape));
        if of_kind(Kind::Rx).any(|index| index == *number) {
            attachment.deliver(name, *number, queue.fd().as_fd())?;
        } else {
            let spares: Vec<u32> = (0..SPARES).map_while(|_| pool.take_buffer(port)).collect();
            queue.post_spares(&spares);
        }
        queues.push(queue);
    }
    let Some(way) = chosen else { return Err(PortError::refused(name, "no ring is asked for")) };
    let place = |index: u32| numbers.iter().position(|number| *number == index).unwrap_or_default();
    let (tx, rx) = (of_kind(Kind::Tx).map(place).collect(), of_kind(Kind::Rx).map(place).collect());
    let opened = Opened {
        transport: plan.transport(way),
        frame_bytes_max: plan.shape(way).frame_bytes_max,
        limits: plan.limits(way, &attachment, numbers.len() as u32),
        backend: Xdp { queues, tx, rx, _attachment: attachment },
    };
    Ok(opened)
}

/// Whether another way of binding may be possible.
fn may_agree_to_less(refused: Refused) -> bool {
    /// The kernel's ENOTSUPP, which some drivers answer and no C library names.
    const ENOTSUPP: i32 = 524;
    match refused {
        Refused::Bind(errno) => errno.raw_os_error() == ENOTSUPP || matches!(errno, Errno::OPNOTSUPP | Errno::INVAL),
        Refused::Umem(errno) => errno == Errno::INVAL,
        Refused::Socket(_) | Refused::Rings(_) => false,
    }
}

/// What all sockets of a port have in common.
struct Plan<'a> {
    interface: &'a Interface,
    pool: &'a Arc<Pool>,
    entries: u32,
    options: &'a DeviceOptions,
    generic: bool,
}

/// How a socket was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    zero_copy: bool,
    multi_buffer: bool,
}

impl Plan<'_> {
    /// The best way that the kernel and the driver agree to.
    fn first_socket(&self, queue: u32) -> Result<(Socket, Way), PortError> {
        let ways = [(true, true), (true, false), (false, true), (false, false)];
        let mut last = Refused::Bind(Errno::OPNOTSUPP);
        for (zero_copy, multi_buffer) in ways {
            // The generic path hands over packets of the kernel, which can only be copied.
            if zero_copy && (self.generic || self.umem(true).is_none()) {
                continue;
            }
            let way = Way { zero_copy, multi_buffer };
            match self.socket(queue, way, None) {
                Ok(socket) => {
                    let zero_copy = socket.is_zero_copy();
                    return Ok((socket, Way { zero_copy, multi_buffer }));
                }
                Err(refused) if may_agree_to_less(refused) => last = refused,
                Err(refused) => return Err(self.refused(refused)),
            }
        }
        Err(self.refused(last))
    }

    fn socket(&self, queue: u32, way: Way, sharing: Option<&Socket>) -> Result<Socket, Refused> {
        let umem = self.umem(way.zero_copy).ok_or(Refused::Umem(Errno::INVAL))?;
        let Way { zero_copy, multi_buffer } = way;
        let bind = Bind { interface: self.interface.index, queue, zero_copy, multi_buffer };
        for _ in 1..BIND_TRIES {
            match Socket::open(self.pool, umem, self.entries, bind, sharing) {
                Err(Refused::Bind(Errno::BUSY)) => std::thread::sleep(BIND_PAUSE),
                other => return other,
            }
        }
        Socket::open(self.pool, umem, self.entries, bind, sharing)
    }

    /// Chunks that overlap, so that frames begin where buffers do, or that are the buffers; None if buffers are too
    /// large or too small for that.
    fn umem(&self, zero_copy: bool) -> Option<Umem> {
        let buffer_bytes = self.pool.config().buffer_bytes;
        let tx_metadata = self.options.partial_checksums && !zero_copy;
        let reserved = if tx_metadata { TAIL_BYTES } else { 0 };
        let unaligned = !zero_copy;
        let chunk_bytes =
            if unaligned { (buffer_bytes + HEADROOM_BYTES - reserved).min(*CHUNK_BYTES.end()) } else { buffer_bytes };
        let possible = CHUNK_BYTES.contains(&chunk_bytes) && (unaligned || chunk_bytes.is_power_of_two());
        possible.then_some(Umem { chunk_bytes, unaligned, tx_metadata })
    }

    fn shape(&self, way: Way) -> Shape {
        let umem = self.umem(way.zero_copy).unwrap_or(Umem { chunk_bytes: 0, unaligned: true, tx_metadata: false });
        let parts_max = if way.multi_buffer { PARTS_MAX } else { 1 };
        let room = parts_max * (umem.chunk_bytes.saturating_sub(HEADROOM_BYTES));
        Shape {
            umem,
            parts_max,
            frame_bytes_max: self.interface.frame_bytes_max().min(room),
            zero_copy: way.zero_copy,
            completes_rx: !self.options.partial_checksums && (self.generic || self.interface.driver == "veth"),
        }
    }

    fn transport(&self, way: Way) -> Transport {
        match (way.zero_copy, self.generic) {
            (true, _) => Transport::ZeroCopy,
            (false, false) => Transport::KernelCopy,
            (false, true) => Transport::KernelGeneric,
        }
    }

    fn refused(&self, refused: Refused) -> PortError {
        let (step, errno) = match refused {
            Refused::Socket(errno) => (Step::XdpSocket, errno),
            Refused::Umem(errno) => (Step::XdpMemory, errno),
            Refused::Rings(errno) => (Step::XdpRings, errno),
            Refused::Bind(errno) => (Step::XdpBind, errno),
        };
        refusal(&self.interface.name, step, errno)
    }

    /// One sentence for everything that the user should know.
    fn limits(&self, way: Way, attachment: &Attachment, queues: u32) -> Vec<String> {
        let Interface { name, rx_queues, driver, .. } = self.interface;
        let driver = if driver.is_empty() { "the driver" } else { driver };
        let mut limits = vec![];
        if let Some(because) = &attachment.generic_because {
            limits
                .push(format!("{name}: the program runs in the kernel's generic path ({because}), not in the driver"));
        }
        if self.generic {
            limits.push(format!(
                "{name}: frames that were put together for a segmentation offload arrive so and cannot be sent on; \
                 `ethtool -K` with gro off here, and with tso off gso off at a sender on this host, prevents it"
            ));
        }
        if !way.zero_copy {
            limits
                .push(format!("{name}: {driver} has no zero copy; the kernel copies each frame into and out of slots"));
        } else {
            limits.push(format!("{name}: zero copy; a received frame is moved to its buffer's front"));
        }
        if !way.multi_buffer {
            limits.push(format!("{name}: no frames in several parts; longer ones than one buffer are lost"));
        }
        if self.umem(way.zero_copy).is_some_and(|umem| umem.tx_metadata) {
            let most = self.pool.config().buffer_bytes - TAIL_BYTES;
            limits.push(format!("{name}: slots of sent frames hold {most} bytes at most; metadata need the rest"));
        }
        if self.options.partial_checksums && way.zero_copy {
            limits
                .push(format!("{name}: checksums of sent frames are not completed with zero copy; send complete ones"));
        }
        if queues < *rx_queues {
            limits.push(format!(
                "{name}: {queues} of {rx_queues} queues are taken; what arrives at others goes to the host"
            ));
        }
        limits.push(match self.options.steering.as_slice() {
            [] => format!("{name}: all frames that arrive are taken from the host"),
            rules => {
                let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
                format!("{name}: only frames that match {} are taken from the host", rules.join(" or "))
            }
        });
        limits
    }
}
