//! Statistics: quantiles with intervals, means, rank tests, the normal distribution, least squares and the scaling law.
//!
//! Invariant: a statistic that the sample cannot support is absent, never zero or NaN, and the reason is stored next to it.

#![forbid(unsafe_code)]

mod binomial;
mod bootstrap;
mod censored;
mod distribution;
mod linear;
mod normal;
mod quantile;
mod sequential;
mod significance;
mod sketch;
mod student;
mod trend;
pub mod usl;

pub use binomial::{ln_gamma, lower_rank, smallest_sample, upper_rank};
pub use bootstrap::{BOOTSTRAP_FLOOR, Interval, IntervalMethod, mean_interval, percentile_interval, wilson_interval};
pub use censored::{Censored, CensoredSamples};
pub use distribution::{Distribution, Unit};
pub use linear::{LeastSquares, least_squares, solve};
pub use normal::{normal_cdf, normal_quantile};
pub use quantile::{Level, Quantile, QuantileStatus};
pub use sequential::{
    LOOKED_AT_CONFIDENCE, MIN_ROUNDS, look_share, looked_at_errors, mean_and_error, quantile_between_rounds, rounds_for,
};
pub use significance::{
    fisher_p, holm, median, midpoint_median, normal_p, permutation_p, rank_sum_p, ratio_of_medians, share_difference,
    visible_errors,
};
pub use sketch::SketchParts;
pub use student::{student_p, student_quantile};
pub use trend::trend_p;

#[cfg(test)]
mod tests;
