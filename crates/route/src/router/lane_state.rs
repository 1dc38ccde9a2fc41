//! One lane as the router keeps it.
//!
//! It refuses to know the other lanes. Invariant: `in_flight` is the number of starts that are not finished; the load that an
//! attempt met is the average over its own life.

use super::{Came, Outcome, RouterConfig};
use crate::breaker::{Blame, Breaker, blame};
use crate::decay::FadingMean;
use crate::lane::{LaneConfig, LaneId, Started};
use crate::lane_model::{LaneModel, WholeAnswer};
use crate::peak_ewma::PeakEwma;
use crate::pick::{CallShape, Ranked, View};
use tokrate_core::{FailureKind, Span, Tick};

/// How fast it is forgotten that calls failed.
const FAILING_HALF_LIFE: Span = Span::from_secs(60);
/// So many good calls are assumed of every lane.
const FAILING_PRIOR: f64 = 4.0;
/// How much a refusal for the load lowers the cap.
const CAP_CUT: f64 = 0.75;
/// With fewer tokens behind the first, a stream says nothing of its speed.
const ROUGH_TOKENS_LEAST: u64 = 8;
/// The plain average latency gives each sample this weight.
const LATENCY_SHARE: f64 = 0.1;

/// Tokens per second of a stream that was too short to tell its output speed for a record: a lane that is quick and answers
/// briefly would be unknown for ever.
fn rough_speed(started: &Started, now: Tick, outcome: &Outcome) -> Option<f64> {
    let seconds = now.since(started.first_token_at.filter(|_| outcome.failure.is_none())?).as_secs_f64();
    let further = outcome.output_tokens.checked_sub(1).filter(|further| *further >= ROUGH_TOKENS_LEAST)? as f64;
    (seconds > 0.0).then(|| further / seconds)
}

#[derive(Clone, Debug)]
pub(super) struct LaneState {
    pub config: LaneConfig,
    pub model: LaneModel,
    pub breaker: Breaker,
    pub in_flight: u32,
    /// The cap that refusals taught; `None` before the first.
    pub learned_cap: Option<f64>,
    pub peak: PeakEwma,
    pub latency: Option<f64>,
    pub counts: Counts,
    /// Calls in flight times nanoseconds, up to `load_at`.
    load: f64,
    load_at: Tick,
    failing: FadingMean,
}

/// What a lane has done, in total.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub started: u64,
    pub ended_well: u64,
    pub failed: u64,
    pub cancelled: u64,
}

impl LaneState {
    /// Takes over what was learned; not what is in flight, nor the counts.
    pub fn inherit(&mut self, known: &LaneState) {
        self.model = known.model.clone();
        self.breaker = known.breaker.clone();
        self.learned_cap = known.learned_cap;
        self.peak = known.peak;
        self.latency = known.latency;
        self.failing = known.failing;
    }

    pub fn new(settings: &RouterConfig, config: LaneConfig) -> LaneState {
        LaneState {
            config,
            model: LaneModel::new(settings.model),
            breaker: Breaker::new(settings.breaker),
            in_flight: 0,
            learned_cap: None,
            peak: PeakEwma::new(settings.peak_decay),
            latency: None,
            counts: Counts::default(),
            load: 0.0,
            load_at: Tick::ZERO,
            failing: FadingMean::default(),
        }
    }

    /// The most calls in flight, by configuration and by what refusals taught.
    pub fn cap(&self) -> Option<u32> {
        let learned = self.learned_cap.map(|cap| cap as u32);
        self.config.max_in_flight.into_iter().chain(learned).min()
    }

    pub fn is_usable(&self, now: Tick) -> bool {
        self.breaker.allows(now) && self.cap().is_none_or(|cap| self.in_flight < cap)
    }

    pub fn view(&self, now: Tick, lane: LaneId, shape: &CallShape, shared: bool) -> View {
        let model = self.model.at(now, shape.prompt_tokens);
        let expectation = model.and_then(|model| model.expect(self.in_flight + 1));
        let shared_seconds = model.filter(|_| shared);
        let shared_seconds =
            shared_seconds.and_then(|model| model.shared_seconds(shape.output_tokens, self.in_flight + 1));
        View {
            ranked: Ranked { lane, usable: self.is_usable(now), expectation },
            in_flight: self.in_flight,
            usd: self.config.cost_usd(shape.prompt_tokens, shape.output_tokens.max(0.0) as u64),
            shared_seconds,
            failing: self.failing(now),
            peak: self.peak.load(now, self.in_flight),
            latency: self.latency,
            turn: 0,
        }
    }

    /// Share of calls that failed of late.
    pub fn failing(&self, now: Tick) -> f64 {
        self.failing.shrunk_to(0.0, now, FAILING_HALF_LIFE, FAILING_PRIOR)
    }

    pub fn start(&mut self, lane: LaneId, now: Tick) -> Started {
        self.pass(now);
        self.in_flight += 1;
        self.counts.started += 1;
        self.breaker.start(now);
        Started { lane, at: now, in_flight: self.in_flight, load_before: self.load, first_token_at: None }
    }

    pub fn first_token(&mut self, started: &Started, now: Tick, ttft: Span, prompt_tokens: u64) {
        self.breaker.first_token(started.at);
        self.peak.at_least(now, ttft);
        self.model.saw_ttft(now, prompt_tokens, f64::from(started.in_flight), ttft);
    }

    pub fn finish(&mut self, started: &Started, now: Tick, outcome: &Outcome) {
        self.pass(now);
        let life = now.since(started.at);
        let load = match life.as_nanos() {
            0 => f64::from(started.in_flight),
            nanoseconds => (self.load - started.load_before) / nanoseconds as f64,
        };
        let whole = match outcome.came {
            Came::Streamed => None,
            Came::Whole { expected_tokens } => {
                let prompt_tokens = outcome.prompt_tokens;
                Some(WholeAnswer { prompt_tokens, in_flight: load, expected_tokens, took: life })
            }
        };
        match (&whole, outcome.output_speed.or_else(|| rough_speed(started, now, outcome))) {
            (Some(answer), _) if outcome.failure.is_none() => self.model.saw_whole(now, answer, outcome.output_tokens),
            (None, Some(speed)) => self.model.saw_speed(now, load, speed, outcome.output_tokens),
            _ => {}
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        let blamed = match outcome.failure {
            None => return self.ended_well(started, now, life),
            // The limit of the whole call says nothing of a lane that was answering.
            Some(FailureKind::TimedOut) if started.first_token_at.is_some() => Blame::Nobody,
            Some(kind) => blame(kind),
        };
        self.breaker.failed(now, started.at, blamed, outcome.retry_after);
        match outcome.failure {
            Some(FailureKind::Cancelled) => self.counts.cancelled += 1,
            _ => self.counts.failed += 1,
        }
        if blamed == Blame::Load {
            self.lower_cap(started.in_flight);
        }
        if matches!(blamed, Blame::Load | Blame::Lane) {
            self.failing.add(now, 1.0, 1.0, FAILING_HALF_LIFE);
        }
        let silent = started.first_token_at.is_none();
        if silent && matches!(outcome.failure, Some(FailureKind::Cancelled | FailureKind::FirstTokenTimeout)) {
            self.peak.at_least(now, life);
            match &whole {
                Some(answer) => self.model.gave_up_whole(now, answer),
                None => self.model.gave_up(now, outcome.prompt_tokens, f64::from(started.in_flight), life),
            }
        }
    }

    fn ended_well(&mut self, started: &Started, now: Tick, life: Span) {
        self.counts.ended_well += 1;
        self.breaker.ended(started.at);
        self.failing.add(now, 0.0, 1.0, FAILING_HALF_LIFE);
        self.peak.observe(now, life);
        let seconds = life.as_secs_f64();
        self.latency = Some(self.latency.map_or(seconds, |mean| mean + LATENCY_SHARE * (seconds - mean)));
        // Up by one when as many calls as the cap allows have gone well in its upper half.
        if let Some(cap) = &mut self.learned_cap
            && f64::from(started.in_flight) * 2.0 >= *cap
        {
            *cap += 1.0 / cap.max(1.0);
        }
    }

    /// A call was refused that made it `in_flight`.
    fn lower_cap(&mut self, in_flight: u32) {
        let cut = (f64::from(in_flight) * CAP_CUT).max(1.0);
        self.learned_cap = Some(self.learned_cap.map_or(cut, |cap| cap.min(cut)));
    }

    /// Adds up the load that has passed.
    fn pass(&mut self, now: Tick) {
        self.load += f64::from(self.in_flight) * now.since(self.load_at).as_nanos() as f64;
        self.load_at = self.load_at.max(now);
    }
}
