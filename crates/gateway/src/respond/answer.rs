//! Waits for the outcome of a call and turns it into a response.

use super::body::CallBody;
use super::error::Denied;
use super::head::heading;
use crate::dispatch::call::{Call, Step};
use bytes::Bytes;
use http::Response;
use std::future::poll_fn;

/// Waits until there is an answer, and begins it.
pub(crate) async fn respond(mut call: Box<Call>) -> Result<Response<CallBody>, Denied> {
    let is_stream = call.account.request.is_stream();
    let mut whole = Vec::new();
    loop {
        match poll_fn(|context| call.poll_step(context)).await {
            Step::Won if is_stream => {
                let head = heading(&call);
                let mut response = Response::new(CallBody::stream(call));
                head.put_on(&mut response);
                return Ok(response);
            }
            Step::Won => {}
            Step::Bytes(bytes) if whole.is_empty() => whole = bytes.into(),
            Step::Bytes(bytes) => whole.extend_from_slice(&bytes),
            Step::Finished => {
                let head = heading(&call);
                let mut response = Response::new(CallBody::whole(Bytes::from(whole), call));
                head.put_on(&mut response);
                return Ok(response);
            }
            Step::Broken { kind, .. } => return Err(call.denied(kind, call.winner())),
            Step::Failed { kind, attempt } => {
                let refusal = match attempt {
                    Some(attempt) => call.refusal_as_it_came(attempt),
                    None => call.refusal_remembered(),
                };
                return match refusal {
                    Some(response) => Ok(response.map(CallBody::plain)),
                    None => Err(call.denied(kind, attempt)),
                };
            }
        }
    }
}
