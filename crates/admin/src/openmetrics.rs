//! Writes the metrics as OpenMetrics text for Prometheus.
//!
//! Invariant: names are OpenTelemetry's with `_` for each dot; values of labels are escaped.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit as Suffix};
use std::fmt::Error;
use tokrate_gateway::telemetry::metrics::{Family, Labels, Series, Unit, families};
use tokrate_gateway::telemetry::{Exemplar, Snapshot};

/// The media type.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a snapshot.
pub(crate) fn text(snapshot: Snapshot) -> String {
    let exemplars = exemplars(&snapshot);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(snapshot)));
    let mut out = String::with_capacity(64 * 1024);
    encode(&mut out, &registry).expect("a string takes everything");
    if exemplars.iter().any(Option::is_some) { with_exemplars(&out, exemplars) } else { out }
}

/// What is written behind each bucket, in the order in which they are written; empty where there is no trace of one.
fn exemplars(snapshot: &Snapshot) -> Vec<Option<String>> {
    let mut written = Vec::new();
    for family in families(snapshot) {
        let Series::Histograms(samples) = &family.series else { continue };
        let parts = family.unit.parts();
        for (_, histogram) in samples {
            let buckets = histogram.buckets(parts).len();
            let known = histogram.exemplars();
            written.extend((0..buckets).map(|bucket| Some(exemplar_text((*known.get(bucket)?)?, parts))));
        }
    }
    written
}

/// ` # {trace_id="…",span_id="…"} value timestamp`.
fn exemplar_text(exemplar: Exemplar, parts: f64) -> String {
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let (trace, span) = (hex(&exemplar.trace_id), hex(&exemplar.span_id));
    let (value, seconds) = (exemplar.value as f64 / parts, exemplar.at_unix_ns / 1_000_000);
    format!(" # {{trace_id=\"{trace}\",span_id=\"{span}\"}} {value} {}.{:03}", seconds / 1_000, seconds % 1_000)
}

/// The text with an exemplar behind each bucket that has one: the encoder takes none from outside of its own histograms.
fn with_exemplars(text: &str, exemplars: Vec<Option<String>>) -> String {
    let mut exemplars = exemplars.into_iter();
    let mut out = String::with_capacity(text.len() + 16 * 1024);
    for line in text.lines() {
        out.push_str(line);
        let is_bucket = !line.starts_with('#') && line.split('{').next().is_some_and(|name| name.ends_with("_bucket"));
        if let Some(exemplar) = is_bucket.then(|| exemplars.next()).flatten().flatten() {
            out.push_str(&exemplar);
        }
        out.push('\n');
    }
    debug_assert!(exemplars.next().is_none(), "as many buckets as were counted");
    out
}

#[derive(Debug)]
struct Metrics(Snapshot);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        for family in families(&self.0) {
            write(&mut encoder, &family)?;
        }
        let mut build = encoder.encode_descriptor("tokrate_build", "Version of tokrate", None, MetricType::Info)?;
        build.encode_info(&LabelSet(&Labels(vec![("version", self.0.version)])))
    }
}

struct LabelSet<'a>(&'a Labels<'a>);

impl EncodeLabelSet for LabelSet<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), Error> {
        let pairs: Vec<(String, &str)> = self.0.0.iter().map(|(name, value)| (underscored(name), *value)).collect();
        pairs.encode(encoder)
    }
}

fn write(encoder: &mut DescriptorEncoder<'_>, family: &Family<'_>) -> Result<(), Error> {
    let kind = match family.series {
        Series::Counters(_) => MetricType::Counter,
        Series::Gauges(_) => MetricType::Gauge,
        Series::Histograms(_) => MetricType::Histogram,
    };
    let suffix = match family.unit {
        Unit::Seconds => Some(Suffix::Seconds),
        Unit::Bytes => Some(Suffix::Bytes),
        Unit::Counted(_) => None,
    };
    let name = underscored(family.name);
    let mut described = encoder.encode_descriptor(&name, family.help, suffix.as_ref(), kind)?;
    match &family.series {
        Series::Counters(samples) => {
            for (labels, value) in samples {
                described.encode_family(&LabelSet(labels))?.encode_counter::<NoLabelSet, f64, f64>(value, None)?;
            }
        }
        Series::Gauges(samples) => {
            for (labels, value) in samples {
                described.encode_family(&LabelSet(labels))?.encode_gauge(value)?;
            }
        }
        Series::Histograms(samples) => {
            let parts = family.unit.parts();
            for (labels, histogram) in samples {
                described.encode_family(&LabelSet(labels))?.encode_histogram::<NoLabelSet>(
                    histogram.sum() / parts,
                    histogram.count(),
                    &histogram.buckets(parts),
                    None,
                )?;
            }
        }
    }
    Ok(())
}

/// A name in Prometheus' alphabet.
fn underscored(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests;
