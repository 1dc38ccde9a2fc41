//! The metrics in OpenMetrics text, which Prometheus reads; names of generative AI are those of OpenTelemetry.
//!
//! It refuses to know HTTP. Invariant: the value of every label comes from the configuration or from a fixed list, so that
//! no client and no provider can add a series; no label holds a key, a prompt or an answer.

use super::histogram::Histogram;
use super::told::OperationTold;
use super::view::{LaneState, LaneView, View};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt::Error;
use tokrate_core::FailureKind;

/// What the text is called in HTTP.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Nanoseconds of a second.
const NANOS: f64 = 1e9;

/// All metrics of a moment.
pub(crate) fn text(view: View) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Metrics(view)));
    let mut out = String::with_capacity(64 * 1024);
    encode(&mut out, &registry).expect("a string takes everything");
    out
}

#[derive(Debug)]
struct Metrics(View);

/// Labels, those without a value left out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
struct Labels<'a>(Vec<(&'static str, &'a str)>);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), Error> {
        self.0.as_slice().encode(encoder)
    }
}

impl<'a> Labels<'a> {
    fn lane(name: &'a str) -> Labels<'a> {
        Labels(vec![("lane", name)])
    }

    fn with(&self, name: &'static str, value: &'a str) -> Labels<'a> {
        let mut labels = self.clone();
        labels.0.push((name, value));
        labels
    }

    fn with_failure(&self, name: &'static str, kind: Option<FailureKind>) -> Labels<'a> {
        match kind {
            Some(kind) => self.with(name, kind.name()),
            None => self.clone(),
        }
    }
}

/// Writes one family after another.
struct Writer<'a>(DescriptorEncoder<'a>);

type Samples<'a, T> = Vec<(Labels<'a>, T)>;

impl Writer<'_> {
    fn counters(&mut self, name: &str, help: &str, samples: Samples<'_, f64>) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges(&mut self, name: &str, help: &str, unit: Option<Unit>, samples: Samples<'_, f64>) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in samples {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Histograms, what they count divided by `per`.
    fn histograms(
        &mut self,
        name: &str,
        help: &str,
        (unit, per): (Option<Unit>, f64),
        samples: Samples<'_, &Histogram>,
    ) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?;
        for (labels, histogram) in samples.into_iter().filter(|(_, histogram)| histogram.count() > 0) {
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                histogram.sum() / per,
                histogram.count(),
                &histogram.buckets(per),
                None,
            )?;
        }
        Ok(())
    }
}

impl Collector for Metrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut writer = Writer(encoder);
        self.generative(&mut writer)?;
        self.attempts(&mut writer)?;
        self.lanes(&mut writer)?;
        self.gateway(&mut writer)
    }
}

impl Metrics {
    /// What OpenTelemetry's conventions name.
    fn generative(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let seconds = || (Some(Unit::Seconds), NANOS);
        let each = |of: for<'t> fn(&'t OperationTold) -> &'t Histogram| self.operations(of);
        writer.histograms(
            "gen_ai_server_time_to_first_token",
            "Sent to first output text, reasoning and tool calls included, as seen from the gateway; failed attempts left out",
            seconds(),
            each(|told| &told.ttft),
        )?;
        writer.histograms(
            "gen_ai_server_time_per_output_token",
            "1 / output speed: time per output token after the first chunk, as seen from the gateway; failed attempts left out",
            seconds(),
            each(|told| &told.time_per_token),
        )?;
        let mut durations = Vec::new();
        let mut tokens = Vec::new();
        for (labels, told) in self.labelled() {
            durations
                .extend(told.duration.iter().map(|(kind, times)| (labels.with_failure("error_type", *kind), times)));
            tokens.push((labels.with("gen_ai_token_type", "input"), &told.input_tokens));
            tokens.push((labels.with("gen_ai_token_type", "output"), &told.output_tokens));
        }
        writer.histograms(
            "gen_ai_client_operation_duration",
            "Begun to the end of the answer, of attempts that were not given up",
            seconds(),
            durations,
        )?;
        let help = "Tokens of an attempt, as reported by the provider, else as counted (o200k_base)";
        writer.histograms("gen_ai_client_token_usage", help, (None, 1.0), tokens)
    }

    fn attempts(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let (mut endings, mut costs) = (Vec::new(), Vec::new());
        for lane in &self.0.heard.lanes {
            let labels = Labels::lane(&lane.name);
            for ((role, end, failure), count) in &lane.endings {
                let labels = labels.with("role", role.name()).with("end", end.name());
                endings.push((labels.with_failure("failure", *failure), *count as f64));
            }
            costs.extend(lane.cost_usd.iter().map(|(basis, usd)| (labels.with("basis", basis.name()), *usd)));
        }
        let heard = &self.0.heard;
        let once = |value: f64| vec![(Labels::default(), value)];
        writer.counters("tokrate_attempts", "Attempts that ended, by role and end", merged(endings))?;
        writer.counters("tokrate_cost_usd", "What attempts cost, as far as it is known (USD)", merged(costs))?;
        writer.counters(
            "tokrate_race_extra_attempts",
            "Attempts beside the one that a call needed",
            once(heard.extra_attempts as f64),
        )?;
        writer.counters("tokrate_race_extra_cost_usd", "What those cost (USD)", once(heard.extra_usd))
    }

    fn lanes(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let lanes = &self.0.lanes;
        let of =
            |value: fn(&LaneView) -> f64| lanes.iter().map(|lane| (Labels::lane(&lane.name), value(lane))).collect();
        let in_flight = of(|lane| f64::from(lane.in_flight));
        writer.gauges("tokrate_lane_in_flight", "Calls of a lane in flight", None, in_flight)?;
        let open = of(|lane| f64::from(u8::from(matches!(lane.state, LaneState::CoolingDown { .. }))));
        writer.gauges("tokrate_lane_breaker_open", "1 while a lane is left alone after failures", None, open)?;
        let (mut ttft, mut speed) = (Vec::new(), Vec::new());
        for lane in lanes {
            let Some(expected) = lane.expected else { continue };
            let labels = Labels::lane(&lane.name);
            ttft.push((labels.with("quantile", "0.5"), expected.ttft_p50.as_secs_f64()));
            ttft.push((labels.with("quantile", "0.9"), expected.ttft_p90.as_secs_f64()));
            speed.push((labels, expected.speed));
        }
        let help = "TTFT that a call with a prompt of 1000 tokens may expect at the lane's present load";
        writer.gauges("tokrate_lane_expected_ttft", help, Some(Unit::Seconds), ttft)?;
        let help = "Output speed that a call may expect at the lane's present load (tok/s)";
        writer.gauges("tokrate_lane_expected_output_speed", help, None, speed)
    }

    fn gateway(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        let view = &self.0;
        let once = |value: f64| vec![(Labels::default(), value)];
        writer.gauges("tokrate_calls_open", "Calls that clients have open", None, once(view.open_calls as f64))?;
        writer.histograms(
            "tokrate_gateway_overhead",
            "Time that the gateway itself took of an answered call, before and behind the provider",
            (Some(Unit::Seconds), NANOS),
            view.heard.overhead.iter().map(|histogram| (Labels::default(), histogram)).collect(),
        )?;
        if let Some(log) = &view.log {
            let (written, lost) = (once(log.counts.written as f64), once(log.counts.lost as f64));
            writer.counters("tokrate_log_rows_written", "Rows of the throughput log in its database", written)?;
            writer.counters("tokrate_log_rows_lost", "Rows of the throughput log that could not be kept", lost)?;
            let waiting = once(log.counts.waiting as f64);
            writer.gauges("tokrate_log_rows_waiting", "Rows of the throughput log to be written", None, waiting)?;
        }
        if let Some(bytes) = view.resident_bytes {
            let help = "Memory of the process that is in RAM";
            writer.gauges("process_resident_memory", help, Some(Unit::Bytes), once(bytes as f64))?;
        }
        let mut family = writer.0.encode_descriptor("tokrate_build", "Version of tokrate", None, MetricType::Info)?;
        family.encode_info(&Labels(vec![("version", view.version)]))
    }

    fn operations(&self, of: for<'t> fn(&'t OperationTold) -> &'t Histogram) -> Samples<'_, &Histogram> {
        self.labelled().map(|(labels, told)| (labels, of(told))).collect()
    }

    /// Each operation of each lane, with the labels of the conventions.
    fn labelled(&self) -> impl Iterator<Item = (Labels<'_>, &OperationTold)> {
        self.0.heard.lanes.iter().flat_map(|lane| {
            lane.operations.iter().map(|(operation, told)| {
                let labels = Labels(vec![
                    ("gen_ai_operation_name", operation.name()),
                    ("gen_ai_provider_name", &*lane.provider),
                    ("gen_ai_request_model", &*lane.model),
                    ("tokrate_lane", &*lane.name),
                ]);
                (labels, told)
            })
        })
    }
}

/// Sums of equal labels: a lane that was configured anew is one series where its model is no label.
fn merged(samples: Samples<'_, f64>) -> Samples<'_, f64> {
    let mut merged: BTreeMap<Labels<'_>, f64> = BTreeMap::new();
    for (labels, value) in samples {
        *merged.entry(labels).or_default() += value;
    }
    merged.into_iter().collect()
}

#[cfg(test)]
mod tests;
