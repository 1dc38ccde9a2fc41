//! API keys of clients.
//!
//! Invariant: a key is never printed, and comparison time does not depend on where two keys differ.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::fmt;

/// Headers with a key, besides `Authorization: Bearer`: Anthropic's, Google's, Azure's.
const KEY_HEADERS: [&str; 3] = ["x-api-key", "x-goog-api-key", "api-key"];

/// A key that clients must present. Prints as `***`.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// A key from its text.
    pub fn new(key: String) -> ApiKey {
        ApiKey(key)
    }

    /// Constant-time comparison.
    pub fn matches(&self, shown: &[u8]) -> bool {
        let differing = shown.iter().zip(self.0.as_bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
        shown.len() == self.0.len() && std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// All keys in the headers.
pub fn presented_keys(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let bearer = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let bearer = bearer.map(|value| value.strip_prefix(b"Bearer ").unwrap_or(value));
    bearer.into_iter().chain(KEY_HEADERS.iter().filter_map(|name| Some(headers.get(*name)?.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_recognised_and_never_printed() {
        let key = ApiKey::new("abc".to_owned());
        assert!(key.matches(b"abc"));
        for wrong in ["abd", "ab", "abcd", ""] {
            assert!(!key.matches(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "***");
    }
}
