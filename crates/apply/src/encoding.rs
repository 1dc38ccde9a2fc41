//! Files that are not UTF-8, as texts and back.
//!
//! Each byte becomes the character of its number, as in Latin-1, so that what is not edited keeps its bytes in whatever encoding
//! it is written. Invariant: a text that was decoded encodes to the same bytes.

use std::borrow::Cow;

/// The encoding of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// One byte a character.
    Latin1,
}

impl Encoding {
    /// The text of a file, and its encoding.
    pub fn decode(bytes: &[u8]) -> (Cow<'_, str>, Encoding) {
        match std::str::from_utf8(bytes) {
            Ok(text) => (Cow::Borrowed(text), Encoding::Utf8),
            Err(_) => (bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into(), Encoding::Latin1),
        }
    }

    /// The bytes of a text that was decoded, or made of such; other characters than the encoding has become `?`.
    pub fn encode(self, text: &str) -> Cow<'_, [u8]> {
        match self {
            Encoding::Utf8 => Cow::Borrowed(text.as_bytes()),
            Encoding::Latin1 => text.chars().map(|sign| u8::try_from(sign).unwrap_or(b'?')).collect::<Vec<u8>>().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Code, Encoding, Outcome, merge};

    fn merged(original: &[u8], update: &str) -> Result<Vec<u8>, Code> {
        match merge(original, update.as_bytes(), &Default::default()) {
            Outcome::Merged(merged) => Ok(merged.bytes().into_owned()),
            Outcome::Refused(refused) => Err(refused.code),
        }
    }

    fn pair(old: &str, new: &str) -> String {
        serde_json::json!({"old_string": old, "new_string": new}).to_string()
    }

    #[test]
    fn a_latin_1_file_keeps_every_byte_that_is_not_edited() {
        let file = b"name = 'Andr\xe9'\r\nprice = 3\r\nnote = '\xfc\xdf'";
        assert_eq!(
            merged(file, &pair("price = 3", "price = 4")),
            Ok(file.map(|it| if it == b'3' { b'4' } else { it }).to_vec())
        );
        assert_eq!(
            merged(file, &pair("Andr\u{e9}", "Ren\u{e9}e")),
            Ok(b"name = 'Ren\xe9e'\r\nprice = 3\r\nnote = '\xfc\xdf'".to_vec())
        );
        assert_eq!(
            merged(file, &pair("price = 3", "price = '\u{20ac}'")),
            Err(Code::NotText),
            "Latin-1 has no such sign"
        );
    }

    #[test]
    fn new_signs_in_an_unknown_encoding_are_refused_and_ascii_is_not() {
        // Shift JIS.
        let file = b"# \x83e\x83X\x83g\nx = 1\n";
        assert_eq!(merged(file, &pair("x = 1", "x = 2")), Ok(b"# \x83e\x83X\x83g\nx = 2\n".to_vec()));
        assert_eq!(merged(file, &pair("x = 1", "x = '\u{e9}'")), Err(Code::NotText));
        assert_eq!(merged(b"a\0\xff", &pair("a", "b")), Err(Code::NotText), "no text at all");
    }

    #[test]
    fn bytes_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        let (text, encoding) = Encoding::decode(&all);
        assert_eq!((encoding, encoding.encode(&text).into_owned()), (Encoding::Latin1, all));
    }
}
