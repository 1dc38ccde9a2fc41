//! Record v1: the stored form of a measurement.
//!
//! Invariant: a record reads back equal; an unknown schema is rejected; no number is NaN or infinite: missing values are
//! null, infinite ones (`adj_` quantiles among failures) are null with `"infinite": true`.

mod conditions;
mod engine_host;
mod estimate;
mod json;
mod media_price;
mod price;
mod search;
mod spending;

pub use conditions::ConditionsRow;
pub use engine_host::{EngineHost, Gpu};
pub use estimate::{Estimate, EstimatedLoad, EstimatedValue};
pub use json::lay_out;
pub use media_price::{MediaAmounts, MediaKind, MediaPrice, MediaPrices};
pub use price::TargetPrice;
pub use search::{SearchLevel, SearchResult, SearchStatus};
pub use spending::{Billed, Spending};

use crate::assertion::AssertionOutcome;
use crate::curve::CurveResult;
use crate::gate::GateViolation;
use crate::run::PhaseResult;
use crate::timeline::Timeline;
use crate::until::UntilResult;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A measurement with everything needed to interpret it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// Which form this is: `tokrate.record.v1`.
    #[cfg_attr(feature = "schema", schemars(extend("const" = Record::SCHEMA)))]
    pub schema: String,
    /// What wrote it.
    pub tool: Tool,
    /// What was run, such as `bench`; `estimate` of what was computed and not measured.
    pub kind: String,
    /// Wall time of the start, in RFC 3339.
    pub started_at: String,
    /// Wall time that the whole run took (s).
    pub wall_seconds: f64,
    /// Whether all of the plan was carried out.
    pub status: Status,
    /// Why it was not.
    pub reason: Option<String>,
    /// Conditions of the run; each phase has its own besides, which differ in the load.
    pub conditions: ConditionsRow,
    /// What the target charges, if it is known.
    pub price: Option<TargetPrice>,
    /// The machine that the engine runs on, if it is this one.
    pub engine_host: Option<EngineHost>,
    /// Result of the search for the highest load, if there was one.
    pub search: Option<SearchResult>,
    /// How well the figures are known that the run was to go on for, if any were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UntilResult>,
    /// What the run has cost, if the price is known.
    pub spending: Option<Spending>,
    /// One result per load level, in order of the plan.
    pub phases: Vec<PhaseResult>,
    /// The run in slices of time.
    #[serde(default)]
    pub timeline: Option<Timeline>,
    /// The degradation curve over the phases, if there are several.
    pub curve: Option<CurveResult>,
    /// Outcomes of the assertions, in their order.
    #[serde(default)]
    pub assertions: Vec<AssertionOutcome>,
    /// What a reader must know before trusting the numbers, most important first.
    pub warnings: Vec<String>,
    /// Notes on the results.
    pub notes: Vec<String>,
    /// What was computed, in a record of the kind `estimate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// What wrote a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Whether a plan was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All of it.
    Complete,
    /// Incomplete, but valid as far as it goes.
    Partial,
    /// Nothing that could be called a measurement.
    Failed,
}

/// Why a text is not a record that can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not JSON, or a field is missing or of another type.
    Malformed {
        /// Line of the first error, counted from 1.
        line: usize,
        /// Column of it, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// It is JSON, but not a record.
    NoSchema,
    /// It is a record of another schema.
    UnknownSchema {
        /// The schema that it names.
        found: String,
    },
}

/// The one field that every version of a record has.
#[derive(Deserialize)]
struct Header {
    schema: Option<String>,
}

impl Record {
    /// The name of this form.
    pub const SCHEMA: &'static str = "tokrate.record.v1";

    /// Reads a record.
    ///
    /// # Errors
    /// Says where the text is not JSON or lacks a field, or which schema it has that is not this one.
    pub fn parse(text: &str) -> Result<Record, RecordError> {
        let header: Header = serde_json::from_str(text)?;
        match header.schema {
            Some(schema) if schema == Record::SCHEMA => Ok(serde_json::from_str(text)?),
            Some(found) => Err(RecordError::UnknownSchema { found }),
            None => Err(RecordError::NoSchema),
        }
    }

    /// The record as JSON: a field a line, arrays on one line, a line feed at the end.
    pub fn to_json(&self) -> String {
        lay_out(self)
    }

    /// Every violation of the self-consistency gate, with the phase it is in.
    pub fn violations(&self) -> impl Iterator<Item = (&PhaseResult, &GateViolation)> {
        self.phases.iter().flat_map(|phase| phase.gate.iter().map(move |violation| (phase, violation)))
    }
}

impl Tool {
    /// This program at its version.
    pub fn current() -> Tool {
        Tool { name: "tokrate".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

impl From<serde_json::Error> for RecordError {
    fn from(error: serde_json::Error) -> RecordError {
        let (line, column) = (error.line(), error.column());
        // The position is given in fields of its own; serde_json repeats it at the end of its message.
        let message = error.to_string();
        let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message).to_owned();
        RecordError::Malformed { line, column, message }
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Malformed { line, column, message } => {
                write!(
                    formatter,
                    "read the record at line {line}, column {column}: {message}; write it anew or mend that line"
                )
            }
            RecordError::NoSchema => write!(
                formatter,
                "read the record: it has no \"schema\" field, so it is not one; name a file that `tokrate bench --json` wrote"
            ),
            RecordError::UnknownSchema { found } => write!(
                formatter,
                "read the record: its schema is {found:?} and only {:?} is known; use the version of tokrate that wrote it",
                Record::SCHEMA
            ),
        }
    }
}

impl std::error::Error for RecordError {}

#[cfg(test)]
mod tests;
