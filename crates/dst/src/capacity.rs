//! Sweeps over engines of known capacity: is the measured capacity right?
//!
//! Invariant: a seed gives the same engine, load levels and true capacity on every machine.

use crate::checkers::summarize;
use crate::scenarios::Scenario;
use crate::world::run;
use tokrate_bench::curve_of;
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_bench::schedule::{Schedule, ScheduleMode};
use tokrate_core::{Rng, Span};
use tokrate_record::PhaseResult;
use tokrate_record::curve::{CurveResult, FigureStatus, LoadFigure, LoadLevel};
use tokrate_sim::{Background, Law, Limits as RateLimits};

/// Load levels that may be added where the capacity is uncertain.
const MAX_ADDED_LEVELS: u32 = 6;
/// Tolerance: a found load is right within this ratio of the true one.
const TOLERANCE: f64 = 0.1;

/// What makes an engine slow down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only the slots.
    Hard,
    /// Slots, and contention below them.
    Soft,
    /// Coherency cost too: throughput falls within the slots.
    Falling,
    /// As soft, with background load.
    OtherUsers,
    /// As soft, with a short queue: requests are refused.
    ShortQueue,
    /// As soft, with a rate limit.
    RateLimit,
    /// As soft, but swept only below its slots.
    Unreached,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Hard, Kind::Soft, Kind::Falling, Kind::OtherUsers, Kind::ShortQueue, Kind::RateLimit, Kind::Unreached];
}

/// An engine and the sweep over it.
#[derive(Clone, PartialEq, Debug)]
pub struct Sweep {
    /// The kind of engine.
    pub kind: Kind,
    /// The engine, and the first level.
    pub scenario: Scenario,
    /// The load levels.
    pub levels: Vec<u32>,
}

/// The true loads.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truth {
    /// The load of the highest power (throughput / completion time).
    pub slows: f64,
    /// The lowest load with 90 % of the most throughput.
    pub nearly_all: f64,
    /// The slots.
    pub waits: f64,
}

/// Assessment of one figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Found within the tolerance.
    Right,
    /// Found outside the tolerance.
    Wrong,
    /// An interval that contains the true load.
    Covers,
    /// An interval that does not contain the true load.
    Excludes,
    /// Not found, and outside of the levels.
    CorrectlyMissing,
    /// Not found although within the levels.
    WronglyMissing,
}

impl Sweep {
    /// A random engine; the kind cycles with the seed.
    pub fn random(seed: u64) -> Sweep {
        let mut rng = Rng::root(seed).child("capacity");
        let kind = Kind::ALL[(seed % Kind::ALL.len() as u64) as usize];
        let slots = (2.0 * 256_f64.powf(rng.unit())).round() as u32;
        // Relative slowdown of a request at full slots.
        let slower = 0.2 + 4.0 * rng.unit();
        let other_slots = f64::from(slots - 1).max(1.0);
        let (contention, coherency) = match kind {
            Kind::Hard => (0.0, 0.0),
            Kind::Falling => (0.3 * slower / other_slots, slower / other_slots / other_slots),
            _ => (slower / other_slots, 0.0),
        };
        let law = Law {
            slots,
            contention,
            coherency,
            // Short compared with the answer: how many requests prefill at once depends on how they are synchronised,
            // which has no closed form.
            base_delay: Span::from_millis(5 + rng.below(45)),
            prefill_tokens_per_second: 50_000.0,
            stream_tokens_per_second: 30.0 + 270.0 * rng.unit(),
            tokens_per_chunk: 8,
            gap_jitter: 0.3 * rng.unit(),
            ttft_jitter: 0.4 * rng.unit(),
            queue_limit: (kind == Kind::ShortQueue).then_some(slots / 4),
            ..Law::default()
        };
        let mut scenario = Scenario { seed, law, output_tokens: 160 + rng.below(240) as u32, ..Scenario::plain(1) };
        if kind == Kind::OtherUsers {
            let streams = (0.3 * f64::from(slots) * rng.unit()).max(1.0);
            scenario.background = Background { streams, jitter: 0.3, every: Span::from_secs(1), curve: None };
        }
        if kind == Kind::RateLimit {
            let peak = throughput(&scenario, f64::from(slots)) / f64::from(scenario.output_tokens);
            let allowed = (60.0 * peak * (0.3 + 0.5 * rng.unit())).max(1.0) as u32;
            scenario.rate_limits = RateLimits { requests_per_minute: Some(allowed), tokens_per_minute: None };
        }
        scenario.spec = phase(1);
        let top = if kind == Kind::Unreached { slots / 2 } else { 3 * slots };
        let levels = std::iter::successors(Some(1), |level| Some(level * 2)).take_while(|level| *level <= top.max(4));
        Sweep { kind, levels: levels.collect(), scenario }
    }

    /// The loads that a noiseless, unlimited sweep would find.
    pub fn truth(&self) -> Truth {
        let slots = f64::from(self.scenario.law.slots);
        let at = |n: f64| throughput(&self.scenario, n.min(slots));
        let grid = || (0..).map(|step| 1.002_f64.powi(step)).take_while(|n| *n <= 4.0 * slots);
        let peak = grid().map(at).fold(0.0, f64::max);
        let power = |n: &f64| at(*n).powi(2) / n;
        let slows = grid().max_by(|a, b| power(a).total_cmp(&power(b))).unwrap_or(1.0);
        let nearly_all = grid().find(|n| at(*n) >= 0.9 * peak).unwrap_or(f64::INFINITY);
        Truth { slows, nearly_all, waits: slots }
    }

    /// Runs all levels, and adds some where they do not suffice.
    ///
    /// # Panics
    /// If the levels give no curve.
    pub fn run(&self) -> CurveResult {
        let listed = self.levels.iter().map(|level| phase(*level)).collect();
        let schedule = Schedule::new(listed, ScheduleMode::Refine { max_levels: MAX_ADDED_LEVELS }, self.scenario.seed);
        let mut results: Vec<PhaseResult> = Vec::new();
        while let Some(next) = schedule.next(&results) {
            let seed = Rng::root(self.scenario.seed).nth(results.len() as u64).next_u64();
            let scenario = Scenario { seed, spec: next.spec, ..self.scenario.clone() };
            results.push(summarize(&scenario, &run(&scenario)).1);
        }
        curve_of(&results, self.scenario.seed).expect("a sweep has several levels")
    }

    /// Compares a figure of a curve with the true load.
    pub fn verdict(curve: &CurveResult, figure: &LoadFigure, truth: f64) -> Verdict {
        let lost = |level: &LoadLevel| (level.failures + level.rate_limited) as f64 / level.requests as f64;
        let kept = curve.levels.iter().map(|row| &row.level).filter(|level| lost(level) <= 0.05);
        let top = kept.map(|level| level.load).fold(1.0, f64::max);
        // Loads are integers: equal after rounding is equal.
        let near = |load: f64| (load / truth).ln().abs() <= (1.0 + TOLERANCE).ln() || load.round() == truth.round();
        match (figure.status, figure.load) {
            (FigureStatus::Found, Some(load)) if near(load) => Verdict::Right,
            (FigureStatus::Found, _) => Verdict::Wrong,
            (FigureStatus::Between, _) => {
                let above = figure.low.is_none_or(|low| low <= truth * (1.0 + TOLERANCE));
                let below = figure.high.is_none_or(|high| high >= truth * (1.0 - TOLERANCE));
                if above && below { Verdict::Covers } else { Verdict::Excludes }
            }
            (FigureStatus::Above, _) if truth >= top * (1.0 - TOLERANCE) => Verdict::CorrectlyMissing,
            (FigureStatus::Below, _) if truth <= 1.0 + TOLERANCE => Verdict::CorrectlyMissing,
            _ => Verdict::WronglyMissing,
        }
    }
}

/// A level: one warm-up request per slot, and enough requests for a throughput within a few percent.
pub fn phase(concurrency: u32) -> PhaseSpec {
    PhaseSpec {
        load: Load::Closed { concurrency },
        extent: Extent::Requests(u64::from(4 * concurrency).max(60)),
        warmup: u64::from(concurrency),
        backoff: Backoff::Obey,
    }
}

/// Mean tokens per second with `n` requests in flight; only decoding ones slow each other down.
pub fn throughput(scenario: &Scenario, n: f64) -> f64 {
    let law = &scenario.law;
    let first = law.first_chunk_delay(scenario.input_tokens).as_secs_f64();
    let others = scenario.background.streams;
    // The first chunk has no gap.
    let gaps = f64::from(scenario.output_tokens.saturating_sub(law.tokens_per_chunk));
    let time = |decoding: f64| {
        let n = (decoding + others).max(1.0);
        let speed = law.stream_tokens_per_second / (1.0 + law.contention * (n - 1.0) + law.coherency * n * (n - 1.0));
        first + gaps / speed
    };
    // Fixed point: the decoding share of the requests is the decoding share of a request's time.
    let mut decoding = n;
    for _ in 0..200 {
        let whole = time(decoding);
        decoding = f64::midpoint(decoding, n * (whole - first) / whole);
    }
    n * f64::from(scenario.output_tokens) / time(decoding)
}
