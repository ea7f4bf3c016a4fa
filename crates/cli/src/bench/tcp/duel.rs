//! Two threads, server and client, each on a CPU of its own, until the client is done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use anyhow::{Result, anyhow};

use crate::bench::worker::{Sample, pin};

/// What the two share.
pub(super) struct Ends {
    cpus: [Option<usize>; 2],
    over: AtomicBool,
    /// Bytes that the server has received, where it counts them.
    pub(super) received_bytes: AtomicU64,
}

impl Ends {
    pub(super) fn new(cpus: Option<[usize; 2]>) -> Ends {
        let cpus = cpus.map_or([None; 2], |cpus| cpus.map(Some));
        Ends { cpus, over: AtomicBool::new(false), received_bytes: AtomicU64::new(0) }
    }

    /// Whether the server should end.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// Runs both; the client begins once the server has said that it is ready.
pub(super) fn duel(
    ends: &Ends,
    server: impl FnOnce(&dyn Fn()) -> Result<()> + Send,
    client: impl FnOnce() -> Result<Sample> + Send,
) -> Result<Sample> {
    let (is_ready, waits) = mpsc::channel();
    std::thread::scope(|scope| {
        let served = scope.spawn(move || {
            ends.cpus[0].map_or(Ok(()), pin)?;
            server(&|| is_ready.send(()).unwrap_or(()))
        });
        let sample = waits.recv().map_err(|_| anyhow!("the server did not begin")).and_then(|()| {
            let asked = scope.spawn(|| {
                ends.cpus[1].map_or(Ok(()), pin)?;
                client()
            });
            asked.join().unwrap_or_else(|_| Err(anyhow!("the client panicked")))
        });
        ends.over.store(true, Ordering::Relaxed);
        // The server's failure is the cause of the client's.
        served.join().unwrap_or_else(|_| Err(anyhow!("the server panicked")))?;
        sample
    })
}
