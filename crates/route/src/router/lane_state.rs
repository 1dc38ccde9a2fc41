//! What the router keeps about one lane.
//!
//! Invariant: `in_flight` is the number of starts that are not finished; the load of an attempt is the time-weighted
//! average over its own life.

use super::{Delivery, Outcome, RouterConfig};
use crate::breaker::{Blame, Breaker, BreakerState, blame};
use crate::cache::{CacheView, LaneCache, PromptBlocks, PromptEnd};
use crate::decay::DecayingMean;
use crate::lane::{InFlightAttempt, LaneConfig, LaneId};
use crate::lane_model::{Expectation, LaneModel, ModelAt, WholeAnswer};
use crate::peak_ewma::PeakEwma;
use crate::pick::{CallShape, LaneView, Ranked};
use tokrate_core::{BilledTokens, FailureKind, Money, Span, Tick};

/// Half-life of failures in the failure rate: a lane that had a bad minute is used again soon after.
const FAILURE_RATE_HALF_LIFE: Span = Span::from_secs(60);
/// Successes assumed of every lane beforehand, so that the first failure does not make the rate 100 %.
const FAILURE_RATE_PRIOR: f64 = 4.0;
/// Half-life of what share of prompts came from a provider's cache: caches keep a prompt for five minutes and more.
const CACHE_SHARE_HALF_LIFE: Span = Span::from_secs(300);
/// Uncached prompt tokens assumed of every lane beforehand, so that one call that was found in a cache does not make a lane look cheap.
const CACHE_SHARE_PRIOR_TOKENS: f64 = 1_000.0;
/// Factor by which a rate limit or overload error lowers the cap (multiplicative decrease).
const CAP_DECREASE_FACTOR: f64 = 0.75;
/// Fewer tokens after the first one say nothing about the speed of a stream.
const MIN_ROUGH_SPEED_TOKENS: u64 = 8;
/// Calls that go at once to a lane whose breaker is open because nothing else is left: enough to see soon that it is back,
/// few enough that a lane which hangs does not collect them.
const MAX_LAST_RESORTS: u32 = 4;
/// Weight of a new sample in the plain average latency.
const LATENCY_EWMA_WEIGHT: f64 = 0.1;

/// Rough output speed of a stream that was too short for a recorded one: otherwise a fast lane with short answers would
/// stay unknown.
fn rough_speed(started: &InFlightAttempt, now: Tick, outcome: &Outcome) -> Option<f64> {
    let seconds = now.since(started.first_token_at.filter(|_| outcome.failure.is_none())?).as_secs_f64();
    let further = outcome.output_tokens.checked_sub(1).filter(|further| *further >= MIN_ROUGH_SPEED_TOKENS)? as f64;
    (seconds > 0.0).then(|| further / seconds)
}

#[derive(Clone, Debug)]
pub(super) struct LaneState {
    pub config: LaneConfig,
    pub model: LaneModel,
    pub breaker: Breaker,
    pub in_flight: u32,
    /// Those that were started while the breaker was open.
    last_resorts: u32,
    /// How the gateway finds out whether the lane is back.
    pub probing: Probing,
    /// The cap learned from overload errors; `None` before the first.
    pub learned_cap: Option<f64>,
    pub peak: PeakEwma,
    pub latency: Option<f64>,
    pub counts: Counts,
    /// Integral of calls in flight over time (nanoseconds), up to `load_at`.
    load: f64,
    load_at: Tick,
    failure_rate: DecayingMean,
    /// Share of the prompt tokens that were read from the provider's cache.
    cached_share: DecayingMean,
    /// Share of those that were written to it.
    cache_write_share: DecayingMean,
    /// What it holds of earlier prompts, once a call has said which blocks its prompt has.
    cache: Option<Box<LaneCache>>,
}

/// How it is found out whether a lane that failed is back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probing {
    /// By a call of a client.
    ByCalls,
    /// By requests of the gateway's own, one each time that a call would have had use for the lane.
    Active {
        /// Whether a call has had use for it since the last one.
        is_wanted: bool,
    },
}

/// Attempts of a lane, in total.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
}

impl LaneState {
    /// Copies what was learned; not in-flight calls and counts.
    pub fn inherit(&mut self, known: &LaneState) {
        self.model = known.model.clone();
        self.breaker = known.breaker.clone().without_probe();
        self.learned_cap = known.learned_cap;
        self.peak = known.peak;
        self.latency = known.latency;
        self.failure_rate = known.failure_rate;
        self.cached_share = known.cached_share;
        self.cache_write_share = known.cache_write_share;
        self.cache = known.cache.as_ref().map(|cache| Box::new(cache.inherited()));
    }

    pub fn new(settings: &RouterConfig, config: LaneConfig) -> LaneState {
        LaneState {
            config,
            model: LaneModel::new(settings.model),
            breaker: Breaker::new(settings.breaker),
            in_flight: 0,
            last_resorts: 0,
            probing: match settings.active_probes {
                true => Probing::Active { is_wanted: false },
                false => Probing::ByCalls,
            },
            learned_cap: None,
            peak: PeakEwma::new(settings.peak_decay),
            latency: None,
            counts: Counts::default(),
            load: 0.0,
            load_at: Tick::ZERO,
            failure_rate: DecayingMean::default(),
            cached_share: DecayingMean::default(),
            cache_write_share: DecayingMean::default(),
            cache: None,
        }
    }

    /// Limit for calls in flight: the lower of the configured and the learned one.
    pub fn cap(&self) -> Option<u32> {
        let learned = self.learned_cap.map(|cap| cap as u32);
        self.config.max_in_flight.into_iter().chain(learned).min()
    }

    pub fn is_usable(&self, now: Tick) -> bool {
        let is_probed = self.probing != Probing::ByCalls && self.is_down();
        !is_probed && self.breaker.allows(now) && self.has_room()
    }

    /// Whether a call that has no other lane may use it although its breaker is open: not if its key or model is wrong or
    /// the provider asked to wait, which another try does not change.
    pub fn is_last_resort(&self, now: Tick) -> bool {
        self.breaker.state(now) != BreakerState::Closed
            && self.is_down()
            && self.has_room()
            && self.last_resorts < MAX_LAST_RESORTS
    }

    /// When it may be probed, if it is to be.
    pub fn probe_at(&self, now: Tick) -> Option<Tick> {
        let (_, until) = self.breaker.opened_by().filter(|_| self.is_down())?;
        let is_wanted = self.probing == Probing::Active { is_wanted: true };
        let is_probing = self.breaker.state(now) == (BreakerState::HalfOpen { probing: true });
        (is_wanted && !is_probing && self.has_room()).then_some(until)
    }

    /// A call would have had use for it.
    pub fn want(&mut self) {
        if let Probing::Active { is_wanted } = &mut self.probing {
            *is_wanted = true;
        }
    }

    /// How long until it may be tried again, as an order among unusable lanes: those of which no try is of use come last.
    pub fn wait(&self, now: Tick) -> f64 {
        match self.breaker.opened_by() {
            None => 0.0,
            Some((Blame::Lane, until)) => until.since(now).as_secs_f64(),
            Some((_, until)) => 1e9 + until.since(now).as_secs_f64(),
        }
    }

    /// Whether its breaker is open or half-open because the lane failed.
    fn is_down(&self) -> bool {
        self.breaker.opened_by().is_some_and(|(blame, _)| blame == Blame::Lane)
    }

    fn has_room(&self) -> bool {
        self.cap().is_none_or(|cap| self.in_flight < cap)
    }

    pub fn view(
        &self,
        now: Tick,
        lane: LaneId,
        shape: &CallShape,
        prompt: Option<&PromptBlocks>,
        shared: bool,
    ) -> LaneView {
        let model = self.model.at(now, shape.prompt_tokens);
        let remembered = model.and_then(|model| model.expect(self.in_flight + 1));
        let known = model.filter(ModelAt::is_known);
        let expectation = remembered.filter(|_| known.is_some());
        let marginal_seconds = known.filter(|_| shared);
        let marginal_seconds =
            marginal_seconds.and_then(|model| model.marginal_seconds(shape.output_tokens, self.in_flight + 1));
        let cached = prompt.map(|prompt| match &self.cache {
            Some(cache) => cache.view(now, prompt, self.in_flight + 1),
            // It was never sent a prompt, and counts like one that was and has none of this one.
            None => {
                CacheView { unheard: Span::ZERO, ..LaneCache::new(&self.model).view(now, prompt, self.in_flight + 1) }
            }
        });
        let with_cache = |all: Option<Expectation>| match (all, cached) {
            (Some(all), Some(CacheView { expectation: Some(first), .. })) => {
                Some(Expectation { speed: all.speed, ..first })
            }
            _ => all,
        };
        LaneView {
            ranked: Ranked {
                lane,
                usable: self.is_usable(now),
                expectation: with_cache(expectation),
                remembered: with_cache(remembered),
                is_silent: self.model.is_silent(now),
                cached_tokens: cached.map(|cached| cached.cached as u64),
            },
            others_seconds: cached.map_or(0.0, |cached| cached.others_seconds),
            unheard: cached.map_or(Span::ZERO, |cached| cached.unheard),
            in_flight: self.in_flight,
            usd: self.expected_cost(now, shape.prompt_tokens, shape.output_tokens.max(0.0) as u64).map(Money::as_usd),
            marginal_seconds,
            failure_rate: self.failure_rate(now),
            peak: self.peak.load(now, self.in_flight),
            latency: self.latency,
            turn: 0,
            wait: self.wait(now),
        }
    }

    /// What a call is expected to cost, if as much of its prompt is read from and written to the provider's cache as of late.
    pub fn expected_cost(&self, now: Tick, prompt_tokens: u64, output_tokens: u64) -> Option<Money> {
        let of_prompt = |share: &DecayingMean| {
            let share = share.shrunk_towards(0.0, now, CACHE_SHARE_HALF_LIFE, CACHE_SHARE_PRIOR_TOKENS);
            (share * prompt_tokens as f64) as u64
        };
        let price = self.config.price?;
        Some(price.cost(BilledTokens {
            input: prompt_tokens,
            cached_input: of_prompt(&self.cached_share),
            cache_write: of_prompt(&self.cache_write_share),
            output: output_tokens,
        }))
    }

    fn observe_cache(&mut self, now: Tick, billed: &BilledTokens) {
        let weight = billed.input as f64;
        for (share, tokens) in
            [(&mut self.cached_share, billed.cached_input), (&mut self.cache_write_share, billed.cache_write)]
        {
            if billed.input > 0 {
                share.add(now, tokens.min(billed.input) as f64 / weight, weight, CACHE_SHARE_HALF_LIFE);
            }
        }
    }

    /// Recent share of failed calls.
    pub fn failure_rate(&self, now: Tick) -> f64 {
        self.failure_rate.shrunk_towards(0.0, now, FAILURE_RATE_HALF_LIFE, FAILURE_RATE_PRIOR)
    }

    pub fn start(&mut self, lane: LaneId, now: Tick) -> InFlightAttempt {
        self.integrate_load(now);
        self.in_flight += 1;
        self.counts.started += 1;
        let is_last_resort = !self.breaker.allows(now);
        self.last_resorts += u32::from(is_last_resort);
        self.breaker.start(now);
        let in_flight = self.in_flight;
        InFlightAttempt {
            lane,
            at: now,
            in_flight,
            load_before: self.load,
            first_token_at: None,
            is_last_resort,
            prompt: None,
        }
    }

    pub fn send_prompt(&mut self, started: &mut InFlightAttempt, now: Tick, prompt: &PromptBlocks) {
        let cache = self.cache.get_or_insert_with(|| Box::new(LaneCache::new(&self.model)));
        started.prompt = Some(Box::new(cache.send(now, prompt, started.in_flight)));
    }

    pub fn first_token(&mut self, started: &InFlightAttempt, now: Tick, ttft: Span, prompt_tokens: u64) {
        if let (Some(cache), Some(prompt)) = (&mut self.cache, &started.prompt) {
            cache.first_token(now, prompt, f64::from(started.in_flight), ttft);
        }
        self.breaker.first_token(started.at);
        self.peak.observe_lower_bound(now, ttft);
        self.model.observe_ttft(now, prompt_tokens, f64::from(started.in_flight), ttft);
    }

    pub fn finish(&mut self, started: &InFlightAttempt, now: Tick, outcome: &Outcome) {
        self.integrate_load(now);
        if let Some(billed) = &outcome.billed {
            self.observe_cache(now, billed);
        }
        let life = now.since(started.at);
        let load = match life.as_nanos() {
            0 => f64::from(started.in_flight),
            nanoseconds => (self.load - started.load_before) / nanoseconds as f64,
        };
        let whole = match outcome.delivery {
            Delivery::Streamed => None,
            Delivery::Whole { expected_tokens } => {
                let prompt_tokens = outcome.prompt_tokens;
                Some(WholeAnswer { prompt_tokens, in_flight: load, expected_tokens, duration: life })
            }
        };
        let speed = outcome.output_speed.or_else(|| rough_speed(started, now, outcome));
        if let (Some(cache), Some(prompt)) = (&mut self.cache, &started.prompt) {
            let began = started.first_token_at.is_some() || outcome.failure.is_none();
            let gave_up = matches!(outcome.failure, Some(FailureKind::Cancelled | FailureKind::FirstTokenTimeout));
            let end = PromptEnd {
                billed: outcome.billed,
                began,
                speed: speed.filter(|_| whole.is_none()).map(|speed| (load, speed, outcome.output_tokens)),
                whole: whole.filter(|_| outcome.failure.is_none()).map(|answer| (answer, outcome.output_tokens)),
                given_up: (gave_up && !began && whole.is_none()).then(|| (f64::from(started.in_flight), life)),
            };
            cache.finish(now, prompt, &end);
        }
        match (&whole, speed) {
            (Some(answer), _) if outcome.failure.is_none() => {
                self.model.observe_whole(now, answer, outcome.output_tokens)
            }
            (None, Some(speed)) => self.model.observe_speed(now, load, speed, outcome.output_tokens),
            _ => {}
        }
        debug_assert!(self.in_flight > 0, "an attempt is finished once");
        self.in_flight = self.in_flight.saturating_sub(1);
        self.last_resorts = self.last_resorts.saturating_sub(u32::from(started.is_last_resort));
        let blame_of_failure = match outcome.failure {
            None => return self.succeeded(started, now, life),
            // The time limit of the whole call is no fault of a lane that was answering.
            Some(FailureKind::TimedOut) if started.first_token_at.is_some() => Blame::Nobody,
            Some(kind) => blame(kind),
        };
        self.breaker.failed(now, started.at, blame_of_failure, outcome.retry_after);
        match outcome.failure {
            Some(FailureKind::Cancelled) => self.counts.cancelled += 1,
            _ => self.counts.failed += 1,
        }
        if blame_of_failure == Blame::Load {
            self.lower_cap(started.in_flight);
        }
        if matches!(blame_of_failure, Blame::Load | Blame::Lane) {
            self.failure_rate.add(now, 1.0, 1.0, FAILURE_RATE_HALF_LIFE);
        }
        let without_token = started.first_token_at.is_none();
        if without_token && matches!(outcome.failure, Some(FailureKind::Cancelled | FailureKind::FirstTokenTimeout)) {
            self.peak.observe_lower_bound(now, life);
            match &whole {
                Some(answer) => self.model.observe_cancelled_whole(now, answer),
                None => self.model.observe_cancelled(now, outcome.prompt_tokens, f64::from(started.in_flight), life),
            }
        }
    }

    fn succeeded(&mut self, started: &InFlightAttempt, now: Tick, life: Span) {
        self.counts.succeeded += 1;
        self.breaker.ended(started.at);
        self.failure_rate.add(now, 0.0, 1.0, FAILURE_RATE_HALF_LIFE);
        self.peak.observe(now, life);
        let seconds = life.as_secs_f64();
        self.latency = Some(self.latency.map_or(seconds, |mean| mean + LATENCY_EWMA_WEIGHT * (seconds - mean)));
        // Additive increase: by one after as many successes in the upper half of the cap as the cap allows calls.
        if let Some(cap) = &mut self.learned_cap
            && f64::from(started.in_flight) * 2.0 >= *cap
        {
            *cap += 1.0 / cap.max(1.0);
        }
    }

    /// A call was rejected for overload with this many in flight, itself included.
    fn lower_cap(&mut self, in_flight: u32) {
        let cut = (f64::from(in_flight) * CAP_DECREASE_FACTOR).max(1.0);
        self.learned_cap = Some(self.learned_cap.map_or(cut, |cap| cap.min(cut)));
    }

    /// Integrates the load up to `now`.
    fn integrate_load(&mut self, now: Tick) {
        self.load += f64::from(self.in_flight) * now.since(self.load_at).as_nanos() as f64;
        self.load_at = self.load_at.max(now);
    }
}
