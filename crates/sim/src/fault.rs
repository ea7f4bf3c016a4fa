//! What a link does to single packets: loss at random and in bursts, duplication, reordering, corruption, and a black
//! hole at a given time.

use std::ops::Range;

use ringway_tcp::Instant;

use crate::random::Random;

/// Gilbert and Elliott's two states: in the good one nothing is lost, in the bad one much is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Probability to turn bad with each packet.
    pub begin: f64,
    /// Probability to turn good again with each packet.
    pub end: f64,
    /// Probability of loss while bad.
    pub loss: f64,
}

/// What may happen to packets; the probabilities are for each packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    pub loss: f64,
    pub bursts: Option<Bursts>,
    pub duplication: f64,
    /// One octet is changed, so that a checksum must find out.
    pub corruption: f64,
    /// The packet is held back by `reorder_us`, so that later ones overtake it.
    pub reordering: f64,
    pub reorder_us: u64,
    /// Every packet takes up to this much longer, each its own; later ones may overtake.
    pub jitter_us: u64,
    /// The time, in microseconds, in which nothing passes.
    pub black_hole_us: Range<u64>,
}

/// What becomes of one packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// How much later each copy arrives, in microseconds; none is a loss.
    pub copies_us: Vec<u64>,
    /// Which octet is changed, and how.
    pub corrupted: Option<(usize, u8)>,
}

/// Faults at work on one link.
#[derive(Clone, Debug)]
pub struct FaultInjector {
    faults: Faults,
    random: Random,
    bad: bool,
}

impl FaultInjector {
    pub fn new(faults: Faults, random: Random) -> FaultInjector {
        FaultInjector { faults, random, bad: false }
    }

    /// Decides about a packet of `len` octets that enters at `now`.
    pub fn decide(&mut self, now: Instant, len: usize) -> Fate {
        let mut fate = Fate::default();
        if self.loses(now) {
            return fate;
        }
        let copies = 1 + u64::from(self.random.chance(self.faults.duplication));
        for _ in 0..copies {
            let held = if self.random.chance(self.faults.reordering) { self.faults.reorder_us } else { 0 };
            let jitter = if self.faults.jitter_us > 0 { self.random.below(self.faults.jitter_us + 1) } else { 0 };
            fate.copies_us.push(held + jitter);
        }
        if self.random.chance(self.faults.corruption) && len > 0 {
            fate.corrupted = Some((self.random.below(len as u64) as usize, self.random.below(255) as u8 + 1));
        }
        fate
    }

    fn loses(&mut self, now: Instant) -> bool {
        if let Some(bursts) = self.faults.bursts {
            self.bad = if self.bad { !self.random.chance(bursts.end) } else { self.random.chance(bursts.begin) };
            if self.bad && self.random.chance(bursts.loss) {
                return true;
            }
        }
        self.faults.black_hole_us.contains(&now.us()) || self.random.chance(self.faults.loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(faults: Faults, count: usize) -> Vec<Fate> {
        let mut injector = FaultInjector::new(faults, Random::new(1));
        (0..count).map(|index| injector.decide(Instant::from_us(index as u64), 100)).collect()
    }

    #[test]
    fn without_faults_everything_passes() {
        let clean = Fate { copies_us: vec![0], corrupted: None };
        assert!(fates(Faults::default(), 1000).iter().all(|fate| *fate == clean));
    }

    #[test]
    fn bursts_lose_neighbours() {
        let bursts = Some(Bursts { begin: 0.01, end: 0.2, loss: 1.0 });
        let lost: Vec<bool> =
            fates(Faults { bursts, ..Faults::default() }, 100_000).iter().map(|f| f.copies_us.is_empty()).collect();
        let share = lost.iter().filter(|lost| **lost).count() as f64 / 1e5;
        let after_loss = lost.windows(2).filter(|pair| pair[0]);
        let (again, all) = after_loss.fold((0, 0), |(again, all), pair| (again + u32::from(pair[1]), all + 1));
        assert!((0.03..0.07).contains(&share), "{share}");
        assert!((0.75..0.85).contains(&(f64::from(again) / f64::from(all))));
    }

    #[test]
    fn a_black_hole_has_its_time() {
        let faults = Faults { black_hole_us: 10..20, ..Faults::default() };
        let lost: Vec<usize> =
            fates(faults, 50).iter().enumerate().filter(|(_, f)| f.copies_us.is_empty()).map(|(i, _)| i).collect();
        assert_eq!(lost, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn duplicates_and_corruption_happen() {
        let faults = Faults { duplication: 0.5, corruption: 0.5, ..Faults::default() };
        let fates = fates(faults, 1000);
        assert!(fates.iter().any(|f| f.copies_us.len() == 2) && fates.iter().any(|f| f.copies_us.len() == 1));
        assert!(fates.iter().filter_map(|f| f.corrupted).all(|(at, change)| at < 100 && change != 0));
    }
}
