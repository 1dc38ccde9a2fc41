//! How a run ended that went on until asked figures were known well enough.
//!
//! Invariant: a figure counts as reached only if its interval is as narrow as was asked, and what was not reached says how wide it is and
//! about how many more requests it needs.

use serde::{Deserialize, Serialize};

/// What came of `--until`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UntilResult {
    /// What ended the run.
    pub end: UntilEnd,
    /// A row for each condition and load, in the order of the conditions.
    pub conditions: Vec<PrecisionOutcome>,
    /// How a comparison was looked at that the run went on for, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictLooks>,
}

/// The looks at a comparison that ended a run as soon as it had its verdicts: whoever compares the record later has to count them, as
/// looking again and again finds differences where there are none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerdictLooks {
    /// The rounds of a load after which it was looked at, as far as there were so many.
    pub at_rounds: Vec<u64>,
    /// Comparisons that the run is in: one with a baseline, else one less than there are targets.
    pub comparisons: u64,
    /// How it ended, in a sentence.
    pub sentence: String,
}

/// What ended a run with `--until`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UntilEnd {
    /// It is not over, or was interrupted or aborted.
    Unfinished,
    /// Everything that was asked is known.
    Reached,
    /// The requests that a level may take.
    Requests,
    /// The time that a level may take.
    Time,
    /// What the run may cost.
    Cost,
    /// Something cannot be known by any number of requests.
    NotReachable,
    /// The last round after which it is looked for verdicts.
    Looks,
}

/// How well an asked figure is known at a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrecisionOutcome {
    /// The condition, as parsed.
    pub condition: String,
    /// Name of the load, all its rounds together.
    pub phase: String,
    /// Whether it is met.
    pub status: PrecisionStatus,
    /// The figure, in `unit`.
    pub value: Option<f64>,
    /// Unit of the numbers: `ms`, `tok/s`, `1/s`, or empty for shares.
    pub unit: String,
    /// Lower end of its 95 % interval between rounds.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Half the width of that interval, as a share of the value where the condition is relative, else in `unit`.
    pub half_width: Option<f64>,
    /// What was asked of it, in the same measure.
    pub asked: f64,
    /// Whether both are shares of the value.
    pub relative: bool,
    /// Rounds of the load in which the figure was measured.
    pub rounds: u64,
    /// Measured requests of the load.
    pub requests: u64,
    /// About how many more it needs; absent where it is reached, or nobody knows.
    pub more_requests: Option<u64>,
    /// All of it in a sentence.
    pub sentence: String,
}

/// Whether a figure is known well enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PrecisionStatus {
    /// Its interval is as narrow as was asked.
    Reached,
    /// It is not, yet.
    NotReached,
    /// It cannot become so.
    NotReachable,
}

impl UntilResult {
    /// Whether everything that was asked is known.
    pub fn is_reached(&self) -> bool {
        let is_decided = self.verdict.is_none() || self.end == UntilEnd::Reached;
        is_decided && self.conditions.iter().all(|outcome| outcome.status == PrecisionStatus::Reached)
    }

    /// What came of it, a sentence for each condition and load.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        let verdict = self.verdict.iter().map(|verdict| verdict.sentence.as_str());
        verdict.chain(self.conditions.iter().map(|outcome| outcome.sentence.as_str()))
    }
}

impl VerdictLooks {
    /// How often so many rounds were looked at; at least once.
    pub fn taken(&self, rounds: u64) -> u64 {
        (self.at_rounds.iter().filter(|at| **at <= rounds).count() as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_counted_by_the_rounds_that_there_are() {
        let looks = VerdictLooks { at_rounds: vec![4, 6, 9], comparisons: 1, sentence: String::new() };
        assert_eq!([0, 3, 4, 5, 6, 9, 40].map(|rounds| looks.taken(rounds)), [1, 1, 1, 1, 2, 3, 3]);
        let ended = |end| UntilResult { end, conditions: Vec::new(), verdict: Some(looks.clone()) }.is_reached();
        assert!(ended(UntilEnd::Reached) && !ended(UntilEnd::Requests));
    }
}
