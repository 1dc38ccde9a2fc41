//! An answer on its way out: its head, and how its body is marked off.
//!
//! It refuses to write to sockets. Invariant: what it puts out is one whole message, or its beginning if the body broke.

use super::outbox::Outbox;
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

/// What the request says of its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub is_head: bool,
    pub version: Version,
}

/// An answer whose head was put out.
pub(super) struct Answer<B> {
    body: Pin<Box<B>>,
    marking: Marking,
}

/// How the body's end can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Marking {
    /// There is none.
    Nothing,
    /// So many bytes are left.
    Length(u64),
    Chunks,
    /// By the end of the connection, for who cannot read chunks.
    Close,
}

/// Why no more is put out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gathered {
    /// The body has nothing now.
    Waiting,
    /// So much is to be written first.
    Enough,
    /// It was the end.
    Ended,
    /// The body broke, or is not as long as it said.
    Broken,
}

impl<B: Body<Data = Bytes, Error = std::io::Error>> Answer<B> {
    /// Puts the head out. `keep` says whether the connection may be used again, and is told if it may not.
    pub fn begin(response: Response<B>, asked: Asked, keep: &mut bool, out: &mut Vec<u8>) -> Answer<B> {
        let (head, body) = response.into_parts();
        let length = body.size_hint().exact();
        let has_none = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let marking = match length {
            _ if has_none => Marking::Nothing,
            Some(length) => Marking::Length(length),
            None if asked.is_head => Marking::Nothing,
            None if asked.version == Version::HTTP_10 => Marking::Close,
            None => Marking::Chunks,
        };
        *keep &= marking != Marking::Close && keeps_alive(&head.headers, Version::HTTP_11);
        put_status(head.status, out);
        for (name, value) in &head.headers {
            if !OURS.contains(name) {
                put_field(name.as_str(), value.as_bytes(), out);
            }
        }
        if !head.headers.contains_key(DATE) {
            put_date(out);
        }
        match marking {
            Marking::Length(length) => write!(out, "content-length: {length}\r\n").expect("a vector takes everything"),
            Marking::Chunks => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Marking::Nothing | Marking::Close => {}
        }
        match asked.version {
            Version::HTTP_10 if *keep => out.extend_from_slice(b"connection: keep-alive\r\n"),
            Version::HTTP_11 if !*keep => out.extend_from_slice(b"connection: close\r\n"),
            _ => {}
        }
        out.extend_from_slice(b"\r\n");
        Answer { body: Box::pin(body), marking: if asked.is_head { Marking::Nothing } else { marking } }
    }

    /// Puts out what the body has.
    pub fn gather(&mut self, out: &mut Outbox, context: &mut Context<'_>) -> Gathered {
        loop {
            if matches!(self.marking, Marking::Nothing | Marking::Length(0)) {
                return Gathered::Ended;
            }
            if out.is_full() {
                return Gathered::Enough;
            }
            let frame = match self.body.as_mut().poll_frame(context) {
                Poll::Pending => return Gathered::Waiting,
                Poll::Ready(None) => return self.end(out.text()),
                Poll::Ready(Some(Err(_))) => return Gathered::Broken,
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            // Trailers go nowhere.
            let Ok(bytes) = frame.into_data() else { continue };
            match &mut self.marking {
                Marking::Length(left) => match left.checked_sub(bytes.len() as u64) {
                    Some(less) => *left = less,
                    None => return Gathered::Broken,
                },
                Marking::Chunks if bytes.is_empty() => continue,
                Marking::Chunks => {
                    write!(out.text(), "{:X}\r\n", bytes.len()).expect("a vector takes everything");
                }
                Marking::Nothing | Marking::Close => {}
            }
            out.put(bytes, if self.marking == Marking::Chunks { b"\r\n" } else { b"" });
        }
    }

    fn end(&self, out: &mut Vec<u8>) -> Gathered {
        match self.marking {
            Marking::Length(_) => return Gathered::Broken,
            Marking::Chunks => out.extend_from_slice(b"0\r\n\r\n"),
            Marking::Nothing | Marking::Close => {}
        }
        Gathered::Ended
    }
}

/// Said once, and here.
const OURS: [HeaderName; 3] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

/// Puts out an answer without a body, after which the connection is closed.
pub(super) fn refuse(status: StatusCode, out: &mut Vec<u8>) {
    put_status(status, out);
    put_date(out);
    out.extend_from_slice(b"content-length: 0\r\nconnection: close\r\n\r\n");
}

fn put_status(status: StatusCode, out: &mut Vec<u8>) {
    let reason = status.canonical_reason().unwrap_or_default();
    for part in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn put_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// The present second, written once in each of them.
struct Written {
    second: u64,
    text: String,
}

fn put_date(out: &mut Vec<u8>) {
    thread_local! {
        static NOW: RefCell<Written> = const { RefCell::new(Written { second: 0, text: String::new() }) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    NOW.with_borrow_mut(|written| {
        if written.second != second || written.text.is_empty() {
            *written = Written { second, text: httpdate::fmt_http_date(now) };
        }
        put_field(DATE.as_str(), written.text.as_bytes(), out);
    });
}
