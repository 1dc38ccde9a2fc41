//! Measurement: from stream events to requests, phases, curves and records. Events and ticks come in, figures go out; no
//! sockets, clocks or files.
//!
//! Invariant: names mean what the glossary says, times stay whole nanoseconds until the last quotient, and what could not
//! be measured is absent with a reason, never 0.
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
pub mod gate;
mod goodput;
mod integrity;
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
pub use claim::{Bound, Claim, ClaimError, Condition, Meaning, StatedValue};
pub use client_error::{ClientError, ClientErrorSource, FigureValidity};
pub use comfort::Comfort;
pub use expression::{ExpressionError, Relation, nearest};
pub use gate::{GateCheck, GateViolation};
pub use goodput::{Goodput, ShareVerdict, SloCount, share_interval};
pub use integrity::{Suspicion, SuspicionKind};
pub use live::{GapSketch, LiveMeter, LiveNumbers};
pub use metric::{Metric, MetricRow, MetricUnit, PhaseSource};
pub use record::{
    Billed, Comparison, ComparisonWithFirst, ConditionsRow, EngineHost, Gpu, Price, Record, RecordError, SearchLevel,
    SearchResult, SearchStatus, Spending, Status, Tool,
};
pub use request::{
    Arrival, Chunk, Ending, Failure, FailureRow, Oddities, RequestMeter, RequestNumbers, RequestTrace, Timing,
};
pub use run::{ClientBias, Load, PhaseInput, PhaseResult, Warmup, mark_warmup};
pub use slo::Slo;
