//! A call that waits, on a thread of its own, as packetdrill makes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::call::{Call, Fds, Outcome};
use crate::flow::Version;
use crate::host::Host;
use crate::player::TOLERANCE_US;

/// Real time after which a thread that neither sleeps nor returns has failed.
const LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Blocked {
    call: Call,
    thread: std::thread::JoinHandle<(Outcome, u64)>,
    /// When it should return.
    pub(crate) until: u64,
}

impl Blocked {
    /// Makes the call, and comes back when it sleeps.
    pub(crate) fn start(
        call: Call,
        host: Arc<Host>,
        fds: Fds,
        version: Version,
        until: u64,
    ) -> Result<Blocked, String> {
        let (tell, told) = channel();
        let theirs = call.clone();
        let thread = std::thread::spawn(move || {
            let place = std::fs::read_link("/proc/thread-self").expect("every thread has its place in /proc");
            tell.send(place).expect("the player listens");
            let outcome = theirs.perform(&host, &fds, version);
            (outcome, host.now())
        });
        let blocked = Blocked { call, thread, until };
        blocked.wait_until_asleep(&told)?;
        Ok(blocked)
    }

    fn wait_until_asleep(&self, told: &Receiver<PathBuf>) -> Result<(), String> {
        let place = told.recv_timeout(LIMIT).map_err(|_| "the thread did not begin")?;
        let (begin, path) = (Instant::now(), Path::new("/proc").join(place).join("stat"));
        while !self.is_over() {
            let stat = std::fs::read_to_string(&path).unwrap_or_default();
            if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
                return Ok(());
            }
            if begin.elapsed() > LIMIT {
                return Err("the call neither sleeps nor returns".into());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn join(self) -> Result<(Call, Outcome), String> {
        let begin = Instant::now();
        while !self.is_over() {
            if begin.elapsed() > LIMIT {
                return Err(format!("{} does not return", self.call.name));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let (outcome, at) = self.thread.join().map_err(|_| "the call panicked")?;
        if at.abs_diff(self.until) > TOLERANCE_US {
            return Err(format!("{} returned {} us late", self.call.name, at as i64 - self.until as i64));
        }
        Ok((self.call, outcome))
    }
}
