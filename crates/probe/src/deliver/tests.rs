//! A kept connection that its server had closed, and one that broke later: over memory, on a clock that is moved by hand.

use super::*;
use crate::Answer;
use bytes::Bytes;
use std::cell::RefCell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokrate_net::{ClientConfig, Clock, ConnectionUse, Departure, Head, ManualClock, Target};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// Keeps what comes.
#[derive(Default)]
struct Kept(Answer);

impl Sink for Kept {
    fn begin(&mut self, departure: &Departure) {
        self.0.begin(departure);
    }

    fn sent(&mut self, _: Tick) {}

    fn head(&mut self, _: Tick, head: &Head) {
        self.0.set_head(head.clone());
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        let _decoded = self.0.push(at, bytes);
    }
}

impl Recipient for Kept {
    fn last_sent_at(&self) -> Option<Tick> {
        self.0.last_sent_at()
    }

    fn has_head(&self) -> bool {
        self.0.head().is_some()
    }

    fn sent_into_closed_connection(&mut self) {
        self.0.begin_again();
    }
}

/// A client whose connections end here.
struct Bench {
    client: Rc<Client>,
    hands: ManualClock,
    peers: Rc<RefCell<Vec<DuplexStream>>>,
}

impl Bench {
    fn new() -> Bench {
        let (clock, hands) = Clock::manual(Tick::from_nanos(1_000));
        let peers = Rc::new(RefCell::new(Vec::new()));
        let dialled = Rc::clone(&peers);
        let target = Target::parse("http://h/v1").expect("a URL");
        let client = Client::over_memory(ClientConfig::default(), &target, clock, move || {
            let (here, there) = tokio::io::duplex(64 * 1024);
            dialled.borrow_mut().push(there);
            here
        });
        Bench { client: Rc::new(client.expect("a client")), hands, peers }
    }

    fn deliver(&self) -> impl Future<Output = (Exchange, Answer)> + use<> {
        let outgoing = Outgoing {
            method: http::Method::POST,
            path: "/v1/x".to_owned(),
            headers: http::HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
        };
        let limits = Limits { idle: Span::from_secs(30), total: Span::from_secs(300), max_body_bytes: 1 << 20 };
        let client = Rc::clone(&self.client);
        async move {
            let mut kept = Kept::default();
            let exchange = deliver(&client, &outgoing, limits, &mut kept).await;
            (exchange, kept.0)
        }
    }

    /// The other end of the latest connection.
    fn peer(&self) -> DuplexStream {
        self.peers.borrow_mut().pop().expect("a connection was opened")
    }
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// A second request on a connection that served a first one, and that its server closes without a word after so long.
/// How the second ended, and how often it was sent.
fn broken_after(span: Span) -> (Exchange, Answer, u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let bench = Bench::new();
        let mut first = pin!(bench.deliver());
        assert!(poll_once(first.as_mut()).await.is_pending());
        let mut kept = bench.peer();
        kept.write_all(ANSWER).await.expect("it listens");
        assert!(first.await.0.outcome.is_ok());

        let mut second = pin!(bench.deliver());
        assert!(poll_once(second.as_mut()).await.is_pending());
        let mut asked = [0; 4096];
        let _first_and_second = kept.read(&mut asked).await.expect("it was asked");
        assert!(bench.peers.borrow().is_empty(), "the connection was kept");
        bench.hands.advance(span);
        drop(kept);
        if let Poll::Ready((ended, answer)) = poll_once(second.as_mut()).await {
            return (ended, answer, 1);
        }
        let mut fresh = bench.peer();
        fresh.write_all(ANSWER).await.expect("it listens");
        let (ended, answer) = second.await;
        (ended, answer, 2)
    })
}

#[test]
fn what_was_sent_into_a_connection_closed_before_is_sent_again_on_a_new_one_and_timed_from_the_first_time() {
    for span in [Span::ZERO, STALE_WITHIN] {
        let (ended, answer, sent) = broken_after(span);
        assert_eq!((ended.outcome, ended.connection.new, sent), (Ok(()), true, 2), "{span}");
        let timing = answer.timing(Tick::from_nanos(0), ended.ended_at, ConnectionUse::default());
        assert_eq!((timing.sent_at, timing.stale_connections), (Some(Tick::from_nanos(1_000)), 1), "{span}");
    }
}

#[test]
fn a_kept_connection_that_breaks_later_is_a_failure_and_nothing_is_sent_twice() {
    let (ended, answer, sent) = broken_after(STALE_WITHIN + Span::from_nanos(1));
    assert_eq!((ended.outcome.map_err(|failure| failure.kind), sent), (Err(FailureKind::Closed), 1));
    assert!(answer.head().is_none());
}
