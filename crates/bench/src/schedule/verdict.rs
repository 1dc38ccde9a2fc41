//! Rounds of the listed levels in turns with those of the other targets until every asked comparison has its verdict.
//!
//! Invariant: looks are planned before the run, all targets have as many rounds at a look, and a level that is decided is not measured again.

use super::NextPhase;
use crate::plan::{Extent, Load, PhaseSpec};
use std::sync::Arc;
use tokrate_judge::compare::{CompareOptions, CompareRow, CompareVerdict, compare};
use tokrate_record::run::{Load as LoadRow, whole_rounds};
use tokrate_record::{LevelSamples, Metric, PhaseResult, Record, RunSamples, UntilEnd, UntilResult, VerdictLooks};

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
    /// What the last look at each load found.
    pub looks: Vec<Look>,
}

/// What a look at the rounds of a load so far found.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// The load.
    pub load: LoadRow,
    /// The asked comparisons that have no verdict there, with why.
    pub undecided: Vec<String>,
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
        if self.is_decided(spec) {
            return 0;
        }
        self.max_rounds(spec).saturating_sub(rounds_of(spec, results))
    }

    /// Whether every asked comparison has its verdict at a level.
    fn is_decided(&self, spec: &PhaseSpec) -> bool {
        self.looks.iter().any(|look| look.load == spec.load.row() && look.undecided.is_empty())
    }

    /// Takes over what looks found.
    pub(super) fn take_looks(&mut self, looks: &[Look]) {
        self.looks.retain(|old| looks.iter().all(|new| new.load != old.load));
        self.looks.extend_from_slice(looks);
    }

    pub(super) fn result(&self, listed: &[PhaseSpec], results: &[PhaseResult]) -> UntilResult {
        let is_decided = listed.iter().all(|spec| self.is_decided(spec));
        let rounds = listed.iter().map(|spec| rounds_of(spec, results)).max().unwrap_or(0);
        let end = match (is_decided, self.next(listed, results)) {
            (true, _) => UntilEnd::Reached,
            (false, Some(_)) => UntilEnd::Unfinished,
            (false, None) if LOOKS.last().is_some_and(|last| rounds >= *last) => UntilEnd::Looks,
            (false, None) => UntilEnd::Requests,
        };
        let error = 100.0 * self.options.alpha;
        let left = || self.left_open(rounds);
        let sentence = match end {
            UntilEnd::Reached => {
                format!(
                    "every asked comparison has its verdict after {rounds} rounds; {error:.0} % error for all together"
                )
            }
            UntilEnd::Looks => format!(
                "not every asked comparison has its verdict after {rounds} rounds, the last after which it is looked; {error:.0} % error for \
                 all together{}",
                left()
            ),
            UntilEnd::Unfinished => format!("not every asked comparison has its verdict after {rounds} rounds"),
            _ => format!(
                "not every asked comparison has its verdict after {rounds} rounds, the most that --max-requests {} allows; {error:.0} % error \
                 for all together{}",
                self.max_requests,
                left()
            ),
        };
        let verdict = Some(VerdictLooks { at_rounds: LOOKS.to_vec(), comparisons: self.comparisons, sentence });
        UntilResult { end, conditions: Vec::new(), verdict }
    }

    /// Which comparisons have no verdict, and whether it is the baseline that has too few rounds of their loads.
    fn left_open(&self, rounds: u64) -> String {
        let looks = || self.looks.iter().filter(|look| !look.undecided.is_empty());
        let open: Vec<&str> = looks().flat_map(|look| &look.undecided).map(String::as_str).collect();
        let open = if open.is_empty() { String::new() } else { format!("; undecided: {}", open.join(", ")) };
        let of_baseline = self.baseline.iter().flat_map(|baseline| whole_rounds(&baseline.phases));
        let of_baseline = of_baseline.filter(|it| looks().any(|look| look.load == it.load));
        match of_baseline.map(|it| it.phases.len() as u64).min() {
            Some(of_baseline) if of_baseline < rounds => format!(
                "{open}; the baseline has {of_baseline} round{}, and is not measured again: one of {rounds} or more decides sooner",
                if of_baseline == 1 { "" } else { "s" }
            ),
            _ => open,
        }
    }

    /// What the records show of the asked comparisons, at the loads that are looked at now.
    pub fn look(&self, records: &[&Record]) -> Vec<Look> {
        let baseline = self.baseline.as_deref();
        let (first, others) = match (baseline, records.split_first()) {
            (Some(baseline), _) => (baseline, records),
            (None, Some((first, others))) => (*first, others),
            (None, None) => return Vec::new(),
        };
        let is_looked_at = |load: LoadRow| {
            let rounds = |record: &&Record| {
                whole_rounds(&record.phases).iter().find(|it| it.load == load).map_or(0, |it| it.phases.len() as u64)
            };
            records.iter().all(|record| LOOKS.contains(&rounds(record)))
        };
        let side = RunSamples::of_record(first);
        let levels: Vec<&LevelSamples> = side.levels.iter().filter(|level| is_looked_at(level.load)).collect();
        if levels.is_empty() {
            return Vec::new();
        }
        let options = CompareOptions { ignore: vec!["all".to_owned()], ..self.options.clone() };
        let against = |record: &&Record| compare(&side, &RunSamples::of_record(record), &options).ok();
        let Some(reports) = others.iter().map(against).collect::<Option<Vec<_>>>() else { return Vec::new() };
        let asked = |name: &str| -> Vec<&CompareRow> {
            let rows = reports.iter().flat_map(|report| &report.rows).filter(|row| row.level == name);
            rows.filter(|row| self.metrics.contains(&row.metric)).collect()
        };
        let look = |level: &&LevelSamples| {
            let asked = asked(&level.name);
            let undecided = asked.iter().filter(|row| row.verdict == CompareVerdict::Undecided);
            let undecided: Vec<String> = undecided.map(|row| sentence_of(row)).collect();
            (!asked.is_empty()).then_some(Look { load: level.load, undecided })
        };
        levels.iter().filter_map(look).collect()
    }
}

/// A comparison without a verdict, with why.
fn sentence_of(row: &CompareRow) -> String {
    let why = row.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    format!("{} at {}{why}", row.metric.row().label, row.level)
}

/// Rounds of a level that came to their end.
fn rounds_of(spec: &PhaseSpec, results: &[PhaseResult]) -> u64 {
    let row = spec.load.row();
    results.iter().filter(|result| result.load == row && !result.interrupted).count() as u64
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
                Verdicts { metrics, options, baseline: None, max_requests, comparisons: 1, looks: Vec::new() };
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

    #[test]
    fn a_run_without_a_verdict_names_what_is_undecided_and_a_baseline_that_is_too_short() {
        let level = Verdicts::round_of(&closed(1));
        let of = |rounds: usize| vec![with_throughput(&level, 100.0); rounds];
        let look = |why: &str| Look { load: level.load.row(), undecided: vec![why.to_owned()] };
        // A load that is not asked for has fewer rounds still.
        let not_asked = with_throughput(&Verdicts::round_of(&closed(3)), 100.0);
        let baseline = tokrate_record::fixtures::record([of(2), vec![not_asked]].concat());
        let mut verdicts = Verdicts {
            metrics: vec![Metric::OutputSpeed],
            options: CompareOptions::default(),
            baseline: Some(Arc::new(baseline)),
            max_requests: 2_000,
            comparisons: 1,
            looks: Vec::new(),
        };
        verdicts.take_looks(&[look("of before")]);
        verdicts.take_looks(&[look("output speed at concurrency 1 (only changes from 9 % on would be seen)")]);
        let results = of(verdicts.max_rounds(&level) as usize);
        let known = verdicts.result(std::slice::from_ref(&level), &results).verdict.expect("it was asked").sentence;
        assert!(
            known.ends_with(
                "for all together; undecided: output speed at concurrency 1 (only changes from 9 % on would be seen); the baseline has \
                 2 rounds, and is not measured again: one of 40 or more decides sooner"
            ),
            "{known}"
        );
        let mut cut = of(4);
        cut[3].interrupted = true;
        let known = verdicts.result(std::slice::from_ref(&level), &cut);
        let sentence = known.verdict.expect("it was asked").sentence;
        assert!(known.end == UntilEnd::Unfinished && sentence.ends_with("after 3 rounds"), "{sentence}");
        verdicts.take_looks(&[Look { undecided: Vec::new(), ..look("") }]);
        assert_eq!(verdicts.result(std::slice::from_ref(&level), &of(4)).end, UntilEnd::Reached);
    }
}
