//! Responses that go on in the background: one job for each call, whose result is asked of the lane that has it.

use crate::client::{Answer, ask, post, read_answer_after, read_until, request};
use crate::harness::{TestGateway, configured, lane};
use crate::scripted::{Script, Scripted, stream_head, whole};
use std::io::Write;
use std::net::TcpStream;
use tokrate_core::Money;
use tokrate_gateway::{Config, KeyConfig, KeyLimits, LaneConfig, Mode, key_hash};
use tokrate_record::{AttemptEnd, CostBasis};
use tokrate_wire::Dialect;

const PATH: &str = "/v1/responses";
const BEGIN: &str = r#"{"model":"all","input":"think long","background":true,"max_output_tokens":50}"#;
pub const QUEUED: &str =
    r#"{"id":"resp_1","object":"response","status":"queued","background":true,"model":"m","output":[],"usage":null}"#;
const DONE: &str = r#"{"id":"resp_1","object":"response","status":"completed","background":true,"model":"m","output":[{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"42","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":40,"total_tokens":45}}"#;

fn job_lane(name: &str, scripted: &Scripted) -> LaneConfig {
    lane(name, scripted.address, &[Dialect::OpenAiResponses])
}

fn sends(bodies: &[&str]) -> Scripted {
    Scripted::start(bodies.iter().map(|body| Script::Send(vec![whole("200 OK", body)])).collect())
}

fn get(gateway: &TestGateway, path: &str, key: &str) -> Answer {
    ask(gateway.address, "GET", path, &[("authorization", &format!("Bearer {key}"))], b"")
}

#[test]
fn a_job_is_begun_once_and_its_result_comes_from_the_lane_that_has_it() {
    let in_progress = QUEUED.replace("queued", "in_progress");
    let (first, second) = (sends(&[QUEUED, &in_progress, DONE, DONE]), sends(&[QUEUED]));
    let lanes = vec![job_lane("one", &first), job_lane("two", &second)];
    // A race would begin a job on every lane.
    let mut gateway = TestGateway::start(configured(lanes, Mode::Race { lanes: 2 }));
    let begun = post(gateway.address, PATH, BEGIN);
    assert_eq!((begun.status, begun.text().as_str()), (200, QUEUED));
    assert_eq!((begun.header("x-tokrate-attempts"), begun.header("x-tokrate-winner")), (Some("1"), Some("one")));
    let polled: Vec<String> = (0..3).map(|_| get(&gateway, "/v1/responses/resp_1", "any").text()).collect();
    assert_eq!(polled, [in_progress.as_str(), DONE, DONE]);
    assert!(first.requests()[1].head.starts_with("GET /v1/responses/resp_1 HTTP/1.1"), "{}", first.requests()[1].head);
    assert_eq!((first.requests().len(), second.requests().len()), (4, 0));
    let rows = gateway.rows();
    let told: Vec<_> =
        rows.iter().map(|row| (row.attempt, row.end, row.sample.output_tokens, row.sample.cost_basis)).collect();
    let begun = (0, AttemptEnd::Answered, None, CostBasis::Unknown);
    assert_eq!(told, [begun, (1, AttemptEnd::Answered, Some(40), CostBasis::Reported)], "the result once");
    assert_eq!((rows[0].sample.cost_usd, rows[1].sample.cost_usd), (None, Some((5.0 + 2.0 * 40.0) / 1e6)));
}

#[test]
fn a_job_never_fails_over() {
    let broken = || Scripted::start(vec![Script::Send(vec![whole("500 Internal Server Error", "{}")])]);
    let (first, second) = (broken(), sends(&[QUEUED]));
    let lanes = vec![job_lane("one", &first), job_lane("two", &second)];
    let gateway = TestGateway::start(configured(lanes, Mode::Hedge));
    assert_eq!(post(gateway.address, PATH, BEGIN).status, 502);
    assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
}

#[test]
fn a_job_that_is_streamed_is_known_from_its_first_event() {
    let events = concat!(
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"queued\"}}\n\n",
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"4\"}\n\n",
    );
    let mut begun = stream_head();
    begun.extend_from_slice(format!("{:x}\r\n{events}\r\n", events.len()).as_bytes());
    // The stream breaks off, the job goes on.
    let first = Scripted::start(vec![Script::SendAndHold(begun), Script::Send(vec![whole("200 OK", DONE)])]);
    let second = sends(&[QUEUED]);
    let lanes = vec![job_lane("one", &first), job_lane("two", &second)];
    let gateway = TestGateway::start(configured(lanes, Mode::Off));
    let body = BEGIN.replace("\"background\"", "\"stream\":true,\"background\"");
    let mut client = TcpStream::connect(gateway.address).expect("it listens");
    client.write_all(&request("POST", PATH, &[], body.as_bytes())).expect("it reads");
    let seen = read_until(&mut client, "output_text.delta");
    first.release();
    assert!(read_answer_after(seen, &mut client).text().contains("error"));
    assert_eq!(get(&gateway, "/v1/responses/resp_1", "any").text(), DONE);
    assert_eq!(second.requests().len(), 0);
}

#[test]
fn a_response_can_be_cancelled_deleted_and_continued_where_it_is() {
    let cancelled = QUEUED.replace("queued", "cancelled");
    let deleted = r#"{"id":"resp_1","object":"response.deleted","deleted":true}"#;
    let (first, second) = (sends(&[QUEUED, &cancelled, DONE, deleted]), sends(&[QUEUED]));
    let lanes = vec![job_lane("two", &second), job_lane("one", &first)];
    let mut config = configured(lanes, Mode::Off);
    config.aliases[0].lanes = vec![1, 0];
    let gateway = TestGateway::start(config);
    assert_eq!(post(gateway.address, PATH, BEGIN).header("x-tokrate-winner"), Some("one"));
    let cancel = ask(gateway.address, "POST", "/v1/responses/resp_1/cancel", &[], b"");
    assert_eq!((cancel.status, cancel.text()), (200, cancelled));
    let further = r#"{"model":"all","input":"and then?","previous_response_id":"resp_1"}"#;
    assert_eq!(post(gateway.address, PATH, further).header("x-tokrate-winner"), Some("one"));
    let delete = ask(gateway.address, "DELETE", "/v1/responses/resp_1", &[], b"");
    assert_eq!((delete.status, delete.text().as_str()), (200, deleted));
    let heads: Vec<String> =
        first.requests().iter().map(|request| request.head.lines().next().expect("a line").to_owned()).collect();
    assert_eq!(
        heads,
        [
            "POST /v1/responses HTTP/1.1",
            "POST /v1/responses/resp_1/cancel HTTP/1.1",
            "POST /v1/responses HTTP/1.1",
            "DELETE /v1/responses/resp_1 HTTP/1.1"
        ]
    );
}

#[test]
fn a_job_belongs_to_the_key_that_began_it_and_is_charged_to_it_once() {
    let only = sends(&[QUEUED, DONE, DONE]);
    let key = |name: &str| KeyConfig {
        name: name.to_owned(),
        sha256: key_hash(&format!("sk-{name}")),
        aliases: Vec::new(),
        // What a job of 50 tokens can cost, and not two of them.
        limits: KeyLimits { usd_per_month: Money::from_usd(0.000_6), ..KeyLimits::default() },
    };
    let config =
        Config { keys: vec![key("mine"), key("other")], ..configured(vec![job_lane("one", &only)], Mode::Off) };
    let gateway = TestGateway::start(config);
    let begin = || {
        let headers = [("authorization", "Bearer sk-mine"), ("content-type", "application/json")];
        ask(gateway.address, "POST", PATH, &headers, BEGIN.as_bytes()).status
    };
    assert_eq!(begin(), 200);
    assert_eq!(begin(), 429, "the most that the job can cost stays reserved");
    assert_eq!(get(&gateway, "/v1/responses/resp_1", "sk-other").status, 404);
    assert_eq!(get(&gateway, "/v1/responses/resp_1", "sk-nobody").status, 401);
    assert_eq!(only.requests().len(), 1);
    assert_eq!(get(&gateway, "/v1/responses/resp_1", "sk-mine").text(), DONE);
    assert_eq!(begin(), 200, "the job has cost less");
}

#[test]
fn what_is_not_known_is_asked_of_the_only_lane_and_else_of_none() {
    let only = sends(&[DONE]);
    let gateway = TestGateway::start(configured(vec![job_lane("one", &only)], Mode::Off));
    assert_eq!(get(&gateway, "/v1/responses/resp_9", "any").text(), DONE, "begun before a restart");
    let (first, second) = (sends(&[DONE]), sends(&[DONE]));
    let gateway = TestGateway::start(configured(vec![job_lane("one", &first), job_lane("two", &second)], Mode::Off));
    let unknown = get(&gateway, "/v1/responses/resp_9", "any");
    assert!(unknown.status == 404 && unknown.text().contains("not known here"), "{}", unknown.text());
    let streamed = get(&gateway, "/v1/responses/resp_9?stream=true", "any");
    assert!(streamed.status == 400 && streamed.text().contains("stream=true"), "{}", streamed.text());
    assert_eq!((first.requests().len(), second.requests().len()), (0, 0));
}

#[test]
fn a_refusal_of_the_provider_is_passed_on() {
    let missing = r#"{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error"}}"#;
    let lane_at = Scripted::start(vec![
        Script::Send(vec![whole("200 OK", QUEUED)]),
        Script::Send(vec![whole("404 Not Found", missing)]),
    ]);
    let gateway = TestGateway::start(configured(vec![job_lane("one", &lane_at)], Mode::Off));
    post(gateway.address, PATH, BEGIN);
    let answer = get(&gateway, "/v1/responses/resp_1", "any");
    assert_eq!((answer.status, answer.text().as_str()), (404, missing));
}

#[test]
fn a_response_that_is_kept_is_continued_and_read_where_it_is_and_by_the_key_that_began_it() {
    let kept = DONE.replace("\"background\":true,", "");
    let (first, second) = (sends(&[&kept]), sends(&[&kept.replace("resp_1", "resp_2")]));
    let mut config = configured(vec![job_lane("one", &first), job_lane("two", &second)], Mode::Off);
    let key = |name: &str| KeyConfig {
        name: name.to_owned(),
        sha256: key_hash(&format!("sk-{name}")),
        aliases: Vec::new(),
        limits: KeyLimits::default(),
    };
    config.keys = vec![key("mine"), key("other")];
    let gateway = TestGateway::start(config);
    let post = |key: &str, body: &str| {
        let bearer = format!("Bearer sk-{key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        ask(gateway.address, "POST", PATH, &headers, body.as_bytes())
    };
    assert_eq!(post("mine", r#"{"model":"two","input":"a"}"#).status, 200);
    // The alias would take the first lane.
    let further = r#"{"model":"all","input":"and then?","previous_response_id":"resp_2"}"#;
    assert_eq!(post("mine", further).header("x-tokrate-winner"), Some("two"));
    assert_eq!(post("other", further).status, 404);
    assert_eq!(get(&gateway, "/v1/responses/resp_2", "sk-mine").status, 200);
    assert_eq!(get(&gateway, "/v1/responses/resp_2", "sk-other").status, 404);
    assert_eq!((first.requests().len(), second.requests().len()), (0, 3));
}
