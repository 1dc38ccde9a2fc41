//! JSON at the level of bytes: where strings and brackets end, unescaping into an arena, escaping into a buffer.
//!
//! Invariant: what is accepted here is what a JSON parser accepts as the inside of
//! a string, with the same text; in doubt it is refused and the parser decides.

use std::borrow::Cow;

/// Length of the leading run that stands for itself: no quote, no backslash, no control byte.
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES * 128;
    let mut length = 0;
    // Eight bytes at a time; the lowest mark of each test is exact, borrows only reach upwards.
    while let Some(chunk) = bytes.get(length..length + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("the slice has eight bytes"));
        let quote = word ^ (ONES * u64::from(b'"'));
        let backslash = word ^ (ONES * u64::from(b'\\'));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let marks = (quote.wrapping_sub(ONES) & !quote | backslash.wrapping_sub(ONES) & !backslash | control) & HIGH;
        if marks != 0 {
            return length + (marks.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let rest = bytes[length..].iter().take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    length + rest.count()
}

/// Where the string ends whose first byte after the opening quote is `bytes[0]`: the offset of its closing quote.
pub(crate) fn string_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += plain_length(&bytes[at..]);
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' if at + 2 <= bytes.len() => at += 2,
            _ => return None,
        }
    }
}

/// One past the bracket that closes the one with which the bytes begin; brackets within texts do not count.
pub(crate) fn bracket_end(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_u32, 0);
    if !matches!(bytes.first(), Some(b'{' | b'[')) {
        return None;
    }
    loop {
        match bytes.get(at)? {
            b'"' => at += 1 + string_end(&bytes[at + 1..])?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether a byte is white space to JSON.
pub(crate) fn is_whitespace(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Appends the text of a whole string's inside; false, and nothing appended, if it is not one.
pub(crate) fn append_unescaped(bytes: &[u8], out: &mut String) -> bool {
    let plain = plain_length(bytes);
    if plain == bytes.len() {
        return std::str::from_utf8(bytes).is_ok_and(|text| {
            out.push_str(text);
            true
        });
    }
    let start = out.len();
    let good = append_escaped_run(bytes, plain, out).is_some();
    if !good {
        out.truncate(start);
    }
    good
}

fn append_escaped_run(bytes: &[u8], plain: usize, out: &mut String) -> Option<()> {
    // The run is checked whole first: an escape never lies inside a character, but an invalid byte may stand beside one.
    let text = std::str::from_utf8(bytes).ok()?;
    let mut at = plain;
    out.push_str(&text[..plain]);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            return None;
        }
        let (character, length) = read_escape(&bytes[at..])?;
        out.push(character);
        at += length;
        let run = plain_length(&bytes[at..]);
        out.push_str(&text[at..at + run]);
        at += run;
    }
    Some(())
}

/// Reads the escape at the start of `bytes`: its character and its length.
pub(crate) fn read_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let simple = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = hex_unit(bytes.get(2..6)?)?;
            if let Some(character) = char::from_u32(first) {
                return Some((character, 6));
            }
            let second = hex_unit(bytes.get(6..12)?.strip_prefix(b"\\u")?)?;
            let pair = [first as u16, second as u16];
            let character = char::decode_utf16(pair).next()?.ok()?;
            return Some((character, 12));
        }
        _ => return None,
    };
    Some((simple, 2))
}

fn hex_unit(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |unit, &digit| Some(unit * 16 + (digit as char).to_digit(16)?))
}

/// Appends `text` as the inside of a JSON string.
pub(crate) fn push_escaped(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    loop {
        let plain = plain_length(rest);
        out.extend_from_slice(&rest[..plain]);
        let Some(&byte) = rest.get(plain) else { return };
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
        rest = &rest[plain + 1..];
    }
}

/// Appends `text` as a JSON string, quotes included.
pub(crate) fn push_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    push_escaped(text, out);
    out.push(b'"');
}

/// Appends a whole number.
pub(crate) fn push_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}

/// Appends the comma before another element of a list that was begun.
pub(crate) fn push_comma(out: &mut Vec<u8>) {
    if out.last() != Some(&b'[') {
        out.push(b',');
    }
}

/// Appends an object of those counts that are known; a name has its quotes and its colon.
pub(crate) fn push_known_counts(counts: &[(&str, Option<u64>)], out: &mut Vec<u8>) {
    out.push(b'{');
    for (name, count) in counts {
        let Some(count) = count else { continue };
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(name.as_bytes());
        push_number(*count, out);
    }
    out.push(b'}');
}

/// The same JSON with each lone half of a surrogate pair replaced by U+FFFD, or `None` if there is none.
pub(crate) fn without_lone_surrogates(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let mut repaired = String::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(offset) = memchr::memchr(b'\\', &bytes[at..]) {
        at += offset;
        let lone = bytes.get(at + 1) == Some(&b'u')
            && bytes.get(at + 2..at + 6).and_then(hex_unit).is_some_and(|unit| (0xD800..0xE000).contains(&unit));
        match read_escape(&bytes[at..]) {
            Some((_, length)) => at += length,
            None if lone => {
                repaired.push_str(&json[kept..at]);
                repaired.push_str("\\ufffd");
                at += 6;
                kept = at;
            }
            // The byte after the backslash may begin a character of several bytes, none of which is a backslash.
            None => at = (at + 2).min(bytes.len()),
        }
    }
    if kept == 0 {
        return None;
    }
    repaired.push_str(&json[kept..]);
    Some(repaired)
}

/// The text of `bytes` with U+FFFD for what is not UTF-8, and whether anything was replaced.
pub(crate) fn lossy(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(_) => (String::from_utf8_lossy(bytes), true),
    }
}

#[cfg(test)]
mod tests;
