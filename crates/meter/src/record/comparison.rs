//! Records of several targets that were measured in turns, in one document.
//!
//! It refuses to hold what the records do not: every target keeps its own conditions, warnings and numbers.

use super::json::lay_out;
use super::{Record, RecordError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Several records, in the order in which the targets were named.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Which form this is: `tokrate.comparison.v1`.
    #[schemars(extend("const" = Comparison::SCHEMA))]
    pub schema: String,
    /// One record for each target.
    pub records: Vec<Record>,
}

impl Comparison {
    /// The name of this form.
    pub const SCHEMA: &'static str = "tokrate.comparison.v1";

    /// A comparison of these records.
    pub fn of(records: Vec<Record>) -> Comparison {
        Comparison { schema: Comparison::SCHEMA.to_owned(), records }
    }

    /// Reads the records of a document: those of a comparison, or the one of a single record.
    ///
    /// # Errors
    /// As for [`Record::parse`].
    pub fn parse_records(text: &str) -> Result<Vec<Record>, RecordError> {
        match Record::parse(text) {
            Err(RecordError::UnknownSchema { found }) if found == Comparison::SCHEMA => {
                Ok(serde_json::from_str::<Comparison>(text)?.records)
            }
            single => Ok(vec![single?]),
        }
    }

    /// The comparison as JSON: a field a line, arrays on one line, a line feed at the end.
    pub fn to_json(&self) -> String {
        lay_out(self)
    }
}
