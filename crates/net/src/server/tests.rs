//! The server over memory and loopback: marks, stamps, limits, drain.

mod load;

use super::*;
use crate::clock::ManualClock;
use http_body::Frame;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

fn on_paused_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, tokio::task::coop::unconstrained(future))
}

async fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let mut future = future;
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// What a body hands out next, filled by the test.
#[derive(Default)]
struct Queue {
    frames: RefCell<VecDeque<Option<(u64, Bytes)>>>,
    waker: RefCell<Option<Waker>>,
    written: RefCell<Vec<(u64, Tick)>>,
    received_at: Cell<Tick>,
    handled: Cell<usize>,
}

impl Queue {
    fn push(&self, frame: Option<(u64, &[u8])>) {
        self.frames.borrow_mut().push_back(frame.map(|(mark, bytes)| (mark, Bytes::copy_from_slice(bytes))));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl WriteSink for Queue {
    fn written(&self, mark: u64, at: Tick) {
        self.written.borrow_mut().push((mark, at));
    }
}

struct QueueBody(Rc<Queue>, Rc<ConnectionTap>);

impl Body for QueueBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.0.frames.borrow_mut().pop_front() {
            None => {
                *self.0.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
            Some(None) => Poll::Ready(None),
            Some(Some((mark, bytes))) => {
                self.1.mark(Rc::clone(&self.0) as Rc<dyn WriteSink>, mark);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
        }
    }
}

struct Streaming(Rc<Queue>);

/// As long as a client may take nothing.
const WRITE_TIMEOUT: Span = Span::from_secs(2);

impl Handler for Streaming {
    type Body = QueueBody;

    fn error_body(&self, _: &Request<RequestBody>, _: http::StatusCode, message: &str) -> Vec<u8> {
        message.as_bytes().to_vec()
    }

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<QueueBody> {
        let body = read_body(request.into_body(), 10).await;
        self.0.received_at.set(tap.read_at());
        self.0.handled.set(self.0.handled.get() + 1);
        let mut response = Response::new(QueueBody(Rc::clone(&self.0), tap));
        if body == Err(BodyError::TooLarge) {
            *response.status_mut() = http::StatusCode::PAYLOAD_TOO_LARGE;
        }
        response
    }

    fn write_timeout(&self) -> Option<Span> {
        Some(WRITE_TIMEOUT)
    }
}

struct Rig {
    queue: Rc<Queue>,
    manual_clock: ManualClock,
    closing: watch::Sender<bool>,
}

/// A served connection: the rig, its future, its client's end.
fn rig(buffer_bytes: usize) -> (Rig, impl Future<Output = ()>, DuplexStream) {
    let (clock, manual_clock) = Clock::manual(Tick::from_nanos(7));
    let queue = Rc::new(Queue::default());
    let (closing, closed) = watch::channel(false);
    let (here, there) = tokio::io::duplex(buffer_bytes);
    let serving = serve_connection(there, Rc::new(Streaming(Rc::clone(&queue))), clock, closed);
    (Rig { queue, manual_clock, closing }, serving, here)
}

const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}";

#[test]
fn a_mark_gets_the_tick_of_the_write_that_took_its_bytes() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(64 * 1024);
        let mut serving = pin!(serving);
        client.write_all(&REQUEST[..REQUEST.len() - 1]).await.expect("served");
        assert!(poll_once(serving.as_mut()).await.is_pending());
        let read_at = rig.manual_clock.advance(Span::from_millis(1));
        client.write_all(b"}").await.expect("served");
        assert!(poll_once(serving.as_mut()).await.is_pending());
        assert_eq!(rig.queue.received_at.get(), read_at, "the read of the request's last byte");
        rig.queue.push(Some((1, b"one")));
        rig.queue.push(Some((2, b"two")));
        let first = rig.manual_clock.advance(Span::from_millis(1));
        assert!(poll_once(serving.as_mut()).await.is_pending());
        rig.queue.push(Some((3, b"three")));
        let second = rig.manual_clock.advance(Span::from_millis(1));
        assert!(poll_once(serving.as_mut()).await.is_pending());
        assert_eq!(*rig.queue.written.borrow(), [(1, first), (2, first), (3, second)]);
        let mut text = vec![0; 4096];
        let count = client.read(&mut text).await.expect("an answer");
        let text = String::from_utf8_lossy(&text[..count]).into_owned();
        assert!(text.ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n"), "{text}");
    });
}

#[test]
fn a_mark_waits_until_its_last_byte_was_taken() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(256);
        let mut serving = pin!(serving);
        client.write_all(REQUEST).await.expect("served");
        assert!(poll_once(serving.as_mut()).await.is_pending());
        rig.queue.push(Some((1, &[b'x'; 1000])));
        let mut now = rig.manual_clock.advance(Span::from_millis(1));
        assert!(poll_once(serving.as_mut()).await.is_pending());
        let mut taken = 0;
        let mut buffer = [0; 256];
        while rig.queue.written.borrow().is_empty() {
            taken += client.read(&mut buffer).await.expect("an answer");
            now = rig.manual_clock.advance(Span::from_millis(1));
            assert!(poll_once(serving.as_mut()).await.is_pending());
        }
        assert_eq!(*rig.queue.written.borrow(), [(1, now)]);
        assert!(taken >= 1000 - 256, "what was left fitted: {taken}");
    });
}

#[test]
fn a_body_over_the_limit_is_not_read_to_its_end() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(64 * 1024);
        let mut serving = pin!(serving);
        client
            .write_all(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 50\r\n\r\n0123456789abc")
            .await
            .expect("served");
        assert!(poll_once(serving.as_mut()).await.is_pending());
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.expect("an answer");
        assert_eq!((&answer, rig.queue.handled.get()), (b"HTTP/1.1 413", 1));
    });
}

#[test]
fn a_head_that_does_not_come_ends_the_connection() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(1024);
        client.write_all(b"POST / HTTP/1.1\r\nhost").await.expect("served");
        // Time jumps on this runtime when nothing else is to be done.
        serving.await;
        assert_eq!(rig.queue.handled.get(), 0);
    });
}

#[test]
fn a_client_that_goes_away_ends_its_answer() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(64 * 1024);
        let mut serving = pin!(serving);
        client.write_all(REQUEST).await.expect("served");
        assert!(poll_once(serving.as_mut()).await.is_pending());
        assert_eq!(Rc::strong_count(&rig.queue), 3, "rig, handler and body");
        drop(client);
        assert!(poll_once(serving.as_mut()).await.is_ready());
        assert_eq!(Rc::strong_count(&rig.queue), 1, "handler and body were dropped");
    });
}

#[test]
fn a_client_that_accepts_nothing_times_out_and_a_slow_one_does_not() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(256);
        let mut serving = pin!(serving);
        client.write_all(REQUEST).await.expect("served");
        assert!(poll_once(serving.as_mut()).await.is_pending());
        rig.queue.push(Some((1, &[b'x'; 4096])));
        assert!(poll_once(serving.as_mut()).await.is_pending());
        // As slow as may be, for as long as three limits in all.
        for _ in 0..60 {
            tokio::select! {
                biased;
                () = serving.as_mut() => panic!("it was given up although it moved"),
                () = tokio::time::sleep(WRITE_TIMEOUT.as_duration() / 20) => {}
            }
            client.read_u8().await.expect("an answer");
        }
        let before = tokio::time::Instant::now();
        serving.await;
        let waited = before.elapsed();
        let limit = WRITE_TIMEOUT.as_duration();
        assert!(waited >= limit && waited < limit * 2, "{waited:?}");
        assert_eq!(Rc::strong_count(&rig.queue), 1, "handler and body were dropped");
    });
}

#[test]
fn an_http2_client_that_opens_no_window_times_out_and_a_slow_one_does_not() {
    on_paused_runtime(async {
        let (rig, serving, client) = rig(1 << 20);
        let mut serving = pin!(serving);
        let mut builder = hyper::client::conn::http2::Builder::new(crate::client::LocalExecutor);
        builder.initial_stream_window_size(1000).timer(hyper_util::rt::TokioTimer::new());
        let (mut sender, connection) =
            builder.handshake(hyper_util::rt::TokioIo::new(client)).await.expect("it greets");
        tokio::task::spawn_local(connection);
        let request = Request::post("http://h/").body(http_body_util::Full::new(Bytes::from_static(b"{}")));
        let asking = sender.send_request(request.expect("a request"));
        let response = tokio::select! {
            () = serving.as_mut() => panic!("it is asked"),
            response = asking => response.expect("an answer"),
        };
        let mut body = response.into_body();
        let before = tokio::time::Instant::now();
        for number in 0..40 {
            rig.queue.push(Some((number, &[b'x'; 1000])));
            tokio::select! {
                biased;
                () = serving.as_mut() => panic!("it was given up although it took something"),
                () = tokio::time::sleep(WRITE_TIMEOUT.as_duration() / 2) => {}
            }
            let frame = http_body_util::BodyExt::frame(&mut body);
            tokio::select! {
                () = serving.as_mut() => panic!("it was given up although it took something"),
                frame = frame => drop(frame.expect("more").expect("whole")),
            }
        }
        assert!(before.elapsed() > WRITE_TIMEOUT.as_duration() * 10);
        let before = tokio::time::Instant::now();
        (0..4).for_each(|number| rig.queue.push(Some((number, &[b'x'; 1000]))));
        serving.await;
        let waited = before.elapsed();
        let limit = WRITE_TIMEOUT.as_duration();
        assert!(waited >= limit && waited < limit * 2, "{waited:?}");
        // Its stream is a task of its own, which hears of the end.
        tokio::task::yield_now().await;
        assert_eq!(Rc::strong_count(&rig.queue), 1, "handler and body were dropped");
    });
}

#[test]
fn the_write_timeout_does_not_run_while_there_is_nothing_to_write() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(64 * 1024);
        let mut serving = pin!(serving);
        client.write_all(REQUEST).await.expect("served");
        rig.queue.push(Some((1, b"one")));
        tokio::select! {
            biased;
            () = serving.as_mut() => panic!("there was nothing to take"),
            () = tokio::time::sleep(WRITE_TIMEOUT.as_duration() * 100) => {}
        }
        rig.queue.push(Some((2, b"two")));
        rig.queue.push(None);
        assert!(poll_once(serving.as_mut()).await.is_pending());
        let mut answer = [0; 4096];
        let count = client.read(&mut answer).await.expect("an answer");
        assert!(answer[..count].ends_with(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
    });
}

#[test]
fn closing_lets_the_answer_end_and_takes_no_other_request() {
    on_paused_runtime(async {
        let (rig, serving, mut client) = rig(64 * 1024);
        let mut serving = pin!(serving);
        client.write_all(REQUEST).await.expect("served");
        assert!(poll_once(serving.as_mut()).await.is_pending());
        rig.closing.send_replace(true);
        assert!(poll_once(serving.as_mut()).await.is_pending());
        rig.queue.push(Some((1, b"end")));
        rig.queue.push(None);
        serving.await;
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.contains("\r\n3\r\nend\r\n0\r\n\r\n"), "{answer}");
    });
}

const SETTINGS: AccessSettings = AccessSettings { host: "--host", origin: None, key: "add --key" };

async fn listen(limits: ConnectionLimits) -> Listener {
    let access = AccessConfig { hosts: &[], origins: &[], requires_key: false, settings: &SETTINGS };
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    Listener::bind(here, &access, &Connections::new(limits)).await.expect("a free port")
}

#[test]
fn draining_is_bounded() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = listen(ConnectionLimits::without_keys()).await;
        let address = listener.address();
        let queue = Rc::new(Queue::default());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let handler = Rc::new(Streaming(Rc::clone(&queue)));
        let serving = tokio::task::spawn_local(listener.serve(
            handler,
            Clock::monotonic(),
            async { drop(stopped.await) },
            Span::from_millis(20),
        ));
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(REQUEST).await.expect("served");
        client.read_u8().await.expect("the head comes");
        stop.send(()).expect("it serves");
        serving.await.expect("no panic");
        // The answer never ended: it was cut.
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        assert!(!rest.ends_with(b"0\r\n\r\n"));
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    });
}

#[test]
fn a_connection_that_was_accepted_sends_small_writes_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut listener = listen(ConnectionLimits::without_keys()).await;
        let _client = TcpStream::connect(listener.address()).await.expect("it listens");
        let incoming = listener.accept(Clock::monotonic()).await.expect("a connection waits");
        assert!(
            incoming.stream.stream().nodelay().expect("an open socket"),
            "an event waits for the acknowledgement of the last"
        );
    });
}
