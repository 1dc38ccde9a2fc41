//! Tests of string handling against serde_json as the second opinion.

use super::*;
use proptest::prelude::*;

/// Bytes that are likely to be the inside of a string, and likely to break it.
fn inside() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,12}".prop_map(String::into_bytes),
        2 => any::<String>().prop_map(String::into_bytes),
        2 => prop::sample::select(vec!["\\n", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\r", "\\t", "\\u00e9", "\\u0000"])
            .prop_map(|escape| escape.as_bytes().to_vec()),
        2 => any::<u16>().prop_map(|unit| format!("\\u{unit:04X}").into_bytes()),
        1 => (0xD800_u16..0xDC00, 0xDC00_u16..0xE000)
            .prop_map(|(high, low)| format!("\\u{high:04x}\\u{low:04x}").into_bytes()),
        1 => prop::sample::select(vec!["\\", "\"", "\\u12", "\\x", "\\u+123", "\u{1}", "\\ud83d"])
            .prop_map(|broken| broken.as_bytes().to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn quoted(inside: &[u8]) -> Vec<u8> {
    [b"\"", inside, b"\""].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn unescaping_accepts_what_a_parser_accepts(inside in inside()) {
        let mut ours = "before".to_owned();
        let good = append_unescaped(&inside, &mut ours);
        match serde_json::from_slice::<String>(&quoted(&inside)) {
            Ok(theirs) => {
                prop_assert!(good);
                prop_assert_eq!(ours, format!("before{theirs}"));
            }
            Err(_) => {
                prop_assert!(!good);
                prop_assert_eq!(ours, "before");
            }
        }
    }

    #[test]
    fn escaping_is_read_back_by_a_parser(text in any::<String>()) {
        let mut json = Vec::new();
        push_string(&text, &mut json);
        prop_assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), text);
    }

    #[test]
    fn the_end_of_a_string_is_its_first_unescaped_quote(inside in inside(), after in any::<Vec<u8>>()) {
        if serde_json::from_slice::<String>(&quoted(&inside)).is_ok() {
            let body = [inside.as_slice(), b"\"", &after].concat();
            prop_assert_eq!(string_end(&body), Some(inside.len()));
        }
    }

    #[test]
    fn a_plain_run_ends_at_the_first_special_byte(bytes in prop::collection::vec(prop_oneof![20 => 0x20_u8..=255, 1 => any::<u8>()], 0..60)) {
        let special = bytes.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
        prop_assert_eq!(plain_length(&bytes), special.unwrap_or(bytes.len()));
    }

    #[test]
    fn lone_surrogates_are_replaced_and_nothing_else(units in prop::collection::vec(prop_oneof![any::<u16>(), 0xD800_u16..0xE000], 0..12)) {
        let json: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let expected = String::from_utf16_lossy(&units);
        let json = format!("\"{json}\"");
        let repaired = without_lone_surrogates(&json);
        prop_assert_eq!(repaired.is_some(), String::from_utf16(&units).is_err());
        let text: String = serde_json::from_str(repaired.as_deref().unwrap_or(&json)).unwrap();
        prop_assert_eq!(text, expected);
    }
}

#[test]
fn repairing_leaves_escaped_backslashes_alone() {
    assert_eq!(without_lone_surrogates(r#""\\ud83d \\\ud83d""#).as_deref(), Some(r#""\\ud83d \\\ufffd""#));
    assert_eq!(without_lone_surrogates(r#""\\ud83d""#), None);
    assert_eq!(without_lone_surrogates("\"\\é\\ud83d"), Some("\"\\é\\ufffd".to_owned()));
    assert_eq!(without_lone_surrogates("\\"), None);
}
