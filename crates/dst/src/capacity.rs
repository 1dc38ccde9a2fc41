//! Sweeps over engines whose capacity is known: what is found of it, and whether it is so.
//!
//! It refuses to know how loads are found. Invariant: a seed gives the same engine, the same load levels and the same truth on
//! every machine.

use crate::checkers::sum_up;
use crate::scenarios::Scenario;
use crate::world::run;
use tokrate_bench::curve_of;
use tokrate_bench::plan::{Backoff, Extent, Load, PhaseSpec};
use tokrate_bench::schedule::{Schedule, ScheduleMode};
use tokrate_core::{Rng, Span};
use tokrate_meter::PhaseResult;
use tokrate_meter::curve::{CurveResult, FigureStatus, LoadFigure, LoadLevel};
use tokrate_sim::{Background, Law, Limits as RateLimits};

/// Levels that are added where a load is not known well.
const ADDED: u32 = 6;
/// A load that was found is right when it is no further than this share from the truth.
const NEAR: f64 = 0.1;

/// What makes an engine slow down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Slots alone.
    Hard,
    /// Slots, and requests that slow one another before.
    Soft,
    /// Pairs of requests cost as well: throughput falls within the slots.
    Falling,
    /// As soft, beside other users who come and go.
    OtherUsers,
    /// As soft, with a queue that is short: requests are refused.
    ShortQueue,
    /// As soft, with so many requests a minute and no more.
    RateLimit,
    /// As soft, swept to less than its slots.
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
    /// What it was drawn as.
    pub kind: Kind,
    /// The engine, and the first level.
    pub scenario: Scenario,
    /// The concurrencies that are asked for.
    pub levels: Vec<u32>,
}

/// The loads as they are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Truth {
    /// The load of the most power.
    pub slows: f64,
    /// The lowest load with 90 % of the most throughput.
    pub nearly_all: f64,
    /// The slots.
    pub waits: f64,
}

/// What became of one load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Found, and within a tenth of the truth.
    Right,
    /// Found, and further off.
    Wrong,
    /// Between two loads, and the truth is.
    Holds,
    /// Between two loads, and the truth is not.
    Misses,
    /// Not found, and it could not be at these levels.
    RightlyNot,
    /// Not found although it lies within the levels.
    WronglyNot,
}

impl Sweep {
    /// An engine drawn from a seed; kinds take turns.
    pub fn drawn(seed: u64) -> Sweep {
        let mut rng = Rng::root(seed).child("capacity");
        let kind = Kind::ALL[(seed % Kind::ALL.len() as u64) as usize];
        let slots = (2.0 * 256_f64.powf(rng.unit())).round() as u32;
        // By how much a request is slower at full slots than alone.
        let slower = 0.2 + 4.0 * rng.unit();
        let most_slots = f64::from(slots - 1).max(1.0);
        let (contention, coherency) = match kind {
            Kind::Hard => (0.0, 0.0),
            Kind::Falling => (0.3 * slower / most_slots, slower / most_slots / most_slots),
            _ => (slower / most_slots, 0.0),
        };
        let law = Law {
            slots,
            contention,
            coherency,
            // Short beside the answer: how many prefill at once depends on how they are in step, which no formula tells.
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
            let most = throughput(&scenario, f64::from(slots)) / f64::from(scenario.output_tokens);
            let allowed = (60.0 * most * (0.3 + 0.5 * rng.unit())).max(1.0) as u32;
            scenario.rate_limits = RateLimits { requests_per_minute: Some(allowed), tokens_per_minute: None };
        }
        scenario.spec = phase(1);
        let top = if kind == Kind::Unreached { slots / 2 } else { 3 * slots };
        let levels = std::iter::successors(Some(1), |level| Some(level * 2)).take_while(|level| *level <= top.max(4));
        Sweep { kind, levels: levels.collect(), scenario }
    }

    /// The loads that a sweep without end and noise would find.
    pub fn truth(&self) -> Truth {
        let slots = f64::from(self.scenario.law.slots);
        let at = |n: f64| throughput(&self.scenario, n.min(slots));
        let grid = || (0..).map(|step| 1.002_f64.powi(step)).take_while(|n| *n <= 4.0 * slots);
        let most = grid().map(at).fold(0.0, f64::max);
        let power = |n: &f64| at(*n).powi(2) / n;
        let slows = grid().max_by(|a, b| power(a).total_cmp(&power(b))).unwrap_or(1.0);
        let nearly_all = grid().find(|n| at(*n) >= 0.9 * most).unwrap_or(f64::INFINITY);
        Truth { slows, nearly_all, waits: slots }
    }

    /// Runs all levels, and those that are added where they do not suffice.
    ///
    /// # Panics
    /// If the levels make no curve.
    pub fn run(&self) -> CurveResult {
        let listed = self.levels.iter().map(|level| phase(*level)).collect();
        let schedule = Schedule::new(listed, ScheduleMode::Refine { max_levels: ADDED }, self.scenario.seed);
        let mut results: Vec<PhaseResult> = Vec::new();
        while let Some(next) = schedule.next(&results) {
            let seed = Rng::root(self.scenario.seed).nth(results.len() as u64).next_u64();
            let scenario = Scenario { seed, spec: next.spec, ..self.scenario.clone() };
            results.push(sum_up(&scenario, &run(&scenario)).1);
        }
        curve_of(&results, self.scenario.seed).expect("a sweep has several levels")
    }

    /// Holds a load of a curve against the truth.
    pub fn verdict(curve: &CurveResult, figure: &LoadFigure, truth: f64) -> Verdict {
        let lost = |level: &LoadLevel| (level.failures + level.rate_limited) as f64 / level.requests as f64;
        let kept = curve.levels.iter().map(|row| &row.level).filter(|level| lost(level) <= 0.05);
        let top = kept.map(|level| level.load).fold(1.0, f64::max);
        // Requests are whole: what rounds to the same number is the same.
        let near = |load: f64| (load / truth).ln().abs() <= (1.0 + NEAR).ln() || load.round() == truth.round();
        match (figure.status, figure.load) {
            (FigureStatus::Found, Some(load)) if near(load) => Verdict::Right,
            (FigureStatus::Found, _) => Verdict::Wrong,
            (FigureStatus::Between, _) => {
                let above = figure.low.is_none_or(|low| low <= truth * (1.0 + NEAR));
                let below = figure.high.is_none_or(|high| high >= truth * (1.0 - NEAR));
                if above && below { Verdict::Holds } else { Verdict::Misses }
            }
            (FigureStatus::Above, _) if truth >= top * (1.0 - NEAR) => Verdict::RightlyNot,
            (FigureStatus::Below, _) if truth <= 1.0 + NEAR => Verdict::RightlyNot,
            _ => Verdict::WronglyNot,
        }
    }
}

/// A level: a request per slot to warm up, and enough of them to tell throughput to a few percent.
fn phase(concurrency: u32) -> PhaseSpec {
    PhaseSpec {
        load: Load::Closed { concurrency },
        extent: Extent::Requests(u64::from(4 * concurrency).max(60)),
        warmup: u64::from(concurrency),
        backoff: Backoff::Obey,
    }
}

/// Tokens a second of so many requests in flight, on average: of `n` only those that decode slow one another.
pub fn throughput(scenario: &Scenario, n: f64) -> f64 {
    let law = &scenario.law;
    let first = law.first_chunk_delay(scenario.input_tokens).as_secs_f64();
    let others = scenario.background.streams;
    // The first chunk costs no gap.
    let gaps = f64::from(scenario.output_tokens.saturating_sub(law.tokens_per_chunk));
    let time = |decoding: f64| {
        let n = (decoding + others).max(1.0);
        let speed = law.stream_tokens_per_second / (1.0 + law.contention * (n - 1.0) + law.coherency * n * (n - 1.0));
        first + gaps / speed
    };
    // As many decode as the share of a request's time in which it does.
    let mut decoding = n;
    for _ in 0..200 {
        let whole = time(decoding);
        decoding = f64::midpoint(decoding, n * (whole - first) / whole);
    }
    n * f64::from(scenario.output_tokens) / time(decoding)
}
