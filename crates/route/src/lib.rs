//! Decisions of a gateway: which lane a call goes to, when a second one starts, who won, what it may cost.
//!
//! It refuses to know sockets, clocks, dialects and configuration files: ticks, events and settings are handed in, actions
//! come out.
//!
//! Architecture Invariant: every decision is a function of what was handed in and of a seeded generator; the same calls in
//! the same order give the same actions.

#![forbid(unsafe_code)]

mod breaker;
mod budget;
mod decay;
mod lane;
mod lane_model;
mod limits;
mod peak_ewma;
mod pick;
mod race;
mod replay;
mod router;

pub use breaker::{Blame, Breaker, BreakerConfig, BreakerState, blame};
pub use budget::{Budget, BudgetConfig, Reserved, Stood, extra_usd};
pub use lane::{LaneConfig, LaneId, Started};
pub use lane_model::{CurvePoint, Expectation, LaneModel, ModelConfig, WholeAnswer};
pub use limits::{Admitted, HeldForAttempt, KeyLimits, KeyMeter, Month, Need, Refused, RefusedFor, Spending};
pub use pick::{CallShape, Policy, Ranked};
pub use race::{Action, Candidate, Commit, Failed, LoserPolicy, Mode, Race, RaceConfig, Role, Why};
pub use replay::{Instead, LEVELS as REPLAY_LEVELS, LoggedAttempt, Means, Percentile, ReplayConfig, Report, replay};
pub use router::{Came, LaneSnapshot, Outcome, OutputLength, Router, RouterConfig, SnapshotPoint};
