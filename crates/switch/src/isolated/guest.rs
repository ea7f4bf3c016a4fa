//! A port at an isolated switch, as its user has it.

use std::os::fd::OwnedFd;
use std::path::Path;

use ringway_mem::cells::{Cells, RingCells};
use ringway_mem::pool::{Kind, Pool, PoolConfig, Ring, Sharing};
use ringway_port::meeting::call;
use ringway_port::meeting::message::{Request, What};
use ringway_port::{Backend, Info, Port, PortError, PortName, RxKring, Transport, TxKring, Wakers};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::names::counts;
use crate::vale::FRAME_BYTES_MAX;

/// Bytes of a buffer.
const BUFFER_BYTES: u32 = 2048;
/// How often a user that waits looks whether the switch's process lives, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// The user's side of the cells.
struct Guest {
    cells: Cells,
    line: OwnedFd,
    /// Where the switch is, for errors.
    name: String,
    /// When it looked last for the switch's process.
    looked_ns: u64,
}

/// Opens a port at the switch that is served at `socket`; none if no switch ever was.
///
/// # Errors
/// What the switch says; a switch whose process has ended; no memory.
pub fn open(socket: &Path, name: &PortName) -> Result<Option<Port>, PortError> {
    if !socket.exists() {
        return Ok(None);
    }
    let counts = counts(name);
    let refused = |why: String| PortError::refused(name.to_string(), why);
    let slots = counts.all_slots();
    let config =
        PoolConfig { buffers: slots + slots / 2 + 64, buffer_bytes: BUFFER_BYTES, object_pages: 64 + slots / 64 };
    let pool = Pool::create(config)?;
    let registration = pool.open(&name.port_name(), counts, Sharing::Exclusive)?;
    let cells = Cells::create().map_err(|e| refused(e.to_string()))?;
    let request = Request { what: What::Switch, name: name.port_name(), config };
    let Some((_, line)) = call(socket, &request, &[pool.fd(), cells.fd()])? else {
        // Going on at a switch that is not isolated would not be what the name stands for.
        return Err(refused(format!(
            "this switch is isolated, and its process has ended: start it again (ringway switch add --isolated), or remove {}",
            socket.display()
        )));
    };
    let info = Info {
        name: name.to_string(),
        counts,
        buffer_bytes: BUFFER_BYTES,
        transport: Transport::Copy,
        packet_bytes_max: FRAME_BYTES_MAX,
        vnet_header_bytes: 0,
        pool_id: pool.id(),
        limits: vec!["the switch is isolated: a process of its own copies the frames".to_owned()],
    };
    let rings = [Kind::Tx, Kind::Rx].into_iter().flat_map(|kind| (0..counts.of(kind)).map(move |ring| (kind, ring)));
    let guest = Guest { cells, line, name: name.to_string(), looked_ns: 0 };
    Port::new(registration, &rings.collect(), Box::new(guest), info).map(Some)
}

impl Guest {
    /// Tells the switch how far the user is, and wakes it if it sleeps.
    fn publish(&self, cells: &RingCells, ring: &Ring) -> Result<(), PortError> {
        let own = &ring.kring().own;
        let word = |word: &std::sync::atomic::AtomicU32| word.load(std::sync::atomic::Ordering::Relaxed);
        let (head, cur) = (word(&own.rhead), word(&own.rcur));
        if cells.app.read() == (head, cur) {
            return Ok(());
        }
        cells.app.publish(head, cur);
        if cells.server.wants_kick() {
            match send(&self.line, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                // A full queue has kicks enough.
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(_) => return Err(self.ended()),
            }
        }
        Ok(())
    }

    fn ended(&self) -> PortError {
        PortError::refused(&self.name, "the process of the switch has ended; what it had taken is lost")
    }

    fn look(&mut self, now_ns: u64) -> Result<(), PortError> {
        if now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return Ok(());
        }
        self.looked_ns = now_ns;
        match recv(&self.line, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            // It says nothing after its answer.
            _ => Err(self.ended()),
        }
    }
}

impl Backend for Guest {
    fn sync_tx(&mut self, ring: usize, tx: &TxKring, now_ns: u64) -> Result<(), PortError> {
        self.look(now_ns)?;
        let Some(cells) = self.cells.tx(ring) else { return Ok(()) };
        self.publish(cells, tx.ring())
    }

    fn sync_rx(&mut self, ring: usize, rx: &RxKring, _released: u32, now_ns: u64) -> Result<(), PortError> {
        self.look(now_ns)?;
        let Some(cells) = self.cells.rx(ring) else { return Ok(()) };
        self.publish(cells, rx.ring())
    }

    fn wakers(&self, wakers: &mut Wakers) {
        wakers.at(ringway_port::clock::monotonic_ns() + LOOK_NS);
    }
}
