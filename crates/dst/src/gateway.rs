//! The real gateway in virtual time, between simulated clients, providers and disks.
//!
//! The production code runs unchanged; clock, connections and log file are injected. Invariant: a [`GatewayScenario`]
//! determines the [`GatewayHistory`] to the byte; the checkers compare it with what providers wrote and clients received,
//! not with the gateway's own counts.

pub mod checkers;
mod client;
mod disk;
mod http1;
mod pipe;
mod provider;
mod response;
mod scenario;
mod situations;
mod world;

pub use client::{CallEnd, Outcome};
pub use disk::{DiskFault, DiskOutage, StoredRows};
pub use http1::Reply;
pub use pipe::PipeLaw;
pub use provider::ServedRequest;
pub use response::{Ending, LaneFaults, Response};
pub use scenario::{Call, Client, GatewayScenario, ReadPattern, Reload, STARTED_AT, SendPattern};
pub use situations::{GatewaySituation, met};
pub use world::{GatewayHistory, run_gateway};
