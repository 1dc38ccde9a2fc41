//! Forwarded bytes, failover, races and disconnects.

use crate::client::{ask, post, read_answer, read_answer_after, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, stream_head, whole};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tokrate_core::FailureKind;
use tokrate_gateway::{Config, Mode};
use tokrate_record::{AttemptEnd, AttemptRole, CostBasis, SampleConditions};
use tokrate_wire::Dialect;

const CHAT: &[Dialect] = &[Dialect::OpenAiChat];
/// Far longer than anything here takes.
const TIMEOUT: Duration = Duration::from_secs(20);

fn chat(stream: bool) -> String {
    let options = if stream { r#","stream_options":{"include_usage":true}"# } else { "" };
    format!(
        r#"{{"messages":[{{"role":"user","content":"hi"}}], "model": "all","stream":{stream}{options} , "x_unknown":[1, 2]}}"#
    )
}

#[test]
fn a_stream_in_its_own_dialect_arrives_byte_for_byte_however_it_was_cut() {
    let events = chat_events(&["one", " two\\n", " thr\u{e9}e"]);
    let response = stream(&events);
    for size in [1, 7, 100, response.len()] {
        let first_lane = Scripted::start(vec![Script::Send(response.chunks(size).map(<[u8]>::to_vec).collect())]);
        let gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
        let answer = post(gateway.address, "/v1/chat/completions", &chat(true));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.ended);
        assert_eq!(answer.text(), events, "pieces of {size}");
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        assert_eq!(answer.header("x-tokrate-winner"), Some("one"));
        assert_eq!(answer.header("x-tokrate-attempts"), Some("1"));
        let requests = &first_lane.requests()[0];
        assert_eq!(String::from_utf8_lossy(&requests.body), chat(true).replace("\"all\"", "\"model-one\""));
        assert!(requests.head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{}", requests.head);
    }
}

#[test]
fn a_lane_gets_every_value_of_a_header_that_is_forwarded_and_no_other_header() {
    let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("hi"))])]);
    let gateway = TestGateway::start(configured(vec![lane("one", one.address, CHAT)], Mode::Off));
    let sent = [
        ("anthropic-beta", "context-1m"),
        ("Anthropic-Beta", "interleaved"),
        ("x-tokrate-fault", "none"),
        ("cookie", "a=b"),
        ("content-type", "application/json"),
    ];
    let answer = ask(gateway.address, "POST", "/v1/chat/completions", &sent, chat(false).as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let head = one.requests()[0].head.to_ascii_lowercase();
    for wanted in ["anthropic-beta: context-1m\r\n", "anthropic-beta: interleaved\r\n", "x-tokrate-fault: none\r\n"] {
        assert_eq!(head.matches(wanted).count(), 1, "{wanted} in {head}");
    }
    assert!(!head.contains("cookie"), "{head}");
}

#[test]
fn a_whole_answer_arrives_byte_for_byte_and_is_logged_once() {
    let body = chat_whole("four words are here");
    let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", &body)])]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let answer = post(gateway.address, "/v1/chat/completions", &chat(false));
    assert_eq!((answer.status, answer.text()), (200, body));
    let rows = gateway.rows();
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!((row.end, row.role, row.won), (AttemptEnd::Answered, AttemptRole::First, true));
    assert_eq!((row.alias.as_str(), row.lane.as_str(), row.sample.model.as_str()), ("all", "one", "model-one"));
    assert_eq!(
        (row.sample.input_tokens, row.sample.output_tokens, row.sample.output_tokens_std),
        (Some(5), Some(2), 4)
    );
    assert_eq!((row.sample.cost_usd, row.sample.cost_basis), (Some((5.0 + 2.0 * 2.0) / 1e6), CostBasis::Reported));
    assert_eq!(row.sample.status, Some(200));
    assert!(row.overhead_ns.is_some() && row.sample.ttft_ns.is_none() && row.sample.answer_ns.is_some());
}

#[test]
fn a_row_records_the_conditions_of_its_measurement() {
    let first_lane = Scripted::start(vec![Script::Send(vec![stream(&chat_events(&["one"]))])]);
    let (region, host) = (Some("eu-west".to_owned()), Some("gate-1".to_owned()));
    let config = Config { region, host, ..configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off) };
    let mut gateway = TestGateway::start(config);
    let body = chat(true).replace("\"messages\"", "\"max_tokens\":9,\"messages\"");
    assert_eq!(post(gateway.address, "/v1/chat/completions", &body).status, 200);
    let rows = gateway.rows();
    let row = &rows[0];
    assert_eq!((row.sample.stream, row.sample.in_flight, row.sample.output_limit), (true, 1, Some(9)));
    assert_eq!(
        (row.sample.request_bytes, row.sample.connection_new),
        (Some(first_lane.requests()[0].body.len() as u64), true)
    );
    let opened = [row.sample.dns_ns, row.sample.connect_ns, row.sample.tls_ns];
    assert!(opened.iter().all(Option::is_some) && row.sample.tls_ns == Some(0), "{opened:?}");
    assert_eq!(row.sample.ttfat_ns, row.sample.ttft_ns, "nothing of it is reasoning");
    assert_eq!(row.sample.output_speed_missing.as_deref(), Some("fewer than 16 tokens"));
    let conditions = SampleConditions {
        region: Some("eu-west".to_owned()),
        host: Some("gate-1".to_owned()),
        tokenizer: Some("o200k_base".to_owned()),
        fingerprint: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    assert_eq!(*row.sample.conditions, conditions);
}

#[test]
fn failover_before_the_first_token_is_invisible_to_the_client() {
    let failures = [
        Script::Send(vec![whole("500 Internal Server Error", "{\"error\":{\"message\":\"sorry\"}}")]),
        Script::Send(vec![whole("429 Too Many Requests", "{}")]),
        Script::Send(vec![whole("401 Unauthorized", "{}")]),
        Script::SendAndClose(Vec::new()),
        Script::SendAndClose(stream_head()),
        Script::Send(vec![stream("data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n")]),
        Script::Send(vec![stream("")]),
        // It ends as it should, and has said nothing.
        Script::Send(vec![stream(&chat_events(&[]))]),
        Script::Send(vec![b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n<html></>".to_vec()]),
    ];
    let events = chat_events(&["good"]);
    for failure in failures {
        let bad = Scripted::start(vec![failure.clone()]);
        let good = Scripted::start(vec![Script::Send(vec![stream(&events)])]);
        let lanes = vec![lane("bad", bad.address, CHAT), lane("good", good.address, CHAT)];
        let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
        let answer = post(gateway.address, "/v1/chat/completions", &chat(true));
        assert_eq!((answer.status, answer.text()), (200, events.clone()), "{failure:?}");
        assert_eq!(answer.header("x-tokrate-attempts"), Some("2"));
        let rows = gateway.rows();
        assert_eq!(rows.len(), 2, "{failure:?}");
        assert_eq!((rows[0].end, rows[0].won), (AttemptEnd::Failed, false), "{failure:?}");
        assert!(rows[0].sample.failure.is_some());
        assert_eq!((rows[1].end, rows[1].role), (AttemptEnd::Answered, AttemptRole::Failover));
    }
}

#[test]
fn a_client_error_is_not_retried_and_is_passed_on_as_the_provider_wrote_it() {
    let response =
        r#"{"error":{"message":"messages: too few","type":"invalid_request_error","param":"messages","code":null}}"#;
    let strict = Scripted::start(vec![Script::Send(vec![whole("400 Bad Request", response)])]);
    let other = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("no"))])]);
    let lanes = vec![lane("strict", strict.address, CHAT), lane("other", other.address, CHAT)];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    let answer = post(gateway.address, "/v1/chat/completions", &chat(false));
    assert_eq!((answer.status, answer.text().as_str()), (400, response));
    assert!(other.requests().is_empty());
    assert_eq!(answer.header("x-tokrate-call"), Some(gateway.rows()[0].call.as_str()));
}

#[test]
fn an_empty_stream_is_no_answer() {
    let role = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let mut silent = stream_head();
    silent.extend_from_slice(format!("{:x}\r\n{role}\r\n0\r\n\r\n", role.len()).as_bytes());
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let mute = Scripted::start(vec![Script::Send(vec![silent.clone()])]);
        let mut gateway = TestGateway::start(configured(vec![lane("mute", mute.address, CHAT)], Mode::Off));
        let body = chat(true).replace("\"messages\"", "\"max_tokens\":9,\"messages\"");
        let answer = post(gateway.address, path, &body);
        assert_eq!(answer.text().matches("\"error\":").count(), 1, "{path}: {}", answer.text());
        let rows = gateway.rows();
        assert!(rows.iter().all(|row| row.end == AttemptEnd::Failed && !row.won), "{path}: {rows:?}");
    }
}

#[test]
fn a_picture_of_many_mib_without_a_word_is_an_answer() {
    // Larger than a decoder's default limit.
    let picture = "A".repeat(9 << 20);
    let message = format!(r#"{{"content":"","images":[{{"image_url":{{"url":"data:image/png;base64,{picture}"}}}}]}}"#);
    let body = format!(r#"{{"model":"m","choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}]}}"#);
    let events = format!("data: {}\n\ndata: [DONE]\n\n", body.replace("\"message\"", "\"delta\""));
    for (is_stream, response, expected) in [(false, whole("200 OK", &body), &body), (true, stream(&events), &events)] {
        let painter = Scripted::start(vec![Script::Send(vec![response])]);
        let other = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("no"))])]);
        let lanes = vec![lane("painter", painter.address, CHAT), lane("other", other.address, CHAT)];
        let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
        let answer = post(gateway.address, "/v1/chat/completions", &chat(is_stream));
        assert!(answer.status == 200 && answer.text() == *expected, "{} {}", answer.status, answer.text().len());
        assert!(other.requests().is_empty(), "the other lane was not tried");
        let rows = gateway.rows();
        assert_eq!((rows.len(), rows[0].end, rows[0].sample.failure), (1, AttemptEnd::Answered, None));
    }
}

/// A whole chat answer of so many bytes of text.
fn long_answer(bytes: usize) -> Vec<u8> {
    whole("200 OK", &chat_whole(&"A".repeat(bytes)))
}

#[test]
fn answers_beyond_the_shared_buffer_limit_fail_and_their_bytes_are_released() {
    let large = Scripted::start(vec![Script::Send(vec![long_answer(5 << 20)])]);
    let other = Scripted::start(vec![Script::Send(vec![long_answer(2 << 20)])]);
    let lanes = vec![lane("large", large.address, CHAT), lane("other", other.address, CHAT)];
    let mut config = configured(lanes, Mode::Off);
    config.limits.answers_bytes = 8 << 20;
    let mut gateway = TestGateway::start(config);
    // Each is held twice, raw and decoded; answers of this size take six of the eight MiB.
    for _ in 0..4 {
        let answer = post(gateway.address, "/v1/chat/completions", &chat(false));
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("other")));
    }
    let alone = chat(false).replace("all", "large");
    let answer = post(gateway.address, "/v1/chat/completions", &alone);
    assert_eq!(answer.status, 502);
    assert!(answer.text().contains("`answers_bytes`"), "{}", answer.text());
    let rows = gateway.rows();
    let failed = rows.iter().filter(|row| row.lane == "large");
    assert!(failed.clone().count() > 1 && failed.clone().all(|row| row.sample.failure == Some(FailureKind::TooLarge)));
}

#[test]
fn an_error_carries_the_call_id_of_the_log() {
    let broken = Scripted::start(vec![Script::Send(vec![whole("500 Internal Server Error", "{}")])]);
    let mut gateway = TestGateway::start(configured(vec![lane("broken", broken.address, CHAT)], Mode::Off));
    let answer = post(gateway.address, "/v1/chat/completions", &chat(false));
    assert_eq!(answer.status, 502, "{}", answer.text());
    let refused = post(gateway.address, "/v1/chat/completions", "{}");
    assert_eq!((refused.status, refused.header("x-tokrate-call")), (400, None), "it has no row");
    assert_eq!(answer.header("x-tokrate-call"), Some(gateway.rows()[0].call.as_str()));
}

#[test]
fn a_missing_model_is_an_error_of_the_settings_and_another_lane_answers() {
    let response = r#"{"error":{"message":"The model `model-old` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#;
    let old = Scripted::start(vec![Script::Send(vec![whole("404 Not Found", response)])]);
    let good = Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])]);
    let lanes = vec![lane("old", old.address, CHAT), lane("good", good.address, CHAT)];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    for _ in 0..3 {
        let answer = post(gateway.address, "/v1/chat/completions", &chat(false));
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")), "{}", answer.text());
    }
    let alone = post(gateway.address, "/v1/chat/completions", &chat(false).replace("\"all\"", "\"old\""));
    assert_eq!(
        (alone.status, alone.text().as_str()),
        (404, response),
        "its breaker is open, and there is no other lane"
    );
    assert_eq!(old.requests().len(), 1);
    let rows = gateway.rows();
    let failed: Vec<_> = rows.iter().filter(|row| row.end == AttemptEnd::Failed).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!((failed[0].lane.as_str(), failed[0].sample.failure), ("old", Some(FailureKind::ModelNotFound)));
}

#[test]
fn another_404_is_retried_elsewhere_and_not_held_against_the_lane() {
    let response =
        r#"{"error":{"message":"File not found: file_1","type":"invalid_request_error","param":null,"code":null}}"#;
    let script = || vec![Script::Send(vec![whole("404 Not Found", response)])];
    let (one, other) = (Scripted::start(script()), Scripted::start(script()));
    let lanes = vec![lane("one", one.address, CHAT), lane("other", other.address, CHAT)];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    const CALLS: usize = 8;
    for _ in 0..CALLS {
        let answer = post(gateway.address, "/v1/chat/completions", &chat(false));
        assert_eq!((answer.status, answer.text().as_str()), (404, response), "as the provider wrote it");
    }
    assert_eq!((one.requests().len(), other.requests().len()), (CALLS, CALLS), "neither is benched");
    assert!(gateway.rows().iter().all(|row| row.sample.failure == Some(FailureKind::NotFound)));
}

#[test]
fn an_answer_that_breaks_after_its_first_token_ends_with_one_clear_error() {
    let events = chat_events(&["one", " two"]);
    let cut = &events[..events.find(" two").expect("it is there") + 2];
    let mut response = stream_head();
    response.extend_from_slice(format!("{:x}\r\n{cut}\r\n", cut.len()).as_bytes());
    let first_lane = Scripted::start(vec![Script::SendAndHold(response)]);
    let other = Scripted::start(vec![Script::Send(vec![stream(&events)])]);
    let lanes = vec![lane("one", first_lane.address, CHAT), lane("other", other.address, CHAT)];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    let mut stream = TcpStream::connect(gateway.address).expect("it listens");
    stream.write_all(&request("POST", "/v1/chat/completions", &[], chat(true).as_bytes())).expect("it reads");
    let stream_start = read_until(&mut stream, "\"one\"");
    first_lane.release();
    let answer = read_answer_after(stream_start, &mut stream);
    let text = answer.text();
    let rest = text.strip_prefix(cut).expect("what came is handed on");
    assert!(rest.starts_with("\n\ndata: {\"error\":"), "{rest}");
    assert!(rest.contains("lane one") && !text.contains("[DONE]"), "{rest}");
    assert!(other.requests().is_empty(), "nothing is mixed");
    let rows = gateway.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].end, rows[0].won), (AttemptEnd::Failed, true));
    assert_eq!(rows[0].sample.failure, Some(FailureKind::Truncated));
}

#[test]
fn the_first_token_wins_a_race_and_the_others_are_closed() {
    let events = chat_events(&["quick"]);
    let mut role_only = stream_head();
    let role = &chat_events(&[])[..chat_events(&[]).find("\n\n").expect("an event") + 2];
    role_only.extend_from_slice(format!("{:x}\r\n{role}\r\n", role.len()).as_bytes());
    // Its head and a chunk with a role come at once, and then nothing: neither wins a race.
    let eager = Scripted::start(vec![Script::SendAndStall(role_only)]);
    let quick = Scripted::start(vec![Script::Send(vec![stream(&events)])]);
    let lanes = vec![lane("eager", eager.address, CHAT), lane("quick", quick.address, CHAT)];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Race { lanes: 2 }));
    let answer = post(gateway.address, "/v1/chat/completions", &chat(true));
    assert_eq!((answer.status, answer.text()), (200, events));
    assert_eq!(answer.header("x-tokrate-winner"), Some("quick"));
    assert_eq!(answer.header("x-tokrate-attempts"), Some("2"));
    let cost: f64 = answer.header("x-tokrate-race-cost-usd").and_then(|usd| usd.parse().ok()).expect("a cost");
    eager.closed.recv_timeout(TIMEOUT).expect("the loser's connection is closed");
    let rows = gateway.rows();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].end, rows[0].sample.cost_basis), (AttemptEnd::Lost, CostBasis::Estimated));
    assert_eq!((rows[1].end, rows[1].role), (AttemptEnd::Answered, AttemptRole::Race));
    let lost = rows[0].sample.cost_usd.expect("a price");
    assert!(lost > 0.0 && (cost - lost).abs() < 1e-8, "{cost} against {lost}");
}

#[test]
fn a_client_that_disconnects_closes_every_lane_of_its_call() {
    let events = chat_events(&["one"]);
    let first = &events[..events.rfind("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{}").expect("the end")];
    let mut stream_start = stream_head();
    stream_start.extend_from_slice(format!("{:x}\r\n{first}\r\n", first.len()).as_bytes());
    for (mode, is_stream, response) in [
        (Mode::Off, true, stream_start.clone()),
        (Mode::Off, true, stream_head()),
        (Mode::Off, false, Vec::new()),
        (Mode::Race { lanes: 2 }, true, Vec::new()),
        (Mode::Race { lanes: 2 }, false, Vec::new()),
    ] {
        let waits = response == stream_start;
        let lanes: Vec<Scripted> =
            (0..2).map(|_| Scripted::start(vec![Script::SendAndStall(response.clone())])).collect();
        let configs = lanes.iter().zip(["one", "two"]).map(|(at, name)| lane(name, at.address, CHAT)).collect();
        let mut gateway = TestGateway::start(configured(configs, mode));
        let mut stream = TcpStream::connect(gateway.address).expect("it listens");
        let body = chat(is_stream);
        stream.write_all(&request("POST", "/v1/chat/completions", &[], body.as_bytes())).expect("it reads");
        if waits {
            let mut head = [0; 64];
            stream.read_exact(&mut head).expect("an answer begins");
        }
        let count = if mode == Mode::Off { 1 } else { 2 };
        while lanes.iter().map(|lane| lane.requests().len()).sum::<usize>() < count {
            std::thread::yield_now();
        }
        drop(stream);
        for lane in &lanes[..count] {
            lane.closed.recv_timeout(TIMEOUT).expect("its connection is closed");
        }
        let rows = gateway.rows();
        assert_eq!(rows.len(), count, "{mode:?}");
        assert!(rows.iter().all(|row| row.end == AttemptEnd::Abandoned), "{rows:?}");
    }
}

#[test]
fn a_client_that_leaves_on_the_end_of_its_answer_has_got_all_of_it() {
    let mut unended = stream(&chat_events(&["one"]));
    unended.truncate(unended.len() - b"0\r\n\r\n".len());
    let scripted = Scripted::start(vec![Script::SendAndStall(unended)]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", scripted.address, CHAT)], Mode::Off));
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", "/v1/chat/completions", &[], chat(true).as_bytes())).expect("it reads");
    read_until(&mut client, "[DONE]");
    drop(client);
    scripted.closed.recv_timeout(TIMEOUT).expect("its connection is closed");
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].won, rows[0].sample.failure), (AttemptEnd::Answered, true, None), "{rows:?}");
}

#[test]
fn a_connection_is_kept_from_call_to_call_and_replaced_when_the_lane_closed_it() {
    let body = chat_whole("again");
    let mut closing = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n".to_vec();
    closing.extend_from_slice(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    let first_lane = Scripted::start(vec![
        Script::Send(vec![whole("200 OK", &body)]),
        Script::SendAndClose(closing),
        Script::Send(vec![whole("200 OK", &body)]),
    ]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let mut stream = TcpStream::connect(gateway.address).expect("it listens");
    for _ in 0..3 {
        stream.write_all(&request("POST", "/v1/chat/completions", &[], chat(false).as_bytes())).expect("it reads");
        let answer = read_answer(&mut stream);
        assert_eq!((answer.status, answer.text()), (200, body.clone()));
    }
    let new: Vec<bool> = gateway.rows().iter().map(|row| row.sample.connection_new).collect();
    assert_eq!(new, [true, false, true]);
}

#[test]
fn a_client_of_another_dialect_gets_its_own() {
    let first_lane = Scripted::start(vec![
        Script::Send(vec![stream(&chat_events(&["one", " two"]))]),
        Script::Send(vec![whole("200 OK", &chat_whole("one two"))]),
    ]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let body = |stream| {
        format!(
            r#"{{"model":"all","max_tokens":9,"stream":{stream},"system":"be brief","messages":[{{"role":"user","content":"hi"}}]}}"#
        )
    };
    let answer = post(gateway.address, "/v1/messages", &body(true));
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    assert!(
        text.starts_with("event: message_start\n") && text.contains("\"text\":\" two\"") && text.ends_with("\n\n"),
        "{text}"
    );
    assert!(text.contains("event: message_stop"), "{text}");
    let answer = post(gateway.address, "/v1/messages", &body(false));
    assert!(
        answer.text().contains("\"text\":\"one two\"") && answer.text().contains("\"input_tokens\":5"),
        "{}",
        answer.text()
    );
    let requests = String::from_utf8_lossy(&first_lane.requests()[0].body).into_owned();
    assert!(requests.contains("\"role\":\"system\"") && requests.contains("\"include_usage\":true"), "{requests}");
    let rows = gateway.rows();
    assert_eq!((&*rows[0].dialect_in, &*rows[0].sample.dialect), ("anthropic", "openai-chat"));
    let refused = r#"{"model":"all","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"top_k":5}"#;
    let gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let answer = post(gateway.address, "/v1/messages", refused);
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("top_k") && answer.text().contains("invalid_request_error"), "{}", answer.text());
}

#[test]
fn embeddings_and_models_are_served() {
    let response = r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}"#;
    let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", response)])]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let answer = post(gateway.address, "/v1/embeddings", r#"{"model":"all","input":"hi"}"#);
    assert_eq!((answer.status, answer.text().as_str()), (200, response));
    assert!(first_lane.requests()[0].head.starts_with("POST /v1/embeddings "));
    let models = ask(gateway.address, "GET", "/v1/models", &[], b"").text();
    assert!(models.contains("\"id\":\"all\"") && models.contains("\"id\":\"one\""), "{models}");
    assert_eq!(ask(gateway.address, "GET", "/v1/models/all", &[], b"").status, 200);
    assert_eq!(ask(gateway.address, "GET", "/v1/models/none", &[], b"").status, 404);
    let anthropic = ask(gateway.address, "GET", "/v1/models", &[("anthropic-version", "2023-06-01")], b"").text();
    assert!(anthropic.contains("\"display_name\":\"all\"") && anthropic.contains("\"has_more\":false"), "{anthropic}");
    let rows = gateway.rows();
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(
        (row.sample.input_tokens, row.sample.output_tokens, row.sample.model_answered.as_deref()),
        (Some(3), Some(0), Some("m"))
    );
    assert_eq!((row.sample.cost_usd, row.sample.cost_basis), (Some(3.0 / 1e6), CostBasis::Reported));
}

#[test]
fn usage_is_requested_from_the_lane_and_hidden_from_a_client_that_did_not_ask() {
    let events = chat_events(&["one"]);
    let first_lane = Scripted::start(vec![Script::Send(vec![stream(&events)])]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let body = r#"{"model":"all","stream":true,"messages":[]}"#;
    let answer = post(gateway.address, "/v1/chat/completions", body);
    let from = events
        .find("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],")
        .expect("usage");
    let to = events.find("data: [DONE]").expect("the end");
    assert_eq!(answer.text(), [&events[..from], &events[to..]].concat());
    let requests = String::from_utf8_lossy(&first_lane.requests()[0].body).into_owned();
    assert!(requests.contains("\"include_usage\":true"), "{requests}");
    assert_eq!(gateway.rows()[0].sample.output_tokens, Some(2));
}

#[test]
fn an_error_in_the_lanes_own_stream_is_not_repeated() {
    let events = chat_events(&["one"]);
    let first =
        &events[..events.find("one").and_then(|at| Some(at + events[at..].find("\n\n")? + 2)).expect("an event")];
    let mut stream_start = stream_head();
    stream_start.extend_from_slice(format!("{:x}\r\n{first}\r\n", first.len()).as_bytes());
    // In one read with the end mark, so that the failure is not the last event.
    let events = "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\"}}\n\ndata: [DONE]\n\n";
    let rest = format!("{:x}\r\n{events}\r\n0\r\n\r\n", events.len()).into_bytes();
    let first_lane = Scripted::start(vec![Script::SendHoldSend(stream_start, rest)]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", "/v1/chat/completions", &[], chat(true).as_bytes())).expect("it reads");
    let seen = read_until(&mut client, "\"one\"");
    first_lane.release();
    let answer = read_answer_after(seen, &mut client);
    assert_eq!(answer.text(), [first, events].concat());
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(FailureKind::ErrorInStream)));
}

#[test]
fn a_kept_connection_that_breaks_late_is_a_failure_and_one_that_was_closed_before_is_not() {
    let good = || whole("200 OK", &chat_whole("here"));
    let (ends, closes) = (Script::SendAndHold(Vec::new()), Script::SendAndClose(good()));
    let bad = Scripted::start(vec![Script::Send(vec![good()]), ends, closes, Script::Send(vec![good()])]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", bad.address, CHAT)], Mode::Off));
    let address = gateway.address;
    let call = move || post(address, "/v1/chat/completions", r#"{"model":"all","messages":[]}"#);
    assert_eq!(call().status, 200);
    let late = std::thread::spawn(call);
    while bad.requests().len() < 2 {
        std::thread::yield_now();
    }
    // Longer than the notice of a connection that was closed before would take.
    std::thread::sleep(Duration::from_millis(200));
    bad.release();
    let late = late.join().expect("an answer");
    assert!(late.status == 502 && bad.requests().len() == 2, "it is not asked twice: {} {}", late.status, late.text());
    assert_eq!(call().status, 200);
    bad.left.recv().expect("it closed its connection");
    assert_eq!((call().status, bad.requests().len()), (200, 4), "on a connection of its own");
    let ends: Vec<_> = gateway.rows().iter().map(|row| row.sample.failure).collect();
    assert_eq!(ends, [None, Some(FailureKind::Closed), None, None]);
}
