//! Routing decisions of a gateway: which lane a call goes to, when another attempt starts, which one wins, and what it may
//! cost.
//!
//! Sans-IO: ticks, events and settings are passed in, actions are returned. There are no sockets, clocks, dialects or
//! configuration files here.
//!
//! Architecture Invariant: every decision is a function of what was passed in and of a seeded generator; the same calls in
//! the same order give the same actions.

#![forbid(unsafe_code)]

mod breaker;
mod budget;
mod cache;
mod decay;
mod lane;
mod lane_model;
mod limits;
mod peak_ewma;
mod pick;
mod policy;
mod race;
mod replay;
mod router;
mod session_replay;

pub use breaker::{Blame, Breaker, BreakerConfig, BreakerState, blame};
pub use budget::{AttemptResult, Budget, BudgetConfig, BudgetLimit, ExtraReservation, extra_usd};
pub use cache::{PromptBlocks, PromptHasher};
pub use lane::{InFlightAttempt, LaneConfig, LaneId};
pub use lane_model::{CurvePoint, Expectation, LaneModel, ModelConfig, WholeAnswer};
pub use limits::{
    Admitted, KeyLimits, KeyMeter, KeyReservation, LimitKind, Month, Refused, ReservationRequest, Spending,
};
pub use pick::{CallShape, Ranked};
pub use policy::Policy;
pub use race::{
    Action, AttemptFailure, CancelReason, Candidate, Commit, LoserPolicy, Mode, Race, RaceConfig, Role, WinRule,
};
pub use replay::{
    Alternative, LEVELS as REPLAY_LEVELS, LoggedAttempt, Means, Percentile, ReplayConfig, Report, replay,
};
pub use router::{Delivery, LaneSnapshot, Outcome, OutputLength, Router, RouterConfig, SnapshotPoint};
pub use session_replay::{Change, MAX_PAUSE as MAX_SESSION_PAUSE, SessionCall, SessionReport, replay_sessions};
