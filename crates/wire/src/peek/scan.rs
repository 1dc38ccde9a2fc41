//! A JSON scanner that goes from value to value without a tree.
//!
//! Invariant: what it accepts is what `serde_json` accepts when it ignores a value; its position only moves forward,
//! and it needs neither recursion nor memory.

use super::{MAX_DEPTH, PeekError, PeekErrorKind};
use crate::json_text::{plain_length, read_escape};

/// A place in a body. The body is known to be UTF-8.
pub(super) struct Scan<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) at: usize,
}

/// A key: where its quote stands, and what stands between its quotes.
#[derive(Clone, Copy)]
pub(super) struct Key<'b> {
    pub(super) at: usize,
    pub(super) text: &'b [u8],
}

impl<'b> Scan<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Scan<'b> {
        Scan { bytes, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    pub(super) fn error(&self, kind: PeekErrorKind) -> PeekError {
        PeekError { at: self.at, kind }
    }

    /// The error for an unexpected byte here.
    fn expected(&self, what: &'static str) -> PeekError {
        self.error(if self.at >= self.bytes.len() { PeekErrorKind::Unfinished } else { PeekErrorKind::Expected(what) })
    }

    /// What is wrong with a body that does not begin as an object.
    pub(super) fn not_an_object(&mut self) -> PeekError {
        let at = self.at;
        match self.value(0) {
            Ok(_) => PeekError { at, kind: PeekErrorKind::NotAnObject },
            Err(error) => error,
        }
    }

    /// Goes through an object that begins here; `take` is called where each field's value begins, and must go on to its end. Gives the place behind the opening brace and whether no field followed there.
    pub(super) fn members(
        &mut self,
        mut take: impl FnMut(&mut Scan<'b>, Key<'b>) -> Result<(), PeekError>,
    ) -> Result<(usize, bool), PeekError> {
        self.at += 1;
        let inside = self.at;
        self.skip_whitespace();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok((inside, true));
        }
        loop {
            let key = self.key()?;
            take(self, key)?;
            self.skip_whitespace();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok((inside, false));
                }
                _ => return Err(self.expected("`,` or `}`")),
            }
            self.skip_whitespace();
        }
    }

    /// Goes past one value that begins here, inside of `outer` levels, and gives its end.
    pub(super) fn value(&mut self, outer: u32) -> Result<usize, PeekError> {
        // One bit for each level that is open, the innermost lowest: whether it is an object.
        let (mut objects, mut depth) = (0_u128, outer);
        loop {
            let opened = self.scalar_or_opening()?;
            if let Some(is_object) = opened {
                depth += 1;
                if depth > MAX_DEPTH {
                    self.at -= 1;
                    return Err(self.error(PeekErrorKind::TooDeep));
                }
                objects = objects << 1 | u128::from(is_object);
                self.skip_whitespace();
                if self.peek() != Some(if is_object { b'}' } else { b']' }) {
                    if is_object {
                        self.key()?;
                    }
                    continue;
                }
            }
            // A value has ended, or an empty array or object is about to.
            loop {
                if depth == outer {
                    return Ok(self.at);
                }
                self.skip_whitespace();
                let is_object = objects & 1 == 1;
                match (self.peek(), is_object) {
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        depth -= 1;
                        objects >>= 1;
                    }
                    (Some(b','), _) => {
                        self.at += 1;
                        self.skip_whitespace();
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    (_, true) => return Err(self.expected("`,` or `}`")),
                    (_, false) => return Err(self.expected("`,` or `]`")),
                }
            }
        }
    }

    /// Goes past a text, a number or a word; past the bracket only of an array or object, and returns which it is.
    fn scalar_or_opening(&mut self) -> Result<Option<bool>, PeekError> {
        match self.peek() {
            Some(b'"') => self.string("a value").map(|_| None),
            Some(b'-' | b'0'..=b'9') => self.number().map(|()| None),
            Some(byte @ (b'{' | b'[')) => {
                self.at += 1;
                Ok(Some(byte == b'{'))
            }
            Some(b't') => self.word("true").map(|()| None),
            Some(b'f') => self.word("false").map(|()| None),
            Some(b'n') => self.word("null").map(|()| None),
            _ => Err(self.expected("a value")),
        }
    }

    /// Goes past a key, its colon and the white space behind it.
    fn key(&mut self) -> Result<Key<'b>, PeekError> {
        let at = self.at;
        let text = self.string("a field's name in quotes")?;
        self.skip_whitespace();
        if self.peek() != Some(b':') {
            return Err(self.expected("`:`"));
        }
        self.at += 1;
        self.skip_whitespace();
        Ok(Key { at, text })
    }

    /// Goes past a string, and gives what stands between its quotes.
    fn string(&mut self, what: &'static str) -> Result<&'b [u8], PeekError> {
        if self.peek() != Some(b'"') {
            return Err(self.expected(what));
        }
        self.at += 1;
        let start = self.at;
        loop {
            self.at += text_length(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(&self.bytes[start..self.at - 1]);
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.expected("no bare control character in a string")),
            }
        }
    }

    /// Goes past an escape. Halves of surrogate pairs are not put together: a parser does so only where it wants the text.
    fn escape(&mut self) -> Result<(), PeekError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                return Ok(());
            }
            Some(b'u') => self.at += 2,
            _ => {
                self.at += 1;
                return Err(self.expected("a JSON escape"));
            }
        }
        for _ in 0..4 {
            if !self.peek().is_some_and(|digit| digit.is_ascii_hexdigit()) {
                return Err(self.expected("a hexadecimal digit"));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), PeekError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
                return Err(self.expected("no digit after a leading zero"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Goes past one digit or more.
    fn digits(&mut self) -> Result<(), PeekError> {
        let start = self.at;
        while self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(self.expected("a digit")) }
    }

    fn word(&mut self, word: &'static str) -> Result<(), PeekError> {
        for &byte in word.as_bytes() {
            if self.peek() != Some(byte) {
                return Err(self.expected(word));
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// Length of the leading run that stands for itself, as [`plain_length`]; in long runs looked at in blocks, which the
/// compiler turns into vector instructions.
fn text_length(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    let mut length = 0;
    // Most texts are short, and a block with a mark is looked at twice.
    let head = plain_length(&bytes[..bytes.len().min(BLOCK)]);
    if head < BLOCK {
        return head;
    }
    while let Some(block) = bytes.get(length..length + BLOCK) {
        let marks = block.iter().fold(0, |marks, &byte| marks | u8::from(byte < 0x20 || byte == b'"' || byte == b'\\'));
        if marks != 0 {
            break;
        }
        length += BLOCK;
    }
    length + plain_length(&bytes[length..])
}

/// Whether a key names a field: `Some(true)` if it does so to the letter, written with escapes or not, `Some(false)` if
/// only a reader that does not look at the case of letters takes it for the same (Go's does).
pub(super) fn matches_name(key: &[u8], name: &str) -> Option<bool> {
    if key == name.as_bytes() {
        return Some(true);
    }
    let first = *key.first()?;
    let other_letter = first.is_ascii() && first != b'\\' && !first.eq_ignore_ascii_case(&name.as_bytes()[0]);
    if other_letter || key.len() < name.len() {
        return None;
    }
    let (mut exact, mut rest) = (true, name.bytes());
    for character in characters(key) {
        let (character, wanted) = (character?, char::from(rest.next()?));
        let alike = match character {
            'ſ' => wanted.eq_ignore_ascii_case(&'s'),
            '\u{212a}' => wanted.eq_ignore_ascii_case(&'k'),
            _ => character.eq_ignore_ascii_case(&wanted),
        };
        if !alike {
            return None;
        }
        exact &= character == wanted;
    }
    rest.next().is_none().then_some(exact)
}

/// The characters of a string by what stands between its quotes; `None` for half of a surrogate pair, and then the end.
pub(super) fn characters(inside: &[u8]) -> impl Iterator<Item = Option<char>> {
    let mut rest = std::str::from_utf8(inside).ok();
    std::iter::from_fn(move || {
        let text = rest?;
        let first = text.chars().next()?;
        if first != '\\' {
            rest = Some(&text[first.len_utf8()..]);
            return Some(Some(first));
        }
        let escape = read_escape(text.as_bytes());
        rest = escape.map(|(_, length)| &text[length..]);
        Some(escape.map(|(character, _)| character))
    })
}
