//! The metrics page in Prometheus' text format.
//!
//! Invariant: every name appears once, with the series of all its providers below.
//!
//! Names: vLLM `vllm/v1/metrics/loggers.py`, SGLang `python/sglang/srt/metrics/collector.py`, TGI
//! `docs/source/reference/metrics.md`, llama.cpp `tools/server/README.md`, as of November 2026. Format:
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>.

use super::{Histogram, Meter, MetricNames, REASONS, Stats};
use std::fmt::Write;
use tokrate_core::FinishReason;

/// One provider on a page.
pub(crate) struct ProviderMetrics<'a> {
    pub names: MetricNames,
    /// What its series are labelled with; engines that name no model still do where several share a page.
    pub model: &'a str,
    pub meter: &'a Meter,
    pub stats: Stats,
}

/// Where a metric's values come from.
#[derive(Clone, Copy)]
enum Source {
    Gauge(fn(&ProviderMetrics<'_>) -> f64),
    Counter(fn(&ProviderMetrics<'_>) -> f64),
    /// A counter with a series for every reason to finish.
    Finished,
    Histogram(fn(&Meter) -> &Histogram),
}

type Row = (&'static str, &'static str, Source);

const VLLM: &[Row] = &[
    ("vllm:num_requests_running", "Number of requests in model execution batches.", RUNNING),
    ("vllm:num_requests_waiting", "Number of requests waiting to be processed.", WAITING),
    ("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", Source::Gauge(cache_use)),
    ("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", PREEMPTIONS),
    ("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", LOOKED_UP),
    ("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", FOUND),
    ("vllm:spec_decode_num_draft_tokens_total", "Number of draft tokens.", PROPOSED),
    ("vllm:spec_decode_num_accepted_tokens_total", "Number of accepted tokens.", ACCEPTED),
    ("vllm:prompt_tokens_total", "Number of prefill tokens processed.", INPUT),
    ("vllm:generation_tokens_total", "Number of generation tokens processed.", OUTPUT),
    ("vllm:request_success_total", "Count of successfully processed requests.", Source::Finished),
    ("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", TTFT),
    ("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", ITL),
    ("vllm:request_time_per_output_token_seconds", "Histogram of time per output token of a request.", TPOT),
    ("vllm:e2e_request_latency_seconds", "Histogram of end to end request latency in seconds.", E2E),
    ("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", QUEUE),
    ("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", INFERENCE),
    ("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", PREFILL),
    ("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", DECODE),
    ("vllm:request_prompt_tokens", "Number of prefill tokens processed.", INPUT_LENGTHS),
    ("vllm:request_generation_tokens", "Number of generation tokens processed.", OUTPUT_LENGTHS),
];

const SGLANG: &[Row] = &[
    ("sglang:num_running_reqs", "The number of running requests.", RUNNING),
    ("sglang:num_queue_reqs", "The number of requests in the waiting queue.", WAITING),
    ("sglang:token_usage", "The token usage.", Source::Gauge(cache_use)),
    ("sglang:num_retracted_requests_total", "Total number of retracted requests.", PREEMPTIONS),
    ("sglang:num_requests_total", "Number of requests processed.", REQUESTS),
    ("sglang:prompt_tokens_total", "Number of prefill tokens processed.", INPUT),
    ("sglang:generation_tokens_total", "Number of generation tokens processed.", OUTPUT),
    ("sglang:time_to_first_token_seconds", "Histogram of time to first token in seconds.", TTFT),
    ("sglang:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", ITL),
    ("sglang:e2e_request_latency_seconds", "Histogram of end-to-end request latency in seconds.", E2E),
    ("sglang:queue_time_seconds", "Histogram of queueing time in seconds.", QUEUE),
];

const TGI: &[Row] = &[
    ("tgi_batch_current_size", "Current batch size.", RUNNING),
    ("tgi_queue_size", "Current number of requests in the internal queue.", WAITING),
    ("tgi_request_count", "Total number of requests.", Source::Counter(|shown| shown.stats.submitted as f64)),
    ("tgi_request_success", "Number of successful requests.", REQUESTS),
    ("tgi_request_duration", "End-to-end request duration in seconds.", E2E),
    ("tgi_request_queue_duration", "Request time spent in queue in seconds.", QUEUE),
    ("tgi_request_inference_duration", "Request inference duration in seconds.", INFERENCE),
    ("tgi_request_mean_time_per_token_duration", "Mean time per token, per request, in seconds.", TPOT),
    ("tgi_request_input_length", "Request input length in tokens.", INPUT_LENGTHS),
    ("tgi_request_generated_tokens", "Generated tokens per request.", OUTPUT_LENGTHS),
];

const LLAMA_CPP: &[Row] = &[
    ("llamacpp:prompt_tokens_total", "Number of prompt tokens processed.", INPUT),
    ("llamacpp:prompt_seconds_total", "Prompt process time.", Source::Counter(|shown| shown.meter.prefill_seconds)),
    ("llamacpp:tokens_predicted_total", "Number of generation tokens processed.", OUTPUT),
    (
        "llamacpp:tokens_predicted_seconds_total",
        "Predict process time.",
        Source::Counter(|shown| shown.meter.decode_seconds),
    ),
    ("llamacpp:n_decode_total", "Number of llama_decode() calls.", Source::Counter(|shown| shown.meter.chunks as f64)),
    (
        "llamacpp:prompt_tokens_seconds",
        "Average prompt throughput in tokens/s.",
        Source::Gauge(|shown| rate(shown.meter.input_tokens, shown.meter.prefill_seconds)),
    ),
    (
        "llamacpp:predicted_tokens_seconds",
        "Average generation throughput in tokens/s.",
        Source::Gauge(|shown| rate(shown.meter.output_tokens, shown.meter.decode_seconds)),
    ),
    ("llamacpp:requests_processing", "Number of requests processing.", RUNNING),
    ("llamacpp:requests_deferred", "Number of requests deferred.", WAITING),
];

const RUNNING: Source = Source::Gauge(|shown| f64::from(shown.stats.running));
const WAITING: Source = Source::Gauge(|shown| f64::from(shown.stats.queued));
const PREEMPTIONS: Source = Source::Counter(|shown| shown.stats.preemptions as f64);
const LOOKED_UP: Source = Source::Counter(|shown| shown.stats.looked_up_tokens as f64);
const FOUND: Source = Source::Counter(|shown| shown.stats.found_tokens as f64);
const PROPOSED: Source = Source::Counter(|shown| shown.stats.draft_tokens as f64);
const ACCEPTED: Source = Source::Counter(|shown| shown.stats.accepted_tokens as f64);
const REQUESTS: Source = Source::Counter(|shown| shown.meter.finished.iter().sum::<u64>() as f64);
const INPUT: Source = Source::Counter(|shown| shown.meter.input_tokens as f64);
const OUTPUT: Source = Source::Counter(|shown| shown.meter.output_tokens as f64);
const TTFT: Source = Source::Histogram(|meter| &meter.ttft);
const ITL: Source = Source::Histogram(|meter| &meter.itl);
const TPOT: Source = Source::Histogram(|meter| &meter.tpot);
const E2E: Source = Source::Histogram(|meter| &meter.e2e);
const QUEUE: Source = Source::Histogram(|meter| &meter.queue);
const INFERENCE: Source = Source::Histogram(|meter| &meter.inference);
const PREFILL: Source = Source::Histogram(|meter| &meter.prefill);
const DECODE: Source = Source::Histogram(|meter| &meter.decode);
const INPUT_LENGTHS: Source = Source::Histogram(|meter| &meter.input_lengths);
const OUTPUT_LENGTHS: Source = Source::Histogram(|meter| &meter.output_lengths);

/// Share of the cache in use; 0 of an engine that has none.
fn cache_use(shown: &ProviderMetrics<'_>) -> f64 {
    shown.stats.cache_blocks_held as f64 / (shown.stats.cache_blocks as f64).max(1.0)
}

/// The page of these providers.
pub(crate) fn page(providers: &[ProviderMetrics<'_>]) -> String {
    let mut text = String::new();
    for names in MetricNames::ALL {
        let rows = match names {
            MetricNames::Off => continue,
            MetricNames::Vllm => VLLM,
            MetricNames::Sglang => SGLANG,
            MetricNames::Tgi => TGI,
            MetricNames::LlamaCpp => LLAMA_CPP,
        };
        let shown: Vec<(String, &ProviderMetrics<'_>)> = providers
            .iter()
            .filter(|provider| provider.names == names)
            .map(|provider| (labels_of(provider, providers.len() > 1), provider))
            .collect();
        for row in rows.iter().filter(|_| !shown.is_empty()) {
            // A string takes everything.
            let _ = write_metric(*row, &shown, &mut text);
        }
    }
    text
}

/// The labels that every series of a provider has.
fn labels_of(provider: &ProviderMetrics<'_>, shared: bool) -> String {
    let model = provider.model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    match provider.names {
        MetricNames::Vllm => format!("engine=\"0\",model_name=\"{model}\""),
        MetricNames::Sglang => format!("model_name=\"{model}\""),
        _ if shared => format!("model_name=\"{model}\""),
        _ => String::new(),
    }
}

fn write_metric(
    (name, help, source): Row,
    shown: &[(String, &ProviderMetrics<'_>)],
    text: &mut String,
) -> std::fmt::Result {
    let kind = match source {
        Source::Gauge(_) => "gauge",
        Source::Counter(_) | Source::Finished => "counter",
        Source::Histogram(_) => "histogram",
    };
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
    for (labels, provider) in shown {
        match source {
            Source::Gauge(value) | Source::Counter(value) => {
                writeln!(text, "{name}{} {}", braced(labels, ""), value(provider))?;
            }
            Source::Finished => {
                for (reason, count) in REASONS.iter().zip(provider.meter.finished) {
                    // An engine that has not met a reason names only the usual ones.
                    if count > 0 || matches!(reason, FinishReason::Stop | FinishReason::Length) {
                        let reason = format!("finished_reason=\"{}\"", reason.name());
                        writeln!(text, "{name}{} {count}", braced(labels, &reason))?;
                    }
                }
            }
            Source::Histogram(histogram) => {
                let histogram = histogram(provider.meter);
                let mut upto = 0;
                let bounds = histogram.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
                for (bound, count) in bounds.zip(&histogram.counts) {
                    upto += count;
                    writeln!(text, "{name}_bucket{} {upto}", braced(labels, &format!("le=\"{bound}\"")))?;
                }
                writeln!(text, "{name}_sum{} {}", braced(labels, ""), histogram.sum)?;
                writeln!(text, "{name}_count{} {}", braced(labels, ""), histogram.count())?;
            }
        }
    }
    Ok(())
}

fn braced(labels: &str, further: &str) -> String {
    match (labels, further) {
        ("", "") => String::new(),
        ("", only) | (only, "") => format!("{{{only}}}"),
        (labels, further) => format!("{{{labels},{further}}}"),
    }
}

fn rate(tokens: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 }
}
