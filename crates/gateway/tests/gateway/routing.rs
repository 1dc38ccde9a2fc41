//! Which lane a call goes to, what the router learns while an answer runs, and what the head of an answer says of a race.

use crate::client::{ask, post, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, chat_events, chat_whole, stream, stream_head, whole};
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;
use tokrate_core::Span;
use tokrate_gateway::{AliasConfig, CurvePoint, LaneConfig, Mode, Policy, WinRule};
use tokrate_record::{Attempt, AttemptEnd, Sample};
use tokrate_store::Sqlite;
use tokrate_wire::Dialect;

const PATH: &str = "/v1/chat/completions";
const STREAM: &str = r#"{"model":"all","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}"#;

fn chat_lane(name: &str, scripted: &Scripted) -> LaneConfig {
    lane(name, scripted.address, &[Dialect::OpenAiChat])
}

/// A lane with a curve: its time to first token and its tokens per second.
fn measured(name: &str, scripted: &Scripted, ttft: Span, output_speed: f64) -> LaneConfig {
    let point = CurvePoint { in_flight: 1, prompt_tokens: 10, ttft, ttft_p90: ttft, output_speed, n: 20 };
    LaneConfig { curve: vec![point], ..chat_lane(name, scripted) }
}

fn answering() -> Scripted {
    Scripted::start(vec![Script::Send(vec![whole("200 OK", &chat_whole("yes"))])])
}

/// A stream up to its word `one`, as a chunk.
fn stream_start() -> Vec<u8> {
    let events = chat_events(&["one"]);
    let end = events.find("one").and_then(|at| Some(at + events[at..].find("\n\n")? + 2)).expect("an event");
    let mut bytes = stream_head();
    bytes.extend_from_slice(format!("{end:x}\r\n{}\r\n", &events[..end]).as_bytes());
    bytes
}

/// Sends a request for a stream, and leaves its connection open.
fn begin(gateway: &TestGateway) -> TcpStream {
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", PATH, &[], STREAM.as_bytes())).expect("it reads");
    client
}

#[test]
fn an_answer_of_unknown_length_goes_where_a_long_one_is_complete_first() {
    for (limit, winner) in [("", "quick"), (r#""max_tokens":1,"#, "early")] {
        let lanes = [answering(), answering()];
        let mut config = configured(
            vec![
                measured("early", &lanes[0], Span::from_millis(100), 10.0),
                measured("quick", &lanes[1], Span::from_millis(1_000), 1_000.0),
            ],
            Mode::Off,
        );
        config.aliases[0].policy = Policy::OwnCompletion;
        let gateway = TestGateway::start(config);
        let body = format!(r#"{{"model":"all",{limit}"messages":[]}}"#);
        let answer = post(gateway.address, PATH, &body);
        assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some(winner)), "{body}");
    }
}

/// A row of the log: a streamed answer of the lane, begun just now.
fn logged(lane: &LaneConfig, ttft: Span, output_speed: f64) -> Attempt {
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let sample = Sample {
        started_unix_ms: u64::try_from(started.as_millis()).expect("small"),
        provider: lane.provider.clone(),
        model: lane.model.clone(),
        in_flight: 1,
        ttft_ns: Some(ttft.as_nanos()),
        output_speed: Some(output_speed),
        input_tokens: Some(10),
        ..Sample::default()
    };
    Attempt { lane: lane.name.clone(), sample, ..Attempt::default() }
}

#[test]
fn after_a_restart_a_call_goes_where_the_log_says_that_it_is_complete_first() {
    let lanes = [answering(), answering()];
    let (slow, quick) = (chat_lane("slow", &lanes[0]), chat_lane("quick", &lanes[1]));
    let mut rows: Vec<Attempt> = (0..20).map(|_| logged(&slow, Span::from_millis(900), 20.0)).collect();
    rows.extend((0..20).map(|_| logged(&quick, Span::from_millis(100), 200.0)));
    // What the lane's name stood for before says nothing of it.
    let other = LaneConfig { model: "another".to_owned(), ..slow.clone() };
    rows.extend((0..50).map(|_| logged(&other, Span::from_millis(1), 5_000.0)));
    let mut config = configured(vec![slow, quick], Mode::Off);
    config.aliases[0].policy = Policy::OwnCompletion;
    let path = &config.log.as_ref().expect("a log").path;
    Sqlite::open(path).expect("a file").append(&rows).expect("rows");
    let gateway = TestGateway::start(config);
    let answer = post(gateway.address, PATH, r#"{"model":"all","messages":[]}"#);
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("quick")));
}

#[test]
fn the_router_knows_of_a_first_token_while_its_stream_still_runs() {
    let silent =
        Scripted::start(vec![Script::SendAndStall(Vec::new()), Script::Send(vec![stream(&chat_events(&["no"]))])]);
    let first = stream_start();
    let talking =
        Scripted::start(vec![Script::SendAndStall(first), Script::Send(vec![stream(&chat_events(&["yes"]))])]);
    let mut config = configured(vec![chat_lane("silent", &silent), chat_lane("talking", &talking)], Mode::Off);
    config.aliases[0].policy = Policy::PeakEwma;
    let gateway = TestGateway::start(config);
    // Both lanes are unknown: the first call goes to the first lane, the second to the one that is not busy.
    let _waiting = begin(&gateway);
    while silent.requests().is_empty() {
        std::thread::yield_now();
    }
    let mut running = begin(&gateway);
    read_until(&mut running, "\"one\"");
    // Both are busy; of one it is known that it answers.
    let answer = post(gateway.address, PATH, STREAM);
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("talking")));
}

#[test]
fn how_long_a_first_token_was_held_back_is_overhead_of_the_gateway() {
    // Of lanes of which nothing is known, too few tokens come in this time to say who is faster.
    const WINDOW: Span = Span::from_millis(250);
    let slow = Scripted::start(vec![Script::SendAndStall(stream_start())]);
    let silent = Scripted::start(vec![Script::SendAndStall(Vec::new())]);
    let mut config = configured(vec![chat_lane("slow", &slow), chat_lane("silent", &silent)], Mode::Race { lanes: 2 });
    config.aliases[0].win = WinRule::default();
    let mut gateway = TestGateway::start(config);
    let began = Instant::now();
    let head = read_until(&mut begin(&gateway), "\"one\"");
    let took = began.elapsed().as_micros() as u64;
    let head = String::from_utf8_lossy(&head).into_owned();
    let overhead = head.lines().find_map(|line| line.strip_prefix("x-tokrate-overhead-us: "));
    let overhead: u64 = overhead.and_then(|overhead| overhead.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    assert!((WINDOW.as_nanos() / 1_000..=took).contains(&overhead), "{overhead} of {took} us");
    let hold = head.lines().find_map(|line| line.strip_prefix("x-tokrate-hold-ms: "));
    let hold: f64 = hold.and_then(|hold| hold.parse().ok()).unwrap_or_else(|| panic!("{head}"));
    assert!((250.0..=overhead as f64 / 1e3).contains(&hold), "{hold} ms of {overhead} us");
    let rows = gateway.rows();
    let held: Vec<(bool, Option<u64>)> = rows.iter().map(|row| (row.won, row.hold_ns)).collect();
    let [(true, Some(kept)), (false, None)] = held[..] else { panic!("of the winner alone: {held:?}") };
    assert!((kept as f64 / 1e6 - hold).abs() < 1.0, "{kept} ns, and {hold} ms in the head");
}

#[test]
fn a_race_is_won_by_the_lane_that_is_expected_to_complete_first_whichever_token_comes_first() {
    for win in [WinRule::default(), WinRule::FirstToken] {
        let slow = Scripted::start(vec![Script::SendAndStall(stream_start())]);
        let fast = Scripted::start(vec![Script::SendHoldSend(Vec::new(), stream(&chat_events(&["yes"])))]);
        let slow_lane = measured("slow", &slow, Span::from_millis(1), 1.0);
        let mut config =
            configured(vec![slow_lane, measured("fast", &fast, Span::from_secs(20), 1_000.0)], Mode::Race { lanes: 2 });
        config.aliases[0].win = win;
        let gateway = TestGateway::start(config);
        let mut client = begin(&gateway);
        while slow.requests().is_empty() || fast.requests().is_empty() {
            std::thread::yield_now();
        }
        if win != WinRule::FirstToken {
            fast.release();
        }
        let head = read_until(&mut client, "\r\n\r\n");
        let winner = if win == WinRule::FirstToken { "slow" } else { "fast" };
        let head = String::from_utf8_lossy(&head).into_owned();
        assert!(head.contains(&format!("x-tokrate-winner: {winner}\r\n")), "{head}");
    }
}

#[test]
fn what_a_failed_attempt_cost_is_no_cost_of_a_race() {
    let usage = r#"data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}"#;
    let error = r#"data: {"error":{"message":"overloaded","type":"server_error"}}"#;
    let bad = Scripted::start(vec![Script::Send(vec![stream(&format!("{usage}\n\n{error}\n\n"))])]);
    let good = Scripted::start(vec![Script::Send(vec![stream(&chat_events(&["yes"]))])]);
    let lanes = vec![chat_lane("bad", &bad), chat_lane("good", &good)];
    let mut gateway = TestGateway::start(configured(lanes, Mode::Off));
    let answer = ask(gateway.address, "POST", PATH, &[], STREAM.as_bytes());
    assert_eq!((answer.status, answer.header("x-tokrate-winner")), (200, Some("good")));
    assert_eq!(answer.header("x-tokrate-race-cost-usd"), Some("0.00000000"), "one after the other, not side by side");
    let failed = &gateway.rows()[0];
    assert_eq!((failed.end, failed.sample.cost_usd), (AttemptEnd::Failed, Some((5.0 + 2.0 * 2.0) / 1e6)));
}

#[test]
fn a_model_that_is_unknown_is_the_role_of_its_instructions_only_where_the_settings_say_so() {
    let body = |system: &str| {
        format!(
            r#"{{"model":"gpt-unheard-of","messages":[{{"role":"system","content":"{system}"}},{{"role":"user","content":"hi"}}]}}"#
        )
    };
    let asked = [("You are a file search specialist.", "search"), ("You are a coding agent.", "reason")];
    for by_prompt in [false, true] {
        let (one, two) = (answering(), answering());
        let mut config = configured(vec![chat_lane("one", &one), chat_lane("two", &two)], Mode::Off);
        config.role_by_system_prompt = by_prompt;
        for (lane, name) in ["reason", "search"].into_iter().enumerate() {
            let alias = AliasConfig { name: name.to_owned(), lanes: vec![lane], ..config.aliases[0].clone() };
            config.aliases.push(alias);
        }
        let mut gateway = TestGateway::start(config);
        for (system, _) in asked {
            let answer = post(gateway.address, PATH, &body(system));
            assert_eq!(answer.status, if by_prompt { 200 } else { 404 }, "{}", answer.text());
        }
        // There is no alias of that name.
        assert_eq!(post(gateway.address, PATH, &body("Summarize the conversation.")).status, 404);
        let aliases: Vec<String> = gateway.rows().into_iter().map(|row| row.alias).collect();
        let expected: Vec<&str> = asked.iter().map(|(_, alias)| *alias).filter(|_| by_prompt).collect();
        assert_eq!(aliases, expected);
    }
}
