//! The figures of a run.

use tokrate_core::{Span, Tick};

/// A call that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub arrived: Tick,
    pub ttft: Span,
    pub completion: Span,
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    /// Tokens that were expected to be cached, if anybody expected any.
    pub expected_cached: u32,
    /// What it cost with everything that was begun for it, and what of that its hedge cost.
    pub usd: f64,
    pub hedge_usd: f64,
}

/// The figures.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CacheSummary {
    /// Measured calls.
    pub calls: usize,
    /// Time to first token (seconds).
    pub ttft_mean: f64,
    /// Its median.
    pub ttft_p50: f64,
    /// Its 99th percentile.
    pub ttft_p99: f64,
    /// Mean time to the end (seconds).
    pub completion_mean: f64,
    /// Share of prompt tokens that came of a cache.
    pub cached_share: f64,
    /// Share that was expected to.
    pub expected_cached_share: f64,
    /// Cost of a thousand calls (USD).
    pub usd_per_thousand: f64,
    /// What hedges added to the cost, as a share.
    pub hedge_share: f64,
}

impl CacheSummary {
    pub(super) fn of(answered: &[Answered], from: Tick, until: Tick) -> CacheSummary {
        let counted: Vec<&Answered> = answered.iter().filter(|call| (from..until).contains(&call.arrived)).collect();
        let calls = counted.len().max(1) as f64;
        let sum = |of: fn(&Answered) -> f64| counted.iter().map(|call| of(call)).sum::<f64>();
        let mut ttfts: Vec<Span> = counted.iter().map(|call| call.ttft).collect();
        ttfts.sort_unstable();
        let quantile = |share: f64| {
            let rank = (share * ttfts.len() as f64).ceil() as usize;
            ttfts.get(rank.saturating_sub(1)).map_or(f64::NAN, |span| span.as_secs_f64())
        };
        let tokens = sum(|call| f64::from(call.prompt_tokens)).max(1.0);
        let (usd, hedges) = (sum(|call| call.usd), sum(|call| call.hedge_usd));
        CacheSummary {
            calls: counted.len(),
            ttft_mean: sum(|call| call.ttft.as_secs_f64()) / calls,
            ttft_p50: quantile(0.5),
            ttft_p99: quantile(0.99),
            completion_mean: sum(|call| call.completion.as_secs_f64()) / calls,
            cached_share: sum(|call| f64::from(call.cached_tokens)) / tokens,
            expected_cached_share: sum(|call| f64::from(call.expected_cached)) / tokens,
            usd_per_thousand: usd / calls * 1_000.0,
            hedge_share: hedges / (usd - hedges).max(f64::MIN_POSITIVE),
        }
    }

    /// The mean of several runs.
    pub fn mean(all: &[CacheSummary]) -> CacheSummary {
        let of = |value: fn(&CacheSummary) -> f64| all.iter().map(value).sum::<f64>() / all.len().max(1) as f64;
        CacheSummary {
            calls: all.iter().map(|one| one.calls).sum(),
            ttft_mean: of(|one| one.ttft_mean),
            ttft_p50: of(|one| one.ttft_p50),
            ttft_p99: of(|one| one.ttft_p99),
            completion_mean: of(|one| one.completion_mean),
            cached_share: of(|one| one.cached_share),
            expected_cached_share: of(|one| one.expected_cached_share),
            usd_per_thousand: of(|one| one.usd_per_thousand),
            hedge_share: of(|one| one.hedge_share),
        }
    }
}
