//! Pairs of engines measured in turns, in rounds that differ among themselves: does the scorecard rank apart what is equal, and does
//! it see what is not?
//!
//! Invariant: a seed gives the same pair on every machine, and nothing but `slower` makes the second engine another one.

use crate::checkers::summarize;
use crate::scenarios::Scenario;
use crate::world::run;
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_core::{Rng, Span};
use tokrate_judge::Comparison;
use tokrate_judge::scorecard::RankedMedian;
use tokrate_record::fixtures::record;
use tokrate_record::{PhaseResult, Record};
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
        let spec = PhaseSpec {
            load: Load::Closed { concurrency: 1 },
            extent: Extent::Requests(self.requests),
            warmup: 0,
            backoff: Backoff::Obey,
        };
        let scenario =
            Scenario { seed: rng.next_u64(), law, spec, output_tokens: 24, ..Scenario::plain(self.requests) };
        summarize(&scenario, &run(&scenario)).1
    }
}
