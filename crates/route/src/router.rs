//! All lanes as they are now: what is in flight, how quick, how sound; and the order in which a call should ask them.
//!
//! It refuses to know sockets, clocks and aliases. Invariant: every start is in flight until it is finished, once; a lane is
//! judged by the attempts that went to it and by nothing else.

mod lane_state;
mod snapshot;

use crate::breaker::{Breaker, BreakerConfig, BreakerState};
use crate::decay::FadingHistogram;
use crate::lane::{LaneConfig, LaneId, Started};
use crate::lane_model::{CurvePoint, Expectation, ModelConfig};
use crate::pick::{self, CallShape, Policy, Ranked, View};
use lane_state::LaneState;
pub use snapshot::{LaneSnapshot, SnapshotPoint};
use tokrate_core::{FailureKind, Rng, Span, Tick};

/// The settings of a router.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RouterConfig {
    /// Of every lane's breaker.
    pub breaker: BreakerConfig,
    /// Of every lane's model.
    pub model: ModelConfig,
    /// Share of calls that go to another lane than the best, so that the others stay known.
    pub exploration: f64,
    /// How fast the peak-EWMA latency forgets.
    pub peak_decay: Span,
    /// Attempts to be seen before a lane's 90th percentile of the time to first token is believed.
    pub hedge_samples_least: f64,
}

impl Default for RouterConfig {
    fn default() -> RouterConfig {
        RouterConfig {
            breaker: BreakerConfig::default(),
            model: ModelConfig::default(),
            exploration: 0.01,
            peak_decay: Span::from_secs(10),
            hedge_samples_least: 5.0,
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outcome {
    /// How it failed; `None` if it ended well, [`FailureKind::Cancelled`] if it was given up although nothing was wrong with
    /// it (a lost race, a client that left).
    pub failure: Option<FailureKind>,
    /// How long the provider asked to wait.
    pub retry_after: Option<Span>,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Output tokens that came.
    pub output_tokens: u64,
    /// Output speed as the glossary has it (tokens per second); `None` if there were too few tokens to tell.
    pub output_speed: Option<f64>,
    /// How it was to come.
    pub came: Came,
}

/// How an answer comes.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Came {
    /// Token by token.
    #[default]
    Streamed,
    /// At once, when it is complete: its first token tells nothing.
    Whole {
        /// Output tokens that it had been expected to have.
        expected_tokens: f64,
    },
}

/// The state of all lanes.
#[derive(Clone, Debug)]
pub struct Router {
    config: RouterConfig,
    lanes: Vec<LaneState>,
    rng: Rng,
    /// Starts of all lanes, for the round.
    turns: u64,
    scratch: Vec<((u8, f64), View)>,
}

impl Router {
    /// A router that knows nothing of its lanes' speed yet.
    pub fn new(lanes: Vec<LaneConfig>, seed: u64) -> Router {
        Router::with_config(RouterConfig::default(), lanes, seed)
    }

    /// The same with other settings.
    pub fn with_config(config: RouterConfig, lanes: Vec<LaneConfig>, seed: u64) -> Router {
        Router {
            lanes: lanes.into_iter().map(|lane| LaneState::new(&config, lane)).collect(),
            config,
            rng: Rng::root(seed).child("router"),
            turns: 0,
            scratch: Vec::new(),
        }
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The candidates in the order in which a call should ask them. Lanes whose breaker is open, or whose cap is reached, come
    /// last and are marked; numbers that are no lanes are left out.
    pub fn order(&mut self, now: Tick, shape: &CallShape, candidates: &[LaneId], policy: &Policy) -> Vec<Ranked> {
        let mut views = std::mem::take(&mut self.scratch);
        views.clear();
        let shared = matches!(policy, Policy::Completion);
        let lanes = candidates.iter().filter_map(|id| Some((*id, self.lanes.get(id.index())?)));
        views.extend(lanes.map(|(id, lane)| ((0, 0.0), lane.view(now, id, shape, shared))));
        if matches!(policy, Policy::RoundRobin) {
            self.number(&mut views);
            self.turns += 1;
        }
        pick::order(&mut views, shape, policy, self.config.exploration, &mut self.rng);
        let order = views.iter().map(|(_, view)| view.ranked).collect();
        self.scratch = views;
        order
    }

    /// The order in which a call would ask the candidates if it came now and nobody explored: for who looks, since nothing moves.
    pub fn preview(&self, now: Tick, shape: &CallShape, candidates: &[LaneId], policy: &Policy) -> Vec<Ranked> {
        let shared = matches!(policy, Policy::Completion);
        let lanes = candidates.iter().filter_map(|id| Some((*id, self.lanes.get(id.index())?)));
        let mut views: Vec<_> = lanes.map(|(id, lane)| ((0, 0.0), lane.view(now, id, shape, shared))).collect();
        if matches!(policy, Policy::RoundRobin) {
            self.number(&mut views);
        }
        pick::order(&mut views, shape, policy, 0.0, &mut self.rng.clone());
        views.iter().map(|(_, view)| view.ranked).collect()
    }

    /// Whether a lane may be asked at `now`: its breaker lets it and its cap is not reached.
    pub fn allows(&self, lane: LaneId, now: Tick) -> bool {
        self.lanes.get(lane.index()).is_some_and(|lane| lane.is_usable(now))
    }

    /// How a lane's breaker stands; `None` if there is no such lane.
    pub fn breaker(&self, lane: LaneId, now: Tick) -> Option<BreakerState> {
        self.lanes.get(lane.index()).map(|lane| lane.breaker.state(now))
    }

    /// An attempt begins.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn start(&mut self, lane: LaneId, now: Tick) -> Started {
        self.lanes[lane.index()].start(lane, now)
    }

    /// An attempt got its first token, so long after it was sent.
    pub fn first_token(&mut self, started: &mut Started, now: Tick, ttft: Span, prompt_tokens: u64) {
        if started.first_token_at.is_none() {
            started.first_token_at = Some(now);
            self.lanes[started.lane.index()].first_token(started, now, ttft, prompt_tokens);
        }
    }

    /// An attempt ended.
    pub fn finish(&mut self, started: Started, now: Tick, outcome: &Outcome) {
        self.lanes[started.lane.index()].finish(&started, now, outcome);
    }

    /// Takes over what another router knows of a lane that is the same: its model, breaker and learned cap. What is in flight
    /// there stays there.
    pub fn inherit(&mut self, lane: LaneId, from: &Router, theirs: LaneId) {
        if let (Some(heir), Some(known)) = (self.lanes.get_mut(lane.index()), from.lanes.get(theirs.index())) {
            heir.inherit(known);
        }
    }

    /// Forgets why a lane was left alone: what was wrong with it has been changed.
    pub fn reset_breaker(&mut self, lane: LaneId) {
        if let Some(lane) = self.lanes.get_mut(lane.index()) {
            lane.breaker = Breaker::new(self.config.breaker);
        }
    }

    /// Takes in a curve of a lane that was measured before.
    pub fn learn(&mut self, lane: LaneId, now: Tick, points: &[CurvePoint]) {
        if let Some(lane) = self.lanes.get_mut(lane.index()) {
            lane.model.learn(now, points);
        }
    }

    /// What one more call may expect of a lane at the load that it would join.
    pub fn expect(&self, lane: LaneId, now: Tick, prompt_tokens: u64) -> Option<Expectation> {
        let lane = self.lanes.get(lane.index())?;
        lane.model.expect(now, prompt_tokens, lane.in_flight + 1)
    }

    /// How long one more call may wait for its first token in nine cases of ten: the time after which a hedge may start.
    pub fn hedge_after(&self, lane: LaneId, now: Tick, prompt_tokens: u64) -> Option<Span> {
        let lane = self.lanes.get(lane.index())?;
        lane.model.ttft_p90(now, prompt_tokens, lane.in_flight + 1, self.config.hedge_samples_least)
    }

    /// The same for an answer that comes whole: the 90th percentile of the time to its end.
    pub fn hedge_after_whole(&self, lane: LaneId, now: Tick, shape: &CallShape) -> Option<Span> {
        let lane = self.lanes.get(lane.index())?;
        let least = self.config.hedge_samples_least;
        lane.model.whole_p90(now, shape.prompt_tokens, shape.output_tokens, lane.in_flight + 1, least)
    }

    /// What a call costs on a lane (USD); `None` without a price.
    pub fn cost_usd(&self, lane: LaneId, prompt_tokens: u64, output_tokens: u64) -> Option<f64> {
        self.lanes.get(lane.index())?.config.cost_usd(prompt_tokens, output_tokens)
    }

    /// Calls of a lane in flight.
    pub fn in_flight(&self, lane: LaneId) -> u32 {
        self.lanes.get(lane.index()).map_or(0, |lane| lane.in_flight)
    }

    /// How every lane stands, for pages and metrics.
    pub fn snapshot(&self, now: Tick) -> Vec<LaneSnapshot> {
        self.lanes.iter().map(|lane| lane.snapshot(now)).collect()
    }

    /// Numbers the candidates from the one whose turn it is.
    fn number(&self, views: &mut [((u8, f64), View)]) {
        let count = views.len().max(1) as u64;
        for (place, (_, view)) in views.iter_mut().enumerate() {
            view.turn = ((place as u64 + count - self.turns % count) % count) as u32;
        }
    }
}

/// How long answers are, of an alias as a rule: the latest count most.
#[derive(Clone, Debug)]
pub struct OutputLength {
    seen: FadingHistogram,
}

impl Default for OutputLength {
    fn default() -> OutputLength {
        OutputLength { seen: FadingHistogram::new(0, Span::from_secs(1_800)) }
    }
}

impl OutputLength {
    /// An answer of so many tokens ended well.
    pub fn saw(&mut self, now: Tick, output_tokens: u64) {
        self.seen.add(now, output_tokens as f64, 1.0);
    }

    /// The mean length, no longer than the limit that the call names; `None` before the first answer.
    pub fn expected(&self, limit: Option<u64>) -> Option<f64> {
        let mean = self.seen.mean()?;
        Some(limit.map_or(mean, |limit| mean.min(limit as f64)))
    }

    /// Median and 90th percentile; `None` before the first answer.
    pub fn quantiles(&self) -> Option<(f64, f64)> {
        self.seen.quantiles(0.5, 0.9)
    }
}

#[cfg(test)]
mod tests;
