//! The OpenTelemetry export over loopback: a gateway with simulated lanes, and a collector of the test, which decodes
//! requests by OpenTelemetry's own messages.

use crate::client::post;
use crate::harness::{TestGateway, configured, lane};
use http::{HeaderMap, HeaderValue};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, metric, number_data_point};
use prost::Message;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tokrate_core::Span;
use tokrate_gateway::{Config, Mode, OtelConfig};
use tokrate_host::{Host, HostConfig, RunningHost};
use tokrate_net::Target;
use tokrate_sim::Law;
use tokrate_wire::Dialect;

const BODY: &str =
    r#"{"model":"all","stream":true,"max_tokens":160,"messages":[{"role":"user","content":"a secret prompt"}]}"#;
pub const KEY: &str = "collector-key-that-is-secret";
/// So rare that a test sees only the last export, at shutdown.
pub const NEVER: Span = Span::from_secs(3_600);
const OFTEN: Span = Span::from_millis(20);
/// Only a test that fails waits this long.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A request of the gateway, and the stream for its response; the connection is closed if it is dropped.
pub struct ExportRequest {
    pub head: String,
    pub body: Vec<u8>,
    stream: TcpStream,
}

impl ExportRequest {
    pub fn answer(mut self, text: &str) {
        // The gateway may have closed the connection in the meantime.
        let _ = self.stream.write_all(text.as_bytes());
    }

    fn accept(self) -> Export {
        let export = Export::read(&self);
        self.answer("HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n");
        export
    }
}

/// Listens and forwards requests in order.
pub fn collector() -> (SocketAddr, Receiver<ExportRequest>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (sender, receiver) = channel();
    // Ends with the process, or when the receiver is dropped.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if forward(stream.expect("a connection"), &sender).is_none() {
                return;
            }
        }
    });
    (address, receiver)
}

fn forward(stream: TcpStream, sender: &Sender<ExportRequest>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        // The gateway cancelled the request.
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return Some(());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return Some(());
    }
    sender.send(ExportRequest { head, body, stream: reader.into_inner() }).ok()
}

/// A decoded export.
struct Export(ExportMetricsServiceRequest);

impl Export {
    fn read(request: &ExportRequest) -> Export {
        Export(ExportMetricsServiceRequest::decode(&*request.body).expect("a request of OTLP"))
    }

    fn resource(&self, key: &str) -> Option<&str> {
        let resource = self.0.resource_metrics[0].resource.as_ref().expect("a resource");
        text(&resource.attributes, key)
    }

    fn data(&self, name: &str) -> Option<&metric::Data> {
        let metrics = self.0.resource_metrics[0].scope_metrics[0].metrics.iter();
        metrics.filter(|metric| metric.name == name).find_map(|metric| metric.data.as_ref())
    }

    /// The histogram's points whose attributes contain all of these.
    fn points(&self, name: &str, wanted: &[(&str, &str)]) -> Vec<&HistogramDataPoint> {
        let Some(metric::Data::Histogram(histogram)) = self.data(name) else { return Vec::new() };
        let holds =
            |point: &&HistogramDataPoint| wanted.iter().all(|(key, value)| text(&point.attributes, key) == Some(value));
        histogram.data_points.iter().filter(holds).collect()
    }

    /// The sum of a counter's points whose attributes contain all of these.
    fn sum(&self, name: &str, wanted: &[(&str, &str)]) -> f64 {
        let Some(metric::Data::Sum(sum)) = self.data(name) else { return 0.0 };
        let held = sum
            .data_points
            .iter()
            .filter(|point| wanted.iter().all(|(key, value)| text(&point.attributes, key) == Some(value)));
        held.map(|point| match point.value {
            Some(number_data_point::Value::AsDouble(value)) => value,
            other => panic!("{other:?}"),
        })
        .sum()
    }
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text),
        other => panic!("{other:?}"),
    }
}

pub fn engine() -> RunningHost {
    let law = Law { base_delay: Span::from_millis(2), stream_tokens_per_second: 400.0, ..Law::default() };
    Host::start(HostConfig { law, ..HostConfig::default() }).expect("an engine")
}

pub fn exporting(engine: &RunningHost, collector: SocketAddr, interval: Span) -> Config {
    let mut headers = HeaderMap::new();
    let mut key = HeaderValue::from_static(KEY);
    key.set_sensitive(true);
    headers.insert("x-collector-key", key);
    let endpoint = Target::parse(&format!("http://{collector}/otlp")).expect("a URL");
    let resource = vec![("deployment.environment.name".to_owned(), "test".to_owned())];
    let lanes = vec![lane("alive", engine.address(), &[Dialect::OpenAiChat])];
    let otel = OtelConfig { endpoint, headers, interval, metrics: true, traces: None, resource };
    Config { otel: Some(otel), ..configured(lanes, Mode::Off) }
}

fn send_calls(gateway: &TestGateway, times: usize) {
    for _ in 0..times {
        let answer = post(gateway.address, "/v1/chat/completions", BODY);
        assert_eq!((answer.status, answer.ended), (200, true), "{}", answer.text());
    }
}

pub fn next_export(exports: &Receiver<ExportRequest>) -> ExportRequest {
    exports.recv_timeout(TIMEOUT).expect("an export")
}

/// The gateway's error of the export, once there is one.
fn export_error(gateway: &TestGateway) -> String {
    let gateway = gateway.running.as_ref().expect("it runs");
    let started = Instant::now();
    loop {
        match gateway.take_export_error() {
            Some(message) => return message,
            None => assert!(started.elapsed() < TIMEOUT, "no error"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn the_last_export_covers_all_calls_of_the_log() {
    let (engine, (address, exports)) = (engine(), collector());
    let mut gateway = TestGateway::start(exporting(&engine, address, NEVER));
    send_calls(&gateway, 4);
    let rows = std::thread::scope(|scope| {
        let rows = scope.spawn(|| gateway.rows());
        let request = next_export(&exports);
        assert!(request.head.starts_with("POST /otlp/v1/metrics HTTP/1.1\r\n"), "{}", request.head);
        for header in
            ["content-type: application/x-protobuf", &format!("x-collector-key: {KEY}"), "user-agent: tokrate/"]
        {
            assert!(request.head.contains(header), "{header} in {}", request.head);
        }
        let bytes = String::from_utf8_lossy(&request.body).into_owned();
        assert!(!bytes.contains("secret"), "neither prompts nor keys");
        let export = request.accept();
        let rows = rows.join().expect("the log's rows");
        assert_export_matches_log(&export, &rows);
        rows
    });
    assert_eq!(rows.len(), 4);
    assert!(exports.try_recv().is_err(), "one export, at the end");
}

/// Names, buckets, counts and sums against the rows of the same calls.
fn assert_export_matches_log(export: &Export, rows: &[tokrate_record::Attempt]) {
    assert_eq!(
        (export.resource("service.name"), export.resource("deployment.environment.name")),
        (Some("tokrate"), Some("test"))
    );
    assert!(export.resource("service.instance.id").is_some_and(|id| rows[0].call.starts_with(id)));
    let of_lane = [
        ("tokrate.lane", "alive"),
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "provider-alive"),
        ("gen_ai.request.model", "model-alive"),
    ];
    let per_token = |row: &tokrate_record::Attempt| row.sample.output_speed.map(|speed| 1e9 / speed);
    let times: [(&str, Vec<f64>); 3] = [
        (
            "gen_ai.server.time_to_first_token",
            rows.iter().filter_map(|row| row.sample.ttft_ns).map(|ns| ns as f64).collect(),
        ),
        ("gen_ai.server.time_per_output_token", rows.iter().filter_map(per_token).collect()),
        ("gen_ai.client.operation.duration", rows.iter().map(|row| row.sample.total_ns as f64).collect()),
    ];
    for (name, nanos) in times {
        let [point] = export.points(name, &of_lane)[..] else { panic!("{name}: one series") };
        assert_eq!((point.count, nanos.len()), (4, 4), "{name}");
        assert!((point.sum.expect("a sum") - nanos.iter().sum::<f64>() / 1e9).abs() < 1e-6, "{name}");
        let bounds = &point.explicit_bounds;
        assert_eq!(
            (bounds.len(), bounds[0], bounds[39], point.bucket_counts.len()),
            (40, 0.000_05, 130.0, 41),
            "{name}"
        );
        let mut expected = vec![0; 41];
        for nanos in nanos {
            expected[bounds.partition_point(|bound| *bound < nanos.round() / 1e9)] += 1;
        }
        assert_eq!(point.bucket_counts, expected, "{name}");
        assert!(point.start_time_unix_nano > 0 && point.time_unix_nano > point.start_time_unix_nano);
    }
    let output: u64 = rows.iter().filter_map(|row| row.sample.output_tokens).sum();
    let [tokens] = export.points("gen_ai.client.token.usage", &[("gen_ai.token.type", "output")])[..] else {
        panic!("one series of output tokens")
    };
    assert_eq!((tokens.count, tokens.sum), (4, Some(output as f64)));
    assert_eq!(export.sum("tokrate.attempts", &[("lane", "alive"), ("end", "answered")]), 4.0);
    let cost: f64 = rows.iter().filter_map(|row| row.sample.cost_usd).sum();
    assert!((export.sum("tokrate.cost.usd", &[]) - cost).abs() < 1e-12);
    assert_eq!(export.sum("tokrate.log.rows.written", &[]), 4.0);
}

#[test]
fn a_busy_collector_gets_the_pause_it_asks_for_and_loses_nothing() {
    let (engine, (address, exports)) = (engine(), collector());
    let gateway = TestGateway::start(exporting(&engine, address, OFTEN));
    send_calls(&gateway, 1);
    let wait = Duration::from_millis(400);
    let refused = next_export(&exports);
    let at = Instant::now();
    refused.answer("HTTP/1.1 503 Service Unavailable\r\nretry-after: 0.4\r\ncontent-length: 4\r\n\r\nbusy");
    assert_eq!(export_error(&gateway), format!("http://{address}/otlp: responded 503 Service Unavailable: busy"));
    let export = next_export(&exports).accept();
    assert!(at.elapsed() >= wait, "{:?}", at.elapsed());
    assert_eq!(export.sum("tokrate.attempts", &[]), 1.0, "what was refused is sent again");
    assert_eq!(export.sum("tokrate.otel.exports", &[("outcome", "failed")]), 1.0);
    let export = next_export(&exports).accept();
    assert_eq!(export.sum("tokrate.otel.exports", &[("outcome", "taken")]), 1.0);
    assert_eq!(gateway.running.as_ref().and_then(|gateway| gateway.take_export_error()), None, "it was reported once");
}

#[test]
fn a_collector_that_never_responds_delays_neither_calls_nor_shutdown() {
    let (engine, (address, exports)) = (engine(), collector());
    let mut gateway = TestGateway::start(exporting(&engine, address, OFTEN));
    let hanging = next_export(&exports);
    // Calls go on while the response is outstanding.
    send_calls(&gateway, 2);
    assert!(exports.try_recv().is_err(), "one export at a time");
    let started = Instant::now();
    // The last export gets no response either.
    let rows = gateway.rows();
    assert!(started.elapsed() < Duration::from_secs(8), "the end took {:?}", started.elapsed());
    assert_eq!(rows.len(), 2);
    assert_eq!(Export::read(&next_export(&exports)).sum("tokrate.attempts", &[]), 2.0);
    drop(hanging);
}

#[test]
fn without_a_collector_calls_go_on_and_the_error_is_reported() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let engine = engine();
    let mut gateway = TestGateway::start(exporting(&engine, nowhere, OFTEN));
    send_calls(&gateway, 2);
    let message = export_error(&gateway);
    assert!(message.starts_with(&format!("http://{nowhere}/otlp: ")) && !message.contains(KEY), "{message}");
    assert_eq!(gateway.rows().len(), 2);
}

#[test]
fn a_partial_success_is_reported_and_exports_go_on() {
    let (engine, (address, exports)) = (engine(), collector());
    let gateway = TestGateway::start(exporting(&engine, address, OFTEN));
    // `partial_success { rejected_data_points: 2, error_message: KEY }`
    let message = [&[0x08, 2, 0x12, KEY.len() as u8], KEY.as_bytes()].concat();
    let body = [&[0x0a, message.len() as u8], &message[..]].concat();
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n", body.len());
    answer.push_str(std::str::from_utf8(&body).expect("all of it is ASCII"));
    next_export(&exports).answer(&answer);
    assert_eq!(export_error(&gateway), format!("http://{address}/otlp: rejected 2 points: ***"));
    assert_eq!(next_export(&exports).accept().sum("tokrate.otel.exports", &[("outcome", "partly")]), 1.0);
}

#[test]
fn settings_print_without_the_key() {
    let (engine, (address, _exports)) = (engine(), collector());
    let printed = format!("{:?}", exporting(&engine, address, NEVER));
    assert!(printed.contains("x-collector-key") && !printed.contains(KEY), "{printed}");
}
