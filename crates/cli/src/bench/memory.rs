//! What connections cost in memory, by `/proc/PID/smaps_rollup`.

use anyhow::{Context, Result};

use super::bed::{Bed, Member};
use super::worker::Sample;

/// Memory of several processes and the monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Resident {
    /// Shared pages divided by those who share them: what is really used.
    proportional_bytes: f64,
    /// Shared pages counted in full for each process.
    resident_bytes: f64,
}

/// Of these members and the monitor together.
pub(super) fn resident(bed: &Bed, members: &[&Member]) -> Result<Resident> {
    let mut sum = Resident::default();
    for pid in members.iter().map(|m| m.process.pid()).chain([bed.monitor.pid()]) {
        let file = format!("/proc/{pid}/smaps_rollup");
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        sum.proportional_bytes += kibibytes(&text, "Pss:") * 1024.0;
        sum.resident_bytes += kibibytes(&text, "Rss:") * 1024.0;
    }
    Ok(sum)
}

impl Resident {
    pub(super) fn since(&self, before: &Resident) -> Resident {
        Resident {
            proportional_bytes: (self.proportional_bytes - before.proportional_bytes).max(0.0),
            resident_bytes: (self.resident_bytes - before.resident_bytes).max(0.0),
        }
    }

    /// Per connection, both ends and the monitor together.
    pub(super) fn metrics(&self, connections: u64) -> Sample {
        let each = |bytes: f64| bytes / connections.max(1) as f64;
        [
            ("memory_per_connection_bytes".to_owned(), each(self.proportional_bytes)),
            ("resident_per_connection_bytes".to_owned(), each(self.resident_bytes)),
        ]
        .into()
    }
}

fn kibibytes(text: &str, key: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_summary_is_read() {
        let text = "55-7f [rollup]\nRss:       868 kB\nPss:      188 kB\nPss_Dirty:   1 kB\n";
        assert_eq!((kibibytes(text, "Rss:"), kibibytes(text, "Pss:")), (868.0, 188.0));
        assert_eq!(kibibytes(text, "Swap:"), 0.0);
    }
}
