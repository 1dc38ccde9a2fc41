//! Each kind of receiver against one of its form on loopback: HTTP servers, a mail server with STARTTLS and a login, a command.

use http::HeaderMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Channel, channel};
use tokrate_alert::{Member, Message, MessageKind};
use tokrate_net::{ClientConfig, Clock};
use tokrate_notify::{Context, HttpReceiver, MailReceiver, MailServer, Receiver, To};

fn message(kind: MessageKind) -> Message {
    let member = |endpoint: &str, recovered_ms: Option<u64>| Member {
        endpoint: endpoint.to_owned(),
        workload: "1k".to_owned(),
        places: vec!["fra".to_owned()],
        since_ms: 1_764_000_000_000,
        recovered_ms,
        text: "output speed -22 % (-30 to -14 %)".to_owned(),
    };
    Message {
        id: "here-1764000000000-1-2".to_owned(),
        incident: "here-1764000000000-1".to_owned(),
        kind,
        rule: "slow".to_owned(),
        provider: "groq".to_owned(),
        opened_ms: 1_764_000_000_000,
        at_ms: 1_764_000_300_000,
        members: vec![member("groq/llama", None), member("groq/qwen", Some(1_764_000_200_000))],
        receivers: vec!["ops".to_owned()],
    }
}

fn send_with(to: To, message: &Message, context: &Context) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let receiver = Receiver { name: "ops".to_owned(), to };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, receiver.send(message, context, Clock::monotonic()))
}

fn send(to: To) -> Result<(), String> {
    send_with(to, &message(MessageKind::Changed), &Context { board: None, hold_ms: 3_600_000 })
}

/// What a server was sent: the request's line, its headers in lower case, its body.
struct Sent {
    line: String,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A server that answers one request with this.
fn server(answer: &'static str) -> (SocketAddr, Channel<Sent>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
        let mut line = String::new();
        reader.read_line(&mut line).expect("a request");
        let mut headers = BTreeMap::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).expect("a header");
            let Some((name, value)) = header.trim().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|text| text.parse().ok()).expect("a length");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        sender.send(Sent { line, headers, body: String::from_utf8(body).expect("text") }).expect("somebody waits");
        (&stream).write_all(answer.as_bytes()).expect("a client that reads");
    });
    (address, receiver)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn http(url: &str, key: Option<&str>) -> Box<HttpReceiver> {
    Box::new(HttpReceiver::new(url, HeaderMap::new(), key, ClientConfig::default()).expect("a URL"))
}

#[test]
fn a_webhook_is_signed_as_standard_webhooks_has_it() {
    let (address, sent) = server(OK);
    let url = format!("http://{address}/hook?team=a");
    send(To::Webhook(http(&url, Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")))).expect("accepted");
    let sent = sent.recv().expect("a request");
    assert_eq!(sent.line.trim(), "POST /hook?team=a HTTP/1.1");
    assert_eq!(sent.headers["content-type"], "application/json");
    assert_eq!(sent.headers["webhook-id"], "here-1764000000000-1-2");
    let body: Value = serde_json::from_str(&sent.body).expect("JSON");
    assert_eq!((body["id"].as_str(), body["version"].as_u64()), (Some("here-1764000000000-1-2"), Some(1)));
    // Worked out anew, from what the standard says.
    use aws_lc_rs::hmac;
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD;
    let key = base64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("base64");
    let signed = format!("{}.{}.{}", sent.headers["webhook-id"], sent.headers["webhook-timestamp"], sent.body);
    let signature = sent.headers["webhook-signature"].strip_prefix("v1,").expect("the first version").to_owned();
    let signature = base64.decode(signature).expect("base64");
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &key), signed.as_bytes(), &signature).expect("signed");
}

#[test]
fn slack_gets_its_form_and_its_url_is_in_no_error() {
    let (address, sent) = server(OK);
    send(To::Slack(http(&format!("http://{address}/services/T0/B0/XYZSECRET"), None))).expect("accepted");
    let sent = sent.recv().expect("a request");
    assert_eq!(sent.line.trim(), "POST /services/T0/B0/XYZSECRET HTTP/1.1");
    let body: Value = serde_json::from_str(&sent.body).expect("JSON");
    assert!(body["text"].as_str().expect("a text").starts_with("*groq: slow, changed"), "{body}");
    // A server that repeats the path, one that sends elsewhere, and one that is not there.
    let (address, _sent) =
        server("HTTP/1.1 404 Not Found\r\ncontent-length: 38\r\n\r\nno \u{1b}[2J/services/T0/B0/XYZSECRET here..");
    let to = To::Slack(http(&format!("http://{address}/services/T0/B0/XYZSECRET"), None));
    let shown = Receiver { name: String::new(), to: to.clone() }.to_string();
    let error = send(to).expect_err("refused");
    assert!(error.contains("HTTP 404") && !error.contains("SECRET") && !error.contains('\u{1b}'), "{error}");
    assert_eq!(shown, format!("Slack webhook at http://{address}/***"));
    let (address, _sent) = server("HTTP/1.1 302 Found\r\nlocation: http://x.invalid/\r\ncontent-length: 0\r\n\r\n");
    let error = send(To::Slack(http(&format!("http://{address}/XYZSECRET"), None))).expect_err("refused");
    assert!(error.contains("redirects are not followed"), "{error}");
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("bound");
    let error = send(To::Slack(http(&format!("http://{closed}/XYZSECRET"), None))).expect_err("nobody there");
    assert!(error.contains(&closed.to_string()) && !error.contains("SECRET"), "{error}");
}

#[test]
fn urls_that_are_none_are_refused_without_being_shown() {
    for url in ["", "SECRET", "ftp://h/SECRET", "http://user:SECRET@h/", "http://", "http://h:99999/SECRET"] {
        let error = HttpReceiver::new(url, HeaderMap::new(), None, ClientConfig::default()).expect_err("refused");
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }
    let bad_key = HttpReceiver::new("http://h/", HeaderMap::new(), Some("whsec_?"), ClientConfig::default());
    assert!(bad_key.expect_err("no base64").to_string().contains("whsec_"));
}

/// What `postableAlerts` of Alertmanager's OpenAPI document (api/v2/openapi.yaml) demands.
fn check_alerts(body: &Value) {
    let alerts = body.as_array().expect("an array");
    assert!(!alerts.is_empty());
    for alert in alerts {
        let known = ["labels", "annotations", "startsAt", "endsAt", "generatorURL"];
        assert!(alert.as_object().expect("an object").keys().all(|key| known.contains(&key.as_str())), "{alert}");
        for set in ["labels", "annotations"] {
            for (name, value) in alert[set].as_object().expect("a set of labels") {
                let is_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
                assert!(name.chars().all(is_name) && !name.starts_with(|sign: char| sign.is_ascii_digit()), "{name}");
                assert!(value.is_string(), "{value}");
            }
        }
        assert!(alert["labels"]["alertname"].as_str().is_some_and(|name| !name.is_empty()));
        let time = |key: &str| {
            let text = alert[key].as_str().expect("a time");
            assert!(tokrate_core::parse_rfc3339(text).is_some(), "{text}");
            text.to_owned()
        };
        assert!(time("startsAt") <= time("endsAt"));
        assert!(alert.get("generatorURL").is_none_or(|url| url.as_str().is_some_and(|url| url.starts_with("http"))));
    }
}

#[test]
fn alertmanager_gets_alerts_that_its_api_takes() {
    for board in [None, Some("https://board.example/".to_owned())] {
        let (address, sent) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        let context = Context { board, hold_ms: 3_600_000 };
        let to = To::Alertmanager(http(&format!("http://{address}/am/"), None));
        send_with(to, &message(MessageKind::Changed), &context).expect("accepted");
        let sent = sent.recv().expect("a request");
        assert_eq!(sent.line.trim(), "POST /am/api/v2/alerts HTTP/1.1");
        let body: Value = serde_json::from_str(&sent.body).expect("JSON");
        check_alerts(&body);
        assert_eq!(body[0]["endsAt"], "2025-11-24T17:05:00Z", "held for an hour after the message");
        assert_eq!(body[1]["endsAt"], "2025-11-24T16:03:20Z", "recovered");
    }
}

#[test]
fn a_command_gets_json_and_environment_and_its_exit_code_counts() {
    let file = std::env::temp_dir().join(format!("tokrate-notify-{}", std::process::id()));
    let script = "cat > \"$0\"; printf '%s' \"$TOKRATE_ALERT_KIND\" >> \"$0\"";
    let words = ["sh", "-c", script, file.to_str().expect("text")].map(str::to_owned).to_vec();
    send(To::Command(words)).expect("accepted");
    let written = std::fs::read_to_string(&file).expect("it wrote");
    std::fs::remove_file(&file).expect("there");
    let (json, kind) = written.split_once('\n').expect("two lines");
    let json: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!((json["kind"].as_str(), kind), (Some("changed"), "changed"));
    let refused =
        |words: &[&str]| send(To::Command(words.iter().map(|word| (*word).to_owned()).collect())).expect_err("refused");
    assert_eq!(refused(&["false"]), "false ended with exit status: 1");
    assert!(refused(&["/no/such/program"]).starts_with("start /no/such/program: "));
}

/// A stream of a mail server's, plain or within TLS.
trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

fn line(stream: &mut dyn Duplex) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    // A client that has gone has said all that it had to say.
    while stream.read(&mut byte).is_ok_and(|read| read == 1) && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("text").trim_end().to_owned()
}

/// Serves one mail; `lines` gets what the client says, the data as one.
fn serve_mail(stream: &mut dyn Duplex, greeting: bool, starttls: bool, refuse: bool, lines: &mut Vec<String>) -> bool {
    let say = |stream: &mut dyn Duplex, text: &str| stream.write_all(text.as_bytes()).expect("a client");
    if greeting {
        say(stream, "220 mail.test ESMTP\r\n");
    }
    loop {
        let said = line(stream);
        lines.push(said.clone());
        match said.split(' ').next().unwrap_or_default() {
            "EHLO" if starttls => say(stream, "250-mail.test\r\n250 STARTTLS\r\n"),
            "EHLO" => say(stream, "250-mail.test\r\n250 AUTH PLAIN\r\n"),
            "STARTTLS" => {
                say(stream, "220 go\r\n");
                return true;
            }
            "AUTH" if refuse => say(stream, "535 no such user\r\n"),
            "AUTH" => say(stream, "235 welcome\r\n"),
            "DATA" => {
                say(stream, "354 go\r\n");
                let mut data = String::new();
                loop {
                    let next = line(stream);
                    if next == "." {
                        break;
                    }
                    data.push_str(&next);
                    data.push('\n');
                }
                lines.push(data);
                say(stream, "250 kept\r\n");
            }
            "QUIT" | "" => {
                // Whoever has quit need not wait for this.
                let _ = stream.write_all(b"221 bye\r\n");
                return false;
            }
            _ => say(stream, "250 ok\r\n"),
        }
    }
}

#[test]
fn an_email_is_sent_over_starttls_with_a_login() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let authority = made.cert.pem().into_bytes();
    for refuse in [false, true] {
        let chain = vec![made.cert.der().clone()];
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut plain = Vec::new();
            assert!(serve_mail(&mut stream, true, true, refuse, &mut plain), "it wants TLS");
            let connection = rustls::ServerConnection::new(Arc::new(config)).expect("TLS");
            let mut secure = rustls::StreamOwned::new(connection, stream);
            let mut inside = Vec::new();
            serve_mail(&mut secure, false, false, refuse, &mut inside);
            sender.send((plain, inside)).expect("somebody waits");
        });
        let server = MailServer {
            url: format!("smtp://localhost:{port}"),
            login: Some(("me".to_owned(), "pass-SECRET".to_owned())),
            authority: Some(authority.clone()),
        };
        let to = ["Ops <ops@b.example>".to_owned(), "second@b.example".to_owned()];
        let mail = MailReceiver::new(&server, "tokrate <alerts@a.example>", &to).expect("addresses");
        let shown = mail.to_string();
        assert_eq!(shown, format!("e-mail to ops@b.example, second@b.example by smtp://localhost:{port}"));
        let result = send(To::Mail(Box::new(mail)));
        let (plain, inside) = lines.recv().expect("a client");
        assert!(!plain.iter().any(|line| line.starts_with("AUTH") || line.starts_with("MAIL")), "{plain:?}");
        if refuse {
            let error = result.expect_err("a wrong login");
            assert!(error.contains("535") && !error.contains("SECRET"), "{error}");
            continue;
        }
        result.expect("accepted");
        // base64 of NUL me NUL pass-SECRET.
        assert!(inside.iter().any(|line| line == "AUTH PLAIN AG1lAHBhc3MtU0VDUkVU"), "{inside:?}");
        assert!(inside.contains(&"MAIL FROM:<alerts@a.example>".to_owned()), "{inside:?}");
        assert_eq!(inside.iter().filter(|line| line.starts_with("RCPT TO:")).count(), 2);
        let data = inside.iter().find(|line| line.contains("Subject:")).expect("an e-mail");
        for header in [
            "From: tokrate <alerts@a.example>\n",
            "To: Ops <ops@b.example>, second@b.example\n",
            "Subject: [tokrate] groq: slow, changed (1 series bad now)\n",
            "Message-ID: <here-1764000000000-1-2@a.example>\n",
            "In-Reply-To: <here-1764000000000-1-1@a.example>\n",
        ] {
            assert!(data.contains(header), "{header:?} in {data}");
        }
        assert!(data.contains("- groq/llama, 1k from fra: output speed -22 %"), "{data}");
    }
}

#[test]
fn a_mail_server_without_tls_is_used_on_loopback_only() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut said = Vec::new();
        serve_mail(&mut stream, true, false, false, &mut said);
        sender.send(said).expect("somebody waits");
    });
    let server = |url: &str| MailServer { url: url.to_owned(), login: None, authority: None };
    let mail = |url: &str| MailReceiver::new(&server(url), "a@a.example", &["b@b.example".to_owned()]);
    send(To::Mail(Box::new(mail(&format!("smtp://{address}")).expect("addresses")))).expect("accepted");
    assert!(lines.recv().expect("a client").iter().any(|line| line.contains("Subject:")));
    // Elsewhere it is STARTTLS or nothing: a server that has none gets no mail.
    for url in ["http://h", "smtp://", "smtp://u:SECRET@h", "smtps://h/SECRET", "mail"] {
        assert!(!mail(url).expect_err("refused").to_string().contains("SECRET"), "{url}");
    }
    let to = ["not an address".to_owned()];
    assert!(MailReceiver::new(&server("smtps://h"), "a@a.example", &to).is_err());
    assert!(MailReceiver::new(&server("smtps://h"), "a@a.example", &[]).is_err());
}
