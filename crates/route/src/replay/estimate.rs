//! What one call would have met on lanes that were measured near its time: estimates from its neighbours there.
//!
//! It refuses to know policies. Invariant: a lane is estimated from its own attempts and from no other's; the attempts of the call
//! itself are not among its neighbours.

use super::{LoggedAttempt, ReplayConfig};
use crate::lane::{LaneConfig, LaneId};
use crate::pick::CallShape;
use tokrate_core::{FailureKind, Span, Tick};

/// The attempts of each lane, by time.
pub(super) struct Measured<'a> {
    lanes: Vec<Vec<&'a LoggedAttempt>>,
    prices: &'a [LaneConfig],
    config: ReplayConfig,
}

/// What a lane did near a time.
pub(super) struct Neighbours<'a> {
    /// Times to first token (seconds), sorted.
    ttfts: Vec<f64>,
    /// Mean seconds per token, and its variance.
    pace: f64,
    pace_variance: f64,
    /// How often they failed.
    failing: f64,
    price: &'a LaneConfig,
}

/// What a call is estimated to have met.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    pub ttft: f64,
    pub completion: f64,
    pub usd: Option<f64>,
    pub attempts: f64,
    /// Variance of `completion` by the choice of neighbours.
    pub variance: f64,
}

impl<'a> Measured<'a> {
    pub fn new(rows: &'a [LoggedAttempt], prices: &'a [LaneConfig], config: &ReplayConfig) -> Measured<'a> {
        let mut lanes: Vec<Vec<&LoggedAttempt>> = prices.iter().map(|_| Vec::new()).collect();
        for row in rows {
            if let Some(lane) = lanes.get_mut(row.lane.index()) {
                lane.push(row);
            }
        }
        lanes.iter_mut().for_each(|lane| lane.sort_by_key(|row| row.started));
        Measured { lanes, prices, config: *config }
    }

    /// The neighbours of a call on a lane; `None` if they are too few.
    pub fn near(&self, lane: LaneId, now: Tick, call: u64) -> Option<Neighbours<'a>> {
        let rows = self.lanes.get(lane.index())?;
        let begin = rows.partition_point(|row| row.started < now - self.config.near);
        let near = rows[begin..].iter().take_while(|row| row.started <= now + self.config.near);
        let near: Vec<&&LoggedAttempt> = near.filter(|row| row.call != call).collect();
        let mut ttfts: Vec<f64> = near.iter().filter_map(|row| row.ttft).map(Span::as_secs_f64).collect();
        let paces: Vec<f64> = near
            .iter()
            .filter_map(|row| row.output_speed)
            .filter(|speed| *speed > 0.0)
            .map(|speed| 1.0 / speed)
            .collect();
        if ttfts.len().min(paces.len()) < self.config.neighbours_least.max(1) {
            return None;
        }
        ttfts.sort_by(f64::total_cmp);
        let (pace, pace_variance) = mean_and_variance(&paces);
        let failed = near.iter().filter(|row| row.failure.is_some_and(|kind| kind != FailureKind::Cancelled)).count();
        let failing = failed as f64 / near.len() as f64;
        Some(Neighbours { ttfts, pace, pace_variance, failing, price: self.prices.get(lane.index())? })
    }
}

/// All lanes at once; the first token wins, and the losers are billed for their prompts. Of one lane: that lane.
pub(super) fn race(lanes: &[Neighbours<'_>], shape: &CallShape) -> Estimate {
    let mut best = Sum::default();
    for (number, lane) in lanes.iter().enumerate() {
        let others = || lanes.iter().enumerate().filter(|(other, _)| *other != number).map(|(_, other)| other);
        let losers: Option<f64> = others().map(|other| other.price.cost_usd(shape.prompt_tokens, 0)).sum();
        // Every measured time of the lane, as often as it would have been the first of independent draws.
        for &ttft in &lane.ttfts {
            let first: f64 = others().map(|other| share_above(&other.ttfts, ttft)).product();
            best.add(first / lane.ttfts.len() as f64, ttft, lane, shape, losers);
        }
    }
    best.estimate(lanes.len() as f64)
}

/// The first lane, and the second one from the first one's 90th percentile on.
pub(super) fn hedge(lanes: &[Neighbours<'_>], shape: &CallShape) -> Estimate {
    let (first, second) = (&lanes[0], &lanes[1]);
    let [first_prompt, second_prompt] = [first, second].map(|lane| lane.price.cost_usd(shape.prompt_tokens, 0));
    let after = first.ttfts[(first.ttfts.len() * 9).div_ceil(10) - 1];
    let mut best = Sum::default();
    let mut hedged = 0.0;
    let share = 1.0 / first.ttfts.len() as f64;
    for &ttft in &first.ttfts {
        if ttft <= after {
            best.add(share, ttft, first, shape, Some(0.0));
            continue;
        }
        hedged += share;
        let each = share / second.ttfts.len() as f64;
        for &other in &second.ttfts {
            match after + other < ttft {
                true => best.add(each, after + other, second, shape, first_prompt),
                false => best.add(each, ttft, first, shape, second_prompt),
            }
        }
    }
    best.estimate(1.0 + hedged)
}

/// A mean in the making, by shares that come to one.
struct Sum {
    weight: f64,
    ttft: f64,
    completion: f64,
    variance: f64,
    squares: f64,
    usd: Option<f64>,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum { weight: 0.0, ttft: 0.0, completion: 0.0, variance: 0.0, squares: 0.0, usd: Some(0.0) }
    }
}

impl Sum {
    /// An outcome: the lane that answers, and what the losers cost.
    fn add(&mut self, share: f64, ttft: f64, lane: &Neighbours<'_>, shape: &CallShape, losers: Option<f64>) {
        // A call that fails is asked again: as long once more, as often as that happens.
        let again = 1.0 / (1.0 - lane.failing.min(0.95));
        let completion = (ttft + shape.output_tokens * lane.pace) * again;
        self.weight += share;
        self.ttft += share * ttft;
        self.completion += share * completion;
        self.squares += share * completion * completion;
        self.variance += share * lane.pace_variance * shape.output_tokens * shape.output_tokens;
        let own = lane.price.cost_usd(shape.prompt_tokens, shape.output_tokens as u64);
        self.usd = self.usd.zip(own.zip(losers)).map(|(sum, (own, losers))| sum + share * (own + losers));
    }

    fn estimate(&self, attempts: f64) -> Estimate {
        let weight = self.weight.max(f64::MIN_POSITIVE);
        let completion = self.completion / weight;
        let spread = (self.squares / weight - completion * completion).max(0.0);
        let usd = self.usd.map(|usd| usd / weight);
        Estimate { ttft: self.ttft / weight, completion, usd, attempts, variance: spread + self.variance / weight }
    }
}

/// Share of a sorted list above a value; ties count half.
fn share_above(sorted: &[f64], value: f64) -> f64 {
    let below = sorted.partition_point(|other| *other < value);
    let upto = sorted.partition_point(|other| *other <= value);
    let above = sorted.len() - upto;
    (above as f64 + (upto - below) as f64 / 2.0) / sorted.len() as f64
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n)
}
