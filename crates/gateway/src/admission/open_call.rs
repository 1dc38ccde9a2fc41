//! Counts the calls that are open, and what their bodies hold.

use crate::respond::error::ErrorResponse;
use crate::state::shared::Shared;
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokrate_core::Span;
use tokrate_net::server::ByteShare;

/// One of the calls that are open, as long as it lives.
pub(crate) struct OpenCall {
    shared: Arc<Shared>,
    /// Given back with the call.
    body: Option<ByteShare>,
}

impl OpenCall {
    /// Counts one more, unless there are too many.
    pub fn begin(shared: &Arc<Shared>, most: usize) -> Result<OpenCall, ErrorResponse> {
        let open = OpenCall { shared: Arc::clone(shared), body: None };
        match shared.open_calls.fetch_add(1, Ordering::Relaxed) < most {
            true => Ok(open),
            false => {
                let message = format!("the gateway has {most} calls open, as many as its limit `calls` allows");
                let retry_after = Some(Span::from_secs(1));
                Err(ErrorResponse { retry_after, ..ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, message) })
            }
        }
    }

    /// Keeps what its request holds for as long as it is open.
    pub fn hold(&mut self, share: ByteShare) {
        self.body = Some(share);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.shared.open_calls.fetch_sub(1, Ordering::Relaxed);
    }
}
