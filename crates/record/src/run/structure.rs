//! Answers that were to be calls of tools, or JSON by a schema: how many are, and why the others are not.

use super::NameCount;
use super::counts::names_of;
use serde::{Deserialize, Serialize};
use tokrate_meter::request::RequestNumbers;

/// Most reasons that are named; the rest is in `others`.
const MAX_REASONS: usize = 10;

/// The answers of a phase that were held against a schema.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StructureSummary {
    /// Answers that were looked at: those of measured requests that were answered.
    pub n: u64,
    /// Those of them that are what was asked for.
    pub valid: u64,
    /// Calls of tools in them.
    pub calls: u64,
    /// Why the others are not, most frequent first, at most ten reasons.
    pub invalid: Vec<NameCount>,
    /// Invalid answers of further reasons.
    pub others: u64,
}

impl StructureSummary {
    /// Of the measured requests; `None` unless their answers were to have a form.
    pub(super) fn of(measured: &[&RequestNumbers]) -> Option<StructureSummary> {
        let valid = measured.iter().filter(|request| request.valid_ns.is_some()).count() as u64;
        let invalid: Vec<&str> = measured.iter().filter_map(|request| request.invalid.as_deref()).collect();
        let n = valid + invalid.len() as u64;
        if n == 0 {
            return None;
        }
        let mut reasons = names_of(invalid.into_iter().map(Some));
        let others = reasons.iter().skip(MAX_REASONS).map(|reason| reason.count).sum();
        reasons.truncate(MAX_REASONS);
        let calls = measured.iter().filter_map(|request| request.tool_calls).sum();
        Some(StructureSummary { n, valid, calls, invalid: reasons, others })
    }

    /// Valid answers as a share of those looked at.
    pub fn valid_share(&self) -> f64 {
        self.valid as f64 / self.n as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::steady_request;

    #[test]
    fn reasons_are_counted_and_named_most_frequent_first() {
        let judged = |number: u64, invalid: Option<&str>| RequestNumbers {
            valid_ns: invalid.is_none().then_some(5),
            invalid: invalid.map(str::to_owned),
            tool_calls: Some(1),
            ..steady_request(number, number * 100, 1, 1, 4)
        };
        let mut rows = vec![judged(0, None), judged(1, Some("a")), judged(2, Some("b")), judged(3, Some("b"))];
        let of = |rows: &[RequestNumbers]| StructureSummary::of(&rows.iter().collect::<Vec<_>>());
        let summary = of(&rows).expect("there is a form");
        assert_eq!((summary.n, summary.valid, summary.calls, summary.others), (4, 1, 4, 0));
        assert_eq!(summary.valid_share(), 0.25);
        let names: Vec<_> = summary.invalid.iter().map(|reason| (reason.name.as_deref(), reason.count)).collect();
        assert_eq!(names, [(Some("b"), 2), (Some("a"), 1)]);
        rows.extend((4..20).map(|number| judged(number, Some(&format!("reason {number}")))));
        let summary = of(&rows).expect("there is a form");
        assert_eq!((summary.invalid.len(), summary.others), (10, 8));
        assert_eq!(of(&[steady_request(0, 0, 1, 1, 4)]), None);
    }
}
