//! The metrics of one request by name, in the unit that people say them in.
//!
//! It refuses to know what is demanded of them. Invariant: a metric that a request lacks is `None`, never 0; times are in
//! milliseconds, speeds in tokens per second.

use crate::request::{RequestNumbers, SPEED_TOKENS_LEAST};

/// A number that a single request has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RequestMetric {
    /// Sent to first response body byte.
    Ttfb,
    /// Sent to first output text, reasoning included.
    Ttft,
    /// Sent to first answer text, reasoning excluded.
    Ttfat,
    /// 1 / output speed.
    Tpot,
    /// The longest wait for a token after the first chunk: the largest `itl` sample of the request.
    Itl,
    /// The longest chunk gap.
    LargestGap,
    /// Sent to finish.
    E2e,
    /// Due to finish.
    E2eFromDue,
    /// Tokens per second after the first chunk.
    OutputSpeed,
    /// Tokens per second over the whole request.
    E2eSpeed,
}

impl RequestMetric {
    /// Every metric.
    pub const ALL: [RequestMetric; 10] = [
        RequestMetric::Ttfb,
        RequestMetric::Ttft,
        RequestMetric::Ttfat,
        RequestMetric::Tpot,
        RequestMetric::Itl,
        RequestMetric::LargestGap,
        RequestMetric::E2e,
        RequestMetric::E2eFromDue,
        RequestMetric::OutputSpeed,
        RequestMetric::E2eSpeed,
    ];

    /// The name used in records, without a unit.
    pub const fn name(self) -> &'static str {
        match self {
            RequestMetric::Ttfb => "ttfb",
            RequestMetric::Ttft => "ttft",
            RequestMetric::Ttfat => "ttfat",
            RequestMetric::Tpot => "tpot",
            RequestMetric::Itl => "itl",
            RequestMetric::LargestGap => "largest_gap",
            RequestMetric::E2e => "e2e",
            RequestMetric::E2eFromDue => "e2e_from_due",
            RequestMetric::OutputSpeed => "output_speed",
            RequestMetric::E2eSpeed => "e2e_speed",
        }
    }

    /// The metric of a name.
    pub fn from_name(name: &str) -> Option<RequestMetric> {
        RequestMetric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// The metric that other tools call so where they hold single requests against bounds (`--goodput` of vLLM, GenAI-Perf and
    /// AIPerf), if it is one of ours.
    pub fn from_foreign_name(name: &str) -> Option<RequestMetric> {
        match name {
            "e2el" | "request_latency" => Some(RequestMetric::E2e),
            "time_to_first_token" => Some(RequestMetric::Ttft),
            // Theirs is the mean over the tokens of a request.
            "inter_token_latency" | "time_per_output_token" => Some(RequestMetric::Tpot),
            "output_token_throughput_per_user" => Some(RequestMetric::OutputSpeed),
            other => RequestMetric::from_name(other).filter(|metric| *metric != RequestMetric::Itl),
        }
    }

    /// Whether it is a speed (tok/s; more is better). All others are times (ms; less is better).
    pub const fn is_speed(self) -> bool {
        matches!(self, RequestMetric::OutputSpeed | RequestMetric::E2eSpeed)
    }

    /// The fewest output tokens of an answer that has it.
    pub const fn tokens_needed(self) -> u64 {
        match self {
            RequestMetric::Tpot | RequestMetric::OutputSpeed => SPEED_TOKENS_LEAST,
            RequestMetric::Itl | RequestMetric::LargestGap => 2,
            _ => 1,
        }
    }

    /// Whether an answer that comes in one piece lacks it.
    pub const fn needs_stream(self) -> bool {
        matches!(self, RequestMetric::Ttft | RequestMetric::Ttfat) || self.tokens_needed() > 1
    }

    /// `ms` or `tok/s`.
    pub const fn unit(self) -> &'static str {
        if self.is_speed() { "tok/s" } else { "ms" }
    }

    /// What one request has of it (ms or tok/s).
    pub fn of(self, request: &RequestNumbers) -> Option<f64> {
        let milliseconds = |nanoseconds: Option<u64>| nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e6);
        match self {
            RequestMetric::Ttfb => milliseconds(request.ttfb_ns),
            RequestMetric::Ttft => milliseconds(request.ttft_ns),
            RequestMetric::Ttfat => milliseconds(request.ttfat_ns),
            RequestMetric::Tpot => request.tpot_ms,
            RequestMetric::Itl => milliseconds(request.largest_itl_ns),
            RequestMetric::LargestGap => milliseconds(request.largest_gap_ns),
            RequestMetric::E2e => milliseconds(request.e2e_ns),
            RequestMetric::E2eFromDue => milliseconds(request.e2e_from_due_ns),
            RequestMetric::OutputSpeed => request.output_speed,
            RequestMetric::E2eSpeed => request.e2e_speed,
        }
    }
}
