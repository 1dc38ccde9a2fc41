//! Pairs of engines measured in turns, in rounds that differ among themselves: does the scorecard rank apart what is equal, and does
//! it see what is not?
//!
//! Invariant: a seed gives the same pair on every machine, and nothing but `slower` makes the second engine another one.

use crate::checkers::summarize;
use crate::scenarios::Scenario;
use crate::world::run;
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_bench::schedule::{Schedule, ScheduleMode, Verdicts};
use tokrate_core::{Rng, Span};
use tokrate_judge::Comparison;
use tokrate_judge::compare::{CompareOptions, CompareVerdict};
use tokrate_judge::scorecard::RankedMedian;
use tokrate_record::fixtures::record;
use tokrate_record::{Metric, PhaseResult, Record};
use tokrate_sim::Law;

/// How a pair is measured, and by how much its engines differ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pairing {
    /// Rounds of each engine.
    pub rounds: u64,
    /// Requests of a round.
    pub requests: u64,
    /// Standard deviation of what a round alone adds to all of its requests, as a share: the state that they have in common.
    pub drift: f64,
    /// By what factor the second engine is slower, in time to first token and in each token; 1 for the same engine.
    pub slower: f64,
}

/// What the scorecard of a pair says, by output speed and by TTFT.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairResult {
    /// Whether the ranks are apart.
    pub apart: [bool; 2],
    /// Whether the first engine is ranked first.
    pub first_leads: [bool; 2],
}

/// What a pair came to that was measured until it had its verdicts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequentialResult {
    /// Rounds of each engine.
    pub rounds: u64,
    /// The verdicts on the second, of TTFT and of output speed.
    pub verdicts: Vec<CompareVerdict>,
}

impl SequentialResult {
    /// Whether any of them is wrong of an engine that is so many times slower: a difference of equal ones, none of different ones, or the
    /// slower called better.
    pub fn is_wrong(&self, slower: f64) -> bool {
        self.verdicts.iter().any(|verdict| match verdict {
            CompareVerdict::Better => true,
            CompareVerdict::Worse => slower == 1.0,
            CompareVerdict::NoDifference => slower != 1.0,
            CompareVerdict::Undecided | CompareVerdict::WithinEstimate => false,
        })
    }
}

/// Requests of an engine at most: forty rounds of ten.
const MAX_REQUESTS: u64 = 400;

impl Pairing {
    /// Measures the pair of a seed.
    pub fn run(&self, seed: u64) -> PairResult {
        let rng = Rng::root(seed).child("ranks");
        let records = vec![self.record(&rng.child("a"), 1.0), self.record(&rng.child("b"), self.slower)];
        let judged = Comparison::of(records).judged(&["a".to_owned(), "b".to_owned()], true);
        let card = judged.scorecard.expect("it was asked for");
        let ranks = [&card.rows[0].output_speed, &card.rows[0].ttft];
        PairResult {
            // Of two, each has one place only if they are apart.
            apart: ranks.map(|rank: &RankedMedian| rank.first.is_some() && rank.first == rank.last),
            first_leads: ranks.map(|rank| rank.last == Some(1)),
        }
    }

    /// Measures the pair of a seed in turns, round by round, until TTFT and output speed have their verdicts; `rounds` is not asked.
    pub fn run_until_verdict(&self, seed: u64) -> SequentialResult {
        let rng = Rng::root(seed).child("sequential");
        let sides = [(rng.child("a"), 1.0), (rng.child("b"), self.slower)];
        let metrics = vec![Metric::Ttft, Metric::OutputSpeed];
        let verdicts = Verdicts {
            metrics: metrics.clone(),
            options: CompareOptions::default(),
            baseline: None,
            max_requests: MAX_REQUESTS,
            comparisons: 1,
            looks: Vec::new(),
        };
        let listed = vec![Verdicts::round_of(&self.spec())];
        let mut schedule = Schedule::new(listed, ScheduleMode::Verdict(verdicts), 0);
        let mut records =
            [Vec::new(), Vec::new()].map(|phases| Record { phases, ..record(vec![self.round(&rng, 1.0)]) });
        while schedule.next(&records[0].phases).is_some() {
            for (record, (rng, slower)) in records.iter_mut().zip(&sides) {
                let round = self.round(&rng.nth(record.phases.len() as u64), *slower);
                record.phases.push(round);
                record.until = schedule.known(&record.phases);
            }
            let looks =
                schedule.verdicts().map_or_else(Vec::new, |verdicts| verdicts.look(&[&records[0], &records[1]]));
            schedule.take_looks(&looks);
        }
        let rounds = records[0].phases.len() as u64;
        let judged = Comparison::of(records.to_vec()).judged(&["a".to_owned(), "b".to_owned()], false);
        let rows = judged.against_first.iter().flat_map(|against| &against.report.rows);
        SequentialResult {
            rounds,
            verdicts: rows.filter(|row| metrics.contains(&row.metric)).map(|row| row.verdict).collect(),
        }
    }

    fn spec(&self) -> PhaseSpec {
        PhaseSpec {
            load: Load::Closed { concurrency: 1 },
            extent: Extent::Requests(self.requests),
            warmup: 0,
            backoff: Backoff::Obey,
        }
    }

    fn record(&self, rng: &Rng, slower: f64) -> Record {
        let phases = (0..self.rounds).map(|round| self.round(&rng.nth(round), slower)).collect();
        record(phases)
    }

    /// One round: an engine of 20 ms to the first token and 100 tok/s, whose requests vary by 2 %.
    fn round(&self, rng: &Rng, slower: f64) -> PhaseResult {
        let mut rng = rng.child("round");
        let mut own = || slower * (self.drift * rng.normal()).exp();
        let (ttft, time) = (own(), own());
        let law = Law {
            base_delay: Span::from_nanos((20e6 * ttft) as u64),
            prefill_tokens_per_second: f64::INFINITY,
            stream_tokens_per_second: 100.0 / time,
            gap_jitter: 0.1,
            ttft_jitter: 0.02,
            ..Law::default()
        };
        let spec = self.spec();
        let scenario =
            Scenario { seed: rng.next_u64(), law, spec, output_tokens: 24, ..Scenario::plain(self.requests) };
        summarize(&scenario, &run(&scenario)).1
    }
}
