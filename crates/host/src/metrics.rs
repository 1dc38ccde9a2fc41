//! Metrics of an engine at `/metrics`: counters and histograms of what it emitted, named as by the engine that it emulates.
//!
//! All times are between ticks of the engine. Invariant: a token is counted once, when it is due.

mod page;

use tokrate_core::{FinishReason, Span, Tick};
use tokrate_sim::{Emission, Emitted, Stats, Timings};

pub(crate) use page::{ProviderMetrics, page};

/// Naming scheme of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MetricNames {
    /// No metrics.
    Off,
    /// vLLM's.
    #[default]
    Vllm,
    /// SGLang's.
    Sglang,
    /// Text Generation Inference's.
    Tgi,
    /// llama.cpp's.
    LlamaCpp,
}

impl MetricNames {
    /// All of them.
    pub const ALL: [MetricNames; 5] =
        [MetricNames::Off, MetricNames::Vllm, MetricNames::Sglang, MetricNames::Tgi, MetricNames::LlamaCpp];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            MetricNames::Off => "off",
            MetricNames::Vllm => "vllm",
            MetricNames::Sglang => "sglang",
            MetricNames::Tgi => "tgi",
            MetricNames::LlamaCpp => "llama-cpp",
        }
    }
}

/// Metrics of one engine.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// Finished requests by reason.
    finished: [u64; 5],
    input_tokens: u64,
    output_tokens: u64,
    /// Text chunks, that is, decode steps.
    chunks: u64,
    prefill_seconds: f64,
    decode_seconds: f64,
    ttft: Histogram,
    itl: Histogram,
    /// Decode time per token after the first, one value per request.
    tpot: Histogram,
    e2e: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
    input_lengths: Histogram,
    output_lengths: Histogram,
}

/// Progress of one open request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestProgress {
    latest_text: Option<Tick>,
    tokens: u32,
}

/// A Prometheus histogram. No sketch: its bounds are those of the engine that is emulated.
#[derive(Clone, Debug)]
struct Histogram {
    bounds: &'static [f64],
    /// Counts per bucket, not cumulative; the last one is +Inf.
    counts: Vec<u64>,
    sum: f64,
}

const REASONS: [FinishReason; 5] = [
    FinishReason::Stop,
    FinishReason::Length,
    FinishReason::ToolCalls,
    FinishReason::ContentFilter,
    FinishReason::Other,
];

#[rustfmt::skip]
const TTFT_BUCKETS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
];
const GAP_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0];
const DURATION_BUCKETS: &[f64] =
    &[0.05, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0];
const LENGTH_BUCKETS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0, 50_000.0,
    100_000.0,
];

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            finished: [0; 5],
            input_tokens: 0,
            output_tokens: 0,
            chunks: 0,
            prefill_seconds: 0.0,
            decode_seconds: 0.0,
            ttft: Histogram::new(TTFT_BUCKETS),
            itl: Histogram::new(GAP_BUCKETS),
            tpot: Histogram::new(GAP_BUCKETS),
            e2e: Histogram::new(DURATION_BUCKETS),
            queue: Histogram::new(DURATION_BUCKETS),
            inference: Histogram::new(DURATION_BUCKETS),
            prefill: Histogram::new(DURATION_BUCKETS),
            decode: Histogram::new(DURATION_BUCKETS),
            input_lengths: Histogram::new(LENGTH_BUCKETS),
            output_lengths: Histogram::new(LENGTH_BUCKETS),
        }
    }
}

impl Meter {
    /// Takes one emission of a request that was submitted at `submitted_at`.
    pub fn on(&mut self, emission: &Emission, submitted_at: Tick, progress: &mut RequestProgress) {
        match emission.what {
            Emitted::Text { words, .. } => {
                match progress.latest_text.replace(emission.due) {
                    None => self.ttft.add(emission.due.since(submitted_at)),
                    Some(before) => self.itl.add(emission.due.since(before)),
                }
                progress.tokens += words.count();
                self.output_tokens += u64::from(words.count());
                self.chunks += 1;
            }
            Emitted::Finish(reason) => {
                self.finished[REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len() - 1)] += 1;
                self.e2e.add(emission.due.since(submitted_at));
            }
            Emitted::Timings(timings) => self.close(timings, *progress),
            _ => {}
        }
    }

    fn close(&mut self, timings: Timings, progress: RequestProgress) {
        self.input_tokens += u64::from(timings.input_tokens);
        // Tokens generated but not sent.
        self.output_tokens += u64::from(timings.output_tokens.saturating_sub(progress.tokens));
        self.prefill_seconds += timings.prefill.as_secs_f64();
        self.decode_seconds += timings.decode.as_secs_f64();
        self.queue.add(timings.queue);
        self.prefill.add(timings.prefill);
        self.decode.add(timings.decode);
        self.inference.add(timings.prefill + timings.decode);
        if timings.output_tokens > 1 {
            let gaps = u64::from(timings.output_tokens - 1);
            self.tpot.add(Span::from_nanos(timings.decode.as_nanos() / gaps));
        }
        self.input_lengths.add_number(f64::from(timings.input_tokens));
        self.output_lengths.add_number(f64::from(timings.output_tokens));
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    fn add(&mut self, span: Span) {
        self.add_number(span.as_secs_f64());
    }

    fn add_number(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests;
