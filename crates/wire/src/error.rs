//! Why a client's request cannot be read.
//!
//! Invariant: each message names the field and what it should have been, and fits after "failed to".

use std::fmt;

/// Why a request body cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WireError {
    /// The body is not JSON; the text names the place.
    NotJson(String),
    /// The body is JSON, but not an object.
    NotAnObject,
    /// A field that every request needs is absent.
    Missing(&'static str),
    /// A field has a value that cannot be used.
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::NotJson(detail) => write!(formatter, "read the request as JSON: {detail}"),
            WireError::NotAnObject => formatter.write_str("read the request: it must be a JSON object"),
            WireError::Missing(field) => write!(formatter, "read the request: add the field `{field}`"),
            WireError::Invalid { field, expected } => {
                write!(formatter, "read the request: `{field}` must be {expected}")
            }
        }
    }
}

impl std::error::Error for WireError {}

impl From<serde_json::Error> for WireError {
    fn from(error: serde_json::Error) -> WireError {
        WireError::NotJson(error.to_string())
    }
}
