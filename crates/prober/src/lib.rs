//! When a monitor probes which endpoint with which workload, what that may cost, and which cycles do not count.
//!
//! [`Prober`] is polled with the time and completed with outcomes; it sends nothing and reads no clock. The same machine drives
//! probes in real time and in virtual time.
//!
//! Invariants: never two probes of one endpoint, or of one host, at once; a slot has at most one regular probe of a series;
//! what a probe may cost is reserved before it is sent, so that no budget is exceeded; what is not sent is counted with its reason.

#![forbid(unsafe_code)]

mod budget;
mod clock;
mod config;
mod cycle;
mod notice;
mod plan;
mod prober;
mod queue;
mod schedule;
mod usual;

pub use budget::{BudgetKind, Spent};
pub use config::{Budget, Config, ConfigError, Endpoint, Workload};
pub use cycle::{CLIENT_ERROR_LIMIT, ClosedCycle, Outcome, ReferenceResult, judge_references};
pub use notice::{MissedReason, Notice};
pub use plan::{Plan, PlannedSeries};
pub use prober::{Order, Prober, Step};
pub use schedule::{Series, SeriesId};
