//! What the bench found out. The JSON document is this, with `"schema": 1` and units in the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::machine::{Load, Machine};
use super::super::report::Summary;
use super::super::worker::Sample;
use super::case::{Case, Contestant};
use super::targets::Verdict;

pub(crate) const SCHEMA: u32 = 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    pub(crate) machine: Machine,
    pub(crate) rounds: u32,
    /// How long each measurement took.
    pub(crate) duration_s: f64,
    /// CPUs of senders and of receivers; none = wherever the kernel put them.
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
    /// The metric that is compared; more is better.
    pub(crate) metric: String,
    pub(crate) contestants: Vec<ContestantResult>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ContestantResult {
    pub(crate) contestant: String,
    /// Why it was not measured.
    pub(crate) skipped: Option<String>,
    /// Why at least one round has no figure.
    pub(crate) failed: Option<String>,
    /// Over the rounds that have one.
    pub(crate) metrics: BTreeMap<String, Summary>,
    /// The first contestant's figure divided by this one's, by round.
    pub(crate) first_to_this: Option<Summary>,
    /// The compared metric, by round.
    pub(crate) by_round: Vec<Option<f64>>,
}

/// The rounds of one contestant: a sample, or why there is none.
type Rounds = Vec<Result<Sample, String>>;

impl CaseResult {
    /// `all`: the rounds of each contestant, in the case's order.
    pub(super) fn new(case: &Case, all: &[Rounds]) -> CaseResult {
        let contestants = case.contestants.iter().zip(all);
        let mut result = CaseResult {
            case: case.name.to_owned(),
            title: case.title.clone(),
            metric: case.metric.to_owned(),
            contestants: contestants.map(|(who, rounds)| ContestantResult::new(who, case.metric, rounds)).collect(),
        };
        let first = result.contestants.first().map_or(vec![], |first| first.by_round.clone());
        for contestant in result.contestants.iter_mut().skip(1) {
            contestant.first_to_this = Summary::of(ratios(&first, &contestant.by_round));
        }
        result
    }

    pub(super) fn contestant(&self, name: &str) -> Option<&ContestantResult> {
        self.contestants.iter().find(|contestant| contestant.contestant == name)
    }

    /// The compared metric of `name` divided by that of `other`, by round.
    pub(super) fn ratio(&self, name: &str, other: &str) -> Option<Summary> {
        Summary::of(ratios(&self.contestant(name)?.by_round, &self.contestant(other)?.by_round))
    }
}

fn ratios(a: &[Option<f64>], b: &[Option<f64>]) -> impl Iterator<Item = f64> {
    a.iter().zip(b).filter_map(|(a, b)| Some((*a)? / (*b)?)).filter(|ratio| ratio.is_finite())
}

impl ContestantResult {
    fn new(contestant: &Contestant, metric: &str, rounds: &Rounds) -> ContestantResult {
        let samples: Vec<&Sample> = rounds.iter().filter_map(|round| round.as_ref().ok()).collect();
        let names: std::collections::BTreeSet<&String> = samples.iter().flat_map(|s| s.keys()).collect();
        let summary = |name: &String| Summary::of(samples.iter().filter_map(|s| s.get(name).copied()));
        ContestantResult {
            contestant: contestant.name.to_owned(),
            skipped: contestant.obstacle.map(str::to_owned),
            failed: rounds.iter().find_map(|round| round.as_ref().err()).cloned(),
            metrics: names.into_iter().filter_map(|name| Some((name.clone(), summary(name)?))).collect(),
            first_to_this: None,
            by_round: rounds.iter().map(|round| round.as_ref().ok()?.get(metric).copied()).collect(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A case's result whose contestants have these figures in each round; the others failed.
    pub(crate) fn result(case: &str, figures: &[(&str, &[f64])]) -> CaseResult {
        let case = Case::all().into_iter().find(|c| c.name == case).expect(case);
        let rounds = |name: &str| -> Rounds {
            let found = figures.iter().find(|(contestant, _)| *contestant == name);
            let sample = |value: &f64| Ok([(case.metric.to_owned(), *value)].into());
            found.map_or(vec![Err("hangs".into())], |(_, values)| values.iter().map(sample).collect())
        };
        let all: Vec<Rounds> = case.contestants.iter().map(|contestant| rounds(contestant.name)).collect();
        CaseResult::new(&case, &all)
    }

    #[test]
    fn ratios_are_made_by_round() {
        let result = result("pipe", &[("pipe", &[10.0, 20.0, 40.0]), ("slot ring", &[20.0, 20.0, 20.0])]);
        let limit = result.contestant("slot ring").unwrap();
        assert_eq!(limit.first_to_this, Some(Summary { median: 1.0, min: 0.5, max: 2.0 }));
        assert_eq!(result.ratio("pipe", "slot ring").unwrap().median, 1.0);
        assert_eq!(result.contestant("pipe, gen and sink").unwrap().failed.as_deref(), Some("hangs"));
        assert_eq!(result.ratio("pipe", "pipe, gen and sink"), None);
    }
}
