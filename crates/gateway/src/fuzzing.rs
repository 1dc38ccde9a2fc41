//! What fuzz targets reach of this crate's readers.
//!
//! It is no interface: nothing but the fuzz targets of this project may call it. Invariant: it calls what the gateway calls,
//! and nothing here is written for it alone.

use crate::admin::ask;
use crate::otel::reply::Outcome;
use tokrate_net::{Answer, Secrets};
use tokrate_store::{Grouping, Query};

/// What a query string asks of the log's rows at a moment (ms since 1970).
///
/// # Errors
/// What is wrong with it.
pub fn log_rows(query: &str, now_unix_ms: u64) -> Result<Query, String> {
    ask::attempts(Some(query), now_unix_ms)
}

/// What a query string asks of the log's summary at a moment (ms since 1970).
///
/// # Errors
/// What is wrong with it.
pub fn log_summary(query: &str, now_unix_ms: u64) -> Result<(Query, Grouping), String> {
    ask::summary(Some(query), now_unix_ms)
}

/// What is told of a collector's answer, if it is trouble.
pub fn otlp_trouble(answer: &Answer, secrets: &Secrets) -> Option<String> {
    Outcome::of_answer(answer, secrets).trouble().map(|trouble| trouble.said.clone())
}
