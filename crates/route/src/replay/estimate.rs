//! What one call would have met on lanes that were measured near its time: estimates from its neighbours there.
//!
//! It refuses to know policies. Invariant: a lane is estimated from its own attempts and from no other's; the attempts of the call
//! itself are not among its neighbours.

use super::{LoggedAttempt, ReplayConfig};
use crate::lane::{LaneConfig, LaneId};
use crate::pick::CallShape;
use tokrate_core::{FailureKind, Tick};

/// The attempts of each lane, by time.
pub(super) struct Measured<'a> {
    /// With the call of the log that each is from, counted from 0.
    lanes: Vec<Vec<(&'a LoggedAttempt, usize)>>,
    prices: &'a [LaneConfig],
    config: ReplayConfig,
}

/// What a lane did near a time.
pub(super) struct Neighbours<'a> {
    /// Those that came to a first token, by their times to it.
    attempts: Vec<Neighbour>,
    /// How often they failed.
    failing: f64,
    price: &'a LaneConfig,
}

/// An attempt that stands for what the call would have met.
#[derive(Clone, Copy)]
pub(super) struct Neighbour {
    /// To the first token (seconds).
    pub ttft: f64,
    /// Seconds per token; the mean of the others where it was not measured.
    pace: f64,
    /// Which call of the log it is from.
    pub unit: usize,
}

/// One thing that a call might have met.
#[derive(Clone, Copy)]
pub(super) struct Met {
    /// To the first token (seconds).
    pub ttft: f64,
    /// To the end, if it does not fail (seconds).
    once: f64,
    failing: f64,
    /// Cost (USD), that of losers included.
    pub usd: Option<f64>,
}

impl Met {
    /// To the end (seconds). A call that fails is asked again: as long once more, as often as that happens.
    pub fn completion(&self) -> f64 {
        self.once / (1.0 - self.failing)
    }

    /// How likely its end is to come by then.
    pub fn share_by(&self, completion: f64) -> f64 {
        let tries = (completion / self.once.max(f64::MIN_POSITIVE)).floor();
        if tries < 1.0 { 0.0 } else { 1.0 - self.failing.powf(tries) }
    }

    /// Times to the end with their shares: of the first try, of the second one, and so on.
    pub fn ends(&self) -> impl Iterator<Item = (f64, f64)> {
        let Met { once, failing, .. } = *self;
        let tries = if failing > 0.0 { TRIES_MOST } else { 1 };
        (0..tries).map(move |tried| {
            let share = failing.powi(tried) * if tried + 1 < tries { 1.0 - failing } else { 1.0 };
            (share, once * f64::from(tried + 1))
        })
    }
}

/// More tries are counted as so many.
const TRIES_MOST: i32 = 12;

impl<'a> Measured<'a> {
    pub fn new(rows: &'a [LoggedAttempt], prices: &'a [LaneConfig], config: &ReplayConfig) -> Measured<'a> {
        let mut lanes: Vec<Vec<(&LoggedAttempt, usize)>> = prices.iter().map(|_| Vec::new()).collect();
        for (unit, call) in rows.chunk_by(|one, other| one.call == other.call).enumerate() {
            for row in call {
                if let Some(lane) = lanes.get_mut(row.lane.index()) {
                    lane.push((row, unit));
                }
            }
        }
        lanes.iter_mut().for_each(|lane| lane.sort_by_key(|(row, _)| row.started));
        Measured { lanes, prices, config: *config }
    }

    /// The neighbours of a call on a lane; `None` if they are too few.
    pub fn near(&self, lane: LaneId, now: Tick, unit: usize) -> Option<Neighbours<'a>> {
        let rows = self.lanes.get(lane.index())?;
        let begin = rows.partition_point(|(row, _)| row.started < now - self.config.near);
        let near = rows[begin..].iter().take_while(|(row, _)| row.started <= now + self.config.near);
        let near: Vec<&(&LoggedAttempt, usize)> = near.filter(|(_, other)| *other != unit).collect();
        let pace = |row: &LoggedAttempt| row.output_speed.filter(|speed| *speed > 0.0).map(|speed| 1.0 / speed);
        let paces: Vec<f64> = near.iter().filter_map(|(row, _)| pace(row)).collect();
        let usual = paces.iter().sum::<f64>() / paces.len() as f64;
        let attempt = |&&(row, unit): &&(&LoggedAttempt, usize)| {
            let ttft = row.ttft?.as_secs_f64();
            Some(Neighbour { ttft, pace: pace(row).unwrap_or(usual), unit })
        };
        let mut attempts: Vec<Neighbour> = near.iter().filter_map(attempt).collect();
        if attempts.len().min(paces.len()) < self.config.neighbours_least.max(1) {
            return None;
        }
        attempts.sort_by(|one, other| one.ttft.total_cmp(&other.ttft));
        let failed = near.iter().filter(|(row, _)| row.failure.is_some_and(|kind| kind != FailureKind::Cancelled));
        let failing = (failed.count() as f64 / near.len() as f64).min(FAILING_MOST);
        Some(Neighbours { attempts, failing, price: self.prices.get(lane.index())? })
    }
}

/// A lane that fails more often than this would never end.
const FAILING_MOST: f64 = 0.95;

impl Neighbours<'_> {
    /// Those that stand for the call.
    pub fn attempts(&self) -> &[Neighbour] {
        &self.attempts
    }

    fn met(&self, neighbour: &Neighbour, ttft: f64, shape: &CallShape, losers: Option<f64>) -> Met {
        let own = self.price.cost_usd(shape.prompt_tokens, shape.output_tokens as u64);
        let usd = own.zip(losers).map(|(own, losers)| own + losers);
        Met { ttft, once: ttft + shape.output_tokens * neighbour.pace, failing: self.failing, usd }
    }

    /// Share of its times to first token that are above a value; ties count half.
    fn share_above(&self, value: f64) -> f64 {
        1.0 - (self.below(value) + self.upto(value)) as f64 / 2.0 / self.attempts.len() as f64
    }

    fn below(&self, value: f64) -> usize {
        self.attempts.partition_point(|other| other.ttft < value)
    }

    fn upto(&self, value: f64) -> usize {
        self.attempts.partition_point(|other| other.ttft <= value)
    }
}

/// How lanes are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// All at once; the first token wins, and the losers are billed for their prompts. Of one lane: that lane.
    Race,
    /// The first one, and the second one from the first one's 90th percentile on.
    Hedge,
}

/// What a call would have met: every outcome with its share, and how many attempts that takes.
pub(super) fn outcomes(way: Way, lanes: &[Neighbours<'_>], shape: &CallShape, visit: &mut dyn FnMut(f64, &Met)) -> f64 {
    match way {
        Way::Race => {
            for (place, lane) in lanes.iter().enumerate() {
                let losers = losers(lanes, place, shape);
                // Every measured time of the lane, as often as it would have been the first of independent draws.
                for neighbour in &lane.attempts {
                    let share = first(lanes, &[place], neighbour.ttft) / lane.attempts.len() as f64;
                    visit(share, &lane.met(neighbour, neighbour.ttft, shape, losers));
                }
            }
            lanes.len() as f64
        }
        Way::Hedge => {
            let (own, other) = (lanes[0].attempts.len() as f64, lanes[1].attempts.len() as f64);
            let hedge = Hedge::new(lanes, shape);
            for neighbour in &lanes[0].attempts[..hedge.alone] {
                visit(1.0 / own, &hedge.quick(neighbour));
            }
            for slow in &lanes[0].attempts[hedge.alone..] {
                for second in &lanes[1].attempts {
                    visit(1.0 / own / other, &hedge.slow(slow, second));
                }
            }
            1.0 + (own - hedge.alone as f64) / own
        }
    }
}

/// For each lane and each of its neighbours: the mean of `value` over all outcomes in which that neighbour is what the lane does.
/// How it differs from neighbour to neighbour is how sure the estimate can be (Hoeffding's projection).
pub(super) fn projections<const N: usize>(
    way: Way,
    lanes: &[Neighbours<'_>],
    shape: &CallShape,
    value: &dyn Fn(&Met) -> [f64; N],
) -> Vec<Vec<[f64; N]>> {
    match way {
        Way::Race => (0..lanes.len()).map(|place| in_race(lanes, place, shape, value)).collect(),
        Way::Hedge => in_hedge(lanes, shape, value),
    }
}

fn in_race<const N: usize>(
    lanes: &[Neighbours<'_>],
    place: usize,
    shape: &CallShape,
    value: &dyn Fn(&Met) -> [f64; N],
) -> Vec<[f64; N]> {
    // For every other lane: what it adds when it is the first, summed up in order of its times.
    let others = (0..lanes.len()).filter(|other| *other != place).map(|other| {
        let (lane, losers) = (&lanes[other], losers(lanes, other, shape));
        let mut sums = vec![[0.0; N]];
        for neighbour in &lane.attempts {
            let share = first(lanes, &[place, other], neighbour.ttft) / lane.attempts.len() as f64;
            let met = value(&lane.met(neighbour, neighbour.ttft, shape, losers));
            let before = sums[sums.len() - 1];
            sums.push(std::array::from_fn(|which| before[which] + share * met[which]));
        }
        (lane, sums)
    });
    let others: Vec<_> = others.collect();
    let losers = losers(lanes, place, shape);
    let projected = |neighbour: &Neighbour| {
        let share = first(lanes, &[place], neighbour.ttft);
        let own = value(&lanes[place].met(neighbour, neighbour.ttft, shape, losers));
        std::array::from_fn(|which| {
            let lost = |(lane, sums): &(&Neighbours<'_>, Vec<[f64; N]>)| {
                (sums[lane.below(neighbour.ttft)][which] + sums[lane.upto(neighbour.ttft)][which]) / 2.0
            };
            share * own[which] + others.iter().map(lost).sum::<f64>()
        })
    };
    lanes[place].attempts.iter().map(projected).collect()
}

fn in_hedge<const N: usize>(
    lanes: &[Neighbours<'_>],
    shape: &CallShape,
    value: &dyn Fn(&Met) -> [f64; N],
) -> Vec<Vec<[f64; N]>> {
    let hedge = Hedge::new(lanes, shape);
    let (own, other) = (lanes[0].attempts.len() as f64, lanes[1].attempts.len() as f64);
    let mut of_first: Vec<[f64; N]> =
        lanes[0].attempts[..hedge.alone].iter().map(|quick| value(&hedge.quick(quick))).collect();
    let alone: [f64; N] = std::array::from_fn(|which| of_first.iter().map(|value| value[which]).sum::<f64>() / own);
    let mut of_second = vec![alone; lanes[1].attempts.len()];
    for slow in &lanes[0].attempts[hedge.alone..] {
        let mut mean = [0.0; N];
        for (second, sum) in lanes[1].attempts.iter().zip(&mut of_second) {
            let met = value(&hedge.slow(slow, second));
            for which in 0..N {
                mean[which] += met[which] / other;
                sum[which] += met[which] / own;
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
    /// So many of the first lane's neighbours need no second lane.
    alone: usize,
    /// When the second one begins (seconds).
    after: f64,
}

impl<'a> Hedge<'a> {
    fn new(lanes: &'a [Neighbours<'a>], shape: &'a CallShape) -> Hedge<'a> {
        let first = &lanes[0];
        let after = first.attempts[(first.attempts.len() * 9).div_ceil(10) - 1].ttft;
        Hedge { lanes, shape, alone: first.upto(after), after }
    }

    fn quick(&self, neighbour: &Neighbour) -> Met {
        self.lanes[0].met(neighbour, neighbour.ttft, self.shape, Some(0.0))
    }

    fn slow(&self, slow: &Neighbour, second: &Neighbour) -> Met {
        let (winner, neighbour, ttft) = match self.after + second.ttft < slow.ttft {
            true => (1, second, self.after + second.ttft),
            false => (0, slow, slow.ttft),
        };
        self.lanes[winner].met(neighbour, ttft, self.shape, losers(self.lanes, winner, self.shape))
    }
}

/// What the lanes cost that do not answer: their prompts.
fn losers(lanes: &[Neighbours<'_>], winner: usize, shape: &CallShape) -> Option<f64> {
    let others = lanes.iter().enumerate().filter(|(place, _)| *place != winner);
    others.map(|(_, lane)| lane.price.cost_usd(shape.prompt_tokens, 0)).sum()
}

/// How likely a first token is the first of all lanes but these.
fn first(lanes: &[Neighbours<'_>], but: &[usize], ttft: f64) -> f64 {
    let others = lanes.iter().enumerate().filter(|(place, _)| !but.contains(place));
    others.map(|(_, lane)| lane.share_above(ttft)).product()
}

#[cfg(test)]
mod tests;
