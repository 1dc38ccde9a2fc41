//! Why there is no credential. Invariant: it names each source that was tried and never holds what was found there.

use std::fmt;
use tokrate_net::AuthorizeError;

/// Why there is no credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CredentialError {
    /// Whose.
    pub(crate) of: &'static str,
    /// Each source that was tried, and why it gave none.
    pub(crate) tried: Vec<String>,
    /// What to do.
    pub(crate) hint: &'static str,
    /// Whether a service that was asked was out of reach or failed.
    pub(crate) is_temporary: bool,
}

impl fmt::Display for CredentialError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "get credentials of {}: {}; {}", self.of, self.tried.join("; "), self.hint)
    }
}

impl std::error::Error for CredentialError {}

impl From<&CredentialError> for AuthorizeError {
    fn from(error: &CredentialError) -> AuthorizeError {
        AuthorizeError { detail: error.to_string(), is_temporary: error.is_temporary }
    }
}
