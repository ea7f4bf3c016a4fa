//! What the bench found out. The JSON document is this, with `"schema": 1` and units in the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::machine::{Load, Machine};
use super::path::Path;
use super::targets::Verdict;
use super::worker::Sample;

pub(crate) const SCHEMA: u32 = 1;

/// Reports from before there was another bench.
fn sockets() -> String {
    "sockets".into()
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    /// `sockets` or `tcp`.
    #[serde(default = "sockets")]
    pub(crate) bench: String,
    pub(crate) machine: Machine,
    pub(crate) rounds: u32,
    /// How long each measurement took.
    pub(crate) duration_s: f64,
    /// CPUs that the two ends were kept on; none = wherever the kernel put them.
    pub(crate) cpus: Option<[usize; 2]>,
    pub(crate) load_before: Load,
    pub(crate) load_after: Load,
    pub(crate) cases: Vec<CaseResult>,
    /// Comparison with what the project promises, where asked for.
    pub(crate) targets: Vec<Verdict>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CaseResult {
    pub(crate) case: String,
    pub(crate) title: String,
    /// The metric that is compared.
    pub(crate) metric: String,
    pub(crate) higher_is_better: bool,
    /// Why it was not run.
    pub(crate) skipped: Option<String>,
    pub(crate) paths: Vec<PathResult>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PathResult {
    pub(crate) path: Path,
    /// Why at least one round has no figure.
    pub(crate) failed: Option<String>,
    /// Over the rounds that have one.
    pub(crate) metrics: BTreeMap<String, Summary>,
    /// How many times better than TCP, by round.
    pub(crate) times_tcp: Option<Summary>,
    /// The compared metric, by round.
    pub(crate) by_round: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// None for no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        Some(Summary { median, min, max })
    }
}

/// The rounds of one path: a sample, or why there is none.
pub(crate) type Rounds = Vec<Result<Sample, String>>;

impl CaseResult {
    pub(crate) fn new(case: &Case, all: &[(Path, Rounds)]) -> CaseResult {
        let figure = case.figure();
        let mut result = CaseResult {
            case: case.name.clone(),
            title: case.title.clone(),
            metric: figure.metric.to_owned(),
            higher_is_better: figure.higher_is_better,
            skipped: None,
            paths: all.iter().map(|(path, rounds)| PathResult::new(*path, figure.metric, rounds)).collect(),
        };
        let tcp = result.by_round(Path::Tcp).to_vec();
        for path in result.paths.iter_mut().filter(|p| p.path != Path::Tcp) {
            let times = ratios(&path.by_round, &tcp).map(|r| if figure.higher_is_better { r } else { 1.0 / r });
            path.times_tcp = Summary::of(times);
        }
        result
    }

    pub(crate) fn skipped(case: &Case, why: String) -> CaseResult {
        CaseResult { skipped: Some(why), ..CaseResult::new(case, &[]) }
    }

    pub(crate) fn path(&self, path: Path) -> Option<&PathResult> {
        self.paths.iter().find(|p| p.path == path)
    }

    fn by_round(&self, path: Path) -> &[Option<f64>] {
        self.path(path).map_or(&[], |p| &p.by_round)
    }

    /// The compared metric on `path` divided by that on `other`, by round.
    pub(crate) fn ratio(&self, path: Path, other: Path) -> Option<Summary> {
        Summary::of(ratios(self.by_round(path), self.by_round(other)))
    }
}

fn ratios(a: &[Option<f64>], b: &[Option<f64>]) -> impl Iterator<Item = f64> {
    a.iter().zip(b).filter_map(|(a, b)| Some((*a)? / (*b)?)).filter(|ratio| ratio.is_finite())
}

impl PathResult {
    fn new(path: Path, metric: &str, rounds: &Rounds) -> PathResult {
        let samples: Vec<&Sample> = rounds.iter().filter_map(|round| round.as_ref().ok()).collect();
        let names: std::collections::BTreeSet<&String> = samples.iter().flat_map(|s| s.keys()).collect();
        let summary = |name: &String| Summary::of(samples.iter().filter_map(|s| s.get(name).copied()));
        PathResult {
            path,
            failed: rounds.iter().find_map(|round| round.as_ref().err()).cloned(),
            metrics: names.into_iter().filter_map(|name| Some((name.clone(), summary(name)?))).collect(),
            times_tcp: None,
            by_round: rounds.iter().map(|round| round.as_ref().ok()?.get(metric).copied()).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn rounds(metric: &str, values: &[f64]) -> Rounds {
        values.iter().map(|v| Ok([(metric.to_owned(), *v)].into())).collect()
    }

    #[test]
    fn summaries_take_the_middle() {
        assert_eq!(Summary::of([3.0, 1.0, 2.0]), Some(Summary { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Summary::of([4.0, 2.0]).unwrap().median, 3.0);
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn ratios_are_made_by_round_and_say_how_much_better() {
        let case = &Case::all()[0];
        assert!(!case.figure().higher_is_better);
        let tcp = rounds(case.figure().metric, &[10.0, 20.0, 40.0]);
        let mut ring = rounds(case.figure().metric, &[1.0, 1.0, 1.0]);
        ring[1] = Err("hangs".into());
        let result = CaseResult::new(case, &[(Path::Tcp, tcp), (Path::RingwayLatency, ring)]);
        let path = result.path(Path::RingwayLatency).unwrap();
        assert_eq!(path.times_tcp, Some(Summary { median: 25.0, min: 10.0, max: 40.0 }));
        assert_eq!(path.failed.as_deref(), Some("hangs"));
        assert_eq!(result.ratio(Path::RingwayLatency, Path::Tcp).unwrap().max, 0.1);
        assert_eq!(result.ratio(Path::Limit, Path::Tcp), None);
    }
}
