//! Every path of the tables that the gateway routes by, against the limits and budgets of keys: a path that nothing is said of here
//! fails a test.
//!
//! Invariant: what is asked for is made from the tables themselves, so that no path can be forgotten.

use crate::api::{ALL, FORM, asked, fees, form, service_rows};
use crate::background::QUEUED;
use crate::billing::{Bill, Gate, at_once, start};
use crate::client::{Answer, ask, read_answer, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::random_calls::{LONGEST, RandomCall, random_call};
use crate::realtime::{MASK, TURN, answering, open_path, opening, text};
use crate::scripted::{Script, Scripted, read_request, whole};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use tokrate_core::{Money, Price, Span};
use tokrate_gateway::{
    Config, KeyConfig, KeyLimits, LaneConfig, LoserPolicy, Mode, RouteKind, RouteRow, SentBody, TokenLimits, key_hash,
    routes,
};
use tokrate_record::Attempt;
use tokrate_wire::websocket::{FrameReader, Message, close_frame};
use tokrate_wire::{Dialect, RequestPeek, Shape};

const BEARER: (&str, &str) = ("authorization", "Bearer sk-k");
/// Only a fault of the test or the gateway makes anything wait this long.
const TIMEOUT: Duration = Duration::from_secs(20);

fn with_limits(limits: KeyLimits, config: Config) -> Config {
    let key = KeyConfig { name: "k".to_owned(), sha256: key_hash("sk-k"), aliases: Vec::new(), limits };
    Config { keys: vec![key], ..config }
}

fn with_budget(usd: f64, config: Config) -> Config {
    with_limits(KeyLimits { usd_per_month: Money::from_usd(usd), ..KeyLimits::default() }, config)
}

fn spent(rows: &[Attempt]) -> f64 {
    rows.iter().filter_map(|row| row.sample.cost_usd).sum()
}

/// Runs a property on a path, with the same cases each time.
fn run<C: Strategy>(row: &RouteRow, cases: u32, case: C, property: impl Fn(&C::Value) -> Result<(), TestCaseError>) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let run = runner.run(&case, |case| property(&case));
    run.unwrap_or_else(|error| panic!("{row:?}: {error}"));
}

/// Holds what concurrent calls of a path can spend against a budget.
fn keeps_within_budget(row: &RouteRow) {
    match row.kind {
        RouteKind::Text(dialect, shape) => run(row, 6, texts(), |case| text_keeps_within(row, (dialect, shape), case)),
        RouteKind::Service(..) => run(row, 4, services(), |case| service_keeps_within(row, case)),
        RouteKind::Session => run(row, 6, sessions(), |case| session_keeps_within(row, case)),
        RouteKind::Stored => run(row, 4, jobs(), |case| job_keeps_within(row, case)),
        RouteKind::Own => reaches_no_lane(row),
    }
}

#[test]
fn on_every_path_of_text_concurrent_calls_exceed_a_budget_by_one_answer_at_most() {
    routes().iter().filter(|row| matches!(row.kind, RouteKind::Text(..))).for_each(keeps_within_budget);
}

#[test]
fn on_every_path_of_a_service_concurrent_calls_keep_within_a_budget() {
    routes().iter().filter(|row| matches!(row.kind, RouteKind::Service(..))).for_each(keeps_within_budget);
}

#[test]
fn on_every_other_path_concurrent_calls_keep_within_a_budget() {
    let is_other = |row: &&RouteRow| !matches!(row.kind, RouteKind::Text(..) | RouteKind::Service(..));
    routes().iter().filter(is_other).for_each(keeps_within_budget);
}

/// Calls, the prices of input and output of two lanes, the budget as a share of what all calls could cost at most (percent), the mode,
/// and whether losers are read on.
type Texts = (Vec<RandomCall>, [(f64, f64); 2], u64, usize, bool);

fn texts() -> impl Strategy<Value = Texts> {
    let price = || (0.0..20.0, 0.0..60.0);
    let prices = (price(), price()).prop_map(|(one, other)| [one, other]);
    (proptest::collection::vec(random_call(), 2..10), prices, 1..150_u64, 0..3_usize, any::<bool>())
}

fn text_keeps_within(
    row: &RouteRow,
    (dialect, shape): (Dialect, Shape),
    (calls, prices, share, mode, is_drained): &Texts,
) -> Result<(), TestCaseError> {
    let mode = [Mode::Off, Mode::Race { lanes: 2 }, Mode::Hedge][*mode];
    let gate = Gate::of(calls.len());
    // The other lane needs a translation, unless it speaks the same dialect.
    let spoken = [dialect, if *is_drained { dialect } else { Dialect::OpenAiChat }];
    let lanes = (0..2).map(|index| {
        let (input, output) = prices[index];
        let mut lane = lane(["one", "two"][index], start(index, &gate), &[spoken[index]]);
        lane.price = Price::from_usd_per_million(input, output);
        lane.token_limits = TokenLimits { output: Some(LONGEST), input: None };
        if *is_drained {
            lane.loser = LoserPolicy::DrainExact { max_time: Span::from_secs(20), max_bytes: 1 << 20 };
        }
        lane
    });
    let bodies: Vec<String> = calls.iter().map(|call| call.body(dialect, shape)).collect();
    let dearest = prices.iter().fold((0.0_f64, 0.0_f64), |most, price| (most.0.max(price.0), most.1.max(price.1)));
    let one = bodies.iter().map(|body| body.len() as f64 * dearest.0 + LONGEST as f64 * dearest.1).sum::<f64>() / 1e6;
    let budget = (one * *share as f64 / 100.0).max(1e-9);
    let mut gateway = TestGateway::start(with_budget(budget, configured(lanes.collect(), mode)));
    let answers = at_once(&gateway, &gate, &path_of(row), &bodies);
    for (answer, body) in answers.iter().zip(&bodies) {
        prop_assert!(matches!(answer.status, 200 | 429 | 502), "{} for {body}: {}", answer.status, answer.text());
    }
    let rows = gateway.rows();
    let unlimited = rows.iter().filter(|row| row.sample.output_limit.is_none()).filter_map(|row| row.sample.cost_usd);
    let beyond = unlimited.fold(0.0, f64::max);
    let spent = spent(&rows);
    prop_assert!(spent <= budget + beyond + 1e-12, "{spent} of {budget}, one answer: {beyond}");
    let let_in: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.call.as_str()).collect();
    prop_assert_eq!(let_in.len(), answers.iter().filter(|answer| answer.status != 429).count());
    Ok(())
}

/// The path as a client asks for it, of the alias `all`.
fn path_of(row: &RouteRow) -> String {
    let path = row.path.replace("{model}", "all").replace("{id}", "resp_1").replace("{name}", "all");
    let is_whole = ["/v1", "/ws/", "/api/", "/model/", "/completion", "/v2", "/healthz", "/models"];
    if is_whole.iter().any(|start| path.starts_with(start)) { path } else { format!("/v1{path}") }
}

/// How much of its bytes each call is billed as (percent), the price of input, the fee, the budget as a share of what all of them cost at
/// most (percent), the mode, and whether forms are streamed.
type Services = (Vec<u64>, f64, f64, u64, bool, bool);

fn services() -> impl Strategy<Value = Services> {
    let shares = proptest::collection::vec(0..=100_u64, 1..6);
    (shares, 0.0..20.0, 0.0..0.01, 1..150_u64, any::<bool>(), any::<bool>())
}

fn service_keeps_within(
    row: &RouteRow,
    (shares, input, fee, share, races, streams): &Services,
) -> Result<(), TestCaseError> {
    let row = service_rows().into_iter().find(|known| known.1 == row.path && known.0 == row.method).expect("a row");
    // Rerankers read their query beside each document.
    let documents = if row.2 == "rerank" { 5 } else { 1 };
    let bodies: Vec<_> = shares
        .iter()
        .map(|share| {
            let of = |input: u64| {
                let bill = Bill { input, output: 0, first_fails: false };
                let mut asked = asked(&row, "all", &format!("{} {}", bill.text(), "x".repeat(*share as usize)));
                if row.2 == "rerank" {
                    asked.body = asked.body.replace("\"input\"", "\"documents\":[\"\",\"\",\"\",\"\"],\"query\"");
                }
                asked
            };
            let empty = of(0).body;
            let query = if documents > 1 { bill_bytes(&empty) * 4 } else { 0 };
            of((empty.len() as u64 + query) * share / 100)
        })
        .collect();
    let most: f64 =
        bodies.iter().map(|asked| (asked.body.len() as f64 * documents as f64 * input / 1e6).max(*fee)).sum();
    let budget = (most * *share as f64 / 100.0).max(1e-9);
    // The first request makes the object that others are about.
    let gate = Gate::of(0);
    let lanes = (0..2).map(|index| LaneConfig {
        price: Price::from_usd_per_million(*input, 50.0),
        services: fees(*fee),
        ..lane(["one", "two"][index], start(index, &gate), ALL)
    });
    let mode = if *races { Mode::Race { lanes: 2 } } else { Mode::Off };
    let mut config = with_budget(budget, configured(lanes.collect(), mode));
    if *streams && row.3 == SentBody::Form {
        // Whatever is longer than this is passed on as it comes.
        config.limits.request_bytes = 64;
    }
    let mut gateway = TestGateway::start(config);
    let upload = form("all", "x");
    let made = ask(gateway.address, "POST", "/v1/files", &[BEARER, ("content-type", FORM)], upload.as_bytes());
    prop_assert_eq!(made.status, 200, "{}", made.text());
    let address = gateway.address;
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let calls: Vec<_> = bodies.iter().map(|asked| scope.spawn(|| asked.send(address, "sk-k"))).collect();
        calls.into_iter().map(|call| call.join().expect("an answer")).collect()
    });
    for answer in &answers {
        // Lists are nobody's, and an object may be unknown.
        let is_refused = matches!(answer.status, 400 | 403 | 404);
        prop_assert!(matches!(answer.status, 200 | 429) || is_refused, "{}: {}", answer.status, answer.text());
    }
    let rows: Vec<Attempt> = gateway.rows();
    let spent = spent(&rows);
    prop_assert!(spent <= budget + 1e-12, "{row:?}: {spent} of {budget}");
    prop_assert!(rows.iter().all(|row| row.sample.cost_usd.is_some()), "what is let in has a known cost");
    Ok(())
}

/// Bytes of the query in a body of a reranker.
fn bill_bytes(body: &str) -> u64 {
    let query = body.split("\"query\":\"").nth(1).and_then(|rest| rest.split('"').next());
    query.map_or(0, |query| query.len() as u64)
}

/// Sessions, responses that each asks for, tokens of each response, the price of input, the fee, the budget as a share of all fees
/// (percent), whether the lane says how long a response can be.
type Sessions = (usize, usize, u64, f64, f64, u64, bool);

fn sessions() -> impl Strategy<Value = Sessions> {
    (1..5_usize, 1..5_usize, 1..1_000_u64, 1.0..2_000.0, 0.1..4.0, 1..150_u64, any::<bool>())
}

fn session_keeps_within(
    row: &RouteRow,
    &(clients, responses, tokens, input, fee, share, is_bounded): &Sessions,
) -> Result<(), TestCaseError> {
    let speaking = answering(tokens);
    let price = Price::from_usd_per_million(input, 1.0).expect("a price");
    let mut one = LaneConfig { price: Some(price), services: fees(fee), ..lane("one", speaking.address, ALL) };
    if is_bounded {
        one.token_limits = TokenLimits { input: Some(1_000), output: Some(10) };
    }
    let budget = fee * clients as f64 * share as f64 / 100.0;
    let mut gateway = TestGateway::start(with_budget(budget, configured(vec![one], Mode::Off)));
    let all_open = Barrier::new(clients);
    let (let_in, address) = (AtomicUsize::new(0), gateway.address);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let path = format!("{}?model=all", path_of(row));
                let (client, head) = open_path(address, &path, "authorization: Bearer sk-k\r\n");
                all_open.wait();
                if head.starts_with("HTTP/1.1 101 ") {
                    let_in.fetch_add(1, Ordering::Relaxed);
                    converse(row, client, responses);
                }
            });
        }
    });
    let rows = gateway.rows();
    let spent = spent(&rows);
    let response = price.cost_at_most(tokens, 10).as_usd();
    // Where nothing says how long a response can be, the last one of each session may go beyond what the session has left.
    let beyond = if is_bounded { 0.0 } else { response * rows.len() as f64 };
    prop_assert!(spent <= budget + beyond + 1e-12, "{spent} of {budget}, {response} a response");
    prop_assert_eq!(rows.len(), let_in.load(Ordering::Relaxed));
    prop_assert!(rows.iter().all(|row| row.sample.cost_usd.is_some()), "{rows:?}");
    Ok(())
}

/// Asks for responses until the session is closed or has had that many.
fn converse(row: &RouteRow, mut client: TcpStream, responses: usize) {
    let is_live = row.path.starts_with("/ws/");
    let create = text(if is_live { TURN } else { r#"{"type":"response.create"}"# }, MASK);
    let setup = if is_live { text(r#"{"setup":{"model":"models/all"}}"#, MASK) } else { Vec::new() };
    let is_end = |json: &[u8]| {
        let json = String::from_utf8_lossy(json);
        json.contains("response.done") || json.contains("usageMetadata")
    };
    let (mut reader, mut piece) = (FrameReader::new(1 << 20), [0; 4096]);
    let (mut done, mut has_closed) = (0, false);
    let _ = client.write_all(&[setup, create.clone()].concat());
    while let Ok(count) = client.read(&mut piece) {
        if count == 0 {
            return;
        }
        let before = done;
        reader.push(&piece[..count], |message| match message {
            Message::Text(json) | Message::Binary(json) if is_end(json) => done += 1,
            Message::Close(_) => has_closed = true,
            _ => {}
        });
        if has_closed {
            continue;
        }
        match done {
            done if done >= responses => has_closed = client.write_all(&close_frame(1000, "", MASK)).is_ok(),
            done if done > before => drop(client.write_all(&create)),
            _ => {}
        }
    }
}

/// A lane that begins a job for each request, and says of each what its input tells it to bill.
struct JobLane {
    address: SocketAddr,
    /// What the jobs that were begun cost, in tokens of output.
    begun: Arc<AtomicUsize>,
}

impl JobLane {
    fn start(tokens: u64) -> JobLane {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let begun = Arc::new(AtomicUsize::new(0));
        let jobs = Arc::clone(&begun);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let jobs = Arc::clone(&jobs);
                std::thread::spawn(move || {
                    let mut buffer = Vec::new();
                    while let Some(request) = read_request(&mut stream, &mut buffer) {
                        let body = match request.head.starts_with("POST /v1/responses HTTP") {
                            true => {
                                QUEUED.replace("resp_1", &format!("resp_{}", jobs.fetch_add(1, Ordering::SeqCst) + 1))
                            }
                            false => format!(
                                r#"{{"id":"resp_1","object":"response","status":"completed","model":"m","output":[],"usage":{{"input_tokens":5,"output_tokens":{tokens},"total_tokens":9}}}}"#
                            ),
                        };
                        if stream.write_all(&whole("200 OK", &body)).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        JobLane { address, begun }
    }
}

/// Jobs that are begun at once, and again after some were asked for; the tokens that each writes of those that it may; the budget in jobs.
type Jobs = (usize, u64, u64);

fn jobs() -> impl Strategy<Value = Jobs> {
    (1..6_usize, 1..=50_u64, 1..6_u64)
}

fn job_keeps_within(row: &RouteRow, &(clients, tokens, share): &Jobs) -> Result<(), TestCaseError> {
    let body = r#"{"model":"all","input":"think","background":true,"max_output_tokens":50}"#;
    let at_most = (body.len() as f64 + 256.0 + 2.0 * 50.0) / 1e6;
    let budget = at_most * share as f64 + 1e-9;
    let jobs = JobLane::start(tokens);
    let one = lane("one", jobs.address, &[Dialect::OpenAiResponses]);
    let gateway = TestGateway::start(with_budget(budget, configured(vec![one], Mode::Off)));
    let address = gateway.address;
    let begin = || ask(address, "POST", "/v1/responses", &[BEARER], body.as_bytes()).status;
    let begin_all = || -> Vec<u16> {
        std::thread::scope(|scope| {
            let calls: Vec<_> = (0..clients).map(|_| scope.spawn(begin)).collect();
            calls.into_iter().map(|call| call.join().expect("an answer")).collect()
        })
    };
    for _ in 0..3 {
        let statuses = begin_all();
        prop_assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
        // Whatever is asked of a job, once or twice, does not make it cheaper than it was.
        for _ in 0..2 {
            let answer = ask(gateway.address, row.method, &path_of(row), &[BEARER], b"");
            prop_assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
        }
    }
    // What the lane bills for all that it has begun, looked at or not.
    let billed = jobs.begun.load(Ordering::SeqCst) as f64 * (5.0 + 2.0 * tokens as f64) / 1e6;
    prop_assert!(billed <= budget + 1e-12, "{billed} of {budget}");
    Ok(())
}

fn reaches_no_lane(row: &RouteRow) {
    let one = Scripted::start(vec![Script::Send(vec![whole("200 OK", "{}")])]);
    let gateway = TestGateway::start(with_budget(1e-9, configured(vec![lane("one", one.address, ALL)], Mode::Off)));
    let answer = ask(gateway.address, row.method, &path_of(row), &[BEARER], b"");
    assert_eq!(answer.status, 200, "{row:?}: {}", answer.text());
    assert!(one.requests().is_empty(), "{row:?}");
}

#[test]
fn a_job_whose_client_left_before_it_heard_of_it_is_paid_for() {
    let silent = Scripted::start(vec![Script::SendAndStall(Vec::new())]);
    let body = r#"{"model":"all","input":"think","background":true,"stream":true,"max_output_tokens":50}"#;
    let budget = 2.5 * (body.len() as f64 + 256.0 + 2.0 * 50.0) / 1e6;
    let config = configured(vec![lane("one", silent.address, &[Dialect::OpenAiResponses])], Mode::Off);
    let mut gateway = TestGateway::start(with_budget(budget, config));
    for _ in 0..2 {
        let mut client = TcpStream::connect(gateway.address).expect("it listens");
        // Before it is written: the lane may be asked before this thread runs on.
        let asked = silent.requests().len();
        client.write_all(&request("POST", "/v1/responses", &[BEARER], body.as_bytes())).expect("it reads");
        while silent.requests().len() == asked {
            std::thread::yield_now();
        }
        drop(client);
        silent.closed.recv_timeout(TIMEOUT).expect("the lane is let go");
    }
    let refused = ask(gateway.address, "POST", "/v1/responses", &[BEARER], body.as_bytes());
    assert_eq!(refused.status, 429, "the two may go on: {}", refused.text());
    let spent = spent(&gateway.rows());
    assert!((spent - budget / 2.5 * 2.0).abs() < 1e-9, "{spent}: a restart finds it in the log");
}

/// A request of a path that reaches a lane, as far as its key may; the second text is the beginning of what a WebSocket gets.
fn send(gateway: &TestGateway, row: &RouteRow) -> (u16, String) {
    if row.kind == RouteKind::Session {
        let mut client = TcpStream::connect(gateway.address).expect("it listens");
        client.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let opening = opening(&format!("{}?model=all", path_of(row)), "authorization: Bearer sk-k\r\n");
        client.write_all(opening.as_bytes()).expect("it reads");
        let answer = read_answer(&mut client);
        return (answer.status, answer.text());
    }
    let known = service_rows().into_iter().find(|known| known.1 == row.path && known.0 == row.method);
    let answer = match (&row.kind, known) {
        (RouteKind::Service(..), Some(known)) => {
            asked(&known, "all", &"word ".repeat(200)).send(gateway.address, "sk-k")
        }
        (RouteKind::Text(dialect, _), _) => {
            let body = text_body(*dialect);
            ask(gateway.address, row.method, &path_of(row), &[BEARER], body.as_bytes())
        }
        _ => ask(gateway.address, row.method, &path_of(row), &[BEARER], b""),
    };
    (answer.status, answer.text())
}

/// A body of some 250 tokens.
fn text_body(dialect: Dialect) -> String {
    let words = "word ".repeat(200);
    match dialect {
        Dialect::Gemini => format!(r#"{{"contents":[{{"role":"user","parts":[{{"text":"{words}"}}]}}]}}"#),
        Dialect::BedrockConverse => format!(r#"{{"messages":[{{"role":"user","content":[{{"text":"{words}"}}]}}]}}"#),
        Dialect::OpenAiResponses => format!(r#"{{"model":"all","input":"{words}"}}"#),
        Dialect::OpenAiCompletions | Dialect::OllamaGenerate | Dialect::LlamaCompletion => {
            format!(r#"{{"model":"all","prompt":"{words}"}}"#)
        }
        _ => format!(r#"{{"model":"all","max_tokens":9,"messages":[{{"role":"user","content":"{words}"}}]}}"#),
    }
}

fn answering_lane() -> Scripted {
    Scripted::start(vec![Script::Send(vec![whole("200 OK", "{}")])])
}

/// A lane of every dialect and service.
fn every(scripted: &Scripted) -> LaneConfig {
    LaneConfig { services: fees(0.1), ..lane("one", scripted.address, &Dialect::ALL) }
}

#[test]
fn every_path_that_reaches_a_lane_counts_as_a_request_and_as_an_open_call() {
    for row in routes() {
        let expected = if row.kind == RouteKind::Own { 200 } else { 429 };
        let one = answering_lane();
        let limits = KeyLimits { requests_per_minute: Some(1), ..KeyLimits::default() };
        let gateway = TestGateway::start(with_limits(limits, configured(vec![every(&one)], Mode::Off)));
        send(&gateway, &row);
        let (status, text) = send(&gateway, &row);
        assert_eq!(status, expected, "{row:?}: {text}");
        assert!(status == 200 || text.contains("requests per minute"), "{row:?}: {text}");
        // While another call is open.
        let silent = Scripted::start(vec![Script::SendAndStall(Vec::new())]);
        let limits = KeyLimits { streams: Some(1), ..KeyLimits::default() };
        let gateway = TestGateway::start(with_limits(limits, configured(vec![every(&silent)], Mode::Off)));
        let mut held = TcpStream::connect(gateway.address).expect("it listens");
        let body = text_body(Dialect::OpenAiChat);
        held.write_all(&request("POST", "/v1/chat/completions", &[BEARER], body.as_bytes())).expect("it reads");
        while silent.requests().is_empty() {
            std::thread::yield_now();
        }
        let (status, text) = send(&gateway, &row);
        assert_eq!(status, expected, "{row:?}: {text}");
        assert!(status == 200 || text.contains("concurrent calls"), "{row:?}: {text}");
    }
}

#[test]
fn tokens_per_minute_are_not_got_around_by_any_path_that_has_tokens() {
    for row in routes() {
        let one = answering_lane();
        let limits = KeyLimits { tokens_per_minute: Some(50), ..KeyLimits::default() };
        let gateway = TestGateway::start(with_limits(limits, configured(vec![every(&one)], Mode::Off)));
        let (status, text) = send(&gateway, &row);
        let expected: &[u16] = match row.kind {
            RouteKind::Text(..) => &[429],
            RouteKind::Service("embeddings" | "rerank" | "moderations", _) => &[429],
            // What nobody can bound is not for such a key; its objects and lists are read.
            RouteKind::Service("invoke" | "batches", SentBody::Json) => &[403],
            // By the call, or free.
            RouteKind::Service(..) | RouteKind::Own => &[200, 403, 404],
            // A lane that opens no WebSocket; its responses are counted one by one (`realtime`).
            RouteKind::Session => &[502],
            // What it began was counted then.
            RouteKind::Stored => &[404],
        };
        assert!(expected.contains(&status), "{row:?}: {status} {text}");
        assert!(status != 429 || text.contains("tokens per minute"), "{row:?}: {text}");
    }
}

#[test]
fn no_path_leads_a_key_to_an_alias_that_it_may_not_use() {
    for row in routes() {
        let one = answering_lane();
        let mut config = with_limits(KeyLimits::default(), configured(vec![every(&one)], Mode::Off));
        config.keys[0].aliases = vec!["other".to_owned()];
        let gateway = TestGateway::start(config);
        let (status, text) = send(&gateway, &row);
        assert!(matches!(status, 403 | 404) || row.kind == RouteKind::Own, "{row:?}: {status} {text}");
        assert!(one.requests().is_empty(), "{row:?}");
    }
}

/// How a request's answer is asked for, as a provider reads it.
pub fn shape_asked(path: &str, body: &[u8]) -> Option<(Dialect, Shape)> {
    let routed = Dialect::of_path(path)?;
    let stream = RequestPeek::read(body).ok().and_then(|peek| peek.stream);
    let shape = match stream.unwrap_or(routed.dialect.streams_by_default()) {
        true => Shape::Stream,
        false => Shape::Whole,
    };
    Some((routed.dialect, routed.shape.unwrap_or(shape)))
}

#[test]
fn a_stream_is_not_cut_by_the_lane_that_bills() {
    // What the property above rests on: the lane streams where it is asked to, with its usage.
    let gate = Gate::of(0);
    let gateway = TestGateway::start(configured(vec![lane("one", start(1, &gate), &[Dialect::OpenAiChat])], Mode::Off));
    let bill = Bill { input: 3, output: 4, first_fails: false };
    let body = format!(r#"{{"model":"all","stream":true,"messages":[{{"role":"user","content":"{}"}}]}}"#, bill.text());
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", "/v1/chat/completions", &[], body.as_bytes())).expect("it reads");
    assert!(String::from_utf8_lossy(&read_until(&mut client, "[DONE]")).contains("text/event-stream"));
}
