//! Summary figures of a fleet run.
//!
//! Invariant: only calls that arrived in the measured window count; failed calls count as failures and not in the times.

use super::calls::{CallEnd, CallRecord};
use super::world::FleetHistory;
use tokrate_core::Span;
use tokrate_route::Role;

/// Summary figures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// Measured calls.
    pub calls: usize,
    /// Measured calls without a complete answer.
    pub failed: usize,
    /// Mean time from arrival to the end of a complete answer (seconds).
    pub completion_mean: f64,
    /// Its median.
    pub completion_p50: f64,
    /// Its 99th percentile.
    pub completion_p99: f64,
    /// Median time from arrival to the first token (seconds).
    pub ttft_p50: f64,
    /// 99th percentile of it.
    pub ttft_p99: f64,
    /// Attempts that were neither the first nor a failover, per call.
    pub extra_share: f64,
    /// Cost per thousand calls as computed by the gateway, over the whole run (USD).
    pub usd_per_thousand: f64,
    /// The same as computed from the engines.
    pub ledger_usd_per_thousand: f64,
}

impl Summary {
    /// Computes the figures of a history.
    pub fn of(history: &FleetHistory) -> Summary {
        let counted: Vec<&CallRecord> =
            history.calls.iter().filter(|call| call.arrived >= history.measured_from).collect();
        let whole = || counted.iter().filter(|call| call.end == CallEnd::Whole);
        let mut completions: Vec<Span> = whole().map(|call| call.completion).collect();
        let mut ttfts: Vec<Span> = whole().filter_map(|call| call.ttft).collect();
        completions.sort_unstable();
        ttfts.sort_unstable();
        let seconds: f64 = completions.iter().map(|span| span.as_secs_f64()).sum();
        let extra = counted.iter().flat_map(|call| &call.attempts);
        let extra = extra.filter(|attempt| matches!(attempt.role, Role::Hedge | Role::Race)).count();
        let thousands = history.calls.len().max(1) as f64 / 1_000.0;
        let usd: f64 = history.calls.iter().flat_map(|call| &call.attempts).map(|attempt| attempt.usd).sum();
        let ledger: f64 = history.ledgers.iter().map(|ledger| ledger.usd).sum();
        Summary {
            calls: counted.len(),
            failed: counted.len() - completions.len(),
            completion_mean: seconds / completions.len().max(1) as f64,
            completion_p50: quantile(&completions, 0.5),
            completion_p99: quantile(&completions, 0.99),
            ttft_p50: quantile(&ttfts, 0.5),
            ttft_p99: quantile(&ttfts, 0.99),
            extra_share: extra as f64 / counted.len().max(1) as f64,
            usd_per_thousand: usd / thousands,
            ledger_usd_per_thousand: ledger / thousands,
        }
    }
}

/// The nearest rank, in seconds; NaN of nothing.
fn quantile(sorted: &[Span], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).map_or(f64::NAN, |span| span.as_secs_f64())
}
