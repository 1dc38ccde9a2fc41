//! The real gateway in virtual time: call, account, admission, reloads and the log's writer, between simulated clients,
//! providers and disks.
//!
//! Nothing of the gateway is rewritten here: what runs is what serves, with clock, connections and the log's file handed in.
//! Invariant: a [`GatewayScenario`] determines the [`GatewayHistory`] in every byte; the checkers hold it against what the
//! providers wrote and the clients got, not against the gateway's own word.

pub mod checkers;
mod client;
mod disk;
mod fate;
mod http1;
mod pipe;
mod provider;
mod scenario;
mod situations;
mod world;

pub use client::{CallEnd, Outcome};
pub use disk::{BadTime, DiskTrouble, Kept};
pub use fate::{Ending, LaneFaults, Response};
pub use http1::Reply;
pub use pipe::PipeLaw;
pub use provider::Served;
pub use scenario::{Call, Client, GatewayScenario, Reads, Reload, STARTED_AT, Sends};
pub use situations::{GatewaySituation, met};
pub use world::{GatewayHistory, run_gateway};
