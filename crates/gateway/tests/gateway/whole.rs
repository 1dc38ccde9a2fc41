//! Answers that clients want in one piece: hung lanes, answers that are asked for as streams, and what is said of them.

use crate::client::{Answer, ask, post};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, whole};
use serde_json::Value;
use tokrate_core::{FailureKind, Money, Span};
use tokrate_gateway::{BreakerConfig, Config, KeyConfig, KeyLimits, LaneConfig, Mode, key_hash};
use tokrate_record::{AttemptEnd, AttemptRole, CostBasis};
use tokrate_wire::Dialect;

const PATH: &str = "/v1/chat/completions";
const WHOLE: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;

fn chat_lane(name: &str, scripted: &Scripted) -> LaneConfig {
    lane(name, scripted.address, &[Dialect::OpenAiChat])
}

/// A lane and another one that could take over, so that answers in one piece are asked for as streams.
fn with_spare(lane: LaneConfig) -> Vec<LaneConfig> {
    let spare = Scripted::start(Vec::new());
    vec![lane, chat_lane("spare", &spare)]
}

fn hung() -> Scripted {
    Scripted::start(vec![Script::SendAndStall(Vec::new())])
}

fn sends(response: Vec<u8>) -> Scripted {
    Scripted::start(vec![Script::Send(vec![response])])
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("no JSON: {}", answer.text()))
}

fn asked(scripted: &Scripted, number: usize) -> Value {
    serde_json::from_slice(&scripted.requests()[number].body).expect("JSON")
}

#[test]
fn a_lane_that_hangs_is_seen_early_and_another_one_answers() {
    let (first, second) = (hung(), sends(stream(&chat_events(&["one", " two"]))));
    let mut config = configured(vec![chat_lane("hung", &first), chat_lane("good", &second)], Mode::Off);
    config.limits.first_token = Span::from_millis(60);
    let mut gateway = TestGateway::start(config);
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")), "{}", answer.text());
    assert_eq!(json(&answer)["choices"][0]["message"]["content"], "one two");
    assert_eq!(asked(&first, 0)["stream"], true);
    let rows = gateway.rows();
    assert_eq!((rows[0].end, rows[0].sample.failure), (AttemptEnd::Failed, Some(FailureKind::FirstTokenTimeout)));
    // It was sent and may have been worked on.
    assert_eq!((rows[0].sample.cost_basis, rows[0].role), (CostBasis::Estimated, AttemptRole::First));
    assert!(rows[0].sample.cost_usd.is_some_and(|usd| usd > 0.0));
    assert_eq!((rows[1].end, rows[1].role), (AttemptEnd::Answered, AttemptRole::Failover));
}

#[test]
fn a_lane_that_cannot_be_asked_for_a_stream_has_a_limit_of_its_own_or_a_share_of_the_calls() {
    let two_answers = WHOLE.replace("{\"model\"", "{\"n\":2,\"model\"");
    for (attempt, total) in [(Some(60), 60_000), (None, 400)] {
        let (first, second) = (hung(), sends(whole("200 OK", &chat_whole("yes"))));
        let mut config = configured(vec![chat_lane("hung", &first), chat_lane("good", &second)], Mode::Off);
        config.limits.attempt = attempt.map(Span::from_millis);
        config.limits.total = Span::from_millis(total);
        let mut gateway = TestGateway::start(config);
        let answer = post(gateway.address, PATH, &two_answers);
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")), "{}", answer.text());
        assert_eq!(asked(&first, 0).get("stream"), None, "two answers are no stream");
        let failures: Vec<_> = gateway.rows().iter().map(|row| row.sample.failure).collect();
        assert_eq!(failures, [Some(FailureKind::TimedOut), None]);
    }
}

#[test]
fn an_answer_that_was_streamed_is_the_one_that_would_have_come_in_one_piece() {
    let events = concat!(
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Let me see.\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"t\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"a\\\"\"}}]},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"tool_calls\"}]}\n\n",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\",\"system_fingerprint\":\"fp\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9,\"total_tokens\":14}}\n\n",
        "data: [DONE]\n\n",
    );
    let streaming = sends(stream(events));
    let mut gateway = TestGateway::start(configured(with_spare(chat_lane("one", &streaming)), Mode::Off));
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let expected = serde_json::json!({
        "id": "c", "object": "chat.completion", "created": 7, "model": "m", "system_fingerprint": "fp",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Let me see.",
                "refusal": null,
                "tool_calls": [{"id": "t", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}}],
            },
            "logprobs": null,
            "finish_reason": "tool_calls",
        }],
        "usage": {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14},
    });
    assert_eq!(json(&answer), expected);
    let sent = asked(&streaming, 0);
    assert_eq!((&sent["stream"], &sent["stream_options"]["include_usage"]), (&Value::Bool(true), &Value::Bool(true)));
    assert!(answer.header("x-tokrate-ttft-ms").is_some() && answer.header("x-tokrate-answer-ms").is_none());
    let row = &gateway.rows()[0];
    assert!(row.sample.stream && row.sample.ttft_ns.is_some() && row.sample.answer_ns.is_none(), "{row:?}");
    assert_eq!((row.sample.cost_basis, row.sample.output_tokens), (CostBasis::Reported, Some(9)));
}

#[test]
fn an_answer_in_one_piece_has_no_time_to_first_token() {
    let plain = sends(whole("200 OK", &chat_whole("yes")));
    let lane = LaneConfig { stream_whole: false, ..chat_lane("one", &plain) };
    let mut gateway = TestGateway::start(configured(with_spare(lane), Mode::Off));
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!((answer.status, answer.text()), (200, chat_whole("yes")), "byte for byte");
    assert!(answer.header("x-tokrate-ttft-ms").is_none() && answer.header("x-tokrate-answer-ms").is_some());
    assert_eq!(asked(&plain, 0).get("stream"), None);
    let row = &gateway.rows()[0];
    assert!(!row.sample.stream && row.sample.ttft_ns.is_none(), "{row:?}");
    assert!(row.sample.answer_ns.is_some_and(|answer| answer > 0 && answer <= row.sample.total_ns), "{row:?}");
}

#[test]
fn an_answer_in_one_piece_passes_as_it_is_where_no_other_lane_could_take_over() {
    let keyed = [("authorization", "Bearer sk-k")];
    let check = |why: &str, name: &str, change: &dyn Fn(&mut Config)| {
        let plain = sends(whole("200 OK", &chat_whole("yes")));
        let mut config = configured(with_spare(chat_lane("one", &plain)), Mode::Off);
        change(&mut config);
        let mut gateway = TestGateway::start(config);
        let answer = ask(gateway.address, "POST", PATH, &keyed, WHOLE.replace("all", name).as_bytes());
        assert_eq!((answer.status, answer.text()), (200, chat_whole("yes")), "{why}: byte for byte");
        let sent = plain.requests().remove(0);
        let expected = WHOLE.replace("\"all\"", "\"model-one\"");
        assert_eq!(String::from_utf8_lossy(&sent.body), expected, "{why}: nothing but the model is written anew");
        let row = gateway.rows().remove(0);
        assert!(!row.sample.stream && row.sample.ttft_ns.is_none() && row.sample.answer_ns.is_some(), "{why}: {row:?}");
    };
    check("an alias of one lane", "all", &|config| config.aliases[0].lanes = vec![0]);
    check("a lane by its own name", "one", &|_| {});
    check("no second attempt", "all", &|config| config.aliases[0].max_attempts = 1);
    check("the other lane may not be asked", "all", &|config| {
        let limits = KeyLimits { usd_per_month: Money::from_usd(1.0), ..KeyLimits::default() };
        config.keys = vec![KeyConfig { name: "k".to_owned(), sha256: key_hash("sk-k"), aliases: Vec::new(), limits }];
        config.lanes[1].price = None;
    });
}

#[test]
fn a_lane_that_is_left_out_at_the_moment_counts_as_one_that_could_take_over() {
    let (one, other) = (sends(stream(&chat_events(&["one"]))), sends(whole("500 Internal Server Error", "{}")));
    let breaker = BreakerConfig { consecutive_failures: 1, ..BreakerConfig::default() };
    let lanes = vec![chat_lane("other", &other), chat_lane("one", &one)];
    let mut gateway = TestGateway::start(Config { breaker, ..configured(lanes, Mode::Off) });
    for _ in 0..2 {
        let answer = post(gateway.address, PATH, WHOLE);
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("one")), "{}", answer.text());
    }
    assert_eq!((other.requests().len(), one.requests().len()), (1, 2), "the first lane is left out of the second call");
    let rows = gateway.rows();
    assert!(rows.iter().filter(|row| row.lane == "one").all(|row| row.sample.stream), "rows of one kind: {rows:?}");
}

#[test]
fn a_lane_that_refuses_to_stream_is_asked_again_for_the_answer_in_one_piece_and_from_then_on() {
    let refusal = r#"{"error":{"message":"Your organization must be verified to stream this model.","type":"invalid_request_error","param":"stream","code":"unsupported_value"}}"#;
    let strict = Scripted::start(vec![
        Script::Send(vec![whole("400 Bad Request", refusal)]),
        Script::Send(vec![whole("200 OK", &chat_whole("yes"))]),
    ]);
    let mut gateway = TestGateway::start(configured(with_spare(chat_lane("strict", &strict)), Mode::Off));
    for _ in 0..2 {
        let answer = post(gateway.address, PATH, WHOLE);
        assert_eq!((answer.status, answer.text()), (200, chat_whole("yes")));
    }
    let streamed: Vec<bool> = (0..3).map(|number| asked(&strict, number)["stream"] == true).collect();
    assert_eq!((streamed, strict.requests().len()), (vec![true, false, false], 3));
    let ends: Vec<_> = gateway.rows().iter().map(|row| (row.attempt, row.end, row.sample.failure)).collect();
    let refused = (0, AttemptEnd::Failed, Some(FailureKind::BadRequest));
    assert_eq!(ends, [refused, (1, AttemptEnd::Answered, None), (0, AttemptEnd::Answered, None)]);
}

#[test]
fn a_clients_own_error_is_not_taken_for_a_refusal_to_stream() {
    let refusal = r#"{"error":{"message":"messages: too few","type":"invalid_request_error"}}"#;
    let strict = sends(whole("400 Bad Request", refusal));
    let gateway = TestGateway::start(configured(with_spare(chat_lane("strict", &strict)), Mode::Off));
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!((answer.status, answer.text().as_str(), strict.requests().len()), (400, refusal, 1));
}

#[test]
fn a_lane_whose_streams_hold_what_is_not_known_is_asked_for_one_piece_the_next_time() {
    let odd = chat_events(&["one"])
        .replace("\"content\":\"one\"", "\"content\":\"one\",\"reasoning_details\":[{\"text\":\"x\"}]");
    let lane_at = Scripted::start(vec![
        Script::Send(vec![stream(&odd)]),
        Script::Send(vec![whole("200 OK", &chat_whole("yes"))]),
    ]);
    let gateway = TestGateway::start(configured(with_spare(chat_lane("odd", &lane_at)), Mode::Off));
    let first = json(&post(gateway.address, PATH, WHOLE));
    assert_eq!(first["choices"][0]["message"]["reasoning_details"][0]["text"], "x", "nothing is lost: {first}");
    assert_eq!(post(gateway.address, PATH, WHOLE).text(), chat_whole("yes"));
    assert_eq!(asked(&lane_at, 1).get("stream"), None);
}

#[test]
fn a_stream_that_breaks_off_is_no_answer_and_another_lane_is_asked() {
    let events = chat_events(&["one", " two"]);
    let cut = &events[..events.find(" two").expect("a word")];
    let error = "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n";
    for broken in [cut.to_owned(), format!("{cut}\"}}}}]}}\n\n{error}"), "data: [DONE]\n\n".to_owned()] {
        let (first, second) = (sends(stream(&broken)), sends(stream(&events)));
        let lanes = vec![chat_lane("broken", &first), chat_lane("good", &second)];
        let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
        let answer = post(gateway.address, PATH, WHOLE);
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")), "{broken}");
        assert_eq!(json(&answer)["choices"][0]["message"]["content"], "one two");
        let rows = gateway.rows();
        assert_ne!(
            rows[0].sample.failure,
            Some(FailureKind::Untranslatable),
            "the lane is told what was wrong: {:?}",
            rows[0]
        );
        assert_eq!(rows[0].end, AttemptEnd::Failed);
    }
}

#[test]
fn an_answer_is_streamed_by_a_lane_of_another_dialect_too() {
    let streaming = sends(stream(&chat_events(&["one", " two"])));
    let mut gateway = TestGateway::start(configured(with_spare(chat_lane("one", &streaming)), Mode::Off));
    let body = r#"{"model":"all","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = post(gateway.address, "/v1/messages", body);
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{}", answer.text());
    let message = json(&answer);
    assert_eq!((&message["type"], &message["content"][0]["text"]), (&"message".into(), &"one two".into()));
    assert_eq!((&message["usage"]["input_tokens"], &message["stop_reason"]), (&5.into(), &"end_turn".into()));
    assert_eq!(asked(&streaming, 0)["stream"], true);
    let row = &gateway.rows()[0];
    assert!(row.sample.stream && row.sample.ttft_ns.is_some());
}

#[test]
fn an_answer_whose_connection_stays_open_behind_its_end_mark_is_complete() {
    let mut open = crate::scripted::stream_head();
    let events = chat_events(&["one"]);
    open.extend_from_slice(format!("{:x}\r\n{events}\r\n", events.len()).as_bytes());
    let lingering = Scripted::start(vec![Script::SendAndStall(open)]);
    let mut config = configured(with_spare(chat_lane("lingering", &lingering)), Mode::Off);
    config.limits.gap = Span::from_millis(50);
    let gateway = TestGateway::start(config);
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(json(&answer)["choices"][0]["message"]["content"], "one");
    lingering.closed.recv().expect("the connection is closed");
}

#[test]
fn a_hedge_of_an_unknown_lane_is_asked_after_the_time_of_a_slow_one() {
    // Nothing is known of the lanes: the second is asked after ten seconds, which this test does not wait for.
    let (first, second) = (hung(), sends(stream(&chat_events(&["yes"]))));
    let mut config = configured(vec![chat_lane("hung", &first), chat_lane("good", &second)], Mode::Hedge);
    config.limits.first_token = Span::from_millis(80);
    let mut gateway = TestGateway::start(config);
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")));
    assert_eq!(gateway.rows()[1].role, AttemptRole::Failover, "its limit comes first");
}
