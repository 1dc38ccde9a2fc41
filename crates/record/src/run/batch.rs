//! Batches of a phase: how long until they were done and how sure that is, how much a second, and how their requests ended.
//!
//! Invariant: rates are over the whole time, from the beginning of the first upload to the end of the last batch, its waiting included.

use serde::{Deserialize, Serialize};
use tokrate_meter::request::RequestNumbers;
use tokrate_meter::{BatchNumbers, GivenUpBatch};
use tokrate_stats::Distribution;

/// The batches of a phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BatchSummary {
    /// Measured batches, those that came to their end.
    pub n: u64,
    /// Requests of all batches that were begun, measured or not.
    pub requests: u64,
    /// Those that were answered.
    pub succeeded: u64,
    /// Those whose result is an error.
    pub failed: u64,
    /// Those without a result.
    pub missing: u64,
    /// How much earlier than seen a batch ended at most: what lies between two questions. The error of E2E is between nothing and this.
    pub late_at_most: Distribution,
    /// From the beginning of the upload until the batch was begun.
    pub begun: Distribution,
    /// How long its results took to be read; not part of E2E.
    pub read: Distribution,
    /// Requests that were answered per second of the whole time; absent without any.
    pub requests_per_second: Option<f64>,
    /// Prompt tokens per second of the whole time, as the server counts them.
    pub input_tokens_per_second: Option<f64>,
    /// Output tokens per second of the whole time, as the server counts them.
    pub output_tokens_per_second: Option<f64>,
    /// Files that should have been deleted and are still there.
    pub left: u64,
    /// Those whose end was not waited for, as the run was interrupted or their time was over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<GivenUpBatch>,
}

impl BatchSummary {
    /// Of all requests and the measured ones; `None` where none was a batch.
    pub(super) fn of(requests: &[RequestNumbers], measured: &[&RequestNumbers]) -> Option<BatchSummary> {
        requests.iter().find_map(|row| row.batch.as_ref())?;
        let sum =
            |of: fn(&BatchNumbers) -> u64| requests.iter().filter_map(|row| row.batch.as_deref()).map(of).sum::<u64>();
        let times = |of: fn(&BatchNumbers) -> u64| {
            let known = measured.iter().filter_map(|row| row.batch.as_deref()).map(of);
            Distribution::of_nanos(&mut known.collect::<Vec<u64>>())
        };
        let began = measured.iter().filter_map(|row| row.sent_at_ns).min();
        let ended = measured.iter().map(|row| row.finished_at_ns).max();
        let seconds = began.zip(ended).map(|(began, ended)| ended.saturating_sub(began) as f64 / 1e9);
        let rate = |of: &dyn Fn(&RequestNumbers) -> Option<u64>| {
            let known: Vec<u64> = measured.iter().filter_map(|row| of(row)).collect();
            let total = (!known.is_empty()).then(|| known.iter().sum::<u64>())?;
            seconds.filter(|seconds| *seconds > 0.0).map(|seconds| total as f64 / seconds)
        };
        Some(BatchSummary {
            n: measured.len() as u64,
            requests: sum(|batch| batch.requests),
            succeeded: sum(|batch| batch.succeeded),
            failed: sum(|batch| batch.failed),
            missing: sum(|batch| batch.missing),
            late_at_most: times(|batch| batch.late_at_most_ns),
            begun: times(|batch| batch.begun_ns),
            read: times(|batch| batch.read_ns),
            requests_per_second: rate(&|row| row.batch.as_ref().map(|batch| batch.succeeded)),
            input_tokens_per_second: rate(&|row| row.input_reported),
            output_tokens_per_second: rate(&|row| row.tokens_reported),
            left: sum(|batch| batch.left),
            given_up: requests.iter().filter_map(|row| row.batch.as_ref()?.given_up.clone()).collect(),
        })
    }

    /// Requests without an answer, as a share of all.
    pub fn failed_share(&self) -> Option<f64> {
        (self.requests > 0).then(|| (self.requests - self.succeeded) as f64 / self.requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::steady_request;

    #[test]
    fn rates_are_over_the_whole_time_and_what_failed_is_counted() {
        let batch = BatchNumbers {
            requests: 10,
            succeeded: 8,
            failed: 2,
            polls: 4,
            begun_ns: 5_000_000,
            late_at_most_ns: 1_000_000_000,
            ..BatchNumbers::default()
        };
        let row = |number: u64, begin: u64, end: u64| RequestNumbers {
            batch: Some(Box::new(batch.clone())),
            sent_at_ns: Some(begin * 1_000_000_000),
            finished_at_ns: end * 1_000_000_000,
            input_reported: Some(800),
            tokens_reported: Some(400),
            ..steady_request(number, begin * 1_000, 1, 1, 4)
        };
        // Two at once: ten seconds in all.
        let rows = [row(0, 0, 8), row(1, 1, 10)];
        let measured: Vec<&RequestNumbers> = rows.iter().collect();
        let batches = BatchSummary::of(&rows, &measured).expect("there were batches");
        assert_eq!((batches.n, batches.requests, batches.succeeded, batches.failed), (2, 20, 16, 4));
        assert_eq!((batches.requests_per_second, batches.output_tokens_per_second), (Some(1.6), Some(80.0)));
        assert_eq!(batches.failed_share(), Some(0.2));
        assert_eq!(batches.late_at_most.max, Some(1_000.0));
        assert_eq!(BatchSummary::of(&[steady_request(0, 0, 1, 1, 4)], &[]), None);
    }
}
