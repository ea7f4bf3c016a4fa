//! What the project promises: ratios between contestants of one run, and rates.

use serde::{Deserialize, Serialize};

use super::super::report::Summary;
use super::report::CaseResult;

/// A promise about one contestant of a case.
struct Target {
    case: &'static str,
    contestant: &'static str,
    bound: Bound,
}

enum Bound {
    /// At least so many times the other contestant's figure.
    Times(f64, &'static str),
    /// At least so much of a metric.
    Rate(f64, &'static str),
}

use Bound::{Rate, Times};

const TARGETS: &[Target] = &[
    target("pipe", "pipe", Rate(100e6, "packets_per_s")),
    target("pipe", "pipe", Times(0.4, "slot ring")),
    target("switch-60", "switch", Rate(20e6, "packets_per_s")),
    target("switch-60", "switch", Times(0.5, "copy limit")),
    target("switch-60", "switch", Times(10.0, "Linux bridge, packet sockets")),
    target("switch-60", "switch", Times(10.0, "Linux bridge, XDP sockets")),
    target("switch-1500", "switch", Rate(70e9, "bits_per_s")),
    target("routes-random", "DXR, 20 bits direct", Rate(100e6, "lookups_per_s")),
];

const fn target(case: &'static str, contestant: &'static str, bound: Bound) -> Target {
    Target { case, contestant, bound }
}

/// How a promise was kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) case: String,
    pub(crate) contestant: String,
    /// What the figure is divided by; none = it is a rate.
    pub(crate) against: Option<String>,
    /// The rate's name; none = it is a ratio.
    pub(crate) metric: Option<String>,
    pub(crate) at_least: f64,
    /// None = could not be measured.
    pub(crate) seen: Option<Summary>,
    pub(crate) kept: bool,
}

/// Cases that promises are made about, each once.
pub(super) fn cases() -> impl Iterator<Item = &'static str> {
    let is_first = |at: &usize| *at == 0 || TARGETS[*at].case != TARGETS[*at - 1].case;
    (0..TARGETS.len()).filter(is_first).map(|at| TARGETS[at].case)
}

/// One verdict for each promise about a case that was measured.
pub(super) fn judge(results: &[CaseResult]) -> Vec<Verdict> {
    let found = TARGETS.iter().filter_map(|t| Some((t, results.iter().find(|r| r.case == t.case)?)));
    found.map(|(target, result)| target.judge(result)).collect()
}

impl Target {
    fn judge(&self, result: &CaseResult) -> Verdict {
        let is_whole = |name| result.contestant(name).is_some_and(|c| c.failed.is_none() && c.skipped.is_none());
        let (at_least, against, metric, seen) = match self.bound {
            Times(at_least, other) => {
                let ratio = result.ratio(self.contestant, other).filter(|_| is_whole(other));
                (at_least, Some(other), None, ratio)
            }
            Rate(at_least, metric) => {
                let rate = result.contestant(self.contestant).and_then(|c| c.metrics.get(metric).copied());
                (at_least, None, Some(metric), rate)
            }
        };
        let seen = seen.filter(|_| is_whole(self.contestant));
        Verdict {
            case: self.case.to_owned(),
            contestant: self.contestant.to_owned(),
            against: against.map(str::to_owned),
            metric: metric.map(str::to_owned),
            at_least,
            seen,
            kept: seen.is_some_and(|seen| seen.median >= at_least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::Case;
    use super::super::report::tests::result;
    use super::*;

    #[test]
    fn a_promise_is_kept_or_not() {
        let kept = |pipe, ring| judge(&[result("pipe", &[("pipe", &[pipe]), ("slot ring", &[ring])])]);
        assert!(kept(100e6, 250e6).iter().all(|verdict| verdict.kept));
        let missed: Vec<bool> = kept(99e6, 250e6).iter().map(|verdict| verdict.kept).collect();
        assert_eq!(missed, [false, false]);
    }

    #[test]
    fn what_could_not_be_measured_is_not_kept() {
        let verdicts = judge(&[result("pipe", &[("pipe", &[1e9])])]);
        assert!(verdicts[0].kept && !verdicts[1].kept && verdicts[1].seen.is_none());
    }

    #[test]
    fn promises_are_about_cases_and_contestants_that_exist() {
        for target in TARGETS {
            let case = Case::all().into_iter().find(|c| c.name == target.case).expect(target.case);
            let has = |name: &str| case.contestants.iter().any(|c| c.name == name);
            assert!(has(target.contestant), "{}", target.contestant);
            if let Times(_, other) = target.bound {
                assert!(has(other), "{other}");
            }
        }
        assert_eq!(cases().count(), cases().collect::<std::collections::BTreeSet<_>>().len());
    }
}
