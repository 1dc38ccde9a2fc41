//! A fast reader for blocks of counts in their usual form: names without escapes, whole numbers, and nested blocks of
//! the same kind.
//!
//! Invariant: what is read here is JSON, and a parser finds the same fields in it; in doubt it is refused and the
//! parser decides.

use crate::json_text::plain_length;

/// How deep values may be nested.
const MAX_DEPTH: u32 = 4;

/// Hands on each field of an object: its name, and its value if that is a whole number. `None` if a parser must look at it,
/// or if `on_field` wants one to.
pub(crate) fn read_counts<'a>(
    json: &'a str,
    mut on_field: impl FnMut(&'a [u8], Option<u64>) -> Option<()>,
) -> Option<()> {
    let mut scanner = Scanner { rest: json.as_bytes() };
    scanner.object(MAX_DEPTH, &mut on_field)?;
    scanner.skip_whitespace();
    scanner.rest.is_empty().then_some(())
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn object(&mut self, depth: u32, on_field: &mut dyn FnMut(&'a [u8], Option<u64>) -> Option<()>) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.text()?;
            self.take(b':')?;
            let count = self.value(depth)?;
            on_field(name, count)?;
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
    }

    fn array(&mut self, depth: u32) -> Option<()> {
        self.take(b'[')?;
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            self.value(depth)?;
            if self.take(b',').is_none() {
                return self.take(b']');
            }
        }
    }

    /// Passes a value; gives it if it is a whole number.
    fn value(&mut self, depth: u32) -> Option<Option<u64>> {
        self.skip_whitespace();
        match self.rest.first()? {
            b'0'..=b'9' => self.number().map(Some),
            b'"' => self.text().map(|_| None),
            b'{' if depth > 0 => self.object(depth - 1, &mut |_, _| Some(())).map(|()| None),
            b'[' if depth > 0 => self.array(depth - 1).map(|()| None),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(length);
        // Twenty digits may be too many; a leading zero stands alone.
        if length > 19 || (digits[0] == b'0' && length > 1) {
            return None;
        }
        self.rest = rest;
        Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        self.skip_whitespace();
        let inside = self.rest.strip_prefix(b"\"")?;
        let (text, rest) = inside.split_at(plain_length(inside));
        self.rest = rest.strip_prefix(b"\"")?;
        Some(text)
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        self.skip_whitespace();
        match self.rest {
            [first, rest @ ..] if *first == wanted => {
                self.rest = rest;
                Some(())
            }
            _ => None,
        }
    }

    fn skip_whitespace(&mut self) {
        while let [b' ' | b'\n' | b'\r' | b'\t', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn fields(json: &str) -> Option<Vec<(String, Option<u64>)>> {
        let mut fields = Vec::new();
        read_counts(json, |name, count| {
            fields.push((String::from_utf8_lossy(name).into_owned(), count));
            Some(())
        })?;
        Some(fields)
    }

    #[test]
    fn counts_are_read_and_the_rest_is_passed() {
        let json = r#" {"a": 12,"b":[{"c": "d","e": 0}, []],"f":"text", "g":{} ,"h":18446744073709551} "#;
        let expected = [("a", Some(12)), ("b", None), ("f", None), ("g", None), ("h", Some(18_446_744_073_709_551))];
        assert_eq!(fields(json).unwrap(), expected.map(|(name, count)| (name.to_owned(), count)));
        assert_eq!(fields("{}"), Some(vec![]));
        for doubtful in [
            "",
            "7",
            "[]",
            "{",
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1]"#,
            r#"{"a":01}"#,
            r#"{"a":1.0}"#,
            r#"{"a":-1}"#,
            r#"{"a":1e3}"#,
            r#"{"a":null}"#,
            r#"{"a\n":1}"#,
            r#"{"a":[[[[[1]]]]]}"#,
            r#"{"a":1}{}"#,
            "{\"a\u{1}\":1}",
            r#"{"a":99999999999999999999}"#,
        ] {
            assert_eq!(fields(doubtful), None, "{doubtful}");
        }
        assert_eq!(read_counts(r#"{"a":1}"#, |_, _| None), None);
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_a_parser_finds(json in r#"[{}\[\]":, 0-9a-c\\-]{0,40}"#) {
            if let Some(fields) = fields(&json) {
                let value: Value = serde_json::from_str(&json).unwrap();
                for (name, count) in fields.iter().rev().take(1) {
                    prop_assert_eq!(value[name].as_u64(), *count);
                }
            }
        }

        #[test]
        fn usual_blocks_are_read(counts in prop::collection::vec((r"[a-z]{1,8}", 0_u64..1 << 60), 0..6), blanks in "[ \n\r\t]{0,3}") {
            let inner: Vec<String> = counts.iter().map(|(name, count)| format!("\"{name}\"{blanks}:{blanks}{count}")).collect();
            let json = format!("{{{blanks}{}}}{blanks}", inner.join(&format!("{blanks},{blanks}")));
            let expected: Vec<_> = counts.into_iter().map(|(name, count)| (name, Some(count))).collect();
            prop_assert_eq!(fields(&json), Some(expected));
        }
    }
}
