//! Metrics of the server: its Prometheus page before and after a phase, and their difference next to the client's figures.
//!
//! Invariant: the client's figures are never corrected by the server's; where the two disagree, both are shown.
//!
//! [`Exposition`] is a parsed page, [`Family`] maps an engine's metric names to quantities, a [`MetricsSnapshot`] holds the
//! quantities of one page, and [`ServerReport`] is the difference of two snapshots. An [`EngineSample`] or a [`GpuSample`] is what one page
//! says at one moment of a run; those of a whole run are put on its time axis by `record`.

mod exposition;
mod family;
mod gpu;
mod report;
mod sample;
mod snapshot;
#[cfg(test)]
mod tests;

pub use exposition::{Exposition, Sample};
pub use family::{Family, Quantity};
pub use gpu::{GpuReading, gpus_of};
pub use report::{Between, ClientTotals, ServerReport, ServerTimes};
pub use sample::{EngineSample, GpuSample};
pub use snapshot::{Histogram, MetricsSnapshot};
