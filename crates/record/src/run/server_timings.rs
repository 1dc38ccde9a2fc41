//! Times reported by the server, next to the client's.
//!
//! Invariant: differences are taken per request before any median; a request that lacks one of the two has none.

use serde::{Deserialize, Serialize};
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::{Level, Quantile};

/// Times reported in the answers of a phase, compared with the client's. All times are medians (ms).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerTimingSummary {
    /// Measured requests whose answers carried times.
    pub n: u64,
    /// Time in the server's queue.
    pub queue: Option<TimingMedian>,
    /// Time to load the model.
    pub load: Option<TimingMedian>,
    /// Time to read the prompt.
    pub prefill: Option<TimingMedian>,
    /// Time to write the answer.
    pub decode: Option<TimingMedian>,
    /// The whole request.
    pub total: Option<TimingMedian>,
    /// The client's TTFT minus the server's queue, load and prefill: network, the first token's own time, and whatever the
    /// server leaves out of its account.
    pub ttft_beyond_server: Option<TimingMedian>,
    /// The client's time from first to last text minus the server's decode time; negative when the server's time includes
    /// the first token, or when text was held back and sent in bursts.
    pub decode_beyond_server: Option<TimingMedian>,
    /// The client's end-to-end time minus the server's total.
    pub e2e_beyond_server: Option<TimingMedian>,
    /// Prompt tokens per second of prefill, by the server's own numbers (median over requests).
    pub prefill_tokens_per_second: Option<f64>,
    /// Tokens per second of decode, by the server's own numbers (median over requests).
    pub decode_tokens_per_second: Option<f64>,
}

/// The median of one time over the requests that have it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimingMedian {
    /// How many requests have it.
    pub n: u64,
    /// The median (ms), with its interval if there are enough.
    pub median: Quantile,
}

impl ServerTimingSummary {
    /// Of the measured requests; `None` if no answer carried a time.
    pub(super) fn of(measured: &[&RequestNumbers]) -> Option<ServerTimingSummary> {
        let says = |request: &&&RequestNumbers| {
            let times = [
                request.server_queue_ns,
                request.server_load_ns,
                request.server_prefill_ns,
                request.server_decode_ns,
                request.server_total_ns,
            ];
            times.iter().any(Option::is_some)
        };
        let n = measured.iter().filter(says).count() as u64;
        if n == 0 {
            return None;
        }
        let plain = |of: fn(&RequestNumbers) -> Option<u64>| {
            median(measured.iter().filter_map(|request| of(request)).map(|nanoseconds| nanoseconds as f64 / 1e6))
        };
        let gap = |of: fn(&RequestNumbers) -> Option<(u64, u64)>| {
            let gaps = measured.iter().filter_map(|request| of(request));
            median(gaps.map(|(client, server)| (client as f64 - server as f64) / 1e6))
        };
        let speed = |of: fn(&RequestNumbers) -> Option<(u64, u64)>| {
            let speeds = measured.iter().filter_map(|request| of(request)).filter(|(_, time)| *time > 0);
            let found = median(speeds.map(|(tokens, time)| tokens as f64 / (time as f64 / 1e9)))?;
            found.median.nearest_rank()
        };
        Some(ServerTimingSummary {
            n,
            queue: plain(|request| request.server_queue_ns),
            load: plain(|request| request.server_load_ns),
            prefill: plain(|request| request.server_prefill_ns),
            decode: plain(|request| request.server_decode_ns),
            total: plain(|request| request.server_total_ns),
            ttft_beyond_server: gap(|request| {
                let before = request.server_queue_ns.unwrap_or(0).saturating_add(request.server_load_ns.unwrap_or(0));
                Some((request.ttft_ns?, before.saturating_add(request.server_prefill_ns?)))
            }),
            decode_beyond_server: gap(|request| {
                let window = request.last_text_at_ns?.saturating_sub(request.first_text_at_ns?);
                Some((window, request.server_decode_ns?))
            }),
            e2e_beyond_server: gap(|request| request.e2e_ns.zip(request.server_total_ns)),
            prefill_tokens_per_second: speed(|request| request.server_prefill_tokens.zip(request.server_prefill_ns)),
            decode_tokens_per_second: speed(|request| request.server_decode_tokens.zip(request.server_decode_ns)),
        })
    }
}

/// The median of some values; `None` of none.
fn median(values: impl Iterator<Item = f64>) -> Option<TimingMedian> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len() as u64;
    (n > 0).then(|| TimingMedian { n, median: Quantile::of_sorted(&sorted, 0, Level::P50) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{closed, phase};
    use tokrate_meter::fixtures::{MS, steady_request};

    #[test]
    fn gaps_are_those_of_each_request_and_may_be_negative() {
        // The client sees 100 ms to the first token and 390 ms from there to the last.
        let request = |index: u64, prefill: u64, decode: Option<u64>| RequestNumbers {
            server_queue_ns: Some(5 * MS),
            server_prefill_ns: Some(prefill * MS),
            server_decode_ns: decode.map(|decode| decode * MS),
            server_decode_tokens: Some(40),
            ..steady_request(index, index * 10_000, 100, 10, 40)
        };
        let requests = [
            request(0, 60, Some(400)),
            request(1, 70, Some(400)),
            request(2, 80, None),
            steady_request(3, 40_000, 100, 10, 40),
        ];
        let result = phase(&closed(1), &requests);
        let summary = result.server_timings.expect("three answers carry times");
        let value = |timing: &Option<TimingMedian>| timing.as_ref().map(|it| (it.n, it.median.nearest_rank()));
        assert_eq!((summary.n, value(&summary.queue)), (3, Some((3, Some(5.0)))));
        assert_eq!(value(&summary.ttft_beyond_server), Some((3, Some(25.0))));
        assert_eq!(value(&summary.decode_beyond_server), Some((2, Some(-10.0))));
        assert_eq!((value(&summary.total), value(&summary.e2e_beyond_server)), (None, None));
        assert_eq!(summary.decode_tokens_per_second, Some(100.0));
        assert_eq!(phase(&closed(1), &[steady_request(0, 0, 100, 10, 40)]).server_timings, None);
    }

    #[test]
    fn a_time_of_zero_is_a_time_and_gives_no_speed() {
        let request = RequestNumbers {
            server_prefill_ns: Some(0),
            server_prefill_tokens: Some(512),
            server_decode_ns: Some(200 * MS),
            server_decode_tokens: Some(50),
            server_total_ns: Some(400 * MS),
            ..steady_request(0, 0, 100, 10, 40)
        };
        let summary = phase(&closed(1), &[request]).server_timings.expect("the answer carries times");
        let median = |timing: &Option<TimingMedian>| timing.as_ref().and_then(|timing| timing.median.nearest_rank());
        assert_eq!((median(&summary.prefill), summary.prefill_tokens_per_second), (Some(0.0), None));
        assert_eq!((median(&summary.decode), summary.decode_tokens_per_second), (Some(200.0), Some(250.0)));
        // The client's 100 ms, 390 ms from first text to last, and 490 ms in all.
        assert_eq!(median(&summary.ttft_beyond_server), Some(100.0));
        assert_eq!(median(&summary.decode_beyond_server), Some(190.0));
        assert_eq!((median(&summary.e2e_beyond_server), summary.queue), (Some(90.0), None));
    }
}
