//! Counts open calls against the gateway's limit, together with the bytes of their bodies.

use crate::respond::error::ErrorResponse;
use crate::state::shared::Shared;
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokrate_core::Span;
use tokrate_net::server::ByteShare;

/// One open call, counted until it is dropped.
pub(crate) struct OpenCall {
    shared: Arc<Shared>,
    /// The bytes of its body, released with it.
    body: Option<ByteShare>,
}

impl OpenCall {
    /// Counts one more call, unless the limit is reached.
    pub fn begin(shared: &Arc<Shared>, limit: usize) -> Result<OpenCall, ErrorResponse> {
        let open = OpenCall { shared: Arc::clone(shared), body: None };
        match shared.open_calls.fetch_add(1, Ordering::Relaxed) < limit {
            true => Ok(open),
            false => {
                let message = format!("the gateway has {limit} calls open, which is its limit `calls`");
                let retry_after = Some(Span::from_secs(1));
                Err(ErrorResponse { retry_after, ..ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, message) })
            }
        }
    }

    /// Keeps the body's bytes counted for as long as the call is open.
    pub fn hold(&mut self, share: ByteShare) {
        self.body = Some(share);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.shared.open_calls.fetch_sub(1, Ordering::Relaxed);
    }
}
