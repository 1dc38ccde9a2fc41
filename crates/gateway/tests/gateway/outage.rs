//! Lanes that fail and come back: what clients get meanwhile, and how soon a lane is used again.

use crate::client::{Answer, ask, post};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, whole};
use tokrate_core::{FailureKind, Span};
use tokrate_gateway::{BreakerConfig, Config, LaneConfig, Mode};
use tokrate_record::{Attempt, AttemptEnd, AttemptRole, CostBasis};
use tokrate_wire::Dialect;

const PATH: &str = "/v1/chat/completions";
const WHOLE: &str = r#"{"model":"all","messages":[{"role":"user","content":"hi"}]}"#;
const STREAM: &str = r#"{"model":"all","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
const BROKEN: &str = r#"{"error":{"message":"out of order","type":"server_error"}}"#;
const LIMITED: &str = r#"{"error":{"message":"Rate limit reached for m in organization o","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#;

fn chat_lane(name: &str, scripted: &Scripted) -> LaneConfig {
    lane(name, scripted.address, &[Dialect::OpenAiChat])
}

/// A lane that fails so many times, and answers from then on.
fn fails(times: usize) -> Scripted {
    let broken = Script::Send(vec![whole("500 Internal Server Error", BROKEN)]);
    let mut scripts = vec![broken; times];
    scripts.push(Script::Send(vec![stream(&chat_events(&["yes"]))]));
    Scripted::start(scripts)
}

/// One failure opens a breaker, for this long.
fn tripping(lanes: Vec<LaneConfig>, cool_down: Span, probes: bool) -> Config {
    let breaker =
        BreakerConfig { consecutive_failures: 1, cool_down, max_cool_down: cool_down, ..BreakerConfig::default() };
    Config { breaker, probes, ..configured(lanes, Mode::Off) }
}

fn send(gateway: &TestGateway) -> Answer {
    post(gateway.address, PATH, STREAM)
}

#[test]
fn when_every_lane_is_tripped_the_least_bad_one_is_tried_and_its_answer_brings_it_back() {
    let only = fails(2);
    let config = tripping(vec![chat_lane("only", &only)], Span::from_secs(3_600), false);
    let gateway = TestGateway::start(config);
    let statuses: Vec<u16> = (0..4).map(|_| send(&gateway).status).collect();
    assert_eq!(statuses, [502, 502, 200, 200], "an hour's cool-down keeps nobody from an answer");
    assert_eq!(only.requests().len(), 4);
}

#[test]
fn a_tripped_lane_is_no_last_resort_while_another_one_is_usable() {
    let (bad, good) = (fails(1), fails(0));
    let lanes = vec![chat_lane("bad", &bad), chat_lane("good", &good)];
    let gateway = TestGateway::start(tripping(lanes, Span::from_secs(3_600), false));
    assert!((0..3).all(|_| send(&gateway).status == 200));
    assert_eq!((bad.requests().len(), good.requests().len()), (1, 3));
}

#[test]
fn a_lane_that_failed_is_probed_by_the_gateway_and_used_again() {
    let (bad, good) = (fails(2), fails(0));
    let lanes = vec![chat_lane("bad", &bad), chat_lane("good", &good)];
    let mut gateway = TestGateway::start(tripping(lanes, Span::from_millis(20), true));
    // The lane is wanted by every call, and probed until it answers; no client waits for that.
    let winner = loop {
        let answer = send(&gateway);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let winner = answer.header("x-tokrate-winner").map(str::to_owned);
        if bad.requests().len() >= 3 && winner.as_deref() == Some("bad") {
            break winner;
        }
    };
    assert_eq!(winner.as_deref(), Some("bad"));
    let rows = gateway.rows();
    let of_bad: Vec<&Attempt> = rows.iter().filter(|row| row.lane == "bad").collect();
    let mut probes: Vec<&Attempt> = of_bad.iter().copied().filter(|row| row.role == AttemptRole::Probe).collect();
    probes.sort_by_key(|row| (row.sample.started_unix_ms, row.call.clone()));
    let ends: Vec<(AttemptEnd, Option<FailureKind>)> = probes.iter().map(|row| (row.end, row.sample.failure)).collect();
    let failed = (AttemptEnd::Failed, Some(FailureKind::ServerError));
    assert_eq!(ends, [failed, (AttemptEnd::Answered, None)], "the call failed once, then the probes");
    let last = probes[1];
    assert_eq!((last.alias.as_str(), last.key.as_deref(), last.sample.output_limit), ("bad", None, Some(16)));
    assert_eq!(last.sample.cost_basis, CostBasis::Reported);
    let probe = &bad.requests()[1];
    let body: serde_json::Value = serde_json::from_slice(&probe.body).expect("JSON");
    assert_eq!((&body["model"], &body["stream"]), (&"model-bad".into(), &true.into()));
    let failed_calls = rows.iter().filter(|row| row.role == AttemptRole::First && row.end == AttemptEnd::Failed);
    assert_eq!(failed_calls.count(), 1, "no client's call was the probe");
}

#[test]
fn a_lane_that_does_not_understand_probes_is_tried_by_calls() {
    let refusal = r#"{"error":{"message":"max_tokens is too small","type":"invalid_request_error"}}"#;
    let odd = Scripted::start(vec![
        Script::Send(vec![whole("500 Internal Server Error", BROKEN)]),
        Script::Send(vec![whole("400 Bad Request", refusal)]),
        Script::Send(vec![stream(&chat_events(&["yes"]))]),
    ]);
    let good = fails(0);
    let lanes = vec![chat_lane("odd", &odd), chat_lane("good", &good)];
    let mut gateway = TestGateway::start(tripping(lanes, Span::from_millis(20), true));
    while send(&gateway).header("x-tokrate-winner") != Some("odd") {}
    let roles: Vec<AttemptRole> = gateway.rows().iter().filter(|row| row.lane == "odd").map(|row| row.role).collect();
    assert_eq!(roles.iter().filter(|role| **role == AttemptRole::Probe).count(), 1);
}

#[test]
fn a_rate_limit_is_passed_on_as_the_provider_wrote_it_and_said_again_until_its_wait_is_over() {
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 30\r\nx-ratelimit-remaining-tokens: 0\r\ncontent-length: {}\r\n\r\n{LIMITED}",
        LIMITED.len()
    );
    let limited = Scripted::start(vec![Script::Send(vec![head.into_bytes()])]);
    let gateway = TestGateway::start(configured(vec![chat_lane("one", &limited)], Mode::Off));
    let first = post(gateway.address, PATH, WHOLE);
    assert_eq!((first.status, first.text().as_str()), (429, LIMITED));
    assert_eq!((first.header("retry-after"), first.header("x-ratelimit-remaining-tokens")), (Some("30"), Some("0")));
    let again = post(gateway.address, PATH, WHOLE);
    assert_eq!((again.status, again.text().as_str()), (429, LIMITED));
    assert!(again.header("retry-after").is_some_and(|wait| matches!(wait, "29" | "30")), "{}", again.head);
    assert_eq!(limited.requests().len(), 1);
    // In another dialect it has that dialect's form.
    let body = r#"{"model":"all","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let other = post(gateway.address, "/v1/messages", body);
    assert!(other.status == 429 && other.text().contains("rate_limit_error"), "{}", other.text());
}

#[test]
fn of_several_rate_limits_the_shortest_wait_is_said() {
    let limited = |wait: &str| {
        let text = format!(
            "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: {wait}\r\ncontent-length: {}\r\n\r\n{LIMITED}",
            LIMITED.len()
        );
        Scripted::start(vec![Script::Send(vec![text.into_bytes()])])
    };
    let (first, second) = (limited("7"), limited("90"));
    let lanes = vec![chat_lane("one", &first), chat_lane("two", &second)];
    let gateway = TestGateway::start(configured(lanes, Mode::Off));
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("7")), "{}", answer.text());
}

#[test]
fn a_wait_until_a_date_is_kept() {
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ndate: Fri, 20 Nov 2026 10:00:00 GMT\r\nretry-after: Fri, 20 Nov 2026 10:10:00 GMT\r\ncontent-length: {}\r\n\r\n{BROKEN}",
        BROKEN.len()
    );
    let busy = Scripted::start(vec![Script::Send(vec![text.into_bytes()])]);
    let gateway = TestGateway::start(configured(vec![chat_lane("one", &busy)], Mode::Off));
    assert_eq!(post(gateway.address, PATH, WHOLE).header("retry-after"), Some("600"));
    let again = post(gateway.address, PATH, WHOLE);
    assert!(again.header("retry-after").is_some_and(|wait| matches!(wait, "599" | "600")), "{}", again.head);
    assert_eq!(busy.requests().len(), 1);
}

#[test]
fn a_race_that_a_limit_of_its_alias_makes_smaller_says_so() {
    let lanes: Vec<Scripted> = (0..3).map(|_| fails(0)).collect();
    let names = ["one", "two", "three"];
    let configs = lanes.iter().zip(names).map(|(lane, name)| chat_lane(name, lane)).collect();
    let mut config = configured(configs, Mode::Off);
    config.aliases[0].budget.extra_share = 0.1;
    let gateway = TestGateway::start(config);
    let race = |mode: &str| ask(gateway.address, "POST", PATH, &[("x-tokrate-mode", mode)], STREAM.as_bytes());
    let answer = race("race=3");
    assert_eq!(
        (answer.header("x-tokrate-attempts"), answer.header("x-tokrate-race-limit")),
        (Some("2"), Some("extra_share"))
    );
    for mode in ["off", "hedge"] {
        assert_eq!(race(mode).header("x-tokrate-race-limit"), None, "{mode}");
    }
    assert_eq!(post(gateway.address, PATH, WHOLE).header("x-tokrate-race-limit"), None);
}

#[test]
fn a_race_with_room_for_all_its_lanes_has_no_limit() {
    let lanes: Vec<Scripted> =
        (0..2).map(|_| Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])])).collect();
    let configs = lanes.iter().zip(["one", "two"]).map(|(lane, name)| chat_lane(name, lane)).collect();
    let gateway = TestGateway::start(configured(configs, Mode::Off));
    let answer = ask(gateway.address, "POST", PATH, &[("x-tokrate-mode", "race=2")], WHOLE.as_bytes());
    assert_eq!((answer.header("x-tokrate-attempts"), answer.header("x-tokrate-race-limit")), (Some("2"), None));
}

#[test]
fn an_edit_that_a_merge_engine_refuses_goes_to_the_next_lane_and_comes_back_if_there_is_none() {
    let refusal = r#"{"error":{"type":"apply_refused","code":"ambiguous","message":"two places fit","param":null}}"#;
    let merge = || Scripted::start(vec![Script::Send(vec![whole("422 Unprocessable Entity", refusal)])]);
    let (engine, model) = (merge(), fails(0));
    let lanes = vec![chat_lane("merge", &engine), chat_lane("model", &model)];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    for _ in 0..3 {
        assert_eq!(post(gateway.address, PATH, WHOLE).header("x-tokrate-winner"), Some("model"));
    }
    assert_eq!(engine.requests().len(), 3, "its refusals are no fault of its own");
    let first = &gateway.rows()[0];
    assert_eq!((first.lane.as_str(), first.sample.failure), ("merge", Some(FailureKind::EditRefused)));
    let alone = merge();
    let gateway = TestGateway::start(configured(vec![chat_lane("merge", &alone)], Mode::Off));
    let answer = post(gateway.address, PATH, WHOLE);
    assert_eq!((answer.status, answer.text().as_str()), (422, refusal));
}
