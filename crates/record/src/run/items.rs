//! Requests with several texts each, of which each gets a vector or a score: how many a second.
//!
//! Invariant: of the steady window only, each request with the share of its time (due to finished) that lies inside.

use super::Steady;
use serde::{Deserialize, Serialize};
use tokrate_core::Rng;
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::{Interval, mean_interval};

/// The items of a phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ItemSummary {
    /// Items of the measured requests.
    pub n: u64,
    /// Items of a measured request, mean.
    pub per_request: Option<f64>,
    /// Items per second of the steady window; absent without one.
    pub per_second: Option<f64>,
    /// 95 % interval of `per_second`, the equal parts of the window (each at least 1 s long) taken as a sample; absent below ten parts.
    pub interval: Option<Interval>,
    /// Input tokens per second of the steady window, as the plan asked for them.
    pub input_tokens_per_second: Option<f64>,
}

impl ItemSummary {
    /// Of all requests and the measured ones; `None` unless requests were sent for items.
    pub(super) fn of(
        steady: Option<&Steady>,
        requests: &[RequestNumbers],
        measured: &[&RequestNumbers],
    ) -> Option<ItemSummary> {
        if requests.iter().all(|request| request.items_asked.is_none()) {
            return None;
        }
        let n = measured.iter().filter_map(|request| request.items).sum();
        let rates =
            steady.map(|steady| (rate(steady, requests, |it| it.items), rate(steady, requests, |it| it.input_asked)));
        Some(ItemSummary {
            n,
            per_request: (!measured.is_empty()).then(|| n as f64 / measured.len() as f64),
            per_second: rates.as_ref().map(|(items, _)| items.iter().sum::<f64>() / items.len() as f64),
            interval: rates.as_ref().and_then(|(items, _)| mean_interval(items, 0.95, &Rng::root(0).child("items"))),
            input_tokens_per_second: rates.map(|(_, tokens)| tokens.iter().sum::<f64>() / tokens.len() as f64),
        })
    }
}

/// How much a second of each of the equal parts of the window, each at least 1 s long: a request's amount is spread evenly over its time.
pub(super) fn rate(steady: &Steady, requests: &[RequestNumbers], of: fn(&RequestNumbers) -> Option<u64>) -> Vec<f64> {
    let length = steady.end_ns - steady.start_ns;
    let parts = (length / 1_000_000_000).max(1);
    let part = length as f64 / parts as f64;
    let mut amounts = vec![0.0; parts as usize];
    for request in requests.iter().filter(|request| request.is_answered()) {
        let Some(amount) = of(request) else { continue };
        let (begun, finished) = (request.due_at_ns, request.finished_at_ns);
        let time = finished.saturating_sub(begun).max(1) as f64;
        let from = (begun.max(steady.start_ns) - steady.start_ns) as f64;
        let to = finished.min(steady.end_ns).saturating_sub(steady.start_ns) as f64;
        let mut place = (from / part) as usize;
        let mut at = from;
        while at < to && place < amounts.len() {
            let end = ((place + 1) as f64 * part).min(to);
            amounts[place] += amount as f64 * (end - at) / time;
            (at, place) = (end, place + 1);
        }
    }
    amounts.into_iter().map(|amount| amount * 1e9 / part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::steady_request;

    /// A request of so many items from `start` to `end` (ms).
    fn request(start: u64, end: u64, items: u64) -> RequestNumbers {
        RequestNumbers {
            items_asked: Some(items),
            items: Some(items),
            input_asked: Some(items * 10),
            due_at_ns: start * 1_000_000,
            finished_at_ns: end * 1_000_000,
            ..steady_request(0, start, 1, 1, 4)
        }
    }

    #[test]
    fn a_request_counts_with_the_part_of_its_time_that_lies_in_the_window() {
        let steady = Steady { rule: String::new(), start_ns: 1_000_000_000, end_ns: 3_000_000_000 };
        // Half of 8, all of 6, a quarter of 4: 11 items in 2 s.
        let requests = [request(500, 1_500, 8), request(1_500, 2_500, 6), request(2_750, 3_750, 4)];
        let measured: Vec<&RequestNumbers> = requests.iter().collect();
        let items = ItemSummary::of(Some(&steady), &requests, &measured).expect("there were items");
        assert!((items.per_second.expect("a window") - 5.5).abs() < 1e-9, "{items:?}");
        assert!((items.input_tokens_per_second.expect("a window") - 55.0).abs() < 1e-9);
        assert_eq!((items.n, items.per_request, items.interval), (18, Some(6.0), None));
        let parts = rate(&steady, &requests, |it| it.items);
        assert!((parts[0] - 7.0).abs() < 1e-9 && (parts[1] - 4.0).abs() < 1e-9, "{parts:?}");
        let plain = [steady_request(0, 0, 1, 1, 4)];
        assert_eq!(ItemSummary::of(Some(&steady), &plain, &[]), None);
        assert_eq!(ItemSummary::of(None, &requests, &measured).and_then(|items| items.per_second), None);
    }
}
