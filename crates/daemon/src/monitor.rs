//! The monitor's state and its one loop.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringway_channel::Reason;
use ringway_channel::rendezvous::{Kind, Message};
use ringway_mem::stats::REASON_SLOTS;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::budget::{self, Budget};
use crate::client::{Attachment, Client, Outgoing};
use crate::connections::ConnectionTable;
use crate::diag::Diag;
use crate::endpoint::Closer;
use crate::guests::Guest;
use crate::http::{self, Scraper};
use crate::listener::{self, Listeners};
use crate::meetings::MeetingTable;
use crate::metrics::Sums;
use crate::offers::OfferTable;
use crate::peer::Peer;
use crate::policy::Policy;
use crate::poller::{Poller, Ready, Source};
use crate::requests::Tool;
use crate::runs::RunTable;
use crate::throttle::Throttle;
use crate::vault::Vault;
use crate::verdicts::VerdictTable;
use crate::{DaemonError, Options, paths, sys, takeover};

/// Connections accepted in one go.
const ACCEPTS_MAX: usize = 64;

/// Totals since the monitor (or its first predecessor) started.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) offers: u64,
    pub(crate) pairs: u64,
    pub(crate) attaches: u64,
    pub(crate) clients_dropped: u64,
    pub(crate) refusals: [u64; REASON_SLOTS],
}

pub(crate) struct Monitor {
    pub(crate) options: Options,
    pub(crate) config: Option<PathBuf>,
    pub(crate) policy: Policy,
    pub(crate) listeners: Listeners,
    pub(crate) poller: Poller,
    signals: OwnedFd,
    pub(crate) clients: BTreeMap<u64, Client>,
    pub(crate) clients_by_uid: HashMap<u32, u64>,
    /// Clients that the sweep must look at soon: paused, or stuck.
    pub(crate) restless: BTreeSet<u64>,
    pub(crate) tools: HashMap<u64, Tool>,
    pub(crate) scrapers_at: Option<OwnedFd>,
    pub(crate) scrapers: HashMap<u64, Scraper>,
    pub(crate) guests: HashMap<u64, Guest>,
    pub(crate) meetings: MeetingTable,
    pub(crate) offers: OfferTable,
    pub(crate) verdicts: VerdictTable,
    pub(crate) connections: ConnectionTable,
    /// What the limit on open files allows.
    pub(crate) budget: Budget,
    pub(crate) closer: Closer,
    pub(crate) diag: Option<Diag>,
    pub(crate) own_netns: u64,
    pub(crate) totals: Totals,
    /// What processes that have left had counted.
    pub(crate) retired: Sums,
    pub(crate) runs: RunTable,
    pub(crate) started: Instant,
    pub(crate) throttle: Throttle,
    pub(crate) last_id: u64,
    pub(crate) idle_since: Option<Instant>,
    pub(crate) last_sweep: Instant,
    /// The listeners are left alone because descriptors ran out.
    pub(crate) deaf: bool,
    pub(crate) stopping: bool,
    /// A successor waits here for our work.
    pub(crate) successor: Option<OwnedFd>,
    /// A successor has it: the socket files are no longer ours.
    pub(crate) succeeded: bool,
}

impl Monitor {
    /// Takes the directory, or takes it over, and gets ready to serve.
    pub(crate) fn start(options: Options) -> Result<Monitor, DaemonError> {
        let config = options.config.clone().or_else(|| Some(paths::default_policy_file()).filter(|file| file.exists()));
        let policy = load_policy(config.as_deref())?;
        paths::prepare_socket_dir(&options.socket_dir)?;
        let lock = listener::lock(&options.socket_dir)?;
        let Some(lock) = lock else {
            if !options.takeover {
                return Err(DaemonError::AlreadyRunning { dir: options.socket_dir });
            }
            let (predecessor, listeners) = takeover::begin(&options.socket_dir)?;
            let mut monitor = Monitor::assemble(options, config, policy, listeners)?;
            monitor.inherit(&predecessor)?;
            return Ok(monitor);
        };
        let listeners = Listeners::create(&options.socket_dir, lock)?;
        let mut monitor = Monitor::assemble(options, config, policy, listeners)?;
        monitor.recover_meetings();
        Ok(monitor)
    }

    fn assemble(
        options: Options,
        config: Option<PathBuf>,
        policy: Policy,
        listeners: Listeners,
    ) -> Result<Monitor, DaemonError> {
        let os = |what| move |source| DaemonError::Os { what, source };
        let now = Instant::now();
        let budget = Budget::new(&policy, budget::raise_open_files(&policy)?);
        budget.report(&policy);
        // Before any thread starts: each inherits the mask, and one that has the signals unblocked would be killed by them.
        let signals = sys::signal_descriptor().map_err(os("watching signals"))?;
        // Early, while there is little that its threads have to close.
        let vault = Vault::open(budget.connections_max, budget.descriptors).map_err(os("opening the vault"))?;
        let poller = Poller::new().map_err(os("making an epoll set"))?;
        for (fd, source) in [
            (&signals, Source::Signals),
            (&listeners.libraries, Source::Libraries),
            (&listeners.tools, Source::Tools),
            (&listeners.ports, Source::Ports),
        ] {
            poller.add(fd, source).map_err(os("watching a socket"))?;
        }
        let scrapers_at = options.metrics_addr.map(http::listen).transpose()?;
        if let Some(listener) = &scrapers_at {
            poller.add(listener, Source::Scrapers).map_err(os("watching a socket"))?;
        }
        let diag = Diag::open().inspect_err(|e| tracing::warn!("no sock_diag, the sweep is coarser: {e}")).ok();
        Ok(Monitor {
            own_netns: diag.as_ref().map_or(0, Diag::netns),
            diag,
            poller,
            signals,
            clients: BTreeMap::new(),
            clients_by_uid: HashMap::new(),
            restless: BTreeSet::new(),
            tools: HashMap::new(),
            scrapers_at,
            scrapers: HashMap::new(),
            guests: HashMap::new(),
            meetings: MeetingTable::default(),
            offers: OfferTable::new(policy.limits.offers as usize),
            verdicts: VerdictTable::default(),
            connections: ConnectionTable::new(vault),
            budget,
            closer: Closer::start().map_err(os("starting the closing thread"))?,
            totals: Totals { offers: 0, pairs: 0, attaches: 0, clients_dropped: 0, refusals: [0; REASON_SLOTS] },
            retired: Sums::new(),
            runs: RunTable::default(),
            started: now,
            throttle: Throttle::new(now),
            last_id: 0,
            idle_since: Some(now),
            last_sweep: now,
            deaf: false,
            stopping: false,
            successor: None,
            succeeded: false,
            options,
            config,
            policy,
            listeners,
        })
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self) -> Result<(), DaemonError> {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        while !self.stopping {
            let ready = self.poller.wait(self.next_wake_up());
            let ready = ready.map_err(|source| DaemonError::Os { what: "waiting for events", source })?;
            let now = Instant::now();
            for event in ready {
                self.dispatch(event, now);
            }
            self.sweep(now);
            if let Some(successor) = self.successor.take() {
                self.hand_over(&successor);
            }
        }
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        if !self.succeeded {
            self.listeners.unlink();
        }
        Ok(())
    }

    fn dispatch(&mut self, event: Ready, now: Instant) {
        match event.source {
            Source::Signals => self.on_signals(),
            Source::Libraries => self.accept_clients(now),
            Source::Tools => self.accept_tools(now),
            Source::Client(id) => self.on_client(id, event, now),
            Source::Tool(id) => self.on_tool(id, event, now),
            Source::Ports => self.accept_guests(now),
            Source::Guest(id) => self.on_guest(id, event, now),
            Source::Scrapers => self.accept_scrapers(now),
            Source::Scraper(id) => self.on_scraper(id, event),
        }
    }

    fn on_signals(&mut self) {
        while let Some(signal) = sys::next_signal(&self.signals) {
            if signal != libc::SIGHUP {
                self.stopping = true;
            } else if let Err(e) = self.reload() {
                tracing::error!("policy not reloaded, the old one stays in force: {e}");
            }
        }
    }

    /// Reads the policy file again. Established connections are left alone.
    pub(crate) fn reload(&mut self) -> Result<(), DaemonError> {
        self.policy = load_policy(self.config.as_deref())?;
        self.offers.set_limit(self.policy.limits.offers as usize);
        tracing::info!("policy reloaded");
        Ok(())
    }

    /// One connection from a listener; `None` when there are no more, or no descriptors for them.
    pub(crate) fn accept(&mut self, source: Source, now: Instant) -> Option<OwnedFd> {
        let listener = match source {
            Source::Libraries => &self.listeners.libraries,
            Source::Ports => &self.listeners.ports,
            _ => &self.listeners.tools,
        };
        match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Some(socket),
            Err(e @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                // Left ready, the listener would wake us again at once: look again at the next sweep.
                self.throttle.warn(now, format_args!("cannot accept clients ({e}); raise the limit on open files"));
                self.set_deaf(true);
                None
            }
            Err(_) => None,
        }
    }

    pub(crate) fn set_deaf(&mut self, deaf: bool) {
        self.deaf = deaf;
        let Listeners { libraries, tools, ports, .. } = &self.listeners;
        for (listener, source) in [(libraries, Source::Libraries), (tools, Source::Tools), (ports, Source::Ports)] {
            let _ = self.poller.watch(listener, source, !deaf, false);
        }
    }

    /// Clients at once.
    pub(crate) fn clients_max(&self) -> u64 {
        self.budget.clients_max.min(self.policy.limits.clients)
    }

    /// Connections at once.
    pub(crate) fn connections_max(&self) -> u64 {
        self.budget.connections_max.min(self.policy.limits.connections)
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn accept_clients(&mut self, now: Instant) {
        for _ in 0..ACCEPTS_MAX {
            let Some(socket) = self.accept(Source::Libraries, now) else { return };
            let Ok(peer) = Peer::of(&socket) else { continue };
            let full = self.clients.len() as u64 >= self.clients_max();
            let mine = self.clients_by_uid.get(&peer.uid).copied().unwrap_or(0);
            // No single user may keep the others out.
            let hog = peer.uid != 0 && mine >= (self.clients_max() * 3).div_ceil(4);
            if full || hog {
                self.throttle.warn(now, format_args!("uid {}: no room for another client (limits.clients)", peer.uid));
                turn_away(&socket, Reason::TableFull);
                continue;
            }
            let id = self.next_id();
            if self.poller.add(&socket, Source::Client(id)).is_ok() {
                *self.clients_by_uid.entry(peer.uid).or_default() += 1;
                self.clients.insert(id, Client::new(id, socket, peer, self.policy.limits.messages_per_s, now));
                self.idle_since = None;
            }
        }
    }

    /// Queues a message for a client and sends what can be sent. A client whose queue is full is dropped.
    pub(crate) fn tell(&mut self, id: u64, message: Message, attachment: Attachment, now: Instant) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.queue.len() as u64 >= self.policy.limits.replies_per_client {
            return self.drop_client(id, "it does not read its replies (limits.replies_per_client)", now);
        }
        client.queue.push_back(Outgoing { message, attachment });
        if client.queue.len() == 1 {
            self.flush_client(id, now);
        }
    }

    /// Refuses an offer or an attach.
    pub(crate) fn refuse(&mut self, id: u64, token: u64, reason: Reason, now: Instant) {
        self.totals.refusals[reason as usize % REASON_SLOTS] += 1;
        self.tell(id, Message { token, reason, ..Message::new(Kind::Refused) }, Attachment::Nothing, now);
    }
}

/// Tells a peer that there is no place for it, if it can be told at once.
fn turn_away(socket: &OwnedFd, reason: Reason) {
    let bytes = Message { reason, ..Message::new(Kind::Rejected) }.encode();
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    let _ = rustix::net::send(socket.as_fd(), &bytes, flags);
}

fn load_policy(config: Option<&Path>) -> Result<Policy, DaemonError> {
    Ok(config.map(Policy::load).transpose()?.unwrap_or_default())
}

/// The longest time that the loop may sleep while something has a time-out.
pub(crate) const SWEEP_PERIOD: Duration = Duration::from_secs(1);
