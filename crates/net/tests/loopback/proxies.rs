//! Proxies: HTTP in the clear and over TLS, SOCKS5 with addresses and with names.

use crate::{Signed, ask, client, failure, on_local_runtime, own, serve, signed};
use bytes::Bytes;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};
use tokrate_core::{FailureKind, Span};
use tokrate_net::{Client, ClientConfig, Clock, HttpVersion, NetError, ProxySettings, Route, Target};

/// A proxy that lets through who knows the password, and keeps the heads that it saw.
async fn proxy(status: &'static str) -> (SocketAddr, Seen) {
    accepting(async move |stream, heads| carry_through(stream, heads, status).await).await
}

/// What a proxy was asked.
type Seen = Rc<RefCell<Vec<String>>>;

/// A proxy that treats each connection as its script says.
async fn accepting(serve: impl AsyncFn(TcpStream, Seen) + 'static) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Seen::default();
    let (serve, seen) = (Rc::new(serve), Rc::clone(&heads));
    spawn_local(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (serve, heads) = (Rc::clone(&serve), Rc::clone(&seen));
            spawn_local(async move { serve(stream, heads).await });
        }
    });
    (address, heads)
}

async fn carry_through(mut stream: impl AsyncRead + AsyncWrite + Unpin, heads: Seen, status: &str) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let port = head.split_whitespace().nth(1).and_then(|to| to.rsplit(':').next()).and_then(|port| port.parse().ok());
    let connects = head.starts_with("CONNECT ");
    heads.borrow_mut().push(head);
    if !status.starts_with('2') || !connects {
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 7\r\n\r\nproxied");
        stream.write_all(answer.as_bytes()).await.unwrap();
        return;
    }
    let port: u16 = port.unwrap();
    let mut onward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    let _ = copy_bidirectional(&mut stream, &mut onward).await;
}

fn through(proxy: SocketAddr, ca_file: Option<PathBuf>) -> ClientConfig {
    let url = format!("http://user:pass@{proxy}");
    let proxy = ProxySettings::from_values(Some(&url), Some(&url), None, None);
    ClientConfig { proxy, ca_file, ..ClientConfig::default() }
}

const CREDENTIALS: &str = "proxy-authorization: basic dxnlcjpwyxnz\r\n";

#[test]
fn a_proxy_is_asked_for_a_tunnel_to_what_is_encrypted_and_handed_whole_urls_of_what_is_not() {
    let signed = signed("proxy", "localhost", false);
    on_local_runtime(async {
        let encrypted = serve(Some(signed.tls)).await;
        let (address, heads) = proxy("200").await;
        for http in [HttpVersion::Http1, HttpVersion::Http2] {
            let config = ClientConfig { http, ..through(address, Some(signed.ca_file.clone())) };
            let url = format!("https://localhost:{}", encrypted.port());
            let (ended, received) = ask(&client(&config, &url), Bytes::from_static(b"{}")).await;
            assert_eq!(ended.outcome, Ok(()));
            assert!(received.text.ends_with(" /v1/x 2"), "{}", received.text);
            let head = heads.borrow_mut().pop().unwrap();
            assert!(head.starts_with(&format!("CONNECT localhost:{} HTTP/1.1\r\n", encrypted.port())), "{head}");
            assert!(head.to_lowercase().contains(CREDENTIALS), "{head}");
        }
        let client = client(&through(address, None), "http://model.test:81/v1");
        let (ended, received) = ask(&client, Bytes::new()).await;
        assert_eq!((ended.outcome, received.text.as_str()), (Ok(()), "proxied"));
        let head = heads.borrow_mut().pop().unwrap();
        assert!(head.starts_with("POST http://model.test:81/v1/x HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains(CREDENTIALS), "{head}");
    });
}

#[test]
fn a_proxy_that_refuses_fails_the_exchange_and_no_password_is_shown() {
    on_local_runtime(async {
        let (address, _heads) = proxy("407").await;
        for url in ["http://model.test/v1", "https://model.test/v1"] {
            let (kind, detail) = failure(&through(address, None), url).await;
            assert_eq!(kind, FailureKind::Proxy, "{detail}");
            assert!(!detail.contains("pass@") && !detail.contains("dXNlcjpwYXNz"), "{detail}");
        }
        let shown = format!("{:?}", through(address, None));
        assert!(!shown.contains("pass") && !shown.contains("dXNlcjpwYXNz"), "{shown}");
    });
}

#[test]
fn what_no_proxy_can_do_is_refused_before_anything_is_sent() {
    let proxy = SocketAddr::from(([127, 0, 0, 1], 9));
    let config = ClientConfig { http: HttpVersion::Http2, ..through(proxy, None) };
    let route = Route::resolve_blocking(&Target::parse("http://model.test").unwrap(), &config, Clock::monotonic());
    assert!(matches!(Client::new(config, route.unwrap(), Clock::monotonic()), Err(NetError::ProxiedHttp2)));
    let settings = ProxySettings::from_values(Some("socks4://user:pass@127.0.0.1:9"), None, None, None);
    let config = ClientConfig { proxy: settings, ..ClientConfig::default() };
    let route = Route::resolve_blocking(&Target::parse("http://model.test").unwrap(), &config, Clock::monotonic());
    let message = route.unwrap_err().to_string();
    assert!(message.contains("HTTP_PROXY: `socks4://`") && message.contains("socks5h://"), "{message}");
    assert!(!message.contains("pass"), "{message}");
}

/// For the server's side of TLS with a proxy.
fn acceptor(signed: &Signed) -> TlsAcceptor {
    let [chain, key] = &signed.pem;
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    TlsAcceptor::from(Arc::new(versions.with_no_client_auth().with_single_cert(chain, key).unwrap()))
}

/// As [`proxy`], over TLS.
async fn encrypted_proxy(signed: &Signed) -> (SocketAddr, Seen) {
    let acceptor = acceptor(signed);
    accepting(async move |stream, heads| {
        // Who does not trust it leaves.
        let Ok(stream) = acceptor.accept(stream).await else { return };
        carry_through(stream, heads, "200").await;
    })
    .await
}

fn all_through(url: &str, config: ClientConfig) -> ClientConfig {
    ClientConfig { proxy: ProxySettings::from_values(None, None, Some(url), None), ..config }
}

#[test]
fn a_proxy_over_tls_carries_tls_within_and_is_handed_what_is_not_encrypted() {
    let signed = own("proxy-tls", "localhost", (2020, 4000));
    on_local_runtime(async {
        let encrypted = serve(Some(signed.tls.clone())).await;
        let (address, heads) = encrypted_proxy(&signed).await;
        let place = format!("localhost:{}", address.port());
        let url = format!("https://user:pass@{place}");
        for http in [HttpVersion::Http1, HttpVersion::Http2] {
            let config = ClientConfig { http, ca_file: Some(signed.ca_file.clone()), ..ClientConfig::default() };
            let client = client(&all_through(&url, config), &format!("https://localhost:{}", encrypted.port()));
            for is_kept in [false, true] {
                let (ended, received) = ask(&client, Bytes::from(vec![b'x'; 300_000])).await;
                assert_eq!((ended.outcome, ended.connection.new), (Ok(()), !is_kept));
                assert!(received.text.ends_with(" /v1/x 300000"), "{}", received.text);
                assert_eq!(ended.connection.tls > Span::ZERO, !is_kept, "that with the endpoint");
            }
            assert!(heads.borrow_mut().pop().unwrap().starts_with("CONNECT localhost:"));
            assert!(heads.borrow().is_empty(), "one connection");
        }
        let config = ClientConfig { ca_file: Some(signed.ca_file.clone()), ..ClientConfig::default() };
        let (ended, received) = ask(&client(&all_through(&url, config), "http://model.test:81/v1"), Bytes::new()).await;
        assert_eq!((ended.outcome, received.text.as_str()), (Ok(()), "proxied"));
        let head = heads.borrow_mut().pop().unwrap().to_lowercase();
        assert!(
            head.starts_with("post http://model.test:81/v1/x http/1.1\r\n") && head.contains(CREDENTIALS),
            "{head}"
        );
        // The certificate of a proxy is looked at in any case.
        let config = ClientConfig { insecure: true, ..ClientConfig::default() };
        let (kind, detail) = failure(&all_through(&url, config), "https://model.test").await;
        assert_eq!(kind, FailureKind::Proxy);
        assert!(detail.contains(&format!("TLS with the proxy {place}")) && detail.contains("certificate"), "{detail}");
        assert!(heads.borrow().is_empty());
    });
}

/// A proxy of SOCKS5 that wants this login, if any, and answers with this code; it goes on to the port asked for on loopback.
async fn socks(login: Option<&'static [u8]>, code: u8) -> (SocketAddr, Seen) {
    accepting(async move |mut stream, seen| {
        // A client that is refused leaves at any point.
        let _ = serve_socks(&mut stream, &seen, login, code).await;
    })
    .await
}

async fn serve_socks(stream: &mut TcpStream, seen: &Seen, login: Option<&[u8]>, code: u8) -> std::io::Result<()> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    let mut methods = vec![0; usize::from(head[1])];
    stream.read_exact(&mut methods).await?;
    match login {
        None => stream.write_all(&[5, 0]).await?,
        Some(_) if !methods.contains(&2) => return stream.write_all(&[5, 0xff]).await,
        Some(login) => {
            stream.write_all(&[5, 2]).await?;
            let mut received = vec![0; login.len()];
            stream.read_exact(&mut received).await?;
            stream.write_all(&[1, u8::from(received != login)]).await?;
        }
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let length = match request[3] {
        1 => 4,
        4 => 16,
        _ => usize::from(stream.read_u8().await?),
    };
    let mut host = vec![0; length];
    stream.read_exact(&mut host).await?;
    let port = stream.read_u16().await?;
    let text = if request[3] == 3 { String::from_utf8_lossy(&host).into_owned() } else { format!("{host:?}") };
    seen.borrow_mut().push(format!("{text} {port}"));
    stream.write_all(&[5, code, 0, 1, 127, 0, 0, 1, 0, 9]).await?;
    if code == 0 {
        let mut onward = TcpStream::connect(("127.0.0.1", port)).await?;
        copy_bidirectional(stream, &mut onward).await?;
    }
    Ok(())
}

#[test]
fn a_socks_proxy_is_told_names_or_addresses_and_carries_every_version_plain_and_encrypted() {
    let signed = signed("socks", "localhost", false);
    on_local_runtime(async {
        let (plain, encrypted) = (serve(None).await, serve(Some(signed.tls.clone())).await);
        for login in [None, Some(&b"\x01\x04user\x04pa@s"[..])] {
            let (proxy, seen) = socks(login, 0).await;
            let who = if login.is_some() { "user:pa%40s@" } else { "" };
            let urls =
                [format!("http://127.0.0.1:{}", plain.port()), format!("https://localhost:{}", encrypted.port())];
            for (http, url) in [HttpVersion::Http1, HttpVersion::Http2]
                .into_iter()
                .flat_map(|http| urls.each_ref().map(|url| (http, url)))
            {
                let config = ClientConfig { http, ca_file: Some(signed.ca_file.clone()), ..ClientConfig::default() };
                let client = client(&all_through(&format!("socks5h://{who}{proxy}"), config), url);
                for is_kept in [false, true] {
                    let (ended, received) = ask(&client, Bytes::from_static(b"{}")).await;
                    assert_eq!((ended.outcome, ended.connection.new), (Ok(()), !is_kept), "{url}");
                    assert!(received.text.ends_with(" /v1/x 2"), "{}", received.text);
                }
                let to = if url.starts_with("https") {
                    format!("localhost {}", encrypted.port())
                } else {
                    format!("[127, 0, 0, 1] {}", plain.port())
                };
                assert_eq!(seen.borrow_mut().drain(..).collect::<Vec<_>>(), [to]);
            }
            // Looked up here: the proxy hears no name.
            let client = client(
                &all_through(&format!("socks5://{who}{proxy}"), ClientConfig::default()),
                &format!("http://localhost:{}", plain.port()),
            );
            assert_eq!(ask(&client, Bytes::new()).await.0.outcome, Ok(()));
            assert!(seen.borrow_mut().drain(..).all(|asked| asked.starts_with('[')));
        }
    });
}

#[test]
fn a_socks_proxy_that_does_not_let_through_says_why_and_no_password_is_shown() {
    on_local_runtime(async {
        for (login, who, code, expected) in [
            (None, "", 5, "did not reach model.test:80: the connection was refused there"),
            (None, "", 2, "opened no tunnel to model.test:80: its rules do not allow it"),
            (Some(&b"\x01\x04user\x05other"[..]), "user:sesam@", 0, "rejects the user and the password"),
            (Some(&b"\x01\x04user\x05other"[..]), "", 0, "asks for a user and a password"),
        ] {
            let (proxy, _seen) = socks(login, code).await;
            let config = all_through(&format!("socks5h://{who}{proxy}"), ClientConfig::default());
            let (kind, detail) = failure(&config, "http://model.test").await;
            assert_eq!(kind, FailureKind::Proxy, "{detail}");
            assert!(detail.contains(expected) && detail.contains(&proxy.to_string()), "{detail}");
            assert!(!detail.contains("sesam") && !format!("{config:?}").contains("sesam"), "{detail}");
        }
    });
}
