//! Masks the secrets of a request in what a server returns. Secrets are the values of headers that are marked sensitive.
//!
//! Invariant: output contains no secret, whether plain, in JSON escapes (`\u002d`, `\/`, also JSON within JSON) or percent-encoded
//! (`%2D`); and no message ends with the beginning of one, where long messages are cut.

mod base64;
mod escapes;
mod redactor;

pub use redactor::Redactor;

use escapes::SecretPattern;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Shorter beginnings of a key at a cut are not masked: they reveal nothing.
const MIN_CUT_BYTES: usize = 3;
/// Shorter values are not treated as secrets: masking them would garble messages (bytes).
const MIN_SECRET_BYTES: usize = 6;
/// Shorter keys are not masked in bodies (bytes): placeholders such as `ollama` or `not-needed` occur in answers. Keys of hosted
/// providers have 32 bytes and more.
const MIN_BODY_SECRET_BYTES: usize = 16;
/// Schemes before a key in a header value, which are not secret.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "key", "apikey", "api-key"];
/// Headers whose values are keys, besides those with one of [`KEY_WORDS`] in their name.
const KEY_HEADERS: [&str; 2] = ["cookie", "proxy-authorization"];
const KEY_WORDS: [&str; 4] = ["auth", "key", "token", "secret"];
/// Replaces a secret.
pub(crate) const MASK: &[u8] = b"***";

/// Values that must not be shown. They print as `***`. Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Patterns>);

#[derive(Default)]
struct Patterns {
    /// Longest first, so that a secret is matched before one that it contains.
    all: Vec<SecretPattern>,
    /// Those that are masked in bodies.
    in_bodies: Vec<SecretPattern>,
}

impl Secrets {
    /// The values of headers that are marked sensitive, without `Bearer` and the like; of `Basic` also the password.
    pub fn of(headers: &HeaderMap) -> Secrets {
        let (mut all, mut in_bodies) = (Vec::new(), Vec::new());
        for (name, value) in headers.iter().filter(|(_, value)| value.is_sensitive()) {
            for secret in secrets_in(value.as_bytes()) {
                if secret.len() >= MIN_BODY_SECRET_BYTES && is_key_header(name) {
                    in_bodies.push(secret.clone());
                }
                if secret.len() >= MIN_SECRET_BYTES {
                    all.push(secret);
                }
            }
        }
        Secrets(Arc::new(Patterns { all: patterns(all), in_bodies: patterns(in_bodies) }))
    }

    /// These and others.
    #[must_use]
    pub fn with(&self, others: &Secrets) -> Secrets {
        if self.0.all.is_empty() {
            return others.clone();
        }
        let join = |own: &[SecretPattern], others: &[SecretPattern]| longest_first([own, others].concat());
        let all = join(&self.0.all, &others.0.all);
        Secrets(Arc::new(Patterns { all, in_bodies: join(&self.0.in_bodies, &others.0.in_bodies) }))
    }

    /// Masks all secrets in a text, and the beginning of one at its end.
    pub fn redacted(&self, text: String) -> String {
        let text = match escapes::mask_all(text.as_bytes(), &self.0.all) {
            // Whole characters were replaced by whole characters.
            Some(masked) => String::from_utf8_lossy(&masked).into_owned(),
            None => text,
        };
        let whole = text.trim_end_matches('…');
        match escapes::cut_match(whole.as_bytes(), &self.0.all, MIN_CUT_BYTES) {
            Some(at) => format!("{}***…", &whole[..at]),
            None => text,
        }
    }

    /// Puts `*` in the place of every byte of a secret of bodies, so that nothing moves; how many bytes at the end may be the beginning of
    /// one.
    pub fn mask_in_place(&self, bytes: &mut [u8]) -> usize {
        for pattern in &self.0.in_bodies {
            // A key of asterisks alone is found again where it was masked.
            let mut from = 0;
            while let Some(found) = pattern.find(&bytes[from..]) {
                let end = from + found.end;
                bytes[from + found.start..end].fill(b'*');
                from = end;
            }
        }
        escapes::cut_match(bytes, &self.0.in_bodies, 0).map_or(0, |at| bytes.len() - at)
    }

    /// Masks all secrets in a header value.
    pub fn redacted_header<'v>(&self, value: &'v HeaderValue) -> Cow<'v, HeaderValue> {
        match escapes::mask_all(value.as_bytes(), &self.0.all) {
            Some(masked) => {
                // A valid value stays valid with `***` in it.
                Cow::Owned(HeaderValue::from_bytes(&masked).unwrap_or_else(|_| HeaderValue::from_static("***")))
            }
            None => Cow::Borrowed(value),
        }
    }
}

/// Longest first, without duplicates.
fn patterns(mut secrets: Vec<Vec<u8>>) -> Vec<SecretPattern> {
    secrets.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    secrets.dedup();
    secrets.into_iter().map(SecretPattern::new).collect()
}

fn longest_first(mut patterns: Vec<SecretPattern>) -> Vec<SecretPattern> {
    patterns.sort_by_key(|pattern| std::cmp::Reverse(pattern.bytes()));
    patterns
}

/// The secret parts of a header value.
fn secrets_in(value: &[u8]) -> Vec<Vec<u8>> {
    let value = value.trim_ascii();
    let Some(space) = value.iter().position(|&byte| byte == b' ') else { return vec![value.to_vec()] };
    let (scheme, rest) = (&value[..space], value[space..].trim_ascii());
    if !SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known.as_bytes())) {
        return vec![value.to_vec(), rest.rsplit(|&byte| byte == b' ').next().unwrap_or(rest).to_vec()];
    }
    let mut secrets = vec![rest.to_vec()];
    if scheme.eq_ignore_ascii_case(b"basic")
        && let Some(pair) = base64::decode(rest)
        && let Some(colon) = pair.iter().position(|&byte| byte == b':')
    {
        secrets.push(pair[colon + 1..].to_vec());
    }
    secrets
}

/// Whether a header of that name holds a key. Other sensitive headers may hold anything that a user configured, such as the
/// URL of a site, which answers may mention.
fn is_key_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    KEY_HEADERS.contains(&name) || KEY_WORDS.iter().any(|word| name.contains(word))
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests;
