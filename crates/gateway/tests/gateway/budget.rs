//! Budgets of keys and of hedges: what concurrent calls can spend, what is refused, and what is released.

use crate::billing::{Bill, Gate, at_once, start};
use crate::client::{Answer, ask, post, read_answer_after, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, stream_head, whole};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokrate_admin::Admin;
use tokrate_core::{Money, Price, Span};
use tokrate_gateway::{
    BudgetConfig, Config, CurvePoint, Gateway, GatewayError, KeyConfig, KeyLimits, LogSettings, LoserPolicy, Mode,
    check_budgets, key_hash,
};
use tokrate_record::{Attempt, CostBasis};
use tokrate_wire::Dialect;

const CHAT: &[Dialect] = &[Dialect::OpenAiChat];
const TIMEOUT: Duration = Duration::from_secs(20);

/// A key `sk-k` with a monthly budget.
fn key(usd: f64) -> KeyConfig {
    let limits = KeyLimits { usd_per_month: Money::from_usd(usd), ..KeyLimits::default() };
    KeyConfig { name: "k".to_owned(), sha256: key_hash("sk-k"), aliases: Vec::new(), limits }
}

fn with_key(usd: f64, config: Config) -> Config {
    Config { keys: vec![key(usd)], ..config }
}

fn send(address: SocketAddr, path: &str, body: &str) -> Answer {
    ask(address, "POST", path, &[("authorization", "Bearer sk-k")], body.as_bytes())
}

fn chat(address: SocketAddr, more: &str) -> Answer {
    send(address, "/v1/chat/completions", &chat_body(more))
}

fn chat_body(more: &str) -> String {
    format!(r#"{{"model":"all","messages":[{{"role":"user","content":"hi"}}]{more}}}"#)
}

fn message(answer: &Answer) -> String {
    let json: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    json["error"]["message"].as_str().expect("OpenAI's form").to_owned()
}

/// The cost of the key's rows (USD).
fn spent(rows: &[Attempt]) -> f64 {
    rows.iter().filter(|row| row.key.as_deref() == Some("k")).filter_map(|row| row.sample.cost_usd).sum()
}

/// A lane that answers with 5 tokens in and 2 out: 9 millionths of a dollar.
fn answering() -> Scripted {
    Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])])
}

#[test]
fn a_count_of_tokens_that_no_answer_can_have_spends_nothing() {
    let counts = [
        r#"{"prompt_tokens":5,"completion_tokens":18446744073709551615}"#,
        r#"{"prompt_tokens":5,"completion_tokens":-1}"#,
    ];
    for counts in counts {
        let message = format!(
            r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":"yes"}},"finish_reason":"stop"}}],"usage":{counts}}}"#
        );
        let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", &message)])]);
        let config = with_key(10.0, configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
        let mut gateway = TestGateway::start(config);
        for _ in 0..2 {
            assert_eq!(chat(gateway.address, "").status, 200, "{counts}");
        }
        let rows = gateway.rows();
        assert!(rows.iter().all(|row| row.sample.cost_basis == CostBasis::Estimated), "{rows:?}");
        assert!(spent(&rows) < 1e-4, "{counts}: {}", spent(&rows));
    }
}

/// How the cost of each of two lanes' attempts is recorded, after one call in this mode that starts with the first.
fn costs(scripts: [Script; 2], loser: LoserPolicy, mode: Mode) -> Vec<(String, CostBasis, f64)> {
    let lanes = scripts.map(|script| Scripted::start(vec![script]));
    let lanes_of = ["one", "two"].into_iter().zip(&lanes).map(|(name, scripted)| {
        let mut lane = lane(name, scripted.address, CHAT);
        lane.loser = loser;
        lane
    });
    let mut gateway = TestGateway::start(configured(lanes_of.collect(), mode));
    let body = chat_body(r#","stream":true"#);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| ask(gateway.address, "POST", "/v1/chat/completions", &[], body.as_bytes()));
        // The second lane continues once the first has its request.
        while lanes[0].requests().is_empty() {
            std::thread::yield_now();
        }
        lanes[1].release();
        call.join().expect("an answer");
    });
    let mut rows = gateway.rows();
    rows.sort_by(|a, b| a.lane.cmp(&b.lane));
    rows.iter()
        .map(|row| (row.lane.clone(), row.sample.cost_basis, row.sample.cost_usd.expect("lanes have prices")))
        .collect()
}

/// A stream with text and no usage.
fn uncounted() -> Vec<u8> {
    stream(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"some words\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    )
}

#[test]
fn an_attempt_that_nobody_bills_is_free_and_any_other_is_estimated() {
    let message = || Script::SendHoldSend(Vec::new(), uncounted());
    let silent = || Script::SendAndStall(Vec::new());
    let race = || Mode::Race { lanes: 2 };
    let basis = |costs: &[(String, CostBasis, f64)], lane: usize| (costs[lane].1, costs[lane].2 > 0.0);
    // It lost before it answered, but it has read the prompt.
    let costs_of = costs([silent(), message()], LoserPolicy::CancelEstimate, race());
    assert_eq!(basis(&costs_of, 0), (CostBasis::Estimated, true), "{costs_of:?}");
    assert_eq!(basis(&costs_of, 1), (CostBasis::Estimated, true), "{costs_of:?}");
    // Where losers are free only they are.
    let costs_of = costs([silent(), message()], LoserPolicy::Free, race());
    assert_eq!(basis(&costs_of, 0), (CostBasis::Free, false), "{costs_of:?}");
    assert_eq!(basis(&costs_of, 1), (CostBasis::Estimated, true), "{costs_of:?}");
    // A refusal is free, and an answer that broke off is not.
    let refused = Script::Send(vec![whole("500 Internal Server Error", "{}")]);
    let costs_of = costs([refused, message()], LoserPolicy::CancelEstimate, Mode::Off);
    assert_eq!(basis(&costs_of, 0), (CostBasis::Free, false), "{costs_of:?}");
    let mut broken = stream_head();
    let event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"some\"}}]}\n\n";
    broken.extend_from_slice(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes());
    let costs_of = costs([Script::SendAndClose(broken), message()], LoserPolicy::CancelEstimate, Mode::Off);
    assert_eq!(basis(&costs_of, 0), (CostBasis::Estimated, true), "{costs_of:?}");
}

#[test]
fn the_reservation_covers_the_most_expensive_lane() {
    for dear_first in [true, false] {
        let lanes = [answering(), answering()];
        let mut of_lanes: Vec<_> =
            ["one", "two"].into_iter().zip(&lanes).map(|(name, lane_of)| lane(name, lane_of.address, CHAT)).collect();
        of_lanes[usize::from(!dear_first)].price = Price::from_usd_per_million(1.0, 2_000.0);
        let gateway = TestGateway::start(with_key(0.1, configured(of_lanes, Mode::Off)));
        let refused = chat(gateway.address, r#","max_tokens":100"#);
        assert_eq!(refused.status, 429, "100 tokens of the dear lane cost 0.2 USD, of which 0.1 are there");
        assert!(lanes.iter().all(|lane| lane.requests().is_empty()), "{}", message(&refused));
        assert_eq!(chat(gateway.address, r#","max_tokens":40"#).status, 200);
    }
}

#[test]
fn the_reservation_lasts_while_a_call_is_open() {
    let held = Script::SendHoldSend(Vec::new(), whole("200 OK", &chat_whole("yes")));
    let (expensive, cheap) = (Scripted::start(vec![held]), answering());
    let mut of_lanes = vec![lane("dear", expensive.address, CHAT), lane("cheap", cheap.address, CHAT)];
    of_lanes[0].price = Price::from_usd_per_million(1.0, 2_000.0);
    let gateway = TestGateway::start(with_key(0.3, configured(of_lanes, Mode::Off)));
    let limit = r#","max_tokens":100"#;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| chat(gateway.address, limit).status);
        while expensive.requests().is_empty() {
            std::thread::yield_now();
        }
        let second = scope.spawn(|| chat(gateway.address, limit).status);
        // A second call that is admitted waits as long as the first: wait until it was sent or refused.
        while expensive.requests().len() < 2 && !second.is_finished() {
            std::thread::yield_now();
        }
        expensive.release();
        expensive.release();
        assert_eq!(second.join().expect("an answer"), 429, "0.2 USD of 0.3 are held for the first");
        assert_eq!(first.join().expect("an answer"), 200);
    });
}

#[test]
fn refused_calls_use_no_tokens_of_a_key() {
    let refusing = Scripted::start(vec![Script::Send(vec![whole("400 Bad Request", "{}")])]);
    let mut config = configured(vec![lane("one", refusing.address, CHAT)], Mode::Off);
    let limits = KeyLimits { tokens_per_minute: Some(60), ..KeyLimits::default() };
    config.keys = vec![KeyConfig { limits, ..key(1.0) }];
    let gateway = TestGateway::start(config);
    for _ in 0..20 {
        assert_eq!(chat(gateway.address, r#","max_tokens":5"#).status, 400);
    }
}

#[test]
fn two_hundred_concurrent_calls_exceed_a_budget_by_one_answer_at_most() {
    const CLIENTS: usize = 200;
    let gate = Gate::of(CLIENTS);
    let address = start(1, &gate);
    let mut gateway = TestGateway::start(with_key(0.001, configured(vec![lane("one", address, CHAT)], Mode::Off)));
    let bill = Bill { input: 20, output: 90, first_fails: false };
    let body = format!(r#"{{"model":"all","messages":[{{"role":"user","content":"{}"}}]}}"#, bill.text());
    let answer_usd = (20.0 + 2.0 * 90.0) / 1e6;
    let answers = at_once(&gateway, &gate, "/v1/chat/completions", &vec![body.clone(); CLIENTS]);
    let good = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(good >= 1, "the first one may");
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 429)));
    // One after the other they use up all of it.
    let more = (0..20).take_while(|_| send(gateway.address, "/v1/chat/completions", &body).status == 200).count();
    assert!(good + more >= 4, "{good} and {more} calls of 0.0002 USD");
    let spent = spent(&gateway.rows());
    assert!(spent <= 0.001 + answer_usd + 1e-12, "{spent}");
}

#[test]
fn an_absurd_output_limit_is_refused_with_what_is_left() {
    let first_lane = answering();
    let gateway = TestGateway::start(with_key(1.0, configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off)));
    for more in [
        r#","max_tokens":18446744073709551615"#,
        r#","max_completion_tokens":18446744073709551615"#,
        r#","max_tokens":1000,"n":18446744073709551615"#,
        r#","max_tokens":1000,"n":1000"#,
        r#","max_tokens":1000,"n":-1"#,
    ] {
        let refused = chat(gateway.address, more);
        assert_eq!(refused.status, 429, "{more}: {}", refused.text());
        let message = message(&refused);
        for word in ["key `k`", "monthly budget", "0.00 of 1.00 USD spent", "the next month begins on 20", "-01"] {
            assert!(message.contains(word), "{more}: {message}");
        }
    }
    assert!(first_lane.requests().is_empty());
    assert_eq!(chat(gateway.address, r#","max_tokens":1000"#).status, 200);
}

#[test]
fn a_call_that_may_spend_the_whole_budget_blocks_others_until_it_ends_however_it_ends() {
    let events = chat_events(&["one"]);
    let stream_start = {
        let end = events.find("one").and_then(|at| Some(at + events[at..].find("\n\n")? + 2)).expect("an event");
        let mut bytes = stream_head();
        bytes.extend_from_slice(format!("{:x}\r\n{}\r\n", end, &events[..end]).as_bytes());
        bytes
    };
    // The first client disconnects, the second one's lane breaks, the third one's fails before its first token, the
    // rest is good.
    let first_lane = Scripted::start(vec![
        Script::SendAndStall(stream_start.clone()),
        Script::SendAndHold(stream_start),
        Script::Send(vec![whole("500 Internal Server Error", "{}")]),
        Script::Send(vec![stream(&events)]),
    ]);
    let gateway =
        TestGateway::start(with_key(0.01, configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off)));
    let body = r#"{"model":"all","stream":true,"messages":[]}"#;
    let begin = || {
        let mut stream = TcpStream::connect(gateway.address).expect("it listens");
        let headers = [("authorization", "Bearer sk-k")];
        stream.write_all(&request("POST", "/v1/chat/completions", &headers, body.as_bytes())).expect("it reads");
        let bytes = read_until(&mut stream, "\"one\"");
        (stream, bytes)
    };
    let again = || send(gateway.address, "/v1/chat/completions", body);
    let (leaver, _) = begin();
    assert_eq!(again().status, 429, "131072 tokens may cost more than is left");
    drop(leaver);
    first_lane.closed.recv_timeout(TIMEOUT).expect("the lane's connection is closed");
    let (mut other, bytes) = begin();
    assert_eq!(again().status, 429);
    first_lane.release();
    // The end of the answer arrives after the attempt was settled.
    let broken = read_answer_after(bytes, &mut other);
    assert!(broken.text().contains("\"error\""), "{}", broken.text());
    assert_eq!(again().status, 502);
    for _ in 0..3 {
        assert_eq!(again().status, 200);
    }
}

#[test]
fn further_attempts_start_only_if_the_budget_covers_the_most_they_can_cost() {
    let quick = || Script::Send(vec![whole("200 OK", &chat_whole("yes"))]);
    // 58 bytes and a template's tokens at 1 USD, a thousand output tokens at 2 USD a million: 2.4 thousandths at most.
    for (usd, attempts) in [(0.0030, 1), (0.0060, 2)] {
        let lanes = [Scripted::start(vec![quick()]), Scripted::start(vec![quick()])];
        let configs = lanes.iter().zip(["one", "two"]).map(|(at, name)| lane(name, at.address, CHAT)).collect();
        let mut gateway = TestGateway::start(with_key(usd, configured(configs, Mode::Race { lanes: 2 })));
        assert_eq!(chat(gateway.address, r#","max_tokens":1000"#).status, 200);
        assert_eq!(gateway.rows().len(), attempts, "of {usd} USD");
    }
    // An attempt that failed at no cost leaves its reservation to the next.
    let failing = Scripted::start(vec![Script::Send(vec![whole("500 Internal Server Error", "{}")])]);
    let good = Scripted::start(vec![quick()]);
    let lanes = vec![lane("failing", failing.address, CHAT), lane("good", good.address, CHAT)];
    let mut gateway = TestGateway::start(with_key(0.0030, configured(lanes, Mode::Off)));
    assert_eq!(chat(gateway.address, r#","max_tokens":1000"#).status, 200);
    assert_eq!(gateway.rows().len(), 2);
}

#[test]
fn a_call_reserves_for_the_most_expensive_lane_it_may_go_to() {
    let (cheap, expensive) = (answering(), answering());
    let mut lanes = vec![lane("cheap", cheap.address, CHAT), lane("dear", expensive.address, CHAT)];
    lanes[1].price = Price::from_usd_per_million(100.0, 200.0);
    let gateway = TestGateway::start(with_key(0.01, configured(lanes, Mode::Off)));
    assert_eq!(
        chat(gateway.address, r#","max_tokens":1000"#).status,
        429,
        "`fixed` would go to the cheap one, which may fail"
    );
    let alone = r#"{"model":"cheap","max_tokens":1000,"messages":[]}"#;
    assert_eq!(send(gateway.address, "/v1/chat/completions", alone).status, 200);
    assert!(expensive.requests().is_empty());
}

#[test]
fn the_reservation_is_lowered_once_a_cheaper_lane_is_chosen() {
    let events = chat_events(&["one"]);
    let cut = events.find("one").and_then(|at| Some(at + events[at..].find("\n\n")? + 2)).expect("an event");
    let stream_start = [stream_head(), format!("{cut:x}\r\n{}\r\n", &events[..cut]).into_bytes()].concat();
    let cheap = Scripted::start(vec![Script::SendAndStall(stream_start), Script::Send(vec![stream(&events)])]);
    let expensive = answering();
    let mut lanes = vec![lane("cheap", cheap.address, CHAT), lane("dear", expensive.address, CHAT)];
    lanes[1].price = Price::from_usd_per_million(100.0, 200.0);
    // The expensive lane may bill 0.2 USD and some for the prompt.
    let gateway = TestGateway::start(with_key(0.3, configured(lanes, Mode::Off)));
    let body = chat_body(r#","stream":true,"max_tokens":1000"#);
    let mut first = TcpStream::connect(gateway.address).expect("it listens");
    let headers = [("authorization", "Bearer sk-k")];
    first.write_all(&request("POST", "/v1/chat/completions", &headers, body.as_bytes())).expect("it reads");
    read_until(&mut first, "\"one\"");
    assert_eq!(send(gateway.address, "/v1/chat/completions", &body).status, 200);
    assert!(expensive.requests().is_empty());
}

#[test]
fn the_reservation_of_an_attempt_that_never_starts_is_released() {
    let lanes = [answering(), answering()];
    let configs = lanes.iter().zip(["one", "two"]).map(|(at, name)| lane(name, at.address, CHAT)).collect();
    let mut config = configured(configs, Mode::Race { lanes: 2 });
    config.aliases[0].budget.extra_share = 0.0;
    // Room for two attempts of a thousand tokens, or for one of two thousand.
    let mut gateway = TestGateway::start(with_key(0.005, config));
    assert_eq!(chat(gateway.address, r#","max_tokens":1000"#).status, 200);
    assert_eq!(chat(gateway.address, r#","max_tokens":2000"#).status, 200);
    assert_eq!(gateway.rows().len(), 2);
}

#[test]
fn a_reservation_counts_the_bytes_the_template_and_the_text_before_tools() {
    for (more, put_before) in [("", 256), (r#","tools":[]"#, 256 + 1_024)] {
        let more = format!(r#"{more},"max_tokens":1000"#);
        let most_usd = (chat_body(&more).len() + put_before) as f64 / 1e6 + 1_000.0 * 2.0 / 1e6;
        let status = |usd: f64| {
            let first_lane = answering();
            let gateway =
                TestGateway::start(with_key(usd, configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off)));
            chat(gateway.address, &more).status
        };
        assert_eq!([most_usd, most_usd - 1e-9].map(status), [200, 429], "{more}");
    }
}

#[test]
fn a_call_that_refers_to_content_outside_its_body_reserves_the_longest_prompt() {
    let chat_path = "/v1/chat/completions";
    let picture = r#"{"model":"all","max_tokens":1000,"messages":[{"role":"user","content":
        [{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}"#;
    let stored = r#"{"model":"all","max_output_tokens":1000,"prompt":{"id":"pmpt_1"}}"#;
    let plain = chat_body(r#","max_tokens":1000"#);
    for (path, body, other) in [(chat_path, &*plain, 200), (chat_path, picture, 429), ("/v1/responses", stored, 429)] {
        let answer = Script::Send(vec![whole("200 OK", &chat_whole("yes"))]);
        let first_lane = Scripted::start(vec![Script::SendAndStall(Vec::new()), answer]);
        let dialects = [Dialect::OpenAiChat, Dialect::OpenAiResponses];
        // A prompt of a million tokens costs a dollar, so nothing else may start beside it.
        let gateway =
            TestGateway::start(with_key(0.01, configured(vec![lane("one", first_lane.address, &dialects)], Mode::Off)));
        let mut first = TcpStream::connect(gateway.address).expect("it listens");
        let headers = [("authorization", "Bearer sk-k")];
        first.write_all(&request("POST", path, &headers, body.as_bytes())).expect("it reads");
        let stream_start = Instant::now();
        while first_lane.requests().is_empty() {
            assert!(stream_start.elapsed() < TIMEOUT, "never asked: {body}");
            std::thread::yield_now();
        }
        assert_eq!(send(gateway.address, chat_path, &plain).status, other, "{body}");
    }
}

#[test]
fn a_lane_that_reads_only_max_tokens_is_reserved_by_that() {
    let status = |max_tokens_field: bool| {
        let first_lane = answering();
        let mut spoken = lane("one", first_lane.address, CHAT);
        spoken.endpoints[0].max_tokens_field = max_tokens_field;
        let gateway = TestGateway::start(with_key(0.003, configured(vec![spoken], Mode::Off)));
        chat(gateway.address, r#","max_tokens":1000,"max_completion_tokens":1000000"#).status
    };
    assert_eq!([true, false].map(status), [200, 429]);
}

#[test]
fn a_key_with_a_budget_cannot_use_lanes_without_a_known_price() {
    let (unknown, free, priced) = (answering(), answering(), answering());
    let mut lanes = vec![lane("unknown", unknown.address, CHAT), lane("free", free.address, CHAT)];
    lanes.push(lane("priced", priced.address, CHAT));
    lanes[0].price = None;
    lanes[1].price = Some(Price::default());
    let mut config = with_key(1e-6, configured(lanes, Mode::Off));
    config.aliases[0].lanes = vec![0, 1];
    let warnings = check_budgets(&config).expect("it can be kept");
    assert!(warnings[0].contains("lane `unknown`") && warnings[0].contains("[gateway.lanes.unknown]"), "{warnings:?}");
    assert!(warnings[1].contains("lane `priced`") && warnings[1].contains("max_output_tokens"), "{warnings:?}");
    assert_eq!(warnings.len(), 2);
    let gateway = TestGateway::start(config);
    assert_eq!(chat(gateway.address, "").header("x-tokrate-winner"), Some("free"));
    let body = r#"{"model":"unknown","messages":[]}"#;
    let refused = send(gateway.address, "/v1/chat/completions", body);
    assert_eq!(refused.status, 403);
    let message = message(&refused);
    assert!(message.contains("(unknown)") && message.contains("`price` under [gateway.lanes.unknown]"), "{message}");
    assert!(unknown.requests().is_empty());
}

#[test]
fn a_budget_that_a_restart_would_forget_is_refused() {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let config = with_key(1.0, configured(vec![lane("one", at, CHAT)], Mode::Off));
    let without = Config { log: None, ..config.clone() };
    let message = |config: Config| Gateway::start(config, Admin::new).map(|_| ()).expect_err("it forgets").to_string();
    assert!(matches!(check_budgets(&without), Err(GatewayError::BudgetWithoutLog(_))));
    assert!(message(without).contains("`log = \"off\"`"));
    let mut short = config;
    short.log = short.log.map(|log| LogSettings { retention: Some(Span::from_secs(86_400)), ..log });
    assert!(message(short).contains("`log_retention`"));
}

#[test]
fn a_log_that_keeps_its_rows_for_the_longest_month_is_enough_for_a_budget_and_no_less() {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let config = with_key(1.0, configured(vec![lane("one", at, CHAT)], Mode::Off));
    let is_kept = |retention: Span| {
        let log = config.log.clone().map(|log| LogSettings { retention: Some(retention), ..log });
        check_budgets(&Config { log, ..config.clone() }).is_ok()
    };
    let days = Span::from_secs(31 * 86_400);
    assert_eq!([days, days - Span::from_nanos(1)].map(is_kept), [true, false]);
}

#[test]
fn warnings_name_lanes_that_a_key_may_reach_and_answers_beyond_its_budget() {
    let at = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut lanes = ["one", "two", "three"].map(|name| lane(name, at, CHAT));
    lanes.iter_mut().for_each(|lane| lane.token_limits.output = Some(1_000));
    let mut config = configured(lanes.to_vec(), Mode::Off);
    config.aliases[0].lanes = vec![0];
    let warned = |usd: f64, names: &[&str]| {
        let mut config = with_key(usd, config.clone());
        config.keys[0].aliases = names.iter().map(|name| (*name).to_owned()).collect();
        check_budgets(&config).expect("it can be kept").len()
    };
    assert_eq!(warned(0.002, &[]), 0, "a thousand tokens cost just that");
    let names: [&[&str]; 5] = [&[], &["all"], &["two"], &["provider-three/model-three"], &["all", "two"]];
    assert_eq!(names.map(|names| warned(0.0019, names)), [3, 1, 1, 1, 2]);
}

#[test]
fn what_a_key_has_spent_outlives_a_restart_a_new_secret_and_new_settings() {
    let first_lane = answering();
    let usd = 0.004;
    let config = with_key(usd, configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off));
    let mut gateway = TestGateway::start(config.clone());
    // An answer of 9 millionths for one that may cost 0.0024 at most.
    let mut calls = 0;
    while chat(gateway.address, r#","max_tokens":1000"#).status == 200 {
        calls += 1;
        assert!(calls < 400, "the budget has no end");
    }
    assert!(gateway.rows().len() == calls && calls > 100, "{calls}");
    gateway.restart(config.clone());
    assert_eq!(chat(gateway.address, r#","max_tokens":1000"#).status, 429, "read back from the log");
    let mut renewed = config.clone();
    renewed.keys[0].sha256 = key_hash("sk-new");
    let running = gateway.running.as_ref().expect("it runs");
    running.reconfigure(&renewed).expect("it is in order");
    let body = chat_body(r#","max_tokens":1000"#);
    let new = [("x-api-key", "sk-new")];
    let refused = ask(gateway.address, "POST", "/v1/chat/completions", &new, body.as_bytes());
    assert_eq!(refused.status, 429, "a new secret is no new budget");
    // A key that had no limit when the gateway started gets one.
    let mut unlimited = config.clone();
    unlimited.keys[0].limits = KeyLimits::default();
    gateway.restart(unlimited);
    assert_eq!(chat(gateway.address, r#","max_tokens":1000"#).status, 200);
    gateway.running.as_ref().expect("it runs").reconfigure(&config).expect("it is in order");
    assert_eq!(chat(gateway.address, r#","max_tokens":1000"#).status, 429, "what was spent before counts");
}

#[test]
fn tokens_per_minute_reserve_what_may_be_written_and_release_what_was_not() {
    let first_lane = answering();
    let mut config = configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off);
    let limits = KeyLimits { tokens_per_minute: Some(3_000), ..KeyLimits::default() };
    config.keys = vec![KeyConfig { limits, ..key(1.0) }];
    let gateway = TestGateway::start(config);
    let refused = chat(gateway.address, r#","max_tokens":1000,"n":4"#);
    assert_eq!((refused.status, refused.header("retry-after")), (429, None));
    assert!(
        message(&refused).contains("may use 3000 tokens per minute, and this call may need 40"),
        "{}",
        refused.text()
    );
    for _ in 0..20 {
        assert_eq!(chat(gateway.address, r#","max_tokens":2000"#).status, 200, "only 7 tokens were used each time");
    }
}

#[test]
fn a_key_that_has_used_up_its_tokens_or_its_budget_learns_which_and_when_to_retry() {
    let answer = chat_whole("yes").replace(r#""prompt_tokens":5"#, r#""prompt_tokens":2900"#);
    let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", &answer)])]);
    let refused = |limits: KeyLimits| {
        let mut config = configured(vec![lane("one", first_lane.address, CHAT)], Mode::Off);
        config.keys = vec![KeyConfig { limits, ..key(1.0) }];
        let gateway = TestGateway::start(config);
        let statuses = [(); 2].map(|()| chat(gateway.address, r#","max_tokens":1000"#));
        let [first, second] = statuses;
        assert_eq!((first.status, second.status), (200, 429), "{}", second.text());
        (second.header("retry-after").is_some(), message(&second))
    };
    let (is_timed, message) = refused(KeyLimits { tokens_per_minute: Some(3_000), ..KeyLimits::default() });
    assert!(is_timed && message == "key `k` has reached its limit of tokens per minute", "{message}");
    let (is_timed, message) = refused(key(0.0025).limits);
    assert!(!is_timed && message.contains("has spent its monthly budget: 0.002904 of 0.0025 USD spent"), "{message}");
}

#[test]
fn tokens_read_from_and_written_to_a_cache_have_their_own_prices() {
    let body = r#"{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":100,"cache_read_input_tokens":600,"cache_creation_input_tokens":300,"output_tokens":10}}"#;
    let cost = |price: Price| {
        let first_lane = Scripted::start(vec![Script::Send(vec![whole("200 OK", body)])]);
        let mut spoken = lane("one", first_lane.address, &[Dialect::Anthropic]);
        spoken.price = Some(price);
        let mut gateway = TestGateway::start(configured(vec![spoken], Mode::Off));
        let send = r#"{"model":"all","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
        assert_eq!(post(gateway.address, "/v1/messages", send).status, 200);
        let rows = gateway.rows();
        assert_eq!(rows[0].sample.cost_basis, CostBasis::Reported);
        rows[0].sample.cost_usd.expect("a price") * 1e6
    };
    let [cached_input, cache_write] = [0.3, 6.0].map(Money::from_usd);
    let price = Price { cached_input, cache_write, ..Price::from_usd_per_million(3.0, 15.0).expect("a price") };
    let close = |cost: f64, wanted: f64| assert!((cost - wanted).abs() < 1e-6, "{cost} against {wanted}");
    close(cost(price), 100.0 * 3.0 + 600.0 * 0.3 + 300.0 * 6.0 + 10.0 * 15.0);
    let unsaid = Price { cached_input: None, cache_write: None, ..price };
    close(cost(unsaid), 700.0 * 3.0 + 300.0 * 3.75 + 10.0 * 15.0);
}

/// Calls two lanes of which the first is slow; returns the winner and the number of attempts. The slow lane continues
/// once the other has its request, or at once if there is to be no other.
fn race_a_slow_lane(mode: Mode, budget: BudgetConfig, is_single: bool) -> (Option<String>, usize) {
    let slow = Scripted::start(vec![Script::SendHoldSend(Vec::new(), stream(&chat_events(&["slow"])))]);
    let quick = Scripted::start(vec![Script::Send(vec![stream(&chat_events(&["quick"]))])]);
    let mut lanes = vec![lane("slow", slow.address, CHAT), lane("quick", quick.address, CHAT)];
    // The curve of the slow lane promises a token within a millisecond.
    lanes[0].curve = vec![CurvePoint {
        in_flight: 1,
        prompt_tokens: 10,
        ttft: Span::from_millis(1),
        ttft_p90: Span::from_millis(1),
        output_speed: 1_000.0,
        n: 20,
    }];
    let mut config = configured(lanes, mode);
    config.aliases[0].budget = budget;
    let mut gateway = TestGateway::start(config);
    if is_single {
        slow.release();
    }
    let body = r#"{"model":"all","stream":true,"messages":[]}"#;
    let answer = post(gateway.address, "/v1/chat/completions", body);
    assert_eq!(answer.status, 200);
    (answer.header("x-tokrate-winner").map(str::to_owned), gateway.rows().len())
}

#[test]
fn further_attempts_start_only_within_the_budget_of_their_alias() {
    let plenty = BudgetConfig { extra_share: 1.0, burst: 10.0, ..BudgetConfig::default() };
    let two = (Some("quick".to_owned()), 2);
    assert_eq!(race_a_slow_lane(Mode::Hedge, plenty, false), two);
    assert_eq!(race_a_slow_lane(Mode::Race { lanes: 2 }, plenty, false), two);
    // A race starts both at once: whether it may is decided before either answers.
    let one = (Some("slow".to_owned()), 1);
    for budget in [
        BudgetConfig { extra_share: 0.0, ..plenty },
        BudgetConfig { max_extra_usd_per_hour: Some(1e-9), ..plenty },
        BudgetConfig { max_extra_cost_pct: Some(100.0), ..plenty },
    ] {
        assert_eq!(race_a_slow_lane(Mode::Race { lanes: 2 }, budget, true), one, "{budget:?}");
    }
    // The expected cost of one: 13 prompt tokens at 1 USD a million, and 256 of output at 2.
    assert_eq!(
        race_a_slow_lane(
            Mode::Race { lanes: 2 },
            BudgetConfig { max_extra_usd_per_hour: Some(0.001), ..plenty },
            false
        ),
        two
    );
}

/// Calls of about a thousand tokens raced on two lanes, of which the first answers the last call alone and the second each; how
/// many attempts there were. Dollars a million tokens of a prompt, and dollars an hour that extra attempts may cost.
fn raced(calls: usize, prices: [f64; 2], usd_per_hour: f64) -> usize {
    let mut silent = vec![Script::SendAndStall(Vec::new()); calls - 1];
    silent.push(Script::Send(vec![uncounted()]));
    let (first, second) =
        (Scripted::start(silent), Scripted::start(vec![Script::SendHoldSend(Vec::new(), uncounted())]));
    let mut lanes = vec![lane("one", first.address, CHAT), lane("two", second.address, CHAT)];
    for (lane, input) in lanes.iter_mut().zip(prices) {
        lane.price = Price::from_usd_per_million(input, 2.0);
    }
    let mut config = configured(lanes, Mode::Race { lanes: 2 });
    let budget = BudgetConfig { extra_share: 1.0, burst: 10.0, ..BudgetConfig::default() };
    config.aliases[0].budget = BudgetConfig { max_extra_usd_per_hour: Some(usd_per_hour), ..budget };
    let mut gateway = TestGateway::start(config);
    let words = "word ".repeat(1_000);
    let body = format!(r#"{{"model":"all","stream":true,"messages":[{{"role":"user","content":"{words}"}}]}}"#);
    let address = gateway.address;
    for asked in 1..=calls {
        std::thread::scope(|scope| {
            let call = scope.spawn(|| post(address, "/v1/chat/completions", &body).status);
            // The second answers once the first has its request: one that is cancelled before would not count.
            while first.requests().len() < asked {
                std::thread::yield_now();
            }
            second.release();
            assert_eq!(call.join().expect("an answer"), 200);
        });
    }
    gateway.rows().len()
}

#[test]
fn the_budget_hears_what_lost_as_extra_and_what_won_as_paid() {
    // The one that was asked first is dear and loses: 0.1 USD were spent on racing, and another 0.1 may not be.
    assert_eq!(raced(2, [100.0, 0.001], 0.18), 3);
    // The extra one is dear and wins each: nothing was spent on racing, however often.
    assert_eq!(raced(5, [0.001, 100.0], 0.45), 10);
}

#[test]
fn a_row_tells_who_answered_how_long_it_took_and_what_was_counted() {
    let lane_one = Scripted::start(vec![Script::Send(vec![uncounted()])]);
    let mut gateway = TestGateway::start(configured(vec![lane("one", lane_one.address, CHAT)], Mode::Off));
    assert_eq!(post(gateway.address, "/v1/chat/completions", &chat_body(r#","stream":true"#)).status, 200);
    let row = gateway.rows().remove(0);
    assert_eq!(row.sample.provider, "provider-one");
    let wait_ns = row.sample.wait_ns.expect("it was sent");
    assert!(0 < wait_ns && wait_ns < row.sample.total_ns, "{row:?}");
    // The provider does not say how many they were.
    assert!(row.sample.input_tokens_std.is_some_and(|tokens| tokens > 0), "{row:?}");
}
