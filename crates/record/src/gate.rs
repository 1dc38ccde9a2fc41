//! Consistency checks on the figures of a phase. A violation is a bug of tokrate and fails the run.
//!
//! Invariant: every check is computed from the requests, not from the intermediate values that it checks.

use crate::run::{PhaseResult, in_flight, slots};
use serde::{Deserialize, Serialize};
use tokrate_core::FailureKind;
use tokrate_meter::request::RequestNumbers;

/// Two numbers that should agree and do not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateViolation {
    /// Which rule is broken.
    pub check: GateCheck,
    /// Where: a request by its index, or the phase.
    pub place: String,
    /// What the rule demands.
    pub expected: String,
    /// The actual value.
    pub seen: String,
}

/// The rules of the gate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum GateCheck {
    /// The gaps of a request sum to last text - first text.
    GapSum,
    /// The itl samples of a request sum to last text - first text.
    ItlSum,
    /// The busiest part of the steady window is at least as busy as its mean.
    PeakAtLeastMean,
    /// Requests in flight (in a closed loop: busy slots, from due to ended) never exceed what the plan allowed.
    ConcurrencyWithinCap,
    /// Mean concurrency = arrivals per second * mean time in flight, within 2 %.
    LittlesLaw,
    /// Tokens of the chunks = tokens of the requests = tokens of the phase.
    TokensInTokensOut,
    /// Started = answered + failed + rate-limited + cancelled, and every one of them is a row.
    EveryRequestCounted,
}

impl GateCheck {
    /// The rule in words.
    pub const fn rule(self) -> &'static str {
        match self {
            GateCheck::GapSum => "chunk gaps sum to last text - first text",
            GateCheck::ItlSum => "itl samples sum to last text - first text",
            GateCheck::PeakAtLeastMean => "peak throughput is at least mean throughput",
            GateCheck::ConcurrencyWithinCap => "concurrency stays within its cap",
            GateCheck::LittlesLaw => "mean concurrency = rate * mean time in flight, within 2 %",
            GateCheck::TokensInTokensOut => "tokens of chunks, of requests and of the phase agree",
            GateCheck::EveryRequestCounted => "started = answered + failed + rate-limited + cancelled",
        }
    }
}

/// Most violations of single requests listed per check.
const MAX_LISTED: usize = 3;

/// Largest relative deviation from Little's law.
const LITTLE_TOLERANCE: f64 = 0.02;

/// Checks a result against its requests; returns the violations.
pub fn check(result: &PhaseResult, requests: &[RequestNumbers]) -> Vec<GateViolation> {
    let mut violations = Vec::new();
    sums_of_gaps(requests, &mut violations);
    peak_at_least_mean(result, &mut violations);
    concurrency_within_cap(result, requests, &mut violations);
    littles_law(result, requests, &mut violations);
    tokens_in_tokens_out(result, requests, &mut violations);
    every_request_counted(result, requests, &mut violations);
    violations
}

fn sums_of_gaps(requests: &[RequestNumbers], violations: &mut Vec<GateViolation>) {
    let mut listed = [0; 2];
    for request in requests {
        let bounds = request.first_text_at_ns.zip(request.last_text_at_ns);
        let expected = bounds.map_or(0, |(first, last)| i128::from(last) - i128::from(first));
        let gaps: i128 = request.gaps().map(|(gap, _)| i128::from(gap)).sum();
        let itl: i128 = request.itl_samples().map(|(value, count)| i128::from(value) * i128::from(count)).sum();
        for (slot, (check, seen)) in [(GateCheck::GapSum, gaps), (GateCheck::ItlSum, itl)].into_iter().enumerate() {
            if seen != expected && listed[slot] < MAX_LISTED {
                listed[slot] += 1;
                violations.push(violation(
                    check,
                    format!("request {}", request.index),
                    format!("{expected} ns"),
                    format!("{seen} ns"),
                ));
            }
        }
    }
}

fn peak_at_least_mean(result: &PhaseResult, violations: &mut Vec<GateViolation>) {
    if let Some(throughput) = &result.throughput {
        let (peak, mean) = (throughput.peak_tokens_per_second, throughput.tokens_per_second);
        // Both are quotients of whole numbers; they may differ in the last digit when they are equal.
        if peak < mean * (1.0 - 1e-9) {
            violations.push(violation(
                GateCheck::PeakAtLeastMean,
                "phase".to_owned(),
                format!("at least {mean:.3} tok/s"),
                format!("{peak:.3} tok/s"),
            ));
        }
    }
}

fn concurrency_within_cap(result: &PhaseResult, requests: &[RequestNumbers], violations: &mut Vec<GateViolation>) {
    let Some(cap) = result.load.cap() else { return };
    let busy = if result.load.is_closed() { slots(requests) } else { in_flight(requests) };
    let peak = busy.peak().max(result.concurrency.peak);
    if peak > cap {
        violations.push(violation(
            GateCheck::ConcurrencyWithinCap,
            "phase".to_owned(),
            format!("at most {cap} in flight"),
            format!("{peak} in flight"),
        ));
    }
}

/// L = lambda W over the time from the first request sent to the last one ended: L is the mean that the result states, lambda W
/// the summed times in flight over that time. The system is empty at both ends, so the law holds exactly, not only on average.
fn littles_law(result: &PhaseResult, requests: &[RequestNumbers], violations: &mut Vec<GateViolation>) {
    let sent = requests.iter().filter_map(|request| Some((request.sent_at_ns?, request.ended_at_ns)));
    // As in the sweep, requests of zero duration are ignored, and do not extend the time either.
    let sent: Vec<(u64, u64)> = sent.filter(|(sent_at, ended_at)| sent_at < ended_at).collect();
    let (Some(first), Some(last)) = (sent.iter().map(|pair| pair.0).min(), sent.iter().map(|pair| pair.1).max()) else {
        return;
    };
    let time = last.saturating_sub(first) as f64;
    let Some(mean) = result.concurrency.mean.filter(|_| time > 0.0) else { return };
    let arrival_rate = sent.len() as f64 / time;
    let waits: i128 = sent.iter().map(|pair| i128::from(pair.1) - i128::from(pair.0)).sum();
    let law = arrival_rate * (waits as f64 / sent.len() as f64);
    if (mean - law).abs() > LITTLE_TOLERANCE * law.abs() {
        violations.push(violation(
            GateCheck::LittlesLaw,
            "phase".to_owned(),
            format!("mean concurrency {law:.3} = {:.3} req/s * {:.6} s", arrival_rate * 1e9, law / arrival_rate / 1e9),
            format!("mean concurrency {mean:.3}"),
        ));
    }
}

fn tokens_in_tokens_out(result: &PhaseResult, requests: &[RequestNumbers], violations: &mut Vec<GateViolation>) {
    let mut listed = 0;
    for request in requests {
        let of_chunks: u64 = request.chunk_list.iter().map(|chunk| u64::from(chunk.tokens)).sum();
        let of_channels = request.tokens_std_reasoning + request.tokens_std_answer + request.tokens_std_tool;
        if (of_chunks != request.tokens_std || of_channels != request.tokens_std) && listed < MAX_LISTED {
            listed += 1;
            violations.push(violation(
                GateCheck::TokensInTokensOut,
                format!("request {}", request.index),
                format!("{} tokens", request.tokens_std),
                format!("{of_chunks} tokens in chunks, {of_channels} in channels"),
            ));
        }
    }
    let all: u64 = requests.iter().map(|request| request.tokens_std).sum();
    let measured = requests.iter().filter(|request| request.is_answered() && !request.warmup);
    let measured: u64 = measured.map(|request| request.tokens_std).sum();
    let (stated_all, stated) = (result.tokens.std_of_all, result.tokens.std);
    let in_window = result.throughput.as_ref().map_or(0, |throughput| throughput.tokens);
    if stated_all != all || stated != measured || in_window > all {
        violations.push(violation(
            GateCheck::TokensInTokensOut,
            "phase".to_owned(),
            format!("{all} tokens, {measured} of them measured"),
            format!("{stated_all} tokens, {stated} of them measured, {in_window} in the steady window"),
        ));
    }
}

fn every_request_counted(result: &PhaseResult, requests: &[RequestNumbers], violations: &mut Vec<GateViolation>) {
    let counts = &result.counts;
    let by_kind: u64 = result.failures.iter().map(|failure| failure.count).sum();
    let ended = counts.answered + counts.failed + counts.rate_limited + counts.cancelled;
    let of = |wanted: Option<FailureKind>| requests.iter().filter(|request| request.failure_kind() == wanted).count();
    let agree = counts.started == requests.len() as u64
        && ended == counts.started
        && by_kind == counts.failed
        && result.rate_limited.count == counts.rate_limited
        && counts.answered == of(None) as u64
        && counts.cancelled == of(Some(FailureKind::Cancelled)) as u64
        && result.e2e_from_due.n == counts.measured;
    if !agree {
        violations.push(violation(
            GateCheck::EveryRequestCounted,
            "phase".to_owned(),
            format!("{} requests", requests.len()),
            format!(
                "started {}, answered {}, failed {} ({by_kind} by kind), rate-limited {}, cancelled {}, measured {} \
                 ({} with e2e)",
                counts.started,
                counts.answered,
                counts.failed,
                counts.rate_limited,
                counts.cancelled,
                counts.measured,
                result.e2e_from_due.n
            ),
        ));
    }
}

fn violation(check: GateCheck, place: String, expected: String, seen: String) -> GateViolation {
    GateViolation { check, place, expected, seen }
}

#[cfg(test)]
mod tests;
