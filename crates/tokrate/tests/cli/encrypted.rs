//! An endpoint behind TLS: measured with a certificate that is trusted, named when it is not.
//!
//! Invariant: the certificate is made for the test and lives as long as it.

use crate::scripted::{Server, UNTIL_CLOSED, answer, stream};
use crate::tool::{Bench, bench, folded, number, run};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

/// A server behind TLS, with the file of the certificate to trust: one as `openssl req -x509` makes it, which says that it is an
/// authority's.
fn encrypted(name: &str) -> (Server, PathBuf) {
    let (config, file) = certified(name, "127.0.0.1");
    let server = Server::accepting(move |socket| {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        // A client that does not trust the certificate leaves.
        let _ = serve(StreamOwned::new(connection, socket));
    });
    (server, file)
}

/// A server behind TLS that says these bytes and closes its connection without ending TLS.
fn unsealed(name: &str, bytes: String) -> (Server, PathBuf) {
    let (config, file) = certified(name, "127.0.0.1");
    let server = Server::accepting(move |socket| {
        let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        let mut reader = BufReader::new(StreamOwned::new(connection, socket));
        if read_request(&mut reader).is_ok() {
            let mut socket = reader.into_inner();
            let _ = socket.write_all(bytes.as_bytes()).and_then(|()| socket.flush());
        }
    });
    (server, file)
}

/// The settings of a server of that host, with the file of the certificate to trust.
pub fn certified(name: &str, host: &str) -> (Arc<ServerConfig>, PathBuf) {
    let signing_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let cert = params.self_signed(&signing_key).expect("a certificate");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.pem", std::process::id()));
    std::fs::write(&file, cert.pem()).expect("written");
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key))
        .map(Arc::new)
        .expect("the key fits the certificate");
    (config, file)
}

/// Answers one request.
fn serve(socket: StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<()> {
    let mut reader = BufReader::new(socket);
    read_request(&mut reader)?;
    let mut socket = reader.into_inner();
    socket.write_all(answer("200 OK", "text/event-stream", &stream(3).concat()).as_bytes())?;
    socket.conn.send_close_notify();
    socket.flush()
}

/// Reads a request to its end.
pub fn read_request(reader: &mut impl BufRead) -> std::io::Result<()> {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let before = head.len();
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
        let line = head[before..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    reader.read_exact(&mut vec![0; length])
}

fn measured(name: &str, server: &Server, further: &[&str]) -> Bench {
    bench(name, &server.url().replace("http://", "https://"), 2, 4, further)
}

#[test]
fn an_encrypted_endpoint_is_measured_with_its_handshake_apart() {
    let (server, file) = encrypted("trusted");
    let bench = measured("trusted", &server, &["--ca-file", file.to_str().expect("UTF-8")]);
    bench.expect(0, &[]);
    assert!(bench.record.conditions.tls);
    for row in &bench.rows {
        assert!(number(row, "tls_ns") > 0 && number(row, "tokens_std") == 3, "{row}");
    }
    assert!(bench.phase().connections.tls_mean_ms.is_some());
    std::fs::remove_file(file).expect("it was written");
}

/// A body that ends with its connection is judged by what it says, with TLS as without, whether TLS was ended or not.
#[test]
fn an_answer_without_an_end_mark_is_the_same_over_tls_that_was_not_ended() {
    let whole = stream(3);
    // Up to the finish reason, and up to the text before it.
    for (name, events, failures, missing) in
        [("finished", 4, &[][..], 4), ("cut", 3, &[("truncated", 4)][..], 0), ("done", 6, &[][..], 0)]
    {
        let bytes = UNTIL_CLOSED.to_owned() + &whole[..events].concat();
        let code = if failures.is_empty() { 0 } else { 2 };
        let plain = Server::saying(bytes.clone());
        let plain = bench(&format!("plain-{name}"), &plain.url(), 2, 4, &[]);
        plain.expect(code, failures);
        let (server, file) = unsealed(name, bytes);
        let bench = measured(name, &server, &["--ca-file", file.to_str().expect("UTF-8")]);
        bench.expect(code, failures);
        for bench in [&plain, &bench] {
            assert_eq!(bench.anomalies("missing_done"), missing, "{name}");
            assert!(bench.rows.iter().all(|row| number(row, "tokens_std") == 3), "{name}");
        }
        let messages: Vec<&str> = bench.rows.iter().filter_map(|row| row["failure"]["message"].as_str()).collect();
        let words = "the answer was cut off (the server closed the TLS connection without saying that this is its end, by a close_notify)";
        assert!(messages.iter().all(|message| *message == words), "{messages:?}");
        std::fs::remove_file(file).expect("it was written");
    }
}

#[test]
fn a_certificate_that_nobody_trusts_is_named() {
    let (server, file) = encrypted("untrusted");
    let bench = measured("untrusted", &server, &["--keep-going"]);
    bench.expect(2, &[("tls", 4)]);
    assert!(bench.phase().failures[0].message.is_some());
    std::fs::remove_file(file).expect("it was written");
}

#[test]
fn a_certificate_that_is_not_to_be_checked_is_not_and_the_result_says_so() {
    let (server, file) = encrypted("insecure");
    let output = "the certificate of the endpoint was not checked (--insecure)";
    let bench = measured("insecure", &server, &["--insecure"]);
    bench.expect(0, &[]);
    assert!(bench.record.warnings.iter().any(|warning| warning == output), "{:?}", bench.record.warnings);
    assert!(bench.finished.stdout.contains(output), "{}", bench.finished.stdout);
    // The file of settings can say it too, and nobody else's file can.
    let url = server.url().replace("http://", "https://");
    let line = format!("bench --url {url} --model m --requests 2 --warmup 0 --calibration off --json record.json");
    let words: Vec<&str> = line.split(' ').collect();
    bench.folder.write("tokrate.toml", "[bench]\ninsecure = true\n");
    let refused = run(&bench.folder, &words);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("bench.insecure") && folded(&refused.stderr).contains("tokrate trust"),
        "{}",
        refused.stderr
    );
    let named = run(&bench.folder, &[&words[..], &["--config", "tokrate.toml"]].concat());
    assert!(named.code == Some(0) && named.stdout.contains(output), "{named:?}");
    std::fs::remove_file(file).expect("it was written");
}

#[test]
fn not_to_check_certificates_means_nothing_in_the_clear_and_is_said() {
    let server = Server::saying(answer("200 OK", "text/event-stream", &stream(3).concat()));
    let bench = bench("insecure-clear", &server.url(), 1, 2, &["--insecure"]);
    bench.expect(0, &[]);
    let warnings = &bench.record.warnings;
    assert!(
        warnings.iter().any(|warning| warning.starts_with("--insecure means nothing for an http://")),
        "{warnings:?}"
    );
}
