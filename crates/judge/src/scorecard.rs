//! Scorecard of several targets measured in one run: ranks, and which targets are tied. There is no combined score.
//!
//! Invariant: a rank is a range, from one more than the number of significantly better targets to the number of those not
//! significantly worse, by the verdicts of the comparison; all tests of a scorecard are one family, corrected by Holm (1979).

mod rank;
mod tail;

pub use rank::RankedMedian;
pub use tail::Tail;

use crate::compare::CompareReport;
use rank::Ranks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tokrate_core::{Conditions, Rng};
use tokrate_record::Metric;
use tokrate_record::SuspicionKind;
use tokrate_record::curve::Measured;
use tokrate_record::run::{Counts, Load, PhaseResult};
use tokrate_record::{AnswerLength, LevelSamples, RunSamples};
use tokrate_record::{Record, Spending, TargetPrice};
use tokrate_stats::{Interval, wilson_interval};

/// The chance of a false difference among all tests of a scorecard.
const ALPHA: f64 = 0.05;

/// The targets of one run, side by side.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Scorecard {
    /// Which form this is: `tokrate.scorecard.v1`.
    pub schema: String,
    /// The load level at which speeds and times are compared: the lowest that all targets have.
    pub level: Option<String>,
    /// One row for each target, in the order in which they were named.
    pub rows: Vec<ScoreRow>,
    /// Conditions in which the targets differ, beyond those that name them.
    pub unlike: Vec<DifferingValues>,
    /// That the answers of targets differ in length, so that the costs of an answer are no ranking; absent if they do not.
    #[serde(default)]
    pub unlike_lengths: Option<String>,
    /// Rounds at that level, of the target with the fewest; absent where none is known.
    #[serde(default)]
    pub rounds: Option<u64>,
    /// Of the metrics of ranks: the smallest difference that would have been seen in every pair of targets that are not told apart.
    #[serde(default)]
    pub detectable: Vec<Detectable>,
    /// How many tests the places rest on.
    pub family: u64,
    /// The chance of a false difference among all of them.
    pub alpha: f64,
}

/// What a rank could have shown.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Detectable {
    /// By which targets are ranked.
    #[serde(with = "tokrate_meter::names::one")]
    #[cfg_attr(test, schemars(schema_with = "tokrate_meter::schema::name::<Metric>"))]
    pub metric: Metric,
    /// The relative difference that would have been seen with 80 % probability.
    pub change: f64,
}

/// One target.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScoreRow {
    /// What it is called.
    pub target: String,
    /// Median output speed of its requests (tok/s).
    pub output_speed: RankedMedian,
    /// Median time to first token (ms).
    pub ttft: RankedMedian,
    /// What is left of the output speed at higher concurrencies that all targets were measured at: the lowest of them, a middle one
    /// and the highest.
    pub degradation: Vec<SpeedUnderLoad>,
    /// How far the slowest first tokens are from the usual ones.
    pub ttft_tail: Tail,
    /// How far the longest chunk gaps are from the usual ones.
    pub gap_tail: Tail,
    /// Failed requests of all levels.
    pub failed: Share,
    /// Requests of all levels that were refused for their rate.
    pub rate_limited: Share,
    /// What the target charges, if it is known.
    pub price: Option<TargetPrice>,
    /// What the run has cost, by completed answer (USD): failures and warm-up are paid for too.
    pub usd_per_answer: Option<f64>,
    /// Mean length of its answers, of all levels (output tokens, counted over their text).
    #[serde(default)]
    pub answer_tokens: Option<f64>,
    /// Integrity findings.
    pub suspicions: Vec<SuspicionKind>,
}

/// Output speed under load as a share of the speed at the lowest concurrency that all targets have.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpeedUnderLoad {
    /// Requests in flight.
    pub concurrency: u32,
    /// Requests in flight at the reference speed.
    #[serde(default = "alone")]
    pub of: u32,
    /// Ratio of the median output speeds, at this concurrency to `of`, with its 95 % bootstrap interval.
    pub kept: Measured,
    /// Mean change of the output speed at each doubling of the concurrency, `kept ^ (1 / log2(concurrency / of)) - 1`.
    pub per_doubling: f64,
}

/// Reference concurrency of scorecards that predate the field.
const fn alone() -> u32 {
    1
}

/// A share of requests with its interval.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Share {
    /// How many requests.
    pub count: u64,
    /// Of how many that were started and not cancelled.
    pub of: u64,
    /// `count / of`; absent of none.
    pub share: Option<f64>,
    /// Its 95 % Wilson interval.
    pub interval: Option<Interval>,
}

/// A condition in which targets differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DifferingValues {
    /// Its name.
    pub name: String,
    /// What it is for each target.
    pub values: Vec<String>,
}

impl Scorecard {
    /// Rounds of each target with which their number no longer hides most of a difference.
    pub const ENOUGH_ROUNDS: u64 = crate::compare::ENOUGH_ROUNDS;
    /// Differences of single rounds up to this are none.
    pub const MIN_DIFFERENCE_OF_SINGLE_ROUNDS: f64 = rank::MIN_DIFFERENCE_OF_SINGLE_ROUNDS;
    /// The name of this form.
    pub const SCHEMA: &'static str = "tokrate.scorecard.v1";

    /// The scorecard of records, each with the name of its target. The same records give the same scorecard.
    pub fn of(targets: &[(&str, &Record)]) -> Scorecard {
        Scorecard::beside(targets, &[])
    }

    /// The same beside comparisons of the targets with the first: no rank is apart that these do not call different.
    pub(crate) fn beside(targets: &[(&str, &Record)], reports: &[Option<&CompareReport>]) -> Scorecard {
        let root = Rng::root(0).child("scorecard");
        let sides: Vec<RunSamples> = targets.iter().map(|(_, record)| RunSamples::of_record(record)).collect();
        let load = common_load(&sides);
        let steps = common_steps(&sides);
        let levels: Vec<Option<&LevelSamples>> = sides.iter().map(|side| level_at(side, load?)).collect();
        let Ranks { ranked: [speeds, times], family, detectable } =
            rank::rank_targets([Metric::OutputSpeed, Metric::Ttft], &levels, reports, ALPHA);
        let rows = targets.iter().zip(&sides).zip(speeds.into_iter().zip(times));
        let rows = rows.map(|(((name, record), side), (speed, ttft))| ScoreRow {
            target: (*name).to_owned(),
            output_speed: speed.into_speed(),
            ttft,
            degradation: degradation(side, &steps, &root.child(name)),
            ttft_tail: level_at_or_none(side, load)
                .map_or_else(Tail::default, |level| Tail::of_sorted(&level.times(Metric::Ttft).sorted)),
            gap_tail: Tail::of_gaps(phases_at(record, load)),
            failed: share(record, |counts| counts.failed),
            rate_limited: share(record, |counts| counts.rate_limited),
            price: record.price.clone(),
            usd_per_answer: usd_per_answer(record),
            answer_tokens: answer_length(record).map(|length| length.mean),
            suspicions: suspicions(record),
        });
        let records: Vec<&Record> = targets.iter().map(|(_, record)| *record).collect();
        Scorecard {
            schema: Scorecard::SCHEMA.to_owned(),
            level: levels.first().copied().flatten().map(|level| level.name.clone()),
            rows: rows.collect(),
            unlike: differing_conditions(&records),
            unlike_lengths: unlike_lengths(&records),
            rounds: levels.iter().flatten().map(|level| rounds_of(level)).min().filter(|rounds| *rounds > 0),
            detectable,
            family,
            alpha: ALPHA,
        }
    }
}

/// Conditions that name the target itself, so that they differ between any two.
pub const NAMING: [&str; 3] = ["model", "provider", "endpoint"];

/// The conditions in which records differ, beyond those that name the target.
pub fn differing_conditions(records: &[&Record]) -> Vec<DifferingValues> {
    let all: Vec<Vec<(&'static str, String)>> =
        records.iter().map(|record| Conditions::from(&record.conditions).entries()).collect();
    let Some(first) = all.first() else { return Vec::new() };
    let compared = |name: &str| !NAMING.contains(&name) && !Conditions::DESCRIPTIVE.contains(&name);
    (0..first.len())
        .filter(|&place| compared(first[place].0) && all.iter().any(|entries| entries[place].1 != first[place].1))
        .map(|place| DifferingValues {
            name: first[place].0.to_owned(),
            values: all.iter().map(|entries| entries[place].1.clone()).collect(),
        })
        .collect()
}

/// The lowest load that every side has; levels of one run are measured in rising order unless asked otherwise.
fn common_load(sides: &[RunSamples]) -> Option<Load> {
    let (first, others) = sides.split_first()?;
    let common = first.levels.iter().filter(|level| others.iter().all(|side| level_at(side, level.load).is_some()));
    common.map(|level| level.load).min_by(|a, b| a.amount().total_cmp(&b.amount()))
}

fn rounds_of(level: &LevelSamples) -> u64 {
    level.of_phases.rounds(Metric::E2e).len() as u64
}

fn level_at(side: &RunSamples, load: Load) -> Option<&LevelSamples> {
    side.levels.iter().find(|level| level.load == load)
}

fn level_at_or_none(side: &RunSamples, load: Option<Load>) -> Option<&LevelSamples> {
    level_at(side, load?)
}

/// The whole rounds at a load.
fn phases_at(record: &Record, load: Option<Load>) -> impl Iterator<Item = &PhaseResult> {
    record.phases.iter().filter(move |phase| Some(phase.load) == load && !phase.interrupted)
}

/// The lowest concurrency that every side has, and at most three above it: the next, a middle one and the highest.
fn common_steps(sides: &[RunSamples]) -> Vec<u32> {
    let Some((first, others)) = sides.split_first() else { return Vec::new() };
    let closed = first.levels.iter().filter_map(|level| match level.load {
        Load::Closed { concurrency } => Some(concurrency),
        _ => None,
    });
    let of_all = |concurrency: &u32| {
        others.iter().all(|side| level_at(side, Load::Closed { concurrency: *concurrency }).is_some())
    };
    let common: Vec<u32> = closed.filter(of_all).collect::<BTreeSet<u32>>().into_iter().collect();
    match common[..] {
        [lowest, next, .., last] if common.len() > 4 => vec![lowest, next, common[common.len() / 2], last],
        _ => common,
    }
}

fn degradation(side: &RunSamples, steps: &[u32], rng: &Rng) -> Vec<SpeedUnderLoad> {
    let at = |concurrency: u32| level_at(side, Load::Closed { concurrency });
    let Some((&of, crowded)) = steps.split_first() else { return Vec::new() };
    let Some(base) = at(of) else { return Vec::new() };
    let kept = |&concurrency: &u32| {
        let level = at(concurrency)?;
        let kept = rank::speed_ratio(base.times(Metric::Tpot), level.times(Metric::Tpot), &rng.child(&level.name))?;
        let per_doubling = kept.value.powf(1.0 / (f64::from(concurrency) / f64::from(of)).log2()) - 1.0;
        Some(SpeedUnderLoad { concurrency, of, kept, per_doubling })
    };
    crowded.iter().filter_map(kept).collect()
}

fn share(record: &Record, of: fn(&Counts) -> u64) -> Share {
    let counts = || record.phases.iter().map(|phase| &phase.counts);
    let count = counts().map(of).sum();
    let ended: u64 = counts().map(|counts| counts.started.saturating_sub(counts.cancelled)).sum();
    Share {
        count,
        of: ended,
        share: (ended > 0).then(|| count as f64 / ended as f64),
        interval: wilson_interval(count, ended, 0.95),
    }
}

fn usd_per_answer(record: &Record) -> Option<f64> {
    let Spending { usd, .. } = record.spending?;
    let answered: u64 = record.phases.iter().map(|phase| phase.counts.answered).sum();
    (answered > 0).then(|| usd / answered as f64)
}

fn answer_length(record: &Record) -> Option<AnswerLength> {
    AnswerLength::of(&record.phases.iter().collect::<Vec<&PhaseResult>>())
}

/// The difference between the shortest and the longest answers of the targets, if there is one.
fn unlike_lengths(records: &[&Record]) -> Option<String> {
    let mut lengths: Vec<AnswerLength> = records.iter().filter_map(|record| answer_length(record)).collect();
    lengths.sort_unstable_by(|a, b| a.mean.total_cmp(&b.mean));
    AnswerLength::difference(lengths.first().copied(), lengths.last().copied())
}

fn suspicions(record: &Record) -> Vec<SuspicionKind> {
    let kinds = record.phases.iter().flat_map(|phase| &phase.suspicions).map(|suspicion| suspicion.kind);
    kinds.collect::<BTreeSet<SuspicionKind>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
