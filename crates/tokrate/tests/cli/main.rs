//! The built binary from the outside: its numbers against the engine's own log, its verdicts on every fault, its words,
//! its files and its report in a browser.
//!
//! Invariant: nothing leaves loopback, nothing waits without a bound.

#![allow(clippy::disallowed_methods, reason = "deadlines of tests are in real time")]

mod apply;
mod apply_batch;
mod apply_fallback;
mod apply_kept;
mod apply_patch;
mod apply_protected;
mod apply_serve;
mod arrivals;
mod audio;
mod batch;
mod browser;
mod budgets;
#[cfg(unix)]
mod ci;
mod clickhouse;
mod command_line;
mod connections;
mod discovery;
mod encrypted;
mod export;
mod faults;
mod feel;
mod first_contact;
mod fleet;
mod folder;
mod formats;
mod from_litellm;
mod gateway;
mod gateway_tls;
mod hostile;
mod images;
mod init_key;
mod interrupt;
mod items;
mod live_view;
mod load_shapes;
mod log;
mod log_kept;
mod loopback_medians;
mod loopback_truth;
mod mcp;
mod monitor;
mod monitor_alerts;
mod monitor_push;
mod outputs;
mod planning;
mod race;
mod reached;
mod realtime;
mod replay;
mod requests_sent;
mod running;
mod scripted;
mod sdk;
mod secrets;
mod server_metrics;
mod sim_engine;
mod sources;
mod structure;
mod targets;
mod tool;
mod trust;
mod until;
mod verdicts;
mod workloads;
