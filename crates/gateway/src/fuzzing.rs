//! What fuzz targets reach of this crate's readers.
//!
//! It is no interface: nothing but the fuzz targets of this project may call it. Invariant: it calls what the gateway calls,
//! and nothing here is written for it alone.

use crate::otel::response::ExportOutcome;
use tokrate_net::{Answer, Secrets};

/// What is told of a collector's answer, if it is trouble.
pub fn otlp_trouble(answer: &Answer, secrets: &Secrets) -> Option<String> {
    ExportOutcome::of_answer(answer, secrets).error().map(|error| error.message.clone())
}
