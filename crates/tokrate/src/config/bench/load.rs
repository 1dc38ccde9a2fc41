//! How requests arrive: resolved from flags and settings file.

use super::pick_text;
use crate::config::file::File;
use crate::config::quantity;
use crate::flags::bench as flags;
use anyhow::{Context, Result, ensure};
use tokrate_bench::plan::{Arrivals, Extent, Load, PhaseSpec};
use tokrate_core::{RequestsPerSecond, Span};

/// Concurrency levels of a sweep when none are given.
const DEFAULT_SWEEP: [u32; 4] = [1, 10, 25, 50];
/// Time per level against the embedded engine when nothing else is asked for.
const EMBEDDED_LEVEL: Span = Span::from_secs(8);
/// More requests in flight than any machine that runs this carries.
const CONCURRENCY_MOST: u32 = 100_000;

pub(super) fn phases(flags: &flags::Load, file: &File, embedded: bool) -> Result<Vec<PhaseSpec>> {
    let bench = &file.bench;
    let duration = pick_text("--duration", &flags.duration, None, file, "duration", &bench.duration)
        .map(|duration| duration.parse(|text| quantity::span(&text)))
        .transpose()?
        .map(|duration| duration.value)
        .filter(|_| flags.requests.is_none());
    ensure!(
        duration.is_none_or(|duration| !duration.is_zero()),
        "read --duration: a level needs some time; write for example 30s"
    );
    let requests = flags.requests.or(bench.requests);
    ensure!(requests != Some(0), "read --requests: at least one request is needed");
    let warmup = flags.warmup.or(bench.warmup);
    if let Some(rates) = &flags.rate {
        return rates.iter().map(|&rate| open_phase(flags, rate, duration, requests, warmup)).collect();
    }
    let levels =
        flags.concurrency.clone().or_else(|| bench.concurrency.clone()).unwrap_or_else(|| DEFAULT_SWEEP.to_vec());
    ensure!(!levels.is_empty(), "read --concurrency: name at least one level");
    levels
        .into_iter()
        .map(|concurrency| {
            ensure!(
                (1..=CONCURRENCY_MOST).contains(&concurrency),
                "read --concurrency: {concurrency} is not between 1 and {CONCURRENCY_MOST}"
            );
            let extent = match (duration, requests) {
                (Some(duration), _) => Extent::Duration(duration),
                (None, Some(requests)) => Extent::Requests(requests),
                (None, None) if embedded => Extent::Duration(EMBEDDED_LEVEL),
                (None, None) => Extent::Requests(u64::from(concurrency * 3).max(20)),
            };
            Ok(PhaseSpec {
                load: Load::Closed { concurrency },
                extent,
                warmup: warmup.unwrap_or(u64::from(concurrency)),
            })
        })
        .collect()
}

fn open_phase(
    flags: &flags::Load,
    rate: f64,
    duration: Option<Span>,
    requests: Option<u64>,
    warmup: Option<u64>,
) -> Result<PhaseSpec> {
    let rate = RequestsPerSecond::new(rate)
        .filter(|rate| rate.per_second() > 0.0 && rate.per_second() <= 1e6)
        .with_context(|| format!("read --rate: {rate} is not a rate between 0 and 1,000,000 requests per second"))?;
    let arrivals = match flags.arrivals.unwrap_or(flags::Arrivals::Poisson) {
        flags::Arrivals::Constant => Arrivals::Constant,
        flags::Arrivals::Poisson => Arrivals::Poisson,
    };
    let extent = match (duration, requests) {
        (Some(duration), _) => Extent::Duration(duration),
        (None, Some(requests)) => Extent::Requests(requests),
        (None, None) => Extent::Duration(Span::from_secs(30)),
    };
    let in_flight_limit = flags.max_in_flight.unwrap_or(4096);
    ensure!(in_flight_limit > 0, "read --max-in-flight: with 0 every arrival would be forfeited; give at least 1");
    let load = Load::Open { rate, arrivals, in_flight_limit };
    Ok(PhaseSpec { load, extent, warmup: warmup.unwrap_or(0) })
}
