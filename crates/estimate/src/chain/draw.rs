//! Runs of a chain, drawn one by one.

use super::{Chain, Plan, Speed, Spread, Step, Times, order::order};
use crate::traffic::quantile;
use tokrate_core::Rng;

/// A step in one run.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Place of the step.
    pub step: usize,
    /// When it began (s).
    pub start: f64,
    /// When it ended (s).
    pub end: f64,
    /// Of that time (s): waiting for first tokens, tokens, tools. Of steps side by side that of the slowest.
    pub parts: [f64; 3],
    /// Whether it is on the critical path: the end of the run waited for it.
    pub critical: bool,
}

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Its steps, in the order in which they may begin.
    pub bars: Vec<Bar>,
    /// When the last ended (s).
    pub seconds: f64,
    /// What its calls cost; `None` if the price of one is unknown.
    pub dollars: Option<f64>,
    /// Calls made, those that failed or lost among them.
    pub calls: u32,
}

/// What many runs come to.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Seconds of the runs, sorted.
    pub seconds: Vec<f64>,
    /// Mean dollars.
    pub dollars: Option<f64>,
    /// Mean calls.
    pub calls: f64,
    /// Of each step: share of the runs in which it was on the critical path, and its mean seconds there.
    pub critical: Vec<(f64, f64)>,
    /// Mean seconds on the critical path: waiting for first tokens, tokens, tools.
    pub parts: [f64; 3],
    /// Mean seconds of the whole that a step at twice the speed would save, of each step with all its calls.
    pub saved_by_twice: Vec<f64>,
    /// A run of median length.
    pub median: Run,
}

/// Runs that are drawn: the p95 is then known within about 1 %.
pub const RUNS: u64 = 4_000;

/// Draws the runs of a plan.
///
/// # Errors
/// A chain that cannot be run.
pub fn draw(chain: &Chain, plan: &Plan) -> Result<Outcome, String> {
    chain.check()?;
    let order = order(&chain.steps)?;
    let root = Rng::root(0).child("chain");
    let runs: Vec<Run> = (0..RUNS).map(|run| drawn(chain, plan, &order, root.nth(run))).collect();
    let count = RUNS as f64;
    let mut seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let middle = quantile(&seconds, 0.5);
    let median = runs.iter().min_by(|a, b| (a.seconds - middle).abs().total_cmp(&(b.seconds - middle).abs()));
    let mut critical = vec![(0.0, 0.0); chain.steps.len()];
    let mut saved = vec![0.0; chain.steps.len()];
    let mut parts = [0.0; 3];
    for run in &runs {
        for bar in run.bars.iter().filter(|bar| bar.critical) {
            critical[bar.step].0 += 1.0 / count;
            critical[bar.step].1 += (bar.end - bar.start) / count;
            for (sum, part) in parts.iter_mut().zip(bar.parts) {
                *sum += part / count;
            }
        }
        for (step, saved) in saved.iter_mut().enumerate() {
            *saved += (run.seconds - replayed(chain, &order, run, step)) / count;
        }
    }
    let dollars: Option<Vec<f64>> = runs.iter().map(|run| run.dollars).collect();
    Ok(Outcome {
        dollars: dollars.map(|all| all.iter().sum::<f64>() / count),
        calls: runs.iter().map(|run| f64::from(run.calls)).sum::<f64>() / count,
        median: median.cloned().ok_or("no run was drawn")?,
        seconds,
        critical,
        parts,
        saved_by_twice: saved,
    })
}

/// Seconds of a run had one step been twice as fast.
fn replayed(chain: &Chain, order: &[usize], run: &Run, faster: usize) -> f64 {
    let mut ends = vec![0.0_f64; chain.steps.len()];
    for (at, bar) in order.iter().zip(&run.bars) {
        let begun = chain.steps[*at].after.iter().map(|before| ends[*before]).fold(0.0, f64::max);
        let took = (bar.end - bar.start) * if *at == faster { 0.5 } else { 1.0 };
        ends[*at] = begun + took;
    }
    ends.iter().copied().fold(0.0, f64::max)
}

/// Draws one run.
pub fn drawn(chain: &Chain, plan: &Plan, order: &[usize], mut rng: Rng) -> Run {
    let mut run = Run { bars: Vec::new(), seconds: 0.0, dollars: Some(0.0), calls: 0 };
    let mut ends = vec![0.0_f64; chain.steps.len()];
    for at in order {
        let step = &chain.steps[*at];
        let start = step.after.iter().map(|before| ends[*before]).fold(0.0, f64::max);
        let speed = plan.speeds.get(*at).and_then(Option::as_ref);
        let mut slowest = [0.0; 3];
        for _ in 0..step.fan_out {
            let parts = one_lane(step, *at, speed, &mut rng, &mut run);
            if parts.iter().sum::<f64>() > slowest.iter().sum() {
                slowest = parts;
            }
        }
        ends[*at] = start + slowest.iter().sum::<f64>();
        run.bars.push(Bar { step: *at, start, end: ends[*at], parts: slowest, critical: false });
    }
    run.seconds = ends.iter().copied().fold(0.0, f64::max);
    mark_critical(chain, &mut run);
    run
}

/// All repetitions of a step in one of its lanes.
fn one_lane(step: &Step, at: usize, speed: Option<&Speed>, rng: &mut Rng, run: &mut Run) -> [f64; 3] {
    let mut parts = [0.0; 3];
    for repetition in 0..step.repeat {
        let mut tries = 0;
        loop {
            tries += 1;
            if let Some(speed) = speed {
                let grown = step.grows * f64::from(repetition);
                // What grew in earlier repetitions is in the cache by now, all but the last.
                let cached = step.cached + (grown - step.grows).max(0.0);
                let [first, tokens] = call(step, at, speed, (step.input + grown, cached), rng, run);
                parts[0] += first;
                parts[1] += tokens;
            }
            if let Some(tool) = step.tool {
                parts[2] += time(tool, rng);
            }
            if tries > step.again.1 || !rng.chance(step.again.0) {
                break;
            }
        }
    }
    parts
}

/// A call until it succeeds: of the lanes that are asked at once the first to end counts. Seconds to the first token and after.
fn call(step: &Step, at: usize, speed: &Speed, (input, cached): (f64, f64), rng: &mut Rng, run: &mut Run) -> [f64; 2] {
    let mut sum = [0.0, 0.0];
    for attempt in 0..MOST_ATTEMPTS {
        let mut best: Option<[f64; 2]> = None;
        for _ in 0..step.race {
            let took = seconds(&speed.times[at.min(speed.times.len() - 1)], input - cached, step.output, rng);
            run.calls += 1;
            let dollars = match speed.price {
                Some(price) => Some(price.request(input, cached, step.output)),
                None if speed.is_free => Some(0.0),
                None => None,
            };
            run.dollars = run.dollars.zip(dollars).map(|(sum, one)| sum + one);
            if best.is_none_or(|best| took[0] + took[1] < best[0] + best[1]) {
                best = Some(took);
            }
        }
        let took = best.unwrap_or_default();
        // All lanes fail together at worst; one that fails is noticed when its first token does not come.
        let fails = attempt + 1 < MOST_ATTEMPTS && (0..step.race).all(|_| rng.chance(speed.failures));
        sum[0] += took[0];
        if !fails {
            sum[1] += took[1];
            break;
        }
    }
    sum
}

/// How often a call that fails is made at most.
const MOST_ATTEMPTS: u32 = 4;

/// Seconds to the first token and after, of one call.
fn seconds(times: &Times, new: f64, output: f64, rng: &mut Rng) -> [f64; 2] {
    match times {
        Times::Stated { ttft, prefill, speed } => {
            let prompt = prefill.map_or(0.0, |rate| new / rate);
            [time(*ttft, rng) + prompt, (output - 1.0).max(0.0) / self::speed(*speed, rng)]
        }
        Times::Drawn { ttft, tpot } => {
            let mut pick = |values: &[f64]| match values.len() {
                0 => 0.0,
                count => values[rng.below(count as u64) as usize],
            };
            [pick(ttft), (output - 1.0).max(0.0) * pick(tpot)]
        }
        Times::Fixed(spread) => [0.0, time(*spread, rng)],
    }
}

/// The standard normal's 95th percentile.
const Z95: f64 = 1.644_853_6;

fn time(spread: Spread, rng: &mut Rng) -> f64 {
    let sigma = (spread.slow / spread.median).ln().max(0.0) / Z95;
    if spread.median <= 0.0 || sigma <= 0.0 {
        spread.median.max(0.0)
    } else {
        spread.median * (sigma * rng.normal()).exp()
    }
}

fn speed(spread: Spread, rng: &mut Rng) -> f64 {
    let sigma = (spread.median / spread.slow).ln().max(0.0) / Z95;
    spread.median * (sigma * rng.normal()).exp()
}

/// Marks the steps that the end waited for, from the last backwards.
fn mark_critical(chain: &Chain, run: &mut Run) {
    let mut at = run.bars.iter().max_by(|a, b| a.end.total_cmp(&b.end)).map(|bar| bar.step);
    while let Some(step) = at {
        let Some(bar) = run.bars.iter_mut().find(|bar| bar.step == step) else { break };
        bar.critical = true;
        let before = chain.steps[step].after.iter().copied();
        let end = |place: &usize| run.bars.iter().find(|bar| bar.step == *place).map_or(0.0, |bar| bar.end);
        at = before.max_by(|a, b| end(a).total_cmp(&end(b)));
    }
}
