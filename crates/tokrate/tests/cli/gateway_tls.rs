//! A gateway whose clients speak TLS: both sides of it, and a certificate that is renewed while it runs.

use crate::folder::Folder;
use crate::running::Running;
use crate::tool::{BOUND, finish, folded, start, tokrate};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

const ENDS: [&str; 2] = ["read the settings again: ", "kept the old settings"];

fn settings(further: &str) -> String {
    format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nlog = \"off\"\n{further}\
         [gateway.lanes.a]\nurl = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\n"
    )
}

const TLS: &str = "[gateway.tls]\ncertificate = \"chain.pem\"\nkey = \"key.pem\"\nadmin = true\n";

#[test]
fn authorities_that_cannot_be_read_are_refused_though_no_lane_is_reached_over_tls() {
    let folder = Folder::new("gateway-ca-file");
    folder.write("settings.toml", &settings("ca_file = \"nowhere.pem\"\n"));
    let refused = finish(start(&mut tokrate(&folder, &["gateway", "--config", "settings.toml", "--check"])));
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let why = "understand gateway.ca_file: read certificate authorities from nowhere.pem: No such file";
    assert!(folded(&refused.stderr).contains(why), "{}", refused.stderr);
}

/// Writes a new certificate for 127.0.0.1 and its key.
fn certify(folder: &Folder) -> CertificateDer<'static> {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    folder.write("chain.pem", &certificate.pem());
    folder.write("key.pem", &key.serialize_pem());
    certificate.der().clone()
}

/// What a path answers to a client that trusts `certificate` alone, or why it gets no answer.
fn ask(address: &str, path: &str, certificate: &CertificateDer<'static>) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(BOUND))?;
    let mut stream = StreamOwned::new(connection, socket);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The address in a line such as `serving 1 lane at https://127.0.0.1:8411/v1`.
fn address(line: &str) -> String {
    let rest = line.split_once("https://").unwrap_or_else(|| panic!("no https in {line:?}")).1;
    rest.split('/').next().expect("an address").to_owned()
}

#[cfg(unix)]
#[test]
fn clients_speak_tls_and_a_renewed_certificate_is_shown_without_a_new_start() {
    let folder = Folder::new("gateway-tls");
    let first = certify(&folder);
    folder.write("g.toml", &settings(TLS));
    let gateway = Running::start(tokrate(&folder, &["gateway", "--config", "g.toml"]));
    let clients = address(&gateway.line_with(&["serving 1 lane at"]));
    let admin = address(&gateway.line_with(&["page: "]));
    assert!(ask(&clients, "/v1/models", &first).expect("it is trusted").starts_with("HTTP/1.1 200"));
    assert!(ask(&admin, "/metrics", &first).expect("it is trusted").starts_with("HTTP/1.1 200"));
    // Plain HTTP gets no answer, and what comes after it does.
    let mut plain = TcpStream::connect(&clients).expect("it listens");
    plain.write_all(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("taken");
    let mut answer = Vec::new();
    plain.set_read_timeout(Some(BOUND)).expect("a bound");
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));

    let second = certify(&folder);
    assert!(ask(&clients, "/v1/models", &second).is_err(), "nobody has said that it was renewed");
    gateway.signal("-HUP");
    assert!(gateway.line_with(&ENDS).contains("read the settings again"));
    assert!(ask(&clients, "/v1/models", &second).expect("it is shown").starts_with("HTTP/1.1 200"));
    assert!(ask(&admin, "/metrics", &second).expect("there too").starts_with("HTTP/1.1 200"));
    assert!(ask(&clients, "/v1/models", &first).is_err(), "the old one is gone");

    // A renewal that was half written changes nothing.
    folder.write("key.pem", "-----BEGIN PRIVATE KEY-----\n");
    gateway.signal("-HUP");
    let kept = gateway.line_with(&ENDS);
    assert!(kept.contains("kept the old settings") && kept.contains("chain.pem with key.pem"), "{kept}");
    folder.write("g.toml", &settings(""));
    gateway.signal("-HUP");
    assert!(gateway.line_with(&ENDS).contains("failed to begin or end TLS while it runs"));
    assert!(ask(&clients, "/v1/models", &second).expect("it is still served").starts_with("HTTP/1.1 200"));
}

#[test]
fn certificates_that_cannot_be_used_are_told_at_the_start_and_no_key_is_shown() {
    let folder = Folder::new("gateway-tls-refused");
    certify(&folder);
    let key = folder.read("key.pem");
    certify(&folder);
    folder.write("other.pem", &key);
    folder.write("empty.pem", "");
    let with =
        |certificate: &str, key: &str| format!("[gateway.tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n");
    for (certificate, key, expected) in [
        ("chain.pem", "other.pem", "keys may not be consistent"),
        ("none.pem", "key.pem", "read gateway.tls.certificate: none.pem: "),
        ("chain.pem", "none.pem", "read gateway.tls.key: none.pem: "),
        ("empty.pem", "key.pem", "none is there"),
        ("key.pem", "key.pem", "none is there"),
        ("/dev/zero", "key.pem", "has more than"),
    ] {
        folder.write("g.toml", &settings(&with(certificate, key)));
        let refused = finish(start(&mut tokrate(&folder, &["gateway", "--check", "--config", "g.toml"])));
        assert_eq!(refused.code, Some(2), "{}", refused.stdout);
        let told = refused.stderr.replace("\n  ", " ");
        assert!(told.contains(expected), "{certificate} and {key}: {told}");
        assert!(!told.contains("PRIVATE KEY"), "{told}");
    }
    folder.write("g.toml", &settings(TLS));
    let checked = finish(start(&mut tokrate(&folder, &["gateway", "--check", "--config", "g.toml"])));
    assert!(checked.stdout.contains("gateway.tls.certificate"), "{}", checked.stdout);
}
