//! The state of all lanes (in-flight calls, speed, health) and the order in which a call should try them.
//!
//! Invariant: every started attempt counts as in flight until it is finished, once; a lane is judged only by the attempts
//! that went to it.

mod lane_state;
mod snapshot;

use crate::breaker::{Breaker, BreakerConfig, BreakerState};
use crate::cache::PromptBlocks;
use crate::decay::DecayingHistogram;
use crate::lane::{InFlightAttempt, LaneConfig, LaneId};
use crate::lane_model::{CurvePoint, Expectation, ModelConfig};
use crate::pick::{self, CallShape, LaneView, Ranked};
use crate::policy::Policy;
use lane_state::{LaneState, Probing};
pub use snapshot::{LaneSnapshot, SnapshotPoint};
use tokrate_core::{BilledTokens, FailureKind, Money, Rng, Span, Tick};

/// The settings of a router.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RouterConfig {
    /// The breaker of every lane.
    pub breaker: BreakerConfig,
    /// The performance model of every lane.
    pub model: ModelConfig,
    /// Share of calls that go to another lane than the best, so that the estimates of the others stay current.
    pub exploration: f64,
    /// Decay time of the peak-EWMA latency.
    pub peak_decay: Span,
    /// Samples needed before the 90th percentile of a lane's time to first token is used for hedges.
    pub min_hedge_samples: f64,
    /// Whether the caller probes lanes that failed ([`Router::take_probe`]), so that no client's call does.
    pub active_probes: bool,
}

impl Default for RouterConfig {
    fn default() -> RouterConfig {
        RouterConfig {
            breaker: BreakerConfig::default(),
            model: ModelConfig::default(),
            exploration: 0.01,
            peak_decay: Span::from_secs(10),
            min_hedge_samples: 5.0,
            active_probes: false,
        }
    }
}

/// A lane of which too little is known is hedged as if it were slow: 90 % of the times to first token of hosted models stay
/// below this.
const UNKNOWN_TTFT_P90: Span = Span::from_secs(10);
/// The same of its output speed (tokens per second).
const UNKNOWN_OUTPUT_SPEED: f64 = 10.0;

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outcome {
    /// How it failed; `None` if it succeeded, [`FailureKind::Cancelled`] if it was aborted without fault of the lane
    /// (it lost a race, the client disconnected).
    pub failure: Option<FailureKind>,
    /// How long the provider asked to wait.
    pub retry_after: Option<Span>,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// What the provider reported as billed; `None` if it reported nothing.
    pub billed: Option<BilledTokens>,
    /// Output tokens received.
    pub output_tokens: u64,
    /// Output speed (tokens per second, see the glossary); `None` if there were too few tokens.
    pub output_speed: Option<f64>,
    /// Whether it was streamed.
    pub delivery: Delivery,
}

/// How an answer is delivered.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Delivery {
    /// Token by token.
    #[default]
    Streamed,
    /// In one piece when it is complete: its time to first token says nothing.
    Whole {
        /// Output tokens that were expected.
        expected_tokens: f64,
    },
}

/// The state of all lanes.
#[derive(Clone, Debug)]
pub struct Router {
    config: RouterConfig,
    lanes: Vec<LaneState>,
    rng: Rng,
    /// Calls ordered so far, for round robin.
    turns: u64,
    scratch: Vec<((u8, f64), LaneView)>,
}

impl Router {
    /// A router without any measurements yet.
    pub fn new(lanes: Vec<LaneConfig>, seed: u64) -> Router {
        Router::with_config(RouterConfig::default(), lanes, seed)
    }

    /// Like [`Router::new`], with other settings.
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

    /// The candidates in the order in which a call should try them. Lanes whose breaker is open or whose cap is reached
    /// come last, those that may be tried soonest first, and are marked; unknown lane numbers are left out. Of a single candidate
    /// nothing is worked out but whether it is usable.
    pub fn order(&mut self, now: Tick, shape: &CallShape, candidates: &[LaneId], policy: &Policy) -> Vec<Ranked> {
        self.order_with(now, shape, None, candidates, policy)
    }

    /// The same for a call whose prompt's blocks are known, which [`Policy::Cache`] goes by.
    pub fn order_with(
        &mut self,
        now: Tick,
        shape: &CallShape,
        prompt: Option<&PromptBlocks>,
        candidates: &[LaneId],
        policy: &Policy,
    ) -> Vec<Ranked> {
        if let [only] = *candidates {
            let Some(lane) = self.lanes.get_mut(only.index()) else { return Vec::new() };
            let usable = lane.is_usable(now);
            if !usable {
                lane.want();
            }
            let (expectation, remembered) = (None, None);
            let ranked = Ranked { lane: only, usable, expectation, remembered, is_silent: false, cached_tokens: None };
            return vec![ranked];
        }
        let mut views = std::mem::take(&mut self.scratch);
        views.clear();
        let shared = matches!(policy, Policy::Completion);
        let lanes = candidates.iter().filter_map(|id| Some((*id, self.lanes.get(id.index())?)));
        views.extend(lanes.map(|(id, lane)| ((0, 0.0), lane.view(now, id, shape, prompt, shared))));
        if matches!(policy, Policy::RoundRobin) {
            self.number_turns(&mut views);
            self.turns += 1;
        }
        pick::order(&mut views, shape, policy, self.config.exploration, &mut self.rng);
        for (_, view) in views.iter().filter(|(_, view)| !view.ranked.usable) {
            self.lanes[view.ranked.lane.index()].want();
        }
        let order = views.iter().map(|(_, view)| view.ranked).collect();
        self.scratch = views;
        order
    }

    /// The order that a call would get now without exploration, for display: nothing changes.
    pub fn preview(&self, now: Tick, shape: &CallShape, candidates: &[LaneId], policy: &Policy) -> Vec<Ranked> {
        let shared = matches!(policy, Policy::Completion);
        let lanes = candidates.iter().filter_map(|id| Some((*id, self.lanes.get(id.index())?)));
        let mut views: Vec<_> = lanes.map(|(id, lane)| ((0, 0.0), lane.view(now, id, shape, None, shared))).collect();
        if matches!(policy, Policy::RoundRobin) {
            self.number_turns(&mut views);
        }
        pick::order(&mut views, shape, policy, 0.0, &mut self.rng.clone());
        views.iter().map(|(_, view)| view.ranked).collect()
    }

    /// Whether a lane is usable at `now`: its breaker allows it and its cap is not reached.
    pub fn allows(&self, lane: LaneId, now: Tick) -> bool {
        self.lanes.get(lane.index()).is_some_and(|lane| lane.is_usable(now))
    }

    /// Whether a call that has no usable lane left may go to this one although its breaker is open: the lane failed, and a
    /// try that fails again is no worse for the client than none. Few such calls are let through at once.
    pub fn allows_as_last_resort(&self, lane: LaneId, now: Tick) -> bool {
        self.lanes.get(lane.index()).is_some_and(|lane| lane.is_last_resort(now))
    }

    /// A lane that is to be probed now, with the attempt that was begun for that, if there is one.
    pub fn take_probe(&mut self, now: Tick) -> Option<InFlightAttempt> {
        let due = self.lanes.iter().position(|lane| lane.probe_at(now).is_some_and(|at| at <= now))?;
        self.lanes[due].probing = Probing::Active { is_wanted: false };
        Some(self.start(LaneId(due as u32), now))
    }

    /// When a lane is to be probed next, as far as is known now.
    pub fn next_probe_at(&self, now: Tick) -> Option<Tick> {
        self.lanes.iter().filter_map(|lane| lane.probe_at(now)).min()
    }

    /// A lane refuses to be probed: from now on calls of clients find out whether it is back.
    pub fn stop_probes(&mut self, lane: LaneId) {
        if let Some(lane) = self.lanes.get_mut(lane.index()) {
            lane.probing = Probing::ByCalls;
        }
    }

    /// State of the breaker of a lane; `None` if there is no such lane.
    pub fn breaker(&self, lane: LaneId, now: Tick) -> Option<BreakerState> {
        self.lanes.get(lane.index()).map(|lane| lane.breaker.state(now))
    }

    /// An attempt begins.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn start(&mut self, lane: LaneId, now: Tick) -> InFlightAttempt {
        self.lanes[lane.index()].start(lane, now)
    }

    /// The prompt of an attempt that has just begun: from now on the lane is taken to have it in its cache.
    pub fn send_prompt(&mut self, started: &mut InFlightAttempt, now: Tick, prompt: &PromptBlocks) {
        self.lanes[started.lane.index()].send_prompt(started, now, prompt);
    }

    /// An attempt got its first token `ttft` after it was sent.
    pub fn first_token(&mut self, started: &mut InFlightAttempt, now: Tick, ttft: Span, prompt_tokens: u64) {
        if started.first_token_at.is_none() {
            started.first_token_at = Some(now);
            self.lanes[started.lane.index()].first_token(started, now, ttft, prompt_tokens);
        }
    }

    /// An attempt ended.
    pub fn finish(&mut self, started: InFlightAttempt, now: Tick, outcome: &Outcome) {
        self.lanes[started.lane.index()].finish(&started, now, outcome);
    }

    /// Copies what another router has learned about the same lane: model, breaker and learned cap. In-flight calls are
    /// not copied.
    pub fn inherit(&mut self, lane: LaneId, from: &Router, source: LaneId) {
        if let (Some(heir), Some(known)) = (self.lanes.get_mut(lane.index()), from.lanes.get(source.index())) {
            heir.inherit(known);
        }
    }

    /// Closes the breaker of a lane, after its configuration was changed.
    pub fn reset_breaker(&mut self, lane: LaneId) {
        if let Some(lane) = self.lanes.get_mut(lane.index()) {
            lane.breaker = Breaker::new(self.config.breaker);
        }
    }

    /// Adds a curve of a lane that was measured before.
    pub fn learn(&mut self, lane: LaneId, now: Tick, points: &[CurvePoint]) {
        if let Some(lane) = self.lanes.get_mut(lane.index()) {
            lane.model.learn(now, points);
        }
    }

    /// What one more call can expect of a lane at the load it would cause.
    pub fn expect(&self, lane: LaneId, now: Tick, prompt_tokens: u64) -> Option<Expectation> {
        let lane = self.lanes.get(lane.index())?;
        lane.model.expect(now, prompt_tokens, lane.in_flight + 1)
    }

    /// 90th percentile of the time to first token of one more call: the time after which a hedge may start. Of a lane that
    /// is not known yet it is that of a slow one; `None` if there is no such lane.
    pub fn hedge_after(&self, lane: LaneId, now: Tick, prompt_tokens: u64) -> Option<Span> {
        let lane = self.lanes.get(lane.index())?;
        let known = lane.model.ttft_p90(now, prompt_tokens, lane.in_flight + 1, self.config.min_hedge_samples);
        Some(known.unwrap_or(UNKNOWN_TTFT_P90))
    }

    /// The same for a non-streamed answer: the 90th percentile of the total time.
    pub fn hedge_after_whole(&self, lane: LaneId, now: Tick, shape: &CallShape) -> Option<Span> {
        let lane = self.lanes.get(lane.index())?;
        let least = self.config.min_hedge_samples;
        let known = lane.model.whole_p90(now, shape.prompt_tokens, shape.output_tokens, lane.in_flight + 1, least);
        let unknown = || UNKNOWN_TTFT_P90 + Span::from_secs_f64(shape.output_tokens.max(0.0) / UNKNOWN_OUTPUT_SPEED);
        Some(known.unwrap_or_else(unknown))
    }

    /// What a call is expected to cost on a lane, as much of its prompt cached as of late; `None` without a price.
    pub fn expected_cost(&self, lane: LaneId, now: Tick, prompt_tokens: u64, output_tokens: u64) -> Option<Money> {
        self.lanes.get(lane.index())?.expected_cost(now, prompt_tokens, output_tokens)
    }

    /// Calls in flight on a lane.
    pub fn in_flight(&self, lane: LaneId) -> u32 {
        self.lanes.get(lane.index()).map_or(0, |lane| lane.in_flight)
    }

    /// The state of every lane, for pages and metrics.
    pub fn snapshot(&self, now: Tick) -> Vec<LaneSnapshot> {
        self.lanes.iter().map(|lane| lane.snapshot(now)).collect()
    }

    /// Numbers the candidates in round-robin order.
    fn number_turns(&self, views: &mut [((u8, f64), LaneView)]) {
        let count = views.len().max(1) as u64;
        for (place, (_, view)) in views.iter_mut().enumerate() {
            view.turn = ((place as u64 + count - self.turns % count) % count) as u32;
        }
    }
}

/// Distribution of answer lengths, usually of an alias; recent answers weigh most.
#[derive(Clone, Debug)]
pub struct OutputLength {
    seen: DecayingHistogram,
}

impl Default for OutputLength {
    fn default() -> OutputLength {
        OutputLength { seen: DecayingHistogram::new(0, Span::from_secs(1_800)) }
    }
}

impl OutputLength {
    /// A successful answer had this many output tokens.
    pub fn observe(&mut self, now: Tick, output_tokens: u64) {
        self.seen.add(now, output_tokens as f64, 1.0);
    }

    /// The mean length, capped by the output limit of the call; `None` before the first answer.
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
