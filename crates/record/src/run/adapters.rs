//! Figures by the model that requests asked for, where they ask for several (LoRA adapters).
//!
//! Invariant: distributions hold the measured requests of that model only; every measured or failed request is in one row.

use super::counts::is_failed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::Distribution;

/// Requests that asked for one of the models.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdapterSummary {
    /// The model's name.
    pub name: String,
    /// Answered requests outside the warm-up.
    pub n: u64,
    /// Failed requests outside the warm-up.
    pub failed: u64,
    /// Sent to first output text.
    pub ttft: Distribution,
    /// Time per output token of those that have one.
    pub tpot: Distribution,
    /// Sent to finish.
    pub e2e: Distribution,
}

impl AdapterSummary {
    /// By model, the one with the most requests first; none where all ask for the same.
    pub(super) fn of(requests: &[RequestNumbers]) -> Vec<AdapterSummary> {
        let mut by_name: BTreeMap<&str, Vec<&RequestNumbers>> = BTreeMap::new();
        for request in requests.iter().filter(|request| !request.warmup) {
            if let Some(name) = &request.adapter {
                by_name.entry(name).or_default().push(request);
            }
        }
        let mut rows: Vec<AdapterSummary> = by_name.iter().map(|(name, requests)| summary(name, requests)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.n + row.failed));
        rows
    }
}

fn summary(name: &str, requests: &[&RequestNumbers]) -> AdapterSummary {
    let answered = || requests.iter().filter(|request| request.is_answered());
    let times = |of: fn(&RequestNumbers) -> Option<u64>| {
        Distribution::of_nanos(&mut answered().filter_map(|request| of(request)).collect::<Vec<u64>>())
    };
    let tpot = answered().filter_map(|request| request.tpot_ms).map(|ms| (ms * 1e6).round() as u64);
    AdapterSummary {
        name: name.to_owned(),
        n: answered().count() as u64,
        failed: requests.iter().filter(|request| is_failed(request.failure_kind())).count() as u64,
        ttft: times(|request| request.ttft_ns),
        tpot: Distribution::of_nanos(&mut tpot.collect::<Vec<u64>>()),
        e2e: times(|request| request.e2e_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::FailureKind;
    use tokrate_meter::fixtures::{failed_request, steady_request};

    #[test]
    fn each_model_has_its_own_figures_and_the_busiest_stands_first() {
        let asking = |name: &str, request: RequestNumbers| RequestNumbers { adapter: Some(name.to_owned()), ..request };
        let rows = [
            asking("sql", steady_request(0, 0, 100, 10, 40)),
            asking("fr", steady_request(1, 0, 300, 10, 40)),
            asking("fr", failed_request(2, 0, 5, FailureKind::NotFound)),
            RequestNumbers { warmup: true, ..asking("sql", steady_request(3, 0, 900, 10, 40)) },
        ];
        let seen = AdapterSummary::of(&rows);
        let shown: Vec<_> = seen.iter().map(|row| (row.name.as_str(), row.n, row.failed, row.ttft.max)).collect();
        assert_eq!(shown, [("fr", 1, 1, Some(300.0)), ("sql", 1, 0, Some(100.0))]);
        assert!(AdapterSummary::of(&[steady_request(0, 0, 1, 1, 4)]).is_empty());
    }
}
