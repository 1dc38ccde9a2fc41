//! The time of a run in slices: what the client saw, what the engine and the graphics processors said, on one axis.
//!
//! Invariant: a figure that is not known in a slice is null; the figures of levels are never made from slices.

mod build;
mod curve;
mod sampled;
mod samples;
mod series;
#[cfg(test)]
mod tests;

pub use build::TimelineBuilder;
pub use sampled::{Gauge, Sampled};
pub use samples::Samples;
#[cfg(test)]
pub(crate) use series::markdown;
pub use series::{SeriesInfo, SeriesSource, TimeSeries};

use serde::{Deserialize, Serialize};

/// A run in slices of time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Zero of the axis, on the monotonic clock of the measuring machine (ns).
    pub began_at_ns: u64,
    /// Length of a slice (s).
    pub slice_seconds: f64,
    /// From one reading of engine and processors to the next (s); null if nothing was read.
    pub sampled_every_seconds: Option<f64>,
    /// The graphics processors that are counted.
    pub gpus: Vec<String>,
    /// When each level ran.
    pub phases: Vec<PhaseSpan>,
    /// What is known over time; each has a value for each slice.
    pub series: Vec<SeriesRow>,
}

/// When a level ran.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PhaseSpan {
    /// Its name.
    pub name: String,
    /// When it began (s).
    pub start: f64,
    /// When its last request had ended (s).
    pub end: f64,
}

/// A figure over time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeriesRow {
    /// Its name in the catalogue.
    pub name: String,
    /// Its unit; empty for counts.
    pub unit: String,
    /// Whose figure it is.
    pub source: SeriesSource,
    /// Its value in each slice.
    pub values: Vec<Option<f64>>,
}

impl Timeline {
    /// The values of a figure, if it is known in any slice.
    pub fn values(&self, series: TimeSeries) -> Option<&[Option<f64>]> {
        self.series.iter().find(|row| row.name == series.info().name).map(|row| row.values.as_slice())
    }
}
