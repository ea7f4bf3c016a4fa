//! What the project promises, as ratios between paths in one run.

use serde::{Deserialize, Serialize};

use super::path::Path;
use super::report::{CaseResult, Summary};

/// A promise about one case.
struct Target {
    case: &'static str,
    path: Path,
    against: Path,
    /// Bound of the metric's ratio.
    bound: Bound,
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

use Bound::{AtLeast, AtMost};

const TARGETS: &[Target] = &[
    target("round-trip-64", Path::RingwayLatency, Path::Limit, AtMost(1.5)),
    target("round-trip-64", Path::RingwayLatency, Path::Tcp, AtMost(1.0 / 25.0)),
    target("asleep-64", Path::RingwayBalanced, Path::Unix, AtMost(1.0)),
    target("asleep-64", Path::RingwayEfficient, Path::Unix, AtMost(1.0)),
    target("messages-8", Path::RingwayBalanced, Path::Tcp, AtLeast(40.0)),
    target("stream-64k", Path::RingwayBalanced, Path::Tcp, AtLeast(2.5)),
    target("redis-get-1", Path::RingwayBalanced, Path::Tcp, AtLeast(4.0)),
    target("redis-get-50", Path::RingwayBalanced, Path::Tcp, AtLeast(3.0)),
    target("short", Path::RingwayBalanced, Path::Tcp, AtLeast(0.95)),
    target("requests-16", Path::Engine, Path::Smoltcp, AtLeast(1.5)),
    target("requests-1000", Path::Engine, Path::Smoltcp, AtLeast(8.0)),
    target("requests-16", Path::Engine, Path::Tcp, AtLeast(25.0)),
    target("requests-1000", Path::Engine, Path::Tcp, AtLeast(25.0)),
];

const fn target(case: &'static str, path: Path, against: Path, bound: Bound) -> Target {
    Target { case, path, against, bound }
}

/// How a promise was kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) case: String,
    pub(crate) path: Path,
    pub(crate) against: Path,
    /// What is promised, for people.
    pub(crate) target: String,
    /// By round; none = could not be measured.
    pub(crate) ratio: Option<Summary>,
    pub(crate) kept: bool,
}

/// Cases that promises are made about.
pub(crate) fn cases() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|target| target.case)
}

/// One verdict for each promise about a case that was asked for.
pub(crate) fn judge(results: &[CaseResult]) -> Vec<Verdict> {
    let found = TARGETS.iter().filter_map(|t| Some((t, results.iter().find(|r| r.case == t.case)?)));
    found.map(|(target, result)| target.judge(result)).collect()
}

impl Target {
    fn judge(&self, result: &CaseResult) -> Verdict {
        let has_failed = |path| result.path(path).is_none_or(|p| p.failed.is_some());
        let ratio = result.ratio(self.path, self.against);
        let kept =
            ratio.is_some_and(|r| self.bound.holds(r.median)) && ![self.path, self.against].into_iter().any(has_failed);
        Verdict {
            case: self.case.to_owned(),
            path: self.path,
            against: self.against,
            target: self.bound.describe(),
            ratio,
            kept,
        }
    }
}

impl Bound {
    fn holds(&self, ratio: f64) -> bool {
        match self {
            AtMost(most) => ratio <= *most,
            AtLeast(least) => ratio >= *least,
        }
    }

    fn describe(&self) -> String {
        match self {
            AtMost(most) => format!("at most {most:.2}"),
            AtLeast(least) => format!("at least {least:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::case::Case;
    use crate::bench::report::tests::rounds;

    fn verdicts(ring: f64) -> Vec<Verdict> {
        let case = Case::all().into_iter().find(|c| c.name == "stream-64k").unwrap();
        let of = |value| rounds("bytes_per_s", &[value]);
        judge(&[CaseResult::new(&case, &[(Path::Tcp, of(2.0)), (Path::RingwayBalanced, of(ring))])])
    }

    #[test]
    fn a_promise_is_kept_or_not() {
        assert!(verdicts(5.0)[0].kept && !verdicts(4.9)[0].kept);
        assert_eq!(verdicts(5.0).len(), 1);
    }

    #[test]
    fn what_could_not_be_measured_is_not_kept() {
        let case = Case::all().into_iter().find(|c| c.name == "stream-64k").unwrap();
        assert!(!judge(&[CaseResult::skipped(&case, "missing".into())])[0].kept);
    }

    #[test]
    fn promises_are_about_cases_and_paths_that_exist() {
        for target in TARGETS {
            let case = Case::all().into_iter().chain(Case::tcp()).find(|c| c.name == target.case).expect(target.case);
            assert!(case.paths().contains(&target.path) && case.paths().contains(&target.against));
        }
    }
}
