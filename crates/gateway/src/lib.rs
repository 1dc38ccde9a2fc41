//! `tokrate gateway`: one OpenAI-compatible endpoint in front of many providers. Serves calls, carries out what `route`
//! decides, and logs what was measured.
//!
//! `api` is the table of paths that pass byte for byte. The folders follow a call: `ingress` reads it, `admission` lets it in, `dispatch` drives its attempts, `upstream` is one
//! attempt at a lane, `respond` answers the client, `settle` accounts for it; `trace` is what spans of it show, `realtime` relays the
//! sessions of WebSockets.
//!
//! Architecture Invariant: nothing reaches a client but the bytes of one attempt, in order, once, or one clear error; and
//! every attempt that was started ends as one row of the log, however the call ended.

#![forbid(unsafe_code)]

mod admission;
mod api;
mod config;
mod dispatch;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod ingress;
mod otel;
mod realtime;
mod respond;
#[cfg(any(test, feature = "sample"))]
#[doc(hidden)]
pub mod sample;
mod server;
mod settle;
#[doc(hidden)]
pub mod simulation;
mod state;
pub mod telemetry;
mod trace;
mod upstream;

pub use admission::budgets::check_budgets;
pub use api::services;
pub use config::curve::curve_from_record;
pub use config::display::{format_mode, format_race};
pub use config::tls::TlsConfig;
pub use config::{
    AliasConfig, AnswerCheck, AnswerFinish, AnswerRule, Config, DEFAULT_SEED, EndpointConfig, Instructed, KeyConfig,
    LaneConfig, LimitsConfig, LogSettings, OtelConfig, ServicesConfig, TokenLimits, TracesConfig, key_hash, parse_mode,
};
pub use dispatch::compare::{LaneComparison, LaneProgress, LaneResult};
pub use error::GatewayError;
pub use ingress::dry_run::{Decision, DryRun, UpstreamRequest};
#[doc(hidden)]
pub use ingress::route::{RouteKind, RouteRow, SentBody, routes};
pub use server::{Gateway, RunningGateway};
pub use tokrate_route::{
    BreakerConfig, BudgetConfig, CurvePoint, KeyLimits, LoserPolicy, Mode, Policy, Spending, WinRule,
};
pub use upstream::dns::unresolved_blocking;
