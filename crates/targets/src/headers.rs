//! The headers of every request to an endpoint: its own, the key's, and those that a user has set.
//!
//! Invariant: a value that may be a key is marked sensitive, so that it is never printed.

use crate::error::TargetError;
use crate::key::Secret;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt;
use tokrate_catalog::Auth;
use tokrate_wire::{Dialect, KeyHeader};

/// Why a header cannot be sent. It names the header, never its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// This is no name of a header.
    Name(String),
    /// The header of this name has a value that no header can carry.
    Value(String),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Name(name) => write!(formatter, "`{name}` is no name of a header"),
            HeaderError::Value(name) => write!(formatter, "the value of header {name} cannot be sent"),
        }
    }
}

impl std::error::Error for HeaderError {}

/// A header that a user has set; as it may carry a key, its value is marked sensitive.
///
/// # Errors
/// When the name or the value is none.
pub fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), HeaderError> {
    let parsed = HeaderName::try_from(name).map_err(|_| HeaderError::Name(name.to_owned()))?;
    let mut value = HeaderValue::from_str(value).map_err(|_| HeaderError::Value(name.to_owned()))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// The header that carries a key.
///
/// # Errors
/// When no header can carry it.
pub fn key_header(auth: Auth, key: &Secret) -> Result<(HeaderName, HeaderValue), TargetError> {
    let (name, text) = match auth {
        Auth::Header(name) => (HeaderName::from_static(name), key.reveal().to_owned()),
        Auth::Bearer | Auth::None => (http::header::AUTHORIZATION, format!("Bearer {}", key.reveal())),
    };
    let mut value = HeaderValue::from_str(&text).map_err(TargetError::KeyHeader)?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// How the makers of a dialect expect the key, for an address of which nothing else is known.
pub(crate) fn usual_auth(dialect: Dialect) -> Auth {
    match dialect.key_header() {
        KeyHeader::Bearer => Auth::Bearer,
        KeyHeader::Named(name) => Auth::Header(name),
    }
}

/// All headers of an endpoint. One that the user has set replaces the endpoint's own and the key's of its name; one that they have set
/// twice is sent twice.
pub(crate) fn all(
    auth: Auth,
    own: &[(&'static str, &'static str)],
    key: Option<&Secret>,
    set: &[(HeaderName, HeaderValue)],
) -> Result<HeaderMap, TargetError> {
    let mut headers = HeaderMap::new();
    for (name, value) in own {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    if let Some(key) = key {
        let (name, value) = key_header(auth, key)?;
        headers.insert(name, value);
    }
    for (index, (name, value)) in set.iter().enumerate() {
        if set[..index].iter().any(|(earlier, _)| earlier == name) {
            headers.append(name, value.clone());
        } else {
            headers.insert(name, value.clone());
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_reference::KeyReference;

    #[test]
    fn headers_that_were_set_win_over_the_key_and_the_endpoints_own() {
        let key = KeyReference::Variable("KEY".to_owned()).fetch(&|_| Some("sk-1".to_owned())).expect("a key");
        let own = [("x-version", "1"), ("x-own", "2")];
        let set = [("X-Version", "3"), ("x-api-key", "mine"), ("x-more", "4"), ("x-more", "5")];
        let set = set.map(|(name, value)| header(name, value).expect("a header"));
        let all = all(Auth::Header("x-api-key"), &own, Some(&key), &set).expect("headers");
        let shown: Vec<_> = all.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
        let expected = [("x-version", "3"), ("x-own", "2"), ("x-api-key", "mine"), ("x-more", "4"), ("x-more", "5")];
        assert_eq!(shown, expected);
        let sensitive = all.iter().filter(|(_, value)| value.is_sensitive()).count();
        assert_eq!(sensitive, 4, "all but the endpoint's own");
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_named_and_its_value_is_not_shown() {
        assert_eq!(header("a b", "sk-1").expect_err("a space").to_string(), "`a b` is no name of a header");
        let error = header("X-Key", "sk-\n1").expect_err("a line break").to_string();
        assert_eq!(error, "the value of header X-Key cannot be sent");
    }
}
