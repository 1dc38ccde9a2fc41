//! A kept connection that its server had closed, and one that broke later: over memory, on a clock that is moved by hand.

use super::*;
use bytes::Bytes;
use std::pin::pin;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokrate_net::{ClientConfig, Clock, Hands, Target};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

/// A client whose connections end here.
struct Bench {
    client: Rc<Client>,
    hands: Hands,
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

    fn carry(&self) -> impl Future<Output = Exchange> + use<> {
        let outgoing = Outgoing {
            method: http::Method::POST,
            path: "/v1/x".to_owned(),
            headers: http::HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
        };
        let limits = Limits { idle: Span::from_secs(30), total: Span::from_secs(300), max_body_bytes: 1 << 20 };
        let inbox = Rc::new(RefCell::new(Inbox::new(Reader::Opaque, Rc::default())));
        carry(Rc::clone(&self.client), outgoing, inbox, limits)
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
fn broken_after(span: Span) -> (Exchange, u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let bench = Bench::new();
        let mut first = pin!(bench.carry());
        assert!(poll_once(first.as_mut()).await.is_pending());
        let mut kept = bench.peer();
        kept.write_all(ANSWER).await.expect("it listens");
        assert!(first.await.outcome.is_ok());

        let mut second = pin!(bench.carry());
        assert!(poll_once(second.as_mut()).await.is_pending());
        let mut asked = [0; 4096];
        let _first_and_second = kept.read(&mut asked).await.expect("it was asked");
        assert!(bench.peers.borrow().is_empty(), "the connection was kept");
        bench.hands.advance(span);
        drop(kept);
        if let Poll::Ready(ended) = poll_once(second.as_mut()).await {
            return (ended, 1);
        }
        let mut fresh = bench.peer();
        fresh.write_all(ANSWER).await.expect("it listens");
        (second.await, 2)
    })
}

#[test]
fn what_was_sent_into_a_connection_closed_before_is_sent_again_on_a_new_one() {
    for span in [Span::ZERO, STALE_WITHIN] {
        let (ended, sent) = broken_after(span);
        assert_eq!((ended.outcome, ended.connection.new, sent), (Ok(()), true, 2), "{span}");
    }
}

#[test]
fn a_kept_connection_that_breaks_later_is_a_failure_and_nothing_is_sent_twice() {
    let (ended, sent) = broken_after(STALE_WITHIN + Span::from_nanos(1));
    assert_eq!((ended.outcome.map_err(|failure| failure.kind), sent), (Err(FailureKind::Closed), 1));
}
