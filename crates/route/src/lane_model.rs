//! Learns how a lane performs under load: time to first token by prompt length and load, time per output token by load.
//!
//! Invariant: what was never observed is `None`, never 0; samples decay with time until they no longer count.

mod load_curve;
mod whole;

use crate::decay::{DecayingHistogram, DecayingMean, decay_factor};
use load_curve::LoadCurve;
use tokrate_core::{Span, Tick};

pub use whole::WholeAnswer;

/// Settings of a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelConfig {
    /// Half-life of samples.
    pub half_life: Span,
    /// Half-life of the current deviation from the model: other users, a bad hour.
    pub drift_half_life: Span,
}

impl Default for ModelConfig {
    fn default() -> ModelConfig {
        ModelConfig { half_life: Span::from_secs(300), drift_half_life: Span::from_secs(10) }
    }
}

/// A point of a curve that was measured before, usually by a sweep.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    /// Requests in flight.
    pub in_flight: u32,
    /// Prompt length of the measurement.
    pub prompt_tokens: u64,
    /// Mean or median time to first token.
    pub ttft: Span,
    /// Its 90th percentile.
    pub ttft_p90: Span,
    /// Output tokens per second of a single request.
    pub output_speed: f64,
    /// Requests measured; it counts as that many samples, up to [`LaneModel::MAX_LEARNED_SAMPLES`].
    pub n: u32,
}

/// What one more request can expect of a lane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Expectation {
    /// Mean time to first token.
    pub ttft: Span,
    /// Median time to first token.
    pub ttft_p50: Span,
    /// 90th percentile of the time to first token.
    pub ttft_p90: Span,
    /// Output tokens per second.
    pub speed: f64,
    /// Weight of the samples it rests on: the lower of those of TTFT and speed.
    pub weight: f64,
}

impl Expectation {
    /// Completion time of an answer of this length, in seconds.
    pub fn completion_seconds(&self, output_tokens: f64) -> f64 {
        self.ttft.as_secs_f64() + output_tokens.max(0.0) / self.speed
    }

    /// The same with another mean time to first token (seconds), which varies as much.
    pub(crate) fn with_ttft(self, seconds: f64) -> Expectation {
        let of_mean = |span: Span| span.as_secs_f64() / self.ttft.as_secs_f64().max(1e-9);
        Expectation {
            ttft: Span::from_secs_f64(seconds),
            ttft_p50: Span::from_secs_f64(seconds * of_mean(self.ttft_p50)),
            ttft_p90: Span::from_secs_f64(seconds * of_mean(self.ttft_p90)),
            ..self
        }
    }
}

/// The performance model of one lane.
#[derive(Clone, Debug)]
pub struct LaneModel {
    config: ModelConfig,
    /// Seconds per output token.
    tpot: LoadCurve,
    tpot_drift: Drift,
    /// Seconds to the first token at a load, without the part that depends on the prompt and without tails.
    base_ttft: LoadCurve,
    ttft_drift: Drift,
    prompt: PromptSlope,
    /// Ratios of measured to expected time to first token.
    ttft_ratios: DecayingHistogram,
    /// Ratios of measured to expected total time, of non-streamed answers.
    whole_ratios: DecayingHistogram,
    /// Attempts given up before their first token since the last one that had it, while nothing is known of the lane.
    unanswered: u32,
    /// Until when it is not waited for because of them.
    silent_until: Tick,
}

/// Below this weight of samples a quantity counts as unknown: a single sample does so after two half-lives.
const MIN_WEIGHT: f64 = 0.25;
/// Below this one nothing is remembered of it: five half-lives later, half an hour to an hour by the number of samples.
const MIN_REMEMBERED_WEIGHT: f64 = 0.01;
/// Prior weight (in samples) for "no deviation": more for times to first token, which vary much by nature, than for
/// times per token.
const TTFT_DRIFT_PRIOR: f64 = 10.0;
const TPOT_DRIFT_PRIOR: f64 = 3.0;
/// Weight of the scaling law, in samples. Time per token follows it; time to first token does not once calls queue.
const TPOT_LAW_WEIGHT: f64 = 6.0;
const TTFT_LAW_WEIGHT: f64 = 1.0;
/// A time to first token above this multiple of the expected one belongs to the tail, once there are this many samples.
const TAIL_FROM: f64 = 3.0;
const MIN_TAIL_SAMPLES: f64 = 5.0;
/// Limit for how much tails raise the mean above the typical value.
const MAX_TAIL_MEAN: f64 = 2.0;
/// Limit of the deviation, in both directions.
const MAX_DRIFT: f64 = 8.0;
/// After so many attempts that were given up before their first token an unknown lane is waited for once in a half-life only.
const MAX_UNANSWERED: u32 = 3;
/// Lower end of the ratio histograms: 2^-8.
const LOWEST_RATIO_OCTAVE: i32 = -8;

impl LaneModel {
    /// Limit of [`LaneModel::marginal_seconds`], as a multiple of the call's own time.
    pub const MAX_MARGINAL_COST: f64 = 5.0;
    /// Limit for the samples that a point of [`LaneModel::learn`] counts as, so that live samples can outweigh it.
    pub const MAX_LEARNED_SAMPLES: u32 = 20;

    /// A model without samples.
    pub fn new(config: ModelConfig) -> LaneModel {
        LaneModel {
            config,
            tpot: LoadCurve::new(config.half_life, TPOT_LAW_WEIGHT),
            tpot_drift: Drift::default(),
            base_ttft: LoadCurve::new(config.half_life, TTFT_LAW_WEIGHT),
            ttft_drift: Drift::default(),
            prompt: PromptSlope::default(),
            ttft_ratios: DecayingHistogram::new(LOWEST_RATIO_OCTAVE, config.half_life),
            whole_ratios: DecayingHistogram::new(LOWEST_RATIO_OCTAVE, config.half_life),
            unanswered: 0,
            silent_until: Tick::ZERO,
        }
    }

    /// Whether nothing is known of the lane but that it was given up a few times before it answered, the last time not long ago.
    pub fn is_silent(&self, now: Tick) -> bool {
        now < self.silent_until
    }

    /// A time to first token was measured, with this many calls in flight at the start, itself included.
    pub fn observe_ttft(&mut self, now: Tick, prompt_tokens: u64, in_flight: f64, ttft: Span) {
        (self.unanswered, self.silent_until) = (0, Tick::ZERO);
        let seconds = ttft.as_secs_f64();
        let Some(expected) = self.ttft_without_drift(prompt_tokens, in_flight) else {
            self.ttft_ratios.add(now, 1.0, 1.0);
            return self.add_ttft(now, prompt_tokens, in_flight, seconds, 1.0);
        };
        let drifted = expected * self.ttft_drift.factor(now, &self.config, TTFT_DRIFT_PRIOR);
        self.ttft_ratios.add(now, seconds / drifted, 1.0);
        let typical = self.clip_tail(now, seconds, drifted);
        self.ttft_drift.add(now, typical / expected, 1.0, &self.config);
        self.add_ttft(now, prompt_tokens, in_flight, typical, 1.0);
    }

    /// A request was cancelled before its first token: its time to first token is at least `waited`.
    pub fn observe_cancelled(&mut self, now: Tick, prompt_tokens: u64, in_flight: f64, waited: Span) {
        let Some(expected) = self.ttft_without_drift(prompt_tokens, in_flight) else {
            if !self.is_silent(now) {
                self.unanswered = self.unanswered.saturating_add(1);
                let is_silent = self.unanswered >= MAX_UNANSWERED;
                self.silent_until = if is_silent { now + self.config.half_life } else { Tick::ZERO };
            }
            return;
        };
        let drifted = expected * self.ttft_drift.factor(now, &self.config, TTFT_DRIFT_PRIOR);
        self.ttft_ratios.add_censored(now, waited.as_secs_f64() / drifted, 1.0);
        // The histogram already accounts for the time beyond; using it here as well would let the two raise each other.
        let typical = self.clip_tail(now, waited.as_secs_f64(), drifted);
        self.add_ttft(now, prompt_tokens, in_flight, typical, 1.0);
    }

    /// Clips a time to first token for the curve: tails belong to the histogram, and a few extreme samples would
    /// distort the curve for minutes.
    fn clip_tail(&self, now: Tick, seconds: f64, expected: f64) -> f64 {
        if self.base_ttft.weight(now) < MIN_TAIL_SAMPLES { seconds } else { seconds.min(TAIL_FROM * expected) }
    }

    /// An output speed (tokens per second) was measured over this many tokens, with this many calls in flight on
    /// average.
    pub fn observe_speed(&mut self, now: Tick, in_flight: f64, speed: f64, tokens: u64) {
        if !(speed.is_finite() && speed > 0.0) {
            return;
        }
        self.add_tpot(now, in_flight, 1.0 / speed, tokens, 1.0);
    }

    /// Adds a time per token (seconds), measured over this many tokens.
    fn add_tpot(&mut self, now: Tick, in_flight: f64, tpot: f64, tokens: u64, weight: f64) {
        let weight = weight * tokens as f64 / (tokens as f64 + 16.0);
        if let Some(expected) = self.tpot.value(in_flight) {
            self.tpot_drift.add(now, tpot / expected, weight, &self.config);
        }
        self.tpot.add(now, in_flight, tpot, weight);
    }

    /// Adds a curve that was measured before.
    pub fn learn(&mut self, now: Tick, points: &[CurvePoint]) {
        for point in points.iter().filter(|point| point.n > 0 && point.output_speed > 0.0) {
            let weight = f64::from(point.n.min(LaneModel::MAX_LEARNED_SAMPLES));
            let in_flight = f64::from(point.in_flight.max(1));
            let seconds = point.ttft.as_secs_f64();
            self.add_ttft(now, point.prompt_tokens, in_flight, seconds, weight);
            // A tenth of the weight at the 90th percentile, the rest so that the mean is right; more is not known.
            let tail = (point.ttft_p90.as_secs_f64() / seconds.max(1e-9)).clamp(1.0, 6.0);
            self.ttft_ratios.add(now, (1.0 - 0.11 * tail) / 0.89, weight * 0.89);
            self.ttft_ratios.add(now, tail, weight * 0.11);
            self.tpot.add(now, in_flight, 1.0 / point.output_speed, weight);
        }
    }

    /// What a request can expect with this many calls in flight, itself included; `None` if too little is known.
    pub fn expect(&self, now: Tick, prompt_tokens: u64, in_flight: u32) -> Option<Expectation> {
        self.at(now, prompt_tokens).filter(ModelAt::is_known)?.expect(in_flight)
    }

    /// The model at `now` for one prompt length, known or only remembered; `None` if there is nothing.
    pub(crate) fn at(&self, now: Tick, prompt_tokens: u64) -> Option<ModelAt<'_>> {
        let weight = self.tpot.weight(now).min(self.base_ttft.weight(now));
        if weight < MIN_REMEMBERED_WEIGHT {
            return None;
        }
        // A lane without streamed answers has no ratios yet: the typical value stands for all quantiles.
        let (p50, p90) = self.ttft_ratios.median_and_p90().unwrap_or((1.0, 1.0));
        Some(ModelAt {
            model: self,
            weight,
            tpot_factor: self.tpot_drift.factor(now, &self.config, TPOT_DRIFT_PRIOR),
            ttft_factor: self.ttft_drift.factor(now, &self.config, TTFT_DRIFT_PRIOR),
            prompt: self.prompt.slope() * prompt_tokens as f64,
            mean: self.ttft_ratios.mean().unwrap_or(1.0).clamp(1.0, MAX_TAIL_MEAN),
            p50,
            p90,
        })
    }

    /// See [`ModelAt::marginal_seconds`].
    pub fn marginal_seconds(&self, now: Tick, prompt_tokens: u64, output_tokens: f64, in_flight: u32) -> Option<f64> {
        self.at(now, prompt_tokens).filter(ModelAt::is_known)?.marginal_seconds(output_tokens, in_flight)
    }

    /// The 90th percentile of the time to first token, if there are at least `min_samples` of it.
    pub fn ttft_p90(&self, now: Tick, prompt_tokens: u64, in_flight: u32, min_samples: f64) -> Option<Span> {
        if self.ttft_ratios.weight(now) < min_samples.max(MIN_WEIGHT) {
            return None;
        }
        let (_, p90) = self.ttft_ratios.median_and_p90()?;
        let typical = self.ttft_without_drift(prompt_tokens, f64::from(in_flight.max(1)))?;
        Some(Span::from_secs_f64(typical * self.ttft_drift.factor(now, &self.config, TTFT_DRIFT_PRIOR) * p90))
    }

    /// The same, but what departs from it for a moment is not followed: a lane that was late once would lose conversations whose prompts
    /// only it holds.
    pub(crate) fn without_drift(self) -> LaneModel {
        let config = ModelConfig { drift_half_life: Span::from_millis(1), ..self.config };
        LaneModel { config, ttft_drift: Drift::default(), tpot_drift: Drift::default(), ..self }
    }

    /// Time per token with this many calls in flight; `None` if no answer was seen.
    pub(crate) fn token_time(&self, in_flight: u32) -> Option<TokenTime> {
        let load = f64::from(in_flight.max(1));
        Some(TokenTime { seconds: self.tpot.value(load)?, slope: self.tpot.law_slope(load) })
    }

    /// Expected time to first token without the current deviation.
    fn ttft_without_drift(&self, prompt_tokens: u64, in_flight: f64) -> Option<f64> {
        let base = self.base_ttft.value(in_flight)?;
        Some((base + self.prompt.slope() * prompt_tokens as f64).max(1e-6))
    }

    fn add_ttft(&mut self, now: Tick, prompt_tokens: u64, in_flight: f64, seconds: f64, weight: f64) {
        // The part explained by load is subtracted. Long times vary in proportion to their length, so they weigh less.
        let expected = self.ttft_without_drift(prompt_tokens, in_flight).unwrap_or(seconds).max(1e-3);
        let residual = seconds - self.base_ttft.value(in_flight).unwrap_or(0.0);
        let inverse_variance = weight / (expected * expected);
        self.prompt.add(now, prompt_tokens as f64, residual, (weight, inverse_variance), self.config.half_life);
        let without_prompt = seconds - self.prompt.slope() * prompt_tokens as f64;
        self.base_ttft.add(now, in_flight, without_prompt.max(1e-6), weight);
    }
}

/// Seconds per output token at a load, and how many more each further call makes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct TokenTime {
    pub seconds: f64,
    pub slope: f64,
}

/// A model at one time, with everything that depends only on time computed once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelAt<'a> {
    model: &'a LaneModel,
    weight: f64,
    tpot_factor: f64,
    ttft_factor: f64,
    /// Seconds due to the prompt length.
    prompt: f64,
    /// Mean, median and 90th percentile of the time to first token, relative to the typical one.
    mean: f64,
    p50: f64,
    p90: f64,
}

impl ModelAt<'_> {
    /// Whether enough is known to choose by.
    pub fn is_known(&self) -> bool {
        self.weight >= MIN_WEIGHT
    }

    /// What a request can expect with this many calls in flight.
    pub fn expect(&self, in_flight: u32) -> Option<Expectation> {
        let (typical, tpot) = self.parts(in_flight)?;
        Some(Expectation {
            ttft: Span::from_secs_f64(typical * self.mean),
            ttft_p50: Span::from_secs_f64(typical * self.p50),
            ttft_p90: Span::from_secs_f64(typical * self.p90),
            speed: 1.0 / tpot,
            weight: self.weight,
        })
    }

    /// Marginal cost of one more call in seconds of all calls on the lane together. With completion time `T(n)` the
    /// lane serves `n / T(n)` calls per second; this is how many call-seconds in flight one more of them takes. It
    /// equals the call's own time where load changes nothing, grows where load slows all calls down, and is limited to
    /// [`LaneModel::MAX_MARGINAL_COST`] times its own time.
    pub fn marginal_seconds(&self, output_tokens: f64, in_flight: u32) -> Option<f64> {
        let in_flight = in_flight.max(1);
        let own = self.seconds(output_tokens, in_flight)?;
        // Over a wide range of loads, because the difference of two close estimates is mostly their error.
        let (low, high) = (in_flight * 2 / 3, in_flight + (in_flight / 3).max(1));
        let at_low = if low == 0 { 0.0 } else { f64::from(low) / self.seconds(output_tokens, low)? };
        let gained = f64::from(high) / self.seconds(output_tokens, high)? - at_low;
        let most = own * LaneModel::MAX_MARGINAL_COST;
        Some(if gained > 0.0 { (f64::from(high - low) / gained).clamp(own, most) } else { most })
    }

    fn seconds(&self, output_tokens: f64, in_flight: u32) -> Option<f64> {
        let (typical, tpot) = self.parts(in_flight)?;
        Some(typical * self.mean + output_tokens.max(0.0) * tpot)
    }

    /// Typical time to first token and time per token (seconds).
    fn parts(&self, in_flight: u32) -> Option<(f64, f64)> {
        let load = f64::from(in_flight.max(1));
        let octave = load.log2();
        let base = self.model.base_ttft.value_at(load, octave)?;
        let tpot = self.model.tpot.value_at(load, octave)?;
        Some(((base + self.prompt).max(1e-6) * self.ttft_factor, tpot * self.tpot_factor))
    }
}

/// The recent deviation of a lane from its model, as mean ratio of measured to expected. The mean of the ratio and not
/// of its logarithm, which is negative for a skewed quantity even if the mean is right.
#[derive(Clone, Copy, Debug, Default)]
struct Drift(DecayingMean);

impl Drift {
    fn add(&mut self, now: Tick, ratio: f64, weight: f64, config: &ModelConfig) {
        self.0.add(now, ratio.clamp(1.0 / MAX_DRIFT, MAX_DRIFT), weight, config.drift_half_life);
    }

    /// Factor for the value of the model.
    fn factor(&self, now: Tick, config: &ModelConfig, prior: f64) -> f64 {
        self.0.shrunk_towards(1.0, now, config.drift_half_life, prior)
    }
}

/// Seconds of time to first token per prompt token: a decaying least-squares slope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PromptSlope {
    samples: f64,
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    at: Tick,
}

/// Prior variance of prompt lengths (64 tokens squared) without effect, so that prompts of nearly equal length do not
/// give a slope out of noise.
const SLOPE_PRIOR: f64 = 64.0 * 64.0;

impl PromptSlope {
    pub fn add(&mut self, now: Tick, x: f64, y: f64, (samples, weight): (f64, f64), half_life: Span) {
        let left = decay_factor(now.since(self.at), half_life);
        for sum in [&mut self.samples, &mut self.weight, &mut self.x, &mut self.y, &mut self.xx, &mut self.xy] {
            *sum *= left;
        }
        self.at = self.at.max(now);
        self.samples += samples;
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
    }

    pub fn slope(&self) -> f64 {
        if self.weight <= 0.0 {
            return 0.0;
        }
        let covariance = self.xy - self.x * self.y / self.weight;
        let variance = self.xx - self.x * self.x / self.weight;
        (covariance / (variance.max(0.0) + SLOPE_PRIOR * self.weight / self.samples)).max(0.0)
    }
}

#[cfg(test)]
mod tests;
