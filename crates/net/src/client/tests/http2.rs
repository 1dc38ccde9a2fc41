//! HTTP/2 over memory, against the crate's own server and one with a small limit of streams.

use super::*;
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
    let dials = Rc::new(Cell::new(0));
    let counted = Rc::clone(&dials);
    let config = ClientConfig { http: HTTP2, ..ClientConfig::default() };
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

async fn finish(mut tasks: JoinSet<(Exchange, RecordingSink)>) {
    while let Some(ended) = tasks.join_next().await {
        let (ended, received) = ended.expect("no panic");
        assert_eq!((ended.outcome, received.text().as_str()), (Ok(()), "answer"));
        assert!(received.sent().expect("it was sent") <= received.head().expect("an answer").0);
    }
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
