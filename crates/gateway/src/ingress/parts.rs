//! What requests of all kinds are looked through for: the alias, the session, a body that keeps nothing else alive.

use super::session::session_of;
use crate::respond::error::ErrorResponse;
use crate::state::plan::{Alias, Plan};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;

/// Bodies up to this size are copied, so that they do not keep a much larger read buffer alive (bytes).
const MAX_COPIED_BYTES: usize = 16 * 1024;
/// Name the session of a call, such as the run of an agent: calls of one are one chain in the log. Ours, then those that agents send by
/// themselves: Claude Code (2.1), Codex CLI (0.169), opencode (1.18).
const SESSION_HEADERS: [&str; 4] = ["x-tokrate-session", "x-claude-code-session-id", "session-id", "x-session-id"];

/// The alias of a name.
pub(super) fn alias_of(plan: &Plan, name: &str) -> Result<Arc<Alias>, ErrorResponse> {
    plan.aliases.get(name).cloned().ok_or_else(|| {
        let message = format!("the model `{name}` does not exist here; GET /v1/models lists those that do");
        ErrorResponse::new(StatusCode::NOT_FOUND, message)
    })
}

/// A body that does not keep a much larger read buffer alive.
pub(super) fn without_buffer(body: Bytes) -> Bytes {
    if body.len() <= MAX_COPIED_BYTES { Bytes::copy_from_slice(&body) } else { body }
}

/// The session that a client names.
pub(super) fn session(headers: &HeaderMap) -> Option<String> {
    let named = SESSION_HEADERS.iter().find_map(|name| headers.get(*name));
    named.map(|value| session_of(value.as_bytes()))
}
