//! Signs of saturation that need no fitted model.
//!
//! Invariant: each sign names the load from which it holds and the two values compared.

use super::LoadLevel;
use serde::{Deserialize, Serialize};

/// Marginal throughput per unit of load, relative to the first level, below which more load no longer pays.
pub const MARGINAL_SHARE: f64 = 0.10;
/// Throughput growth between levels below which it counts as flat.
pub const PLATEAU_GROWTH: f64 = 0.05;
/// TTFT growth from which a queue is assumed while throughput is flat.
pub const QUEUE_GROWTH: f64 = 0.25;
/// Rise in the share of rejected or failed requests, over the first level, that counts as a sign.
pub const REFUSAL_RISE: f64 = 0.05;
/// Fewest rejected or failed requests that count as a sign.
pub const REFUSAL_FLOOR: u64 = 5;

/// The kinds of sign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SignKind {
    /// More load adds less than a tenth of the throughput per unit that the first level had, and stays so.
    MarginalThroughput,
    /// TTFT rises while throughput is flat: requests queue.
    Queueing,
    /// The provider rate-limits.
    RateLimited,
    /// Requests fail.
    Failures,
}

/// One sign of saturation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SaturationSign {
    /// What was seen.
    pub kind: SignKind,
    /// The last load before it: more load than this shows the sign.
    pub from: f64,
    /// What was seen: share of the first level's throughput per unit, growth of TTFT, or share of requests.
    pub seen: f64,
    /// What it is compared with.
    pub limit: f64,
}

/// Every sign in the levels, which are sorted by load; at most one of each kind, the one at the lowest load.
pub(super) fn signs(levels: &[LoadLevel]) -> Vec<SaturationSign> {
    [marginal(levels), queueing(levels), refusals(levels, SignKind::RateLimited), refusals(levels, SignKind::Failures)]
        .into_iter()
        .flatten()
        .filter(|sign| sign.seen.is_finite())
        .collect()
}

fn marginal(levels: &[LoadLevel]) -> Option<SaturationSign> {
    let known: Vec<(f64, f64)> = levels.iter().filter_map(|l| Some((l.load, l.throughput?.value))).collect();
    let &(load, throughput) = known.first()?;
    let base = throughput / load;
    let shares: Vec<(f64, f64)> = known
        .windows(2)
        .filter(|pair| pair[1].0 > pair[0].0)
        .map(|pair| (pair[0].0, (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0) / base))
        .collect();
    // A single poor level amid growth is noise: the sign must hold up to the last level.
    let paying = shares.iter().rposition(|&(_, share)| share.is_nan() || share >= MARGINAL_SHARE);
    let &(from, seen) = shares.get(paying.map_or(0, |last| last + 1))?;
    (base > 0.0).then_some(SaturationSign { kind: SignKind::MarginalThroughput, from, seen, limit: MARGINAL_SHARE })
}

fn queueing(levels: &[LoadLevel]) -> Option<SaturationSign> {
    levels.windows(2).find_map(|pair| {
        let grown = |of: fn(&LoadLevel) -> Option<f64>| {
            let (before, after) = (of(&pair[0])?, of(&pair[1])?);
            (before > 0.0).then_some(after / before - 1.0)
        };
        let throughput = grown(|level| level.throughput.map(|x| x.value))?;
        let ttft = grown(|level| level.ttft.map(|x| x.value))?;
        let queues = pair[1].load > pair[0].load && throughput < PLATEAU_GROWTH && ttft >= QUEUE_GROWTH;
        let sign = SaturationSign { kind: SignKind::Queueing, from: pair[0].load, seen: ttft, limit: QUEUE_GROWTH };
        queues.then_some(sign)
    })
}

fn refusals(levels: &[LoadLevel], kind: SignKind) -> Option<SaturationSign> {
    let count = |level: &LoadLevel| if kind == SignKind::RateLimited { level.rate_limited } else { level.failures };
    let share = |level: &LoadLevel| (level.requests > 0).then(|| count(level) as f64 / level.requests as f64);
    let limit = share(levels.first()?)? + REFUSAL_RISE;
    levels.windows(2).find_map(|pair| {
        let seen = share(&pair[1])?;
        let risen = seen >= limit && count(&pair[1]) >= REFUSAL_FLOOR;
        risen.then_some(SaturationSign { kind, from: pair[0].load, seen, limit })
    })
}
