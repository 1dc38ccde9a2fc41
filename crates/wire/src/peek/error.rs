//! Why a scan refused a body, and at which byte.
//!
//! Invariant: each message names the byte and what was expected there or what to do.

use std::fmt;

/// Why a body cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PeekErrorKind {
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The body is empty or ends too early.
    Unfinished,
    /// The body is JSON of another kind.
    NotAnObject,
    /// Something else should have come here.
    Expected(&'static str),
    /// Something follows the object.
    TrailingBytes,
    /// Arrays and objects are nested deeper than [`super::MAX_DEPTH`].
    TooDeep,
    /// A field came twice.
    Repeated(&'static str),
    /// A field came under a name that differs in the case of letters only.
    Misspelt(&'static str),
    /// A field has a value that cannot be used.
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
}

/// An error with its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeekError {
    /// Offset of the byte in the body.
    pub at: usize,
    /// What is wrong at that byte.
    pub kind: PeekErrorKind,
}

impl fmt::Display for PeekError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match self.kind {
            PeekErrorKind::NotUtf8 => write!(formatter, "read the request: the bytes from {at} on are not UTF-8"),
            PeekErrorKind::Unfinished => write!(formatter, "read the request as JSON: it breaks off at byte {at}"),
            PeekErrorKind::NotAnObject => write!(formatter, "read the request: it must be a JSON object (byte {at})"),
            PeekErrorKind::Expected(what) => {
                write!(formatter, "read the request as JSON: expected {what} at byte {at}")
            }
            PeekErrorKind::TrailingBytes => {
                write!(formatter, "read the request: nothing may follow the object (byte {at})")
            }
            PeekErrorKind::TooDeep => {
                let limit = super::MAX_DEPTH;
                write!(formatter, "read the request: it is nested deeper than {limit} levels (byte {at})")
            }
            PeekErrorKind::Repeated(field) => {
                write!(formatter, "read the request: `{field}` comes twice (byte {at}); send it once")
            }
            PeekErrorKind::Misspelt(field) => {
                write!(formatter, "read the request: `{field}` must be written in just these letters (byte {at})")
            }
            PeekErrorKind::Invalid { field, expected } => {
                write!(formatter, "read the request: `{field}` must be {expected} (byte {at})")
            }
        }
    }
}

impl std::error::Error for PeekError {}
