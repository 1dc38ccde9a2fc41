//! What the detector reports.

use crate::sample::Source;
use serde::{Serialize, Serializer};
use tokrate_core::rfc3339;

/// What kind of change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The level changed for the worse.
    Regression,
    /// The level changed for the better.
    Improvement,
    /// Values scatter more, or less, than they did.
    Spread,
    /// Some hours of the day became bad.
    Cycle,
    /// More requests fail, or no more than usual again.
    Errors,
    /// Endpoints of unrelated providers moved together: the prober is at fault, and its samples are left out.
    Quarantine,
}

impl ChangeKind {
    /// The name used in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            ChangeKind::Regression => "regression",
            ChangeKind::Improvement => "improvement",
            ChangeKind::Spread => "spread",
            ChangeKind::Cycle => "cycle",
            ChangeKind::Errors => "errors",
            ChangeKind::Quarantine => "quarantine",
        }
    }
}

/// A change that was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Event {
    /// The sample after which it was found (ms since 1970).
    #[serde(serialize_with = "time")]
    pub at: i64,
    /// Where.
    #[serde(flatten, with = "source")]
    pub source: Source,
    /// Which number: `ttft_ms`, `output_speed`, `e2e_ms`, `errors`; `all` of a quarantine.
    pub metric: &'static str,
    /// What kind.
    pub kind: ChangeKind,
    /// The first sample after the change (ms since 1970).
    #[serde(serialize_with = "time")]
    pub since: i64,
    /// The earliest first sample that fits nearly as well.
    #[serde(serialize_with = "time")]
    pub since_earliest: i64,
    /// The latest.
    #[serde(serialize_with = "time")]
    pub since_latest: i64,
    /// Value after over value before, less 1; of errors the difference of the shares.
    pub change: f64,
    /// Lower end of the 95 % interval of `change`.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How likely so much is by chance, at one look.
    pub p: f64,
    /// Samples since the change.
    pub n: usize,
}

// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn time<S: Serializer>(at: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339(u64::try_from(*at / 1_000).unwrap_or(0)))
}

mod source {
    use super::Source;
    use serde::Serializer;
    use serde::ser::SerializeMap;

    pub fn serialize<S: Serializer>(source: &Source, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("endpoint", &source.endpoint)?;
        map.serialize_entry("workload", &source.workload)?;
        map.serialize_entry("place", &source.place)?;
        map.end()
    }
}
