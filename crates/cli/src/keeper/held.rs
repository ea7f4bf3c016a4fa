//! What the keeper holds.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail};
use ringway_mem::fabric::Fabric;
use ringway_port::{Port, PortName};
use ringway_switch::Switch;
use ringway_switch::isolated::{self, Host};
use ringway_switch::modules::bridge::Bridge;

use super::message::{Held, Request};
use super::patch::Patch;
use crate::packets::meeting;

/// Things that one keeper holds at most.
const HELD_MAX: usize = 256;
/// Stations that an isolated switch knows.
const STATIONS: usize = 8192;
/// Who may connect to an isolated switch.
const OWNER_ONLY: u32 = 0o600;
const ANYONE: u32 = 0o666;

/// All of it, by name, in the order of asking.
#[derive(Default)]
pub(super) struct Holdings {
    all: Vec<(String, Holding)>,
}

enum Holding {
    /// A port that stays open: for itself, or for the switch whose memory would go without it.
    Kept {
        kind: &'static str,
        _port: Box<Port>,
    },
    Patch(Patch, String),
    Isolated(Isolated),
}

/// A switch that a thread serves.
struct Isolated {
    ends: Arc<AtomicBool>,
    ports: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Holdings {
    /// Does what is asked; returns what the user should know of ports that were opened.
    pub(super) fn fulfil(&mut self, folder: &Path, request: &Request) -> Result<Vec<String>> {
        match request {
            Request::Show => Ok(vec![]),
            Request::Del { name } => {
                let Some(at) = self.all.iter().position(|(held, _)| held == name) else {
                    bail!(
                        "nothing is held by the name {name}; `ringway port show` and `ringway switch show` list what is"
                    )
                };
                self.all.remove(at);
                Ok(vec![])
            }
            Request::AddPort { port } => self.add(port, || {
                let port = open(port)?;
                let limits = limits(&port);
                Ok((Holding::Kept { kind: "port", _port: Box::new(port) }, limits))
            }),
            Request::Attach { port, to } => self.add(port, || {
                let (left, right) = (open(port)?, open(to)?);
                let limits = limits(&left).into_iter().chain(limits(&right)).collect();
                Ok((Holding::Patch(Patch::new(left, right)?, to.clone()), limits))
            }),
            Request::AddSwitch { switch, isolated: false, .. } => self.add(switch, || {
                // The rings of a pipe's end are the smallest thing that keeps the memory.
                let port = open(&format!("{switch}:keeper{{keep@conf:slots=4"))?;
                let limits = port.info().limits.clone();
                Ok((Holding::Kept { kind: "switch", _port: Box::new(port) }, limits))
            }),
            Request::AddSwitch { switch, isolated: true, anyone } => self.add(switch, || {
                let mode = if *anyone { ANYONE } else { OWNER_ONLY };
                Ok((Holding::Isolated(Isolated::new(folder, switch, mode)?), vec![]))
            }),
        }
    }

    fn add(&mut self, name: &str, make: impl FnOnce() -> Result<(Holding, Vec<String>)>) -> Result<Vec<String>> {
        if self.all.iter().any(|(held, _)| held == name) {
            bail!("{name} is held already");
        }
        if self.all.len() >= HELD_MAX {
            bail!("the keeper holds {HELD_MAX} things already, its most");
        }
        let (holding, limits) = make()?;
        self.all.push((name.to_owned(), holding));
        Ok(limits)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn describe(&self) -> Vec<Held> {
        self.all.iter().map(|(name, holding)| holding.describe(name)).collect()
    }
}

fn open(name: &str) -> Result<Port> {
    let name: PortName = name.parse()?;
    meeting::prepare(&name);
    Ok(ringway_switch::open_any(&name)?)
}

fn limits(port: &Port) -> Vec<String> {
    let info = port.info();
    let shape = format!("{}: {}, buffers of {} bytes", info.name, info.transport, info.buffer_bytes);
    let limits = info.limits.iter().map(|limit| format!("{}: {limit}", info.name));
    [shape].into_iter().chain(limits).collect()
}

impl Holding {
    fn describe(&self, name: &str) -> Held {
        let held = Held { name: name.to_owned(), ..Held::default() };
        match self {
            Holding::Kept { kind, .. } => Held { kind: (*kind).to_owned(), ..held },
            Holding::Patch(patch, to) => {
                let (forth, back) = patch.traffic();
                let (to, failed) = (Some(to.clone()), patch.failure());
                Held { kind: "patch".to_owned(), to, forth, back, failed, ..held }
            }
            Holding::Isolated(isolated) => {
                let ports = isolated.ports.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Held { kind: "isolated".to_owned(), ports, ..held }
            }
        }
    }
}

impl Isolated {
    fn new(folder: &Path, name: &str, mode: u32) -> Result<Isolated> {
        let switch = Switch::new(Fabric::create()?, Arc::new(Bridge::new(STATIONS)));
        let mut host = Host::new(switch, &isolated::socket(folder, name), mode)?;
        let (ends, ports) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(vec![])));
        let (told, shown) = (ends.clone(), ports.clone());
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || {
            host.run(|host| {
                let now: Vec<String> = host.ports().map(|(name, number)| format!("{number} {name}")).collect();
                let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                if *shown != now {
                    *shown = now;
                }
                !told.load(Relaxed)
            });
        });
        Ok(Isolated { ends, ports, thread: Some(thread.context("starting a thread")?) })
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
