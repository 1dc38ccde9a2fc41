//! Which levels come after those that are listed: resolved from flags.
//!
//! Invariant: what needs an objective or a level is refused without one.

use crate::flags::bench::{Axis as AxisFlag, Flags, Workload};
use anyhow::{Result, ensure};
use tokrate_bench::plan::{Load, PhaseSpec};
use tokrate_bench::schedule::{Axis, ScheduleMode, Search};
use tokrate_judge::Slo;

/// Highest load of a search or of the system workload, where `--max-load` names none.
const DEFAULT_MAX_CONCURRENCY: f64 = 256.0;
const DEFAULT_MAX_RATE: f64 = 100.0;
const DEFAULT_MAX_SYSTEM_CONCURRENCY: f64 = 1024.0;
/// Requests after which a search, or a run until something is known, does not measure a level again.
pub(super) const DEFAULT_MAX_REQUESTS: u64 = 2_000;
/// Share of requests that must keep the objectives.
const DEFAULT_SLO_SHARE: f64 = 0.95;
/// More levels than this are a sweep.
const MAX_REFINE_LEVELS: u32 = 50;

/// `percentile` is the share that the objectives name themselves.
pub(super) fn schedule_mode(
    flags: &Flags,
    phases: &[PhaseSpec],
    slos: &[Slo],
    percentile: Option<f64>,
) -> Result<ScheduleMode> {
    let load = &flags.load;
    let system = flags.request.workload.contains(&Workload::System);
    ensure!(
        load.max_load.is_none() || load.search.is_some() || system,
        "read --max-load: it bounds a search or the system workload; give --search or --workload system too"
    );
    let max_load = |default: f64| {
        let max_load = load.max_load.unwrap_or(default);
        ensure!(
            max_load.is_finite() && max_load > 0.0 && max_load <= 1e6,
            "read --max-load: {max_load} is not above 0 and at most 1,000,000"
        );
        Ok(max_load)
    };
    if let Some(axis) = load.search {
        ensure!(!slos.is_empty(), "read --search: say what a good request keeps, such as --slo 'ttft_ms<500'");
        ensure!(!system, "read --workload system: it lists levels of its own; --search finds them");
        let share = load.slo_share.or(percentile).unwrap_or(DEFAULT_SLO_SHARE);
        ensure!(
            share > 0.0 && share < 1.0,
            "read --slo-share: {share} is not above 0 and below 1; write for example 95%"
        );
        let (axis, max_load) = match axis {
            AxisFlag::Concurrency => (Axis::Concurrency, max_load(DEFAULT_MAX_CONCURRENCY)?.floor()),
            AxisFlag::Rate => (Axis::Rate, max_load(DEFAULT_MAX_RATE)?),
        };
        ensure!(axis == Axis::Rate || max_load >= 1.0, "read --max-load: concurrency is at least 1");
        let max_requests = load.max_requests.unwrap_or(DEFAULT_MAX_REQUESTS);
        ensure!(max_requests > 0, "read --max-requests: at least one request is needed");
        let search = Search { axis, share, max_load, max_requests };
        if let Some(lowest) = phases.first().map(|phase| search.min_load(phase)) {
            ensure!(
                lowest <= max_load,
                "read --search rate: a rate is measured for ten minutes at most, and the requests that a verdict needs take longer at \
                 {max_load} req/s; raise --max-load to {lowest} or more, ask for a lower --slo-share or fewer --requests, or measure one rate \
                 with --rate"
            );
        }
        return Ok(ScheduleMode::Search(search));
    }
    if system {
        let other = load.concurrency.is_some() || phases.iter().any(|phase| !matches!(phase.load, Load::Closed { .. }));
        ensure!(!other && load.refine.is_none(), "read --workload system: it lists levels of its own");
        return Ok(ScheduleMode::System { max_concurrency: max_load(DEFAULT_MAX_SYSTEM_CONCURRENCY)?.max(1.0) as u32 });
    }
    let Some(max_levels) = load.refine else { return Ok(ScheduleMode::Listed) };
    ensure!(
        (1..=MAX_REFINE_LEVELS).contains(&max_levels),
        "read --refine: {max_levels} is not between 1 and {MAX_REFINE_LEVELS}"
    );
    let level = |phase: &PhaseSpec| matches!(phase.load, Load::Closed { .. } | Load::Open { .. });
    ensure!(
        phases.len() > 1 && phases.iter().all(level),
        "read --refine: it adds levels to a sweep; give several to --concurrency or --rate"
    );
    Ok(ScheduleMode::Refine { max_levels })
}
