//! Why there is no credential. Invariant: it names each source that was tried and never holds what was found there.

use std::fmt;

/// Why there is no credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CredentialError {
    /// Whose.
    pub(crate) of: &'static str,
    /// Each source that was tried, and why it gave none.
    pub(crate) tried: Vec<String>,
    /// What to do.
    pub(crate) hint: &'static str,
}

impl fmt::Display for CredentialError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "get credentials of {}: {}; {}", self.of, self.tried.join("; "), self.hint)
    }
}

impl std::error::Error for CredentialError {}
