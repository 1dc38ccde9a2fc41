//! Forms with files that are too large to be held: their beginning is read, the rest goes on as it comes.
//!
//! Invariant: what is held is the beginning and a few reads; nothing is sent on of a form that turns out to be none before that shows.

use crate::api::{ApiRoute, Form, FormScanner};
use crate::respond::error::ErrorResponse;
use crate::state::plan::Plan;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::Sleep;
use tokrate_core::Span;
use tokrate_net::server::{BodyError, BodyPieces, RequestBody, is_form};
use tokrate_net::{StreamedUpload, UploadSource};

/// Fields stand before the file; this much is looked through for them (bytes).
const MAX_BEGINNING_BYTES: usize = 64 * 1024;

/// The beginning of a form, and the rest of it.
pub(super) struct StreamedForm {
    pub beginning: Bytes,
    pub form: Form,
    pub rest: StreamedUpload,
}

/// The length of a body that is to be streamed: that of a form beyond what is held, within what is let through.
///
/// # Errors
/// When it is larger than that.
pub(super) fn streamed_length(
    plan: &Plan,
    route: &ApiRoute,
    headers: &HeaderMap,
) -> Result<Option<u64>, ErrorResponse> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let Some(length) = length.filter(|length| *length > plan.limits.request_bytes as u64) else {
        return Ok(None);
    };
    if !route.api.takes_forms() || !is_form(headers) {
        return Ok(None);
    }
    let limit = plan.limits.file_bytes;
    if length <= limit {
        return Ok(Some(length));
    }
    let message = format!("request body too large: more than {limit} bytes, the gateway's limit `file_bytes`");
    Err(ErrorResponse::new(StatusCode::PAYLOAD_TOO_LARGE, message))
}

/// Reads the fields of a form that stand before its file.
pub(super) async fn read_beginning(
    plan: &Plan,
    headers: &HeaderMap,
    body: RequestBody,
    length: u64,
) -> Result<StreamedForm, ErrorResponse> {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes()).unwrap_or_default();
    let mut scanner = FormScanner::new(content_type).map_err(ErrorResponse::bad_request)?;
    let mut rest = FormRest { pieces: body.into_pieces(), scanner: None, limit: plan.limits.body, timer: None };
    let mut beginning = Vec::new();
    while !scanner.has_file() && !scanner.has_ended() && beginning.len() < MAX_BEGINNING_BYTES {
        match poll_fn(|context| rest.poll_piece(context)).await {
            Some(Ok(piece)) => {
                scanner.push(&piece).map_err(ErrorResponse::bad_request)?;
                beginning.extend_from_slice(&piece);
            }
            Some(Err(error)) => return Err(ErrorResponse::bad_request(error.to_string())),
            None => return Err(ErrorResponse::bad_request("the request body ended early")),
        }
    }
    let left = length.checked_sub(beginning.len() as u64);
    let left = left.ok_or_else(|| ErrorResponse::bad_request("the request body is longer than its length"))?;
    let form = Form::of_beginning(scanner.model(), scanner.stream());
    rest.scanner = Some(scanner);
    let rest = StreamedUpload { length: left, source: Box::new(rest) };
    Ok(StreamedForm { beginning: Bytes::from(beginning), form, rest })
}

/// What follows the beginning; read on for fields that must not be there.
struct FormRest {
    pieces: BodyPieces,
    scanner: Option<FormScanner>,
    /// How long a client may send nothing.
    limit: Span,
    timer: Option<Pin<Box<Sleep>>>,
}

impl UploadSource for FormRest {
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Poll::Ready(piece) = self.pieces.poll_piece(context) else {
            let limit = self.limit.as_duration();
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
            ready!(timer.as_mut().poll(context));
            return Poll::Ready(Some(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the request body arrived too slowly",
            ))));
        };
        self.timer = None;
        let piece = match piece {
            None => return Poll::Ready(None),
            Some(Err(BodyError::TooSlow)) => Err("the request body arrived too slowly"),
            Some(Err(_)) => Err("the request body ended early"),
            Some(Ok(piece)) => Ok(piece),
        };
        let known = |piece: Bytes| match &mut self.scanner {
            None => Ok(piece),
            Some(scanner) => {
                let had_model = scanner.model().is_some();
                scanner.push(&piece)?;
                // Its lane was chosen without it.
                if !had_model && scanner.model().is_some() {
                    return Err("the field `model` must stand before the file");
                }
                Ok(piece)
            }
        };
        Poll::Ready(Some(piece.and_then(known).map_err(io::Error::other)))
    }
}
