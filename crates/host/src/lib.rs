//! Simulated engines behind a real HTTP server that speaks every dialect, with a truth log of every write.
//!
//! It refuses to know measurement: it says what was written when, not what a client made of it.
//!
//! Architecture Invariant: one thread owns engines, sockets and log; a write is logged with the tick at which its bytes
//! were handed to the socket, and nothing that reads the log can delay an engine.

mod body;
mod config;
mod driver;
mod error;
mod metrics;
mod prompt;
mod routes;
mod server;
mod truth;

pub use config::{ApiKey, FleetConfig, Guise, HostConfig, Provider};
pub use error::HostError;
pub use metrics::MetricNames;
pub use server::{Addresses, Host, RunningHost, Summary};
pub use truth::{AnswerEnd, Kinds, RequestTruth, Truth, TruthLog, TruthRow, WriteTruth};
