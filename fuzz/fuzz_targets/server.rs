//! Whatever a client sends to the HTTP server: the same requests are heard however the bytes are cut, and the connection ends
//! when the client leaves.
//!
//! It refuses to know what is right. Invariant: the first bytes of the input say where it is cut.
#![no_main]

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_net::Clock;
use tokrate_net::server::{ConnectionTap, Handler, RequestBody, read_body, serve_connection};

/// Answers with the body that came, in pieces or whole.
#[derive(Default)]
struct Echo(RefCell<Vec<String>>);

struct Said(Option<Bytes>, bool);

impl Body for Said {
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
    type Body = Said;

    fn refusal(&self, _: &Request<RequestBody>, _: http::StatusCode, message: &str) -> Vec<u8> {
        message.as_bytes().to_vec()
    }

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, _: Rc<ConnectionTap>) -> Response<Said> {
        let (head, body) = request.into_parts();
        let asked = format!("{} {} {:?} {:?}", head.method, head.uri, head.version, head.headers);
        let body = read_body(body, 100).await;
        self.0.borrow_mut().push(format!("{asked} {body:?}"));
        Response::new(Said(body.ok(), head.uri.path().len() % 2 == 0))
    }
}

/// What was asked, if the bytes come in pieces that end at `cuts`.
async fn heard(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let (mut client, there) = tokio::io::duplex(1 << 20);
    let echo = Rc::<Echo>::default();
    let (_open, closing) = tokio::sync::watch::channel(false);
    let clock = Clock::monotonic();
    let serving = tokio::task::spawn_local(serve_connection(there, Rc::clone(&echo), clock, closing));
    let mut from = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        // A server that has closed reads no more.
        let _ = client.write_all(&bytes[from..cut]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        from = cut;
    }
    let mut answers = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(1), client.read_to_end(&mut answers)).await;
    drop(client);
    serving.await.expect("no panic");
    echo.0.take()
}

fuzz_target!(|input: &[u8]| {
    let Some((&[first, second], bytes)) = input.split_first_chunk::<2>() else { return };
    // HTTP/2 is the library's.
    if bytes.starts_with(b"PRI * HTTP/2") {
        return;
    }
    let mut cuts = [first, second].map(|cut| usize::from(cut) % (bytes.len() + 1));
    cuts.sort_unstable();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), async {
        let (whole, cut) = (heard(bytes, &[]).await, heard(bytes, &cuts).await);
        assert_eq!(whole, cut, "{}", String::from_utf8_lossy(bytes));
    });
});
