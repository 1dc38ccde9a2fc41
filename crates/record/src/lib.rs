//! What is kept of a measurement: one request whatever sent it ([`Sample`]), the rows of a gateway's attempts and refusals and of a
//! monitor's probes around it, the row of a phase made of its requests, the curve over phases, the record around them, and the
//! catalogue of metrics. No files: texts are read from and written to strings.
//!
//! Invariant: a row says under which conditions it was measured, and the figures of a phase are checked against its requests
//! when it is made, so that none is kept unchecked.
//!
//! A [`PhaseResult`] sums up a load level, a [`CurveResult`](curve::CurveResult) the levels of a run; a [`Record`] holds both.

#![forbid(unsafe_code)]

mod assertion;
mod attempt;
pub mod curve;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
mod gate;
mod goodput;
mod integrity;
mod limit;
mod metric;
mod of_record;
mod probe;
mod record;
mod refusal;
pub mod run;
mod sample;
mod samples;
pub mod timeline;
mod until;

pub use assertion::{AssertionOutcome, AssertionStatus};
pub use attempt::{Attempt, AttemptEnd, AttemptRole};
pub use gate::{GateCheck, GateViolation};
pub use goodput::{Goodput, ShareVerdict, SloCount, share_interval};
pub use integrity::{Suspicion, SuspicionKind, is_same_model};
pub use limit::{LevelLimit, LimitedBy};
pub use metric::{Metric, MetricRow, MetricUnit, PhaseSource};
pub use of_record::ProbeNames;
pub use probe::{Probe, SampleSource};
pub use record::{
    Billed, ConditionsRow, EngineHost, Estimate, EstimatedLoad, EstimatedValue, Gpu, MediaAmounts, MediaKind,
    MediaPrice, MediaPrices, Record, RecordError, SearchLevel, SearchResult, SearchStatus, Spending, Status,
    TargetPrice, Tool, lay_out,
};
pub use refusal::{Refusal, RefusalReason};
pub use run::{Load, PhaseInput, PhaseResult, Warmup, mark_warmup};
pub use sample::{CostBasis, RunFrame, Sample, SampleConditions, SharedConditions, tpot_ms};
pub use samples::{AnswerLength, LevelSamples, ObservedThroughput, PhaseFigures, RunSamples, Samples};
pub use until::{PrecisionOutcome, PrecisionStatus, UntilEnd, UntilResult, VerdictLooks};
