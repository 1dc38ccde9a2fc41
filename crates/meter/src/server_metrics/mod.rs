//! Metrics of the server: its Prometheus page before and after a phase, and their difference next to the client's figures.
//!
//! Invariant: the client's figures are never corrected by the server's; where the two disagree, both are shown.
//!
//! [`Exposition`] is a parsed page, [`Family`] maps an engine's metric names to quantities, a [`MetricsSnapshot`] holds the
//! quantities of one page, and [`ServerReport`] is the difference of two snapshots.

mod exposition;
mod family;
mod report;
mod snapshot;
#[cfg(test)]
mod tests;

pub use exposition::{Exposition, Sample};
pub use family::{Family, Quantity};
pub use report::{Between, ClientTotals, ServerReport, ServerTimes};
pub use snapshot::{Histogram, MetricsSnapshot};
