//! What of a request may never be shown, taken out of what a server says.
//!
//! It refuses to know where keys come from: headers that are marked sensitive hold them. Invariant: nothing that went through
//! holds one as it is written plainly, in JSON (`\u002d`, `\/`, also JSON within JSON) or in a URL (`%2D`); and no message ends
//! with the beginning of one, where long messages are cut.

mod base64;
mod redactor;
mod spelling;

pub use redactor::Redactor;

use http::{HeaderMap, HeaderName, HeaderValue};
use spelling::Needle;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A shorter beginning of a key tells nothing.
const PART_LEAST: usize = 3;
/// Shorter values are no keys, and replacing them would garble messages (bytes).
const VALUE_LEAST: usize = 6;
/// In the body of an answer only longer keys are looked for (bytes): `ollama` or `not-needed`, which stand for a key where none
/// is needed, are words of answers too. Keys of hosted providers have 32 and more.
const BODY_LEAST: usize = 16;
/// Schemes that stand before a key in a header's value, and are no secret.
const SCHEMES: [&str; 6] = ["bearer", "basic", "token", "key", "apikey", "api-key"];
/// Names of headers whose values are keys, besides those that hold one of [`KEY_WORDS`].
const KEY_HEADERS: [&str; 2] = ["cookie", "proxy-authorization"];
const KEY_WORDS: [&str; 4] = ["auth", "key", "token", "secret"];
/// What stands in the place of a key.
pub(crate) const MASK: &[u8] = b"***";

/// Values that may never be shown. They print as `***`. A copy costs nothing.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Kept>);

#[derive(Default)]
struct Kept {
    /// The longest first, so that none is taken for one that it holds.
    all: Vec<Needle>,
    /// Those that are looked for in bodies.
    in_bodies: Vec<Needle>,
}

impl Secrets {
    /// The values of headers that are marked sensitive, without `Bearer` and the like; of `Basic` also the password.
    pub fn of(headers: &HeaderMap) -> Secrets {
        let (mut all, mut in_bodies) = (Vec::new(), Vec::new());
        for (name, value) in headers.iter().filter(|(_, value)| value.is_sensitive()) {
            for secret in secrets_in(value.as_bytes()) {
                if secret.len() >= BODY_LEAST && is_key_header(name) {
                    in_bodies.push(secret.clone());
                }
                if secret.len() >= VALUE_LEAST {
                    all.push(secret);
                }
            }
        }
        Secrets(Arc::new(Kept { all: needles(all), in_bodies: needles(in_bodies) }))
    }

    /// The text with `***` for each of them, and for the beginning of one at its end.
    pub fn redacted(&self, text: String) -> String {
        let text = match spelling::masked(text.as_bytes(), &self.0.all) {
            // Whole characters were taken out and put in.
            Some(masked) => String::from_utf8_lossy(&masked).into_owned(),
            None => text,
        };
        let whole = text.trim_end_matches('…');
        match spelling::beginning(whole.as_bytes(), &self.0.all, PART_LEAST) {
            Some(at) => format!("{}***…", &whole[..at]),
            None => text,
        }
    }

    /// A header's value with `***` for each of them.
    pub fn redacted_header<'v>(&self, value: &'v HeaderValue) -> Cow<'v, HeaderValue> {
        match spelling::masked(value.as_bytes(), &self.0.all) {
            Some(masked) => {
                // What was a value before is one without some of its bytes.
                Cow::Owned(HeaderValue::from_bytes(&masked).unwrap_or_else(|_| HeaderValue::from_static("***")))
            }
            None => Cow::Borrowed(value),
        }
    }
}

/// The longest first, each once.
fn needles(mut secrets: Vec<Vec<u8>>) -> Vec<Needle> {
    secrets.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
    secrets.dedup();
    secrets.into_iter().map(Needle::new).collect()
}

/// What of a header's value is secret.
fn secrets_in(value: &[u8]) -> Vec<Vec<u8>> {
    let value = value.trim_ascii();
    let Some(space) = value.iter().position(|&byte| byte == b' ') else { return vec![value.to_vec()] };
    let (scheme, rest) = (&value[..space], value[space..].trim_ascii());
    if !SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known.as_bytes())) {
        return vec![value.to_vec(), rest.rsplit(|&byte| byte == b' ').next().unwrap_or(rest).to_vec()];
    }
    let mut secrets = vec![rest.to_vec()];
    if scheme.eq_ignore_ascii_case(b"basic")
        && let Some(pair) = base64::decoded(rest)
        && let Some(colon) = pair.iter().position(|&byte| byte == b':')
    {
        secrets.push(pair[colon + 1..].to_vec());
    }
    secrets
}

/// Whether what stands in a header of that name is a key. Others may hold anything that a user configured, such as the
/// address of a site, which answers may well mention.
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
