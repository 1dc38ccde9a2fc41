//! Encodes metrics as OTLP's `ExportMetricsServiceRequest`.
//!
//! Invariant: sums and histograms are cumulative since the start, so that an export that was lost is made up for by the
//! next.

use super::protobuf::Message;
use crate::settle::stats::histogram::Exemplar;
use crate::telemetry::metrics::{Family, Labels, Series, families};
use crate::telemetry::snapshot::Snapshot;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// The interval that the sums cover (ns since 1970).
#[derive(Clone, Copy, Debug)]
struct Time {
    start: u64,
    now: u64,
}

/// The request for a snapshot of a gateway that started at that time (ns since 1970).
pub(crate) fn request(snapshot: &Snapshot, resource: &[(String, String)], started_unix_ns: u64) -> Vec<u8> {
    // A wall clock that was set back must not put the end before the start.
    let now = (snapshot.now_unix_ms * 1_000_000).max(started_unix_ns);
    let time = Time { start: started_unix_ns, now };
    let mut request = Message::default();
    request.message(1, |out| {
        out.message(1, |out| resource.iter().for_each(|(key, value)| attribute(out, 1, key, value)));
        out.message(2, |out| {
            scope(out, snapshot.version);
            for family in families(snapshot).iter().filter(|family| !family.is_empty()) {
                out.message(2, |out| metric(out, family, time));
            }
        });
    });
    request.into_bytes()
}

/// Name and version, in an `InstrumentationScope`.
pub(super) fn scope(out: &mut Message, version: &str) {
    out.message(1, |out| {
        out.text(1, "tokrate.gateway");
        out.text(2, version);
    });
}

/// A `KeyValue` with a string.
pub(super) fn attribute(out: &mut Message, field: u32, key: &str, value: &str) {
    out.message(field, |out| {
        out.text(1, key);
        out.message(2, |out| out.text(1, value));
    });
}

fn metric(out: &mut Message, family: &Family<'_>, time: Time) {
    out.text(1, family.name);
    out.text(2, family.help);
    out.text(3, family.unit.ucum());
    match &family.series {
        Series::Gauges(samples) => out.message(5, |out| {
            for (labels, value) in samples {
                out.message(1, |out| number(out, labels, *value, Time { start: 0, ..time }));
            }
        }),
        Series::Counters(samples) => out.message(7, |out| {
            for (labels, value) in samples {
                out.message(1, |out| number(out, labels, *value, time));
            }
            out.number(2, CUMULATIVE);
            // `is_monotonic`.
            out.number(3, 1);
        }),
        Series::Histograms(samples) => out.message(9, |out| {
            let parts = family.unit.parts();
            for (labels, histogram) in samples {
                out.message(1, |out| {
                    out.fixed(2, time.start);
                    out.fixed(3, time.now);
                    out.fixed(4, histogram.count());
                    out.double(5, histogram.sum() / parts);
                    let buckets = histogram.buckets(parts);
                    out.fixed_list(6, buckets.iter().map(|(_, count)| *count));
                    // The last bucket is unbounded, so it has no explicit bound.
                    out.double_list(7, buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()));
                    histogram
                        .exemplars()
                        .iter()
                        .flatten()
                        .for_each(|known| out.message(8, |out| exemplar(out, known, parts)));
                    attributes(out, 9, labels);
                });
            }
            out.number(2, CUMULATIVE);
        }),
    }
}

/// An `Exemplar`.
fn exemplar(out: &mut Message, exemplar: &Exemplar, parts: f64) {
    out.fixed(2, exemplar.at_unix_ns);
    out.double(3, exemplar.value as f64 / parts);
    out.bytes(4, &exemplar.span_id);
    out.bytes(5, &exemplar.trace_id);
}

/// A `NumberDataPoint`.
fn number(out: &mut Message, labels: &Labels<'_>, value: f64, time: Time) {
    out.fixed(2, time.start);
    out.fixed(3, time.now);
    out.double(4, value);
    attributes(out, 7, labels);
}

fn attributes(out: &mut Message, field: u32, labels: &Labels<'_>) {
    labels.0.iter().for_each(|(name, value)| attribute(out, field, name, value));
}
