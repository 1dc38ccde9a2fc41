//! Summaries of speeds, comfort bands and tokens of a phase.
//!
//! Invariant: percentiles of a speed are inverted percentiles of time per token, named by what they mean ("slowest 5 %").

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_meter::Comfort;
use tokrate_meter::request::{NoSpeedReason, Provenance, RequestNumbers};
use tokrate_stats::{Censored, Distribution, Quantile, QuantileStatus, Unit};

/// A speed of single requests, in tokens per second.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpeedSummary {
    /// Requests that have this speed.
    pub n: u64,
    /// Further requests that were too quick to be timed: the quantiles count them by an upper bound of their time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bounded: u64,
    /// Mean of the requests' speeds (tok/s).
    pub mean: Option<f64>,
    /// The speed of the median request, by time per token.
    pub median: Quantile,
    /// Of all requests, 5 % were this slow or slower: 1 / p95 of the time per token.
    pub slowest_5_percent: Quantile,
    /// Of all requests, 1 % were this slow or slower: 1 / p99 of the time per token.
    pub slowest_1_percent: Quantile,
    /// Measured requests that have no such speed, by reason.
    pub missing: Vec<MissingSpeed>,
    /// Those of `missing` over all measured requests; absent without any.
    #[serde(default)]
    pub missing_share: Option<f64>,
    /// Why no median is stated although `n` requests have the speed: they are not representative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Requests without a speed, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingSpeed {
    /// Why.
    pub reason: String,
    /// How many requests.
    pub count: u64,
}

/// How many measured requests had an output speed in which band (tok/s). People read 200 to 250 words per minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComfortBands {
    /// Below 10.
    pub slow: u64,
    /// From 10 to below 15.
    pub hesitant: u64,
    /// From 15 to below 30: comfortable to read.
    pub comfortable: u64,
    /// From 30 to 50.
    pub fluid: u64,
    /// Above 50: faster than reading, which matters to agents.
    pub faster_than_reading: u64,
}

/// Output tokens of a phase, by provenance. Sums are over measured requests unless they say otherwise.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenSummary {
    /// Which count the speeds and the throughput use.
    pub speed_tokens: Provenance,
    /// Counted over the text.
    pub std: u64,
    /// Those of `std` in reasoning text.
    pub std_reasoning: u64,
    /// Those of `std` in answer text.
    pub std_answer: u64,
    /// Those of `std` in tool calls.
    pub std_tool: u64,
    /// Counted tokens per request.
    pub std_per_request: Distribution,
    /// Counted over the text of all started requests, failed ones and the warm-up included.
    pub std_of_all: u64,
    /// Requests whose provider reported output tokens.
    pub requests_reported: u64,
    /// Output tokens as reported, over those requests; absent if none did.
    pub reported: Option<u64>,
    /// Reasoning tokens as reported; absent if none did.
    pub reasoning_reported: Option<u64>,
    /// `reported` / counted tokens of the same requests.
    pub reported_over_std: Option<f64>,
    /// The largest |reported - counted| / counted of one request.
    pub largest_disagreement: Option<f64>,
    /// Requests with reasoning that was billed and not shown.
    pub reasoning_hidden: u64,
    /// Text events: the count at one token per event.
    pub text_events: u64,
    /// Chunks as seen; text that arrived at one tick is one.
    pub chunks: u64,
    /// Share of text events that arrived together with another one.
    pub burst_share: Option<f64>,
    /// Requests whose whole text, 32 tokens or more, arrived at one tick: a stream in name only.
    pub one_burst: u64,
}

/// Input tokens of the measured requests.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InputTokens {
    /// Mean length that the plan asked for.
    pub asked_mean: Option<f64>,
    /// Mean length that the provider reports.
    pub reported_mean: Option<f64>,
    /// Reported / asked, over requests that have both; chat templates add some, another tokenizer changes all.
    pub reported_over_asked: Option<f64>,
    /// Cached tokens, as reported; absent if not reported.
    pub cached: Option<u64>,
}

impl SpeedSummary {
    /// From the distribution of time per token (ms), the speeds of the requests, the reasons of those that have none, and why
    /// these are not representative, if so: then they have no mean, and a median only where the others cannot move it.
    pub(super) fn of(
        per_token: &Distribution,
        speeds: impl Iterator<Item = f64>,
        missing: impl Iterator<Item = String>,
        unrepresentative: Option<String>,
    ) -> SpeedSummary {
        let (sum, n) = speeds.fold((0.0, 0_u64), |(sum, n), speed| (sum + speed, n + 1));
        let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
        missing.for_each(|reason| *reasons.entry(reason).or_default() += 1);
        let without: u64 = reasons.values().sum();
        SpeedSummary {
            n,
            missing_share: (n + without > 0).then(|| without as f64 / (n + without) as f64),
            mean: (n > 0 && unrepresentative.is_none()).then(|| sum / n as f64),
            refused: unrepresentative.filter(|_| per_token.p50.status == QuantileStatus::Undetermined),
            bounded: per_token.censored.as_ref().map_or(0, Censored::n),
            median: as_speed(&per_token.p50),
            slowest_5_percent: as_speed(&per_token.p95),
            slowest_1_percent: as_speed(&per_token.p99),
            missing: reasons.into_iter().map(|(reason, count)| MissingSpeed { reason, count }).collect(),
        }
    }
}

/// Above this share of answers that could not be timed, the speeds of the others are not representative of them.
const MAX_UNTIMED_SHARE: f64 = 0.02;

/// The time per token of the requests; those that could not be timed have bounds.
pub(crate) fn tpot_distribution(measured: &[&RequestNumbers], infinite: u64) -> Distribution {
    let mut samples: Vec<f64> = measured.iter().filter_map(|request| request.tpot_ms).collect();
    let bounds: Vec<(f64, f64)> = measured.iter().filter_map(|request| request.tpot_bounds_ms()).collect();
    Distribution::of_values_censored(&mut samples, &bounds, infinite, Unit::Milliseconds)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why the output speeds of these requests are not representative; `None` if they are.
pub(crate) fn unrepresentative_speeds(measured: &[&RequestNumbers]) -> Option<String> {
    let n = measured.iter().filter(|request| request.output_speed.is_some()).count();
    let missing = |why: NoSpeedReason| {
        let is_it = |request: &&&RequestNumbers| request.output_speed_missing.as_deref() == Some(why.reason());
        (why.reason(), measured.iter().filter(is_it).count())
    };
    let quick: Vec<(&str, usize)> = NoSpeedReason::ALL
        .into_iter()
        .filter(|why| why.depends_on_speed())
        .map(missing)
        .filter(|(_, count)| *count > 0)
        .collect();
    let count: usize = quick.iter().map(|(_, count)| count).sum();
    let of = count + n;
    if count as f64 <= MAX_UNTIMED_SHARE * of as f64 {
        return None;
    }
    // Text that was held back is not quick.
    let is_quick = quick.iter().all(|(reason, _)| *reason == NoSpeedReason::ShortWindow.reason());
    let what = if is_quick { "were too quick to be timed" } else { "could not be timed" };
    let why = quick.iter().map(|(reason, _)| *reason).collect::<Vec<_>>().join(", ");
    Some(match n {
        0 => format!("all {of} answers {what} ({why})"),
        _ => format!("{count} of {of} answers {what} ({why}); the other {n} would give the speed of the slow ones"),
    })
}

/// A quantile of time per token (ms) as one of speed (tok/s): its upper bound becomes the lower one, and no time is no speed.
pub(crate) fn as_speed(time: &Quantile) -> Quantile {
    let over = |milliseconds: Option<f64>| milliseconds.filter(|&time| time > 0.0).map(|time| 1e3 / time);
    Quantile {
        value: over(time.value),
        descriptive: over(time.descriptive),
        low: over(time.high),
        high: over(time.low),
        infinite: false,
        high_infinite: false,
        ..time.clone()
    }
}

impl ComfortBands {
    pub(super) fn of(speeds: impl Iterator<Item = f64>) -> ComfortBands {
        let mut bands = ComfortBands::default();
        for speed in speeds {
            *match Comfort::of(speed) {
                Comfort::Slow => &mut bands.slow,
                Comfort::Hesitant => &mut bands.hesitant,
                Comfort::Comfortable => &mut bands.comfortable,
                Comfort::Fluid => &mut bands.fluid,
                Comfort::FasterThanReading => &mut bands.faster_than_reading,
            } += 1;
        }
        bands
    }
}

impl TokenSummary {
    /// `all` are the requests started, `measured` those that count.
    pub(super) fn of(all: &[RequestNumbers], measured: &[&RequestNumbers]) -> TokenSummary {
        let sum = |of: fn(&RequestNumbers) -> u64| measured.iter().map(|request| of(request)).sum::<u64>();
        let pairs: Vec<(u64, u64)> =
            measured.iter().filter_map(|request| Some((request.tokens_reported?, request.tokens_std))).collect();
        let reported = pairs.iter().fold(0, |sum: u64, pair| sum.saturating_add(pair.0));
        let counted: u64 = pairs.iter().map(|pair| pair.1).sum();
        let disagreement = |&(reported, counted): &(u64, u64)| {
            (counted > 0).then(|| reported.abs_diff(counted) as f64 / counted as f64)
        };
        let text_events = sum(|request| request.text_events);
        let together = sum(RequestNumbers::events_in_bursts);
        let mut lengths: Vec<f64> = measured.iter().map(|request| request.tokens_std as f64).collect();
        TokenSummary {
            speed_tokens: Provenance::Counted,
            std: sum(|request| request.tokens_std),
            std_reasoning: sum(|request| request.tokens_std_reasoning),
            std_answer: sum(|request| request.tokens_std_answer),
            std_tool: sum(|request| request.tokens_std_tool),
            std_per_request: Distribution::of_values(&mut lengths, Unit::Tokens),
            std_of_all: all.iter().map(|request| request.tokens_std).sum(),
            requests_reported: pairs.len() as u64,
            reported: (!pairs.is_empty()).then_some(reported),
            reasoning_reported: sum_known(measured.iter().map(|request| request.reasoning_reported)),
            reported_over_std: (counted > 0).then(|| reported as f64 / counted as f64),
            largest_disagreement: pairs.iter().filter_map(disagreement).reduce(f64::max),
            reasoning_hidden: sum(|request| u64::from(request.reasoning_hidden)),
            text_events,
            chunks: sum(|request| request.chunks),
            burst_share: (text_events > 0).then(|| together as f64 / text_events as f64),
            one_burst: sum(|request| u64::from(request.one_burst)),
        }
    }
}

impl InputTokens {
    pub(super) fn of(measured: &[&RequestNumbers]) -> InputTokens {
        let mean = |of: fn(&RequestNumbers) -> Option<u64>| {
            let known: Vec<u64> = measured.iter().filter_map(|request| of(request)).collect();
            let sum: u128 = known.iter().map(|&tokens| u128::from(tokens)).sum();
            (!known.is_empty()).then(|| sum as f64 / known.len() as f64)
        };
        let both = measured.iter().filter_map(|request| request.input_asked.zip(request.input_reported));
        let (asked, reported) = both.fold((0_u128, 0_u128), |(asked, reported), pair| {
            (asked + u128::from(pair.0), reported + u128::from(pair.1))
        });
        InputTokens {
            asked_mean: mean(|request| request.input_asked),
            reported_mean: mean(|request| request.input_reported),
            reported_over_asked: (asked > 0).then(|| reported as f64 / asked as f64),
            cached: sum_known(measured.iter().map(|request| request.cached_input_reported)),
        }
    }
}

/// Sum of the known values; `None` without any.
fn sum_known(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.flatten().reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase};
    use tokrate_core::Channel;
    use tokrate_meter::fixtures::{RequestBuilder, at, numbers, steady_request};
    use tokrate_stats::Level;

    fn summary(requests: &[RequestNumbers]) -> TokenSummary {
        phase(&closed(1), requests).tokens
    }

    #[test]
    fn answers_that_were_all_too_quick_are_reported() {
        // 40 tokens, one each 0 ms after the first: all of them in one read.
        let reads = |index| steady_request(index, 0, 1, 0, 40);
        let window = |index| RequestNumbers {
            output_speed: None,
            tpot_ms: None,
            output_speed_missing: Some(NoSpeedReason::ShortWindow.reason().to_owned()),
            ..steady_request(index, 0, 1, 10, 40)
        };
        let speed = phase(&closed(3), &[reads(0), reads(1), window(2)]).output_speed;
        assert_eq!(
            speed.refused.as_deref(),
            Some(
                "all 3 answers could not be timed (text came together in too few reads, decode window shorter than 10 ms)"
            )
        );
        assert_eq!((speed.n, speed.mean, speed.missing_share), (0, None, Some(1.0)));
    }

    #[test]
    fn the_share_of_bursts_is_over_the_events_of_all_requests() {
        let three = |batch: &mut tokrate_core::EventBatch| {
            (0..3).for_each(|_| batch.push_text(at(20), Channel::Answer, " a"));
        };
        // Three of four events came together; of the other request none of six: 3 of 10, not the mean of 75 % and 0 %.
        let joined = numbers(&RequestBuilder::sent(0, 0).answer(10, " a").read(three).done(20, 20));
        let tokens = summary(&[joined, steady_request(1, 20, 10, 10, 6)]);
        assert_eq!((tokens.text_events, tokens.chunks, tokens.burst_share), (10, 8, Some(0.3)));
    }

    #[test]
    fn what_was_reported_is_added_up_over_those_that_report_it() {
        let mut requests: Vec<RequestNumbers> = (0..3).map(|index| steady_request(index, 0, 1, 10, 40)).collect();
        (requests[0].cached_input_reported, requests[1].cached_input_reported) = (Some(400), Some(100));
        (requests[1].reasoning_reported, requests[2].reasoning_reported) = (Some(7), Some(5));
        let result = phase(&closed(3), &requests);
        assert_eq!((result.input_tokens.cached, result.tokens.reasoning_reported), (Some(500), Some(12)));
        assert_eq!(sum_known([None, None].into_iter()), None, "unknown, not 0");
        assert_eq!(
            sum_known([Some(u64::MAX), Some(1)].into_iter()),
            Some(u64::MAX),
            "a liar does not make us overflow"
        );
    }

    #[test]
    fn a_report_on_an_answer_without_counted_tokens_has_nothing_to_disagree_with() {
        let mut uncounted = steady_request(0, 0, 1, 10, 40);
        (uncounted.tokens_std, uncounted.tokens_std_answer, uncounted.tokens_reported) = (0, 0, Some(5));
        let alone = summary(std::slice::from_ref(&uncounted));
        assert_eq!((alone.reported, alone.reported_over_std, alone.largest_disagreement), (Some(5), None, None));
        let other = RequestNumbers { tokens_reported: Some(44), ..steady_request(1, 500, 1, 10, 40) };
        let both = summary(&[uncounted, other]);
        assert_eq!((both.reported_over_std, both.largest_disagreement), (Some(49.0 / 40.0), Some(0.1)));
    }

    #[test]
    fn no_time_per_token_is_no_speed() {
        let flat = as_speed(&Quantile::of_sorted(&[0.0; 8], 0, Level::P50));
        assert_eq!((flat.value, flat.low, flat.high), (None, None, None), "an infinite speed could not be written");
        let half = as_speed(&Quantile::of_sorted(&[0.0, 0.0, 4.0, 4.0, 4.0, 5.0, 5.0, 5.0], 0, Level::P50));
        // The 95 % interval of the median of eight reaches from the first to the last.
        assert_eq!((half.value, half.low, half.high), (Some(250.0), Some(200.0), None));
    }
}
