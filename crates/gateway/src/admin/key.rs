//! The key of the admin side, as those who look after the gateway show it.
//!
//! It refuses to keep keys: one is known by its hash. Invariant: how long the comparison takes says nothing of the key.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

/// Longest header that is looked at (bytes).
const HEADER_BYTES_MOST: usize = 2_048;

/// Whether a request shows the key of that hash: as `Authorization: Bearer`, or as the password of `Basic` with any user name,
/// as browsers do.
pub(super) fn is_shown(headers: &HeaderMap, key: &[u8; 32]) -> bool {
    shown(headers).is_some_and(|shown| same(&Sha256::digest(shown).into(), key))
}

fn shown(headers: &HeaderMap) -> Option<Vec<u8>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    // Of two, nobody knows which one is meant.
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let value = Some(value.as_bytes()).filter(|value| value.len() <= HEADER_BYTES_MOST)?;
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, said) = (&value[..at], value[at..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(said.to_vec());
    }
    let pair = scheme.eq_ignore_ascii_case(b"basic").then(|| from_base64(said))??;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

/// Compares all of it, wherever it differs.
fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other));
    std::hint::black_box(differs) == 0
}

/// The bytes of a text in base64, with or without its padding; `None` for what is none.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let (mut out, mut held, mut bits) = (Vec::with_capacity(digits.len() * 3 / 4), 0u32, 0);
    for byte in digits {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (held, bits) = (held << 6 | u32::from(digit), bits + 6);
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let value = |value: &&str| (AUTHORIZATION, HeaderValue::from_str(value).expect("a value"));
        values.iter().map(value).collect()
    }

    #[test]
    fn the_key_opens_as_a_token_and_as_a_password_and_nothing_else_does() {
        let key: [u8; 32] = Sha256::digest("open sesame:1").into();
        let opens = |values: &[&str]| is_shown(&headers(values), &key);
        // `anybody:open sesame:1`, `:open sesame:1`
        for good in [
            "Bearer open sesame:1",
            "bearer  open sesame:1",
            "Basic YW55Ym9keTpvcGVuIHNlc2FtZTox",
            "basic Om9wZW4gc2VzYW1lOjE=",
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

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        #[test]
        fn what_was_written_in_base64_is_read_and_anything_else_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let mut text = Vec::new();
            for group in bytes.chunks(3) {
                let word = group.iter().chain(&[0, 0]).take(3).fold(0u32, |word, byte| word << 8 | u32::from(*byte));
                for place in 0..4 {
                    let digit = DIGITS[(word >> (18 - 6 * place)) as usize & 63];
                    text.push(if place <= group.len() { digit } else { b'=' });
                }
            }
            prop_assert_eq!(from_base64(&text), Some(bytes.clone()));
            let _ = from_base64(&bytes);
        }
    }
}
