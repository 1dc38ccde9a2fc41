//! Handshakes, and connections that go on in another protocol, from one side to the other.

use super::*;
use crate::client::Client;
use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::exchange::{Head, Limits, Outgoing, Sink};
use crate::server::{ConnectionTap, FullBody, Handler, RequestBody, serve_connection};
use crate::target::Target;
use http::{HeaderValue, Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokrate_core::{FailureKind, Span};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
}

const SOUND: [(&str, &str); 5] = [
    ("host", "a"),
    ("upgrade", "WebSocket"),
    ("connection", "keep-alive, Upgrade"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", KEY),
];

#[test]
fn a_handshake_that_two_servers_could_read_differently_is_invalid() {
    let read = |headers: &HeaderMap| {
        websocket_handshake(&Method::GET, Version::HTTP_11, headers, false) == Handshake::Sound(KEY)
    };
    let sound = headers(&SOUND);
    assert!(read(&sound) && asks_to_upgrade(&sound));
    assert_eq!(websocket_handshake(&Method::GET, Version::HTTP_11, &headers(&SOUND[..1]), false), Handshake::None);
    for (name, value) in SOUND {
        let mut twice = sound.clone();
        twice.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        assert_eq!(read(&twice), name == "connection", "{name} twice");
        let mut missing = sound.clone();
        missing.remove(name);
        assert!(!read(&missing), "no {name}");
    }
    for (name, value) in [
        ("upgrade", "h2c"),
        ("upgrade", "websocket, h2c"),
        ("connection", "upgraded"),
        ("sec-websocket-version", "12"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ="),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==\u{1}"),
    ] {
        let mut other = sound.clone();
        let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
        other.insert(name, value);
        assert!(!read(&other), "{name}");
    }
    let of = |method, version, has_body| websocket_handshake(&method, version, &sound, has_body);
    for refused in [
        of(Method::POST, Version::HTTP_11, false),
        of(Method::GET, Version::HTTP_10, false),
        of(Method::GET, Version::HTTP_2, false),
        of(Method::GET, Version::HTTP_11, true),
    ] {
        assert!(matches!(refused, Handshake::Invalid(_)), "{refused:?}");
    }
}

/// Keeps what an exchange comes to.
#[derive(Default)]
struct Kept {
    status: Option<u16>,
    body: Vec<u8>,
    connection: Option<Upgraded>,
}

impl Sink for Kept {
    fn sent(&mut self, _: Tick) {}

    fn head(&mut self, _: Tick, head: &Head) {
        self.status = Some(head.status.as_u16());
    }

    fn body(&mut self, _: Tick, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }

    fn upgraded(&mut self, connection: Upgraded) {
        self.connection = Some(connection);
    }
}

/// Opens what is asked for at `/open` and says everything back; hands out a 101 that nobody goes on with at `/alone`.
struct Repeats;

impl Handler for Repeats {
    type Body = FullBody;

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<FullBody> {
        let mut response = Response::new(FullBody::new(Bytes::from_static(b"no")));
        let path = request.uri().path().to_owned();
        // Without effect where the response is another.
        tap.on_upgrade(|mut connection| async move {
            let mut piece = [0; 64];
            while let Ok(count @ 1..) = connection.read(&mut piece).await {
                if connection.write_all(&piece[..count]).await.is_err() {
                    return;
                }
            }
        });
        if path == "/open" {
            *response.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        }
        response
    }

    fn error_body(&self, _: &Request<RequestBody>, _: http::StatusCode, message: &str) -> Vec<u8> {
        message.as_bytes().to_vec()
    }
}

fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), future)
}

fn serve(there: tokio::io::DuplexStream) {
    tokio::task::spawn_local(async move {
        let (_open, closing) = tokio::sync::watch::channel(false);
        serve_connection(there, Rc::new(Repeats), Clock::manual(Tick::ZERO).0, closing).await;
    });
}

#[test]
fn an_upgraded_connection_goes_on_at_both_ends_and_any_other_answer_is_one() {
    on_runtime(async {
        let target = Target::parse("http://a").expect("a URL");
        let dial = || {
            let (here, there) = tokio::io::duplex(1 << 16);
            serve(there);
            here
        };
        let client = Client::over_memory(ClientConfig::default(), &target, Clock::manual(Tick::ZERO).0, dial);
        let client = client.expect("a client");
        let limits = Limits { idle: Span::MAX, total: Span::MAX, max_body_bytes: 100 };
        let ask = |path: &str| Outgoing {
            method: Method::GET,
            path: path.to_owned(),
            headers: headers(&SOUND[1..]),
            body: Bytes::new(),
        };
        let mut kept = Kept::default();
        let exchange = client.exchange(ask("/open"), limits, &mut kept).await;
        assert_eq!((exchange.outcome, kept.status), (Ok(()), Some(101)));
        let mut connection = kept.connection.expect("it was opened");
        let before = connection.stamps().read_bytes();
        for text in [&b"one"[..], b"and another"] {
            connection.write_all(text).await.expect("it is open");
            let mut back = vec![0; text.len()];
            connection.read_exact(&mut back).await.expect("it is open");
            assert_eq!(back, text);
        }
        assert_eq!(connection.stamps().read_bytes(), before + 14);
        let mut kept = Kept::default();
        let exchange = client.exchange(ask("/elsewhere"), limits, &mut kept).await;
        assert_eq!((exchange.outcome, kept.status, kept.body.as_slice()), (Ok(()), Some(200), &b"no"[..]));
        assert!(kept.connection.is_none());
    });
}

#[test]
fn what_was_sent_behind_the_head_is_of_the_other_protocol_and_never_a_request() {
    on_runtime(async {
        let (mut here, there) = tokio::io::duplex(1 << 16);
        serve(there);
        let opening: String = SOUND.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let early = "GET /elsewhere HTTP/1.1\r\nhost: a\r\n\r\n";
        here.write_all(format!("GET /open HTTP/1.1\r\n{opening}\r\n{early}").as_bytes()).await.expect("room");
        let mut all = Vec::new();
        while !all.ends_with(early.as_bytes()) {
            assert!(here.read_buf(&mut all).await.expect("it is open") > 0);
        }
        let text = String::from_utf8(all).expect("text");
        assert!(text.starts_with("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n"), "{text}");
        assert!(text.contains("connection: upgrade\r\n\r\nGET /elsewhere"), "{text}");
        // A refused one is the last request of its connection.
        let (mut here, there) = tokio::io::duplex(1 << 16);
        serve(there);
        here.write_all(format!("GET /no HTTP/1.1\r\n{opening}\r\n{early}").as_bytes()).await.expect("room");
        let mut all = String::new();
        here.read_to_string(&mut all).await.expect("text");
        assert!(all.matches("HTTP/1.1").count() == 1 && all.ends_with("connection: close\r\n\r\nno"), "{all}");
    });
}

#[test]
fn a_server_that_switches_unasked_or_to_something_else_is_refused() {
    on_runtime(async {
        for (asks, answer) in [
            (false, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"),
            (true, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\r\n"),
            (true, "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n"),
        ] {
            let target = Target::parse("http://a").expect("a URL");
            let dial = move || {
                let (here, mut there) = tokio::io::duplex(1 << 16);
                tokio::task::spawn_local(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") && there.read_buf(&mut head).await.is_ok_and(|count| count > 0) {
                    }
                    let _ = there.write_all(answer.as_bytes()).await;
                    std::future::pending::<()>().await;
                });
                here
            };
            let client = Client::over_memory(ClientConfig::default(), &target, Clock::manual(Tick::ZERO).0, dial);
            let headers = if asks { headers(&SOUND[1..]) } else { HeaderMap::new() };
            let outgoing = Outgoing { method: Method::GET, path: "/".to_owned(), headers, body: Bytes::new() };
            let limits = Limits { idle: Span::MAX, total: Span::MAX, max_body_bytes: 100 };
            let mut kept = Kept::default();
            let exchange = client.expect("a client").exchange(outgoing, limits, &mut kept).await;
            let failure = exchange.outcome.expect_err("it is no answer");
            assert_eq!((failure.kind, kept.connection.is_none()), (FailureKind::Protocol, true), "{answer}");
        }
    });
}
