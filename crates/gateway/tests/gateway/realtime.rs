//! Sessions on WebSockets: what a lane is asked, what passes, what ends them, what the log and the limits of keys say of them.

use crate::client::{read_answer, read_until};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{RecordedRequest, Script, Scripted, read_request, whole};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokrate_core::{FailureKind, Money, Price, Span};
use tokrate_gateway::{Config, KeyConfig, KeyLimits, Mode, ServicesConfig, key_hash};
use tokrate_record::{Attempt, AttemptEnd, CostBasis};
use tokrate_wire::Dialect;
use tokrate_wire::websocket::{FrameKind, FrameReader, Message, close_frame, websocket_accept, write_frame};

const NONCE: &str = "dGhlIHNhbXBsZSBub25jZQ==";
pub const MASK: Option<[u8; 4]> = Some([9, 8, 7, 6]);
const DIALECTS: &[Dialect] = &[Dialect::OpenAiChat];
/// Only a fault of the test or the gateway makes anything wait this long.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A lane that opens every WebSocket that it is asked for, and then does as told.
pub struct SessionLane {
    pub address: SocketAddr,
    requests: Receiver<RecordedRequest>,
}

impl SessionLane {
    pub fn start(then: impl Fn(TcpStream) + Send + Sync + 'static) -> SessionLane {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (asked, requests) = channel();
        let then = Arc::new(then);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (asked, then) = (asked.clone(), Arc::clone(&then));
                std::thread::spawn(move || {
                    let Some(request) = read_request(&mut stream, &mut Vec::new()) else { return };
                    let accept = websocket_accept(header(&request.head, "sec-websocket-key").unwrap_or_default());
                    let protocol = header(&request.head, "sec-websocket-protocol").map_or(String::new(), |offered| {
                        format!("Sec-WebSocket-Protocol: {}\r\n", offered.split(',').next().unwrap_or_default())
                    });
                    let head = format!(
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nx-request-id: req-1\r\n\
                         Sec-WebSocket-Accept: {accept}\r\n{protocol}\r\n"
                    );
                    let _ = stream.set_nodelay(true);
                    let _ = asked.send(request);
                    if stream.write_all(head.as_bytes()).is_ok() {
                        then(stream);
                    }
                });
            }
        });
        SessionLane { address, requests }
    }

    pub fn asked(&self) -> RecordedRequest {
        self.requests.recv_timeout(TIMEOUT).expect("it was asked")
    }
}

pub fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

pub fn opening(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: {NONCE}\r\nsec-websocket-extensions: permessage-deflate\r\n{more}\r\n"
    )
}

/// A client's connection with the head of its answer.
fn open(gateway: &TestGateway, more: &str) -> (TcpStream, String) {
    open_at(gateway.address, more)
}

/// The same at the gateway of that address.
fn open_at(gateway: SocketAddr, more: &str) -> (TcpStream, String) {
    open_path(gateway, "/v1/realtime?model=all&intent=x", more)
}

/// The same at a path.
pub fn open_path(gateway: SocketAddr, path: &str, more: &str) -> (TcpStream, String) {
    let mut client = TcpStream::connect(gateway).expect("it listens");
    client.set_read_timeout(Some(TIMEOUT)).expect("a socket");
    client.write_all(opening(path, more).as_bytes()).expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(client.read(&mut byte).expect("an answer"), 1, "{}", String::from_utf8_lossy(&head));
        head.push(byte[0]);
    }
    (client, String::from_utf8(head).expect("text"))
}

pub fn text(json: &str, mask: Option<[u8; 4]>) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(FrameKind::Text, json.as_bytes(), mask, &mut frame);
    frame
}

fn done(tokens: u64) -> String {
    format!(
        r#"{{"type":"response.done","response":{{"status":"completed","usage":{{"input_tokens":{tokens},"output_tokens":10,"input_token_details":{{"text_tokens":{tokens}}}}}}}}}"#
    )
}

/// What asks for a turn in a session of Gemini's.
pub const TURN: &str = r#"{"clientContent":{"turns":[{"role":"user","parts":[{"text":"hi"}]}],"turnComplete":true}}"#;

/// The end of such a turn.
pub fn turn_done(tokens: u64) -> String {
    format!(
        r#"{{"serverContent":{{"turnComplete":true}},"usageMetadata":{{"promptTokenCount":{tokens},"responseTokenCount":10}}}}"#
    )
}

/// A lane that answers each `response.create`, and each turn of Gemini's, with a piece and an end, and a close with a close.
pub fn answering(tokens: u64) -> SessionLane {
    SessionLane::start(move |mut stream| {
        let _ = stream.write_all(&text(r#"{"type":"session.created","session":{"model":"rt"}}"#, None));
        let (mut reader, mut piece) = (FrameReader::new(1 << 20), [0; 4096]);
        while let Ok(count) = stream.read(&mut piece) {
            let (mut out, mut ends) = (Vec::new(), count == 0);
            reader.push(&piece[..count], |message| match message {
                Message::Text(json) if json.windows(15).any(|part| part == b"response.create") => {
                    for json in
                        [r#"{"type":"response.created"}"#, r#"{"type":"response.output_text.delta","delta":"hi"}"#]
                    {
                        out.extend(text(json, None));
                    }
                    out.extend(text(&done(tokens), None));
                }
                Message::Text(json) if json.windows(14).any(|part| part == b"\"turnComplete\"") => {
                    let piece = r#"{"serverContent":{"modelTurn":{"parts":[{"text":"hi"}]}}}"#;
                    for json in [piece, &turn_done(tokens)] {
                        write_frame(FrameKind::Binary, json.as_bytes(), None, &mut out);
                    }
                }
                Message::Close(code) => {
                    out.extend(close_frame(code.unwrap_or(1005), "", None));
                    ends = true;
                }
                _ => {}
            });
            if stream.write_all(&out).is_err() || ends {
                return;
            }
        }
    })
}

/// Reads to the end; gives the messages.
pub fn messages(client: &mut TcpStream) -> Vec<String> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).expect("it closes");
    let mut messages = Vec::new();
    FrameReader::new(1 << 20).push(&bytes, |message| match message {
        Message::Text(json) => messages.push(String::from_utf8_lossy(json).into_owned()),
        Message::Binary(json) => messages.push(String::from_utf8_lossy(json).into_owned()),
        other => messages.push(format!("{other:?}")),
    });
    messages
}

pub fn key(name: &str, limits: KeyLimits) -> KeyConfig {
    KeyConfig { name: name.to_owned(), sha256: key_hash(&format!("sk-{name}")), aliases: Vec::new(), limits }
}

fn one_lane(address: SocketAddr) -> Config {
    let mut one = lane("one", address, DIALECTS);
    let mut key = http::HeaderValue::from_static("Bearer sk-of-the-lane-itself");
    key.set_sensitive(true);
    one.endpoints[0].headers.insert(http::header::AUTHORIZATION, key);
    configured(vec![one], Mode::Off)
}

const ADA: &str = "sec-websocket-protocol: realtime, openai-insecure-api-key.sk-ada, openai-beta.realtime-v1\r\n";

#[test]
fn a_session_passes_in_both_directions_and_leaves_one_row_that_says_what_it_took() {
    let lane = answering(90);
    let mut config = one_lane(lane.address);
    config.keys = vec![key("ada", KeyLimits::default())];
    let mut gateway = TestGateway::start(config);
    let (mut client, head) = open(&gateway, ADA);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert_eq!(header(&head, "sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(header(&head, "sec-websocket-protocol"), Some("realtime"));
    assert_eq!((header(&head, "upgrade"), header(&head, "connection")), (Some("websocket"), Some("upgrade")));
    assert_eq!((header(&head, "x-tokrate-winner"), header(&head, "x-request-id")), (Some("one"), Some("req-1")));
    let asked = lane.asked().head;
    assert!(asked.starts_with("GET /v1/realtime?model=model-one&intent=x HTTP/1.1\r\n"), "{asked}");
    assert_eq!(header(&asked, "authorization"), Some("Bearer sk-of-the-lane-itself"));
    assert_eq!(header(&asked, "sec-websocket-protocol"), Some("realtime, openai-beta.realtime-v1"));
    assert_eq!((header(&asked, "sec-websocket-key"), header(&asked, "sec-websocket-extensions")), (Some(NONCE), None));
    assert!(!asked.contains("sk-ada"), "{asked}");
    let sent = [text(r#"{"type":"response.create"}"#, MASK), text(r#"{"type":"response.create"}"#, MASK)].concat();
    client.write_all(&sent).expect("it reads");
    let before_close = read_until(&mut client, "response.done");
    let closing = close_frame(3001, "", MASK);
    client.write_all(&closing).expect("it reads");
    let mut all = before_close;
    client.read_to_end(&mut all).expect("it closes");
    let mut expected = text(r#"{"type":"session.created","session":{"model":"rt"}}"#, None);
    for _ in 0..2 {
        for json in
            [r#"{"type":"response.created"}"#, r#"{"type":"response.output_text.delta","delta":"hi"}"#, &done(90)]
        {
            expected.extend(text(json, None));
        }
    }
    expected.extend(close_frame(3001, "", None));
    assert_eq!(all, expected, "byte for byte, with the code of the close");
    let rows = gateway.rows();
    let [Attempt { sample, .. }] = &rows[..] else { panic!("one row: {rows:?}") };
    assert_eq!((rows[0].end, rows[0].won, rows[0].key.as_deref()), (AttemptEnd::Answered, true, Some("ada")));
    assert_eq!((sample.dialect.as_ref(), sample.status, sample.failure), ("realtime", Some(101), None));
    assert_eq!((rows[0].responses, rows[0].response_bytes), (Some(2), Some(expected.len() as u64)));
    assert_eq!(sample.request_bytes, Some((sent.len() + closing.len()) as u64));
    assert_eq!((sample.input_tokens, sample.output_tokens), (Some(180), Some(20)));
    assert_eq!((sample.cost_basis, sample.cost_usd), (CostBasis::Reported, Some(0.000_22)));
    assert!(sample.ttft_ns.is_some_and(|ttft| ttft > 0 && ttft <= sample.total_ns), "{sample:?}");
    assert_eq!(sample.model_answered.as_deref(), Some("rt"));
}

#[test]
fn what_is_no_101_comes_back_as_the_provider_said_it_and_counts_as_a_failure() {
    for (status, kind) in
        [("401 Unauthorized", FailureKind::Unauthorized), ("500 Internal Server Error", FailureKind::ServerError)]
    {
        let one = Scripted::start(vec![Script::Send(vec![whole(status, r#"{"error":{"message":"no","odd":1}}"#)])]);
        let mut gateway = TestGateway::start(one_lane(one.address));
        let mut client = TcpStream::connect(gateway.address).expect("it listens");
        client.write_all(opening("/v1/realtime?model=one", "").as_bytes()).expect("it reads");
        let answer = read_answer(&mut client);
        assert_eq!(
            (answer.status.to_string(), answer.text()),
            (status[..3].to_owned(), r#"{"error":{"message":"no","odd":1}}"#.to_owned())
        );
        assert_eq!(client.read(&mut [0; 10]).expect("it closes"), 0, "no request follows what may be frames");
        let rows = gateway.rows();
        assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(kind)), "{status}");
    }
}

#[test]
fn a_101_that_is_not_the_one_asked_for_is_none() {
    let accept = websocket_accept(NONCE);
    for more in [
        "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n".to_owned(),
        String::new(),
        format!("Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Accept: {accept}\r\n"),
        format!("Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"),
    ] {
        let head =
            format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{more}\r\n");
        let one = Scripted::start(vec![Script::SendAndStall(head.into_bytes())]);
        let mut gateway = TestGateway::start(one_lane(one.address));
        let (_, head) = open(&gateway, "");
        assert!(head.starts_with("HTTP/1.1 502 "), "{more}: {head}");
        one.closed.recv_timeout(TIMEOUT).expect("the lane is let go");
        assert_eq!(gateway.rows()[0].sample.failure, Some(FailureKind::Protocol), "{more}");
    }
}

#[test]
fn an_upgrade_that_two_servers_could_understand_differently_reaches_no_lane() {
    let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", "{}")])]);
    let gateway = TestGateway::start(one_lane(one.address));
    let sound = opening("/v1/realtime?model=all", "");
    let twice = |line: &str| sound.replace(line, &format!("{line}{line}"));
    for (request, status) in [
        (sound.replace("GET ", "POST "), 400),
        (sound.replace("HTTP/1.1", "HTTP/1.0"), 400),
        (sound.replace("upgrade: websocket\r\n", ""), 426),
        (sound.replace("connection: Upgrade\r\n", ""), 400),
        (twice("upgrade: websocket\r\n"), 400),
        (twice("sec-websocket-version: 13\r\n"), 400),
        (twice(&format!("sec-websocket-key: {NONCE}\r\n")), 400),
        (sound.replace("\r\n\r\n", "\r\ncontent-type: application/json\r\ncontent-length: 5\r\n\r\nGET /"), 400),
        (sound.replace("model=all", "model=all&model=one"), 400),
        (opening("/v1/files/file-1", ""), 400),
        (opening("/v1/models", ""), 400),
        (sound.replace("host: localhost", "host: localhost\r\norigin: https://evil.example"), 403),
    ] {
        let mut client = TcpStream::connect(gateway.address).expect("it listens");
        client.write_all(request.as_bytes()).expect("it reads");
        let answer = read_answer(&mut client);
        assert_eq!(answer.status, status, "{request}: {}", answer.text());
    }
    assert!(one.requests().is_empty());
}

#[test]
fn who_leaves_is_seen_by_the_other_side_and_who_closes_without_a_word_has_broken_off() {
    let (left, leaving) = channel();
    let lane = SessionLane::start(move |mut stream| {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        let _ = left.send(rest);
    });
    let mut gateway = TestGateway::start(one_lane(lane.address));
    let (mut client, _) = open(&gateway, "");
    client.write_all(b"\x81").expect("it reads");
    drop(client);
    assert_eq!(leaving.recv_timeout(TIMEOUT).expect("the lane sees it"), b"\x81");
    assert_eq!(gateway.rows()[0].end, AttemptEnd::Abandoned);
    // A provider that closes amid a frame.
    let lane = SessionLane::start(|mut stream| drop(stream.write_all(b"\x81\x05ab")));
    let mut gateway = TestGateway::start(one_lane(lane.address));
    let (mut client, _) = open(&gateway, "");
    let mut all = Vec::new();
    client.read_to_end(&mut all).expect("it closes");
    assert_eq!(all, b"\x81\x05ab");
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(FailureKind::Truncated)));
}

#[test]
fn a_client_that_reads_nothing_holds_back_its_lane_and_is_given_up() {
    let (ended, written) = channel();
    let lane = SessionLane::start(move |mut stream| {
        let (chunk, mut count) = (vec![0; 64 * 1024], 0_u64);
        // A frame of 2^62 bytes.
        let head = [0x82, 0x7f, 0x40, 0, 0, 0, 0, 0, 0, 0];
        let mut result = stream.write_all(&head);
        while result.is_ok() {
            result = stream.write_all(&chunk);
            count += chunk.len() as u64;
        }
        let _ = ended.send(count);
    });
    let mut config = one_lane(lane.address);
    config.limits.send = Span::from_millis(200);
    let mut gateway = TestGateway::start(config);
    let (client, _) = open(&gateway, "");
    let written = written.recv_timeout(TIMEOUT).expect("the lane is let go");
    // The buffers of four sockets, and no more.
    assert!(written < 64 << 20, "{written} bytes");
    drop(client);
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Abandoned, Some(FailureKind::ClientStalled)));
}

#[test]
fn a_session_on_which_nobody_speaks_is_closed_and_pings_keep_it() {
    let lane = answering(1);
    let mut config = one_lane(lane.address);
    config.limits.silence = Span::from_millis(300);
    let mut gateway = TestGateway::start(config);
    let (mut client, _) = open(&gateway, "");
    let heard = messages(&mut client);
    assert_eq!(heard.last().map(String::as_str), Some("Close(Some(1001))"), "{heard:?}");
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Abandoned, Some(FailureKind::Stalled)));
}

#[test]
fn no_limit_of_a_key_is_got_around_by_a_session() {
    let limit = |limits: KeyLimits| {
        let lane = answering(990);
        let mut config = one_lane(lane.address);
        config.keys = vec![key("ada", limits)];
        let gateway = TestGateway::start(config);
        let (mut client, head) = open(&gateway, ADA);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        for _ in 0..3 {
            client.write_all(&text(r#"{"type":"response.create"}"#, MASK)).expect("it reads");
        }
        let mut heard = messages(&mut client);
        (heard.pop(), heard.iter().filter(|message| message.contains("response.done")).count())
    };
    let closed = Some("Close(Some(1008))".to_owned());
    let requests = KeyLimits { requests_per_minute: Some(2), ..KeyLimits::default() };
    assert_eq!(limit(requests).0, closed);
    let tokens = KeyLimits { tokens_per_minute: Some(1_500), ..KeyLimits::default() };
    assert_eq!(limit(tokens).0, closed);
    // One at a time.
    let lane = answering(1);
    let mut config = one_lane(lane.address);
    config.keys = vec![key("ada", KeyLimits { streams: Some(1), ..KeyLimits::default() })];
    let gateway = TestGateway::start(config);
    let (_client, _) = open(&gateway, ADA);
    assert!(open(&gateway, ADA).1.starts_with("HTTP/1.1 429 "));
    assert!(open(&gateway, "").1.starts_with("HTTP/1.1 401 "));
}

#[test]
fn a_budget_needs_a_fee_for_a_session_which_is_reserved_and_ends_it() {
    let usd = |text: f64| Money::from_usd(text).expect("a sum");
    let start = |fee: Option<f64>| {
        let lane = answering(1_000_000);
        let mut config = one_lane(lane.address);
        config.keys = vec![key("ada", KeyLimits { usd_per_month: Some(usd(10.0)), ..KeyLimits::default() })];
        let fees = fee.map(|fee| ("realtime".to_owned(), usd(fee))).into_iter().collect();
        config.lanes[0].services = ServicesConfig { fees, ..ServicesConfig::default() };
        TestGateway::start(config)
    };
    assert!(open(&start(None), ADA).1.starts_with("HTTP/1.1 403 "));
    let mut gateway = start(Some(6.0));
    let (mut client, _) = open(&gateway, ADA);
    assert!(open(&gateway, ADA).1.starts_with("HTTP/1.1 429 "), "two may cost twelve dollars");
    // A dollar a response.
    for _ in 0..9 {
        client.write_all(&text(r#"{"type":"response.create"}"#, MASK)).expect("it reads");
    }
    assert_eq!(messages(&mut client).last().map(String::as_str), Some("Close(Some(1008))"));
    let spent: f64 = gateway.rows().iter().filter_map(|row| row.sample.cost_usd).sum();
    assert!(spent > 5.9, "{spent}");
}

#[test]
fn a_key_that_a_provider_repeats_in_a_session_is_masked_and_no_frame_moves() {
    const SAID: &str = r#"{"type":"error","error":{"message":"Bearer sk-of-the-lane-itself is wrong"}}"#;
    // Cut at every place within the key, and once whole.
    let frame = text(SAID, None);
    let at = frame.windows(3).position(|part| part == b"sk-").expect("it is in there");
    for cut in [at - 1, at, at + 1, at + 10, at + 21, at + 22, frame.len()] {
        let (whole, (go_on, may_go_on)) = (frame.clone(), channel());
        let (reached, may) = (std::sync::Mutex::new(may_go_on), go_on);
        let lane = SessionLane::start(move |mut stream| {
            let _ = stream.write_all(&whole[..cut]);
            let _ = stream.flush();
            let _ = reached.lock().expect("no panic").recv_timeout(TIMEOUT);
            let _ = stream.write_all(&whole[cut..]);
            let _ = stream.write_all(&close_frame(1000, "", None));
            let _ = stream.read(&mut [0; 100]);
        });
        let gateway = TestGateway::start(one_lane(lane.address));
        let (mut client, _) = open(&gateway, "");
        let mut all = vec![0; at.min(cut).saturating_sub(1)];
        client.read_exact(&mut all).expect("what is no key comes at once");
        may.send(()).expect("it waits");
        client.read_to_end(&mut all).expect("it closes");
        let expected = text(&SAID.replace("sk-of-the-lane-itself", &"*".repeat(21)), None);
        assert_eq!(all[..expected.len()], expected, "{cut}: {}", String::from_utf8_lossy(&all));
        assert_eq!(all[expected.len()..], close_frame(1000, "", None), "{cut}");
    }
}

/// What a response with sound cost, on a lane with prices of sound and without.
#[test]
fn sound_is_priced_by_its_tokens_where_the_price_is_known_and_else_by_the_fee() {
    let usage = r#"{"type":"response.done","response":{"status":"completed","usage":{"input_tokens":100,"output_tokens":50,"input_token_details":{"text_tokens":40,"audio_tokens":60,"cached_tokens":30,"cached_tokens_details":{"text_tokens":10,"audio_tokens":20}},"output_token_details":{"text_tokens":5,"audio_tokens":45}}}}"#;
    let cost = |price: Price| {
        let lane = SessionLane::start(move |mut stream| {
            let _ = stream.write_all(&[text(r#"{"type":"response.created"}"#, None), text(usage, None)].concat());
            let _ = stream.write_all(&close_frame(1000, "", None));
            let _ = stream.read(&mut [0; 100]);
        });
        let mut config = one_lane(lane.address);
        let fees = vec![("realtime".to_owned(), Money::from_usd(3.0).expect("a sum"))];
        config.lanes[0].services = ServicesConfig { fees, ..ServicesConfig::default() };
        config.lanes[0].price = Some(price);
        let mut gateway = TestGateway::start(config);
        let (mut client, _) = open(&gateway, "");
        messages(&mut client);
        let row = gateway.rows().remove(0);
        (row.sample.cost_basis, row.sample.cost_usd.expect("known"))
    };
    let text_price =
        Price { cached_input: Money::from_usd(0.4), ..Price::from_usd_per_million(4.0, 16.0).expect("a price") };
    assert_eq!(cost(text_price), (CostBasis::Estimated, 3.0));
    let [audio_input, audio_cached, audio_output] = [32.0, 0.3, 64.0].map(Money::from_usd);
    let (basis, usd) = cost(Price { audio_input, audio_cached, audio_output, ..text_price });
    let expected = (30.0 * 4.0 + 10.0 * 0.4 + 40.0 * 32.0 + 20.0 * 0.3 + 5.0 * 16.0 + 45.0 * 64.0) / 1e6;
    assert!(basis == CostBasis::Reported && (usd - expected).abs() < 1e-12, "{usd} and not {expected}");
}
