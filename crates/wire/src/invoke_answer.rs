//! Answers of Anthropic's models on AWS Bedrock's Invoke, put back into Anthropic's own form: events out of binary messages, errors out of
//! AWS's.
//!
//! Facts: botocore's model of the service (`ResponseStream`, 1.44.8): the payload of a `chunk` is an object whose `bytes` are base64 of one of
//! Anthropic's events; a failure is a message of its own kind. Invariant: what comes out depends on the bytes alone, not on how they were cut;
//! a message that cannot be read becomes an error event, and nothing follows it.

use crate::base64;
use crate::codec::{Shape, StreamPosition};
use crate::dialect::Dialect;
use crate::event_stream::EventStreamFramer;
use crate::frame::Frame;
use serde::Deserialize;
use std::borrow::Cow;

/// Largest error body that is kept; AWS's are some hundred bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Largest message of a stream (bytes): an event of Anthropic's is seldom over a few KiB, and base64 adds a third.
const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// AWS's kinds of failures in a stream, and the status that each has as an answer of its own.
const FAILURES: [(&str, u16); 6] = [
    ("throttlingException", 429),
    ("validationException", 400),
    ("serviceUnavailableException", 503),
    ("modelTimeoutException", 504),
    ("modelStreamErrorException", 500),
    ("internalServerException", 500),
];

/// The media type of AWS's binary streams.
const BINARY: &str = "application/vnd.amazon.eventstream";

/// One answer.
#[derive(Debug)]
pub struct InvokeAnswer(Form);

#[derive(Debug)]
enum Form {
    /// In one piece, as Anthropic's own.
    Whole,
    Stream {
        framer: EventStreamFramer,
        is_over: bool,
    },
    Error {
        status: u16,
        body: Vec<u8>,
    },
}

#[derive(Deserialize)]
struct Chunk<'c> {
    #[serde(borrow)]
    bytes: Cow<'c, str>,
}

#[derive(Deserialize)]
struct Named<'e> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'e, str>,
}

#[derive(Deserialize, Default)]
struct Failure {
    #[serde(alias = "Message", default)]
    message: String,
}

impl InvokeAnswer {
    /// An answer with this status and media type.
    pub fn new(status: u16, content_type: &str) -> InvokeAnswer {
        let is_binary = content_type.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(BINARY));
        InvokeAnswer(match () {
            () if status >= 400 => Form::Error { status, body: Vec::new() },
            () if is_binary => Form::Stream { framer: EventStreamFramer::new(MAX_MESSAGE_BYTES), is_over: false },
            () => Form::Whole,
        })
    }

    /// The media type of what comes out; `None` if it is as it came.
    pub fn content_type(&self) -> Option<&'static str> {
        match self.0 {
            Form::Whole => None,
            Form::Stream { .. } => Some("text/event-stream"),
            Form::Error { .. } => Some("application/json"),
        }
    }

    /// Takes bytes of the body.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.0 {
            Form::Whole => out.extend_from_slice(bytes),
            Form::Error { body, .. } => {
                let room = MAX_ERROR_BYTES - body.len();
                body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Form::Stream { framer, is_over } => framer.push(bytes, &mut |frame| take(frame, is_over, out)),
        }
    }

    /// The body has ended.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        match &mut self.0 {
            Form::Whole => {}
            Form::Stream { framer, is_over } => framer.end(&mut |frame| take(frame, is_over, out)),
            Form::Error { status, body } => {
                let body = std::mem::take(body);
                // What is no error of AWS's may be Anthropic's own, or a proxy's page.
                match serde_json::from_slice::<Failure>(&body) {
                    Ok(Failure { message }) if !message.is_empty() => {
                        out.extend_from_slice(&(Dialect::Anthropic.codec().encode_error)(*status, &message));
                    }
                    _ => out.extend_from_slice(&body),
                }
            }
        }
    }
}

fn take(frame: Frame<'_>, is_over: &mut bool, out: &mut Vec<u8>) {
    if *is_over {
        return;
    }
    let failure = match frame {
        Frame::Event { name: b"chunk", data } => match push_event(data, out) {
            Some(()) => return,
            None => (500, Cow::Borrowed("an event of Bedrock's stream cannot be read")),
        },
        // Kinds of events that are newer than this.
        Frame::Event { name, .. } if !is_failure(name) => return,
        Frame::Event { name, data } => {
            let status = FAILURES.iter().find(|(kind, _)| kind.as_bytes() == name).map_or(500, |(_, status)| *status);
            let said = serde_json::from_slice::<Failure>(data).unwrap_or_default().message;
            let message = if said.is_empty() { String::from_utf8_lossy(name).into_owned() } else { said };
            (status, Cow::Owned(message))
        }
        // It broke off: so does what comes out.
        Frame::Unfinished { .. } => return,
        Frame::Corrupt => (500, Cow::Borrowed("a message of Bedrock's stream is corrupt")),
        Frame::TooLarge { .. } => (500, Cow::Borrowed("a message of Bedrock's stream is too large")),
    };
    *is_over = true;
    let position = StreamPosition { begun: true, sequence: 0 };
    (Dialect::Anthropic.codec().push_error_event)(Shape::Stream, failure.0, &failure.1, position, out);
}

fn is_failure(name: &[u8]) -> bool {
    name == b"error" || name.ends_with(b"Exception")
}

/// Appends the event that a chunk holds; `None` if there is none in it.
fn push_event(data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let chunk: Chunk<'_> = serde_json::from_slice(data).ok()?;
    let event = base64::decode(chunk.bytes.as_bytes())?;
    let named: Named<'_> = serde_json::from_slice(&event).ok()?;
    let is_line = |byte: &u8| *byte != b'\n' && *byte != b'\r';
    if !named.kind.bytes().all(|byte| is_line(&byte)) {
        return None;
    }
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(named.kind.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    // Between the values of a document line ends mean nothing.
    out.extend(event.iter().copied().filter(is_line));
    out.extend_from_slice(b"\n\n");
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_stream::push_message;
    use proptest::prelude::*;

    fn chunk(event: &str) -> Vec<u8> {
        let payload = format!(r#"{{"bytes":"{}","p":"abcdef"}}"#, base64::encode(event.as_bytes()));
        let mut out = Vec::new();
        push_message("event", "chunk", payload.as_bytes(), &mut out);
        out
    }

    fn exception(name: &str, payload: &str) -> Vec<u8> {
        let mut out = Vec::new();
        push_message("exception", name, payload.as_bytes(), &mut out);
        out
    }

    fn out_of(status: u16, content_type: &str, parts: &[&[u8]]) -> String {
        let (mut answer, mut out) = (InvokeAnswer::new(status, content_type), Vec::new());
        parts.iter().for_each(|part| answer.push(part, &mut out));
        answer.end(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_stream_becomes_anthropics_events_however_it_was_cut() {
        let events = [
            r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":3}}}"#,
            "{\"type\":\"content_block_delta\",\n\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"\u{fc}\\n\"}}",
            r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3}}"#,
        ];
        let body: Vec<u8> = events.iter().flat_map(|event| chunk(event)).collect();
        let expected: String = events
            .iter()
            .zip(["message_start", "content_block_delta", "message_stop"])
            .map(|(event, name)| format!("event: {name}\ndata: {}\n\n", event.replace('\n', "")))
            .collect();
        for size in [1, 2, 7, 100, body.len()] {
            let parts: Vec<&[u8]> = body.chunks(size).collect();
            assert_eq!(out_of(200, BINARY, &parts), expected, "{size}");
        }
        // One that breaks off is cut where it was.
        let cut = &body[..body.len() - 1];
        assert_eq!(out_of(200, BINARY, &[cut]), expected[..expected.rfind("event: ").expect("three")]);
    }

    #[test]
    fn a_failure_within_a_stream_is_anthropics_error_and_the_last_event() {
        let start = chunk(r#"{"type":"ping"}"#);
        let late = chunk(r#"{"type":"message_stop"}"#);
        for (failure, said) in [
            (
                exception("throttlingException", r#"{"message":"slow down"}"#),
                r#""type":"rate_limit_error","message":"slow down""#,
            ),
            (exception("modelTimeoutException", "{}"), r#""type":"api_error","message":"modelTimeoutException""#),
            (chunk("no JSON"), "cannot be read"),
            (exception("newException", r#"{"Message":"x"}"#), r#""message":"x""#),
            (b"\0\0\0\x20 no prelude of a message".to_vec(), "is corrupt"),
        ] {
            let out = out_of(200, BINARY, &[&start, &failure, &late]);
            assert!(out.starts_with("event: ping\ndata: {\"type\":\"ping\"}\n\nevent: error\ndata: "), "{out}");
            assert!(out.contains(said) && !out.contains("message_stop"), "{out}");
        }
        let mut newer = Vec::new();
        push_message("event", "metrics", b"{}", &mut newer);
        assert_eq!(out_of(200, BINARY, &[&newer, &start]), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    }

    #[test]
    fn an_error_of_awss_becomes_anthropics_and_anything_else_stays() {
        let error = out_of(403, "application/json", &[br#"{"message":"no ", "x":1}"#]);
        assert_eq!(error, r#"{"type":"error","error":{"type":"permission_error","message":"no "}}"#);
        for other in ["<html>", r#"{"type":"error","error":{"type":"x","message":"y"}}"#, ""] {
            assert_eq!(out_of(500, "application/json", &[other.as_bytes()]), other);
        }
        assert_eq!(out_of(200, "application/json", &[b"{\"type\":", b"\"message\"}"]), "{\"type\":\"message\"}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_any_cut_gives_the_same(body in proptest::collection::vec(any::<u8>(), 0..200), size in 1..50_usize, sound in any::<bool>()) {
            let body = if sound { [chunk(r#"{"type":"ping"}"#), body].concat() } else { body };
            let whole = out_of_bytes(&[&body]);
            let parts: Vec<&[u8]> = body.chunks(size).collect();
            prop_assert_eq!(out_of_bytes(&parts), whole);
        }
    }

    fn out_of_bytes(parts: &[&[u8]]) -> Vec<u8> {
        let (mut answer, mut out) = (InvokeAnswer::new(200, BINARY), Vec::new());
        parts.iter().for_each(|part| answer.push(part, &mut out));
        answer.end(&mut out);
        out
    }
}
