//! Responses that cannot be translated, and streams with parts that cannot be decoded.

use crate::client::post;
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, whole};
use tokrate_core::FailureKind;
use tokrate_gateway::Mode;
use tokrate_record::AttemptEnd;
use tokrate_wire::Dialect;

const CHAT: &[Dialect] = &[Dialect::OpenAiChat];
const GEMINI_BODY: &str = r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#;

fn anthropic(stream: bool) -> String {
    format!(r#"{{"model":"all","max_tokens":9,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#)
}

fn chat(stream: bool) -> String {
    format!(r#"{{"model":"all","stream":{stream},"stream_options":{{"include_usage":true}},"messages":[]}}"#)
}

/// A valid response.
fn valid() -> Vec<u8> {
    let message = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":null,"audio":{"id":"a","data":"AAAA","transcript":"Hi"}},"finish_reason":"stop"}]}"#;
    whole("200 OK", message)
}

fn valid_stream() -> Vec<u8> {
    stream(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"audio\":{\"data\":\"AAAA\"}}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    )
}

#[test]
fn an_answer_that_cannot_be_translated_is_502_or_another_lanes_and_held_against_nobody() {
    let gemini = "/v1beta/models/all:generateContent";
    let gemini_stream = "/v1beta/models/all:streamGenerateContent?alt=sse";
    for (path, body, message, good) in [
        ("/v1/messages", anthropic(false), valid(), whole("200 OK", &chat_whole("words"))),
        (gemini, GEMINI_BODY.to_owned(), valid(), whole("200 OK", &chat_whole("words"))),
        ("/v1/messages", anthropic(true), valid_stream(), stream(&chat_events(&["words"]))),
        (gemini_stream, GEMINI_BODY.to_owned(), valid_stream(), stream(&chat_events(&["words"]))),
    ] {
        let loud = Scripted::start(vec![Script::Send(vec![message.clone()])]);
        let mut gateway = TestGateway::start(configured(vec![lane("loud", loud.address, CHAT)], Mode::Off));
        for _ in 0..8 {
            let answer = post(gateway.address, path, &body);
            assert_eq!(answer.status, 502, "{path}: {}", answer.text());
            assert!(
                answer.text().contains("picture, sound") && answer.text().contains("lane loud"),
                "{}",
                answer.text()
            );
        }
        let rows = gateway.rows();
        assert!(rows.iter().all(|row| row.end == AttemptEnd::Failed && !row.won), "{path}: {rows:?}");
        assert!(rows.iter().all(|row| row.sample.failure == Some(FailureKind::Untranslatable)), "{path}: {rows:?}");
        assert_eq!(loud.requests().len(), 8, "it is not left alone for that");

        let loud = Scripted::start(vec![Script::Send(vec![message])]);
        let quiet = Scripted::start(vec![Script::Send(vec![good])]);
        let lanes = vec![lane("loud", loud.address, CHAT), lane("quiet", quiet.address, CHAT)];
        let gateway = TestGateway::start(configured(lanes, Mode::Off));
        let answer = post(gateway.address, path, &body);
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("quiet")), "{}", answer.text());
        assert!(answer.text().contains("words"), "{}", answer.text());
    }
}

#[test]
fn a_stream_of_garbage_is_no_answer_in_any_dialect() {
    let role = &chat_events(&[])[..chat_events(&[]).find("\n\n").expect("an event") + 2];
    for garbage in [
        "data: garbage\n\ndata: {\"cut\n\ndata: [DONE]\n\n".to_owned(),
        "upstream connect error\n\ndata: [DONE]\n\n".to_owned(),
        format!("{role}data: garbage\n\ndata: [DONE]\n\n"),
    ] {
        for (path, body) in [("/v1/messages", anthropic(true)), ("/v1/chat/completions", chat(true))] {
            let bad = Scripted::start(vec![Script::Send(vec![stream(&garbage)])]);
            let good = Scripted::start(vec![Script::Send(vec![stream(&chat_events(&["words"]))])]);
            let lanes = vec![lane("bad", bad.address, CHAT), lane("good", good.address, CHAT)];
            let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
            let answer = post(gateway.address, path, &body);
            assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")), "{}", answer.text());
            let rows = gateway.rows();
            assert_eq!((rows[0].end, rows[0].won), (AttemptEnd::Failed, false), "{garbage}");
            let failure = rows[0].sample.failure.expect("it failed");
            assert!(matches!(failure, FailureKind::NotJson | FailureKind::Empty), "{garbage}: {failure:?}");

            let gateway = TestGateway::start(configured(vec![lane("bad", bad.address, CHAT)], Mode::Off));
            let answer = post(gateway.address, path, &body);
            assert_eq!(answer.status, 502, "{path} {garbage}: {}", answer.text());
        }
    }
}

#[test]
fn garbage_within_an_answer_is_an_error_event_if_translated_and_a_note_in_the_log_if_passed_through() {
    let events = chat_events(&["one", " two"]);
    let at = events.find(" two").and_then(|at| events[..at].rfind("data: ")).expect("an event");
    let message = format!("{}data: {{\"choices\":[{{\"del\n\n{}", &events[..at], &events[at..]);
    let first_lane = Scripted::start(vec![Script::Send(vec![stream(&message)])]);
    // In one read nothing has been won yet, so a single lane has no answer.
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let answer = post(gateway.address, "/v1/messages", &anthropic(true));
    let text = answer.text();
    assert!(answer.status == 502 || text.contains("event: error") && !text.contains("message_stop"), "{text}");
    assert!(!text.contains(" two"), "{text}");
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(FailureKind::NotJson)));

    // The first token is forwarded before the garbage comes.
    let stream_start = stream(&message[..at]);
    let stream_start = stream_start[..stream_start.len() - 5].to_vec();
    let rest = format!("{:x}\r\n{}\r\n0\r\n\r\n", message.len() - at, &message[at..]).into_bytes();
    let first_lane = Scripted::start(vec![Script::SendHoldSend(stream_start, rest)]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let mut client = std::net::TcpStream::connect(gateway.address).expect("it listens");
    let requests = crate::client::request("POST", "/v1/messages", &[], anthropic(true).as_bytes());
    std::io::Write::write_all(&mut client, &requests).expect("it reads");
    let seen = crate::client::read_until(&mut client, "\"one\"");
    first_lane.release();
    let answer = crate::client::read_answer_after(seen, &mut client);
    let text = answer.text();
    assert_eq!(text.matches("event: error").count(), 1, "{text}");
    assert!(!text.contains("message_stop") && !text.contains(" two"), "{text}");
    let rows = gateway.rows();
    assert_eq!(
        (rows[0].end, rows[0].won, rows[0].sample.failure),
        (AttemptEnd::Failed, true, Some(FailureKind::NotJson))
    );

    let first_lane = Scripted::start(vec![Script::Send(vec![stream(&message)])]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    for _ in 0..8 {
        let answer = post(gateway.address, "/v1/chat/completions", &chat(true));
        assert_eq!((answer.status, answer.text().as_str()), (200, message.as_str()), "byte for byte");
    }
    let rows = gateway.rows();
    assert!(
        rows.iter().all(|row| (row.end, row.sample.failure) == (AttemptEnd::Answered, Some(FailureKind::NotJson))),
        "{rows:?}"
    );
}
