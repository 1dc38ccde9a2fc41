//! What comes after the listed levels: resolved from flags.
//!
//! Invariant: what needs an objective or a level is refused without one.

use crate::flags::bench::{Axis as AxisFlag, Flags, Workload};
use anyhow::{Result, ensure};
use tokrate_bench::plan::{Load, PhaseSpec};
use tokrate_bench::schedule::{Axis, ScheduleMode, Search};
use tokrate_judge::Slo;

const CONCURRENCY_MOST: f64 = 256.0;
const RATE_MOST: f64 = 100.0;
const SYSTEM_MOST: f64 = 1024.0;
const REQUESTS_MOST: u64 = 2_000;
const SHARE: f64 = 0.95;
/// More levels than this are a sweep.
const REFINE_MOST: u32 = 50;

pub(super) fn agenda(flags: &Flags, phases: &[PhaseSpec], slos: &[Slo]) -> Result<ScheduleMode> {
    let load = &flags.load;
    let system = flags.request.workload.contains(&Workload::System);
    ensure!(
        load.max_load.is_none() || load.search.is_some() || system,
        "read --max-load: it bounds a search or the system workload; give --search or --workload system too"
    );
    let most = |default: f64| {
        let most = load.max_load.unwrap_or(default);
        ensure!(
            most.is_finite() && most > 0.0 && most <= 1e6,
            "read --max-load: {most} is not between 0 and 1,000,000"
        );
        Ok(most)
    };
    if let Some(axis) = load.search {
        ensure!(!slos.is_empty(), "read --search: say what a good request keeps, such as --slo 'ttft_ms<500'");
        ensure!(!system, "read --workload system: it lists levels of its own; --search finds them");
        let share = load.slo_share.unwrap_or(SHARE);
        ensure!(share > 0.0 && share < 1.0, "read --slo-share: {share} is not between 0 and 1, such as 0.95");
        let (axis, most) = match axis {
            AxisFlag::Concurrency => (Axis::Concurrency, most(CONCURRENCY_MOST)?.floor()),
            AxisFlag::Rate => (Axis::Rate, most(RATE_MOST)?),
        };
        ensure!(axis == Axis::Rate || most >= 1.0, "read --max-load: concurrency is at least 1");
        let requests_most = load.max_requests.unwrap_or(REQUESTS_MOST);
        ensure!(requests_most > 0, "read --max-requests: at least one request is needed");
        let search = Search { axis, share, max_load: most, max_requests: requests_most };
        if let Some(lowest) = phases.first().map(|phase| search.min_load(phase)) {
            ensure!(
                lowest <= most,
                "read --search rate: a rate is measured for ten minutes at most, and the requests that a verdict needs take longer at \
                 {most} req/s; raise --max-load to {lowest} or more, ask for a lower --slo-share or fewer --requests, or measure one rate \
                 with --rate"
            );
        }
        return Ok(ScheduleMode::Search(search));
    }
    if system {
        let other = load.concurrency.is_some() || phases.iter().any(|phase| !matches!(phase.load, Load::Closed { .. }));
        ensure!(!other && load.refine.is_none(), "read --workload system: it lists levels of its own");
        return Ok(ScheduleMode::System { max_concurrency: most(SYSTEM_MOST)?.max(1.0) as u32 });
    }
    let Some(most) = load.refine else { return Ok(ScheduleMode::Listed) };
    ensure!((1..=REFINE_MOST).contains(&most), "read --refine: {most} is not between 1 and {REFINE_MOST}");
    let level = |phase: &PhaseSpec| matches!(phase.load, Load::Closed { .. } | Load::Open { .. });
    ensure!(
        phases.len() > 1 && phases.iter().all(level),
        "read --refine: it adds levels to a sweep; give several to --concurrency or --rate"
    );
    Ok(ScheduleMode::Refine { max_levels: most })
}
