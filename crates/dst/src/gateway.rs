//! The real gateway in virtual time, between simulated clients, providers and disks.
//!
//! The production code runs unchanged; clock, connections and log file are injected. Invariant: a [`GatewayScenario`]
//! determines the [`GatewayHistory`] to the byte; the checkers compare it with what providers wrote and clients received,
//! not with the gateway's own counts.

pub mod checkers;
mod client;
mod disk;
mod history;
mod http1;
mod pipe;
mod provider;
mod response;
mod run;
mod scenario;
mod situations;
mod world;

pub use disk::{DiskFault, DiskOutage, StoredRows};
pub use history::{CallEnd, GatewayHistory, Outcome, ServedRequest};
pub use http1::Reply;
pub use pipe::PipeLaw;
pub use response::{Ending, LaneFaults, Response};
pub use run::run_gateway;
pub use scenario::{Call, Client, GatewayScenario, ReadPattern, Reload, STARTED_AT, SendPattern};
pub use situations::{GatewaySituation, met};
