//! `tokrate gateway`: one door to all providers. Serves calls, carries out what `route` decides, logs what was true.
//!
//! It refuses to know the command line, the settings file and the environment: those belong to the binary.
//!
//! Architecture Invariant: nothing reaches a client but the bytes of one attempt, in order, once, or one clear error; and
//! every attempt that was begun ends as one row of the log, however the call ended.

#![forbid(unsafe_code)]

mod account;
mod admin;
mod admission;
mod ask;
mod attempt;
mod body;
mod budgets;
mod calendar;
mod call;
mod config;
mod contest;
mod cost;
mod curve;
mod denied;
mod door;
mod drain;
mod error;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod headers;
mod heading;
mod house;
mod inbox;
mod key_hold;
mod lane_memory;
mod listing;
mod lock;
mod missing;
mod names;
mod otel;
mod plan;
mod prepare;
mod server;
#[doc(hidden)]
pub mod simulation;
mod stats;
mod words;
mod worker;

pub use budgets::check_budgets;
pub use config::{
    AliasConfig, Config, EndpointConfig, KeyConfig, LaneConfig, LimitsConfig, LogSettings, OtelConfig, Price,
    SEED_USUAL, TokensMost, key_hash, mode_of,
};
pub use contest::{Contest, Finish, Runner};
pub use curve::curve_of;
pub use door::{Decision, Door, Upstream};
pub use error::GatewayError;
pub use names::unresolved_blocking;
pub use server::{Gateway, RunningGateway};
pub use tokrate_route::{BudgetConfig, CurvePoint, KeyLimits, LoserPolicy, Mode, Policy, Spending};
pub use words::{mode_shown, policy_shown};
