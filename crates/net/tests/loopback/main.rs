//! Client and server over real sockets of this machine: TLS, HTTP/2, Unix sockets, proxies, refusals.

#![allow(clippy::unwrap_used, reason = "all of this file is test")]

mod proxies;
mod threads;
mod unix;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::MapErr;
use http_body_util::{BodyExt, Full};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};
use tokrate_core::{FailureKind, Span, Tick};
use tokrate_net::server::{
    AccessConfig, AccessSettings, ConnectionLimits, ConnectionTap, Connections, Handler, Listener, RequestBody,
    read_body,
};
use tokrate_net::{
    Client, ClientConfig, Clock, Exchange, ExchangeFailure, Head, HttpVersion, Limits, NetError, Outgoing, Route,
    ServerTls, Sink, Target,
};

fn on_local_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, future)
}

/// Answers with what it was asked: version, path, body.
struct Echo;

type Whole = MapErr<Full<Bytes>, fn(Infallible) -> std::io::Error>;

impl Handler for Echo {
    type Body = Whole;

    fn error_body(&self, _: &Request<RequestBody>, _: http::StatusCode, message: &str) -> Vec<u8> {
        message.as_bytes().to_vec()
    }

    async fn handle(self: Rc<Self>, request: Request<RequestBody>, tap: Rc<ConnectionTap>) -> Response<Whole> {
        let asked = format!("{:?} {}", request.version(), request.uri().path());
        let body = read_body(request.into_body(), 1 << 20).await.unwrap();
        assert!(tap.read_at() > Tick::ZERO);
        let text = format!("{asked} {}", body.len());
        let never: fn(Infallible) -> std::io::Error = |never| match never {};
        Response::new(Full::new(Bytes::from(text)).map_err(never))
    }
}

const SETTINGS: AccessSettings = AccessSettings { host: "--host", origin: None, key: "add --key" };

/// Listens on a free port.
async fn listen(connections: &Arc<Connections>) -> Listener {
    let hosts = ["model.test".to_owned()];
    let access = AccessConfig { hosts: &hosts, origins: &[], requires_key: false, settings: &SETTINGS };
    Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &access, connections).await.unwrap()
}

/// Starts the server on a free port.
async fn serve(tls: Option<ServerTls>) -> SocketAddr {
    let listener = listen(&Connections::new(ConnectionLimits::without_keys())).await;
    let address = listener.address();
    let clock = Clock::monotonic();
    spawn_local(async move {
        listener.with_tls(tls).serve(Rc::new(Echo), clock, std::future::pending(), Span::ZERO).await;
    });
    address
}

#[derive(Default)]
struct RecordingSink {
    sent: bool,
    status: u16,
    text: String,
    stamps: Vec<Tick>,
}

impl Sink for RecordingSink {
    fn sent(&mut self, at: Tick) {
        self.sent = true;
        self.stamps.push(at);
    }

    fn head(&mut self, at: Tick, head: &Head) {
        self.status = head.status.as_u16();
        self.stamps.push(at);
    }

    fn body(&mut self, at: Tick, bytes: &[u8]) {
        self.text.push_str(&String::from_utf8_lossy(bytes));
        self.stamps.push(at);
    }
}

fn client(config: &ClientConfig, url: &str) -> Client {
    let clock = Clock::monotonic();
    let route = Route::resolve_blocking(&Target::parse(url).unwrap(), config, clock).unwrap();
    Client::new(config.clone(), route, clock).unwrap()
}

async fn ask(client: &Client, body: Bytes) -> (Exchange, RecordingSink) {
    let mut received = RecordingSink::default();
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    let outgoing = Outgoing { method: http::Method::POST, path: "/v1/x".to_owned(), headers, body };
    let limits = Limits { idle: Span::from_secs(10), total: Span::from_secs(20), max_body_bytes: 1 << 20 };
    let exchange = client.exchange(outgoing, limits, &mut received).await;
    assert!(received.stamps.is_sorted(), "sent, head, body");
    (exchange, received)
}

async fn failure(config: &ClientConfig, url: &str) -> (FailureKind, String) {
    let failure = ask(&client(config, url), Bytes::new()).await.0.outcome.unwrap_err();
    (failure.kind, failure.detail)
}

/// An authority, and what it signed for a server.
#[derive(Clone)]
struct Signed {
    ca_file: PathBuf,
    /// What it signed.
    leaf_file: PathBuf,
    tls: ServerTls,
    /// Chain and key of the server.
    pem: [String; 2],
}

fn signed(test: &str, name: &str, expired: bool) -> Signed {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let mut leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if expired {
        leaf.not_before = rcgen::date_time_ymd(2019, 1, 1);
        leaf.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let chain = leaf.signed_by(&key, &issuer).unwrap().pem();
    let ca_file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("net-{test}-{name}-{expired}.pem"));
    std::fs::write(&ca_file, ca_pem).unwrap();
    let leaf_file = ca_file.with_extension("leaf.pem");
    std::fs::write(&leaf_file, &chain).unwrap();
    let pem = [chain, key.serialize_pem()];
    Signed { ca_file, leaf_file, tls: ServerTls::from_pem(pem[0].as_bytes(), pem[1].as_bytes()).unwrap(), pem }
}

#[test]
fn both_http_versions_are_spoken_plain_and_encrypted_and_large_requests_get_through() {
    let signed = signed("both", "localhost", false);
    on_local_runtime(async {
        let (plain, encrypted) = (serve(None).await, serve(Some(signed.tls)).await);
        for http in [HttpVersion::Http1, HttpVersion::Http2] {
            let config = ClientConfig { http, ca_file: Some(signed.ca_file.clone()), ..ClientConfig::default() };
            let urls = [format!("http://{plain}"), format!("https://localhost:{}", encrypted.port())];
            for url in urls {
                let client = client(&config, &url);
                for (turn, length) in [(0, 0), (1, 2), (2, 1_000_000)] {
                    let (ended, received) = ask(&client, Bytes::from(vec![b'x'; length])).await;
                    assert_eq!(ended.outcome, Ok(()), "{url}");
                    let version = if http == HttpVersion::Http1 { "HTTP/1.1" } else { "HTTP/2.0" };
                    assert_eq!(received.text, format!("{version} /v1/x {length}"));
                    assert_eq!((received.status, received.sent), (200, true), "{url} {length}");
                    assert_eq!(ended.connection.new, turn == 0);
                    assert_eq!(ended.connection.tls > Span::ZERO, turn == 0 && url.starts_with("https"));
                    assert!(ended.bytes_out >= length as u64);
                }
            }
        }
    });
}

#[test]
fn a_handshake_fails_with_what_is_wrong_with_the_certificate() {
    let good = signed("fails", "localhost", false);
    let (old, other) = (signed("fails", "localhost", true), signed("fails", "other.test", false));
    on_local_runtime(async {
        let cases = [
            (good.tls, None, "unknown authority"),
            (old.tls, Some(old.ca_file), "expired"),
            (other.tls, Some(other.ca_file), "another name"),
        ];
        for (tls, ca_file, expected) in cases {
            let address = serve(Some(tls)).await;
            let config = ClientConfig { ca_file, ..ClientConfig::default() };
            let (kind, detail) = failure(&config, &format!("https://localhost:{}", address.port())).await;
            assert_eq!(kind, FailureKind::Tls);
            assert!(detail.contains(expected), "{detail}");
        }
    });
}

/// A certificate as `openssl req -x509` makes it, which says that it is an authority's, and a file that holds it. Without a name
/// it has none for hosts, as with `-subj /CN=localhost` alone.
fn own(test: &str, name: &str, years: (i32, i32)) -> Signed {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = [name].into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
    let pem = params.self_signed(&key).unwrap().pem();
    let ca_file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("net-{test}.pem"));
    std::fs::write(&ca_file, &pem).unwrap();
    let (tls, leaf_file) =
        (ServerTls::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes()).unwrap(), ca_file.clone());
    Signed { ca_file, leaf_file, tls, pem: [pem, key.serialize_pem()] }
}

/// Asks over both versions of HTTP; the outcomes.
async fn ends(tls: ServerTls, config: &ClientConfig) -> [Result<(), ExchangeFailure>; 2] {
    let url = format!("https://localhost:{}", serve(Some(tls)).await.port());
    let of = async |http| {
        let config = ClientConfig { http, ..config.clone() };
        ask(&client(&config, &url), Bytes::new()).await.0.outcome
    };
    [of(HttpVersion::Http1).await, of(HttpVersion::Http2).await]
}

#[test]
fn a_certificate_that_stands_in_the_file_itself_is_trusted_for_its_name_and_its_time() {
    let (good, other) = (own("own-good", "localhost", (2020, 4000)), own("own-other", "other.test", (2020, 4000)));
    let (old, early) = (own("own-old", "localhost", (2019, 2020)), own("own-early", "localhost", (3999, 4000)));
    let twin = own("own-twin", "localhost", (2020, 4000));
    let nameless = own("own-nameless", "", (2020, 4000));
    // What an authority has signed is no authority; its own certificate in the file is enough all the same.
    let mut leaf = signed("own-leaf", "localhost", false);
    leaf.ca_file = leaf.leaf_file.clone();
    on_local_runtime(async {
        for Signed { ca_file, tls, .. } in [good.clone(), leaf] {
            let config = ClientConfig { ca_file: Some(ca_file), ..ClientConfig::default() };
            assert_eq!(ends(tls, &config).await, [Ok(()), Ok(())]);
        }
        let refused = [
            (good.tls, Some(twin.ca_file), "exactly this certificate"),
            (twin.tls, None, "exactly this certificate"),
            (other.tls, Some(other.ca_file), "another name"),
            (nameless.tls, Some(nameless.ca_file), "-addext subjectAltName=DNS:localhost"),
            (old.tls, Some(old.ca_file), "expired"),
            (early.tls, Some(early.ca_file), "not valid yet"),
        ];
        for (tls, ca_file, expected) in refused {
            let config = ClientConfig { ca_file, ..ClientConfig::default() };
            for end in ends(tls, &config).await {
                let failure = end.expect_err(expected);
                assert_eq!(failure.kind, FailureKind::Tls);
                assert!(failure.detail.contains(expected), "{}", failure.detail);
            }
        }
    });
}

#[test]
fn any_certificate_will_do_when_none_is_to_be_checked() {
    let (old, other) = (own("any-old", "localhost", (2019, 2020)), signed("any", "other.test", false));
    on_local_runtime(async {
        for tls in [old.tls, other.tls] {
            let config = ClientConfig { insecure: true, ..ClientConfig::default() };
            assert_eq!(ends(tls.clone(), &config).await, [Ok(()), Ok(())]);
            assert!(ends(tls, &ClientConfig::default()).await.iter().all(Result::is_err));
        }
    });
}

#[test]
fn the_wrong_scheme_is_told() {
    let signed = signed("scheme", "localhost", false);
    on_local_runtime(async {
        let (plain, encrypted) = (serve(None).await, serve(Some(signed.tls)).await);
        for http in [HttpVersion::Http1, HttpVersion::Http2] {
            let config = ClientConfig { http, ..ClientConfig::default() };
            let (kind, detail) = failure(&config, &format!("https://localhost:{}", plain.port())).await;
            assert_eq!(kind, FailureKind::Tls, "{detail}");
            assert!(detail.contains("use http://"), "{detail}");
            let (kind, detail) = failure(&config, &format!("http://{encrypted}")).await;
            assert_eq!(kind, FailureKind::Tls, "{detail}");
            assert!(detail.contains("use https://"), "{detail}");
        }
    });
}

#[test]
fn nobody_who_listens_and_names_without_address_are_told() {
    on_local_runtime(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let (kind, detail) = failure(&ClientConfig::default(), &format!("http://{address}")).await;
        assert_eq!(kind, FailureKind::Connect);
        assert!(detail.contains(&address.to_string()), "{detail}");
    });
    // A label of more than 63 letters is no name: no resolver is asked.
    let target = Target::parse(&format!("http://{}/v1", "a".repeat(70))).unwrap();
    let route = Route::resolve_blocking(&target, &ClientConfig::default(), Clock::monotonic());
    assert!(matches!(route, Err(NetError::Dns { .. })), "{route:?}");
}

#[test]
fn authorities_that_cannot_be_read_are_told_with_their_file_whether_they_are_needed_or_not() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (empty, garbled) = (folder.join("net-no-certificate.pem"), folder.join("net-garbled.pem"));
    std::fs::write(&empty, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").unwrap();
    std::fs::write(&garbled, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let cases = [
        (PathBuf::from("/no/such/file.pem"), "No such file"),
        (folder, "Is a directory"),
        (empty, "it holds no certificate"),
        (garbled, "certificate"),
    ];
    for (path, reason) in cases {
        let config = ClientConfig { ca_file: Some(path.clone()), ..ClientConfig::default() };
        for target in ["https://127.0.0.1", "http://127.0.0.1"] {
            let target = Target::parse(target).unwrap();
            let error = Route::resolve_blocking(&target, &config, Clock::monotonic()).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()) && error.contains(reason), "{target}: {error}");
        }
    }
}

/// Whether each of three connections, one after the other, went on from an earlier TLS session.
async fn resumed(tls: ServerTls, config: ClientConfig) -> Vec<bool> {
    let url = format!("https://localhost:{}", serve(Some(tls)).await.port());
    let client = client(&ClientConfig { reuse: false, ..config }, &url);
    let mut resumed = Vec::new();
    for _ in 0..3 {
        let (ended, _) = ask(&client, Bytes::new()).await;
        assert_eq!(ended.outcome, Ok(()));
        resumed.push(ended.connection.resumed);
    }
    resumed
}

#[test]
fn tls_sessions_are_resumed_only_where_connections_need_not_cost_the_same() {
    let signed = signed("resumed", "localhost", false);
    on_local_runtime(async {
        for http in [HttpVersion::Http1, HttpVersion::Http2] {
            let measured = ClientConfig { http, ca_file: Some(signed.ca_file.clone()), ..ClientConfig::default() };
            assert_eq!(resumed(signed.tls.clone(), measured.clone()).await, [false; 3], "{http:?}");
            let serving = ClientConfig { resume_tls: true, ..measured };
            assert_eq!(resumed(signed.tls.clone(), serving).await, [false, true, true], "{http:?}");
        }
    });
}

#[test]
fn a_certificate_is_replaced_while_the_server_runs_and_a_bad_one_replaces_none() {
    let (old, new) = (signed("replaced-old", "localhost", true), signed("replaced-new", "localhost", false));
    let config = ClientConfig { ca_file: Some(new.ca_file.clone()), reuse: false, ..ClientConfig::default() };
    on_local_runtime(async {
        let url = format!("https://localhost:{}", serve(Some(old.tls.clone())).await.port());
        let client = client(&config, &url);
        assert!(ask(&client, Bytes::new()).await.0.outcome.is_err(), "it has expired");
        let [chain, key] = &new.pem;
        for (chain, key, expected) in [
            ("", key.as_str(), "none is there"),
            (chain.as_str(), "", "the key: "),
            (chain.as_str(), old.pem[1].as_str(), "keys may not be consistent"),
        ] {
            let refused = old.tls.replace(chain.as_bytes(), key.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
        assert!(ask(&client, Bytes::new()).await.0.outcome.is_err(), "the old one stayed");
        old.tls.replace(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(ask(&client, Bytes::new()).await.0.outcome, Ok(()));
    });
}

#[test]
fn a_warm_connection_is_there_when_it_is_needed_and_only_one_is_opened() {
    let signed = signed("warm", "localhost", false);
    on_local_runtime(async {
        let url = format!("https://localhost:{}", serve(Some(signed.tls)).await.port());
        for http in [HttpVersion::Http1, HttpVersion::Http2] {
            let config = ClientConfig { http, ca_file: Some(signed.ca_file.clone()), ..ClientConfig::default() };
            let client = client(&config, &url);
            assert!(!client.is_warm());
            tokio::join!(client.warm(), client.warm());
            assert!(client.is_warm() && client.used_at().is_none());
            let (ended, _) = ask(&client, Bytes::new()).await;
            assert_eq!((ended.outcome, ended.connection.new), (Ok(()), false), "{http:?}");
            assert!(client.used_at().is_some());
        }
        let nobody = client(&ClientConfig::default(), "http://127.0.0.1:9");
        nobody.warm().await;
        assert!(!nobody.is_warm());
    });
}
