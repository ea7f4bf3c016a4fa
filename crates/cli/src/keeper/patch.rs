//! Two ports and a thread that passes packets on between them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_port::{Port, Ready};

use super::message::Traffic;
use crate::packets::meter::Count;
use crate::packets::transfer::pass_on;

/// Turns without a packet before the thread sleeps between turns, first shortly, then longer.
const IDLE_TURNS: u32 = 200;
const NAP: Duration = Duration::from_micros(200);
const LONG_NAP: Duration = Duration::from_millis(1);

/// A running patch. Dropping it closes both ports.
pub(super) struct Patch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    forth: Counted,
    back: Counted,
    failed: Mutex<Option<String>>,
}

#[derive(Default)]
struct Counted {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Counted {
    fn set(&self, count: Count) {
        self.packets.store(count.packets, Relaxed);
        self.bytes.store(count.bytes, Relaxed);
    }

    fn get(&self) -> Traffic {
        Traffic { packets: self.packets.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

impl Patch {
    pub(super) fn new(left: Port, right: Port) -> Result<Patch> {
        for port in [&left, &right] {
            let name = &port.info().name;
            ensure!(port.tx_rings() > 0 && port.rx_rings() > 0, "{name} cannot both send and receive");
        }
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("patch".to_owned());
        let thread = thread.spawn(move || {
            if let Err(e) = pass(left, right, &theirs) {
                *theirs.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{e:#}"));
            }
        });
        Ok(Patch { shared, thread: Some(thread.context("starting a thread")?) })
    }

    /// What has gone forth and back.
    pub(super) fn traffic(&self) -> (Traffic, Traffic) {
        (self.shared.forth.get(), self.shared.back.get())
    }

    /// Why it passes nothing on any more.
    pub(super) fn failure(&self) -> Option<String> {
        self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Patch {
    fn drop(&mut self) {
        self.shared.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pass(mut left: Port, mut right: Port, shared: &Shared) -> Result<()> {
    let (mut forth, mut back, mut idle) = (Count::default(), Count::default(), 0_u32);
    while !shared.ends.load(Relaxed) {
        let moved = pass_on(&mut left, &mut right, &mut forth)? + pass_on(&mut right, &mut left, &mut back)?;
        if moved > 0 {
            shared.forth.set(forth);
            shared.back.set(back);
            idle = 0;
            continue;
        }
        idle = idle.saturating_add(1);
        if idle > IDLE_TURNS {
            // Each can be waited for only by itself.
            left.wait(Ready::RX, Some(if idle > 100 * IDLE_TURNS { LONG_NAP } else { NAP }))?;
        }
    }
    Ok(())
}
