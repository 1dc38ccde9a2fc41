//! Waits for the outcome of a call and turns it into a response.

use super::body::CallBody;
use super::error::ErrorResponse;
use super::head::response_head;
use crate::dispatch::call::{Call, Step};
use crate::realtime::session::hand_over;
use bytes::Bytes;
use http::Response;
use std::future::poll_fn;
use tokrate_core::FailureKind;

/// Drives the call until its response can start.
pub(crate) async fn respond(mut call: Box<Call>) -> Result<Response<CallBody>, ErrorResponse> {
    let is_stream = call.account.request.is_stream();
    let mut whole = Vec::new();
    loop {
        match poll_fn(|context| call.poll_step(context)).await {
            Step::Won if call.account.request.opens_session() => {
                let head = response_head(&call);
                let Some(lane) = call.take_connection() else {
                    return Err(call.error_response(FailureKind::Closed, None));
                };
                let mut response = Response::new(CallBody::plain(Bytes::new()));
                head.apply_to(&mut response);
                hand_over(call, lane);
                return Ok(response);
            }
            Step::Won if is_stream => {
                let head = response_head(&call);
                let mut response = Response::new(CallBody::stream(call));
                head.apply_to(&mut response);
                return Ok(response);
            }
            Step::Won => {}
            Step::Bytes(bytes) if whole.is_empty() => whole = bytes.into(),
            Step::Bytes(bytes) => whole.extend_from_slice(&bytes),
            Step::Finished => {
                call.account.note_job(&whole);
                let head = response_head(&call);
                let mut response = Response::new(CallBody::whole(Bytes::from(whole), call));
                head.apply_to(&mut response);
                return Ok(response);
            }
            Step::Broken { attempt, kind, .. } => return Err(call.error_response(kind, Some(attempt))),
            Step::Failed { kind, attempt } => {
                let refusal = match attempt {
                    Some(attempt) => call.upstream_refusal(attempt),
                    None => call.cached_refusal(),
                };
                return match refusal {
                    Some(response) => Ok(response.map(CallBody::plain)),
                    None => Err(call.error_response(kind, attempt)),
                };
            }
        }
    }
}
