//! Secrets that servers echo, in every escape and split anywhere.

use super::*;
use bytes::Bytes;
use http::header::{AUTHORIZATION, REFERER};
use proptest::prelude::*;

const KEY: &str = "sk-very-secret/0123456789+abc";

fn secret(value: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(value).expect("a value");
    value.set_sensitive(true);
    value
}

fn secrets(name: HeaderName, value: &str) -> Secrets {
    Secrets::of(&HeaderMap::from_iter([(name, secret(value))]))
}

fn bearer() -> Secrets {
    secrets(AUTHORIZATION, &format!("Bearer {KEY}"))
}

/// Every way in which a letter may be escaped.
fn spellings(letter: char) -> Vec<String> {
    let code = u32::from(letter);
    let mut ways = vec![
        letter.to_string(),
        format!("\\u{code:04x}"),
        format!("\\u{code:04X}"),
        format!("\\\\u{code:04x}"),
        format!("%{code:02x}"),
        format!("%{code:02X}"),
    ];
    if letter == '/' {
        ways.extend(["\\/".to_owned(), "\\\\\\/".to_owned()]);
    }
    ways
}

fn body(redactor: &mut Redactor, pieces: &[&[u8]]) -> Vec<u8> {
    let mut out: Vec<u8> = pieces.iter().flat_map(|piece| redactor.push(piece).into_owned()).collect();
    out.extend(redactor.end());
    out
}

#[test]
fn a_key_that_a_server_echoes_is_not_kept() {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, secret("Bearer sk-very-secret"));
    headers.insert(http::header::ACCEPT, HeaderValue::from_static("text/plain"));
    let secrets = Secrets::of(&headers);
    let redacted = |text: &str| secrets.redacted(text.to_owned());
    assert_eq!(
        redacted("wrong key sk-very-secret (Bearer sk-very-secret), text/plain"),
        "wrong key *** (Bearer ***), text/plain"
    );
    assert_eq!(redacted("wrong key sk-very…"), "wrong key ***…");
    assert_eq!(redacted("wrong key sk\\u002dvery…"), "wrong key ***…");
    assert_eq!(redacted("nothing here…"), "nothing here…");
    assert_eq!(redacted("sk\\u002dvery\\u002Dsecret, sk%2dvery-secret"), "***, ***");
    assert_eq!(format!("{secrets:?}"), "***");
}

#[test]
fn a_password_and_a_key_of_another_scheme_are_secrets_too() {
    // `user:sesame-open`
    let basic = secrets(AUTHORIZATION, "Basic dXNlcjpzZXNhbWUtb3Blbg==");
    assert_eq!(basic.redacted("dXNlcjpzZXNhbWUtb3Blbg== or sesame-open".to_owned()), "*** or ***");
    let own = secrets(AUTHORIZATION, "Own first-part second-part");
    assert_eq!(own.redacted("Own first-part second-part; second-part".to_owned()), "***; ***");
    let short = secrets(AUTHORIZATION, "Bearer none");
    assert_eq!(short.redacted("there is none".to_owned()), "there is none");
}

#[test]
fn a_header_comes_without_the_key() {
    let value = HeaderValue::from_str(&format!("id-{KEY}-1")).expect("a value");
    assert_eq!(*bearer().redacted_header(&value), "id-***-1");
    let other = HeaderValue::from_static("req_1");
    assert!(matches!(bearer().redacted_header(&other), Cow::Borrowed(_)));
}

#[test]
fn in_a_body_only_long_values_of_headers_for_keys_are_looked_for() {
    for (name, value) in [(AUTHORIZATION, "Bearer ollama"), (REFERER, "https://example.org/my-own-site")] {
        let secrets = secrets(name, value);
        let text = format!("ask {}", value.rsplit(' ').next().expect("a word"));
        let mut redactor = Redactor::new(secrets.clone(), Bytes::new());
        assert_eq!(body(&mut redactor, &[text.as_bytes()]), text.as_bytes());
        assert_eq!(secrets.redacted(text), "ask ***");
    }
}

#[test]
fn what_the_client_sent_itself_is_no_secret_to_it() {
    let text = format!("KEY={KEY}\n");
    for (request, expected) in [(format!("change {KEY}"), text.as_str()), ("change it".to_owned(), "KEY=***\n")] {
        let mut redactor = Redactor::new(bearer(), Bytes::from(request));
        assert_eq!(body(&mut redactor, &[text.as_bytes()]), expected.as_bytes());
    }
}

#[test]
fn a_body_that_ends_within_a_key_does_not_tell_its_beginning() {
    let mut redactor = Redactor::new(bearer(), Bytes::new());
    assert_eq!(body(&mut redactor, &[b"key sk-very-sec"]), b"key ***");
    let mut redactor = Redactor::new(bearer(), Bytes::new());
    assert_eq!(body(&mut redactor, &[b"a task"]), b"a task");
}

#[test]
fn nothing_is_held_back_at_the_end_of_an_event() {
    let mut redactor = Redactor::new(bearer(), Bytes::new());
    for event in [&b"data: {\"text\":\"ask\"}\n\n"[..], b"data: {\"text\":\"\\u00e9s\"}\n\n", b"{\"a\":1}"] {
        assert!(matches!(redactor.push(event), Cow::Borrowed(bytes) if bytes == event));
    }
}

proptest! {
    #[test]
    fn no_spelling_and_no_cut_hides_a_key(
        ways in proptest::collection::vec(any::<proptest::sample::Index>(), KEY.len()),
        before in "[ -~\\\\%su]{0,40}",
        after in "[ -~\\\\%su]{0,40}",
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..6),
    ) {
        let escaped: String =
            KEY.chars().zip(&ways).map(|(letter, way)| way.get(&spellings(letter)).clone()).collect();
        // A backslash right before would escape the first letter.
        let before = before.trim_end_matches('\\');
        let text = format!("{before}{escaped}{after}");
        let mut candidates: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        candidates.extend([0, text.len()]);
        candidates.sort_unstable();
        let pieces: Vec<&[u8]> = candidates.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
        let out = body(&mut Redactor::new(bearer(), Bytes::new()), &pieces);
        prop_assert!(String::from_utf8_lossy(&out).contains("***"), "{}", text);
        prop_assert!(escapes::mask_all(&out, &bearer().0.in_bodies).is_none());
        let redacted = bearer().redacted(text.clone());
        prop_assert!(redacted.starts_with(&format!("{before}***")), "{} of {}", redacted, text);
    }

    #[test]
    fn a_body_without_a_key_passes_byte_for_byte(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..8),
    ) {
        let text = pieces.concat();
        let parts: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(body(&mut Redactor::new(bearer(), Bytes::new()), &parts), text);
    }
}

#[test]
fn a_secret_is_masked_where_it_stands_and_what_may_begin_one_is_told() {
    let mut said = format!("x {KEY} and {KEY} sk-ver").into_bytes();
    let may_go_on = bearer().mask_in_place(&mut said);
    let masked = "*".repeat(KEY.len());
    assert_eq!(
        (String::from_utf8_lossy(&said).into_owned(), may_go_on),
        (format!("x {masked} and {masked} sk-ver"), 6)
    );
    assert_eq!(bearer().mask_in_place(&mut []), 0);
    // A key of asterisks alone ends as it began.
    let stars = "*".repeat(40);
    let mut said = format!("{stars}{stars}x").into_bytes();
    assert_eq!(secrets(AUTHORIZATION, &format!("Bearer {stars}")).mask_in_place(&mut said), 0);
    assert_eq!(said, format!("{stars}{stars}x").into_bytes());
}
