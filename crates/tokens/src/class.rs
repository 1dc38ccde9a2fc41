//! What the pre-tokenisation patterns ask of a character: its general category folded into a few bits.
//!
//! It knows no pattern. Invariant: the bits are those of Unicode 16.0 general categories and `White_Space`, the version
//! the reference implementation is built with; `tests` compares every code point with the reference's own tables.

/// Properties of a character, as bits.
pub(crate) type Class = u8;

/// Lu, Lt, Lm, Lo or M: may stand in the upper-case run of an o200k word.
pub(crate) const UPPER: Class = 1;
/// Ll, Lm, Lo or M: may stand in the lower-case run of an o200k word.
pub(crate) const LOWER: Class = 1 << 1;
/// Any L category.
pub(crate) const LETTER: Class = 1 << 2;
/// Any N category.
pub(crate) const NUMBER: Class = 1 << 3;
/// White space, line breaks included.
pub(crate) const SPACE: Class = 1 << 4;
/// Carriage return or line feed.
pub(crate) const BREAK: Class = 1 << 5;
/// There is no character: the text ends here.
pub(crate) const END: Class = 1 << 6;

/// Marks carry both run bits but are no letters.
pub(crate) const MARK: Class = UPPER | LOWER;

static ASCII: [Class; 128] = ascii();

/// Two-stage table over blocks of 128 code points: 8704 block numbers of two bytes, then the distinct blocks.
static BLOCKS: &[u8] = include_bytes!("../data/classes.bin");
const BLOCK: usize = 128;
const STAGE_ONE_BYTES: usize = 2 * 0x11_0000 / BLOCK;

/// Class and width in bytes of the character that starts at `at`; ([`END`], 0) where the text ends.
#[inline(always)]
pub(crate) fn class_at(text: &[u8], at: usize) -> (Class, usize) {
    match text.get(at) {
        None => (END, 0),
        Some(&byte) if byte < 128 => (ASCII[usize::from(byte & 127)], 1),
        Some(&byte) => wide_class_at(text, at, byte),
    }
}

/// Bytes that are not UTF-8 cannot reach this through `&str`; they would be read as some character inside the text.
#[inline]
fn wide_class_at(text: &[u8], at: usize, first: u8) -> (Class, usize) {
    let tail = |i: usize| usize::from(text.get(at + i).copied().unwrap_or(0) & 0x3f);
    let head = usize::from(first);
    let (code, width) = match first {
        0xf0.. => ((head & 7) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4),
        0xe0.. => ((head & 15) << 12 | tail(1) << 6 | tail(2), 3),
        _ => ((head & 31) << 6 | tail(1), 2),
    };
    (wide_class(code), width.min(text.len() - at))
}

#[inline(always)]
fn wide_class(code: usize) -> Class {
    let entry = 2 * (code / BLOCK);
    let block = match (BLOCKS.get(entry), BLOCKS.get(entry + 1)) {
        (Some(&low), Some(&high)) if entry < STAGE_ONE_BYTES => usize::from(low) | usize::from(high) << 8,
        _ => return 0,
    };
    BLOCKS.get(STAGE_ONE_BYTES + block * BLOCK + code % BLOCK).copied().unwrap_or(0)
}

const fn ascii() -> [Class; 128] {
    let mut table = [0; 128];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'\r' | b'\n' => SPACE | BREAK,
            b' ' | b'\t' | 0x0b | 0x0c => SPACE,
            b'0'..=b'9' => NUMBER,
            b'A'..=b'Z' => UPPER | LETTER,
            b'a'..=b'z' => LOWER | LETTER,
            _ => 0,
        };
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_syntax::hir::{Class as HirClass, HirKind};

    fn reference(pattern: &str) -> Vec<bool> {
        let hir = regex_syntax::Parser::new().parse(pattern).expect("a class parses");
        let HirKind::Class(HirClass::Unicode(class)) = hir.kind() else { panic!("not a class") };
        let mut members = vec![false; 0x11_0000];
        for range in class.ranges() {
            members[range.start() as usize..=range.end() as usize].fill(true);
        }
        members
    }

    #[test]
    fn every_code_point_has_the_class_of_the_reference() {
        let sets = [
            (reference(r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"), UPPER),
            (reference(r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"), LOWER),
            (reference(r"\p{L}"), LETTER),
            (reference(r"\p{N}"), NUMBER),
            (reference(r"\s"), SPACE),
            (reference(r"[\r\n]"), BREAK),
        ];
        for character in (0..=0x10_ffff).filter_map(char::from_u32) {
            let wanted = sets.iter().filter(|set| set.0[character as usize]).fold(0, |class, set| class | set.1);
            let mut buffer = [0; 4];
            let text = character.encode_utf8(&mut buffer).as_bytes();
            assert_eq!(class_at(text, 0), (wanted, text.len()), "U+{:04X}", character as u32);
        }
    }

    #[test]
    fn bytes_that_are_not_text_do_not_panic() {
        for first in 128..=255 {
            for rest in [&[][..], &[0xff], &[0xff; 2], &[0xbf; 3], &[0xff; 4]] {
                let text = [&[first], rest].concat();
                class_at(&text, 0);
            }
        }
    }
}
