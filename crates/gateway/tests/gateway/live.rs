//! Sessions of Gemini's Live API: whose model stands in their first message, which is held until it is known.

use crate::client::read_until;
use crate::harness::{TestGateway, configured, lane};
use crate::realtime::{MASK, SessionLane, TURN, answering, header, key, messages, open_path, text, turn_done};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;
use tokrate_core::{FailureKind, Money, Price, Span};
use tokrate_gateway::{Config, KeyLimits, Mode};
use tokrate_record::{Attempt, AttemptEnd, CostBasis};
use tokrate_wire::Dialect;
use tokrate_wire::websocket::{FrameKind, FrameReader, Message, close_frame, write_frame};

const PATH: &str = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
const TIMEOUT: Duration = Duration::from_secs(20);
const SETUP: &str = r#"{"setup":{"model":"models/all","generationConfig":{"responseModalities":["AUDIO"]}}}"#;

fn one_lane(address: SocketAddr) -> Config {
    let mut one = lane("one", address, &[Dialect::Gemini]);
    one.endpoints[0].base = tokrate_net::Target::parse(&format!("http://{address}/g/v1beta")).expect("a URL");
    one.endpoints[0].headers.insert("x-goog-api-key", http::HeaderValue::from_static("sk-of-the-lane-itself"));
    configured(vec![one], Mode::Off)
}

/// A lane that hands on what it hears until the end.
fn listening() -> (SessionLane, std::sync::mpsc::Receiver<Vec<u8>>) {
    let (heard, hearing) = channel();
    let lane = SessionLane::start(move |mut stream| {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let _ = heard.send(all);
    });
    (lane, hearing)
}

fn open(gateway: &TestGateway) -> TcpStream {
    let (client, head) = open_path(gateway.address, &format!("/{PATH}?key=sk-ada&alt=ws&access_token=sk-x"), "");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    client
}

fn start(address: SocketAddr) -> TestGateway {
    let mut config = one_lane(address);
    config.keys = vec![key("ada", KeyLimits::default())];
    config.keys[0].aliases = vec!["all".to_owned()];
    let hidden = tokrate_gateway::AliasConfig { name: "hidden".to_owned(), ..config.aliases[0].clone() };
    config.aliases.push(hidden);
    TestGateway::start(config)
}

#[test]
fn a_session_passes_with_the_lanes_model_in_its_setup_and_leaves_one_row() {
    let lane = answering(90);
    let mut config = one_lane(lane.address);
    config.keys = vec![key("ada", KeyLimits::default())];
    config.lanes[0].price = Price::from_usd_per_million(1.0, 2.0);
    let mut gateway = TestGateway::start(config);
    let mut client = open(&gateway);
    let asked = lane.asked().head;
    assert!(asked.starts_with(&format!("GET /g{PATH}?alt=ws HTTP/1.1\r\n")), "{asked}");
    assert_eq!(header(&asked, "x-goog-api-key"), Some("sk-of-the-lane-itself"));
    assert!(!asked.contains("sk-ada") && !asked.contains("sk-x"), "{asked}");
    client.write_all(&[text(SETUP, MASK), text(TURN, MASK)].concat()).expect("it reads");
    let mut all = read_until(&mut client, "usageMetadata");
    client.write_all(&text(TURN, MASK)).expect("it reads");
    all.extend(read_until(&mut client, "usageMetadata"));
    client.write_all(&close_frame(1000, "", MASK)).expect("it reads");
    client.read_to_end(&mut all).expect("it closes");
    let mut expected = text(r#"{"type":"session.created","session":{"model":"rt"}}"#, None);
    for _ in 0..2 {
        for json in [r#"{"serverContent":{"modelTurn":{"parts":[{"text":"hi"}]}}}"#, &turn_done(90)] {
            write_frame(FrameKind::Binary, json.as_bytes(), None, &mut expected);
        }
    }
    expected.extend(close_frame(1000, "", None));
    assert_eq!(all, expected, "byte for byte");
    let rows = gateway.rows();
    let [Attempt { sample, .. }] = &rows[..] else { panic!("one row: {rows:?}") };
    assert_eq!((rows[0].end, rows[0].responses), (AttemptEnd::Answered, Some(2)));
    assert_eq!((sample.dialect.as_ref(), sample.status, sample.failure), ("live", Some(101), None));
    assert_eq!((sample.input_tokens, sample.output_tokens), (Some(180), Some(20)));
    assert_eq!((sample.cost_basis, sample.cost_usd), (CostBasis::Reported, Some(0.000_22)));
    assert!(sample.ttft_ns.is_some_and(|ttft| ttft > 0 && ttft <= sample.total_ns), "{sample:?}");
}

#[test]
fn but_for_the_name_the_lane_gets_the_clients_bytes_however_they_are_cut() {
    let sent = SETUP.replace("models/all", "models/model-one");
    // Its own name: not a byte changes, also not the mask; pings are answered at once and go no further.
    let mut ping = text("ping!", MASK);
    ping[0] = 0x89;
    let (first, second) = sent.as_bytes().split_at(20);
    let mut parts = [Vec::new(), Vec::new()];
    write_frame(FrameKind::Text, first, MASK, &mut parts[0]);
    write_frame(FrameKind::Text, second, MASK, &mut parts[1]);
    (parts[0][0], parts[1][0]) = (0x01, 0x80);
    for (frames, expected) in [
        (vec![text(&sent, MASK)], text(&sent, MASK)),
        (vec![ping.clone(), parts[0].clone(), ping.clone(), parts[1].clone()], parts.concat()),
    ] {
        let (lane, hearing) = listening();
        let gateway = start(lane.address);
        let mut client = open(&gateway);
        for byte in frames.concat() {
            client.write_all(&[byte]).expect("it reads");
        }
        client.write_all(&text(TURN, MASK)).expect("it reads");
        let pongs = frames.iter().filter(|frame| **frame == ping).count();
        let mut answers = vec![0; pongs * 7];
        client.read_exact(&mut answers).expect("pongs");
        assert_eq!(answers, b"\x8a\x05ping!".repeat(pongs));
        client.write_all(&close_frame(1000, "", MASK)).expect("it reads");
        drop(client);
        let heard = hearing.recv_timeout(TIMEOUT).expect("the session ends");
        let expected = [expected, text(TURN, MASK), close_frame(1000, "", MASK)].concat();
        assert_eq!(heard, expected);
    }
    // Renamed: the same text but for the name.
    let (lane, hearing) = listening();
    let gateway = start(lane.address);
    let mut client = open(&gateway);
    client.write_all(&[text(SETUP, MASK), close_frame(1000, "", MASK)].concat()).expect("it reads");
    drop(client);
    let mut heard = Vec::new();
    FrameReader::new(1 << 20).push(&hearing.recv_timeout(TIMEOUT).expect("the session ends"), |message| {
        heard.push(match message {
            Message::Text(text) => String::from_utf8_lossy(text).into_owned(),
            other => format!("{other:?}"),
        });
    });
    assert_eq!(heard, [sent, "Close(Some(1000))".to_owned()]);
}

#[test]
fn a_session_that_names_another_model_or_none_is_closed_before_its_lane_hears_of_it() {
    for (sent, said) in [
        (text(&SETUP.replace("models/all", "models/model-two"), MASK), "another model"),
        (text(&SETUP.replace("models/all", "models/hidden"), MASK), "another model"),
        (text(TURN, MASK), "is `setup`"),
        (text("", MASK), "is `setup`"),
        (text("{\"setup\":{\"model\":\"all\"},\"setup\":{\"model\":\"other\"}}", MASK), "is `setup`"),
        (text("\u{0}", MASK), "is `setup`"),
        (vec![0xff; 14], "no frames"),
        (b"\x80\x80aaaa".to_vec(), "no frames"),
        (text(&format!("{{\"setup\":\"{}\"}}", "x".repeat(1 << 20)), MASK), "larger than 1 MiB"),
        // Frames whose end never comes.
        ([b"\x81\xff\x00\x00\xff\xff\xff\xff\xff\xffmask".to_vec(), vec![b'x'; 2 << 20]].concat(), "larger than 1 MiB"),
        ([b"\x01\x80mask".to_vec(), b"\x00\x80mask".repeat(300_000)].concat(), "larger than 1 MiB"),
    ] {
        let (lane, hearing) = listening();
        let mut gateway = start(lane.address);
        let mut client = open(&gateway);
        // The rest of what is too large may find the connection closed.
        let _ = client.write_all(&sent);
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        let shown = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.starts_with(b"\x88") && answer[2..4] == 1008_u16.to_be_bytes() && shown.contains(said),
            "{shown}"
        );
        let heard = hearing.recv_timeout(TIMEOUT).expect("the session ends");
        assert!(heard.is_empty() || heard[0] == 0x88, "{}", String::from_utf8_lossy(&heard));
        let rows = gateway.rows();
        assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Abandoned, None), "{said}");
        assert_eq!(rows[0].sample.cost_usd, Some(0.0), "nothing was asked of it");
    }
}

#[test]
fn who_says_nothing_is_closed_and_who_leaves_or_closes_first_is_no_failure() {
    let (lane, _hearing) = listening();
    let mut config = one_lane(lane.address);
    config.keys = vec![key("ada", KeyLimits::default())];
    config.limits.silence = Span::from_millis(200);
    let mut gateway = TestGateway::start(config);
    let mut client = open(&gateway);
    assert_eq!(messages(&mut client).last().map(String::as_str), Some("Close(Some(1001))"));
    assert_eq!(gateway.rows()[0].sample.failure, Some(FailureKind::Stalled));
    let (lane, hearing) = listening();
    let mut gateway = start(lane.address);
    let mut client = open(&gateway);
    client.write_all(&text(SETUP, MASK)[..9]).expect("it reads");
    drop(client);
    assert!(hearing.recv_timeout(TIMEOUT).expect("the lane is let go").is_empty());
    assert_eq!((gateway.rows()[0].end, gateway.rows()[0].sample.failure), (AttemptEnd::Abandoned, None));
    let (lane, hearing) = listening();
    let gateway = start(lane.address);
    let mut client = open(&gateway);
    client.write_all(&close_frame(1000, "", MASK)).expect("it reads");
    drop(client);
    assert_eq!(hearing.recv_timeout(TIMEOUT).expect("the lane is told"), close_frame(1000, "", MASK));
}

#[test]
fn what_a_turn_uses_counts_against_the_limits_of_its_key_as_in_any_session() {
    let closed_by = |limits: KeyLimits| {
        let lane = answering(990);
        let mut config = one_lane(lane.address);
        config.keys = vec![key("ada", limits)];
        let gateway = TestGateway::start(config);
        let mut client = open(&gateway);
        client.write_all(&[text(SETUP, MASK), text(TURN, MASK).repeat(3)].concat()).expect("it reads");
        messages(&mut client).pop()
    };
    let closed = Some("Close(Some(1008))".to_owned());
    assert_eq!(closed_by(KeyLimits { requests_per_minute: Some(2), ..KeyLimits::default() }), closed);
    assert_eq!(closed_by(KeyLimits { tokens_per_minute: Some(1_500), ..KeyLimits::default() }), closed);
    // A budget needs a fee.
    let lane = answering(1);
    let mut config = one_lane(lane.address);
    config.keys = vec![key("ada", KeyLimits { usd_per_month: Money::from_usd(1.0), ..KeyLimits::default() })];
    let gateway = TestGateway::start(config);
    let (_, head) = open_path(gateway.address, &format!("{PATH}?key=sk-ada"), "");
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    let (_, head) = open_path(gateway.address, PATH, "");
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
}
