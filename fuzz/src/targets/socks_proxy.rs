//! Whatever a SOCKS5 proxy answers: cuts do not matter, the exchange ends when the connection does, nothing but a whole yes is a
//! connection, and the password is in no message.
//!
//! It does not know what stands behind the proxy. Invariant: the first bytes of the input say whether the proxy is shown a login and
//! where its answers are cut.

use crate::drive::{Driver, within_runtime};
use bytes::Bytes;
use http::{HeaderMap, Method};
use std::cell::RefCell;
use std::pin::pin;
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_net::{Client, ClientConfig, Clock, Head, Limits, Outgoing, ProxySettings, Sink, Target};

/// Room of the connection in each direction (bytes): more than the longest input.
const ROOM_BYTES: usize = 1 << 17;
const LIMITS: Limits = Limits { idle: Span::MAX, total: Span::MAX, max_body_bytes: 1024 };

struct Unheard;

impl Sink for Unheard {
    fn sent(&mut self, _: Tick) {}
    fn head(&mut self, _: Tick, _: &Head) {}
    fn body(&mut self, _: Tick, _: &[u8]) {}
}

/// Panics if a property does not hold.
pub fn run(input: &[u8]) {
    let Some((&[login, cut], answers)) = input.split_first_chunk::<2>() else { return };
    let with_login = login % 2 == 1;
    within_runtime(|| {
        let (whole, asked) = asked(answers, with_login, answers.len());
        let cut = usize::from(cut).min(answers.len());
        assert_eq!((&whole, &asked), (&self::asked(answers, with_login, cut).0, &asked));
        let is_through = !matches!(whole, Err(FailureKind::Proxy | FailureKind::ConnectTimeout));
        let is_forwarded = asked.windows(4).any(|bytes| bytes == b"POST");
        assert_eq!(is_through, is_forwarded, "a request is for who is behind the proxy: {whole:?}");
        if is_through {
            let reply = if answers[1] == 0 { 2 } else { 4 };
            assert!(answers[0] == 5 && answers[reply] == 5 && answers[reply + 1] == 0 && answers.len() >= reply + 7);
            assert!(with_login || answers[1] == 0);
        }
    });
}

/// How an exchange through a proxy with these answers ends, and what the proxy was sent.
fn asked(answers: &[u8], with_login: bool, cut: usize) -> (Result<(), FailureKind>, Vec<u8>) {
    let (here, mut peer) = duplex(ROOM_BYTES);
    let here = RefCell::new(Some(here));
    let dial = move || here.borrow_mut().take().expect("one connection is enough");
    let url = if with_login { "socks5h://u:geheim@p" } else { "socks5h://p" };
    let proxy = ProxySettings::from_values(None, None, Some(url), None);
    let config = ClientConfig { proxy, ..ClientConfig::default() };
    let target = Target::parse("http://model.test").expect("a URL");
    let (clock, _) = Clock::manual(Tick::ZERO);
    let client = Client::over_memory(config, &target, clock, dial).expect("a client without TLS");
    let outgoing =
        Outgoing { method: Method::POST, path: "/".to_owned(), headers: HeaderMap::new(), body: Bytes::new() };
    let (driver, mut unheard) = (Driver::default(), Unheard);
    let outcome = {
        let mut exchange = pin!(client.exchange(outgoing, LIMITS, &mut unheard));
        let mut ended = driver.poll(exchange.as_mut());
        for piece in [&answers[..cut], &answers[cut..]] {
            // A client that has closed reads no more.
            let _ = driver.finish(pin!(peer.write_all(piece)), "a peer with room");
            if ended.is_pending() {
                ended = driver.poll(exchange.as_mut());
            }
        }
        let _ = driver.finish(pin!(peer.shutdown()), "a peer");
        match ended {
            Poll::Ready(ended) => ended.outcome,
            Poll::Pending => driver.finish(exchange, "a client whose proxy has closed").outcome,
        }
    };
    drop(client);
    let mut sent = Vec::new();
    let _ = driver.finish(pin!(peer.read_to_end(&mut sent)), "what was sent");
    if let Err(failure) = &outcome {
        assert!(!failure.detail.contains("geheim"), "{}", failure.detail);
    }
    (outcome.map_err(|failure| failure.kind), sent)
}
