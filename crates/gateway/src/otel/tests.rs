//! Exports are decoded by OpenTelemetry's own messages and compared with the metrics of the same snapshot; and what
//! responses of a collector mean.

use super::response::{ExportError, ExportOutcome};
use super::status::{ExportCounts, ExportStatus};
use super::*;
use crate::sample::{NOON_UNIX_MS, SampleGateway, failed, lane_config, lost, row};
use crate::telemetry::metrics::{Family, Series, families};
use http::{Response, StatusCode, Version};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, metric, number_data_point};
use prost::Message;
use tokrate_net::{Answer, Head};

const STARTED_UNIX_NS: u64 = (NOON_UNIX_MS - 3_600_000) * 1_000_000;
const NOW_UNIX_NS: u64 = NOON_UNIX_MS * 1_000_000;

fn exported(snapshot: &Snapshot) -> ExportMetricsServiceRequest {
    let resource = [("service.name".to_owned(), "tokrate".to_owned())];
    let bytes = metrics::request(snapshot, &resource, STARTED_UNIX_NS);
    ExportMetricsServiceRequest::decode(&*bytes).expect("OpenTelemetry's own messages read it")
}

fn metrics_of(request: &ExportMetricsServiceRequest) -> &[Metric] {
    let [resource] = &request.resource_metrics[..] else { panic!("one resource") };
    let [scope] = &resource.scope_metrics[..] else { panic!("one scope") };
    &scope.metrics
}

fn text_of(attributes: &[KeyValue]) -> Vec<(&str, &str)> {
    attributes
        .iter()
        .map(|attribute| match &attribute.value.as_ref().expect("seen").value {
            Some(any_value::Value::StringValue(text)) => (attribute.key.as_str(), text.as_str()),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Compares a metric with the family that it was encoded from.
fn assert_same(metric: &Metric, family: &Family<'_>) {
    assert_eq!((metric.name.as_str(), metric.description.as_str()), (family.name, family.help));
    match (metric.data.as_ref().expect("data"), &family.series) {
        (metric::Data::Gauge(gauge), Series::Gauges(samples)) => {
            assert_eq!(gauge.data_points.len(), samples.len());
            for (point, (labels, value)) in gauge.data_points.iter().zip(samples) {
                assert_eq!(point.value, Some(number_data_point::Value::AsDouble(*value)));
                assert_eq!((text_of(&point.attributes), point.time_unix_nano), (labels.0.clone(), NOW_UNIX_NS));
            }
        }
        (metric::Data::Sum(sum), Series::Counters(samples)) => {
            assert!(sum.is_monotonic && sum.aggregation_temporality() == AggregationTemporality::Cumulative);
            assert_eq!(sum.data_points.len(), samples.len());
            for (point, (labels, value)) in sum.data_points.iter().zip(samples) {
                assert_eq!(point.value, Some(number_data_point::Value::AsDouble(*value)));
                assert_eq!(text_of(&point.attributes), labels.0);
                assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (STARTED_UNIX_NS, NOW_UNIX_NS));
            }
        }
        (metric::Data::Histogram(histogram), Series::Histograms(samples)) => {
            assert_eq!(histogram.aggregation_temporality(), AggregationTemporality::Cumulative);
            assert_eq!(histogram.data_points.len(), samples.len());
            for (point, (labels, counted)) in histogram.data_points.iter().zip(samples) {
                let parts = family.unit.parts();
                let buckets = counted.buckets(parts);
                assert_eq!(text_of(&point.attributes), labels.0);
                assert_eq!((point.count, point.sum), (counted.count(), Some(counted.sum() / parts)));
                assert_eq!(point.bucket_counts, buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>());
                let bounds: Vec<f64> = buckets.iter().map(|(bound, _)| *bound).collect();
                assert_eq!(point.explicit_bounds, bounds[..bounds.len() - 1], "the last bucket has no bound");
                assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (STARTED_UNIX_NS, NOW_UNIX_NS));
            }
        }
        (data, series) => panic!("{}: {data:?} for {series:?}", family.name),
    }
}

#[test]
fn exports_equal_the_metrics() {
    let sample = SampleGateway::with_traffic(NOON_UNIX_MS);
    let snapshot = sample.snapshot(NOON_UNIX_MS);
    let request = exported(&snapshot);
    let state = families(&snapshot);
    assert_eq!(metrics_of(&request).len(), state.len(), "an hour leaves no family empty");
    for (metric, family) in metrics_of(&request).iter().zip(&state) {
        assert_same(metric, family);
    }
}

#[test]
fn names_units_and_attributes_are_those_of_the_conventions() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", Some(8))]);
    for row in [row(1, "a"), lost(2, "a", 1), failed(3, "a", FailureKind::RateLimited)] {
        sample.record(&row);
    }
    let request = exported(&sample.snapshot(NOON_UNIX_MS));
    let mut lines = Vec::new();
    for metric in metrics_of(&request) {
        let attributes: Vec<_> = match metric.data.as_ref().expect("data") {
            metric::Data::Gauge(gauge) => gauge.data_points.iter().map(|point| text_of(&point.attributes)).collect(),
            metric::Data::Sum(sum) => sum.data_points.iter().map(|point| text_of(&point.attributes)).collect(),
            metric::Data::Histogram(times) => {
                times.data_points.iter().map(|point| text_of(&point.attributes)).collect()
            }
            other => panic!("{other:?}"),
        };
        for attributes in attributes {
            let attributes: Vec<String> = attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
            lines.push(format!("{} [{}] {}", metric.name, metric.unit, attributes.join(" ")));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_gateway_without_calls_exports_no_empty_metric() {
    let sample = SampleGateway::new(vec![lane_config("a", "example", "model-1", None)]);
    let request = exported(&sample.snapshot(NOON_UNIX_MS));
    let names: Vec<&str> = metrics_of(&request).iter().map(|metric| metric.name.as_str()).collect();
    assert!(!names.iter().any(|name| name.starts_with("gen_ai.")), "{names:?}");
    assert!(names.contains(&"tokrate.lane.in_flight"), "{names:?}");
}

#[test]
fn a_clock_that_was_set_back_does_not_put_the_end_before_the_start() {
    let sample = SampleGateway::with_traffic(NOON_UNIX_MS);
    let snapshot = sample.snapshot(NOON_UNIX_MS - 7_200_000);
    let bytes = metrics::request(&snapshot, &[], STARTED_UNIX_NS);
    let request = ExportMetricsServiceRequest::decode(&*bytes).expect("a request");
    for metric in metrics_of(&request) {
        if let Some(metric::Data::Sum(sum)) = &metric.data {
            assert!(sum.data_points.iter().all(|point| point.time_unix_nano >= point.start_time_unix_nano));
        }
    }
}

fn answer(status: StatusCode, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let (parts, ()) = response.body(()).expect("a response").into_parts();
    Answer { head: Head { status, headers: parts.headers, version: Version::HTTP_11 }, body }
}

fn outcome(status: u16, headers: &[(&str, &str)], body: Vec<u8>) -> ExportOutcome {
    let mut secret = HeaderMap::new();
    let mut key = HeaderValue::from_static("Bearer sk-very-secret");
    key.set_sensitive(true);
    secret.insert("authorization", key);
    let status = StatusCode::from_u16(status).expect("a status");
    ExportOutcome::of_answer(&answer(status, headers, body), &Secrets::of(&secret))
}

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");

fn partly(rejected_data_points: i64, error_message: &str) -> Vec<u8> {
    let partial = ExportMetricsPartialSuccess { rejected_data_points, error_message: error_message.to_owned() };
    ExportMetricsServiceResponse { partial_success: Some(partial) }.encode_to_vec()
}

#[test]
fn a_partial_success_is_not_retried() {
    let message = |outcome: &ExportOutcome| outcome.error().map(|error| error.message.clone()).unwrap_or_default();
    assert_eq!(outcome(200, &[PROTOBUF], Vec::new()), ExportOutcome::Accepted);
    assert_eq!(outcome(200, &[PROTOBUF], partly(0, "")), ExportOutcome::Accepted);
    let rejected = outcome(200, &[PROTOBUF], partly(3, "too\nold for sk-very-secret"));
    assert!(matches!(rejected, ExportOutcome::PartiallyAccepted(_)));
    assert_eq!(message(&rejected), "rejected 3 points: too old for ***");
    let warned = outcome(200, &[PROTOBUF], partly(0, "soon gone"));
    assert_eq!(
        (matches!(warned, ExportOutcome::PartiallyAccepted(_)), message(&warned).as_str()),
        (true, "accepted with a warning: soon gone")
    );
    assert_eq!(outcome(202, &[("content-type", "text/html")], b"<p>\x0a\x03fine".to_vec()), ExportOutcome::Accepted);
}

#[test]
fn only_retryable_statuses_are_retried() {
    let wait = |status, headers: &[(&str, &str)]| match outcome(status, headers, b"busy".to_vec()) {
        ExportOutcome::Retry(wait, error) => Some((wait, error.message)),
        _ => None,
    };
    let seconds = |count| Some(Span::from_secs(count));
    assert_eq!(
        wait(503, &[("retry-after", "7")]),
        Some((seconds(7), "responded 503 Service Unavailable: busy".to_owned()))
    );
    assert_eq!(wait(429, &[("retry-after", "7")]).map(|(wait, _)| wait), Some(seconds(7)));
    for status in [429, 502, 503, 504] {
        assert_eq!(wait(status, &[]).map(|(wait, _)| wait), Some(None), "{status}");
    }
    for status in [301, 400, 401, 403, 404, 413, 500] {
        assert!(wait(status, &[("retry-after", "7")]).is_none(), "{status}");
    }
}

#[test]
fn a_collectors_error_is_bounded_and_without_the_key() {
    let mut status = protobuf::Message::default();
    status.number(1, 16);
    status.text(2, "no such key: sk-very-secret");
    let ExportOutcome::Rejected(error) = outcome(401, &[PROTOBUF], status.into_bytes()) else { panic!("refused") };
    assert_eq!(error.message, "responded 401 Unauthorized: no such key: ***");
    // Cut in the middle of a key.
    let long = format!("{}sk-very-secret {}", "x".repeat(293), "y".repeat(1_000_000));
    let ExportOutcome::Rejected(error) = outcome(400, &[("content-type", "text/plain")], long.into_bytes()) else {
        panic!("refused")
    };
    assert!(error.message.len() < 400 && !error.message.contains("sk-v"), "{}", error.message);
}

#[test]
fn an_error_is_reported_once_until_it_changes_or_ends() {
    let exports = ExportStatus::default();
    assert_eq!(exports.counts(), None, "nothing is exported");
    exports.enable("http://collector:4318".to_owned());
    let error = |kind: &str| ExportError { kind: kind.to_owned(), message: format!("it is {kind}") };
    let mut state = Vec::new();
    for outcome in [
        ExportOutcome::Accepted,
        ExportOutcome::Retry(None, error("busy")),
        ExportOutcome::Retry(Some(Span::from_secs(1)), error("busy")),
        ExportOutcome::Rejected(error("closed")),
        ExportOutcome::Accepted,
        ExportOutcome::Rejected(error("closed")),
        ExportOutcome::PartiallyAccepted(error("picky")),
    ] {
        exports.record(&outcome);
        state.push(exports.take_new_error().unwrap_or_default());
    }
    let of = |kind: &str| format!("http://collector:4318: it is {kind}");
    let nothing = String::new;
    assert_eq!(state, [nothing(), of("busy"), nothing(), of("closed"), nothing(), of("closed"), of("picky")]);
    assert_eq!(exports.counts(), Some(ExportCounts { accepted: 2, partial: 1, failed: 4 }));
}
