//! Error for an unusable input file: position and what was expected there. The caller adds the file name.
//!
//! Invariant: line and column count from 1.

use std::fmt;

/// A position in a text that is not as expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadInput {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What was expected there, and what was found.
    pub expected: String,
}

impl BadInput {
    /// At a place.
    pub(crate) fn at(line: usize, column: usize, expected: impl Into<String>) -> BadInput {
        BadInput { line, column, expected: expected.into() }
    }

    /// A serde error in JSON that starts at `line`.
    pub(crate) fn json(line: usize, error: &serde_json::Error, expected: &str) -> BadInput {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or(&reason);
        BadInput::at(line + error.line().saturating_sub(1), error.column().max(1), format!("{expected}: {reason}"))
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}: expected {}", self.line, self.column, self.expected)
    }
}

/// The first 40 characters of the input, for the message.
pub(crate) fn shown(text: &str) -> String {
    let text = text.trim_end();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Hash of a text (FNV-1a, 64 bits).
pub(crate) fn hash(text: &str) -> u64 {
    hash_bytes(text.as_bytes())
}

/// The same of bytes.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
