//! What changed in a series of measurements: since when, by how much and how sure that is.
//!
//! Pure: points in, findings out; time is that of the points.

#![forbid(unsafe_code)]

mod baseline;
mod level;
mod series;
mod shift;

pub use baseline::Baseline;
pub use level::{FalseAlarms, LevelDetector};
pub use series::Point;
pub use shift::{Limits, Look, Shift, Way};
