//! Who asks, and what they may use.
//!
//! It refuses to keep keys: a key is hashed at once, and found by its hash. Invariant: with keys configured, nothing but
//! `/healthz` answers without one.

use crate::admission::estimate::limit_exceeded;
use crate::respond::error::ErrorResponse;
use crate::settle::account::AdmittedKey;
use crate::state::lock::locked;
use crate::state::plan::{Key, Plan};
use crate::state::shared::Shared;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokrate_route::Need;

/// Longest key that is hashed (bytes).
const MAX_KEY_BYTES: usize = 512;

/// What a client showed.
pub(crate) struct Credentials(Option<Arc<Key>>);

impl Credentials {
    /// Looks for a key: `Authorization: Bearer`, `x-api-key`, `api-key` or `x-goog-api-key`.
    pub fn of(plan: &Plan, head: &Parts) -> Result<Credentials, ErrorResponse> {
        if plan.keys.is_empty() {
            return Ok(Credentials(None));
        }
        let unauthorised = |message| ErrorResponse::new(StatusCode::UNAUTHORIZED, message);
        let Some(key) = presented_key(&head.headers) else {
            return Err(unauthorised("show a key of this gateway as `Authorization: Bearer KEY` or `x-api-key: KEY`"));
        };
        let hash: [u8; 32] = Sha256::digest(key).into();
        // Found by its hash, which an attacker cannot steer byte by byte; so the look-up's time tells nothing.
        match plan.keys.get(&hash) {
            Some(key) => Ok(Credentials(Some(Arc::clone(key)))),
            None => Err(unauthorised("this key is not known here")),
        }
    }

    /// Whether it was a key.
    pub fn is_authenticated(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a name may be asked for.
    pub fn allows_alias(&self, alias: &str) -> bool {
        let Some(key) = &self.0 else { return true };
        key.config.aliases.is_empty() || key.config.aliases.iter().any(|allowed| allowed == alias)
    }

    /// Refuses a name that may not be asked for.
    pub fn check_alias(&self, alias: &str) -> Result<(), ErrorResponse> {
        match self.allows_alias(alias) {
            true => Ok(()),
            false => Err(ErrorResponse::new(StatusCode::FORBIDDEN, format!("this key may not ask for `{alias}`"))),
        }
    }

    /// Counts a call against what its key may do at all, before anything of it is read but its head.
    pub fn admit_call(&self, shared: &Shared) -> Result<Option<AdmittedKey>, ErrorResponse> {
        let Some(key) = &self.0 else { return Ok(None) };
        let admitted = locked(&key.meter).admit(shared.clock.now());
        match admitted {
            Ok(admitted) => Ok(Some(AdmittedKey::new(Arc::clone(key), admitted))),
            Err(refused) => Err(limit_exceeded(key, refused, Need::default(), shared.clock.wall_seconds())),
        }
    }
}

fn presented_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(key.trim_ascii())
    });
    let named = || ["x-api-key", "api-key", "x-goog-api-key"].iter().find_map(|name| headers.get(*name));
    let key = bearer.or_else(|| named().map(|value| value.as_bytes()))?;
    (!key.is_empty() && key.len() <= MAX_KEY_BYTES).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_key_is_found_in_any_of_its_headers() {
        let key_of = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            presented_key(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(key_of("authorization", "Bearer abc").as_deref(), Some(&b"abc"[..]));
        assert_eq!(key_of("authorization", "bearer  abc ").as_deref(), Some(&b"abc"[..]));
        assert_eq!(key_of("x-api-key", "abc").as_deref(), Some(&b"abc"[..]));
        for (name, value) in
            [("authorization", "Basic abc"), ("authorization", "Bearer "), ("cookie", "abc"), ("x-api-key", "")]
        {
            assert_eq!(key_of(name, value), None, "{name}: {value}");
        }
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_str(&long[1..]).expect("a value"));
        assert!(presented_key(&headers).is_some());
        headers.insert("x-api-key", HeaderValue::from_str(&long).expect("a value"));
        assert_eq!(presented_key(&headers), None);
    }
}
