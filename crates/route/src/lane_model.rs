//! What a lane does under load, learned from what it did: time to first token by prompt and load, output speed by load.
//!
//! It refuses to know clocks and prices. Invariant: what was never seen is `None`, never 0; what was seen fades with time, and
//! counts for nothing in the end.

mod load_curve;
mod whole;

use crate::decay::{FadingHistogram, FadingMean, left_after};
use load_curve::LoadCurve;
use tokrate_core::{Span, Tick};

pub use whole::WholeAnswer;

/// How a model learns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelConfig {
    /// After this time a sample counts half.
    pub half_life: Span,
    /// The same for what departs from the model at present: other users, a bad hour.
    pub drift_half_life: Span,
}

impl Default for ModelConfig {
    fn default() -> ModelConfig {
        ModelConfig { half_life: Span::from_secs(300), drift_half_life: Span::from_secs(10) }
    }
}

/// A point of a curve that was measured before, by a sweep as a rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    /// Requests in flight.
    pub in_flight: u32,
    /// Tokens of the prompts it was measured with.
    pub prompt_tokens: u64,
    /// Mean or median time to first token.
    pub ttft: Span,
    /// Its 90th percentile.
    pub ttft_p90: Span,
    /// Output tokens per second of one request.
    pub output_speed: f64,
    /// Requests that it was measured with; it counts as so many samples, up to [`LaneModel::LEARNED_MOST`].
    pub n: u32,
}

/// What one more request may expect of a lane.
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
    /// How many samples' worth of knowledge it rests on now: the fewer of TTFT and speed.
    pub weight: f64,
}

impl Expectation {
    /// Time to the end of an answer of so many tokens, in seconds.
    pub fn completion_seconds(&self, output_tokens: f64) -> f64 {
        self.ttft.as_secs_f64() + output_tokens.max(0.0) / self.speed
    }
}

/// The model of one lane.
#[derive(Clone, Debug)]
pub struct LaneModel {
    config: ModelConfig,
    /// Seconds per output token.
    pace: LoadCurve,
    pace_drift: Drift,
    /// Seconds to the first token, without the prompt's part and without tails.
    wait: LoadCurve,
    wait_drift: Drift,
    prompt: PromptSlope,
    /// Time to first token over what was expected of it.
    spread: FadingHistogram,
    /// Time to the end of answers that came whole, over what was expected of it.
    whole: FadingHistogram,
}

/// Below this weight nothing is known.
const WEIGHT_LEAST: f64 = 0.25;
/// Samples' worth of "as ever" against a departure from the model: of times to first token, which vary much by nature, and of
/// times per token, which do not.
const WAIT_PRIOR: f64 = 10.0;
const PACE_PRIOR: f64 = 3.0;
/// Weight of the law, in samples. Time per token follows it; a wait does not, once calls queue.
const PACE_LAW_WEIGHT: f64 = 6.0;
const WAIT_LAW_WEIGHT: f64 = 1.0;
/// A time to first token beyond so many times what was expected is of the tail, once so many were seen.
const TAIL_FROM: f64 = 3.0;
const TAIL_SAMPLES_LEAST: f64 = 5.0;
/// The most by which tails lift the mean above the usual.
const TAIL_MEAN_MOST: f64 = 2.0;
/// How far a departure is followed, either way.
const DRIFT_MOST: f64 = 8.0;
/// Ratios to an expectation, from 2^-8 on.
const LOWEST_RATIO_OCTAVE: i32 = -8;

impl LaneModel {
    /// See [`LaneModel::shared_seconds`].
    pub const SHARED_COST_MOST: f64 = 5.0;
    /// The most samples that a point of [`LaneModel::learn`] counts as.
    pub const LEARNED_MOST: u32 = 20;

    /// A model that knows nothing.
    pub fn new(config: ModelConfig) -> LaneModel {
        LaneModel {
            config,
            pace: LoadCurve::new(config.half_life, PACE_LAW_WEIGHT),
            pace_drift: Drift::default(),
            wait: LoadCurve::new(config.half_life, WAIT_LAW_WEIGHT),
            wait_drift: Drift::default(),
            prompt: PromptSlope::default(),
            spread: FadingHistogram::new(LOWEST_RATIO_OCTAVE, config.half_life),
            whole: FadingHistogram::new(LOWEST_RATIO_OCTAVE, config.half_life),
        }
    }

    /// A time to first token was seen, with so many calls in flight when the request was begun, it included.
    pub fn saw_ttft(&mut self, now: Tick, prompt_tokens: u64, in_flight: f64, ttft: Span) {
        let seconds = ttft.as_secs_f64();
        let Some(expected) = self.plain_ttft(prompt_tokens, in_flight) else {
            self.spread.add(now, 1.0, 1.0);
            return self.add_ttft(now, prompt_tokens, in_flight, seconds, 1.0);
        };
        let drifted = expected * self.wait_drift.factor(now, &self.config, WAIT_PRIOR);
        self.spread.add(now, seconds / drifted, 1.0);
        let usual = self.without_tail(now, seconds, drifted);
        self.wait_drift.add(now, usual / expected, 1.0, &self.config);
        self.add_ttft(now, prompt_tokens, in_flight, usual, 1.0);
    }

    /// A request was given up after so long without a first token: its time to first token is at least that.
    pub fn gave_up(&mut self, now: Tick, prompt_tokens: u64, in_flight: f64, waited: Span) {
        let Some(expected) = self.plain_ttft(prompt_tokens, in_flight) else { return };
        let drifted = expected * self.wait_drift.factor(now, &self.config, WAIT_PRIOR);
        self.spread.add_at_least(now, waited.as_secs_f64() / drifted, 1.0);
        // What lies beyond is the spread's to say, or else each would lift the other.
        let usual = self.without_tail(now, waited.as_secs_f64(), drifted);
        self.add_ttft(now, prompt_tokens, in_flight, usual, 1.0);
    }

    /// A time to first token as the curve takes it: tails are the spread's to say, and a few samples of a heavy one would bend
    /// the curve for minutes.
    fn without_tail(&self, now: Tick, seconds: f64, expected: f64) -> f64 {
        if self.wait.weight(now) < TAIL_SAMPLES_LEAST { seconds } else { seconds.min(TAIL_FROM * expected) }
    }

    /// An output speed (tokens per second) was seen over so many tokens, with so many calls in flight on average.
    pub fn saw_speed(&mut self, now: Tick, in_flight: f64, speed: f64, tokens: u64) {
        if !(speed.is_finite() && speed > 0.0) {
            return;
        }
        self.add_pace(now, in_flight, 1.0 / speed, tokens, 1.0);
    }

    /// A time per token (seconds), over so many of them.
    fn add_pace(&mut self, now: Tick, in_flight: f64, pace: f64, tokens: u64, weight: f64) {
        let weight = weight * tokens as f64 / (tokens as f64 + 16.0);
        if let Some(expected) = self.pace.value(in_flight) {
            self.pace_drift.add(now, pace / expected, weight, &self.config);
        }
        self.pace.add(now, in_flight, pace, weight);
    }

    /// Takes in a curve that was measured before.
    pub fn learn(&mut self, now: Tick, points: &[CurvePoint]) {
        for point in points.iter().filter(|point| point.n > 0 && point.output_speed > 0.0) {
            let weight = f64::from(point.n.min(LaneModel::LEARNED_MOST));
            let in_flight = f64::from(point.in_flight.max(1));
            let seconds = point.ttft.as_secs_f64();
            self.add_ttft(now, point.prompt_tokens, in_flight, seconds, weight);
            // One tenth lies at the 90th percentile or beyond, the others so that the mean is met; more is not known.
            let tail = (point.ttft_p90.as_secs_f64() / seconds.max(1e-9)).clamp(1.0, 6.0);
            self.spread.add(now, (1.0 - 0.11 * tail) / 0.89, weight * 0.89);
            self.spread.add(now, tail, weight * 0.11);
            self.pace.add(now, in_flight, 1.0 / point.output_speed, weight);
        }
    }

    /// What a request may expect that makes it `in_flight` calls, itself included; `None` if too little is known.
    pub fn expect(&self, now: Tick, prompt_tokens: u64, in_flight: u32) -> Option<Expectation> {
        self.at(now, prompt_tokens)?.expect(in_flight)
    }

    /// The model as of a moment, for calls of one prompt length; `None` if too little is known.
    pub(crate) fn at(&self, now: Tick, prompt_tokens: u64) -> Option<ModelNow<'_>> {
        let weight = self.pace.weight(now).min(self.wait.weight(now));
        if weight < WEIGHT_LEAST {
            return None;
        }
        // A lane that has only answered whole has shown none: what is usual then stands for all.
        let (p50, p90) = self.spread.middle_and_tail().unwrap_or((1.0, 1.0));
        Some(ModelNow {
            model: self,
            weight,
            pace_factor: self.pace_drift.factor(now, &self.config, PACE_PRIOR),
            wait_factor: self.wait_drift.factor(now, &self.config, WAIT_PRIOR),
            prompt: self.prompt.slope() * prompt_tokens as f64,
            mean: self.spread.mean().unwrap_or(1.0).clamp(1.0, TAIL_MEAN_MOST),
            p50,
            p90,
        })
    }

    /// See [`ModelNow::shared_seconds`].
    pub fn shared_seconds(&self, now: Tick, prompt_tokens: u64, output_tokens: f64, in_flight: u32) -> Option<f64> {
        self.at(now, prompt_tokens)?.shared_seconds(output_tokens, in_flight)
    }

    /// The 90th percentile of the time to first token, if at least `samples_least` samples' worth is known of it.
    pub fn ttft_p90(&self, now: Tick, prompt_tokens: u64, in_flight: u32, samples_least: f64) -> Option<Span> {
        if self.spread.weight(now) < samples_least.max(WEIGHT_LEAST) {
            return None;
        }
        let (_, p90) = self.spread.middle_and_tail()?;
        let usual = self.plain_ttft(prompt_tokens, f64::from(in_flight.max(1)))?;
        Some(Span::from_secs_f64(usual * self.wait_drift.factor(now, &self.config, WAIT_PRIOR) * p90))
    }

    /// What the model says without the drift.
    fn plain_ttft(&self, prompt_tokens: u64, in_flight: f64) -> Option<f64> {
        let wait = self.wait.value(in_flight)?;
        Some((wait + self.prompt.slope() * prompt_tokens as f64).max(1e-6))
    }

    fn add_ttft(&mut self, now: Tick, prompt_tokens: u64, in_flight: f64, seconds: f64, weight: f64) {
        // What the load explains is taken off, and long waits, which vary as much as they are long, count less.
        let expected = self.plain_ttft(prompt_tokens, in_flight).unwrap_or(seconds).max(1e-3);
        let unexplained = seconds - self.wait.value(in_flight).unwrap_or(0.0);
        let counts = weight / (expected * expected);
        self.prompt.add(now, prompt_tokens as f64, unexplained, (weight, counts), self.config.half_life);
        let without_prompt = seconds - self.prompt.slope() * prompt_tokens as f64;
        self.wait.add(now, in_flight, without_prompt.max(1e-6), weight);
    }
}

/// A model as of one moment: what depends on the time alone is worked out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelNow<'a> {
    model: &'a LaneModel,
    weight: f64,
    pace_factor: f64,
    wait_factor: f64,
    /// Seconds that the prompt takes.
    prompt: f64,
    /// Mean, median and 90th percentile of the time to first token over the usual one.
    mean: f64,
    p50: f64,
    p90: f64,
}

impl ModelNow<'_> {
    /// What a request may expect that makes it `in_flight` calls.
    pub fn expect(&self, in_flight: u32) -> Option<Expectation> {
        let (usual, pace) = self.parts(in_flight)?;
        Some(Expectation {
            ttft: Span::from_secs_f64(usual * self.mean),
            ttft_p50: Span::from_secs_f64(usual * self.p50),
            ttft_p90: Span::from_secs_f64(usual * self.p90),
            speed: 1.0 / pace,
            weight: self.weight,
        })
    }

    /// Seconds that one more call costs all calls of the lane together in the long run, at the load that it makes: with `T(n)`
    /// for the time to the end of an answer, the calls per second are `n / T(n)`, and so many seconds of calls in flight buy
    /// one more of them. Its own time where load changes nothing, and ever more where it only makes all of them slower;
    /// [`LaneModel::SHARED_COST_MOST`] times its own time at most.
    pub fn shared_seconds(&self, output_tokens: f64, in_flight: u32) -> Option<f64> {
        let in_flight = in_flight.max(1);
        let own = self.seconds(output_tokens, in_flight)?;
        // Over a wide range of loads, because the difference of two estimates that lie close together is mostly their error.
        let (low, high) = (in_flight * 2 / 3, in_flight + (in_flight / 3).max(1));
        let at_low = if low == 0 { 0.0 } else { f64::from(low) / self.seconds(output_tokens, low)? };
        let bought = f64::from(high) / self.seconds(output_tokens, high)? - at_low;
        let most = own * LaneModel::SHARED_COST_MOST;
        Some(if bought > 0.0 { (f64::from(high - low) / bought).clamp(own, most) } else { most })
    }

    fn seconds(&self, output_tokens: f64, in_flight: u32) -> Option<f64> {
        let (usual, pace) = self.parts(in_flight)?;
        Some(usual * self.mean + output_tokens.max(0.0) * pace)
    }

    /// The usual time to the first token, and the time per token (seconds).
    fn parts(&self, in_flight: u32) -> Option<(f64, f64)> {
        let load = f64::from(in_flight.max(1));
        let octave = load.log2();
        let wait = self.model.wait.value_at(load, octave)?;
        let pace = self.model.pace.value_at(load, octave)?;
        Some(((wait + self.prompt).max(1e-6) * self.wait_factor, pace * self.pace_factor))
    }
}

/// How a lane departs from its model at present: what it did over what was expected, of late. The mean of the ratio and not of its
/// logarithm, which is below zero for a skewed quantity even if the mean is met.
#[derive(Clone, Copy, Debug, Default)]
struct Drift(FadingMean);

impl Drift {
    fn add(&mut self, now: Tick, ratio: f64, weight: f64, config: &ModelConfig) {
        self.0.add(now, ratio.clamp(1.0 / DRIFT_MOST, DRIFT_MOST), weight, config.drift_half_life);
    }

    /// By which the model's value is to be multiplied.
    fn factor(&self, now: Tick, config: &ModelConfig, prior: f64) -> f64 {
        self.0.shrunk_to(1.0, now, config.drift_half_life, prior)
    }
}

/// Seconds of time to first token per prompt token: a fading least-squares slope.
#[derive(Clone, Copy, Debug, Default)]
struct PromptSlope {
    samples: f64,
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    at: Tick,
}

/// Variance of prompt lengths that is added as if it had been seen without any effect, so that prompts of nearly the same
/// length do not give a slope out of noise.
const SLOPE_PRIOR: f64 = 64.0 * 64.0;

impl PromptSlope {
    fn add(&mut self, now: Tick, x: f64, y: f64, (samples, weight): (f64, f64), half_life: Span) {
        let left = left_after(now.since(self.at), half_life);
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

    fn slope(&self) -> f64 {
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
