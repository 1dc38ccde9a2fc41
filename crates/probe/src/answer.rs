//! The undecoded answer to one request: timestamps, head, and the body of an error response.
//!
//! Invariant: every byte of the body passes the redactor before anything else sees it.

use std::borrow::Cow;
use std::rc::Rc;
use tokrate_core::{Tick, one_line};
use tokrate_meter::MAX_TEXT_BYTES;
use tokrate_meter::request::StreamUse;
use tokrate_meter::{Ending, Failure, Timing};
use tokrate_net::{ConnectionUse, Departure, ExchangeFailure, Head, Redactor, Secrets};
use tokrate_wire::{ErrorResponse, decode_error_response};

/// Most bytes kept of the body of an error response.
pub const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// Longest failure message (bytes): `wire` cuts server messages at 500, and a status may precede them.
const MAX_MESSAGE_BYTES: usize = 600;

/// The answer to one request so far.
#[derive(Debug, Default)]
pub struct Answer {
    head: Option<Head>,
    /// Of the last time that the request was sent.
    departure: Option<Departure>,
    /// When it was first sent, if it was resent.
    first_sent_at: Option<Tick>,
    stale_connections: u32,
    head_at: Option<Tick>,
    first_byte_at: Option<Tick>,
    last_byte_at: Option<Tick>,
    error_body: Vec<u8>,
    /// The body ended with the connection, and TLS did not say so.
    is_unsealed: bool,
    /// The local time at which the head came (s since 1970).
    wall_seconds: Option<u64>,
    redactor: Redactor,
}

impl Answer {
    /// An empty answer; `redactor` masks secrets.
    pub fn new(redactor: Redactor) -> Answer {
        Answer { redactor, ..Answer::default() }
    }

    /// Sending begins.
    pub fn begin(&mut self, departure: &Departure) {
        self.departure = Some(Rc::clone(departure));
    }

    /// The request was authorised with these, which are masked from now on.
    pub fn authorized(&mut self, secrets: &Secrets) {
        self.redactor.add(secrets);
    }

    /// The request is resent: its connection had been closed before.
    pub fn begin_again(&mut self) {
        self.first_sent_at = self.sent_at();
        self.departure = None;
        self.stale_connections += 1;
    }

    /// Sets the head.
    pub fn set_head(&mut self, head: Head) {
        self.head = Some(head);
    }

    /// When the read returned that completed the head.
    pub fn set_head_at(&mut self, at: Tick) {
        self.head_at = Some(at);
    }

    /// The local time at which the head came, or the attempt began (s since 1970): from it a date in `Retry-After` is counted if the answer has no `Date`.
    pub fn set_wall_seconds(&mut self, seconds: u64) {
        self.wall_seconds = Some(seconds);
    }

    /// Takes bytes of the body and returns what is to be decoded: nothing of an error response, whose body is kept.
    pub fn push<'b>(&mut self, at: Tick, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if bytes.is_empty() {
            return Cow::Borrowed(bytes);
        }
        self.first_byte_at.get_or_insert(at);
        self.last_byte_at = Some(at);
        let clean = self.redactor.push(bytes);
        self.keep_error_body(clean)
    }

    /// The body ended with the connection, and TLS did not say so: whether it is whole is for who reads it to know.
    pub fn set_unsealed(&mut self) {
        self.is_unsealed = true;
    }

    /// Whether it did.
    pub fn is_unsealed(&self) -> bool {
        self.is_unsealed
    }

    /// The body has ended: returns what the redactor held back. Call it once.
    pub fn end(&mut self) -> Vec<u8> {
        let held = self.redactor.end();
        self.keep_error_body(Cow::Owned(held)).into_owned()
    }

    fn keep_error_body<'b>(&mut self, clean: Cow<'b, [u8]>) -> Cow<'b, [u8]> {
        if self.is_good() {
            return clean;
        }
        let room = MAX_ERROR_BODY_BYTES - self.error_body.len();
        self.error_body.extend_from_slice(&clean[..room.min(clean.len())]);
        Cow::Borrowed(&[])
    }

    /// The head, once received.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The head, to take its headers out.
    pub fn head_mut(&mut self) -> Option<&mut Head> {
        self.head.as_mut()
    }

    /// Whether the status is 2xx.
    pub fn is_good(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.status.is_success())
    }

    /// When the last byte of the request had been handed to the socket, the first time that it was sent.
    pub fn sent_at(&self) -> Option<Tick> {
        self.first_sent_at.or_else(|| self.last_sent_at())
    }

    /// The same, the last time that it was sent.
    pub fn last_sent_at(&self) -> Option<Tick> {
        self.departure.as_ref().and_then(|departure| departure.get())
    }

    /// When the first byte of the body arrived.
    pub fn first_byte_at(&self) -> Option<Tick> {
        self.first_byte_at
    }

    /// When the latest byte of the body arrived.
    pub fn last_byte_at(&self) -> Option<Tick> {
        self.last_byte_at
    }

    /// The body of an error response, its first [`MAX_ERROR_BODY_BYTES`] bytes.
    pub fn error_body(&self) -> &[u8] {
        &self.error_body
    }

    /// The redactor.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The times of a request that ended so.
    pub fn timing(&self, due_at: Tick, ended_at: Tick, connection: ConnectionUse) -> Timing {
        Timing {
            due_at,
            began_at: None,
            sent_at: self.sent_at(),
            head_at: self.head_at,
            first_byte_at: self.first_byte_at,
            ended_at,
            connection_new: connection.new,
            stale_connections: self.stale_connections,
            dns: connection.dns,
            connect: connection.connect,
            tls: connection.tls,
            tls_resumed: connection.resumed,
            stream: connection.stream.map(|stream| StreamUse {
                connection: u64::from(stream.connection),
                wait_ns: stream.wait.as_nanos(),
                sharing: stream.sharing,
                allowed: stream.allowed,
            }),
        }
    }

    /// Parses an error response; `None` for a success, or before its head.
    pub fn error_response(&self) -> Option<ErrorResponse> {
        let head = self.head.as_ref().filter(|head| !head.status.is_success())?;
        Some(decode_error_response(head.status.as_u16(), &head.text_headers(), &self.error_body, self.wall_seconds))
    }

    /// How an exchange ended, in the meter's terms.
    pub fn ending(&self, outcome: Result<(), ExchangeFailure>) -> Ending {
        match (self.error_response(), outcome) {
            (Some(ErrorResponse { kind, message, retry_after, .. }), _) => {
                Ending::Failed { kind, message, retry_after }
            }
            (None, Ok(())) => Ending::Complete,
            (None, Err(failure)) if self.is_unsealed => Ending::Unsealed { message: failure.detail },
            (None, Err(ExchangeFailure { kind, detail })) => {
                Ending::Failed { kind, message: detail, retry_after: None }
            }
        }
    }

    /// Masks secrets in texts of the server and bounds their length, before they enter logs, messages and pages. Messages of
    /// transports and proxies do not pass through [`Answer::push`].
    pub fn clean(&self, failure: Option<&mut Failure>, model: &mut Option<String>) {
        let secrets = self.redactor.secrets();
        if let Some(failure) = failure {
            let message = std::mem::take(&mut failure.message);
            failure.message = one_line(&secrets.redacted(message), MAX_MESSAGE_BYTES);
        }
        *model = model.take().map(|model| one_line(&secrets.redacted(model), MAX_TEXT_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, StatusCode, Version};
    use std::cell::Cell;
    use tokrate_core::FailureKind;

    fn at(nanoseconds: u64) -> Tick {
        Tick::from_nanos(nanoseconds)
    }

    fn head(status: StatusCode) -> Head {
        Head { status, headers: HeaderMap::new(), version: Version::HTTP_11 }
    }

    fn with_key() -> Answer {
        let mut headers = HeaderMap::new();
        let mut key = HeaderValue::from_static("Bearer sk-a-long-enough-secret");
        key.set_sensitive(true);
        headers.insert("authorization", key);
        Answer::new(Redactor::new(Secrets::of(&headers), Bytes::new()))
    }

    fn departed(nanoseconds: u64) -> Departure {
        Rc::new(Cell::new(Some(at(nanoseconds))))
    }

    #[test]
    fn a_request_that_is_sent_again_is_timed_from_the_first_time() {
        let mut answer = Answer::default();
        answer.begin(&departed(10));
        answer.begin_again();
        answer.begin(&departed(30));
        answer.begin_again();
        answer.begin(&departed(50));
        let timing = answer.timing(at(5), at(90), ConnectionUse::default());
        assert_eq!((timing.sent_at, timing.stale_connections), (Some(at(10)), 2));
        assert_eq!(answer.last_sent_at(), Some(at(50)));
    }

    #[test]
    fn an_error_response_is_kept_up_to_its_limit_and_not_decoded() {
        let mut answer = with_key();
        answer.set_head(head(StatusCode::PAYMENT_REQUIRED));
        let body = br#"{"error": {"message": "pay, sk-a-long-enough-secret"}}"#;
        assert!(answer.push(at(1), body).is_empty() && answer.end().is_empty());
        let Ending::Failed { message, .. } = answer.ending(Ok(())) else { panic!("402 is a failure") };
        assert!(message.starts_with("pay") && !message.contains("secret"), "{message}");
        answer.push(at(2), &vec![b'x'; 2 * MAX_ERROR_BODY_BYTES]);
        assert_eq!(answer.error_body().len(), MAX_ERROR_BODY_BYTES);
    }

    #[test]
    fn a_date_to_wait_for_counts_from_the_local_clock_where_the_answer_has_no_date() {
        let mut answer = with_key();
        let mut limited = head(StatusCode::TOO_MANY_REQUESTS);
        limited.headers.insert("retry-after", HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        answer.set_head(limited);
        assert_eq!(answer.error_response().expect("429").retry_after, None, "no clock, no wait");
        answer.set_wall_seconds(784_111_777 - 30);
        assert_eq!(answer.error_response().expect("429").retry_after, Some(tokrate_core::Span::from_secs(30)));
    }

    #[test]
    fn a_good_answer_is_handed_on_without_the_key() {
        let mut answer = with_key();
        answer.set_head(head(StatusCode::OK));
        let mut seen = answer.push(at(1), b"the key is sk-a-long-enough").into_owned();
        seen.extend_from_slice(&answer.push(at(2), b"-secret, is it?"));
        seen.extend(answer.end());
        let text = String::from_utf8(seen).expect("text");
        assert!(text.starts_with("the key is ") && text.ends_with(", is it?") && !text.contains("secret"), "{text}");
        assert_eq!((answer.first_byte_at(), answer.last_byte_at()), (Some(at(1)), Some(at(2))));
        assert_eq!(answer.ending(Ok(())), Ending::Complete);
    }

    #[test]
    fn words_of_the_server_are_cleaned_and_bounded() {
        let answer = with_key();
        let message = format!("proxy said\nsk-a-long-enough-secret {}", "x".repeat(2_000));
        let mut failure = Failure { kind: FailureKind::Closed, message, retry_after: None };
        let mut model = Some("sk-a-long-enough-secret".to_owned());
        answer.clean(Some(&mut failure), &mut model);
        assert!(failure.message.len() <= MAX_MESSAGE_BYTES && !failure.message.contains(['\n']), "{}", failure.message);
        assert!(!failure.message.contains("secret") && !model.expect("a model").contains("secret"));
    }
}
