//! Entry points for the project's fuzz targets; not a public interface.

use crate::otel::response::ExportOutcome;
use tokrate_net::{Answer, Secrets};

/// The error that a collector's response amounts to, if any.
pub fn otlp_error(answer: &Answer, secrets: &Secrets) -> Option<String> {
    ExportOutcome::of_answer(answer, secrets).error().map(|error| error.message.clone())
}
