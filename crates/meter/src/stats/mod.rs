//! What a sample says about the world it was drawn from: quantiles with intervals, means, the normal distribution.
//!
//! It refuses to know what is measured. Invariant: a statistic that the sample cannot support is absent, never zero
//! and never NaN, and the reason stands beside it.

mod binomial;
mod bootstrap;
mod distribution;
mod normal;
mod quantile;
mod sketch;

pub use binomial::{ln_gamma, lower_rank, smallest_sample, upper_rank};
pub use bootstrap::{BOOTSTRAP_FLOOR, Interval, IntervalMethod, mean_interval, percentile_interval, wilson_interval};
pub use distribution::{Distribution, Unit};
pub use normal::{normal_cdf, normal_quantile};
pub use quantile::{Level, Quantile, QuantileStatus};
pub use sketch::SketchParts;

#[cfg(test)]
mod tests;
