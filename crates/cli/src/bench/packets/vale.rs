//! The switch: a learning bridge whose ports run in their senders' context, or in its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Result, bail};
use ringway_mem::fabric::Fabric;
use ringway_port::Port;
use ringway_switch::Switch;
use ringway_switch::isolated::{self, Host};
use ringway_switch::modules::bridge::Bridge;

use super::super::worker::Sample;
use super::Setting;
use super::drive::{self, Frames, Received};

/// Bytes of a buffer at a switch.
const BUFFER_BYTES: u16 = 2048;
/// Addresses that the isolated switch can learn.
const STATIONS: usize = 1024;
/// Where one receiver is found.
const RECEIVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const EVERYBODY: [u8; 6] = [0xff; 6];

/// Slots that a frame takes.
pub(super) fn slots_of(len: u16) -> u16 {
    len.div_ceil(BUFFER_BYTES)
}

pub(super) fn one_to_one(len: u16, setting: &Setting) -> Result<Sample> {
    between(len, 1, 1, setting)
}

/// The same at a switch in a thread of its own, which alone maps its guests' memory.
pub(super) fn isolated(len: u16, setting: &Setting) -> Result<Sample> {
    let folder = tempfile::Builder::new().prefix("ringway-bench-").tempdir()?;
    let socket = folder.path().join("switch.sock");
    let switch = Switch::new(Fabric::create()?, Arc::new(Bridge::new(STATIONS)));
    let mut host = Host::new(switch, &socket, 0o600)?;
    let goes_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| host.run(|_| goes_on.load(Relaxed)));
        let outcome = isolated_guests(&socket).and_then(|[mut receiver, sender]| {
            let mut senders = [sender];
            while introduce(&mut receiver, &mut senders)? == 0 {
                std::thread::yield_now();
            }
            let frames = Frames { len, destination: RECEIVER, are_looked_at: true, yield_cpu: true };
            drive::run(&mut senders, &mut [receiver], frames, setting)
        });
        goes_on.store(false, Relaxed);
        outcome
    })
}

fn isolated_guests(socket: &Path) -> Result<[Port; 2]> {
    let open = |name: &str| isolated::open(socket, &name.parse()?);
    match (open("vale:b")?, open("vale:a")?) {
        (Some(receiver), Some(sender)) => Ok([receiver, sender]),
        _ => bail!("the switch is not there"),
    }
}

pub(super) fn many(senders: usize, receivers: usize, setting: &Setting) -> Result<Sample> {
    between(60, senders, receivers, setting)
}

fn between(len: u16, senders: usize, receivers: usize, setting: &Setting) -> Result<Sample> {
    let open = |n: usize| ringway_switch::open(&format!("valebench:{n}"));
    let mut receivers = (0..receivers).map(open).collect::<Result<Vec<Port>, _>>()?;
    let first = receivers.len();
    let mut senders = (first..first + senders).map(open).collect::<Result<Vec<Port>, _>>()?;
    let destination = if first == 1 { RECEIVER } else { EVERYBODY };
    if first == 1 {
        introduce(&mut receivers[0], &mut senders)?;
    }
    drive::run(
        &mut senders,
        &mut receivers,
        Frames { len, destination, are_looked_at: true, yield_cpu: false },
        setting,
    )
}

/// A switch or bridge learns where the receiver is; how many of the others have heard of it.
pub(super) fn introduce(receiver: &mut Port, others: &mut [Port]) -> Result<u64> {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&EVERYBODY);
    frame[6..12].copy_from_slice(&RECEIVER);
    // An experiment's EtherType (IEEE 802, local experimental 1).
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    let mut batch = receiver.tx(0)?;
    let slots = batch.put(0, &frame).unwrap_or(0);
    batch.send(slots);
    receiver.sync_tx(0)?;
    let frames = Frames { len: 60, destination: EVERYBODY, are_looked_at: false, yield_cpu: false };
    let mut received = Received::default();
    others.iter_mut().try_for_each(|port| drive::receive(port, frames, &mut received))?;
    Ok(received.packets)
}
