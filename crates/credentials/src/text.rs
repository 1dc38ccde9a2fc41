//! Small codings that token endpoints want: forms, base64url, hexadecimal, instants.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt::Write as _;
use tokrate_core::{Span, parse_rfc3339};

/// A form's body.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| format!("{}={}", escaped(name, b""), escaped(value, b""));
    fields.iter().map(field).collect::<Vec<String>>().join("&")
}

/// Percent-encoded as RFC 3986 has it, but for the unreserved letters and those that are named.
pub(crate) fn escaped(text: &str, kept: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a text takes everything");
        }
    }
    out
}

pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a text takes everything");
        out
    })
}

/// An instant in RFC 3339 as seconds since 1970; older caches of AWS's command line end in `UTC`.
pub(crate) fn read_instant(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_suffix("UTC").map_or_else(|| text.to_owned(), |date| format!("{date}Z"));
    u64::try_from(parse_rfc3339(&text)?).ok().map(|milliseconds| milliseconds / 1000)
}

/// How long something is good for that expires at an instant. Nothing is left where that has passed, by this machine's clock.
pub(crate) fn lifetime_until(expires: &str, now_seconds: u64) -> Result<Span, String> {
    let at = read_instant(expires).ok_or("it names no time of expiry that could be read")?;
    match at.checked_sub(now_seconds) {
        Some(left) if left > 0 => Ok(Span::from_secs(left)),
        _ => Err(format!("what it gave expired at {expires}; if that has not passed, this machine's clock is wrong")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_seconds_since_1970() {
        assert_eq!(read_instant("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(read_instant("2000-03-01T00:00:00Z"), Some(951_868_800));
        assert_eq!(read_instant("2026-11-26T03:20:03.123Z"), Some(1_795_663_203));
        assert_eq!(read_instant("2026-11-26T03:20:03+00:00"), Some(1_795_663_203));
        for wrong in ["", "2026-11-26", "2026-11-26T03:20", "2026-13-26T03:20:03Z", "20a6-11-26T03:20:03Z"] {
            assert_eq!(read_instant(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_time_that_has_passed_blames_the_clock_too() {
        let error = lifetime_until("1970-01-01T00:01:00Z", 61).expect_err("passed");
        assert!(error.contains("clock is wrong"), "{error}");
        assert_eq!(lifetime_until("1970-01-01T00:01:00Z", 50), Ok(Span::from_secs(10)));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}", date in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z") {
            let _ = (read_instant(&text), read_instant(&date));
            let _ = escaped(&text, b"/");
        }
    }
}
