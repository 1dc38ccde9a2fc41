//! Whatever a server answers the HTTP/1.1 client: cuts do not matter, the exchange ends when the connection does, and where the
//! HTTP library reads an answer too it reads the same one.
//!
//! It does not know what is right: of what the library reads leniently the client may refuse some. Invariant: the first bytes of
//! the input say the method and where the answer is cut.

use crate::drive::{Driver, within_runtime};
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use std::cell::RefCell;
use std::pin::pin;
use std::task::Poll;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_net::{Client, ClientConfig, Clock, Head, Limits, Outgoing, Sink, Target};

/// Room of the connection in each direction (bytes): more than the longest input.
const ROOM_BYTES: usize = 1 << 17;
/// Longest body that is read (bytes): short enough that inputs go beyond it.
const BODY_BYTES_MOST: u64 = 1024;
const LIMITS: Limits = Limits { idle: Span::MAX, total: Span::MAX, max_body_bytes: BODY_BYTES_MOST };

/// What was received of an answer.
#[derive(Default, PartialEq, Debug)]
struct Received {
    head: Option<(u16, HeaderMap)>,
    body: Vec<u8>,
}

impl Sink for Received {
    fn sent(&mut self, _: Tick) {
        assert!(self.head.is_none(), "reported before the head");
    }

    fn head(&mut self, _: Tick, head: &Head) {
        assert!(self.head.is_none() && self.body.is_empty(), "reported once, before the body");
        assert!(!head.status.is_informational());
        self.head = Some((head.status.as_u16(), head.headers.clone()));
    }

    fn body(&mut self, _: Tick, bytes: &[u8]) {
        assert!(self.head.is_some() && !bytes.is_empty());
        self.body.extend_from_slice(bytes);
    }
}

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[method, first, second], answer)) = input.split_first_chunk::<3>() else { return };
    let method = [Method::POST, Method::GET, Method::HEAD][usize::from(method) % 3].clone();
    let mut cuts = [first, second].map(|cut| usize::from(cut).min(answer.len()));
    cuts.sort_unstable();
    within_runtime(|| {
        let whole = ours(answer, &method, &[]);
        let cut = ours(answer, &method, &cuts);
        assert_eq!(whole, cut, "{}", String::from_utf8_lossy(answer));
        let (Ok(()), received) = whole else { return };
        let Some((status, headers, body)) = theirs(answer, &method) else { return };
        assert_eq!(received.head, Some((status, headers)), "{}", String::from_utf8_lossy(answer));
        assert_eq!(received.body, body, "{}", String::from_utf8_lossy(answer));
    });
}

fn outgoing(method: &Method) -> Outgoing {
    Outgoing { method: method.clone(), path: "/".to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
}

/// What our client makes of an answer that comes in pieces and then ends; of a failure its kind.
fn ours(answer: &[u8], method: &Method, cuts: &[usize]) -> (Result<(), FailureKind>, Received) {
    let (here, mut peer) = duplex(ROOM_BYTES);
    let here = RefCell::new(Some(here));
    let dial = move || here.borrow_mut().take().expect("one connection is enough");
    let target = Target::parse("http://h").expect("a URL");
    let (clock, _) = Clock::manual(Tick::ZERO);
    let client = Client::over_memory(ClientConfig::default(), &target, clock, dial).expect("a client without TLS");
    let driver = Driver::default();
    let mut received = Received::default();
    let outcome = {
        let mut exchange = pin!(client.exchange(outgoing(method), LIMITS, &mut received));
        let mut ended = driver.poll(exchange.as_mut());
        let mut from = 0;
        for &cut in cuts.iter().chain([&answer.len()]) {
            write(&driver, &mut peer, &answer[from..cut]);
            if ended.is_pending() {
                ended = driver.poll(exchange.as_mut());
            }
            from = cut;
        }
        let _ = driver.finish(pin!(peer.shutdown()), "a peer");
        match ended {
            Poll::Ready(ended) => ended.outcome,
            Poll::Pending => driver.finish(exchange, "a client whose server has closed").outcome,
        }
    };
    if outcome.is_ok() {
        assert!(received.head.is_some() && received.body.len() as u64 <= BODY_BYTES_MOST);
    }
    (outcome.map_err(|failure| failure.kind), received)
}

/// What the HTTP library makes of it; nothing if it refuses.
fn theirs(answer: &[u8], method: &Method) -> Option<(u16, HeaderMap, Vec<u8>)> {
    let (here, mut peer) = duplex(ROOM_BYTES);
    let driver = Driver::default();
    let handshake = pin!(hyper::client::conn::http1::handshake(TokioIo::new(here)));
    let (mut sender, mut connection) = driver.finish(handshake, "a handshake without bytes").ok()?;
    let request = http::Request::builder().method(method).uri("/").body(Full::new(Bytes::new())).ok()?;
    let mut response = pin!(sender.send_request(request));
    let _ = driver.poll(response.as_mut());
    // It sends before it reads: an answer that is there before its request is an error to it.
    let _ = driver.poll(pin!(&mut connection));
    write(&driver, &mut peer, answer);
    let _ = driver.finish(pin!(peer.shutdown()), "a peer");
    let connection = driver.poll(pin!(&mut connection));
    let Poll::Ready(Ok(response)) = driver.poll(response.as_mut()) else { return None };
    let (head, body) = response.into_parts();
    let mut body = pin!(body.collect());
    // The connection goes on while somebody reads the body; once it has ended, all is there.
    let _ = connection;
    match driver.poll(body.as_mut()) {
        Poll::Ready(Ok(body)) => Some((head.status.as_u16(), head.headers, body.to_bytes().to_vec())),
        _ => None,
    }
}

fn write(driver: &Driver, peer: &mut DuplexStream, bytes: &[u8]) {
    // A client that has closed reads no more.
    let _ = driver.finish(pin!(peer.write_all(bytes)), "a peer with room");
}
