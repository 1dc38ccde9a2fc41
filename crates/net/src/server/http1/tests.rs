//! Requests and answers over memory, for themselves and against the HTTP library as an oracle.

use super::*;
use crate::clock::Clock;
use crate::server::{ConnectionTap, read_body, serve_connection};
use bytes::Bytes;
use http::{Request, Response, header};
use http_body::{Body, Frame, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::watch;

fn on_paused_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// Answers with what it was asked, in the form that the path names.
#[derive(Default)]
struct Echo {
    received: RefCell<Vec<String>>,
}

/// Pieces, and whether their length is declared.
struct Said(VecDeque<io::Result<Bytes>>, Option<u64>);

impl Body for Said {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.get_mut().0.pop_front().map(|piece| piece.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.1.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Echo {
    async fn answer(&self, request: Request<RequestBody>) -> Response<Said> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let asked = format!("{} {path} {:?} {:?}", head.method, head.version, head.headers.get("x"));
        let body = if path == "/deaf" { Ok(Bytes::new()) } else { read_body(body, 64).await };
        self.received.borrow_mut().push(format!("{asked} {body:?}"));
        let text = body.unwrap_or_else(|error| Bytes::from(format!("{error:?}")));
        let length = text.len() as u64;
        let mut pieces: VecDeque<_> = text.chunks(3).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let mut response = match path.as_str() {
            "/stream" => Response::new(Said(pieces, None)),
            "/broken" => {
                pieces.push_back(Err(io::ErrorKind::Other.into()));
                Response::new(Said(pieces, None))
            }
            "/short" => Response::new(Said(pieces, Some(length + 1))),
            "/long" => Response::new(Said(pieces, Some(length - 1))),
            _ => Response::new(Said(pieces, Some(length))),
        };
        match path.as_str() {
            "/none" => *response.status_mut() = StatusCode::NO_CONTENT,
            "/close" => {
                drop(response.headers_mut().insert(header::CONNECTION, http::HeaderValue::from_static("close")))
            }
            _ => {}
        }
        response
    }
}

impl Handler for Echo {
    type Body = Said;

    fn error_body(&self, _: &Request<RequestBody>, _: StatusCode, message: &str) -> Vec<u8> {
        message.as_bytes().to_vec()
    }

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, _: Rc<ConnectionTap>) -> Response<Said> {
        self.answer(request).await
    }
}

/// A connection that is served by a task of its own: its handler and the client's end.
fn served() -> (Rc<Echo>, DuplexStream) {
    let (here, there) = tokio::io::duplex(1 << 20);
    let echo = Rc::<Echo>::default();
    let handler = Rc::clone(&echo);
    tokio::task::spawn_local(async move {
        let (_open, closing) = watch::channel(false);
        serve_connection(there, handler, Clock::manual(tokrate_core::Tick::ZERO).0, closing).await;
    });
    (echo, here)
}

/// What comes until nothing more does, and whether the connection was closed after it.
async fn read_response(client: &mut DuplexStream) -> (String, bool) {
    let mut received = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_secs(1), client.read_buf(&mut received)).await {
            Ok(Ok(count)) if count > 0 => {}
            Ok(_) => return (without_date(&received), true),
            Err(_) => return (without_date(&received), false),
        }
    }
}

fn without_date(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.split_inclusive("\r\n").filter(|line| !line.starts_with("date: "));
    assert!(!text.contains("HTTP/1.1 ") || text.contains("\r\ndate: ") || text.contains(" 100 "), "{text}");
    lines.collect()
}

async fn ask(request: &str) -> (Vec<String>, String, bool) {
    let (echo, mut client) = served();
    client.write_all(request.as_bytes()).await.expect("room");
    let (answer, closed) = read_response(&mut client).await;
    let received = echo.received.borrow().clone();
    (received, answer, closed)
}

#[test]
fn a_response_is_framed_for_the_version_of_its_client() {
    on_paused_runtime(async {
        for (request, answer, closes) in [
            ("POST /a HTTP/1.1\r\ncontent-length: 4\r\n\r\nabcd", "content-length: 4\r\n\r\nabcd", false),
            (
                "POST /stream HTTP/1.1\r\ncontent-length: 4\r\n\r\nabcd",
                "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
                false,
            ),
            (
                "POST /a HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n2;x=y\r\nab\r\n0\r\nt: u\r\n\r\n",
                "content-length: 2\r\n\r\nab",
                false,
            ),
            ("GET /a HTTP/1.1\r\n\r\n", "content-length: 0\r\n\r\n", false),
            ("GET /a HTTP/1.1\r\nconnection: x, Close\r\n\r\n", "content-length: 0\r\nconnection: close\r\n\r\n", true),
            ("GET /close HTTP/1.1\r\n\r\n", "content-length: 0\r\nconnection: close\r\n\r\n", true),
            ("HEAD /a HTTP/1.1\r\ncontent-length: 2\r\n\r\nab", "content-length: 2\r\n\r\n", false),
            ("HEAD /stream HTTP/1.1\r\ncontent-length: 2\r\n\r\nab", "HTTP/1.1 200 OK\r\n\r\n", false),
            ("POST /stream HTTP/1.0\r\ncontent-length: 4\r\n\r\nabcd", "HTTP/1.1 200 OK\r\n\r\nabcd", true),
            (
                "POST /a HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nab",
                "content-length: 2\r\nconnection: keep-alive\r\n\r\nab",
                false,
            ),
        ] {
            let (received, response, closed) = ask(request).await;
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with(answer), "{request}: {response}");
            assert_eq!((received.len(), closed), (1, closes), "{request}");
        }
        let (_, response, closed) = ask("GET /none HTTP/1.1\r\n\r\n").await;
        assert_eq!((response.as_str(), closed), ("HTTP/1.1 204 No Content\r\n\r\n", false));
    });
}

#[test]
fn an_answer_that_breaks_has_no_end() {
    on_paused_runtime(async {
        for (path, answer) in
            [("broken", "\r\n\r\n3\r\nabc\r\n"), ("short", "\r\n\r\nabc"), ("long", "content-length: 2\r\n\r\n")]
        {
            let (_, response, closed) = ask(&format!("POST /{path} HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc")).await;
            assert!(response.ends_with(answer) && closed, "{path}: {response}");
        }
    });
}

#[test]
fn ambiguous_and_invalid_requests_are_rejected_before_the_handler() {
    let long = "x".repeat(70_000);
    let fields = "x: y\r\n".repeat(101);
    on_paused_runtime(async {
        for (request, status) in [
            ("POST /a HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nab", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ncontent-length: 2, 2\r\n\r\nab", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ncontent-length: +2\r\n\r\nab", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ncontent-length: 0x2\r\n\r\nab", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ncontent-length: 18446744073709551616\r\n\r\nab", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n", "400 Bad Request"),
            ("POST /a HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\ncontent-length : 2\r\n\r\nab", "400 Bad Request"),
            ("POST /a HTTP/1.1\r\nx: y\r\n folded\r\n\r\n", "400 Bad Request"),
            ("GET /a HTTP/2.0\r\n\r\n", "400 Bad Request"),
            ("G\u{e9}T /a HTTP/1.1\r\n\r\n", "400 Bad Request"),
            ("\u{16}\u{3}\u{1}\u{2}\u{0}", "400 Bad Request"),
            (&format!("GET /{long} HTTP/1.1\r\n\r\n"), "431 Request Header Fields Too Large"),
            (&format!("GET /a HTTP/1.1\r\nx: {long}"), "431 Request Header Fields Too Large"),
            (&format!("GET /a HTTP/1.1\r\n{fields}\r\n"), "431 Request Header Fields Too Large"),
        ] {
            let (received, response, closed) = ask(request).await;
            let refusal = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            assert_eq!((response, closed, received), (refusal, true, vec![]), "{:.80}", request);
        }
    });
}

#[test]
fn a_body_is_read_when_it_is_wanted_and_as_far_as_it_is() {
    on_paused_runtime(async {
        let head = "POST /a HTTP/1.1\r\nexpect: 100-Continue\r\ncontent-length:";
        let (echo, mut client) = served();
        client.write_all(format!("{head} 2\r\n\r\n").as_bytes()).await.expect("room");
        assert_eq!(read_response(&mut client).await, ("HTTP/1.1 100 Continue\r\n\r\n".to_owned(), false));
        client.write_all(b"abGET /a HTTP/1.1\r\n\r\n").await.expect("room");
        let (response, closed) = read_response(&mut client).await;
        assert!(response.contains("\r\n\r\nabHTTP/1.1 200 OK\r\n") && !closed, "{response}");
        assert_eq!(echo.received.borrow().len(), 2);
        // Too large, by its length or by what comes: it is not asked for, or not read to its end.
        let (received, response, closed) = ask(&format!("{head} 65\r\n\r\n")).await;
        assert!(
            response.ends_with("connection: close\r\n\r\nTooLarge") && !response.contains("Continue") && closed,
            "{response}"
        );
        assert_eq!(received.len(), 1);
        let chunks = "8\r\nabcdefgh\r\n".repeat(9);
        let (_, response, closed) =
            ask(&format!("POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{chunks}")).await;
        assert!(response.ends_with("connection: close\r\n\r\nTooLarge") && closed, "{response}");
        // Not wanted at all.
        let (_, response, closed) = ask("POST /deaf HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc").await;
        assert!(response.ends_with("content-length: 0\r\nconnection: close\r\n\r\n") && closed, "{response}");
        // Broken off, by the client or in its framing.
        let (_, response, closed) = ask("POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx").await;
        assert!(response.ends_with("connection: close\r\n\r\nBroken") && closed, "{response}");
        let (echo, mut client) = served();
        client.write_all(b"POST /a HTTP/1.1\r\ncontent-length: 9\r\n\r\nabc").await.expect("room");
        client.shutdown().await.expect("open");
        let (response, closed) = read_response(&mut client).await;
        assert!(response.ends_with("connection: close\r\n\r\nBroken") && closed, "{response}");
        assert!(echo.received.borrow()[0].ends_with("Err(Broken)"));
    });
}

#[test]
fn a_rejected_client_that_goes_on_sending_is_drained_for_a_limited_time() {
    on_paused_runtime(async {
        let (_, mut client) = served();
        client.write_all(b"POST /deaf HTTP/1.1\r\ncontent-length: 99999999\r\n\r\n").await.expect("room");
        let began = tokio::time::Instant::now();
        // More than the connection holds: it would block if nobody read it.
        for _ in 0..40 {
            client.write_all(&[b'x'; 1 << 16]).await.expect("it is read");
        }
        let (response, closed) = read_response(&mut client).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && closed);
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(began.elapsed() < LINGER_TIMEOUT.as_duration() * 2, "{:?}", began.elapsed());
    });
}

#[test]
fn head_and_idle_timeouts_close_a_connection() {
    on_paused_runtime(async {
        let (echo, mut client) = served();
        for byte in b"GET /a HTTP/1.1\r\nx: slow\r\n\r\n" {
            client.write_all(&[*byte]).await.expect("open");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        assert!(!read_response(&mut client).await.1);
        tokio::time::sleep(IDLE_TIMEOUT.as_duration() - Duration::from_secs(5)).await;
        client.write_all(b"GET /a HTTP/1.1\r\n").await.expect("open");
        let began = tokio::time::Instant::now();
        while client.write_all(b"x: y\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let took = began.elapsed();
        assert!(took >= HEAD_TIMEOUT.as_duration() && took < HEAD_TIMEOUT.as_duration() * 2, "{took:?}");
        assert_eq!(echo.received.borrow().len(), 1);
        let (_, mut client) = served();
        client.write_all(b"GET /a HTTP/1.1\r\n\r\n").await.expect("open");
        assert!(!read_response(&mut client).await.1);
        tokio::time::sleep(IDLE_TIMEOUT.as_duration()).await;
        assert!(read_response(&mut client).await.1, "nothing more was asked");
    });
}

#[test]
fn a_connection_that_waits_holds_no_buffer() {
    on_paused_runtime(async {
        let (mut client, there) = tokio::io::duplex(1 << 16);
        let (echo, tap) = (Rc::<Echo>::default(), Rc::default());
        let mut connection = Connection::new(there, Vec::new(), RequestService::new(echo, tap, None));
        for _ in 0..3 {
            client.write_all(b"POST /stream HTTP/1.1\r\ncontent-length: 4\r\n\r\nabcd").await.expect("room");
            let polled = std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut connection).poll(context))).await;
            assert!(polled.is_pending());
            assert!(connection.unread.capacity() == 0 && connection.output.is_empty());
        }
        assert!(size_of::<Connection<Echo, DuplexStream>>() < 512, "{}", size_of::<Connection<Echo, DuplexStream>>());
    });
}

/// Requests, right and wrong, one after the other.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "POST /a HTTP/1.1",
        "POST /stream HTTP/1.1",
        "GET /a HTTP/1.0",
        "HEAD /stream HTTP/1.1",
        "POST http://h/a?b HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "CONNECT h:1 HTTP/1.1",
        "CONNECT /a HTTP/1.1",
        "GET h:1 HTTP/1.1",
        "GET  /a HTTP/1.1",
        "GET /\u{e9} HTTP/1.1",
        "GET /a HTTP/1.2",
        "G(T /a HTTP/1.1",
        "ODD /a HTTP/1.1",
        "\r\nGET /close HTTP/1.1",
        "GET /a",
    ]);
    let field = prop::sample::select(vec![
        "content-length: 5",
        "content-length: 05",
        "content-length: 5 ",
        "content-length: 6",
        "content-length: +5",
        "content-length: 5, 5",
        "content-length:",
        "content-length: 60",
        "transfer-encoding: chunked",
        "Transfer-Encoding: gzip, Chunked",
        "transfer-encoding: gzip",
        "connection: close",
        "connection: keep-alive",
        "expect: 100-continue",
        "x: y",
        "x : y",
        " x: y",
        "x",
        ": y",
        "x: \u{e9}",
        "x: a\u{0}b",
    ]);
    let body = prop::sample::select(vec![
        "",
        "hello",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;a\r\nhello\r\n0\r\nx: y\r\n\r\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "g\r\nhello\r\n",
        "50\r\nhello",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\n"]);
    let one = (line, prop::collection::vec(field, 0..3), end, body).prop_map(|(line, fields, end, body)| {
        let fields: String = fields.iter().map(|field| format!("{field}{end}")).collect();
        format!("{line}{end}{fields}{end}{body}").into_bytes()
    });
    prop::collection::vec(one, 1..4).prop_map(|all| all.concat())
}

/// Whether something in it is refused here and understood by the library in one of two ways.
fn is_ambiguous(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let has = |what: &str| text.matches(what).count();
    text.contains("gzip")
        || (has("transfer-encoding") > 0 && has("content-length") > 0)
        || has("content-length") > 1
        || has("transfer-encoding") > 1
}

async fn parsed_by_hyper(bytes: &[u8]) -> Vec<String> {
    let (mut here, there) = tokio::io::duplex(1 << 20);
    let echo = Rc::<Echo>::default();
    let handler = Rc::clone(&echo);
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let handler = Rc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.answer(request.map(RequestBody::http2)).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new());
    tokio::task::spawn_local(builder.serve_connection(TokioIo::new(there), service));
    here.write_all(bytes).await.expect("room");
    let _ = read_responses(&mut here).await;
    echo.received.borrow().clone()
}

async fn read_responses(client: &mut DuplexStream) -> Vec<u8> {
    let mut received = Vec::new();
    while let Ok(Ok(1..)) = tokio::time::timeout(Duration::from_secs(1), client.read_buf(&mut received)).await {}
    received
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn requests_are_read_as_the_http_library_reads_them(
        bytes in requests(),
        cuts in prop::collection::vec(any::<usize>(), 0..4),
    ) {
        let (ours, theirs) = on_paused_runtime(async {
            let (echo, mut client) = served();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([bytes.len()]).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts {
                let _ = client.write_all(&bytes[from..cut]).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                from = cut;
            }
            let _ = read_responses(&mut client).await;
            let ours = echo.received.borrow().clone();
            (ours, parsed_by_hyper(&bytes).await)
        });
        if is_ambiguous(&bytes) {
            prop_assert!(theirs.starts_with(&ours), "{ours:?} {theirs:?}");
        } else {
            prop_assert_eq!(ours, theirs, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn a_head_that_is_whole_may_end_wherever_it_is_cut(bytes in requests(), cut in any::<usize>()) {
        if let Ok(Some(read)) = request::parse(&bytes) {
            let cut = cut % read.length;
            if let Ok(None) = request::parse(&bytes[..cut]) {
                prop_assert!(request::may_end(&bytes[..read.length], cut));
            }
        }
    }
}
