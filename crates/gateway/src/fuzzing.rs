//! Entry points for the project's fuzz targets; not a public interface.

use crate::otel::response::ExportOutcome;
use crate::trace::context::TraceContext;
use http::HeaderMap;
use tokrate_net::{Answer, Secrets};

/// The error that a collector's response amounts to, if any.
pub fn otlp_error(answer: &Answer, secrets: &Secrets) -> Option<String> {
    ExportOutcome::of_answer(answer, secrets).error().map(|error| error.message.clone())
}

/// What is sent on of the trace context in a request's headers, if it has a valid one.
pub fn trace_context(headers: &HeaderMap) -> Option<HeaderMap> {
    let context = TraceContext::of(headers)?;
    let mut sent = HeaderMap::new();
    context.write_to(&mut sent);
    Some(sent)
}
