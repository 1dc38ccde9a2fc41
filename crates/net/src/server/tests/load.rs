//! The server when there are many clients, or slow ones, or ones that have no business here.

use super::super::budget::ByteBudget;
use super::*;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::Duration;

/// Says what came of the body; a request with `x-key` is one with a key that is known.
struct Reading {
    budget: Arc<ByteBudget>,
    handled: Cell<usize>,
}

struct Said(Option<Bytes>);

impl Body for Said {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Handler for Reading {
    type Body = Said;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<Said> {
        self.handled.set(self.handled.get() + 1);
        if request.headers().contains_key("x-key") {
            tap.mark_authenticated();
        }
        let text = match buffer_body(request.into_body(), 1 << 20, &self.budget).await {
            Ok(held) => format!("{} held {}", held.bytes.len(), self.budget.held()),
            Err(error) => format!("{error:?}"),
        };
        Response::new(Said(Some(Bytes::from(text))))
    }

    fn error_body(&self, _: &Request<RequestBody>, status: StatusCode, message: &str) -> Vec<u8> {
        format!("{status}: {message}").into_bytes()
    }
}

fn reading(budget: usize) -> Rc<Reading> {
    Rc::new(Reading { budget: ByteBudget::new(budget), handled: Cell::new(0) })
}

/// A connection over memory.
fn connected(handler: &Rc<Reading>) -> DuplexStream {
    let (here, there) = tokio::io::duplex(1 << 20);
    let handler = Rc::clone(handler);
    tokio::task::spawn_local(async move {
        let (_open, closed) = watch::channel(false);
        serve_connection(there, handler, Clock::manual(Tick::ZERO).0, closed).await;
    });
    here
}

/// A listener on loopback that is served until the test ends.
async fn listening(handler: &Rc<Reading>, limits: ConnectionLimits) -> SocketAddr {
    let listener = listen(limits).await;
    let address = listener.address();
    let handler = Rc::clone(handler);
    tokio::task::spawn_local(listener.serve(handler, Clock::monotonic(), std::future::pending(), Span::ZERO));
    address
}

fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

/// What was received until the end, or until the text that is waited for.
async fn received(stream: &mut (impl tokio::io::AsyncRead + Unpin), wanted: &str) -> String {
    let mut bytes = Vec::new();
    loop {
        let count = stream.read_buf(&mut bytes).await.unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes);
        if count == 0 || (!wanted.is_empty() && text.contains(wanted)) {
            return text.into_owned();
        }
    }
}

const JSON: &str = "content-type: application/json\r\n";

#[test]
fn a_rejected_request_never_reaches_the_handler_and_the_client_gets_the_reason() {
    on_runtime(async {
        let handler = reading(1 << 20);
        let address = listening(&handler, ConnectionLimits::without_keys()).await;
        for (head, status) in [
            ("host: evil.example\r\n", "421"),
            ("", "400"),
            ("host: localhost\r\norigin: http://127.0.0.1:9\r\n", "403"),
            ("host: localhost\r\nsec-fetch-site: cross-site\r\n", "403"),
            ("host: localhost\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n", "415"),
            ("host: localhost\r\ntransfer-encoding: chunked\r\n", "415"),
        ] {
            let mut client = TcpStream::connect(address).await.expect("it listens");
            client.write_all(format!("POST / HTTP/1.1\r\n{head}\r\n").as_bytes()).await.expect("it reads");
            let answer = received(&mut client, ": ").await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
        }
        assert_eq!(handler.handled.get(), 0);
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let good =
            format!("POST / HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 2\r\nconnection: close\r\n\r\n{{}}");
        client.write_all(good.as_bytes()).await.expect("it reads");
        let answer = received(&mut client, "").await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("2 held"), "{answer}");
    });
}

#[test]
fn the_rules_hold_over_http_2() {
    on_runtime(async {
        let handler = reading(1 << 20);
        let address = listening(&handler, ConnectionLimits::without_keys()).await;
        let stream = TokioIo::new(TcpStream::connect(address).await.expect("it listens"));
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.expect("it speaks it");
        tokio::task::spawn_local(async { drop(connection.await) });
        let mut status = async |uri: String, headers: &[(&str, &str)], body: &'static str| {
            let mut request = Request::builder().method("POST").uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).expect("a request");
            sender.send_request(request).await.expect("an answer").status().as_u16()
        };
        let ours = || format!("http://{address}/");
        let json = ("content-type", "application/json");
        assert_eq!(status("http://evil.example/".to_owned(), &[json], "{}").await, 421);
        assert_eq!(status(ours(), &[json, ("origin", "http://evil.example")], "{}").await, 403);
        assert_eq!(status(ours(), &[], "{}").await, 415);
        assert_eq!(handler.handled.get(), 0);
        assert_eq!(status(ours(), &[json], "{}").await, 200);
        assert_eq!(status(ours(), &[], "").await, 200);
    });
}

#[test]
fn idle_clients_are_evicted_for_new_ones_and_authenticated_ones_stay() {
    on_runtime(async {
        let handler = reading(1 << 20);
        let address = listening(&handler, ConnectionLimits { total: 8, unauthenticated: 7, per_peer: 7 }).await;
        let ask = |key: &str| format!("GET / HTTP/1.1\r\nhost: localhost\r\n{key}\r\n");
        let mut known = TcpStream::connect(address).await.expect("it listens");
        known.write_all(ask("x-key: 1\r\n").as_bytes()).await.expect("it reads");
        received(&mut known, "0 held").await;
        let mut idle = Vec::new();
        for number in 0..40 {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            // Every other one has begun a head.
            if number % 2 == 0 {
                stream.write_all(b"GET / HT").await.expect("taken");
            }
            idle.push(stream);
        }
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(ask("").as_bytes()).await.expect("it reads");
        let answer = received(&mut client, "held").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        known.write_all(ask("").as_bytes()).await.expect("it is open");
        let answer = received(&mut known, "held").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(received(&mut idle[0], "").await, "", "it was closed without a word");
    });
}

#[test]
fn a_connection_beyond_the_limit_gets_a_503() {
    on_runtime(async {
        let handler = reading(1 << 20);
        let address = listening(&handler, ConnectionLimits { total: 1, unauthenticated: 1, per_peer: 1 }).await;
        let mut busy = TcpStream::connect(address).await.expect("it listens");
        let head = format!("POST / HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 1\r\n\r\n");
        busy.write_all(head.as_bytes()).await.expect("it reads");
        while handler.handled.get() == 0 {
            tokio::task::yield_now().await;
        }
        let mut more = TcpStream::connect(address).await.expect("the backlog takes it");
        let answer = received(&mut more, "").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
        busy.write_all(b"1").await.expect("it is open");
        assert!(received(&mut busy, "held").await.starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn a_body_below_the_minimum_rate_fails_and_a_slow_one_does_not() {
    on_paused_runtime(async {
        let handler = reading(1 << 20);
        let head = "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100000\r\n\r\n";
        for (every_second, expected) in [(1_000, "TooSlow"), (10_000, "100000 held")] {
            let mut client = connected(&handler);
            client.write_all(head.as_bytes()).await.expect("room");
            let began = tokio::time::Instant::now();
            for _ in 0..100_000 / every_second {
                tokio::time::sleep(Duration::from_secs(1)).await;
                // A server that has given it up reads no more.
                let _ = client.write_all(&vec![b' '; every_second]).await;
            }
            let answer = received(&mut client, expected).await;
            assert!(answer.contains(expected), "{every_second}: {answer} after {:?}", began.elapsed());
            assert_eq!(handler.budget.held(), 0);
        }
    });
}

#[test]
fn a_body_is_counted_as_it_arrives_and_one_beyond_the_budget_is_not_read() {
    on_paused_runtime(async {
        let handler = reading(100_000);
        let mut first = connected(&handler);
        first.write_all(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 60000\r\n\r\n").await.expect("room");
        first.write_all(&[b' '; 50_000]).await.expect("room");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let held = handler.budget.held();
        assert!((50_000..=65_536).contains(&held), "{held}");
        let mut second = connected(&handler);
        second.write_all(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 60000\r\n\r\n").await.expect("room");
        assert!(received(&mut second, "OverBudget").await.contains("OverBudget"), "by its head alone");
        let mut chunked = connected(&handler);
        chunked
            .write_all(b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\nEA60\r\n")
            .await
            .expect("room");
        chunked.write_all(&[b' '; 60_000]).await.expect("room");
        assert!(received(&mut chunked, "OverBudget").await.contains("OverBudget"), "when it has outgrown what is left");
        first.write_all(&[b' '; 10_000]).await.expect("room");
        assert!(received(&mut first, "held").await.contains("60000 held"));
        assert_eq!(handler.budget.held(), 0);
    });
}

#[test]
fn an_idle_http2_connection_is_closed() {
    on_paused_runtime(async {
        let handler = reading(1 << 20);
        let (mut sender, connection) = hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(
            TokioExecutor::new(),
            TokioIo::new(connected(&handler)),
        )
        .await
        .expect("it speaks it");
        let connection = tokio::task::spawn_local(connection);
        let request = Request::get("http://localhost/").body(Full::default()).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        assert!(answer.into_body().collect().await.is_ok());
        let began = tokio::time::Instant::now();
        drop(connection.await);
        let waited = Span::from(began.elapsed());
        assert!(waited >= IDLE_TIMEOUT && waited.as_duration() < IDLE_TIMEOUT.as_duration() * 3, "{waited}");
        // One that never asked is not waited for as long.
        let (_sender, connection) = hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(
            TokioExecutor::new(),
            TokioIo::new(connected(&handler)),
        )
        .await
        .expect("it speaks it");
        let began = tokio::time::Instant::now();
        drop(connection.await);
        let waited = Span::from(began.elapsed());
        assert!(waited >= HEAD_TIMEOUT && waited.as_duration() < HEAD_TIMEOUT.as_duration() * 3, "{waited}");
    });
}
