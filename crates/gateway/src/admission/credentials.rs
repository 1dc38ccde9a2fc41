//! Authenticates a client by its key, and says what the key may use.
//!
//! Invariant: keys are looked up by their hash and never kept; if keys are configured, only `/healthz` responds without
//! one.

use crate::admission::estimate::limit_exceeded;
use crate::respond::error::ErrorResponse;
use crate::settle::account::AdmittedKey;
use crate::state::lock::locked;
use crate::state::plan::{Key, Plan};
use crate::state::shared::Shared;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokrate_route::ReservationRequest;

/// Longest key that is hashed (bytes), to bound the work for a hostile header.
const MAX_KEY_BYTES: usize = 512;

/// The key that a client presented; `None` if no keys are configured.
pub(crate) struct Credentials(Option<Arc<Key>>);

impl Credentials {
    /// Reads `Authorization: Bearer`, `x-api-key`, `api-key` or `x-goog-api-key`; of a WebSocket also what browsers send in their place.
    pub fn of(plan: &Plan, head: &Parts) -> Result<Credentials, ErrorResponse> {
        if plan.keys.is_empty() {
            return Ok(Credentials(None));
        }
        let unauthorised = |message| ErrorResponse::new(StatusCode::UNAUTHORIZED, message);
        let Some(key) = presented_key(&head.headers).or_else(|| key_of_query(&head.uri)) else {
            return Err(unauthorised(
                "missing API key; send a key of this gateway as `Authorization: Bearer KEY` or `x-api-key: KEY`",
            ));
        };
        let hash: [u8; 32] = Sha256::digest(key).into();
        // An attacker cannot steer the hash byte by byte, so the time of the look-up reveals nothing.
        match plan.keys.get(&hash) {
            Some(key) => Ok(Credentials(Some(Arc::clone(key)))),
            None => Err(unauthorised("unknown API key")),
        }
    }

    /// The key.
    pub fn key(&self) -> Option<&Arc<Key>> {
        self.0.as_ref()
    }

    /// Whether the client presented a key.
    pub fn is_authenticated(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the client may use an alias.
    pub fn allows_alias(&self, alias: &str) -> bool {
        self.0.as_ref().is_none_or(|key| key.config.allows_alias(alias))
    }

    /// Refuses an alias that the client may not use.
    pub fn check_alias(&self, alias: &str) -> Result<(), ErrorResponse> {
        match self.allows_alias(alias) {
            true => Ok(()),
            false => Err(ErrorResponse::new(StatusCode::FORBIDDEN, format!("this key may not use `{alias}`"))),
        }
    }

    /// Counts a call against the key's limits, before any of its body is read.
    pub fn admit_call(&self, shared: &Shared) -> Result<Option<AdmittedKey>, ErrorResponse> {
        let Some(key) = &self.0 else { return Ok(None) };
        let admitted = locked(&key.meter).admit(shared.clock.now());
        match admitted {
            Ok(admitted) => Ok(Some(AdmittedKey::new(Arc::clone(key), admitted))),
            Err(refused) => {
                Err(limit_exceeded(key, refused, ReservationRequest::default(), shared.clock.wall_seconds()))
            }
        }
    }
}

/// What browsers, which cannot set headers of a WebSocket, put before a key among its subprotocols.
pub(crate) const KEY_PROTOCOL: &str = "openai-insecure-api-key.";

fn key_of_protocol(headers: &HeaderMap) -> Option<&[u8]> {
    let offered =
        headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    offered.map(<[u8]>::trim_ascii).find_map(|protocol| protocol.strip_prefix(KEY_PROTOCOL.as_bytes()))
}

/// The key in the query of a session of Gemini's, as Google's SDKs send it; no other path takes one there, where logs of proxies show it.
fn key_of_query(uri: &Uri) -> Option<&[u8]> {
    let query = uri.query().filter(|_| uri.path().trim_start_matches('/').starts_with("ws/"))?;
    let key = query.split('&').find_map(|pair| pair.strip_prefix("key="))?.as_bytes();
    (!key.is_empty() && key.len() <= MAX_KEY_BYTES).then_some(key)
}

fn presented_key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(key.trim_ascii())
    });
    let named = || ["x-api-key", "api-key", "x-goog-api-key"].iter().find_map(|name| headers.get(*name));
    let key = bearer.or_else(|| named().map(|value| value.as_bytes())).or_else(|| key_of_protocol(headers))?;
    (!key.is_empty() && key.len() <= MAX_KEY_BYTES).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_key_stands_in_the_query_of_geminis_sessions_only() {
        let key_of = |uri: &'static str| {
            let uri = Uri::from_static(uri);
            key_of_query(&uri).map(<[u8]>::to_vec)
        };
        assert_eq!(key_of("/ws/google.ai.X?alt=ws&key=abc").as_deref(), Some(&b"abc"[..]));
        assert_eq!(key_of("//ws/google.ai.X?key=abc").as_deref(), Some(&b"abc"[..]));
        for none in ["/ws/x?key=", "/ws/x", "/v1/realtime?key=abc", "/v1beta/models?key=abc", "/ws/x?monkey=abc"] {
            assert_eq!(key_of(none), None, "{none}");
        }
    }

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
        let browser = "realtime, openai-insecure-api-key.abc , openai-beta.realtime-v1";
        assert_eq!(key_of("sec-websocket-protocol", browser).as_deref(), Some(&b"abc"[..]));
        assert_eq!(key_of("sec-websocket-protocol", "realtime"), None);
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
