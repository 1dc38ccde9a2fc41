//! Checks every request against the engine's emissions, to the nanosecond.
//!
//! The emission gives the meaning of an event and the reads give the time at which its bytes were complete; all
//! measurements follow from the two. Invariant: nothing here is taken from the trace that is checked.

use super::Violations;
use crate::scenarios::Scenario;
use crate::text_style::TextStyle;
use crate::world::{Closing, Exchange, History, Written};
use tokrate_core::{Anomaly, Channel, FailureKind, FinishReason, Tick, Usage};
use tokrate_meter::RequestNumbers;
use tokrate_sim::{Emitted, Outcome};
use tokrate_tokens::{Encoding, count};

/// The expected measurements of one exchange.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expected {
    /// Tick, tokens and events of every chunk; token counts are valid for [`TextStyle::Plain`] only.
    pub chunks: Vec<(Tick, u32, u32)>,
    /// All text in order.
    pub text: String,
    /// The text of each channel.
    pub texts: [String; 3],
    /// Tick of the first text that is not reasoning.
    pub first_answer_at: Option<Tick>,
    /// The last token counts.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub finish: Option<FinishReason>,
    /// Tick of the end marker.
    pub done_at: Option<Tick>,
    /// Events with broken JSON.
    pub malformed: u32,
    /// Whether the body broke off inside an event.
    pub unfinished: bool,
    /// The kind of failure.
    pub failure: Option<FailureKind>,
}

/// Computes the expected measurements.
pub fn expected(text_style: TextStyle, exchange: &Exchange) -> Expected {
    let mut expected = Expected::default();
    let received = exchange.reads.last().map_or(0, |read| read.end);
    let mut error = None;
    let mut begin = 0;
    for written in exchange.writes.iter().filter(|_| exchange.status == 200) {
        let (start, end) = (begin, written.end);
        begin = end;
        expected.unfinished |= start < received && received < end;
        // The two line ends after the JSON of an event are not needed when the body ends.
        let json_end = end.saturating_sub(2);
        if start == end || received < json_end {
            continue;
        }
        let whole = exchange.reads.iter().find(|read| read.end >= end);
        let Some(read) = whole.or(exchange.reads.last()) else { continue };
        match written.what {
            Emitted::Text { channel, words } => {
                let before = expected.text.len();
                text_style.push_to(words, &mut expected.text);
                expected.texts[channel as usize].push_str(&expected.text[before..]);
                if channel != Channel::Reasoning {
                    expected.first_answer_at.get_or_insert(read.at);
                }
                match expected.chunks.last_mut() {
                    Some((at, tokens, events)) if *at == read.at => {
                        (*tokens, *events) = (*tokens + words.count(), *events + 1)
                    }
                    _ => expected.chunks.push((read.at, words.count(), 1)),
                }
            }
            Emitted::Usage(usage) => expected.usage = Some(usage),
            Emitted::Finish(reason) => expected.finish = Some(reason),
            Emitted::Done => expected.done_at = Some(read.at),
            Emitted::Malformed => expected.malformed += u32::from(whole.is_some()),
            Emitted::Failed { .. } => {
                let early = expected.chunks.is_empty();
                error = Some(if early { FailureKind::ServerError } else { FailureKind::ErrorInStream });
            }
            Emitted::Role | Emitted::Timings(_) | Emitted::End(_) => {}
        }
    }
    expected.failure = error.or_else(|| expected_failure(exchange, &expected));
    expected
}

fn expected_failure(exchange: &Exchange, expected: &Expected) -> Option<FailureKind> {
    let head_came = !exchange.reads.is_empty() || exchange.closing == Closing::End;
    let (text, done) = (!expected.chunks.is_empty(), expected.done_at.is_some());
    if exchange.status != 200 && exchange.status != 0 && head_came {
        return Some(match exchange.status {
            429 => FailureKind::RateLimited,
            503 => FailureKind::Overloaded,
            _ => FailureKind::ServerError,
        });
    }
    match exchange.closing {
        Closing::Refused => Some(FailureKind::Connect),
        _ if text && done => None,
        Closing::Reset => Some(FailureKind::Truncated),
        Closing::Idle => Some(FailureKind::Stalled),
        Closing::Total => Some(FailureKind::TimedOut),
        Closing::Open | Closing::Cancelled if !done => Some(FailureKind::Cancelled),
        _ if text && expected.finish.is_some() => None,
        _ if text => Some(FailureKind::Truncated),
        // Only unreadable events.
        _ if expected.malformed > 0 => Some(FailureKind::NotJson),
        _ => Some(FailureKind::Empty),
    }
}

pub(super) fn check(scenario: &Scenario, history: &History, violations: &mut Violations) {
    for exchange in &history.exchanges {
        check_timing(scenario, exchange, violations);
        check_measured(scenario, exchange, violations);
    }
}

/// Writes happen when due, and reads not before the bytes can have arrived.
fn check_timing(scenario: &Scenario, exchange: &Exchange, violations: &mut Violations) {
    let place = format!("request {}", exchange.start.index);
    let latency = scenario.link.latency;
    for written in &exchange.writes {
        violations.expect_equal(&place, "tick of a write", written.at, written.due);
    }
    if let (Some(sent_at), Some(submitted_at)) = (exchange.sent_at, exchange.submitted_at) {
        violations.expect_equal(&place, "way to the server", submitted_at - sent_at, latency);
    }
    let first = exchange.submitted_at.filter(|_| exchange.status == 200);
    let first = first.zip(exchange.writes.first()).map(|(submitted_at, written)| (submitted_at, written.at));
    violations.expect_that(first.is_none_or(|(submitted_at, at)| submitted_at <= at), || {
        format!("{place}: answered too early")
    });
    let ordered = exchange.reads.is_sorted_by(|a, b| a.at <= b.at && a.end < b.end);
    violations.expect_that(ordered, || format!("{place}: reads out of order"));
    let has_bytes = |written: &&Written| exchange.status == 200 && !matches!(written.what, Emitted::End(_));
    for written in exchange.writes.iter().filter(has_bytes) {
        let read = exchange.reads.iter().find(|read| read.end >= written.end);
        let early = read.is_some_and(|read| read.at < written.due + latency);
        violations.expect_that(!early, || format!("{place}: {:?} was read at {read:?}", written));
    }
    let through = exchange.writes.last().is_some_and(|written| written.what == Emitted::End(Outcome::Complete));
    if exchange.closing == Closing::End && exchange.status == 200 {
        let last = exchange.writes.last().map(|written| written.end);
        violations.expect_that(through, || format!("{place}: the body ended and the answer did not"));
        violations.expect_equal(
            &place,
            "length of the body",
            exchange.reads.last().map(|read| read.end),
            last.filter(|&end| end > 0),
        );
    }
}

fn check_measured(scenario: &Scenario, exchange: &Exchange, violations: &mut Violations) {
    let place = format!("request {}", exchange.start.index);
    let expected = expected(scenario.text_style, exchange);
    let trace = &exchange.trace;
    violations.expect_equal(&place, "text", trace.text.as_str(), expected.text.as_str());
    violations.expect_equal(&place, "usage", trace.usage, expected.usage);
    violations.expect_equal(&place, "finish", trace.finish, expected.finish);
    violations.expect_equal(&place, "tick of the end mark", trace.done_at, expected.done_at);
    violations.expect_equal(&place, "failure", trace.failure.as_ref().map(|failure| failure.kind), expected.failure);
    violations.expect_equal(
        &place,
        "first byte",
        trace.timing.first_byte_at,
        exchange.reads.first().map(|read| read.at),
    );
    for anomaly in Anomaly::ALL {
        let expected_count = match anomaly {
            Anomaly::Unreadable => expected.malformed,
            Anomaly::UnfinishedEvent => u32::from(expected.unfinished),
            Anomaly::MissingDone => u32::from(expected.failure.is_none() && expected.done_at.is_none()),
            _ => 0,
        };
        violations.expect_equal(&place, anomaly.name(), trace.anomalies.count(anomaly), expected_count);
    }
    if expected.failure == Some(FailureKind::RateLimited) && exchange.status == 429 {
        let asked = trace.failure.as_ref().and_then(|failure| failure.retry_after);
        violations.expect_equal(&place, "retry after", asked, Some(scenario.faults.retry_after));
    }
    check_numbers(scenario, exchange, &expected, violations);
}

fn check_numbers(scenario: &Scenario, exchange: &Exchange, expected: &Expected, violations: &mut Violations) {
    let place = format!("request {}", exchange.start.index);
    let row = RequestNumbers::measure(&exchange.trace, Encoding::O200kBase);
    let plain = scenario.text_style == TextStyle::Plain;
    let seen: Vec<(Tick, u32, u32)> =
        row.chunk_list.iter().map(|chunk| (chunk.at, if plain { chunk.tokens } else { 0 }, chunk.events)).collect();
    let chunks: Vec<(Tick, u32, u32)> =
        expected.chunks.iter().map(|&(at, tokens, events)| (at, if plain { tokens } else { 0 }, events)).collect();
    violations.expect_equal(&place, "list of chunks", seen, chunks);
    let since_sent = |tick: Option<Tick>| exchange.sent_at.zip(tick).map(|(sent_at, tick)| (tick - sent_at).as_nanos());
    let ticks: Vec<Tick> = expected.chunks.iter().map(|chunk| chunk.0).collect();
    violations.expect_equal(&place, "ttft", row.ttft_ns, since_sent(ticks.first().copied()));
    violations.expect_equal(&place, "ttfat", row.ttfat_ns, since_sent(expected.first_answer_at));
    violations.expect_equal(&place, "ttfb", row.ttfb_ns, since_sent(exchange.reads.first().map(|read| read.at)));
    let gaps: Vec<u64> = ticks.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos()).collect();
    violations.expect_equal(&place, "gaps", row.gaps().map(|(gap, _)| gap).collect(), gaps.clone());
    violations.expect_equal(&place, "largest gap", row.largest_gap_ns, gaps.iter().copied().max());
    let answered = expected.failure.is_none();
    let finished_at = expected.done_at.unwrap_or(exchange.trace.timing.ended_at);
    violations.expect_equal(&place, "e2e", row.e2e_ns, since_sent(Some(finished_at)).filter(|_| answered));
    let of_channels = expected.texts.each_ref().map(|text| count(Encoding::O200kBase, text) as u64);
    let seen = [row.tokens_std_reasoning, row.tokens_std_answer, row.tokens_std_tool];
    violations.expect_equal(&place, "tokens by channel", seen, of_channels);
    if plain {
        let tokens: u32 = expected.chunks.iter().map(|chunk| chunk.1).sum();
        violations.expect_equal(&place, "tokens", row.tokens_std, u64::from(tokens));
    }
    // A complete request has every token that the engine emitted.
    let whole = answered && exchange.closing == Closing::End;
    let all = exchange.writes.iter().filter_map(|written| match written.what {
        Emitted::Text { words, .. } => Some(u64::from(words.count())),
        _ => None,
    });
    if whole && plain {
        violations.expect_equal(&place, "tokens of a whole answer", row.tokens_std, all.sum());
        let honest = scenario.faults.usage_inflated == 0.0 && scenario.faults.hidden_reasoning == 0.0;
        if let Some(reported) = row.tokens_reported.filter(|_| honest) {
            violations.expect_equal(&place, "tokens reported", reported, row.tokens_std);
        }
    }
    violations.expect_equal(
        &place,
        "tokens reported",
        row.tokens_reported,
        expected.usage.and_then(|usage| usage.output),
    );
}
