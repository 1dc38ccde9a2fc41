//! Tail ratio: p99 as a multiple of the median.
//!
//! Invariant: a ratio of too few samples is marked.

use serde::{Deserialize, Serialize};
use tokrate_core::Sketch;
use tokrate_record::run::PhaseResult;
use tokrate_stats::{Level, Quantile};

/// The 99th percentile as a multiple of the median.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tail {
    /// Samples.
    pub n: u64,
    /// p99 / p50; absent without samples, and with a median of 0.
    pub ratio: Option<f64>,
    /// Whether there are enough samples to state a 99th percentile; else the ratio only describes them.
    pub stated: bool,
}

impl Tail {
    /// Of rising samples.
    pub(super) fn of_sorted(sorted: &[f64]) -> Tail {
        let at = |level| Quantile::of_sorted(sorted, 0, level).nearest_rank();
        Tail::of(sorted.len() as u64, at(Level::P50), at(Level::P99))
    }

    /// Of the chunk gaps of phases, from their sketches (each quantile within 0.55 %).
    pub(super) fn of_gaps<'p>(phases: impl Iterator<Item = &'p PhaseResult>) -> Tail {
        let mut sketch = Sketch::new();
        phases.for_each(|phase| sketch.merge(&phase.chunk_gap.sketch.0));
        let at = |level: Level| sketch.quantile(level.share()).map(|value| value as f64);
        Tail::of(sketch.count(), at(Level::P50), at(Level::P99))
    }

    fn of(n: u64, p50: Option<f64>, p99: Option<f64>) -> Tail {
        let ratio = p50.zip(p99).map(|(p50, p99)| p99 / p50).filter(|ratio| ratio.is_finite());
        Tail { n, ratio, stated: n >= Level::P99.floor() }
    }
}
