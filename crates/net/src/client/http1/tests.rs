//! Heads and framing, for themselves and against the HTTP library as an oracle.

use super::head;
use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::exchange::{Head, Limits, Outgoing, Sink};
use crate::http1::framing::{BodyState, Chunks, Framing};
use crate::target::Target;
use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use std::cell::RefCell;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokrate_core::{Span, Tick};

/// Reads `bytes` in pieces that end at `cuts`; the body, the bytes used, and how it ended.
fn framed(mut framing: Framing, bytes: &[u8], cuts: &[usize]) -> (Vec<u8>, usize, BodyState) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([bytes.len()]).collect();
    cuts.sort_unstable();
    let (mut body, mut from) = (Vec::new(), 0);
    for cut in cuts {
        let piece = &bytes[from..cut];
        let taken = framing.decode(piece, |part| body.extend_from_slice(part));
        if taken.state != BodyState::Open {
            return (body, from + taken.consumed, taken.state);
        }
        assert_eq!(taken.consumed, piece.len(), "all of it was this body's");
        from = cut;
    }
    (body, from, BodyState::Open)
}

/// A body in chunks, with extensions and trailers here and there.
fn chunked(chunks: &[Vec<u8>], extension: &str, trailer: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
        bytes.extend_from_slice(format!("{:X}{extension}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(format!("0{extension}\r\n{trailer}\r\n").as_bytes());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn chunks_are_put_together_however_they_are_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
        cuts in prop::collection::vec(any::<usize>(), 0..9),
        extension in prop::sample::select(vec!["", ";a=b", " ", "\t;x"]),
        trailer in prop::sample::select(vec!["", "x: y\r\n", "x: y\r\nz:\r\n"]),
        after in prop::collection::vec(any::<u8>(), 0..5),
    ) {
        let mut bytes = chunked(&chunks, extension, trailer);
        let length = bytes.len();
        bytes.extend_from_slice(&after);
        let ended = framed(Framing::Chunked(Chunks::new()), &bytes, &cuts);
        prop_assert_eq!(ended, (chunks.concat(), length, BodyState::Ended));
    }

    #[test]
    fn garbled_chunks_end_the_same_however_they_are_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..4),
        place in any::<usize>(),
        byte in prop::sample::select(b"\r\n;0fFg \t\x00\xff".to_vec()),
        cuts in prop::collection::vec(any::<usize>(), 0..9),
    ) {
        let mut bytes = chunked(&chunks, "", "");
        let place = place % bytes.len();
        bytes[place] = byte;
        let whole = framed(Framing::Chunked(Chunks::new()), &bytes, &[]);
        prop_assert_eq!(framed(Framing::Chunked(Chunks::new()), &bytes, &cuts), whole);
    }

    #[test]
    fn an_answer_is_read_as_the_http_library_reads_it(answer in answers(), cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (ours, theirs) = tokio::task::LocalSet::new().block_on(&runtime, async {
            (read_by_us(&answer, &cuts).await, read_by_the_library(&answer).await)
        });
        prop_assert_eq!(ours, theirs, "{}", String::from_utf8_lossy(&answer));
    }
}

/// Answers, right and wrong.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "HTTP/1.1 200 OK",
        "HTTP/1.1 200",
        "HTTP/1.0 200 OK",
        "HTTP/1.1 204 None",
        "HTTP/1.1 304 Same",
        "HTTP/2.0 200 OK",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
        "HTTP/1.1 503 Busy",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 999 Odd",
        " HTTP/1.1 200 OK",
        "\r\nHTTP/1.1 200 OK",
        "HTTP/1.1 000 No",
    ]);
    let field = prop::sample::select(vec![
        "content-length: 5",
        "content-length: 05",
        "content-length: 5, 5",
        "content-length: 6",
        "content-length: +5",
        "Content-Length:5",
        "content-length:",
        "content-length: 99999999999999999999",
        "transfer-encoding: chunked",
        "Transfer-Encoding: gzip, Chunked",
        "transfer-encoding: gzip",
        "transfer-encoding: chunked, gzip",
        "connection: close",
        "connection: keep-alive",
        "x: y",
        "x : y",
        "x",
        ": y",
        "x: \u{e9}",
        "x: a\u{0}b",
        "content-type: text/event-stream",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\n"]);
    let body = prop::sample::select(vec![
        "",
        "hello",
        "hell",
        "hello!",
        "5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nx: y\r\n\r\n",
        "5;a\r\nhello\r\n0\r\n\r\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "5\r\nhelloo\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\n",
        "\r\n",
        "fffffffffffffffff\r\nhello",
        "5 \r\nhello\r\n0\r\n\r\n",
        "0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
    ]);
    (line, prop::collection::vec(field, 0..4), end, body).prop_map(|(line, fields, end, body)| {
        let fields: String = fields.iter().map(|field| format!("{field}{end}")).collect();
        format!("{line}{end}{fields}{end}{body}").into_bytes()
    })
}

/// Status and body, or nothing if the answer is none or not whole.
type Seen = Option<(u16, Vec<u8>)>;

async fn answer_in_pieces(mut peer: DuplexStream, answer: Vec<u8>, cuts: Vec<usize>) {
    let mut request = [0; 1024];
    let _ = peer.read(&mut request).await;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (answer.len() + 1)).chain([answer.len()]).collect();
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        let _ = peer.write_all(&answer[from..cut]).await;
        tokio::task::yield_now().await;
        from = cut;
    }
}

async fn read_by_us(answer: &[u8], cuts: &[usize]) -> Seen {
    #[derive(Default)]
    struct Kept(Option<u16>, Vec<u8>);
    impl Sink for Kept {
        fn sent(&mut self, _: Tick) {}
        fn head(&mut self, _: Tick, head: &Head) {
            self.0 = Some(head.status.as_u16());
        }
        fn body(&mut self, _: Tick, bytes: &[u8]) {
            self.1.extend_from_slice(bytes);
        }
    }
    let (here, there) = tokio::io::duplex(1 << 16);
    let here = RefCell::new(Some(here));
    let dial = move || here.borrow_mut().take().expect("one connection");
    let target = Target::parse("http://h").expect("a URL");
    let client = super::super::Client::over_memory(ClientConfig::default(), &target, Clock::monotonic(), dial);
    tokio::task::spawn_local(answer_in_pieces(there, answer.to_vec(), cuts.to_vec()));
    let headers = http::HeaderMap::new();
    let outgoing = Outgoing { method: Method::POST, path: "/".to_owned(), headers, body: Bytes::from_static(b"{}") };
    let limits = Limits { idle: Span::from_secs(9), total: Span::from_secs(9), max_body_bytes: 1 << 20 };
    let mut kept = Kept::default();
    let exchange = client.expect("a client").exchange(outgoing, limits, &mut kept).await;
    exchange.outcome.ok().and_then(|()| Some((kept.0?, kept.1)))
}

async fn read_by_the_library(answer: &[u8]) -> Seen {
    let (here, there) = tokio::io::duplex(1 << 16);
    tokio::task::spawn_local(answer_in_pieces(there, answer.to_vec(), Vec::new()));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(here)).await.ok()?;
    tokio::task::spawn_local(connection);
    let request = http::Request::builder().method("POST").uri("/").body(Full::new(Bytes::from_static(b"{}")));
    let response = sender.send_request(request.ok()?).await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.into_body().collect().await.ok()?.to_bytes().to_vec()))
}

#[test]
fn a_head_is_read_with_what_it_says_of_its_body() {
    let parse = |text: &str| head::parse(text.as_bytes(), &Method::POST).map(|parse| parse.expect("it is whole"));
    let kept = parse("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nX-A: b\r\n\r\nrest").expect("a head");
    assert!(kept.keep && kept.framing.is_empty() && kept.length == 46);
    assert_eq!(kept.head.headers["x-a"], "b");
    assert!(!parse("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: x, Close\r\n\r\n").expect("a head").keep);
    assert!(!parse("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n").expect("a head").keep);
    assert!(parse("HTTP/1.0 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive\r\n\r\n").expect("a head").keep);
    assert!(!parse("HTTP/1.1 200 OK\r\n\r\n").expect("a head").keep, "its end is the connection's");
    assert!(head::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n", &Method::POST).expect("so far good").is_none());
    let long = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
    assert!(head::parse(long.as_bytes(), &Method::HEAD).expect("a head").expect("whole").framing.is_empty());
}

#[test]
fn asides_of_chunks_have_an_end() {
    for endless in ["5;", "5 ", "0\r\nx"] {
        let mut bytes = endless.as_bytes().to_vec();
        bytes.resize(1 << 20, b' ');
        let (_, used, state) = framed(Framing::Chunked(Chunks::new()), &bytes, &[]);
        assert_eq!(state, BodyState::Invalid, "{endless}");
        assert!(used < 20_000, "{endless}: {used}");
    }
}
