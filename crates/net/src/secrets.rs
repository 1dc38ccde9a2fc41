//! What of a request may never be shown, taken out of what a server says.
//!
//! It refuses to know where keys come from: headers that are marked sensitive hold them. Invariant: no text that went through
//! holds one, nor the beginning of one at its end, where long messages are cut.

use http::HeaderMap;
use std::fmt;

/// A shorter beginning of a key tells nothing.
const PART_LEAST: usize = 3;
/// Shorter values are no keys, and replacing them would garble messages (bytes).
const VALUE_LEAST: usize = 6;

/// Values that may never be shown. They print as `***`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// The values of headers that are marked sensitive, whole and without `Bearer`.
    pub fn of(headers: &HeaderMap) -> Secrets {
        let sensitive = headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
        let mut secrets: Vec<String> =
            sensitive.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]).map(str::to_owned).collect();
        secrets.retain(|secret| secret.len() >= VALUE_LEAST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Secrets(secrets)
    }

    /// The text with `***` for each of them, and for the beginning of one at its end.
    pub fn redacted(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            let text = if text.contains(secret) { text.replace(secret, "***") } else { text };
            let whole = text.trim_end_matches('…');
            let cut = (PART_LEAST..secret.len())
                .rev()
                .find(|&length| secret.get(..length).is_some_and(|part| whole.ends_with(part)));
            match cut {
                Some(length) => format!("{}***…", &whole[..whole.len() - length]),
                None => text,
            }
        })
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_key_that_a_server_echoes_is_not_kept() {
        let mut headers = HeaderMap::new();
        let mut key = HeaderValue::from_static("Bearer sk-very-secret");
        key.set_sensitive(true);
        headers.insert(http::header::AUTHORIZATION, key);
        headers.insert(http::header::ACCEPT, HeaderValue::from_static("text/plain"));
        let secrets = Secrets::of(&headers);
        let redacted = |text: &str| secrets.redacted(text.to_owned());
        assert_eq!(
            redacted("wrong key sk-very-secret (Bearer sk-very-secret), text/plain"),
            "wrong key *** (***), text/plain"
        );
        assert_eq!(redacted("wrong key sk-very…"), "wrong key ***…");
        assert_eq!(redacted("nothing here…"), "nothing here…");
        assert_eq!(format!("{secrets:?}"), "***");
    }
}
