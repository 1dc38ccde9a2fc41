//! Statistical comparison of two measurements, level by level and metric by metric.
//!
//! Invariant: conditions must match unless they are ignored by name; a verdict other than "undecided" rests on a test, and
//! "no difference seen" states the smallest difference that would have been seen.
//!
//! Times and speeds: the ratio of the medians with a bootstrap interval, and a permutation test of the rank sum; where both sides have
//! several rounds, the medians of the rounds and a t-test of them. What the client itself may have moved is no difference. Throughput:
//! the ratio with an interval from the equal parts of the windows. Failures: the difference of the shares with Newcombe's
//! interval (1998, method 10) and Fisher's exact test. All p of one comparison are one family and corrected by Holm (1979).
//! Requests of a single round are taken as independent; within one closed loop they are so only nearly.

mod computed;
mod judge;
mod medians;

pub(crate) use judge::{ENOUGH_ROUNDS, compare_pairs};
pub use judge::{check_plan, compare};
pub use medians::detectable_change;

use crate::expression::suggestion;
use serde::{Deserialize, Serialize};
use std::fmt;
use tokrate_core::Conditions;
use tokrate_record::Metric;
use tokrate_stats::Interval;

/// What is compared unless other metrics are asked for.
pub const DEFAULT_METRICS: [Metric; 5] =
    [Metric::Ttft, Metric::OutputSpeed, Metric::E2e, Metric::Throughput, Metric::FailureShare];

/// What can be compared; time per token is the output speed turned over.
pub fn comparable() -> impl Iterator<Item = Metric> {
    Metric::ALL.into_iter().filter(|metric| match metric {
        Metric::Tpot => false,
        metric => DEFAULT_METRICS.contains(metric) || metric.is_time_of_requests(),
    })
}

/// The metric of a name that can be compared.
///
/// # Errors
/// The nearest names.
pub fn comparable_from_name(name: &str) -> Result<Metric, String> {
    let wanted = if name == "tpot" { Metric::OutputSpeed.name() } else { name };
    comparable().find(|metric| metric.name() == wanted).ok_or_else(|| {
        let known: Vec<&str> = comparable().map(Metric::name).collect();
        format!("`{name}` cannot be compared{}", suggestion(name, &known))
    })
}

/// How a comparison is made.
#[derive(Clone, PartialEq, Debug)]
pub struct CompareOptions {
    /// What is compared, in this order.
    pub metrics: Vec<Metric>,
    /// Names of conditions that may differ; `all` for every one.
    pub ignore: Vec<String>,
    /// The relative change for the worse above which a difference is a regression (0.05 is 5 %).
    pub threshold: f64,
    /// The chance of a false difference in the whole family of tests.
    pub alpha: f64,
    /// Seed of resampling and permutation.
    pub seed: u64,
}

/// The result of a comparison.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompareReport {
    /// Which form this is: `tokrate.compare.v1`.
    pub schema: String,
    /// Sides (`a`, `b`) that were computed and not measured: nothing is tested against them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed: Vec<String>,
    /// Conditions in which the two differ and that were ignored.
    pub unlike: Vec<DifferingCondition>,
    /// One row for each level and metric.
    pub rows: Vec<CompareRow>,
    /// Levels that only the first measurement has.
    pub only_in_a: Vec<String>,
    /// Levels that only the second has.
    pub only_in_b: Vec<String>,
    /// Rounds that were cut off, which are not compared.
    #[serde(default, skip_serializing_if = "CutRounds::is_none")]
    pub cut_rounds: CutRounds,
    /// How many tests are in the family that the p are corrected for.
    pub family: u64,
    /// The chance of a false difference in the whole family.
    pub alpha: f64,
    /// The relative change for the worse above which a difference is a regression.
    pub threshold: f64,
    /// The verdict.
    pub outcome: CompareOutcome,
    /// What must be known to read the numbers.
    pub notes: Vec<String>,
}

/// Rounds of both measurements that an interrupt, a limit of cost or an abort cut off: of those the short answers are there and the long ones are not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CutRounds {
    /// Those of the first.
    pub a: u64,
    /// Those of the second.
    pub b: u64,
}

/// A condition in which two measurements differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DifferingCondition {
    /// Its name.
    pub name: String,
    /// What it is in the first.
    pub a: String,
    /// What it is in the second.
    pub b: String,
}

/// One metric at one level.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CompareRow {
    /// Name of the level.
    pub level: String,
    /// What is compared.
    #[serde(with = "tokrate_meter::names::one")]
    #[cfg_attr(test, schemars(schema_with = "tokrate_meter::schema::name::<Metric>"))]
    pub metric: Metric,
    /// `ms`, `tok/s`, or empty for a share.
    pub unit: String,
    /// Samples of the first: requests, or seconds of the window for throughput.
    pub n_a: u64,
    /// Samples of the second.
    pub n_b: u64,
    /// The first: the median, the throughput, or the share.
    pub a: Option<f64>,
    /// The second.
    pub b: Option<f64>,
    /// b / a; for the failure share b - a.
    pub change: Option<f64>,
    /// 95 % interval of `change`.
    pub interval: Option<Interval>,
    /// Probability of a difference this large by chance.
    pub p: Option<f64>,
    /// The same, corrected for all tests of the comparison (Holm).
    pub p_adjusted: Option<f64>,
    /// The smallest relative change that would be seen with 80 % probability (for the failure share: the difference).
    pub smallest_visible: Option<f64>,
    /// Rounds of the side that has fewer, where the test is one of their medians; absent where it is one of requests or seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u64>,
    /// The verdict.
    pub verdict: CompareVerdict,
    /// Whether it is worse by more than the threshold.
    pub regression: bool,
    /// Why it is undecided, or a caveat.
    pub note: Option<String>,
}

/// Verdict of a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CompareVerdict {
    /// The second is better than chance explains.
    Better,
    /// The second is worse than chance explains.
    Worse,
    /// No difference was seen, and one of the size of the threshold would have been.
    NoDifference,
    /// No difference was seen, and one of the size of the threshold might have been missed.
    Undecided,
    /// One side was computed, and the other lies within the interval of the estimate.
    WithinEstimate,
}

/// Outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CompareOutcome {
    /// No row is worse beyond the threshold.
    NoRegression,
    /// At least one is.
    Regression,
    /// No row could be tested.
    NothingCompared,
}

/// Why two measurements cannot be compared.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompareError {
    /// Their conditions differ.
    DifferingConditions(Vec<DifferingCondition>),
    /// They have no level in common.
    NoCommonLevel {
        /// Levels of the first.
        a: Vec<String>,
        /// Levels of the second.
        b: Vec<String>,
        /// Rounds of both that were cut off, so that they have no level.
        cut: CutRounds,
    },
    /// A condition to be ignored does not exist.
    UnknownCondition {
        /// As it was written.
        name: String,
        /// The nearest names, as the end of a message.
        suggestion: String,
    },
}

impl CompareReport {
    /// The row of a metric at a level.
    pub(crate) fn row(&self, level: &str, metric: Metric) -> Option<&CompareRow> {
        self.rows.iter().find(|row| row.level == level && row.metric == metric)
    }
}

impl CutRounds {
    /// Whether no round was cut off.
    pub fn is_none(&self) -> bool {
        *self == CutRounds::default()
    }

    /// A sentence for each side that has some; `a` and `b` are what the sides are called.
    pub fn sentences(&self, a: &str, b: &str) -> Vec<String> {
        let sentence = |(rounds, side): (u64, &str)| match rounds {
            0 => None,
            1 => Some(format!("1 round of {side} was cut short and is not compared")),
            many => Some(format!("{many} rounds of {side} were cut short and are not compared")),
        };
        [(self.a, a), (self.b, b)].into_iter().filter_map(sentence).collect()
    }
}

impl CompareRow {
    /// A row of which nothing is known yet.
    fn blank(metric: Metric, level: &str) -> CompareRow {
        CompareRow {
            level: level.to_owned(),
            metric,
            unit: metric.unit().to_owned(),
            n_a: 0,
            n_b: 0,
            a: None,
            b: None,
            change: None,
            interval: None,
            p: None,
            p_adjusted: None,
            smallest_visible: None,
            rounds: None,
            verdict: CompareVerdict::Undecided,
            regression: false,
            note: None,
        }
    }
}

impl CompareVerdict {
    /// The words used in tables.
    pub const fn words(self) -> &'static str {
        match self {
            CompareVerdict::Better => "better",
            CompareVerdict::Worse => "worse",
            CompareVerdict::NoDifference => "no difference seen",
            CompareVerdict::Undecided => "undecided",
            CompareVerdict::WithinEstimate => "within the estimate",
        }
    }
}

impl Default for CompareOptions {
    fn default() -> CompareOptions {
        CompareOptions { metrics: DEFAULT_METRICS.to_vec(), ignore: Vec::new(), threshold: 0.05, alpha: 0.05, seed: 0 }
    }
}

/// The conditions in which two measurements differ, those left out in which they may; concurrency and rate are compared
/// level by level.
///
/// # Errors
/// When an ignored name is not a condition.
pub fn differing_conditions(
    a: &Conditions,
    b: &Conditions,
    ignore: &[String],
) -> Result<(Vec<DifferingCondition>, Vec<DifferingCondition>), CompareError> {
    let (mine, theirs) = (a.entries(), b.entries());
    let names: Vec<&str> = mine.iter().map(|(name, _)| *name).collect();
    if let Some(name) = ignore.iter().find(|name| *name != "all" && !names.contains(&name.as_str())) {
        return Err(CompareError::UnknownCondition { name: name.clone(), suggestion: suggestion(name, &names) });
    }
    let left_out = |name: &str| matches!(name, "concurrency" | "rate") || Conditions::DESCRIPTIVE.contains(&name);
    let differing = mine.iter().zip(&theirs).filter(|(a, b)| a.1 != b.1 && !left_out(a.0));
    let all = differing.map(|(a, b)| DifferingCondition { name: a.0.to_owned(), a: a.1.clone(), b: b.1.clone() });
    Ok(all.partition(|condition| ignore.iter().any(|name| name == "all" || *name == condition.name)))
}

impl fmt::Display for CompareError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompareError::DifferingConditions(conditions) => {
                writeln!(formatter, "compare the two, which were measured under different conditions:")?;
                for condition in conditions {
                    writeln!(formatter, "  {}: {:?} and {:?}", condition.name, condition.a, condition.b)?;
                }
                let names: Vec<&str> = conditions.iter().map(|condition| condition.name.as_str()).collect();
                write!(formatter, "if the comparison makes sense all the same, add --ignore {}", names.join(","))
            }
            CompareError::NoCommonLevel { a, b, cut } => {
                let to_end = if cut.is_none() { "" } else { ", to their end" };
                write!(
                    formatter,
                    "compare the two, which have no load level in common ({} and {}); measure both at the same loads{to_end}",
                    levels(a, cut.a),
                    levels(b, cut.b)
                )
            }
            CompareError::UnknownCondition { name, suggestion } => {
                write!(formatter, "ignore the condition `{name}`: there is none of that name{suggestion}")
            }
        }
    }
}

/// The levels of a side, and that rounds which were cut off are not among them.
fn levels(names: &[String], cut: u64) -> String {
    let rounds = if cut == 1 { "round that was" } else { "rounds that were" };
    match (names, cut) {
        (names, 0) => names.join(", "),
        ([], _) => format!("none but {cut} {rounds} cut short"),
        (names, _) => format!("{}, {cut} {rounds} cut short left out", names.join(", ")),
    }
}

impl std::error::Error for CompareError {}

#[cfg(test)]
mod tests;
