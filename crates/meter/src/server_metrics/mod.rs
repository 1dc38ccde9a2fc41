//! Metrics of the server: its Prometheus page before and after a phase, and their difference next to the client's figures.
//!
//! Invariant: the client's figures are never corrected by the server's; where the two disagree, both are shown.
//!
//! [`Exposition`] is a page as text, [`Family`] knows whose names mean what, a [`MetricsSnapshot`] is what one page says in our words,
//! and [`ServerReport`] is the difference between two readings.

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
