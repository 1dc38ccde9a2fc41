//! HTTP/2 over memory, against the crate's own server and one with a small limit of streams.

use super::*;
use crate::config::Sharing;
use crate::exchange::StreamUse;
use crate::server::{ConnectionTap, Handler, RequestBody, serve_connection};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, spawn_local};

const HTTP2: HttpVersion = HttpVersion::Http2;

/// Answers when the gate is open, and counts who waits at it.
#[derive(Default)]
struct Gate {
    open: Notify,
    waiting: Cell<usize>,
}

impl Gate {
    async fn pass(&self) {
        let _waits = Waits::begin(&self.waiting);
        self.open.notified().await;
    }
}

/// Counts one who waits, also when it is given up.
struct Waits<'a>(&'a Cell<usize>);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a Cell<usize>) -> Waits<'a> {
        waiting.set(waiting.get() + 1);
        Waits(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Gated(Rc<Gate>);

type Whole = http_body_util::combinators::MapErr<Full<Bytes>, fn(std::convert::Infallible) -> std::io::Error>;

fn whole(text: &'static str) -> Response<Whole> {
    use http_body_util::BodyExt;
    let never: fn(std::convert::Infallible) -> std::io::Error = |never| match never {};
    Response::new(Full::new(Bytes::from_static(text.as_bytes())).map_err(never))
}

impl Handler for Gated {
    type Body = Whole;

    fn error_body(&self, _: &Request<RequestBody>, _: http::StatusCode, message: &str) -> Vec<u8> {
        message.as_bytes().to_vec()
    }

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, _tap: Rc<ConnectionTap>) -> Response<Whole> {
        let body = crate::server::read_body(request.into_body(), 1 << 20).await.expect("small");
        assert_eq!(body, "{}");
        self.0.pass().await;
        whole("answer")
    }
}

/// A client whose every connection is handed to `serve`, and the number of connections.
fn client_of(serve: impl Fn(DuplexStream) + 'static) -> (Rc<Client>, Rc<Cell<usize>>) {
    sharing_client(Sharing::default(), serve)
}

/// The same of one that shares connections so.
fn sharing_client(http2: Sharing, serve: impl Fn(DuplexStream) + 'static) -> (Rc<Client>, Rc<Cell<usize>>) {
    let dials = Rc::new(Cell::new(0));
    let counted = Rc::clone(&dials);
    let config = ClientConfig { http: HTTP2, http2, ..ClientConfig::default() };
    let target = Target::parse("http://h").expect("a URL");
    let client = Client::over_memory(config, &target, Clock::monotonic(), move || {
        counted.set(counted.get() + 1);
        let (here, there) = tokio::io::duplex(64 * 1024);
        serve(there);
        here
    });
    (Rc::new(client.expect("a client")), dials)
}

fn start(client: &Rc<Client>, count: usize) -> JoinSet<(Exchange, RecordingSink)> {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let client = Rc::clone(client);
        tasks.spawn_local(async move {
            let (received, mut sink) = RecordingSink::pair();
            let ended = client.exchange(outgoing(b"{}"), limits(), &mut sink).await;
            (ended, received)
        });
    }
    tasks
}

async fn finish(tasks: JoinSet<(Exchange, RecordingSink)>) {
    streams(tasks).await;
}

/// Waits for all of them to be answered; the stream that each had.
async fn streams(mut tasks: JoinSet<(Exchange, RecordingSink)>) -> Vec<StreamUse> {
    let mut used = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        let (ended, received) = ended.expect("no panic");
        assert_eq!((ended.outcome, received.text().as_str()), (Ok(()), "answer"));
        assert!(received.sent().expect("it was sent") <= received.head().expect("an answer").0);
        used.push(ended.connection.stream.expect("HTTP/2"));
    }
    used
}

/// Gives everyone who can do something the chance to.
async fn settle(state: impl Fn() -> String, done: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never comes to that: {}", state());
}

#[test]
fn every_request_gets_a_stream_at_once_on_as_few_connections_as_the_bound_allows() {
    on_paused_runtime(async {
        let gate = Rc::new(Gate::default());
        let (handler, (closing, closed)) = (Rc::new(Gated(Rc::clone(&gate))), watch::channel(false));
        let (client, dials) = client_of(move |stream| {
            spawn_local(serve_connection(stream, Rc::clone(&handler), Clock::monotonic(), closed.clone()));
        });
        let tasks = start(&client, 120);
        settle(
            || format!("{} {} {}", gate.waiting.get(), dials.get(), client.http2.busy()),
            || gate.waiting.get() == 120,
        )
        .await;
        assert_eq!(dials.get(), 3, "50 streams on a connection");
        gate.open.notify_waiters();
        finish(tasks).await;
        let again = start(&client, 50);
        settle(
            || format!("{} {} {}", gate.waiting.get(), dials.get(), client.http2.busy()),
            || gate.waiting.get() == 50,
        )
        .await;
        gate.open.notify_waiters();
        finish(again).await;
        assert_eq!(dials.get(), 3, "they are used again");
        drop(closing);
    });
}

#[test]
fn a_servers_own_limit_of_streams_is_kept() {
    on_paused_runtime(async {
        let gate = Rc::new(Gate::default());
        let at_gate = Rc::clone(&gate);
        let (client, dials) = client_of(move |stream| {
            let gate = Rc::clone(&at_gate);
            let service = hyper::service::service_fn(move |_request: Request<Incoming>| {
                let gate = Rc::clone(&gate);
                async move {
                    gate.pass().await;
                    Ok::<_, std::convert::Infallible>(whole("answer"))
                }
            });
            let mut builder = hyper::server::conn::http2::Builder::new(LocalExecutor);
            builder.max_concurrent_streams(5);
            spawn_local(builder.serve_connection(TokioIo::new(stream), service));
        });
        let tasks = start(&client, 12);
        settle(
            || format!("{} {} {}", gate.waiting.get(), dials.get(), client.http2.busy()),
            || gate.waiting.get() == 12,
        )
        .await;
        assert_eq!(dials.get(), 3, "five streams on a connection");
        gate.open.notify_waiters();
        finish(tasks).await;
    });
}

#[test]
fn requests_are_spread_over_as_many_connections_as_are_asked_for() {
    on_paused_runtime(async {
        let gate = Rc::new(Gate::default());
        let (handler, (_closing, closed)) = (Rc::new(Gated(Rc::clone(&gate))), watch::channel(false));
        let three = Sharing { connections: Some(3), streams: None };
        let (client, dials) = sharing_client(three, move |stream| {
            spawn_local(serve_connection(stream, Rc::clone(&handler), Clock::monotonic(), closed.clone()));
        });
        let tasks = start(&client, 9);
        settle(|| format!("{} {}", gate.waiting.get(), dials.get()), || gate.waiting.get() == 9).await;
        assert_eq!(dials.get(), 3);
        gate.open.notify_waiters();
        let used = streams(tasks).await;
        let on = |number: u32| used.iter().filter(|stream| stream.connection == number).count();
        assert_eq!([on(1), on(2), on(3)], [3, 3, 3], "{used:?}");
        assert_eq!(used.iter().map(|stream| stream.sharing).max(), Some(3));
    });
}

#[test]
fn a_request_that_finds_no_stream_waits_until_one_ends_and_the_wait_is_told_apart() {
    on_paused_runtime(async {
        let gate = Rc::new(Gate::default());
        let (handler, (_closing, closed)) = (Rc::new(Gated(Rc::clone(&gate))), watch::channel(false));
        let narrow = Sharing { connections: Some(1), streams: Some(2) };
        let (client, dials) = sharing_client(narrow, move |stream| {
            spawn_local(serve_connection(stream, Rc::clone(&handler), Clock::monotonic(), closed.clone()));
        });
        let tasks = start(&client, 3);
        settle(|| format!("{} {}", gate.waiting.get(), dials.get()), || gate.waiting.get() == 2).await;
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        assert_eq!((gate.waiting.get(), dials.get(), client.http2.busy()), (2, 1, 2), "the third is not sent");
        gate.open.notify_waiters();
        settle(|| format!("{}", gate.waiting.get()), || gate.waiting.get() == 1).await;
        gate.open.notify_waiters();
        let used = streams(tasks).await;
        assert!(used.iter().all(|stream| stream.sharing <= 2 && stream.allowed.is_some()), "{used:?}");
        assert_eq!(used.iter().filter(|stream| stream.wait.is_zero()).count(), 1, "{used:?}");
    });
}

#[test]
fn a_dropped_exchange_gives_its_stream_back_and_leaves_the_others_alone() {
    on_paused_runtime(async {
        let gate = Rc::new(Gate::default());
        let (handler, (_closing, closed)) = (Rc::new(Gated(Rc::clone(&gate))), watch::channel(false));
        let (client, dials) = client_of(move |stream| {
            spawn_local(serve_connection(stream, Rc::clone(&handler), Clock::monotonic(), closed.clone()));
        });
        let dropped = start(&client, 49);
        settle(
            || format!("{} {} {}", gate.waiting.get(), dials.get(), client.http2.busy()),
            || gate.waiting.get() == 49,
        )
        .await;
        let kept = start(&client, 1);
        settle(
            || format!("{} {} {}", gate.waiting.get(), dials.get(), client.http2.busy()),
            || gate.waiting.get() == 50,
        )
        .await;
        drop(dropped);
        settle(
            || format!("{} {} {}", gate.waiting.get(), dials.get(), client.http2.busy()),
            || gate.waiting.get() == 1,
        )
        .await;
        assert_eq!(client.http2.busy(), 1);
        let later = start(&client, 49);
        settle(
            || format!("{} {} {}", gate.waiting.get(), dials.get(), client.http2.busy()),
            || gate.waiting.get() == 50,
        )
        .await;
        assert_eq!(dials.get(), 1);
        gate.open.notify_waiters();
        finish(kept).await;
        finish(later).await;
    });
}

#[test]
fn a_request_that_the_server_did_not_begin_with_is_told_apart() {
    // SETTINGS; and GOAWAY with no error and no stream that was taken.
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    on_paused_runtime(async {
        let (client, _) = client_of(|mut stream| {
            spawn_local(async move {
                stream.write_all(SETTINGS).await.expect("received");
                let mut preface = [0; 24];
                stream.read_exact(&mut preface).await.expect("the client speaks");
                loop {
                    let mut head = [0; 9];
                    stream.read_exact(&mut head).await.expect("a frame");
                    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                    stream.read_exact(&mut vec![0; length]).await.expect("all of it");
                    // HEADERS
                    if head[3] == 1 {
                        break;
                    }
                }
                stream.write_all(GOAWAY).await.expect("received");
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        });
        let ended = client.exchange(outgoing(b"{}"), limits(), &mut RecordingSink::pair().1).await;
        let failure = ended.outcome.expect_err("it was not taken");
        assert_eq!((failure.kind, ended.connection.unprocessed), (FailureKind::Closed, true), "{}", failure.detail);
        assert!(failure.detail.contains("took no more requests"), "{}", failure.detail);
    });
}

#[test]
fn a_server_that_speaks_only_http_1_is_told_apart() {
    on_paused_runtime(async {
        let (client, _) = client_of(|mut stream| {
            spawn_local(async move {
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.expect("received");
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        });
        let ended = client.exchange(outgoing(b"{}"), limits(), &mut RecordingSink::pair().1).await;
        let failure = ended.outcome.expect_err("no HTTP/2");
        assert_eq!(failure.kind, FailureKind::Protocol);
        assert!(failure.detail.contains("does not speak HTTP/2"), "{}", failure.detail);
    });
}
