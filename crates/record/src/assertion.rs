//! Outcomes of assertions, as a record keeps them.

use serde::{Deserialize, Serialize};

/// Outcome of an assertion at one load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssertionOutcome {
    /// The assertion, as parsed.
    pub assertion: String,
    /// Name of the load, whose rounds are judged together; absent if no phase has the load that the assertion names.
    pub phase: Option<String>,
    /// Whether it is met.
    pub status: AssertionStatus,
    /// The value compared with the bound, in `unit`.
    pub value: Option<f64>,
    /// Unit of the value and the bound: `ms`, `tok/s`, `1/s`, or empty for counts and shares.
    pub unit: String,
    /// The value or the reason, as text.
    pub detail: String,
}

/// Outcome of an assertion. Only [`AssertionStatus::Met`] is a pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AssertionStatus {
    /// The value satisfies the bound.
    Met,
    /// It does not.
    Missed,
    /// The sample is too small to state the number.
    NotEnoughSamples,
    /// The phase does not have the number, or no phase has the load.
    NotMeasured,
}

impl AssertionStatus {
    /// The name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            AssertionStatus::Met => "met",
            AssertionStatus::Missed => "missed",
            AssertionStatus::NotEnoughSamples => "not enough samples",
            AssertionStatus::NotMeasured => "not measured",
        }
    }
}
