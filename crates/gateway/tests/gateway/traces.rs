//! Traces over loopback: a gateway with simulated lanes, and a collector of the test, which decodes spans by OpenTelemetry's own
//! messages.

use crate::client::{ask, get_admin};
use crate::harness::{TestGateway, configured, lane};
use crate::otel::{ExportRequest, KEY, NEVER, TIMEOUT, collector, engine, exporting, next_export};
use crate::scripted::{Script, Scripted};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{Span as OtlpSpan, span::SpanKind, status::StatusCode};
use prost::Message;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Instant;
use tokrate_core::Span;
use tokrate_gateway::{Config, Mode, OtelConfig, TracesConfig};
use tokrate_host::RunningHost;
use tokrate_wire::Dialect;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const ACCEPTED: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";

fn body(model: &str, stream: bool) -> String {
    format!(
        r#"{{"model":"{model}","stream":{stream},"max_tokens":40,"messages":[{{"role":"user","content":"a secret prompt"}}]}}"#
    )
}

/// A gateway over these lanes that exports traces alone.
fn tracing(collector: SocketAddr, traces: TracesConfig, config: Config) -> Config {
    let engine = engine();
    let otel = exporting(&engine, collector, NEVER).otel.expect("an export");
    Config { otel: Some(OtelConfig { metrics: false, traces: Some(traces), ..otel }), ..config }
}

fn two_lanes(engine: &RunningHost, mode: Mode) -> Config {
    let dialects = [Dialect::OpenAiChat];
    configured(vec![lane("one", engine.address(), &dialects), lane("two", engine.address(), &dialects)], mode)
}

fn call(gateway: &TestGateway, body: &str, parent: Option<&str>) -> u16 {
    let mut headers = vec![("content-type", "application/json"), ("x-tokrate-session", "run-1")];
    headers.extend(parent.map(|parent| ("traceparent", parent)));
    headers.push(("tracestate", "rojo=1"));
    ask(gateway.address, "POST", "/v1/chat/completions", &headers, body.as_bytes()).status
}

fn parent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// The spans of what is exported when the gateway ends, and the rows of its log.
fn spans_at_end(
    mut gateway: TestGateway,
    exports: &Receiver<ExportRequest>,
) -> (Vec<OtlpSpan>, Vec<tokrate_record::Attempt>) {
    std::thread::scope(|scope| {
        let rows = scope.spawn(move || gateway.rows());
        let request = next_export(exports);
        assert!(request.head.starts_with("POST /otlp/v1/traces HTTP/1.1\r\n"), "{}", request.head);
        assert!(request.head.contains(KEY));
        assert!(!String::from_utf8_lossy(&request.body).contains("secret"), "neither prompts nor keys");
        let spans = spans_of(&request.body);
        request.answer(ACCEPTED);
        (spans, rows.join().expect("the log's rows"))
    })
}

fn spans_of(body: &[u8]) -> Vec<OtlpSpan> {
    let request = ExportTraceServiceRequest::decode(body).expect("a request of OTLP");
    let [resource] = &request.resource_spans[..] else { panic!("one resource") };
    let [scope] = &resource.scope_spans[..] else { panic!("one scope") };
    assert_eq!(scope.scope.as_ref().expect("a scope").name, "tokrate.gateway");
    scope.spans.clone()
}

fn value<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a any_value::Value> {
    attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?.value.as_ref()
}

fn text<'a>(span: &'a OtlpSpan, key: &str) -> Option<&'a str> {
    match value(&span.attributes, key)? {
        any_value::Value::StringValue(text) => Some(text),
        other => panic!("{key}: {other:?}"),
    }
}

fn number(span: &OtlpSpan, key: &str) -> Option<u64> {
    match value(&span.attributes, key)? {
        any_value::Value::IntValue(number) => u64::try_from(*number).ok(),
        other => panic!("{key}: {other:?}"),
    }
}

fn seconds(span: &OtlpSpan, key: &str) -> Option<f64> {
    match value(&span.attributes, key)? {
        any_value::Value::DoubleValue(seconds) => Some(*seconds),
        other => panic!("{key}: {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_error(span: &OtlpSpan) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

fn of_kind(spans: &[OtlpSpan], kind: SpanKind) -> Vec<&OtlpSpan> {
    spans.iter().filter(|span| span.kind() == kind).collect()
}

#[test]
fn a_call_is_a_server_span_below_the_clients_and_its_attempts_are_client_spans_below_that() {
    let (engine, (address, exports)) = (engine(), collector());
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let dialects = [Dialect::OpenAiChat];
    let lanes = vec![lane("dead", nowhere, &dialects), lane("alive", engine.address(), &dialects)];
    let gateway = TestGateway::start(tracing(address, TracesConfig::default(), configured(lanes, Mode::Off)));
    assert_eq!(call(&gateway, &body("all", true), Some(&parent("01"))), 200);
    let (spans, rows) = spans_at_end(gateway, &exports);
    let ([server], [dead, alive]) = (&of_kind(&spans, SpanKind::Server)[..], &of_kind(&spans, SpanKind::Client)[..])
    else {
        panic!("{spans:?}")
    };
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE && span.trace_state == "rojo=1"));
    assert_eq!(
        (hex(&server.parent_span_id), server.name.as_str(), server.flags),
        (PARENT.to_owned(), "chat all", 0x301)
    );
    for span in [dead, alive] {
        assert_eq!((&span.parent_span_id, span.flags), (&server.span_id, 0x101));
        assert!(span.start_time_unix_nano >= server.start_time_unix_nano);
        assert!(
            span.end_time_unix_nano <= server.end_time_unix_nano
                && span.end_time_unix_nano >= span.start_time_unix_nano
        );
    }
    assert_eq!((dead.name.as_str(), alive.name.as_str()), ("chat model-dead", "chat model-alive"));
    assert_eq!(
        (text(dead, "error.type"), text(dead, "tokrate.end"), is_error(dead)),
        (Some("connect"), Some("failed"), true)
    );
    assert_eq!(
        (text(alive, "tokrate.role"), text(alive, "error.type"), is_error(alive)),
        (Some("failover"), None, false)
    );
    assert_eq!(number(alive, "server.port"), Some(u64::from(engine.address().port())));
    let row = rows.iter().find(|row| row.won).expect("a winner");
    for span in [*server, *alive] {
        assert_eq!(text(span, "gen_ai.operation.name"), Some("chat"));
        assert_eq!(text(span, "gen_ai.provider.name"), Some("provider-alive"));
        assert_eq!(number(span, "gen_ai.usage.output_tokens"), row.sample.output_tokens);
        assert_eq!(number(span, "gen_ai.usage.input_tokens"), row.sample.input_tokens);
        assert_eq!(number(span, "http.response.status_code"), Some(200));
        assert_eq!(text(span, "gen_ai.response.model"), row.sample.model_answered.as_deref());
        assert!(span.events.iter().any(|event| event.name == "tokrate.first_token"));
    }
    let ttft = row.sample.ttft_ns.expect("it streamed") as f64 / 1e9;
    assert_eq!(seconds(alive, "gen_ai.response.time_to_first_chunk"), Some(ttft));
    assert!(seconds(server, "gen_ai.response.time_to_first_chunk").expect("the client's own") > ttft);
    assert_eq!(
        (text(server, "gen_ai.request.model"), text(alive, "gen_ai.request.model")),
        (Some("all"), Some("model-alive"))
    );
    assert_eq!(
        (text(server, "tokrate.call"), text(server, "gen_ai.conversation.id")),
        (Some(&*row.call), Some("run-1"))
    );
    assert_eq!((number(server, "tokrate.attempts"), is_error(server)), (Some(2), false));
    let [link] = &dead.links[..] else { panic!("{:?}", dead.links) };
    assert_eq!((&link.span_id, &link.trace_id), (&alive.span_id, &alive.trace_id));
}

#[test]
fn the_attempts_of_a_race_point_to_the_one_that_won() {
    let (engine, (address, exports)) = (engine(), collector());
    let config = two_lanes(&engine, Mode::Race { lanes: 2 });
    let gateway = TestGateway::start(tracing(address, TracesConfig::default(), config));
    assert_eq!(call(&gateway, &body("all", true), None), 200);
    let (spans, rows) = spans_at_end(gateway, &exports);
    let clients = of_kind(&spans, SpanKind::Client);
    assert_eq!((clients.len(), rows.len()), (2, 2));
    let won = |span: &&&OtlpSpan| value(&span.attributes, "tokrate.won") == Some(&any_value::Value::BoolValue(true));
    let winner = clients.iter().find(won).expect("one has won");
    let loser = clients.iter().find(|span| span.span_id != winner.span_id).expect("one has lost");
    assert_eq!((winner.links.len(), loser.links.len(), text(loser, "tokrate.end")), (0, 1, Some("lost")));
    assert_eq!(loser.links[0].span_id, winner.span_id);
    assert!(!is_error(loser), "to lose is no error");
    let [server] = of_kind(&spans, SpanKind::Server)[..] else { panic!("one call") };
    assert!(server.parent_span_id.is_empty() && server.trace_id.iter().any(|byte| *byte != 0), "a trace of its own");
    assert_eq!(server.flags, 0x101);
}

#[test]
fn the_clients_word_counts_and_failed_calls_are_kept_beside_it() {
    let (engine, (address, exports)) = (engine(), collector());
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let dialects = [Dialect::OpenAiChat];
    let lanes = vec![lane("alive", engine.address(), &dialects), lane("dead", nowhere, &dialects)];
    let traces = TracesConfig { ratio: 0.0, ..TracesConfig::default() };
    let gateway = TestGateway::start(tracing(address, traces, configured(lanes, Mode::Off)));
    assert_eq!(call(&gateway, &body("alive", true), None), 200);
    assert_eq!(call(&gateway, &body("alive", false), Some(&parent("00"))), 200);
    assert_eq!(call(&gateway, &body("alive", false), Some("no context")), 200);
    assert_eq!(call(&gateway, &body("no-such", true), None), 404, "a client's mistake");
    assert_eq!(call(&gateway, &body("no-such", true), Some(&parent("01"))), 404, "of a sampled trace");
    assert_eq!(call(&gateway, &body("dead", true), Some(&parent("00"))), 502);
    let (spans, _) = spans_at_end(gateway, &exports);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["chat", "chat dead", "chat model-dead"]);
    assert_eq!(
        (text(&spans[0], "error.type"), number(&spans[0], "http.response.status_code")),
        (Some("not_found"), Some(404))
    );
    assert!(!is_error(&spans[0]), "by the conventions of HTTP");
    assert_eq!((text(&spans[1], "error.type"), spans[1].flags, is_error(&spans[1])), (Some("connect"), 0x300, true));
}

#[test]
fn a_slow_call_is_kept_whatever_the_share() {
    let (engine, (address, exports)) = (engine(), collector());
    let traces = TracesConfig { ratio: 0.0, slow: Some(Span::from_nanos(1)), ..TracesConfig::default() };
    let gateway = TestGateway::start(tracing(address, traces, two_lanes(&engine, Mode::Off)));
    assert_eq!(call(&gateway, &body("all", true), None), 200);
    assert_eq!(spans_at_end(gateway, &exports).0.len(), 2);
}

#[test]
fn lanes_are_told_of_a_trace_only_where_the_settings_say_so() {
    let json = r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", json.len());
    let answer = (head + json).into_bytes();
    for propagate in [false, true] {
        let ((address, exports), scripted) = (collector(), Scripted::start(vec![Script::Send(vec![answer.clone()])]));
        let traces = TracesConfig { propagate, ..TracesConfig::default() };
        let lanes = vec![lane("one", scripted.address, &[Dialect::OpenAiChat])];
        let gateway = TestGateway::start(tracing(address, traces, configured(lanes, Mode::Off)));
        assert_eq!(call(&gateway, &body("all", false), Some(&parent("01"))), 200);
        let (spans, _) = spans_at_end(gateway, &exports);
        let [client] = of_kind(&spans, SpanKind::Client)[..] else { panic!("one attempt") };
        let head = &scripted.requests()[0].head;
        let told = format!("traceparent: 00-{TRACE}-{}-01", hex(&client.span_id));
        assert_eq!((head.contains(&told), head.contains("tracestate: rojo=1")), (propagate, propagate), "{head}");
        assert_eq!(head.contains("trace"), propagate, "{head}");
    }
}

#[test]
fn a_histogram_points_to_a_trace_once_a_collector_has_it() {
    let (engine, (address, exports)) = (engine(), collector());
    let config = tracing(address, TracesConfig::default(), two_lanes(&engine, Mode::Off));
    let otel = config.otel.clone().map(|otel| OtelConfig { interval: Span::from_millis(20), ..otel });
    let gateway = TestGateway::start(Config { otel, admin: Some(([127, 0, 0, 1], 0).into()), ..config });
    assert_eq!(call(&gateway, &body("all", true), Some(&parent("01"))), 200);
    let admin = gateway.running.as_ref().and_then(|running| running.admin()).expect("an admin side");
    let request = next_export(&exports);
    let span_id = hex(&of_kind(&spans_of(&request.body), SpanKind::Client)[0].span_id);
    let metrics = || get_admin(admin, "/metrics").text();
    assert!(!metrics().contains("trace_id"), "nobody has it yet");
    request.answer(ACCEPTED);
    let wanted = format!("# {{trace_id=\"{TRACE}\",span_id=\"{span_id}\"}} ");
    let started = Instant::now();
    let text = loop {
        let text = metrics();
        if text.contains("trace_id") {
            break text;
        }
        assert!(started.elapsed() < TIMEOUT, "no exemplar");
        std::thread::yield_now();
    };
    for family in ["gen_ai_server_time_to_first_token_seconds", "gen_ai_client_operation_duration_seconds"] {
        let of_family = |line: &&str| line.starts_with(&format!("{family}_bucket")) && line.contains(&wanted);
        let [line] = text.lines().filter(of_family).collect::<Vec<_>>()[..] else { panic!("one bucket of {family}") };
        let bound = line.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok());
        let value = line.split("} ").last().and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        assert!(value.expect("a value") <= bound.expect("a bound"), "{line}");
    }
    assert!(text.contains("tokrate_otel_spans_total{outcome=\"taken\"} 2"), "{text}");
}

#[test]
fn a_busy_collector_gets_the_same_spans_again_and_calls_go_on() {
    let (engine, (address, exports)) = (engine(), collector());
    let config = tracing(address, TracesConfig::default(), two_lanes(&engine, Mode::Off));
    let otel = config.otel.clone().map(|otel| OtelConfig { interval: Span::from_millis(20), ..otel });
    let gateway = TestGateway::start(Config { otel, ..config });
    assert_eq!(call(&gateway, &body("all", true), Some(&parent("01"))), 200);
    let refused = next_export(&exports);
    let first = spans_of(&refused.body);
    assert_eq!(call(&gateway, &body("all", true), None), 200, "no call waits for a collector");
    refused.answer("HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 4\r\n\r\nbusy");
    let again = next_export(&exports);
    assert_eq!(spans_of(&again.body), first);
    again.answer(ACCEPTED);
    let next = next_export(&exports);
    assert_eq!(spans_of(&next.body).len(), 2, "the other call");
    next.answer(ACCEPTED);
}
