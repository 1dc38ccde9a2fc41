//! Files that are not UTF-8, as texts and back.
//!
//! Where nobody says what the encoding is, each byte becomes the character of its number, so that what is not edited keeps its bytes in
//! whatever encoding it is written. Invariant: a text that was decoded encodes to the same bytes.

use std::borrow::Cow;

/// The encoding of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// One byte a character, and nobody knows which: bytes are kept, and new text is ASCII.
    Bytes,
    /// ISO 8859-1.
    Latin1,
    /// ISO 8859-2.
    Latin2,
    /// ISO 8859-15.
    Latin9,
    /// Windows-1250, of Central Europe.
    Windows1250,
    /// Windows-1251, Cyrillic.
    Windows1251,
    /// Windows-1252, of Western Europe.
    Windows1252,
    /// KOI8-R, Russian.
    Koi8R,
}

impl Encoding {
    /// The encodings that a caller may state, by their names.
    pub const NAMED: [(&'static str, Encoding); 8] = [
        ("utf-8", Encoding::Utf8),
        ("iso-8859-1", Encoding::Latin1),
        ("iso-8859-2", Encoding::Latin2),
        ("iso-8859-15", Encoding::Latin9),
        ("windows-1250", Encoding::Windows1250),
        ("windows-1251", Encoding::Windows1251),
        ("windows-1252", Encoding::Windows1252),
        ("koi8-r", Encoding::Koi8R),
    ];

    /// The encoding of such a name, in capitals or not; `latin-1` and `cp1251` are names too.
    pub fn from_name(name: &str) -> Option<Encoding> {
        let name = name.to_ascii_lowercase().replace('_', "-");
        let name = match name.as_str() {
            "utf8" => "utf-8".to_owned(),
            "latin-1" | "latin1" => "iso-8859-1".to_owned(),
            other => other.strip_prefix("cp").map_or(name.clone(), |page| format!("windows-{page}")),
        };
        Encoding::NAMED.iter().find(|(known, _)| *known == name).map(|(_, encoding)| *encoding)
    }

    /// The encoding of a file of which nothing is said.
    pub fn of(bytes: &[u8]) -> Encoding {
        if std::str::from_utf8(bytes).is_ok() { Encoding::Utf8 } else { Encoding::Bytes }
    }

    /// The text of a file, and its encoding, where nothing is said of it.
    pub fn decode(bytes: &[u8]) -> (Cow<'_, str>, Encoding) {
        match std::str::from_utf8(bytes) {
            Ok(text) => (Cow::Borrowed(text), Encoding::Utf8),
            Err(_) => (Encoding::Bytes.text(bytes), Encoding::Bytes),
        }
    }

    /// The text of bytes in this encoding; what is no UTF-8 becomes U+FFFD there.
    pub fn text(self, bytes: &[u8]) -> Cow<'_, str> {
        if self == Encoding::Utf8 {
            return String::from_utf8_lossy(bytes);
        }
        let (first, signs) = self.upper();
        let upper: Vec<char> = signs.chars().collect();
        let sign = |&byte: &u8| match byte.checked_sub(first) {
            Some(at) => upper.get(usize::from(at)).copied().unwrap_or(char::from(byte)),
            None => char::from(byte),
        };
        bytes.iter().map(sign).collect::<String>().into()
    }

    /// Whether new text may hold a sign: it is known how the encoding writes it.
    pub(crate) fn knows(self, sign: char) -> bool {
        sign.is_ascii() || self == Encoding::Utf8 || self != Encoding::Bytes && self.byte(sign).is_some()
    }

    /// The bytes of a text that was decoded, or made of such; other characters than the encoding has become `?`.
    pub fn encode(self, text: &str) -> Cow<'_, [u8]> {
        match self {
            Encoding::Utf8 => Cow::Borrowed(text.as_bytes()),
            _ => text.chars().map(|sign| self.byte(sign).unwrap_or(b'?')).collect::<Vec<u8>>().into(),
        }
    }

    fn byte(self, sign: char) -> Option<u8> {
        let (first, signs) = self.upper();
        let plain = || u8::try_from(sign).ok().filter(|&byte| byte < first || signs.is_empty());
        let listed = || {
            let at = signs.chars().position(|known| known == sign)?;
            u8::try_from(usize::from(first) + at).ok()
        };
        if sign.is_ascii() { u8::try_from(sign).ok() } else { listed().or_else(plain) }
    }

    /// The signs from a byte on; those below it are of their own number, and so are all if there are none. A byte that an encoding leaves
    /// undefined is the control sign of its number.
    fn upper(self) -> (u8, &'static str) {
        match self {
            Encoding::Utf8 | Encoding::Bytes | Encoding::Latin1 => (0xa0, ""),
            Encoding::Latin2 => (
                0xa0,
                "\u{a0}Ą˘Ł¤ĽŚ§¨ŠŞŤŹ\u{ad}ŽŻ°ą˛ł´ľśˇ¸šşťź˝žżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
            ),
            Encoding::Latin9 => (
                0xa0,
                "\u{a0}¡¢£€¥Š§š©ª«¬\u{ad}®¯°±²³Žµ¶·ž¹º»ŒœŸ¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
            ),
            Encoding::Windows1250 => (
                0x80,
                "€\u{81}‚\u{83}„…†‡\u{88}‰Š‹ŚŤŽŹ\u{90}‘’“”•–—\u{98}™š›śťžź\u{a0}ˇ˘Ł¤Ą¦§¨©Ş«¬\u{ad}®Ż°±˛ł´µ¶·¸ąş»Ľ˝ľżŔÁÂĂÄĹĆÇČÉĘËĚÍÎĎĐŃŇÓÔŐÖ×ŘŮÚŰÜÝŢßŕáâăäĺćçčéęëěíîďđńňóôőö÷řůúűüýţ˙",
            ),
            Encoding::Windows1251 => (
                0x80,
                "ЂЃ‚ѓ„…†‡€‰Љ‹ЊЌЋЏђ‘’“”•–—\u{98}™љ›њќћџ\u{a0}ЎўЈ¤Ґ¦§Ё©Є«¬\u{ad}®Ї°±Ііґµ¶·ё№є»јЅѕїАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯабвгдежзийклмнопрстуфхцчшщъыьэюя",
            ),
            Encoding::Windows1252 => (
                0x80,
                "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ\u{a0}¡¢£¤¥¦§¨©ª«¬\u{ad}®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ×ØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõö÷øùúûüýþÿ",
            ),
            Encoding::Koi8R => (
                0x80,
                "─│┌┐└┘├┤┬┴┼▀▄█▌▐░▒▓⌠■∙√≈≤≥\u{a0}⌡°²·÷═║╒ё╓╔╕╖╗╘╙╚╛╜╝╞╟╠╡Ё╢╣╤╥╦╧╨╩╪╫╬©юабцдефгхийклмнопярстужвьызшэщчъЮАБЦДЕФГХИЙКЛМНОПЯРСТУЖВЬЫЗШЭЩЧЪ",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Code, Encoding, Options, Outcome, merge};

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
    fn a_file_that_is_not_utf_8_keeps_every_byte_that_is_not_edited() {
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
            "nobody knows how it is written there"
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
        assert_eq!((encoding, encoding.encode(&text).into_owned()), (Encoding::Bytes, all.clone()));
        for (name, encoding) in Encoding::NAMED.into_iter().filter(|(_, it)| *it != Encoding::Utf8) {
            assert_eq!(encoding.encode(&encoding.text(&all)).into_owned(), all, "{name}");
            assert_eq!(Encoding::from_name(&name.to_uppercase()), Some(encoding));
        }
        assert_eq!(Encoding::from_name("cp1251"), Some(Encoding::Windows1251));
        assert_eq!(Encoding::from_name("Latin_1"), Some(Encoding::Latin1));
        assert_eq!(Encoding::from_name("ebcdic"), None);
    }

    #[test]
    fn a_file_of_an_unknown_encoding_gets_no_signs_of_latin_1() {
        // Russian in windows-1251, and Polish in windows-1250.
        for file in [&b"# \xcf\xf0\xe8\xe2\xe5\xf2\nx = 1\n"[..], b"# \xb3\xf3d\x9f\nx = 1\n"] {
            assert_eq!(merged(file, &pair("x = 1", "x = '\u{e9}'")), Err(Code::NotText));
            let ascii = merged(file, &pair("x = 1", "x = 2")).expect("merged");
            assert_eq!(ascii, [&file[..file.len() - 2], b"2\n"].concat());
        }
    }

    #[test]
    fn what_the_stated_encoding_has_is_written_in_it() {
        let edit = |file: &[u8], update: &str, encoding| {
            let options = Options { encoding: Some(encoding), ..Options::default() };
            match merge(file, update.as_bytes(), &options) {
                Outcome::Merged(merged) => Ok(merged.bytes().into_owned()),
                Outcome::Refused(refused) => Err(refused.code),
            }
        };
        let file = b"# \xcf\xf0\xe8\xe2\xe5\xf2\nx = 1\n";
        let update = pair("# Привет\nx = 1", "# Пока\nx = 1");
        assert_eq!(edit(file, &update, Encoding::Windows1251), Ok(b"# \xcf\xee\xea\xe0\nx = 1\n".to_vec()));
        assert_eq!(edit(file, &pair("x = 1", "x = '\u{e9}'"), Encoding::Windows1251), Err(Code::NotText));
        assert_eq!(edit(file, &pair("x = 1", "x = 2"), Encoding::Utf8), Err(Code::NotText), "it is not what is stated");
        let latin = edit(b"# \xe4\nx = 1\n", &pair("x = 1", "x = '\u{e9}'"), Encoding::Latin1);
        assert_eq!(latin, Ok(b"# \xe4\nx = '\xe9'\n".to_vec()));
    }
}
