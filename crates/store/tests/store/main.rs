//! The log's database as a gateway uses it: real files, real locks, a real kill.
//!
//! Invariant: each test has a folder of its own, and none waits for a time to
//! pass; where one waits, it is for the writer to say that it is done.

#![allow(clippy::disallowed_methods, reason = "deadlines of tests are in real time")]

mod clickhouse;
mod clock;
mod crash;
mod displaced;
mod driven;
mod folder;
mod form;
mod log;
mod monitor;
mod objects;
mod of_bench;
mod of_probes;
mod overflow;
mod queries;
mod refusals;
mod report;
mod rows;
mod spending;
