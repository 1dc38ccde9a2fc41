//! Unix sockets instead of addresses.

use crate::{ask, client, failure, on_local_runtime, serve, signed};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener};
use tokio::task::spawn_local;
use tokrate_core::{FailureKind, Span};
use tokrate_net::{ClientConfig, Clock, HttpVersion, ProxySettings, Route, Target};

/// A path for a socket: those have at most a hundred bytes.
fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tokrate-net-{name}-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Forwards what comes to a socket on to a port of loopback.
fn hand_on(path: &Path, port: u16) {
    let listener = UnixListener::bind(path).unwrap();
    spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut onward = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            spawn_local(async move { copy_bidirectional(&mut stream, &mut onward).await });
        }
    });
}

fn at(path: &Path) -> ClientConfig {
    ClientConfig { unix_socket: Some(path.to_owned()), ..ClientConfig::default() }
}

#[test]
fn a_unix_socket_carries_every_version_plain_and_encrypted_and_no_name_is_looked_up() {
    let signed = signed("unix", "model.test", false);
    on_local_runtime(async {
        for (tls, scheme) in [(None, "http"), (Some(signed.tls), "https")] {
            let path = place(scheme);
            hand_on(&path, serve(tls).await.port());
            for http in [HttpVersion::Http1, HttpVersion::Http2] {
                // Nobody listens there, and nobody is asked.
                let proxy = ProxySettings::from_values(None, None, Some("http://127.0.0.1:1"), None);
                let config = ClientConfig { http, proxy, ca_file: Some(signed.ca_file.clone()), ..at(&path) };
                let url = format!("{scheme}://model.test:81");
                assert!(!config.uses_proxy(&Target::parse(&url).unwrap()));
                let client = client(&config, &url);
                for is_kept in [false, true] {
                    let (ended, received) = ask(&client, Bytes::from(vec![b'x'; 300_000])).await;
                    assert_eq!((ended.outcome, ended.connection.new), (Ok(()), !is_kept), "{url}");
                    assert!(received.text.ends_with(" /v1/x 300000"), "{}", received.text);
                    assert_eq!(ended.connection.connect > Span::ZERO, !is_kept);
                }
            }
            std::fs::remove_file(path).unwrap();
        }
    });
}

#[test]
fn a_socket_that_cannot_be_there_is_told_before_anything_is_sent() {
    let target = Target::parse("http://localhost/v1").unwrap();
    let long = PathBuf::from(format!("/tmp/{}.sock", "x".repeat(200)));
    for (path, reason) in
        [(place("none"), "No such file"), (PathBuf::from("/dev/null"), "it is not a socket"), (long, "path")]
    {
        let error = Route::resolve_blocking(&target, &at(&path), Clock::monotonic()).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains(reason), "{error}");
        assert!(error.contains("check that the server runs and that --unix-socket"), "{error}");
    }
}

#[test]
fn a_socket_that_nobody_listens_at_fails_as_a_port_does() {
    on_local_runtime(async {
        let path = place("left");
        drop(UnixListener::bind(&path).unwrap());
        let (kind, detail) = failure(&at(&path), "http://localhost/v1").await;
        assert_eq!(kind, FailureKind::Connect);
        assert!(detail.contains(&format!("Unix socket {}", path.display())) && detail.contains("refused"), "{detail}");
        std::fs::remove_file(path).unwrap();
    });
}
