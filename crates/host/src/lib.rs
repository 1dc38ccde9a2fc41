//! The simulated engine behind a real HTTP server, with a truth log of every write.
//!
//! It refuses to know measurement: it says what was written when, not what a client made of it.
//!
//! Architecture Invariant: one thread owns engine, sockets and log; a write is logged with the tick at which its bytes
//! were handed to the socket, and nothing that reads the log can delay the engine.

mod body;
mod config;
mod driver;
mod error;
mod prompt;
mod routes;
mod server;
mod truth;

pub use config::{ApiKey, HostConfig};
pub use error::HostError;
pub use server::{Host, RunningHost, Summary};
pub use truth::{AnswerEnd, Kinds, RequestTruth, Truth, TruthLog, TruthRow, WriteTruth};
