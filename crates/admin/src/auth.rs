//! Checks the admin key.
//!
//! Invariant: the key is known by its hash only, and the time of the comparison reveals nothing.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

/// Longest header that is decoded (bytes), to bound the work for a hostile one.
const MAX_HEADER_BYTES: usize = 2_048;

/// Some clients omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Whether a request carries the key with that hash: as `Authorization: Bearer`, or as the password of `Basic` with any
/// user name, as browsers send it.
pub(super) fn is_authorized(headers: &HeaderMap, key: &[u8; 32]) -> bool {
    presented_key(headers).is_some_and(|presented_key| constant_time_eq(&Sha256::digest(presented_key).into(), key))
}

fn presented_key(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    // Two such headers are ambiguous.
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let value = Some(value.as_bytes()).filter(|value| value.len() <= MAX_HEADER_BYTES)?;
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, credentials) = (&value[..at], value[at..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(credentials.to_vec());
    }
    let pair = scheme.eq_ignore_ascii_case(b"basic").then(|| BASE64.decode(credentials).ok())??;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// Compares every byte, wherever the first difference is.
fn constant_time_eq(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other));
    std::hint::black_box(differs) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(values: &[&str]) -> HeaderMap {
        let value = |value: &&str| (AUTHORIZATION, HeaderValue::from_str(value).expect("a value"));
        values.iter().map(value).collect()
    }

    #[test]
    fn the_key_works_as_a_bearer_token_and_as_a_password_only() {
        let key: [u8; 32] = Sha256::digest("open sesame:1").into();
        let opens = |values: &[&str]| is_authorized(&headers(values), &key);
        // `anybody:open sesame:1`, `:open sesame:1`
        for good in [
            "Bearer open sesame:1",
            "bearer  open sesame:1",
            "Basic YW55Ym9keTpvcGVuIHNlc2FtZTox",
            "basic Om9wZW4gc2VzYW1lOjE=",
            "basic Om9wZW4gc2VzYW1lOjE",
        ] {
            assert!(opens(&[good]), "{good}");
        }
        for bad in [
            "Bearer open sesame:2",
            "Bearer",
            "Bearer ",
            "open sesame:1",
            "Basic b3BlbiBzZXNhbWU6MQ==",
            "Basic ",
            "Basic ====",
            "Digest open sesame:1",
        ] {
            assert!(!opens(&[bad]), "{bad}");
        }
        assert!(!opens(&[]));
        assert!(!opens(&["Bearer open sesame:1", "Bearer open sesame:1"]), "said twice");
    }
}
