//! Rounds of the listed levels in turns with those of the other targets until every asked comparison has its verdict.
//!
//! Invariant: looks are planned before the run, all targets have as many rounds at a look, and a level that is decided is not measured again.

use super::NextPhase;
use crate::plan::{Extent, Load, PhaseSpec};
use std::sync::Arc;
use tokrate_judge::compare::{CompareOptions, CompareVerdict, compare};
use tokrate_record::run::{Load as LoadRow, by_load};
use tokrate_record::{Metric, PhaseResult, Record, RunSamples, UntilEnd, UntilResult, VerdictLooks};

/// The rounds after which it is looked: four show 5 % nearly always where rounds differ by 1 % (docs/method.md), and each look has half as many
/// again as the one before.
const LOOKS: [u64; 7] = [4, 6, 9, 13, 19, 28, 40];
/// Requests of a round at least, and for each that is in flight, as of a comparison with a fixed plan.
const MIN_REQUESTS: u64 = 10;
const REQUESTS_PER_SLOT: u64 = 3;
/// Time of a round of an open loop at least (s).
const OPEN_SECONDS: f64 = 5.0;

/// What is to be decided, and what it may take.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdicts {
    /// Metrics of which a verdict is asked.
    pub metrics: Vec<Metric>,
    /// What each target is compared with besides the first of them, how it is compared and what may differ.
    pub options: CompareOptions,
    /// The record that a single target is held against.
    pub baseline: Option<Arc<Record>>,
    /// Measured requests after which a level is not measured again.
    pub max_requests: u64,
    /// Comparisons of the run.
    pub comparisons: u64,
    /// Loads that are decided.
    pub decided: Vec<LoadRow>,
}

impl Verdicts {
    /// One round of a level.
    pub fn round_of(level: &PhaseSpec) -> PhaseSpec {
        let of_load = match &level.load {
            Load::Open { rate, .. } => (rate.per_second() * OPEN_SECONDS).ceil() as u64,
            load => REQUESTS_PER_SLOT * u64::from(load.max_in_flight()),
        };
        PhaseSpec { extent: Extent::Requests(of_load.max(MIN_REQUESTS)), ..level.clone() }
    }

    /// The rounds of a level at most; at least those of the first look.
    pub fn max_rounds(&self, spec: &PhaseSpec) -> u64 {
        let Extent::Requests(requests) = spec.extent else { return LOOKS[0] };
        let allowed = self.max_requests / requests.max(1);
        LOOKS.into_iter().filter(|look| *look <= allowed).max().unwrap_or(LOOKS[0])
    }

    /// The rounds of the first look.
    pub const FIRST_LOOK: u64 = LOOKS[0];

    pub(super) fn next(&self, listed: &[PhaseSpec], results: &[PhaseResult]) -> Option<NextPhase> {
        let open = listed.iter().enumerate().filter(|(_, spec)| self.left(spec, results) > 0);
        let order = |&(place, spec): &(usize, &PhaseSpec)| {
            let (rounds, place) = (rounds_of(spec, results), place as i64);
            (rounds, if rounds.is_multiple_of(2) { place } else { -place })
        };
        open.min_by_key(order).map(|(_, spec)| NextPhase { spec: spec.clone(), reason: None })
    }

    /// Rounds up to the next look of every level that is not decided.
    pub(super) fn expected(&self, listed: &[PhaseSpec], results: &[PhaseResult]) -> usize {
        let to_look = |spec: &PhaseSpec| {
            let rounds = rounds_of(spec, results);
            let look = LOOKS.into_iter().find(|look| *look > rounds).unwrap_or(rounds);
            (look - rounds).min(self.left(spec, results))
        };
        listed.iter().map(to_look).sum::<u64>() as usize
    }

    pub(super) fn longest_course(&self, listed: &[PhaseSpec]) -> Vec<PhaseSpec> {
        let more = |spec: &PhaseSpec| vec![spec.clone(); (self.max_rounds(spec) - LOOKS[0]) as usize];
        listed.iter().flat_map(more).collect()
    }

    fn left(&self, spec: &PhaseSpec, results: &[PhaseResult]) -> u64 {
        if self.decided.contains(&spec.load.row()) {
            return 0;
        }
        self.max_rounds(spec).saturating_sub(rounds_of(spec, results))
    }

    pub(super) fn result(&self, listed: &[PhaseSpec], results: &[PhaseResult]) -> UntilResult {
        let is_decided = listed.iter().all(|spec| self.decided.contains(&spec.load.row()));
        let rounds = listed.iter().map(|spec| rounds_of(spec, results)).max().unwrap_or(0);
        let end = match (is_decided, self.next(listed, results)) {
            (true, _) => UntilEnd::Reached,
            (false, Some(_)) => UntilEnd::Unfinished,
            (false, None) if LOOKS.last().is_some_and(|last| rounds >= *last) => UntilEnd::Looks,
            (false, None) => UntilEnd::Requests,
        };
        let error = 100.0 * self.options.alpha;
        let sentence = match end {
            UntilEnd::Reached => {
                format!(
                    "every asked comparison has its verdict after {rounds} rounds; {error:.0} % error for all together"
                )
            }
            UntilEnd::Looks => format!(
                "not every asked comparison has its verdict after {rounds} rounds, the last after which it is looked; {error:.0} % error for \
                 all together"
            ),
            UntilEnd::Unfinished => format!("not every asked comparison has its verdict after {rounds} rounds"),
            _ => format!(
                "not every asked comparison has its verdict after {rounds} rounds, the most that --max-requests {} allows; {error:.0} % error \
                 for all together",
                self.max_requests
            ),
        };
        let verdict = Some(VerdictLooks { at_rounds: LOOKS.to_vec(), comparisons: self.comparisons, sentence });
        UntilResult { end, conditions: Vec::new(), verdict }
    }

    /// The loads at which every asked comparison of these records has its verdict, of those that are looked at now.
    pub fn decide(&self, records: &[&Record]) -> Vec<LoadRow> {
        let baseline = self.baseline.as_deref();
        let (first, others) = match (baseline, records.split_first()) {
            (Some(baseline), _) => (baseline, records),
            (None, Some((first, others))) => (*first, others),
            (None, None) => return Vec::new(),
        };
        let side = RunSamples::of_record(first);
        let options = CompareOptions { ignore: vec!["all".to_owned()], ..self.options.clone() };
        let against = |record: &&Record| compare(&side, &RunSamples::of_record(record), &options).ok();
        let Some(reports) = others.iter().map(against).collect::<Option<Vec<_>>>() else { return Vec::new() };
        let is_decided = |load: LoadRow, name: &str| {
            let is_looked_at = records.iter().all(|record| {
                let rounds =
                    by_load(&record.phases).iter().find(|it| it.load == load).map_or(0, |it| it.phases.len() as u64);
                LOOKS.contains(&rounds)
            });
            let rows = || reports.iter().flat_map(|report| &report.rows).filter(|row| row.level == name);
            let asked = || rows().filter(|row| self.metrics.contains(&row.metric));
            is_looked_at && asked().count() > 0 && asked().all(|row| row.verdict != CompareVerdict::Undecided)
        };
        side.levels.iter().filter(|level| is_decided(level.load, &level.name)).map(|level| level.load).collect()
    }
}

fn rounds_of(spec: &PhaseSpec, results: &[PhaseResult]) -> u64 {
    let row = spec.load.row();
    results.iter().filter(|result| result.load == row).count() as u64
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, with_throughput};
    use super::*;

    #[test]
    fn a_run_without_a_verdict_says_whether_requests_or_looks_ended_it() {
        let level = Verdicts::round_of(&closed(1));
        let ended = |max_requests: u64| {
            let (metrics, options) = (vec![Metric::OutputSpeed], CompareOptions::default());
            let verdicts =
                Verdicts { metrics, options, baseline: None, max_requests, comparisons: 1, decided: Vec::new() };
            let results = vec![with_throughput(&level, 100.0); verdicts.max_rounds(&level) as usize];
            let known = verdicts.result(std::slice::from_ref(&level), &results);
            (known.end, known.verdict.expect("it was asked").sentence)
        };
        let (end, sentence) = ended(200);
        assert!(
            end == UntilEnd::Requests && sentence.contains("19 rounds, the most that --max-requests 200"),
            "{sentence}"
        );
        let (end, sentence) = ended(2_000);
        assert!(end == UntilEnd::Looks && sentence.contains("40 rounds, the last after which"), "{sentence}");
    }
}
