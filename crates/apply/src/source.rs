//! A file as lines with LF, its kind of line ends, and the way back to its bytes.
//!
//! Invariant: without splices the bytes come back equal, whatever mixture of
//! line ends the file has.

use crate::encoding::Encoding;
use crate::line_hash::line_hash;
use crate::numbered::Numbers;
use crate::outcome::{Code, Edit, Refused};
use crate::splice::Splice;
use imara_diff::{Algorithm, Diff, InternedInput};
use memchr::{memchr_iter, memmem, memrchr};
use std::cell::OnceCell;
use std::ops::Range;

const BOM: &str = "\u{feff}";

/// A file whose line ends are all LF inside; it ends with one unless it is empty.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The text.
    pub text: String,
    /// Where each line begins, and the end of the text.
    starts: Vec<usize>,
    ends: LineEnds,
    bom: bool,
    final_newline: bool,
    encoding: Encoding,
    /// Its lines as numbers, once they are asked for.
    numbers: OnceCell<Numbers>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum LineEnds {
    Lf,
    Crlf,
    /// Whether each line ends with CRLF.
    Mixed(Vec<bool>),
}

impl LineEnds {
    fn of(text: &str, final_newline: bool) -> LineEnds {
        if memmem::find(text.as_bytes(), b"\r\n").is_none() {
            return LineEnds::Lf;
        }
        let is_crlf = |end: usize| text[..end].ends_with('\r');
        if memchr_iter(b'\n', text.as_bytes()).all(is_crlf) {
            return LineEnds::Crlf;
        }
        // The last line of a file without a final newline has no end that could differ.
        let last = if final_newline { None } else { Some(false) };
        LineEnds::Mixed(memchr_iter(b'\n', text.as_bytes()).map(is_crlf).chain(last).collect())
    }
}

impl Source {
    /// Reads a file of which nothing is said.
    ///
    /// # Errors
    /// When it holds NUL bytes.
    pub fn read(bytes: &[u8]) -> Result<Source, Refused> {
        Source::read_as(bytes, None)
    }

    /// Reads a file in the encoding that is stated.
    ///
    /// # Errors
    /// When it holds NUL bytes, or is not UTF-8 although that is stated.
    pub fn read_as(bytes: &[u8], stated: Option<Encoding>) -> Result<Source, Refused> {
        without_nul(bytes, "the original")?;
        if stated == Some(Encoding::Utf8) {
            as_text(bytes, "the original")?;
        }
        let (text, encoding) = match stated {
            Some(encoding) => (encoding.text(bytes), encoding),
            None => Encoding::decode(bytes),
        };
        let (bom, text) = text.strip_prefix(BOM).map_or((false, &*text), |rest| (true, rest));
        let final_newline = text.is_empty() || text.ends_with('\n');
        let ends = LineEnds::of(text, final_newline);
        let mut text = with_lf(text);
        if !final_newline {
            text.push('\n');
        }
        let starts = line_starts(&text);
        Ok(Source { text, starts, ends, bom, final_newline, encoding, numbers: OnceCell::new() })
    }

    /// A file of some lines, as they are.
    pub fn of_lines<'l>(lines: impl Iterator<Item = &'l str>) -> Source {
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        let starts = line_starts(&text);
        let (ends, encoding, numbers) = (LineEnds::Lf, Encoding::Utf8, OnceCell::new());
        Source { text, starts, ends, bom: false, final_newline: true, encoding, numbers }
    }

    /// Its lines as numbers.
    pub fn numbers(&self) -> &Numbers {
        self.numbers.get_or_init(|| Numbers::of(self.line_count(), |line| self.line(line)))
    }

    /// The encoding that its bytes have.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Takes over how the lines of a text end, for a file that has none of its own.
    pub fn take_ends(&mut self, text: &str) {
        if self.text.is_empty() {
            self.ends = LineEnds::of(text, true);
        }
    }

    /// The hash by which edits name a line, counted from 0, and by which it is shown: that of its bytes in the file.
    pub fn line_hash(&self, number: usize) -> String {
        line_hash(self.encoding.encode(self.line(number)))
    }

    /// Checks that the new text of splices can be written in the encoding of the file.
    ///
    /// # Errors
    /// When it has signs that the encoding has not, or of which nobody knows how that writes them.
    pub fn check_signs(&self, splices: &[Splice]) -> Result<(), Refused> {
        // Signs in the lines that go are the file's own, read and written as the same bytes.
        let is_own = |sign: char| splices.iter().any(|splice| self.text[splice.old.clone()].contains(sign));
        let strange = |sign: &char| !self.encoding.knows(*sign) && !is_own(*sign);
        let Some(sign) = splices.iter().find_map(|splice| splice.new.chars().find(strange)) else { return Ok(()) };
        Err(self.no_sign(sign))
    }

    /// The refusal of a sign that cannot be written.
    pub fn no_sign(&self, sign: char) -> Refused {
        if self.encoding != Encoding::Bytes {
            let message = format!("the stated encoding has no sign {sign:?}");
            return Refused::new(
                Code::NotText,
                message,
                "write the edit in signs that it has, or convert the file to UTF-8",
            );
        }
        let message =
            format!("the file is not UTF-8, and nobody has said in which encoding {sign:?} is to be written there");
        let known: Vec<&str> = Encoding::NAMED.iter().skip(1).map(|(name, _)| *name).collect();
        let hint = format!(
            "state the file's encoding ({}), write the edit in ASCII, or convert the file to UTF-8 first",
            known.join(", ")
        );
        Refused::new(Code::NotText, message, hint)
    }

    /// How many lines there are.
    pub fn line_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether the file ends with a line end, as an empty one is taken to do.
    pub fn has_final_newline(&self) -> bool {
        self.final_newline
    }

    /// The text without the end of a last line that has none in the file.
    pub fn written(&self) -> &str {
        if self.final_newline { &self.text } else { self.text.strip_suffix('\n').unwrap_or(&self.text) }
    }

    /// A line without its end, counted from 0.
    pub fn line(&self, number: usize) -> &str {
        &self.text[self.starts[number]..self.starts[number + 1] - 1]
    }

    /// All lines, without their ends.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        (0..self.line_count()).map(|number| self.line(number))
    }

    /// The bytes of lines, their ends included.
    pub fn bytes_of(&self, lines: Range<usize>) -> Range<usize> {
        self.starts[lines.start]..self.starts[lines.end]
    }

    /// The line that a byte lies in; one past the end lies in a line of its own.
    pub fn line_of(&self, byte: usize) -> usize {
        self.starts.partition_point(|&start| start <= byte) - 1
    }

    /// The file with the splices carried out, which come in order. A new line ends as the line that it replaces, further ones as the
    /// last that is replaced, and inserted ones as the line that they come before.
    pub fn with(&self, splices: &[Splice]) -> String {
        let ends = if self.ends == LineEnds::Lf { 0 } else { self.line_count() };
        let new: usize = splices.iter().map(|it| it.new.len()).sum();
        let mut out = String::with_capacity(self.text.len() + ends + new + 4);
        if self.bom {
            out.push_str(BOM);
        }
        let mut at = 0;
        for splice in splices {
            self.copy(at..splice.old.start, &mut out);
            self.push_new(splice, &mut out);
            at = splice.old.end;
        }
        self.copy(at..self.text.len(), &mut out);
        if !self.final_newline && out.ends_with('\n') {
            out.pop();
            if self.ends_with_crlf(self.line_count().saturating_sub(1)) {
                out.pop();
            }
        }
        out
    }

    /// A part of the text, with LF, in which the splices, in order, are carried out; all of them lie in it.
    pub fn spliced(&self, splices: &[Splice], within: Range<usize>) -> String {
        let mut text = String::with_capacity(within.len() + splices.iter().map(|it| it.new.len()).sum::<usize>());
        let mut at = within.start;
        for splice in splices {
            text.push_str(&self.text[at..splice.old.start]);
            text.push_str(&splice.new);
            at = splice.old.end;
        }
        text.push_str(&self.text[at..within.end]);
        text
    }

    /// Whether two lists of splices make the same file. Text outside of both is not compared.
    pub fn is_same_with(&self, one: &[Splice], other: &[Splice]) -> bool {
        if one == other {
            return true;
        }
        let all = || one.iter().chain(other);
        let first = all().map(|it| it.old.start).min().unwrap_or(0);
        let last = all().map(|it| it.old.end).max().unwrap_or(0);
        let [within_one, within_other] = [one, other].map(|splices| self.spliced(splices, first..last));
        let is_same = within_one == within_other;
        // With mixed line ends equal texts can give different bytes; a lone CR, or no final newline, can hide a difference.
        let is_mixed = matches!(self.ends, LineEnds::Mixed(_));
        let has_cr = |text: &str| is_mixed && memmem::find(text.as_bytes(), b"\r\n").is_some();
        let is_all = (first, last) == (0, self.text.len()) && !self.final_newline;
        if is_same && is_mixed
            || !is_same && (is_all || [&self.text, &within_one, &within_other].iter().any(|it| has_cr(it)))
        {
            return self.with(one) == self.with(other);
        }
        is_same
    }

    fn push_new(&self, splice: &Splice, out: &mut String) {
        let LineEnds::Mixed(ends) = &self.ends else { return push(&splice.new, self.ends == LineEnds::Crlf, out) };
        let first = self.line_of(splice.old.start);
        let replaced = self.text[splice.old.clone()].matches('\n').count();
        // A file without lines has the ends of the text that fills it.
        let last = if self.text.is_empty() { ends.len() } else { replaced }.saturating_sub(1);
        for (at, piece) in splice.new.split_inclusive('\n').enumerate() {
            push(piece, self.ends_with_crlf(first + at.min(last)), out);
        }
    }

    fn copy(&self, bytes: Range<usize>, out: &mut String) {
        match &self.ends {
            LineEnds::Lf => out.push_str(&self.text[bytes]),
            LineEnds::Crlf => push(&self.text[bytes], true, out),
            LineEnds::Mixed(_) => {
                let first = self.line_of(bytes.start);
                for (line, piece) in (first..).zip(self.text[bytes].split_inclusive('\n')) {
                    push(piece, self.ends_with_crlf(line), out);
                }
            }
        }
    }

    fn ends_with_crlf(&self, line: usize) -> bool {
        match &self.ends {
            LineEnds::Lf => false,
            LineEnds::Crlf => true,
            LineEnds::Mixed(crlf) => {
                // A last line without an end takes after the one before it.
                let last = if self.final_newline { crlf.len().saturating_sub(1) } else { crlf.len().saturating_sub(2) };
                crlf.get(line.min(last)).copied().unwrap_or(false)
            }
        }
    }
}

/// The lines that splices change, which come in order.
pub(crate) fn edits(source: &Source, splices: &[Splice]) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    let mut grown: isize = 0;
    for splice in splices {
        let first = source.line_of(splice.old.start);
        let whole =
            splice.old.start == source.bytes_of(first.min(source.line_count())..first.min(source.line_count())).start;
        let old_lines = source.text[splice.old.clone()].matches('\n').count();
        let new_lines = splice.new.matches('\n').count();
        // A splice that ends within a line changes the rest of that line, too.
        let is_part = |text: &str| !text.is_empty() && !text.ends_with('\n');
        let cut = !whole || is_part(&source.text[splice.old.clone()]) || is_part(&splice.new);
        let extra = usize::from(cut);
        edits.push(Edit {
            old_start: first + 1,
            old_count: old_lines + extra,
            new_start: (first as isize + grown) as usize + 1,
            new_count: new_lines + extra,
        });
        grown += new_lines as isize - old_lines as isize;
    }
    edits
}

/// The lines that differ between two texts, by what they end with as well.
pub(crate) fn raw_edits(old: &str, new: &str) -> Vec<Edit> {
    let input = InternedInput::new(old, new);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let edit = |hunk: imara_diff::Hunk| Edit {
        old_start: hunk.before.start as usize + 1,
        old_count: hunk.before.len(),
        new_start: hunk.after.start as usize + 1,
        new_count: hunk.after.len(),
    };
    diff.hunks().map(edit).collect()
}

/// Bytes as text.
pub(crate) fn as_text<'b>(bytes: &'b [u8], what: &str) -> Result<&'b str, Refused> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = memchr_iter(b'\n', &bytes[..error.valid_up_to()]).count() + 1;
        Refused::new(Code::NotText, format!("{what} is not UTF-8 from line {line} on"), "convert it to UTF-8 first")
    })?;
    without_nul(bytes, what)?;
    Ok(text)
}

fn without_nul(bytes: &[u8], what: &str) -> Result<(), Refused> {
    match memchr::memchr(0, bytes) {
        Some(_) => Err(Refused::new(Code::NotText, format!("{what} holds NUL bytes, so it is no text"), "")),
        None => Ok(()),
    }
}

/// A text whose CRLF are LF.
pub(crate) fn with_lf(text: &str) -> String {
    // One more for the end of a last line that has none.
    let mut out = String::with_capacity(text.len() + 1);
    let mut at = 0;
    for end in memmem::find_iter(text.as_bytes(), b"\r\n") {
        out.push_str(&text[at..end]);
        at = end + 1;
    }
    out.push_str(&text[at..]);
    out
}

/// The bytes of the line around a byte, without its end.
pub(crate) fn line_around(text: &str, byte: usize) -> Range<usize> {
    let start = memrchr(b'\n', &text.as_bytes()[..byte]).map_or(0, |end| end + 1);
    start..start + text[start..].lines().next().map_or(0, str::len)
}

fn line_starts(text: &str) -> Vec<usize> {
    let (bytes, lows) = (text.as_bytes(), u64::from_le_bytes([0x7f; 8]));
    let mut starts = Vec::with_capacity(memchr_iter(b'\n', bytes).count() + 1);
    starts.push(0);
    // Lines are too short for a search from each line end to the next: eight bytes are looked at together.
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ u64::from_le_bytes([b'\n'; 8]);
        let mut ends = !(((differs & lows) + lows) | differs | lows);
        while ends != 0 {
            starts.push(8 * at + ends.trailing_zeros() as usize / 8 + 1);
            ends &= ends - 1;
        }
    }
    starts.extend(memchr_iter(b'\n', rest).map(|at| bytes.len() - rest.len() + at + 1));
    starts
}

fn push(text: &str, crlf: bool, out: &mut String) {
    if !crlf {
        return out.push_str(text);
    }
    let mut at = 0;
    for end in memchr_iter(b'\n', text.as_bytes()) {
        out.push_str(&text[at..end]);
        out.push_str("\r\n");
        at = end + 1;
    }
    out.push_str(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Splices, in order, that take lines of a text away and bring others.
    fn splices(source: &Source, changes: &[(usize, usize, String)]) -> Vec<Splice> {
        let count = source.line_count();
        let mut at = 0;
        let splices = changes.iter().map(|(skipped, gone, new)| {
            let start = (at + skipped).min(count);
            let end = (start + gone).min(count);
            at = end + 1;
            Splice { old: source.bytes_of(start..end), new: new.clone() }
        });
        let mut splices: Vec<Splice> = splices.collect();
        splices.dedup_by_key(|splice| splice.old.start);
        splices
    }

    proptest! {
        #[test]
        fn files_are_the_same_by_their_splices_as_by_their_text(
            text in "(\u{feff})?([a\r]{0,2}(\n|\r\n)){0,4}[a]{0,1}",
            one in prop::collection::vec((0..2_usize, 0..3_usize, "(a?\r?\n){0,2}"), 0..3),
            other in prop::collection::vec((0..2_usize, 0..3_usize, "(a?\r?\n){0,2}"), 0..3),
        ) {
            let source = Source::read(text.as_bytes()).expect("text");
            let (one, other) = (splices(&source, &one), splices(&source, &other));
            prop_assert_eq!(source.is_same_with(&one, &other), source.with(&one) == source.with(&other));
        }

        #[test]
        fn bytes_come_back_equal(text in "(\u{feff})?([a\u{e9} ]{0,3}(\n|\r\n|\r)){0,6}[a]{0,2}") {
            let source = Source::read(text.as_bytes()).expect("text");
            prop_assert_eq!(source.with(&[]), text);
        }
    }

    fn with(text: &str, old: Range<usize>, new: &str) -> String {
        Source::read(text.as_bytes()).expect("text").with(&[Splice { old, new: new.to_owned() }])
    }

    #[test]
    fn new_lines_end_as_those_around_them() {
        assert_eq!(with("a\r\nb\r\n", 2..2, "x\ny\n"), "a\r\nx\r\ny\r\nb\r\n");
        assert_eq!(with("a\nb\r\nc\r\n", 2..4, "x\n"), "a\nx\r\nc\r\n");
        assert_eq!(with("a\nb\r\nc\n", 0..6, "x\ny\nz\nu\n"), "x\ny\r\nz\nu\n", "each as the one that it replaces");
        assert_eq!(with("a\nb\r\n", 0..4, "x\ny\nz\n"), "x\ny\r\nz\r\n", "further ones as the last");
        assert_eq!(with("a\r\nb", 2..4, "x\ny\n"), "a\r\nx\r\ny", "no final newline");
        assert_eq!(with("\u{feff}a\n", 0..0, "x\n"), "\u{feff}x\na\n");
        assert_eq!(with("", 0..0, "x\n"), "x\n");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(as_text(b"a\n\xff", "the update").map_err(|refused| refused.code), Err(Code::NotText));
        assert_eq!(Source::read(b"a\0").err().map(|refused| refused.code), Some(Code::NotText));
    }
}
