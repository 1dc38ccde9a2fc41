//! Estimates one call on a lane from the attempts that were measured there around the same time (its neighbours).
//!
//! Invariant: a lane is estimated from its own attempts only; the attempts of the call itself are not among its neighbours.

use super::{LoggedAttempt, ReplayConfig};
use crate::lane::{LaneConfig, LaneId};
use crate::pick::CallShape;
use tokrate_core::{BilledTokens, FailureKind, Tick};

/// The attempts of each lane, by time.
pub(super) struct LaneHistories<'a> {
    /// Attempts with the index of their call in the log.
    lanes: Vec<Vec<(&'a LoggedAttempt, usize)>>,
    prices: &'a [LaneConfig],
    config: ReplayConfig,
}

/// Attempts of a lane near the time of a call.
pub(super) struct Neighbours<'a> {
    /// Attempts with a first token, sorted by it.
    attempts: Vec<Neighbour>,
    /// Share of failed attempts.
    failure_rate: f64,
    price: &'a LaneConfig,
}

/// An attempt that stands for the call.
#[derive(Clone, Copy)]
pub(super) struct Neighbour {
    /// Time to first token (seconds).
    pub ttft: f64,
    /// Seconds per token; the mean of the others if it was not measured.
    tpot: f64,
    /// Index of its call in the log.
    pub call_index: usize,
}

/// One possible outcome of a call.
#[derive(Clone, Copy)]
pub(super) struct PossibleOutcome {
    /// To the first token (seconds).
    pub ttft: f64,
    /// Completion time of one try without a failure (seconds).
    per_try: f64,
    failure_rate: f64,
    /// Cost (USD), losers included.
    pub usd: Option<f64>,
}

impl PossibleOutcome {
    /// Expected completion time (seconds). A failed try is repeated and takes as long again.
    pub fn completion(&self) -> f64 {
        self.per_try / (1.0 - self.failure_rate)
    }

    /// Probability that it has completed by then.
    pub fn probability_by(&self, completion: f64) -> f64 {
        let tries = (completion / self.per_try.max(f64::MIN_POSITIVE)).floor();
        if tries < 1.0 { 0.0 } else { 1.0 - self.failure_rate.powf(tries) }
    }

    /// Completion times with their probabilities: of the first try, the second one, and so on.
    pub fn completion_times(&self) -> impl Iterator<Item = (f64, f64)> {
        let PossibleOutcome { per_try, failure_rate, .. } = *self;
        let tries = if failure_rate > 0.0 { MAX_TRIES } else { 1 };
        (0..tries).map(move |tried| {
            let share = failure_rate.powi(tried) * if tried + 1 < tries { 1.0 - failure_rate } else { 1.0 };
            (share, per_try * f64::from(tried + 1))
        })
    }
}

/// Further tries are counted as this one, to bound the work; at a failure rate of 50 % they have a probability of
/// 0.0005.
const MAX_TRIES: i32 = 12;

impl<'a> LaneHistories<'a> {
    pub fn new(rows: &'a [LoggedAttempt], prices: &'a [LaneConfig], config: &ReplayConfig) -> LaneHistories<'a> {
        let mut lanes: Vec<Vec<(&LoggedAttempt, usize)>> = prices.iter().map(|_| Vec::new()).collect();
        for (call_index, call) in rows.chunk_by(|one, other| one.call == other.call).enumerate() {
            for row in call {
                if let Some(lane) = lanes.get_mut(row.lane.index()) {
                    lane.push((row, call_index));
                }
            }
        }
        lanes.iter_mut().for_each(|lane| lane.sort_by_key(|(row, _)| row.started));
        LaneHistories { lanes, prices, config: *config }
    }

    /// The neighbours of a call on a lane; `None` if there are too few.
    pub fn near(&self, lane: LaneId, now: Tick, call_index: usize) -> Option<Neighbours<'a>> {
        let rows = self.lanes.get(lane.index())?;
        let begin = rows.partition_point(|(row, _)| row.started < now - self.config.window);
        let near = rows[begin..].iter().take_while(|(row, _)| row.started <= now + self.config.window);
        let near: Vec<&(&LoggedAttempt, usize)> = near.filter(|(_, other)| *other != call_index).collect();
        let tpot = |row: &LoggedAttempt| row.output_speed.filter(|speed| *speed > 0.0).map(|speed| 1.0 / speed);
        let tpots: Vec<f64> = near.iter().filter_map(|(row, _)| tpot(row)).collect();
        let mean_tpot = tpots.iter().sum::<f64>() / tpots.len() as f64;
        let attempt = |&&(row, call_index): &&(&LoggedAttempt, usize)| {
            let ttft = row.ttft?.as_secs_f64();
            Some(Neighbour { ttft, tpot: tpot(row).unwrap_or(mean_tpot), call_index })
        };
        let mut attempts: Vec<Neighbour> = near.iter().filter_map(attempt).collect();
        if attempts.len().min(tpots.len()) < self.config.min_neighbours.max(1) {
            return None;
        }
        attempts.sort_by(|one, other| one.ttft.total_cmp(&other.ttft));
        let failed = near.iter().filter(|(row, _)| row.failure.is_some_and(|kind| kind != FailureKind::Cancelled));
        let failure_rate = (failed.count() as f64 / near.len() as f64).min(MAX_FAILURE_RATE);
        Some(Neighbours { attempts, failure_rate, price: self.prices.get(lane.index())? })
    }
}

/// Limit of the failure rate: with a higher one the expected number of tries explodes.
const MAX_FAILURE_RATE: f64 = 0.95;

impl Neighbours<'_> {
    /// The attempts that stand for the call.
    pub fn attempts(&self) -> &[Neighbour] {
        &self.attempts
    }

    fn outcome(&self, neighbour: &Neighbour, ttft: f64, shape: &CallShape, losers: Option<f64>) -> PossibleOutcome {
        let own = cost_usd(self.price, shape.prompt_tokens, shape.output_tokens as u64);
        let usd = own.zip(losers).map(|(own, losers)| own + losers);
        PossibleOutcome {
            ttft,
            per_try: ttft + shape.output_tokens * neighbour.tpot,
            failure_rate: self.failure_rate,
            usd,
        }
    }

    /// Share of its times to first token above a value; ties count half.
    fn share_above(&self, value: f64) -> f64 {
        1.0 - (self.count_below(value) + self.count_up_to(value)) as f64 / 2.0 / self.attempts.len() as f64
    }

    fn count_below(&self, value: f64) -> usize {
        self.attempts.partition_point(|other| other.ttft < value)
    }

    fn count_up_to(&self, value: f64) -> usize {
        self.attempts.partition_point(|other| other.ttft <= value)
    }
}

/// How the lanes of a call are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strategy {
    /// All at once; the first token wins and losers are billed for their prompts. With one lane: that lane.
    Race,
    /// The first lane, and the second from the 90th percentile of the first on.
    Hedge,
}

/// Visits every outcome of a call with its probability; returns the expected number of attempts.
pub(super) fn outcomes(
    strategy: Strategy,
    lanes: &[Neighbours<'_>],
    shape: &CallShape,
    visit: &mut dyn FnMut(f64, &PossibleOutcome),
) -> f64 {
    match strategy {
        Strategy::Race => {
            for (place, lane) in lanes.iter().enumerate() {
                let losers = losers_cost(lanes, place, shape);
                // Every measured time of the lane, weighted by the probability that it is the first of independent
                // draws.
                for neighbour in &lane.attempts {
                    let share = probability_first(lanes, &[place], neighbour.ttft) / lane.attempts.len() as f64;
                    visit(share, &lane.outcome(neighbour, neighbour.ttft, shape, losers));
                }
            }
            lanes.len() as f64
        }
        Strategy::Hedge => {
            let (own, other) = (lanes[0].attempts.len() as f64, lanes[1].attempts.len() as f64);
            let hedge = Hedge::new(lanes, shape);
            for neighbour in &lanes[0].attempts[..hedge.unhedged] {
                visit(1.0 / own, &hedge.without_hedge(neighbour));
            }
            for slow in &lanes[0].attempts[hedge.unhedged..] {
                for second in &lanes[1].attempts {
                    visit(1.0 / own / other, &hedge.with_hedge(slow, second));
                }
            }
            1.0 + (own - hedge.unhedged as f64) / own
        }
    }
}

/// For each neighbour of each lane, the mean of `value` over all outcomes in which the lane behaves like that neighbour
/// (Hoeffding projection). Their variation gives the uncertainty of the estimate.
pub(super) fn projections<const N: usize>(
    strategy: Strategy,
    lanes: &[Neighbours<'_>],
    shape: &CallShape,
    value: &dyn Fn(&PossibleOutcome) -> [f64; N],
) -> Vec<Vec<[f64; N]>> {
    match strategy {
        Strategy::Race => (0..lanes.len()).map(|place| in_race(lanes, place, shape, value)).collect(),
        Strategy::Hedge => in_hedge(lanes, shape, value),
    }
}

fn in_race<const N: usize>(
    lanes: &[Neighbours<'_>],
    place: usize,
    shape: &CallShape,
    value: &dyn Fn(&PossibleOutcome) -> [f64; N],
) -> Vec<[f64; N]> {
    // For every other lane: cumulative contributions when it is first, sorted by time.
    let others = (0..lanes.len()).filter(|other| *other != place).map(|other| {
        let (lane, losers) = (&lanes[other], losers_cost(lanes, other, shape));
        let mut sums = vec![[0.0; N]];
        for neighbour in &lane.attempts {
            let share = probability_first(lanes, &[place, other], neighbour.ttft) / lane.attempts.len() as f64;
            let outcome = value(&lane.outcome(neighbour, neighbour.ttft, shape, losers));
            let before = sums[sums.len() - 1];
            sums.push(std::array::from_fn(|which| before[which] + share * outcome[which]));
        }
        (lane, sums)
    });
    let others: Vec<_> = others.collect();
    let losers = losers_cost(lanes, place, shape);
    let projected = |neighbour: &Neighbour| {
        let share = probability_first(lanes, &[place], neighbour.ttft);
        let own = value(&lanes[place].outcome(neighbour, neighbour.ttft, shape, losers));
        std::array::from_fn(|which| {
            let lost = |(lane, sums): &(&Neighbours<'_>, Vec<[f64; N]>)| {
                (sums[lane.count_below(neighbour.ttft)][which] + sums[lane.count_up_to(neighbour.ttft)][which]) / 2.0
            };
            share * own[which] + others.iter().map(lost).sum::<f64>()
        })
    };
    lanes[place].attempts.iter().map(projected).collect()
}

fn in_hedge<const N: usize>(
    lanes: &[Neighbours<'_>],
    shape: &CallShape,
    value: &dyn Fn(&PossibleOutcome) -> [f64; N],
) -> Vec<Vec<[f64; N]>> {
    let hedge = Hedge::new(lanes, shape);
    let (own, other) = (lanes[0].attempts.len() as f64, lanes[1].attempts.len() as f64);
    let mut of_first: Vec<[f64; N]> =
        lanes[0].attempts[..hedge.unhedged].iter().map(|quick| value(&hedge.without_hedge(quick))).collect();
    let unhedged: [f64; N] = std::array::from_fn(|which| of_first.iter().map(|value| value[which]).sum::<f64>() / own);
    let mut of_second = vec![unhedged; lanes[1].attempts.len()];
    for slow in &lanes[0].attempts[hedge.unhedged..] {
        let mut mean = [0.0; N];
        for (second, sum) in lanes[1].attempts.iter().zip(&mut of_second) {
            let outcome = value(&hedge.with_hedge(slow, second));
            for which in 0..N {
                mean[which] += outcome[which] / other;
                sum[which] += outcome[which] / own;
            }
        }
        of_first.push(mean);
    }
    vec![of_first, of_second]
}

/// A hedge between two lanes.
struct Hedge<'a> {
    lanes: &'a [Neighbours<'a>],
    shape: &'a CallShape,
    /// Neighbours of the first lane that need no hedge.
    unhedged: usize,
    /// When the hedge starts (seconds).
    after: f64,
}

impl<'a> Hedge<'a> {
    fn new(lanes: &'a [Neighbours<'a>], shape: &'a CallShape) -> Hedge<'a> {
        let first = &lanes[0];
        let after = first.attempts[(first.attempts.len() * 9).div_ceil(10) - 1].ttft;
        Hedge { lanes, shape, unhedged: first.count_up_to(after), after }
    }

    fn without_hedge(&self, neighbour: &Neighbour) -> PossibleOutcome {
        self.lanes[0].outcome(neighbour, neighbour.ttft, self.shape, Some(0.0))
    }

    fn with_hedge(&self, slow: &Neighbour, second: &Neighbour) -> PossibleOutcome {
        let (winner, neighbour, ttft) = match self.after + second.ttft < slow.ttft {
            true => (1, second, self.after + second.ttft),
            false => (0, slow, slow.ttft),
        };
        self.lanes[winner].outcome(neighbour, ttft, self.shape, losers_cost(self.lanes, winner, self.shape))
    }
}

/// Cost of the lanes that lose: their prompts.
fn losers_cost(lanes: &[Neighbours<'_>], winner: usize, shape: &CallShape) -> Option<f64> {
    let others = lanes.iter().enumerate().filter(|(place, _)| *place != winner);
    others.map(|(_, lane)| cost_usd(lane.price, shape.prompt_tokens, 0)).sum()
}

/// What these tokens cost, none of them from a cache: the prices of a replay are those of calls that used none.
fn cost_usd(lane: &LaneConfig, input: u64, output: u64) -> Option<f64> {
    Some(lane.price?.cost(BilledTokens { input, output, ..BilledTokens::default() }).as_usd())
}

/// Probability that this time to first token beats all lanes except the listed ones.
fn probability_first(lanes: &[Neighbours<'_>], but: &[usize], ttft: f64) -> f64 {
    let others = lanes.iter().enumerate().filter(|(place, _)| !but.contains(place));
    others.map(|(_, lane)| lane.share_above(ttft)).product()
}

#[cfg(test)]
mod tests;
