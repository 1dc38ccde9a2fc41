//! Which figures of a phase the client's own error could have moved beyond their tolerance.
//!
//! Invariant: every figure is judged separately.

use super::{Load, PhaseInput, Throughput};
use crate::metric::Metric;
use tokrate_meter::mean;
use tokrate_meter::request::RequestNumbers;
use tokrate_meter::{ClientError, FigureValidity};
use tokrate_stats::{Distribution, Level, Quantile};

/// Figures whose validity is judged.
struct PhaseFigures<'a> {
    ttft: &'a Distribution,
    itl: &'a Distribution,
    tpot: &'a Distribution,
    e2e: &'a Distribution,
    throughput: Option<&'a Throughput>,
    measured: &'a [&'a RequestNumbers],
}

/// The client's error with the lag of this phase and the verdict on its figures; a lag alone makes none invalid. The distributions are
/// those of TTFT, ITL, TPOT and E2E.
pub(super) fn with_validity(
    input: &PhaseInput<'_>,
    measured: &[&RequestNumbers],
    [ttft, itl, tpot, e2e]: [&Distribution; 4],
    throughput: Option<&Throughput>,
) -> Option<ClientError> {
    let lag = input.timer_lag;
    let mut error = match (&input.client_error, lag.count()) {
        (None, 0) => return None,
        (known, _) => known.clone().unwrap_or_default(),
    };
    if lag.count() > 0 {
        error.timer_lag_p50_ns = lag.quantile(0.5);
        error.timer_lag_p99_ns = lag.quantile(0.99);
    }
    let figures = PhaseFigures { ttft, itl, tpot, e2e, throughput, measured }.figures(&error, &input.load);
    error.judge(figures);
    Some(error)
}

impl PhaseFigures<'_> {
    fn figures(&self, error: &ClientError, load: &Load) -> Vec<FigureValidity> {
        let Some(moved) = &error.moved else { return Vec::new() };
        let later = self.measured.iter().map(|request| (request.tokens_std - request.tokens_first_chunk) as f64);
        let later = mean(later).unwrap_or(0.0);
        let medians = [
            (Metric::Ttft, Level::P50, &self.ttft.p50, moved.ttft_p50_ms),
            (Metric::Itl, Level::P50, &self.itl.p50, moved.itl_p50_ms),
            (Metric::Tpot, Level::P50, &self.tpot.p50, moved.tpot_at(moved.tpot_p50_ms, later)),
            (Metric::E2e, Level::P50, &self.e2e.p50, moved.e2e_p50_ms),
        ];
        let tails = [
            (Metric::Ttft, Level::P99, &self.ttft.p99, moved.ttft_p99_ms),
            (Metric::Itl, Level::P99, &self.itl.p99, moved.itl_p99_ms),
            (Metric::Tpot, Level::P99, &self.tpot.p99, moved.tpot_at(moved.tpot_p99_ms, later)),
            (Metric::E2e, Level::P99, &self.e2e.p99, moved.e2e_p99_ms),
        ];
        // A tail percentile that is not stated needs no verdict.
        let stated = tails.into_iter().filter(|(_, _, quantile, _)| quantile.stated().is_some());
        let times = medians.into_iter().chain(stated);
        let times = times.filter_map(|(metric, level, quantile, moved)| time(metric, level, quantile, moved?));
        times.chain(self.throughput_of(moved.slot_mean_ms, load)).collect()
    }

    /// In a closed loop a client that is slow to start the next request leaves the server idle.
    fn throughput_of(&self, slot_mean_ms: Option<f64>, load: &Load) -> Option<FigureValidity> {
        let throughput = self.throughput.filter(|_| matches!(load, Load::Closed { .. }))?;
        let held = self.measured.iter().map(|request| (request.ended_at_ns - request.due_at_ns) as f64 / 1e6);
        let value = throughput.tokens_per_second;
        let half = throughput.interval.map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
        Some(FigureValidity::speed(Metric::Throughput.label(), value, half, value * slot_mean_ms? / mean(held)?))
    }
}

fn time(metric: Metric, level: Level, quantile: &Quantile, moved: f64) -> Option<FigureValidity> {
    let half = quantile.low.zip(quantile.high).map_or(0.0, |(low, high)| (high - low) / 2.0);
    let name = format!("{} {}", metric.label(), level.name());
    Some(FigureValidity::time(&name, quantile.nearest_rank()?, half, moved))
}
