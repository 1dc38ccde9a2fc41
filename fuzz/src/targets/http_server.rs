//! Whatever a client sends to the HTTP/1.1 server: the same requests are received and the same answers are written however the bytes
//! are cut, and the connection ends when the client leaves.
//!
//! It does not know what is right. Invariant: the first bytes of the input say where it is cut.

use crate::drive::{Driver, within_runtime};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_core::Tick;
use tokrate_net::Clock;
use tokrate_net::server::{ConnectionTap, Handler, RequestBody, read_body, serve_connection};

/// Longest body that is echoed (bytes).
const ECHO_BYTES_MOST: usize = 100;
/// Room of the connection in each direction (bytes): more than the longest input, and all answers to it, take.
const ROOM_BYTES: usize = 1 << 20;

/// Answers with the body that came, in pieces or whole.
#[derive(Default)]
struct Echo(RefCell<Vec<String>>);

struct Echoed(Option<Bytes>, bool);

impl Body for Echoed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.0.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if self.1 { SizeHint::with_exact(length) } else { SizeHint::default() }
    }
}

impl Handler for Echo {
    type Body = Echoed;

    fn error_body(&self, _: &Request<RequestBody>, _: http::StatusCode, message: &str) -> Vec<u8> {
        message.as_bytes().to_vec()
    }

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, _: Rc<ConnectionTap>) -> Response<Echoed> {
        let (head, body) = request.into_parts();
        let asked = format!("{} {} {:?} {:?}", head.method, head.uri, head.version, head.headers);
        let body = read_body(body, ECHO_BYTES_MOST).await;
        self.0.borrow_mut().push(format!("{asked} {body:?}"));
        let mut response = Response::new(Echoed(body.ok(), head.uri.path().len() % 2 == 0));
        // Else the server writes the time of day.
        response.headers_mut().insert(http::header::DATE, http::HeaderValue::from_static("now"));
        response
    }
}

/// What was asked and what was answered, if the bytes come in pieces that end at `cuts`.
fn serve(bytes: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    let (mut client, there) = tokio::io::duplex(ROOM_BYTES);
    let echo = Rc::<Echo>::default();
    let (_open, closing) = tokio::sync::watch::channel(false);
    let (clock, _) = Clock::manual(Tick::ZERO);
    let driver = Driver::default();
    let mut serving = Box::pin(serve_connection(there, Rc::clone(&echo), clock, closing));
    let (mut from, mut has_ended) = (0, false);
    for &cut in cuts.iter().chain([&bytes.len()]) {
        // A server that has closed reads no more.
        let _ = driver.finish(pin!(client.write_all(&bytes[from..cut])), "a client");
        has_ended = has_ended || driver.poll(serving.as_mut()).is_ready();
        from = cut;
    }
    let _ = driver.finish(pin!(client.shutdown()), "a client");
    if !has_ended {
        driver.finish(serving.as_mut(), "a server whose client has left");
    }
    drop(serving);
    let mut answers = Vec::new();
    let _ = driver.finish(pin!(client.read_to_end(&mut answers)), "a client whose server has closed");
    (echo.0.take(), answers)
}

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[first, second], bytes)) = input.split_first_chunk::<2>() else { return };
    // HTTP/2 is the library's.
    if bytes.starts_with(b"PRI * HTTP/2") {
        return;
    }
    let mut cuts = [first, second].map(|cut| usize::from(cut) % (bytes.len() + 1));
    cuts.sort_unstable();
    within_runtime(|| {
        let (whole, cut) = (serve(bytes, &[]), serve(bytes, &cuts));
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(whole.0, cut.0, "{text}");
        assert!(say_the_same(&whole.1, &cut.1), "{text}: {whole:?} {cut:?}");
    });
}

/// Whether two answers are the same. A head that is wrong and never ends is refused at once if it comes in one piece, and else waited
/// for.
fn say_the_same(whole: &[u8], cut: &[u8]) -> bool {
    let (whole, cut) = (without_dates(whole), without_dates(cut));
    whole.strip_prefix(&cut[..]).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"))
}

/// Refusals bear the time of day.
fn without_dates(answers: &[u8]) -> Vec<u8> {
    let lines = answers.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"date: ")).flatten().copied().collect()
}
