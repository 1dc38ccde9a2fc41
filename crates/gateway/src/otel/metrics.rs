//! The metrics of a moment as an `ExportMetricsServiceRequest` of OTLP.
//!
//! It refuses to know which metrics there are, and to count: sums and buckets are those that `/metrics` tells. Invariant:
//! sums and histograms are cumulative since one start, so that an export that was lost is made good by the next.

use super::protobuf::Message;
use crate::telemetry::metrics::{Family, Labels, Series, families};
use crate::telemetry::snapshot::Snapshot;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

/// What is counted, and since when (ns since 1970).
#[derive(Clone, Copy, Debug)]
struct Time {
    began: u64,
    now: u64,
}

/// The request that tells a collector of a gateway that began at that time (ns since 1970).
pub(crate) fn request(view: &Snapshot, resource: &[(String, String)], began_unix_ns: u64) -> Vec<u8> {
    // A wall clock that was set back does not put the end before the beginning.
    let now = (view.now_unix_ms * 1_000_000).max(began_unix_ns);
    let time = Time { began: began_unix_ns, now };
    let mut request = Message::default();
    request.message(1, |out| {
        out.message(1, |out| resource.iter().for_each(|(key, value)| attribute(out, 1, key, value)));
        out.message(2, |out| {
            scope(out, view.version);
            for family in families(view).iter().filter(|family| !family.is_empty()) {
                out.message(2, |out| metric(out, family, time));
            }
        });
    });
    request.into_bytes()
}

/// Who speaks, in an `InstrumentationScope`.
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
                out.message(1, |out| number(out, labels, *value, Time { began: 0, ..time }));
            }
        }),
        Series::Counters(samples) => out.message(7, |out| {
            for (labels, value) in samples {
                out.message(1, |out| number(out, labels, *value, time));
            }
            out.number(2, CUMULATIVE);
            // It only rises.
            out.number(3, 1);
        }),
        Series::Histograms(samples) => out.message(9, |out| {
            let parts = family.unit.parts();
            for (labels, histogram) in samples {
                out.message(1, |out| {
                    out.fixed(2, time.began);
                    out.fixed(3, time.now);
                    out.fixed(4, histogram.count());
                    out.double(5, histogram.sum() / parts);
                    let buckets = histogram.buckets(parts);
                    out.fixed_list(6, buckets.iter().map(|(_, count)| *count));
                    // The last bucket has no bound, and is the one that needs none.
                    out.double_list(7, buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()));
                    attributes(out, 9, labels);
                });
            }
            out.number(2, CUMULATIVE);
        }),
    }
}

/// A `NumberDataPoint`.
fn number(out: &mut Message, labels: &Labels<'_>, value: f64, time: Time) {
    out.fixed(2, time.began);
    out.fixed(3, time.now);
    out.double(4, value);
    attributes(out, 7, labels);
}

fn attributes(out: &mut Message, field: u32, labels: &Labels<'_>) {
    labels.0.iter().for_each(|(name, value)| attribute(out, field, name, value));
}
