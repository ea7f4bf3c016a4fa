//! Monitors (`netmap:X/r`, `/t`, `/z`): ports on which one receives copies of what passes port X, and sends nothing.
//!
//! The syncs of X's users copy each frame to a feed: sent ones before they go, received ones when they come, or with `z`
//! when their user gives them back. They do so at their own pace, so a monitor sees a frame at the earliest when X's user does.

use std::sync::Arc;

use ringway_mem::pool::{self, Kind, Pool, Registration, Ring, Watch};
use rustix::io::Errno;

use crate::backend::Backend;
use crate::error::PortError;
use crate::info::Transport;
use crate::kring::{RxKring, TxKring};
use crate::name::{Flags, PortName, RingsName};
use crate::open::{info, rings_of};
use crate::port::{Port, Rings};

/// The monitor's side.
struct Monitor {
    /// For each rx ring: the feed's rings out of which it is filled.
    feeding: Vec<Vec<Ring>>,
}

/// Whether a name asks for a monitor.
pub fn is_monitor(flags: Flags) -> bool {
    flags.monitor_tx || flags.monitor_rx || flags.zero_copy_monitor
}

/// Opens a monitor of the port that `name` names, in the pool of that port.
///
/// # Errors
/// Nobody has the port open, or the name asks for what monitors have not (host rings, exclusive use).
pub fn open(pool: &Arc<Pool>, name: &PortName) -> Result<Port, PortError> {
    let refused = |why: &str| PortError::refused(name.to_string(), why);
    let (watched, only) = match &name.rings {
        RingsName::AllNic => (name.port_name(), None),
        RingsName::Nic(ring) => (name.port_name(), Some(u32::from(*ring))),
        RingsName::Master(id) => (format!("{}{{{id}", name.port), None),
        RingsName::Slave(id) => (format!("{}}}{id}", name.port), None),
        _ => return Err(refused("host rings cannot be monitored; the interface's own rings can")),
    };
    let flags = name.flags;
    let neither = !flags.monitor_tx && !flags.monitor_rx;
    let watch = Watch {
        tx: flags.monitor_tx || neither,
        rx: flags.monitor_rx || neither,
        after_release: flags.zero_copy_monitor,
    };
    let watched = pool.find(&watched).ok_or_else(|| refused("no such port is open, so there is nothing to monitor"))?;
    let registration = pool.open_monitor(watched, watch, name.options.conf.rx_slots)?;
    let mut rings = rings_of(pool.counts(registration.port())?, flags);
    rings.retain(|(kind, index)| kind.sends() || only.is_none_or(|only| only == *index));
    if !rings.iter().any(|(kind, _)| *kind == Kind::Rx) {
        return Err(refused("a monitor needs a ring to receive on"));
    }
    let mut port = port_of(name, registration, &rings)?;
    let copies = "frames are shown once their user has given them back, but copied all the same";
    port.add_limit(flags.zero_copy_monitor.then(|| copies.to_owned()));
    Ok(port)
}

/// Goes on with a monitor that somebody else has opened.
pub(crate) fn adopt(name: &str, registration: Registration) -> Result<Port, PortError> {
    let rings = rings_of(registration.pool().counts(registration.port())?, Flags::default());
    port_of(&name, registration, &rings)
}

fn port_of(name: &impl ToString, registration: Registration, rings: &Rings) -> Result<Port, PortError> {
    let pool = registration.pool();
    let info = info(name, &registration, Transport::Copy)?;
    let rx = rings.iter().filter(|(kind, _)| *kind == Kind::Rx);
    let feeding = rx.filter_map(|(kind, index)| Some(pool.feeding(&pool.ring(registration.port(), *kind, *index)?)));
    let backend = Monitor { feeding: feeding.collect() };
    Port::new(registration, rings, Box::new(backend), info)
}

impl Backend for Monitor {
    fn sync_tx(&mut self, _ring: usize, tx: &TxKring, _now_ns: u64) -> Result<(), PortError> {
        match tx.pending() {
            0 => Ok(()),
            _ => Err(PortError::os("send by a monitor, which only receives", Errno::IO)),
        }
    }

    fn sync_rx(&mut self, ring: usize, rx: &RxKring, _released: u32, _now_ns: u64) -> Result<(), PortError> {
        let feeding = self.feeding.get(ring).map_or(&[][..], Vec::as_slice);
        for tx in feeding {
            pool::resume(tx, rx.ring());
        }
        let mut came = 0;
        for tx in feeding {
            let done = pool::transfer(tx, rx.ring());
            rx.count(done.frames, done.bytes);
            came += done.slots;
        }
        if came == 0 && !rx.ring().pool().is_watching(rx.ring().port()) {
            return Err(PortError::os("receive: the monitored port is closed", Errno::NXIO));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;

    fn send(port: &mut Port, packet: &[u8]) {
        let mut batch = port.tx(0).unwrap();
        let slots = batch.put(0, packet).unwrap();
        batch.send(slots);
        port.sync_tx(0).unwrap();
    }

    fn receive(port: &mut Port) -> Vec<Vec<u8>> {
        port.sync_rx(0).unwrap();
        let batch = port.rx(0).unwrap();
        let (mut packets, mut at) = (vec![], 0);
        while at < batch.len() {
            let n = batch.packet_slots(at).unwrap();
            let mut packet = vec![];
            batch.copy_packet(at, n, &mut packet);
            packets.push(packet);
            at += n;
        }
        batch.release(at);
        packets
    }

    #[test]
    fn copy_monitors_see_what_is_sent_and_received_and_change_nothing() {
        let (mut a, mut b) = (open("netmap:watch{1").unwrap(), open("netmap:watch}1").unwrap());
        let (mut tx, mut rx) = (open("netmap:watch{1/t").unwrap(), open("netmap:watch}1/r").unwrap());
        let mut both = open("netmap:watch{1/rt").unwrap();
        for n in 0..2000_u32 {
            let packet = vec![n as u8; n as usize * 7 % 5000];
            let packet = [if packet.is_empty() { vec![1] } else { packet }];
            send(&mut a, &packet[0]);
            assert_eq!(receive(&mut tx), packet);
            assert!(receive(&mut rx).is_empty(), "not before the watched port receives");
            assert_eq!(receive(&mut b), packet);
            assert_eq!(receive(&mut rx), packet);
            assert_eq!(receive(&mut both), packet);
        }
        send(&mut b, b"back");
        assert_eq!(receive(&mut a), [b"back"]);
        assert_eq!(receive(&mut both), [b"back"]);
        assert!(receive(&mut tx).is_empty() && receive(&mut rx).is_empty());
    }

    #[test]
    fn a_zero_copy_monitor_sees_a_frame_once_it_is_given_back() {
        let (mut a, mut b) = (open("netmap:later{1").unwrap(), open("netmap:later}1").unwrap());
        let mut monitor = open("netmap:later}1/zr").unwrap();
        send(&mut a, b"seen late");
        assert_eq!(receive(&mut b), [b"seen late"]);
        assert!(receive(&mut monitor).is_empty());
        b.sync_rx(0).unwrap();
        assert_eq!(receive(&mut monitor), [b"seen late"]);
    }

    #[test]
    fn a_slow_monitor_loses_frames_and_delays_nobody() {
        let (mut a, mut b) = (open("netmap:slow{1").unwrap(), open("netmap:slow}1").unwrap());
        let mut monitor = open("netmap:slow{1/t@conf:rx-slots=16").unwrap();
        for n in 0..100_u8 {
            send(&mut a, &[n; 60]);
            assert_eq!(receive(&mut b), [[n; 60]]);
        }
        let seen: Vec<u8> = receive(&mut monitor).iter().map(|packet| packet[0]).collect();
        assert_eq!(seen, (0..15).collect::<Vec<u8>>());
        assert_eq!(monitor.rx_counters(0).dropped, 85);
    }

    #[test]
    fn monitors_end_with_their_port_and_give_their_buffers_back() {
        let (mut a, b) = (open("netmap:ends{1").unwrap(), open("netmap:ends}1").unwrap());
        let pool = a.pool().clone();
        let (before, ports) = (pool.account(), pool.ports().count());
        let mut monitor = open("netmap:ends{1/t").unwrap();
        send(&mut a, b"counted");
        assert_eq!(pool.ports().count(), ports + 2);
        drop(open("netmap:ends{1/rt").unwrap());
        drop((a, b));
        assert_eq!(receive(&mut monitor), [b"counted"], "what came is still there");
        assert_eq!(monitor.sync_rx(0), Err(PortError::os("receive: the monitored port is closed", Errno::NXIO)));
        drop(monitor);
        assert_eq!(pool.account().free, before.total);
    }

    #[test]
    fn what_cannot_be_monitored_is_refused_by_name() {
        let refusal = |name: &str| open(name).err().unwrap().to_string();
        assert!(refusal("netmap:nobody{1/t").contains("nothing to monitor"));
        let _end = open("netmap:some{1").unwrap();
        assert!(refusal("netmap:some^/r").contains("host rings"));
        let mut monitor = open("netmap:some{1/r").unwrap();
        let batch = monitor.tx(0).unwrap();
        batch.send(1);
        assert!(monitor.sync_tx(0).unwrap_err().to_string().contains("only receives"));
    }
}
