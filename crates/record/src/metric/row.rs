//! What rows of the catalogue have in common.

use super::{Metric, MetricRow, MetricUnit, PhaseSource};
use crate::run::PhaseResult;
use tokrate_stats::Distribution;

/// What most rows share: a time of each request, of answers that need not be streamed.
pub(super) const TIME: MetricRow = MetricRow {
    metric: Metric::E2e,
    name: "",
    label: "",
    words: "",
    definition: "",
    unit: MetricUnit::Milliseconds,
    more_is_better: false,
    tokens_needed: 1,
    needs_stream: false,
    is_pooled: false,
    of_request: None,
    of_phase: PhaseSource::Throughput,
    foreign_names: &[],
};

/// The same of a speed.
pub(super) const SPEED: MetricRow = MetricRow { unit: MetricUnit::TokensPerSecond, more_is_better: true, ..TIME };

pub(super) const fn plain(of: fn(&PhaseResult) -> &Distribution) -> PhaseSource {
    PhaseSource::Times(of, None)
}

pub(super) fn milliseconds(nanoseconds: Option<u64>) -> Option<f64> {
    nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e6)
}
