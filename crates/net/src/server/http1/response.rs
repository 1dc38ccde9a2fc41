//! Writes an HTTP/1.1 response: its head and the framing of its body.
//!
//! Invariant: the output is one complete message, or its beginning if the body failed.

use super::write_buffer::WriteBuffer;
use crate::http1::keeps_alive;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderName, TRANSFER_ENCODING};
use http::{Response, StatusCode, Version};
use http_body::Body;
use std::cell::RefCell;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

/// What the request determines about its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestInfo {
    pub is_head: bool,
    pub version: Version,
}

/// A response whose head was written.
pub(super) struct ResponseWriter<B> {
    body: Pin<Box<B>>,
    framing: BodyFraming,
}

/// How the end of the body is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BodyFraming {
    /// No body.
    None,
    /// Remaining bytes.
    Length(u64),
    Chunked,
    /// By closing the connection, for HTTP/1.0 clients.
    UntilClose,
}

/// Why `fill` stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// The body has no frame ready.
    Pending,
    /// The buffer must be written first.
    BufferFull,
    /// The response is complete.
    Complete,
    /// The body failed, or differs from its announced length.
    Failed,
}

impl<B: Body<Data = Bytes, Error = std::io::Error>> ResponseWriter<B> {
    /// Writes the head. Clears `keep` if the connection cannot be reused.
    pub fn begin(response: Response<B>, info: RequestInfo, keep: &mut bool, out: &mut Vec<u8>) -> ResponseWriter<B> {
        let (head, body) = response.into_parts();
        let length = body.size_hint().exact();
        let has_none = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let framing = match length {
            _ if has_none => BodyFraming::None,
            Some(length) => BodyFraming::Length(length),
            None if info.is_head => BodyFraming::None,
            None if info.version == Version::HTTP_10 => BodyFraming::UntilClose,
            None => BodyFraming::Chunked,
        };
        *keep &= framing != BodyFraming::UntilClose && keeps_alive(&head.headers, Version::HTTP_11);
        write_status(head.status, out);
        for (name, value) in &head.headers {
            if !FRAMING_HEADERS.contains(name) {
                write_field(name.as_str(), value.as_bytes(), out);
            }
        }
        if !head.headers.contains_key(DATE) {
            write_date(out);
        }
        match framing {
            BodyFraming::Length(length) => {
                write!(out, "content-length: {length}\r\n").expect("a vector takes everything")
            }
            BodyFraming::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            BodyFraming::None | BodyFraming::UntilClose => {}
        }
        match info.version {
            Version::HTTP_10 if *keep => out.extend_from_slice(b"connection: keep-alive\r\n"),
            Version::HTTP_11 if !*keep => out.extend_from_slice(b"connection: close\r\n"),
            _ => {}
        }
        out.extend_from_slice(b"\r\n");
        ResponseWriter { body: Box::pin(body), framing: if info.is_head { BodyFraming::None } else { framing } }
    }

    /// Writes the frames that are ready.
    pub fn fill(&mut self, out: &mut WriteBuffer, context: &mut Context<'_>) -> Progress {
        loop {
            if matches!(self.framing, BodyFraming::None | BodyFraming::Length(0)) {
                return Progress::Complete;
            }
            if out.is_full() {
                return Progress::BufferFull;
            }
            let frame = match self.body.as_mut().poll_frame(context) {
                Poll::Pending => return Progress::Pending,
                Poll::Ready(None) => return self.end(out.buffer()),
                Poll::Ready(Some(Err(_))) => return Progress::Failed,
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            // Trailers are dropped.
            let Ok(bytes) = frame.into_data() else { continue };
            match &mut self.framing {
                BodyFraming::Length(left) => match left.checked_sub(bytes.len() as u64) {
                    Some(less) => *left = less,
                    None => return Progress::Failed,
                },
                BodyFraming::Chunked if bytes.is_empty() => continue,
                BodyFraming::Chunked => {
                    write!(out.buffer(), "{:X}\r\n", bytes.len()).expect("a vector takes everything");
                }
                BodyFraming::None | BodyFraming::UntilClose => {}
            }
            out.push(bytes, if self.framing == BodyFraming::Chunked { b"\r\n" } else { b"" });
        }
    }

    fn end(&self, out: &mut Vec<u8>) -> Progress {
        match self.framing {
            BodyFraming::Length(_) => return Progress::Failed,
            BodyFraming::Chunked => out.extend_from_slice(b"0\r\n\r\n"),
            BodyFraming::None | BodyFraming::UntilClose => {}
        }
        Progress::Complete
    }
}

/// Set here only.
const FRAMING_HEADERS: [HeaderName; 3] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

/// Writes a response without a body that closes the connection.
pub(super) fn write_error(status: StatusCode, out: &mut Vec<u8>) {
    write_status(status, out);
    write_date(out);
    out.extend_from_slice(b"content-length: 0\r\nconnection: close\r\n\r\n");
}

/// Writes the head of a 101, behind which the connection speaks another protocol.
pub(super) fn write_upgrade<B>(response: &Response<B>, out: &mut Vec<u8>) {
    write_status(response.status(), out);
    for (name, value) in response.headers() {
        if !FRAMING_HEADERS.contains(name) {
            write_field(name.as_str(), value.as_bytes(), out);
        }
    }
    write_date(out);
    out.extend_from_slice(b"connection: upgrade\r\n\r\n");
}

fn write_status(status: StatusCode, out: &mut Vec<u8>) {
    let reason = status.canonical_reason().unwrap_or_default();
    for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn write_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The `Date` header of the current second.
struct CachedDate {
    second: u64,
    text: String,
}

fn write_date(out: &mut Vec<u8>) {
    thread_local! {
        static NOW: RefCell<CachedDate> = const { RefCell::new(CachedDate { second: 0, text: String::new() }) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    NOW.with_borrow_mut(|written| {
        if written.second != second || written.text.is_empty() {
            *written = CachedDate { second, text: httpdate::fmt_http_date(now) };
        }
        write_field(DATE.as_str(), written.text.as_bytes(), out);
    });
}
