//! Runs until a figure is known as well as a fixed plan would have it, on the engines of [`crate::capacity`]: how many tokens do they take, and
//! does the interval hold what a long round says?
//!
//! Invariant: a seed gives the same engine and the same runs on every machine.

use crate::capacity::{Sweep, phase};
use crate::checkers::summarize;
use crate::scenarios::Scenario;
use crate::world::run;
use tokrate_bench::plan::{Extent, PhaseSpec};
use tokrate_bench::schedule::{Schedule, ScheduleMode, Until};
use tokrate_core::Rng;
use tokrate_judge::Precision;
use tokrate_record::PhaseResult;
use tokrate_record::run::by_load;

/// Requests of one long round whose median stands for the truth of a level; it has an error of its own, which counts as the intervals'.
const REQUESTS_OF_TRUTH: u64 = 2_001;
/// Measured requests of a level at most, as by default.
const MAX_REQUESTS: u64 = 2_000;
/// A narrower width of a fixed plan is no chance of requests: the times of reads are off by as much.
const MIN_WIDTH: f64 = 0.002;

/// What one engine came to for one figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Savings {
    /// Output tokens that the fixed plan took, warm-up included.
    pub fixed_tokens: u64,
    /// Those until the same width.
    pub until_tokens: u64,
    /// Whether the width was reached.
    pub reached: bool,
    /// Half the width that the fixed plan came to, as a share of the figure.
    pub width: f64,
}

/// Which levels of the sweep are asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Every level that the fixed plan runs, each as well as it knows its worst.
    EveryLevel,
    /// One request at a time, which the fixed plan knows from its sweep.
    LowestOfSweep,
    /// One request at a time, which the fixed plan measures alone.
    LowestAlone,
}

impl Asked {
    /// All of them.
    pub const ALL: [Asked; 3] = [Asked::EveryLevel, Asked::LowestOfSweep, Asked::LowestAlone];
}

/// The fixed plan of an engine: one round of each level of its sweep.
pub fn fixed_plan(sweep: &Sweep) -> Vec<PhaseResult> {
    sweep.levels.iter().map(|level| measure(sweep, &phase(*level), u64::from(*level))).collect()
}

/// Tokens and width of a fixed plan, and the tokens until the same width; `None` where the fixed plan has no interval.
pub fn savings(sweep: &Sweep, fixed: &[PhaseResult], figure: &str, asked: Asked) -> Option<Savings> {
    let fixed = if asked == Asked::LowestAlone { &fixed[..1] } else { fixed };
    let widths = fixed.iter().map(|result| width_of(result, figure));
    let width = match asked {
        Asked::EveryLevel => widths.collect::<Option<Vec<f64>>>()?.into_iter().fold(0.0, f64::max),
        Asked::LowestOfSweep | Asked::LowestAlone => width_of(&fixed[0], figure)?,
    };
    if !(MIN_WIDTH..1.0).contains(&width) {
        return None;
    }
    let condition = Precision::parse(&format!("{figure} ± {}%", 100.0 * width)).ok()?;
    let until = Until { conditions: vec![condition], max_requests: MAX_REQUESTS, max_time: None };
    let wanted = if asked == Asked::EveryLevel { &sweep.levels[..] } else { &sweep.levels[..1] };
    let (results, reached) = run_until(sweep, &until, wanted, 1_000);
    let tokens = |results: &[PhaseResult]| results.iter().map(|result| result.tokens.std_of_all).sum();
    Some(Savings { fixed_tokens: tokens(fixed), until_tokens: tokens(&results), reached, width })
}

/// Of runs until a figure is known at one level: how many intervals do not hold the figure of a long round.
pub fn misses(sweep: &Sweep, figure: &str, level: u32, width: f64, runs: u64) -> Option<u64> {
    let condition = Precision::parse(&format!("{figure} ± {}%", 100.0 * width)).ok()?;
    let until = Until { conditions: vec![condition], max_requests: MAX_REQUESTS, max_time: None };
    let long = PhaseSpec { extent: Extent::Requests(REQUESTS_OF_TRUTH), ..phase(level) };
    let truth = until.conditions[0].assess(&by_load(&[measure(sweep, &long, 1_000_000)])[0]).value?;
    let miss = |place: u64| {
        let (results, _) = run_until(sweep, &until, &[level], 10_000 * (place + 1));
        let outcome = until.conditions[0].assess(&by_load(&results)[0]);
        outcome.low.is_none_or(|low| truth < low) || outcome.high.is_none_or(|high| truth > high)
    };
    Some((0..runs).filter(|place| miss(*place)).count() as u64)
}

fn run_until(sweep: &Sweep, until: &Until, levels: &[u32], first_seed: u64) -> (Vec<PhaseResult>, bool) {
    let listed = levels.iter().map(|level| until.round_of(&phase(*level))).collect();
    let schedule = Schedule::new(listed, ScheduleMode::Until(until.clone()), sweep.scenario.seed);
    let mut results: Vec<PhaseResult> = Vec::new();
    while let Some(next) = schedule.next(&results) {
        let place = first_seed + results.len() as u64;
        results.push(measure(sweep, &next.spec, place));
    }
    let reached = schedule.known(&results).is_some_and(|known| known.is_reached());
    (results, reached)
}

fn measure(sweep: &Sweep, spec: &PhaseSpec, place: u64) -> PhaseResult {
    let seed = Rng::root(sweep.scenario.seed).child("until").nth(place).next_u64();
    let scenario = Scenario { seed, spec: spec.clone(), ..sweep.scenario.clone() };
    summarize(&scenario, &run(&scenario)).1
}

/// Half the width of the interval of a median that a single round states, as a share of it.
fn width_of(result: &PhaseResult, figure: &str) -> Option<f64> {
    let quantile = match figure {
        "ttft_p50" => &result.ttft.p50,
        "e2e_p50" => &result.e2e.p50,
        _ => &result.output_speed.median,
    };
    Some((quantile.high? - quantile.low?) / 2.0 / quantile.value?)
}
