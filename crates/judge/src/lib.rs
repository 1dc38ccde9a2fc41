//! Verdicts over records: comparisons of two runs, scorecards of several targets, assertions, service level objectives, and
//! claims as others state them. Figures come in, verdicts go out; nothing is measured here.
//!
//! Invariant: a verdict rests on an interval or a test, or says why there is none; what is missing is never met.

#![forbid(unsafe_code)]

mod assertion;
mod claim;
pub mod compare;
mod comparison;
mod expression;
mod goodput;
mod limit;
mod objective;
mod round_trend;
pub mod scorecard;
mod self_check;
mod slo;
#[cfg(test)]
mod tests;

pub use assertion::{Assertion, Precision};
pub use claim::{Bound, Claim, ClaimError, Condition, Meaning, StatedValue};
pub use comparison::{Comparison, ComparisonWithFirst};
pub use expression::{ExpressionError, Relation, nearest};
pub use goodput::goodput;
pub use limit::limits;
pub use objective::Objective;
pub use round_trend::round_trends;
pub use self_check::SelfCheck;
pub use slo::Slo;
