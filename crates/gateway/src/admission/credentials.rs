//! Who asks, and what they may use.
//!
//! It refuses to keep keys: a key is hashed at once, and found by its hash. Invariant: with keys configured, nothing but
//! `/healthz` answers without one.

use crate::admission::estimate::denied;
use crate::respond::error::Denied;
use crate::settle::account::KeyUse;
use crate::state::lock::locked;
use crate::state::plan::{Key, Plan};
use crate::state::shared::House;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokrate_route::Need;

/// Longest key that is hashed (bytes).
const KEY_BYTES_MOST: usize = 512;

/// What a client showed.
pub(crate) struct Shown(Option<Arc<Key>>);

impl Shown {
    /// Looks for a key: `Authorization: Bearer`, `x-api-key`, `api-key` or `x-goog-api-key`.
    pub fn of(plan: &Plan, head: &Parts) -> Result<Shown, Denied> {
        if plan.keys.is_empty() {
            return Ok(Shown(None));
        }
        let unauthorised = |said| Denied::new(StatusCode::UNAUTHORIZED, said);
        let Some(key) = key_in(&head.headers) else {
            return Err(unauthorised("show a key of this gateway as `Authorization: Bearer KEY` or `x-api-key: KEY`"));
        };
        let hash: [u8; 32] = Sha256::digest(key).into();
        // Found by its hash, which an attacker cannot steer byte by byte; so the look-up's time tells nothing.
        match plan.keys.get(&hash) {
            Some(key) => Ok(Shown(Some(Arc::clone(key)))),
            None => Err(unauthorised("this key is not known here")),
        }
    }

    /// Whether it was a key.
    pub fn is_key(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a name may be asked for.
    pub fn may_ask(&self, alias: &str) -> bool {
        let Some(key) = &self.0 else { return true };
        key.config.aliases.is_empty() || key.config.aliases.iter().any(|allowed| allowed == alias)
    }

    /// Refuses a name that may not be asked for.
    pub fn check_alias(&self, alias: &str) -> Result<(), Denied> {
        match self.may_ask(alias) {
            true => Ok(()),
            false => Err(Denied::new(StatusCode::FORBIDDEN, format!("this key may not ask for `{alias}`"))),
        }
    }

    /// Counts a call against what its key may do at all, before anything of it is read but its head.
    pub fn enter(&self, house: &House) -> Result<Option<KeyUse>, Denied> {
        let Some(key) = &self.0 else { return Ok(None) };
        let admitted = locked(&key.meter).admit(house.clock.now());
        match admitted {
            Ok(admitted) => Ok(Some(KeyUse::new(Arc::clone(key), admitted))),
            Err(refused) => Err(denied(key, refused, Need::default(), house.clock.wall_seconds())),
        }
    }
}

fn key_in(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(key.trim_ascii())
    });
    let named = || ["x-api-key", "api-key", "x-goog-api-key"].iter().find_map(|name| headers.get(*name));
    let key = bearer.or_else(|| named().map(|value| value.as_bytes()))?;
    (!key.is_empty() && key.len() <= KEY_BYTES_MOST).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_key_is_found_in_any_of_its_headers() {
        let shown = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            key_in(&headers).map(<[u8]>::to_vec)
        };
        assert_eq!(shown("authorization", "Bearer abc").as_deref(), Some(&b"abc"[..]));
        assert_eq!(shown("authorization", "bearer  abc ").as_deref(), Some(&b"abc"[..]));
        assert_eq!(shown("x-api-key", "abc").as_deref(), Some(&b"abc"[..]));
        for (name, value) in
            [("authorization", "Basic abc"), ("authorization", "Bearer "), ("cookie", "abc"), ("x-api-key", "")]
        {
            assert_eq!(shown(name, value), None, "{name}: {value}");
        }
        let long = "k".repeat(KEY_BYTES_MOST + 1);
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_str(&long[1..]).expect("a value"));
        assert!(key_in(&headers).is_some());
        headers.insert("x-api-key", HeaderValue::from_str(&long).expect("a value"));
        assert_eq!(key_in(&headers), None);
    }
}
