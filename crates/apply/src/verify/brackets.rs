//! Checks that balanced brackets stay balanced, for files that no parser checks.
//!
//! Skipped for languages whose strings it cannot recognise, and for originals that are unbalanced. Invariant: one pass over
//! the original, and over the part of the merged text that the changes can affect.

use super::without_partner;
use crate::language::Language;
use crate::outcome::{Check, Refused};
use crate::source::Source;
use crate::splice::Splice;

/// How comments and strings of a language are written.
#[derive(Clone, Copy)]
struct Lexis {
    line_comment: &'static str,
    has_block_comment: bool,
    /// Strings in single quotes; Rust's are characters.
    has_single: bool,
    has_backtick: bool,
    has_triple: bool,
    is_rust: bool,
}

const C: Lexis = Lexis {
    line_comment: "//",
    has_block_comment: true,
    has_single: true,
    has_backtick: false,
    has_triple: false,
    is_rust: false,
};

fn lexis(language: Language) -> Option<Lexis> {
    Some(match language {
        Language::Rust => Lexis { has_single: false, is_rust: true, ..C },
        Language::C | Language::Cpp | Language::CSharp => C,
        Language::Java | Language::Kotlin | Language::Dart => Lexis { has_triple: true, ..C },
        Language::Swift => Lexis { has_single: false, has_triple: true, ..C },
        Language::Go => Lexis { has_backtick: true, ..C },
        Language::Css => Lexis { line_comment: "", ..C },
        Language::Python | Language::Toml => {
            Lexis { line_comment: "#", has_block_comment: false, has_triple: true, ..C }
        }
        Language::Json => Lexis { line_comment: "", has_block_comment: false, has_single: false, ..C },
        // Regular expressions, templates, here documents, patterns of `case`, plain text: brackets in them say nothing.
        Language::JavaScript | Language::TypeScript | Language::Tsx => return None,
        _ => return None,
    })
}

/// Checks that brackets which were balanced in the original are in the merged text (with LF).
pub(super) fn check(
    source: &Source,
    splices: &[Splice],
    text: &str,
    language: Option<Language>,
) -> Result<Check, Refused> {
    let Some(lexis) = language.and_then(lexis) else {
        return Ok(Check::Skipped("strings and comments of the language are not known"));
    };
    if splices.is_empty() {
        return Ok(Check::Passed);
    }
    let Some(balance) = balance(source, splices, text, lexis) else {
        return Ok(Check::Skipped("the original is not balanced"));
    };
    let Err(at) = balance else { return Ok(Check::Passed) };
    let bracket = text[at..].chars().next().unwrap_or(' ');
    let found = format!("`{bracket}` has no partner in the merged text, and the original is balanced");
    let hint = "show the lines around the change whole, with their brackets";
    Err(without_partner(source, splices, text, at, &found, hint))
}

/// Longest beginning of a comment or string that decides what it is, unless the rest of its line does (bytes).
const MAX_SIGN_BYTES: usize = 4;

/// The kinds of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It begins nothing; most of a text is of such.
    Plain,
    Open,
    Close,
    /// It may begin a comment or a string.
    Sign,
}

fn kinds(lexis: Lexis) -> [Kind; 256] {
    let mut kinds = [Kind::Plain; 256];
    let mut set = |bytes: &[u8], kind: Kind| bytes.iter().for_each(|&byte| kinds[usize::from(byte)] = kind);
    set(b"([{", Kind::Open);
    set(b")]}", Kind::Close);
    set(b"/#'\"`", Kind::Sign);
    if lexis.is_rust {
        // A raw string.
        set(b"r", Kind::Sign);
    }
    kinds
}

/// `Err` with the place of a bracket without a partner in the merged text; `None` if the original is unbalanced.
fn balance(source: &Source, splices: &[Splice], text: &str, lexis: Lexis) -> Option<Result<(), usize>> {
    let (first, last) = (splices.first()?.old.start, splices.last()?.old.end);
    let mut old = Scan { bytes: source.text.as_bytes(), lexis, kinds: kinds(lexis), at: 0, open: Vec::new() };
    let line = source.line_of(first.saturating_sub(MAX_SIGN_BYTES));
    old.read::<true>(source.bytes_of(line..line).start).ok()?;
    let mut new = Scan { bytes: text.as_bytes(), open: old.open.clone(), ..old };
    // Beyond the last change both texts are equal, so the rest need not be read again if the same brackets are open there.
    old.read::<false>((last + 1).min(source.text.len())).ok()?;
    let (met, open) = (old.at + text.len() - source.text.len(), old.open.clone());
    old.read::<false>(source.text.len()).ok()?;
    old.end().ok()?;
    let kinds = |scan: &Scan<'_>, open: &[usize]| -> Vec<u8> { open.iter().map(|&at| scan.bytes[at]).collect() };
    let read = new.read::<false>(met);
    if read.is_ok() && new.at == met && kinds(&new, &new.open) == kinds(&old, &open) {
        return Some(Ok(()));
    }
    Some(read.and_then(|()| new.read::<false>(text.len())).and_then(|()| new.end()))
}

/// A text that is read for its brackets.
struct Scan<'t> {
    bytes: &'t [u8],
    lexis: Lexis,
    kinds: [Kind; 256],
    at: usize,
    /// Where brackets stand that are not closed yet.
    open: Vec<usize>,
}

impl Scan<'_> {
    /// Reads on to a byte; `Err` is the place of a bracket without a partner. A comment or string across that byte is read whole,
    /// or not at all with `STOPS`.
    fn read<const STOPS: bool>(&mut self, end: usize) -> Result<(), usize> {
        let bytes = self.bytes;
        while self.at < end {
            let kind_of = |byte: u8| self.kinds[usize::from(byte)];
            let plain = bytes[self.at..end].iter().position(|&byte| kind_of(byte) != Kind::Plain);
            let Some(plain) = plain else {
                self.at = end;
                break;
            };
            let at = self.at + plain;
            self.at = at + 1;
            match kind_of(bytes[at]) {
                Kind::Open => self.open.push(at),
                Kind::Close => match self.open.pop() {
                    Some(start) if partner(bytes[start]) == bytes[at] => {}
                    _ => return Err(at),
                },
                Kind::Sign => match past_quoted(bytes, at, self.lexis) {
                    Some(past) if STOPS && past > end => {
                        self.at = at;
                        break;
                    }
                    Some(past) => self.at = past,
                    None => {}
                },
                Kind::Plain => {}
            }
        }
        Ok(())
    }

    /// Whether everything is closed.
    fn end(&self) -> Result<(), usize> {
        self.open.last().map_or(Ok(()), |&at| Err(at))
    }
}

fn partner(open: u8) -> u8 {
    match open {
        b'(' => b')',
        b'[' => b']',
        _ => b'}',
    }
}

/// The end of the comment or string that begins at a byte; none if none does.
fn past_quoted(bytes: &[u8], at: usize, lexis: Lexis) -> Option<usize> {
    let rest = &bytes[at..];
    let until = |skip: usize, mark: &[u8]| {
        memchr::memmem::find(rest.get(skip..).unwrap_or_default(), mark)
            .map_or(bytes.len(), |end| at + skip + end + mark.len())
    };
    match rest[0] {
        b'/' if lexis.has_block_comment && rest.starts_with(b"/*") => Some(until(2, b"*/")),
        b'/' | b'#' if !lexis.line_comment.is_empty() && rest.starts_with(lexis.line_comment.as_bytes()) => {
            Some(memchr::memchr(b'\n', rest).map_or(bytes.len(), |end| at + end + 1))
        }
        b'r' if lexis.is_rust && !at.checked_sub(1).is_some_and(|before| is_word(bytes[before])) => {
            let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count().min(255);
            (rest.get(1 + hashes) == Some(&b'"')).then(|| {
                let mark: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
                until(2 + hashes, &mark)
            })
        }
        b'\'' if lexis.is_rust => match rest {
            [_, b'\\', ..] => Some(escaped(bytes, at + 1, b'\'', true)),
            [_, _, b'\'', ..] => Some(at + 3),
            _ => None,
        },
        quote @ (b'"' | b'\'') if lexis.has_triple && rest.get(1..3) == Some(&[quote; 2]) => {
            Some(until(3, &[quote; 3]))
        }
        b'"' => Some(escaped(bytes, at + 1, b'"', !lexis.is_rust)),
        b'\'' if lexis.has_single => Some(escaped(bytes, at + 1, b'\'', true)),
        b'`' if lexis.has_backtick => Some(escaped(bytes, at + 1, b'`', false)),
        _ => None,
    }
}

fn escaped(bytes: &[u8], mut at: usize, quote: u8, ends_with_line: bool) -> usize {
    let line = if ends_with_line { b'\n' } else { quote };
    while let Some(found) = memchr::memchr3(b'\\', quote, line, bytes.get(at..).unwrap_or_default()) {
        at += found + 1;
        if bytes[at - 1] != b'\\' {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::super::spliced;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_read_again_is_enough(
            text in "([(){}'\"`#/*r\\\\a]{0,6}\n){0,8}",
            new in "([(){}'\"`#/*r\\\\a]{0,6}\n){0,3}",
            places in prop::array::uniform2(0..=100_usize),
            language in prop::sample::select(vec![Language::Rust, Language::C, Language::Python, Language::Go]),
        ) {
            let source = Source::read(text.as_bytes()).expect("text");
            let [start, end] = places.map(|place| place * source.text.len() / 100);
            let splices = [Splice { old: start.min(end)..start.max(end), new }];
            let (text, lexis) = (spliced(&source, &splices), lexis(language).expect("known"));
            let whole = |text: &str| {
                let mut scan = Scan { bytes: text.as_bytes(), lexis, kinds: kinds(lexis), at: 0, open: Vec::new() };
                scan.read::<false>(text.len()).and_then(|()| scan.end())
            };
            let expected = whole(&source.text).ok().map(|()| whole(&text));
            prop_assert_eq!(balance(&source, &splices, &text, lexis), expected);
        }
    }
}
