//! A monitor: probes endpoints at random times for days, keeps what came of it, and says what changed.
//!
//! Numbers are the meter's, times and budgets the prober's, changes the detector's; this crate carries out and keeps.
//!
//! Architecture Invariant: a probe that was sent is one row for each of its requests, whatever came of it.

#![forbid(unsafe_code)]

mod alerting;
mod canary;
mod core;
mod daemon;
pub mod demo;
mod error;
pub mod fleet;
mod hub;
mod pages;
mod push;
mod recorder;
mod reference;
mod row;
mod send;
mod serve;
mod settings;
#[cfg(test)]
mod testing;
mod traffic;
mod view;
mod virtual_time;
mod workload;
pub mod world;

pub use alerting::{AlertRule, AlertSettings, CHANGE_KINDS, PROBE_METRICS, Watch, send_test_alert};
pub use canary::Canary;
pub use core::Report;
pub use daemon::{Extent, run};
pub use error::MonitorError;
pub use hub::{Hub, Inbox, hub};
pub use push::{Batch, Gate, KnownProber, MAX_BATCH_BYTES, PublicKey, PushKey, PushSettings, Refusal};
pub use serve::{ServeConfig, serve};
pub use settings::{Endpoint, Limits, Settings};
pub use tokrate_alert as alert;
pub use tokrate_notify as notify;
pub use traffic::{TrafficFindings, TrafficWatch};
pub use view::{BoardFrame, board_data};
pub use workload::{Cadence, DEFAULT_WORKLOAD, PromptSource, SUITE, Workload, built_in, built_in_names};
