//! What came of the edits of a server, and the page of it in the text format of Prometheus.
//!
//! Invariant: every code of a refusal has a row from the start, so that a rate can be taken of each.

use crate::answer::STALE;
use crate::reply::Reply;
use crate::service::RequestOutcome;
use std::collections::BTreeMap;
use std::fmt::Write;
use tokrate_apply::Code;

/// The path of the page.
pub(crate) const METRICS: &str = "/metrics";

/// Counts over the life of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Edits that the engine merged.
    pub merged: u64,
    /// Edits that the file already had.
    pub unchanged: u64,
    /// Edits that a model merged and the engine accepted.
    pub merged_by_model: u64,
    /// Refused edits by code.
    pub refused: BTreeMap<&'static str, u64>,
}

impl Summary {
    pub(crate) fn add(&mut self, outcome: RequestOutcome) {
        match outcome {
            RequestOutcome::Merged => self.merged += 1,
            RequestOutcome::Unchanged => self.unchanged += 1,
            RequestOutcome::ByModel => self.merged_by_model += 1,
            RequestOutcome::Refused(code) => *self.refused.entry(code.name()).or_insert(0) += 1,
            RequestOutcome::Stale => *self.refused.entry(STALE).or_insert(0) += 1,
        }
    }

    /// The page of counts.
    pub(crate) fn page(&self) -> Reply {
        Reply::text(page(self))
    }
}

fn page(summary: &Summary) -> String {
    let Summary { merged, unchanged, merged_by_model, refused } = summary;
    let all_refused: u64 = refused.values().sum();
    let edits = merged + unchanged + merged_by_model + all_refused;
    let mut text = String::from(
        "# HELP tokrate_apply_edits_total Edits by what came of them.\n# TYPE tokrate_apply_edits_total counter\n",
    );
    for (result, count) in [
        ("merged", *merged),
        ("merged_by_model", *merged_by_model),
        ("no_change", *unchanged),
        ("refused", all_refused),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "tokrate_apply_edits_total{{result=\"{result}\"}} {count}");
    }
    text.push_str(
        "# HELP tokrate_apply_refused_total Refused edits by code.\n# TYPE tokrate_apply_refused_total counter\n",
    );
    for code in Code::ALL.map(Code::name).into_iter().chain([STALE]) {
        let _ = writeln!(text, "tokrate_apply_refused_total{{code=\"{code}\"}} {}", refused.get(code).unwrap_or(&0));
    }
    text.push_str(
        "# HELP tokrate_apply_refusal_ratio Refused edits among all, since the start.\n# TYPE tokrate_apply_refusal_ratio gauge\n",
    );
    // No edit is no refusal.
    let ratio = all_refused as f64 / edits.max(1) as f64;
    let _ = writeln!(text, "tokrate_apply_refusal_ratio {ratio}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_reads_as_prometheus_wants_it() {
        let refused = [("no_anchor", 2), ("ambiguous_location", 1)].into();
        let summary = Summary { merged: 5, unchanged: 1, merged_by_model: 1, refused };
        insta::assert_snapshot!(page(&summary));
        assert!(page(&Summary::default()).ends_with("tokrate_apply_refusal_ratio 0\n"));
    }
}
