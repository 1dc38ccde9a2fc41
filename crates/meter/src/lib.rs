//! From stream events to numbers: requests, runs, curves, records.
//!
//! It refuses to know sockets, clocks, files and how a result is shown: events and ticks come in, numbers go out.
//! Invariant: every word here means what the glossary of the project says, whole nanoseconds stay whole until the last
//! quotient, and what could not be measured is absent with a reason, never 0.
//!
//! [`RequestMeter`] gathers one stream into a [`RequestTrace`] while the clock runs; [`RequestNumbers`] are worked out
//! afterwards, tokens counted over the whole text; a [`PhaseResult`] sums up a load level; a [`Record`] is what is kept.

#![forbid(unsafe_code)]

mod assertion;
mod attempt;
mod claim;
mod client_error;
mod comfort;
pub mod compare;
pub mod curve;
mod expression;
#[cfg(test)]
mod fixtures;
mod fooling;
pub mod gate;
mod goodput;
mod live;
mod metric;
mod names;
pub mod record;
pub mod request;
pub mod run;
#[cfg(test)]
mod schema;
pub mod scorecard;
pub mod server_metrics;
mod slo;

pub use assertion::{Assertion, AssertionOutcome, AssertionStatus};
pub use attempt::{Attempt, AttemptEnd, AttemptRole, CostBasis, MAX_TEXT_BYTES};
pub use claim::{Bound, Claim, ClaimError, Condition, Meaning, Stated};
pub use client_error::{ClientError, ClientErrorSource, FigureValidity};
pub use comfort::Comfort;
pub use expression::{ExpressionError, Relation};
pub use fooling::{Suspicion, SuspicionKind};
pub use gate::{GateCheck, GateViolation};
pub use goodput::{Goodput, ShareVerdict, SloCount, share_interval};
pub use live::{GapSketch, LiveMeter, LiveNumbers};
pub use metric::{Metric, MetricRow, MetricUnit, PhaseSource};
pub use record::{
    Against, Billed, Comparison, ConditionsRow, EngineHost, Gpu, Price, Record, RecordError, SearchLevel, SearchResult,
    SearchStatus, Spending, Status, Tool,
};
pub use request::{
    Arrival, Chunk, Ending, Failure, FailureRow, Oddities, RequestMeter, RequestNumbers, RequestTrace, Timing,
};
pub use run::{ClientBias, Load, PhaseInput, PhaseResult, Warmup, mark_warmup};
pub use slo::Slo;
