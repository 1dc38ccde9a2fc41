//! The client over memory: stamps, limits, pool and every kind of failure that needs no network.
//!
//! Nothing here sleeps: peers act between two polls of the exchange, and clocks are moved by hand.

use super::*;
use crate::clock::ManualClock;
use crate::exchange::Head;
use bytes::Bytes;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_core::{Span, Tick};

mod http2;
mod tls;

const MS: Span = Span::from_millis(1);

/// Runs, without tokio's bound on how much is done in one poll, on a local runtime whose timers jump when nothing else is to be done.
fn on_paused_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, tokio::task::coop::unconstrained(future))
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = future;
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// A client whose connections end here.
struct Bench {
    client: Client,
    manual_clock: ManualClock,
    peers: Rc<RefCell<Vec<DuplexStream>>>,
}

impl Bench {
    fn new(url: &str, buffer_bytes: usize) -> Bench {
        Bench::with(ClientConfig::default(), url, buffer_bytes)
    }

    fn with(config: ClientConfig, url: &str, buffer_bytes: usize) -> Bench {
        let (clock, manual_clock) = Clock::manual(Tick::from_nanos(1_000));
        let peers = Rc::new(RefCell::new(Vec::new()));
        let dialled = Rc::clone(&peers);
        let client = Client::over_memory(config, &Target::parse(url).expect("a URL"), clock, move || {
            let (here, there) = tokio::io::duplex(buffer_bytes);
            dialled.borrow_mut().push(there);
            here
        });
        Bench { client: client.expect("a client"), manual_clock, peers }
    }

    fn plain() -> Bench {
        Bench::new("http://h/v1", 64 * 1024)
    }

    fn dialled(&self) -> usize {
        self.peers.borrow().len()
    }

    /// Takes the latest connection's other end.
    fn peer(&self) -> DuplexStream {
        self.peers.borrow_mut().pop().expect("a connection was opened")
    }

    /// One exchange against a peer that answers with `answer` and then closes.
    async fn answered_with(&self, answer: &[u8]) -> (Exchange, RecordingSink) {
        let (received, mut sink) = RecordingSink::pair();
        let mut exchange = pin!(self.client.exchange(outgoing(b"{}"), limits(), &mut sink));
        assert!(poll_once(exchange.as_mut()).await.is_pending());
        let mut peer = self.peer();
        peer.write_all(answer).await.expect("the client listens");
        peer.shutdown().await.expect("the client listens");
        let exchange = exchange.await;
        (exchange, received)
    }
}

fn outgoing(body: &'static [u8]) -> Outgoing {
    let mut headers = http::HeaderMap::new();
    headers.insert("authorization", http::HeaderValue::from_static("Bearer sk-secret"));
    Outgoing { method: http::Method::POST, path: "/v1/x".to_owned(), headers, body: Bytes::from_static(body) }
}

fn limits() -> Limits {
    Limits { idle: Span::from_secs(30), total: Span::from_secs(300), max_body_bytes: 1 << 20 }
}

/// What a sink received; clones share it.
#[derive(Clone, Default)]
struct RecordingSink(Rc<RefCell<Log>>);

#[derive(Default)]
struct Log {
    sent: Option<Tick>,
    head: Option<(Tick, u16)>,
    /// Each byte with its stamp.
    body: Vec<(Tick, u8)>,
    ended: Option<Tick>,
    secrets: crate::secrets::Secrets,
}

impl RecordingSink {
    fn pair() -> (RecordingSink, RecordingSink) {
        let received = RecordingSink::default();
        (received.clone(), received)
    }

    fn sent(&self) -> Option<Tick> {
        self.0.borrow().sent
    }

    fn head(&self) -> Option<(Tick, u16)> {
        self.0.borrow().head
    }

    fn body(&self) -> Vec<(Tick, u8)> {
        self.0.borrow().body.clone()
    }

    fn text(&self) -> String {
        self.body().iter().map(|&(_, byte)| char::from(byte)).collect()
    }
}

impl Sink for RecordingSink {
    fn authorized(&mut self, secrets: &crate::secrets::Secrets) {
        self.0.borrow_mut().secrets = secrets.clone();
    }

    fn sent(&mut self, at: Tick) {
        let mut log = self.0.borrow_mut();
        assert!(log.sent.is_none() && log.head.is_none(), "reported once, before the head");
        log.sent = Some(at);
    }

    fn head(&mut self, at: Tick, head: &Head) {
        let mut log = self.0.borrow_mut();
        assert!(log.head.is_none() && log.body.is_empty(), "reported once, before the body");
        log.head = Some((at, head.status.as_u16()));
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        self.0.borrow_mut().body.extend(bytes.iter().map(|&byte| (at, byte)));
    }

    fn ended(&mut self, at: Tick) {
        assert_eq!(self.0.borrow_mut().ended.replace(at), None, "reported once");
    }
}

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n1\r\n!\r\n0\r\n\r\n";

/// Where the bytes of ANSWER's body stand in it.
fn body_offsets() -> Vec<usize> {
    let find = |text: &[u8]| ANSWER.windows(text.len()).position(|window| window == text).expect("it is there");
    let chunks: [(&[u8], usize); 3] = [(b"hello", 0), (b" world", 0), (b"\r\n!", 2)];
    chunks.iter().flat_map(|&(text, skip)| (find(text) + skip)..(find(text) + text.len())).collect()
}

#[test]
fn each_byte_carries_the_stamp_of_the_read_that_brought_it_wherever_the_answer_is_cut() {
    on_paused_runtime(async {
        let offsets = body_offsets();
        for first in 1..ANSWER.len() {
            for second in [first + 1, first + 7, ANSWER.len()] {
                let second = second.min(ANSWER.len());
                let cuts = [0, first, second, ANSWER.len()];
                let bench = Bench::plain();
                let (received, mut sink) = RecordingSink::pair();
                let mut exchange = pin!(bench.client.exchange(outgoing(b"{}"), limits(), &mut sink));
                assert!(poll_once(exchange.as_mut()).await.is_pending());
                let mut peer = bench.peer();
                let mut read_at = Vec::new();
                let mut outcome = Poll::Pending;
                for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
                    peer.write_all(&ANSWER[cut[0]..cut[1]]).await.expect("the client listens");
                    let now = bench.manual_clock.advance(MS);
                    read_at.extend(std::iter::repeat_n(now, cut[1] - cut[0]));
                    assert!(outcome.is_pending());
                    outcome = poll_once(exchange.as_mut()).await;
                }
                let Poll::Ready(ended) = outcome else { panic!("it ended with the last byte") };
                assert_eq!(ended.outcome, Ok(()));
                let expected: Vec<Tick> = offsets.iter().map(|&offset| read_at[offset]).collect();
                let stamps: Vec<Tick> = received.body().iter().map(|&(at, _)| at).collect();
                assert_eq!(
                    (received.text().as_str(), stamps),
                    ("hello world!", expected),
                    "cut at {first} and {second}"
                );
                let head_end = ANSWER.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 3;
                assert_eq!(received.head(), Some((read_at[head_end], 200)));
                assert_eq!(received.0.borrow().ended, read_at.last().copied(), "cut at {first} and {second}");
            }
        }
    });
}

#[test]
fn a_request_is_sent_when_the_write_of_its_last_byte_returned() {
    on_paused_runtime(async {
        let bench = Bench::new("http://h/v1", 256);
        let (received, mut sink) = RecordingSink::pair();
        let body: &[u8] = &[b'x'; 50_000];
        let mut exchange = pin!(bench.client.exchange(outgoing(body), limits(), &mut sink));
        assert!(poll_once(exchange.as_mut()).await.is_pending());
        let mut peer = bench.peer();
        let (mut taken, mut buffer, mut written_at) = (Vec::new(), [0; 256], Tick::ZERO);
        while taken.iter().filter(|&&byte| byte == b'x').count() < body.len() + 1 {
            // What is written after this read fills the room it made.
            let count = peer.read(&mut buffer).await.expect("the client writes");
            taken.extend_from_slice(&buffer[..count]);
            let all = taken.iter().filter(|&&byte| byte == b'x').count() + 256 > body.len();
            let now = bench.manual_clock.advance(MS);
            if !all || written_at == Tick::ZERO {
                written_at = now;
            }
            assert!(poll_once(exchange.as_mut()).await.is_pending());
        }
        bench.manual_clock.advance(MS);
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.expect("the client listens");
        let ended = exchange.await;
        assert_eq!(ended.outcome, Ok(()));
        let sent = received.sent().expect("it was sent");
        assert!(sent < received.head().expect("an answer").0, "{sent:?}");
        assert!(sent > Tick::from_nanos(1_000) + MS, "the first write was not the last");
        assert_eq!(ended.bytes_in, 38);
        assert_eq!(ended.bytes_out, taken.len() as u64);
    });
}

#[test]
fn a_request_given_up_while_it_waited_has_been_sent() {
    on_paused_runtime(async {
        let bench = Bench::plain();
        let (received, mut sink) = RecordingSink::pair();
        let mut exchange = pin!(bench.client.exchange(outgoing(b"{}"), limits(), &mut sink));
        assert!(poll_once(exchange.as_mut()).await.is_pending());
        bench.manual_clock.advance(Span::from_secs(31));
        let ended = exchange.await;
        assert_eq!(ended.outcome.map_err(|failure| failure.kind), Err(FailureKind::Stalled));
        assert_eq!(received.sent(), Some(Tick::from_nanos(1_000)));
    });
}

#[test]
fn every_byte_that_came_after_the_last_one_puts_a_stall_off() {
    on_paused_runtime(async {
        let bench = Bench::plain();
        let (received, mut sink) = RecordingSink::pair();
        let mut exchange = pin!(bench.client.exchange(outgoing(b"{}"), limits(), &mut sink));
        assert!(poll_once(exchange.as_mut()).await.is_pending());
        let mut peer = bench.peer();
        peer.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("the client listens");
        for _ in 0..9 {
            bench.manual_clock.advance(Span::from_secs(29));
            tokio::time::advance(Span::from_secs(29).as_duration()).await;
            peer.write_all(b"x").await.expect("the client listens");
            assert!(poll_once(exchange.as_mut()).await.is_pending());
        }
        bench.manual_clock.advance(Span::from_secs(40));
        let ended = exchange.await;
        assert_eq!(ended.outcome.map_err(|failure| failure.kind), Err(FailureKind::TimedOut), "300 s are over");
        assert_eq!(received.text(), "xxxxxxxxx");
    });
}

#[test]
fn a_handshake_that_is_never_answered_times_out() {
    on_paused_runtime(async {
        let bench = Bench::new("https://h/v1", 64 * 1024);
        let ended = bench.client.exchange(outgoing(b"{}"), limits(), &mut RecordingSink::pair().1).await;
        let failure = ended.outcome.expect_err("nobody answers");
        assert_eq!(failure.kind, FailureKind::ConnectTimeout);
        assert!(failure.detail.contains("took the connection, and no TLS handshake came"), "{}", failure.detail);
    });
}

#[test]
fn broken_answers_fail_with_their_kind_and_keep_what_came_before() {
    let head = "HTTP/1.1 200 OK\r\n";
    let cases: [(&str, String, FailureKind, &str); 11] = [
        ("nothing", String::new(), FailureKind::Closed, ""),
        ("half a head", head.to_owned(), FailureKind::Protocol, ""),
        ("no HTTP", "SSH-2.0-OpenSSH_9.9\r\n\r\n".to_owned(), FailureKind::Protocol, ""),
        ("a TLS alert", "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{16}".to_owned(), FailureKind::Tls, ""),
        ("a short body", format!("{head}content-length: 9\r\n\r\nabc"), FailureKind::Truncated, "abc"),
        ("a cut chunk", format!("{head}transfer-encoding: chunked\r\n\r\n5\r\nabc"), FailureKind::Truncated, "abc"),
        (
            "no last chunk",
            format!("{head}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"),
            FailureKind::Truncated,
            "abc",
        ),
        (
            "a bad chunk",
            format!("{head}transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"),
            FailureKind::Protocol,
            "abc",
        ),
        (
            "too much",
            format!("{head}content-length: 2000000\r\n\r\n{}", "a".repeat(60_000)),
            FailureKind::Truncated,
            "a",
        ),
        ("no end of interim answers", "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(10_000), FailureKind::Protocol, ""),
        ("a huge head", format!("{head}x: {}\r\n\r\n", "a".repeat(200_000)), FailureKind::Protocol, ""),
    ];
    on_paused_runtime(async {
        for (name, answer, kind, text) in cases {
            let bench = Bench::new("http://h/v1", 512 * 1024);
            let (ended, received) = bench.answered_with(answer.as_bytes()).await;
            let failure = ended.outcome.expect_err(name);
            assert_eq!(failure.kind, kind, "{name}: {}", failure.detail);
            assert!(!failure.detail.contains("sk-secret"));
            assert!(received.text().starts_with(text), "{name}: {}", received.text());
            assert!(received.sent().is_some(), "{name}: the request had left");
        }
    });
}

#[test]
fn an_answer_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
    on_paused_runtime(async {
        for (limit, kind) in [(11, Some(FailureKind::TooLarge)), (12, None)] {
            let bench = Bench::plain();
            let (_, mut sink) = RecordingSink::pair();
            let limits = Limits { max_body_bytes: limit, ..limits() };
            let mut exchange = pin!(bench.client.exchange(outgoing(b"{}"), limits, &mut sink));
            assert!(poll_once(exchange.as_mut()).await.is_pending());
            bench.peer().write_all(ANSWER).await.expect("the client listens");
            let ended = exchange.await;
            assert_eq!(ended.outcome.err().map(|failure| failure.kind), kind);
        }
    });
}

#[test]
fn an_error_status_is_an_answer_and_a_redirect_is_not_followed() {
    on_paused_runtime(async {
        for status in [302, 401, 429, 503] {
            let answer = format!("HTTP/1.1 {status} X\r\nlocation: http://h/other\r\ncontent-length: 2\r\n\r\n{{}}");
            let bench = Bench::plain();
            let (ended, received) = bench.answered_with(answer.as_bytes()).await;
            assert_eq!(ended.outcome, Ok(()));
            assert_eq!((received.head().map(|(_, status)| status), received.text().as_str()), (Some(status), "{}"));
        }
    });
}

/// Carries out one exchange over the connection that ends in `peer`, or a new one.
async fn whole_exchange(bench: &Bench, peer: &mut Option<DuplexStream>, answer: &[u8]) -> Exchange {
    let (_, mut sink) = RecordingSink::pair();
    let mut exchange = pin!(bench.client.exchange(outgoing(b"{}"), limits(), &mut sink));
    // Once to look at the sockets, once to send.
    for _ in 0..2 {
        if let Poll::Ready(ended) = poll_once(exchange.as_mut()).await {
            return ended;
        }
    }
    if bench.dialled() > 0 {
        *peer = Some(bench.peer());
    }
    let stream = peer.as_mut().expect("a connection");
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n{}") {
        stream.read_buf(&mut request).await.expect("the client writes");
    }
    stream.write_all(answer).await.expect("the client listens");
    exchange.await
}

#[test]
fn connections_are_used_again_unless_they_must_not_be() {
    const SHORT: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    const LAST: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
    on_paused_runtime(async {
        for (reuse, answer, new) in
            [(true, SHORT, false), (true, ANSWER, false), (true, LAST, true), (false, SHORT, true)]
        {
            let bench = Bench::with(ClientConfig { reuse, ..ClientConfig::default() }, "http://h", 64 * 1024);
            let mut peer = None;
            let first = whole_exchange(&bench, &mut peer, answer).await;
            assert_eq!((first.outcome, first.connection.new), (Ok(()), true));
            let second = whole_exchange(&bench, &mut peer, SHORT).await;
            assert_eq!((second.outcome, second.connection.new), (Ok(()), new), "reuse: {reuse}");
        }
    });
}

#[test]
fn a_connection_that_its_peer_has_closed_or_spoiled_is_not_used_again() {
    on_paused_runtime(async {
        for spoil in [&b""[..], b"HTTP/1.1 408 Request Timeout\r\n\r\n"] {
            let bench = Bench::plain();
            let mut peer = None;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            assert_eq!(whole_exchange(&bench, &mut peer, answer).await.outcome, Ok(()));
            let mut stream = peer.take().expect("a connection");
            stream.write_all(spoil).await.expect("the client holds it");
            drop(stream);
            let second = whole_exchange(&bench, &mut peer, answer).await;
            assert_eq!((second.outcome, second.connection.new), (Ok(()), true));
        }
    });
}

#[test]
fn an_exchange_that_is_dropped_closes_its_connection() {
    on_paused_runtime(async {
        let bench = Bench::plain();
        let (_, mut sink) = RecordingSink::pair();
        {
            let mut exchange = pin!(bench.client.exchange(outgoing(b"{}"), limits(), &mut sink));
            assert!(poll_once(exchange.as_mut()).await.is_pending());
        }
        let mut rest = Vec::new();
        bench.peer().read_to_end(&mut rest).await.expect("the end");
        assert!(rest.starts_with(b"POST /v1/x HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&rest));
    });
}

#[test]
fn a_large_answer_through_a_small_buffer_loses_no_byte() {
    on_paused_runtime(async {
        let bench = Bench::new("http://h/v1", 100);
        let (received, mut sink) = RecordingSink::pair();
        let body: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        let exchange = bench.client.exchange(outgoing(b"{}"), limits(), &mut sink);
        let (peers, sent) = (Rc::clone(&bench.peers), body.clone());
        let serve = async {
            let mut peer = poll_fn(|_| Poll::Ready(peers.borrow_mut().pop())).await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n{}") {
                peer.read_buf(&mut request).await.expect("the client writes");
            }
            peer.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.expect("the client listens");
            for chunk in sent.chunks(997) {
                peer.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.expect("the client listens");
                peer.write_all(chunk).await.expect("the client listens");
                peer.write_all(b"\r\n").await.expect("the client listens");
            }
            peer.write_all(b"0\r\n\r\n").await.expect("the client listens");
        };
        let (ended, ()) = tokio::join!(biased; exchange, serve);
        assert_eq!(ended.outcome, Ok(()));
        assert!(received.body().iter().map(|&(_, byte)| byte).eq(body));
    });
}

#[test]
fn printing_a_request_shows_no_key() {
    let shown = format!("{:?}", outgoing(b"{}"));
    assert_eq!(shown, "POST /v1/x [\"authorization\"], 2 bytes");
}

/// Authorises with a token that is not there at first.
#[derive(Debug)]
struct Tokens(std::sync::Mutex<Option<&'static str>>);

impl crate::authorize::Authorize for Tokens {
    fn authorize<'a>(&'a self, request: crate::authorize::Unauthorized<'a>) -> crate::authorize::AuthorizeFuture<'a> {
        let seen = format!("{} {} {} {}", request.method, request.host, request.path, request.body.len());
        Box::pin(async move {
            let token = self.0.lock().expect("no panic").ok_or("get a token: nobody has one")?;
            let mut headers = http::HeaderMap::new();
            for (name, value) in [("authorization", format!("Bearer {token}")), ("x-seen", seen)] {
                let mut value = http::HeaderValue::from_str(&value).expect("a value");
                value.set_sensitive(name == "authorization");
                headers.insert(name, value);
            }
            let secrets = crate::secrets::Secrets::of(&headers);
            Ok(crate::authorize::Authorization {
                headers,
                secrets,
                rewritten: Some(("/v1/y".to_owned(), Bytes::from_static(b"[]"))),
                ..crate::authorize::Authorization::default()
            })
        })
    }
}

#[test]
fn a_request_is_authorised_just_before_it_is_sent_and_what_authorises_it_is_told_to_be_masked() {
    on_paused_runtime(async {
        let tokens = std::sync::Arc::new(Tokens(std::sync::Mutex::new(None)));
        let mut bench = Bench::plain();
        bench.client = bench.client.authorized_by(Some(tokens.clone()));
        let (received, mut sink) = RecordingSink::pair();
        let exchange = bench.client.exchange(outgoing(b"{}"), limits(), &mut sink).await;
        let failure = exchange.outcome.expect_err("no token");
        assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Unauthorized, "get a token: nobody has one"));
        assert_eq!((bench.dialled(), received.sent()), (0, None), "nothing was sent");
        *tokens.0.lock().expect("no panic") = Some("sk-token-of-an-hour");
        let (received, mut sink) = RecordingSink::pair();
        let mut exchange = pin!(bench.client.exchange(outgoing(b"{}"), limits(), &mut sink));
        assert!(poll_once(exchange.as_mut()).await.is_pending());
        let mut head = vec![0; 1024];
        let bytes = bench.peer().read(&mut head).await.expect("a request");
        let head = String::from_utf8_lossy(&head[..bytes]).to_lowercase();
        assert!(head.contains("authorization: bearer sk-token-of-an-hour\r\n"), "{head}");
        assert!(head.starts_with("post /v1/y ") && head.ends_with("[]"), "{head}");
        assert!(head.contains("x-seen: post h /v1/x 2\r\n") && !head.contains("sk-secret"), "{head}");
        let masked = received.0.borrow().secrets.redacted("it is sk-token-of-an-hour".to_owned());
        assert_eq!(masked, "it is ***");
    });
}
