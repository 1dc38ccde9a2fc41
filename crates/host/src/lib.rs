//! Simulated engines behind a real HTTP server that speaks every dialect, with a truth log of every write.
//!
//! Architecture Invariant: one thread owns engines, sockets and log; a write is logged with the tick at which its bytes were handed to
//! the socket, and reading the log cannot delay an engine.

mod asked;
mod body;
mod config;
mod driver;
mod error;
mod gpu;
mod metrics;
mod pattern;
mod pictures;
mod prompt;
mod routes;
mod schema;
mod script;
mod server;
mod sound;
mod transcript;
mod truth;

pub use config::{ApiKey, EmulatedEngine, FleetConfig, HostConfig, Provider};
pub use error::HostError;
pub use gpu::{GpuLaw, GpuState};
pub use metrics::MetricNames;
pub use script::{AnswerScript, ScriptRule, ScriptedCall};
pub use server::{Addresses, Host, RunningHost, Summary};
pub use truth::{AnswerEnd, Kinds, RequestTruth, Truth, TruthLog, TruthRow, WriteTruth};
