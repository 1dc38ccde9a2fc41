//! From an original and an update to the merged text: read, locate, splice, check.
//!
//! Invariant: only checked texts are returned; the same input gives the same outcome.

use crate::evidence::Evidence;
use crate::format::{self, Update};
use crate::lazy::{self, Asked};
use crate::options::Options;
use crate::outcome::{Check, Checks, Code, Format, How, Merged, Outcome, Refused, Stage};
use crate::parsed::ParseProvider;
use crate::source::{Source, as_text, edits, raw_edits, with_lf};
use crate::splice::{Located, in_order};
use crate::verify;
use memchr::memmem;
use std::borrow::Cow;

/// Larger originals are refused: far above any source file, and small enough to hold several copies (bytes).
const MAX_ORIGINAL_BYTES: usize = 64 << 20;
/// Larger updates are refused: far above what a model writes in one answer (bytes).
const MAX_UPDATE_BYTES: usize = 16 << 20;

/// Merges an update into a file.
pub fn merge(original: &[u8], update: &[u8], options: &Options) -> Outcome {
    merge_with_parse(original, update, options, &mut |_| None)
}

/// The same merge, for a caller that parses the original on another thread or has cached its tree.
pub fn merge_with_parse(original: &[u8], update: &[u8], options: &Options, provider: ParseProvider<'_>) -> Outcome {
    match merged(original, update, options, provider, Asked::Sure) {
        Ok((merged, _)) => Outcome::Merged(merged),
        Err(refused) => Outcome::Refused(refused.inside(original)),
    }
}

/// The likeliest merge of a snippet, however likely, if the checks let it pass; with what is decided by: to measure and fit the decision.
#[doc(hidden)]
pub fn likeliest(original: &[u8], update: &[u8], options: &Options) -> Result<(Merged, Option<Evidence>), Refused> {
    merged(original, update, options, &mut |_| None, Asked::Any)
}

fn merged(
    original: &[u8],
    update: &[u8],
    options: &Options,
    provider: ParseProvider<'_>,
    asked: Asked,
) -> Result<(Merged, Option<Evidence>), Refused> {
    check_size(original, MAX_ORIGINAL_BYTES, "the original")?;
    check_size(update, MAX_UPDATE_BYTES, "the update")?;
    if options.format == Some(Format::WholeFile) {
        return Ok((whole(original, update, options, provider)?, None));
    }
    let mut source = Source::read_as(original, options.encoding)?;
    let Update { text: written, format } = format::read(&mut source, update, options)?;
    let is_text = format.is_text();
    let update = if is_text { lazy::resolved(&source, &written)? } else { Cow::Borrowed(&*written) };
    let (merged, evidence) = apply(&source, &update, format, options, provider, asked)?;
    let idempotence = if !is_text {
        Check::Skipped("an edit of this format says what it replaces, and may find that in its own result")
    } else if merged.edits.is_empty() || is_already_applied(&merged, &update) {
        // If nothing changed, the result is the original, and merging again changes nothing either.
        Check::Passed
    } else {
        drop(source);
        let again = Source::read_as(&merged.bytes(), options.encoding)?;
        match text_of(&again, &written, options, Asked::Sure) {
            Ok(text) if text == merged.text => Check::Passed,
            // The update no longer names one place in the result, so merging again changes nothing.
            Err(_) => merged.checks.idempotence,
            Ok(_) => {
                return Err(Refused::new(
                    Code::AmbiguousLocation,
                    "the update would change its own result again, so it does not say what the result is",
                    "show a line of the file on each side of what is new",
                ));
            }
        }
    };
    let checks = Checks { idempotence, ..merged.checks };
    Ok((Merged { checks, ..merged }, evidence))
}

/// A stated whole file: the file becomes the update, byte for byte, or it is refused. What is said of lines is found and checked with LF.
fn whole(original: &[u8], update: &[u8], options: &Options, provider: ParseProvider<'_>) -> Result<Merged, Refused> {
    let format = Format::WholeFile;
    // What the file was is only looked at, so that it may be made another encoding.
    let source = Source::read_as(original, options.encoding).or_else(|_| Source::read(original))?;
    let given = as_text(update, "the update")?;
    if given.trim().is_empty() {
        return Err(Refused::new(Code::NotAnEdit, "the update is empty", "write all of the file"));
    }
    let encoding = options.encoding.unwrap_or_else(|| source.encoding());
    if let Some(sign) = given.chars().find(|&sign| !encoding.knows(sign)) {
        return Err(source.no_sign(sign));
    }
    let lf = with_lf(given.strip_prefix('\u{feff}').unwrap_or(given));
    let Located { splices, stage, reindented, .. } = format::locate(format, &source, &lf, options, Asked::Sure)?;
    let splices = in_order(splices, |byte| source.line_of(byte))?;
    let checks = verify::verify(&source, &splices, &source.with(&splices), &lf, format, options, provider)?;
    Ok(Merged {
        text: given.to_owned(),
        encoding,
        edits: raw_edits(&source.with(&[]), given),
        how: How { format, stage, reindented },
        checks: Checks { idempotence: Check::Passed, ..checks },
    })
}

/// The text that an update (LF, unwrapped) makes of a file, unchecked.
fn text_of(source: &Source, written: &str, options: &Options, asked: Asked) -> Result<String, Refused> {
    let format = format::of(source, written, options)?;
    let update = if format.is_text() { lazy::resolved(source, written)? } else { Cow::Borrowed(written) };
    let located = format::locate(format, source, &update, options, asked)?;
    Ok(source.with(&in_order(located.splices, |byte| source.line_of(byte))?))
}

/// Whether the result already has the snippet as it is, at one place, so that merging again changes nothing.
fn is_already_applied(merged: &Merged, update: &str) -> bool {
    let full = |text: &str| text.lines().filter(|line| !lazy::is_blank(line)).count();
    // No more lines are counted than say it.
    let has_more = |text: &str, most: usize| text.lines().filter(|line| !lazy::is_blank(line)).nth(most).is_some();
    let is_part = match merged.how.format {
        Format::Lazy => true,
        // It is no whole file of its result.
        Format::Fragment => has_more(&merged.text, full(update) * 2),
        _ => false,
    };
    if !is_part || merged.how.stage != Stage::Lines {
        return false;
    }
    let text = merged.text.strip_prefix('\u{feff}').unwrap_or(&merged.text);
    let text =
        if memmem::find(text.as_bytes(), b"\r\n").is_some() { Cow::Owned(with_lf(text)) } else { Cow::Borrowed(text) };
    lazy::is_applied(&text, update)
}

fn apply(
    source: &Source,
    update: &str,
    format: Format,
    options: &Options,
    provider: ParseProvider<'_>,
    asked: Asked,
) -> Result<(Merged, Option<Evidence>), Refused> {
    let Located { splices, stage, reindented, evidence } = format::locate(format, source, update, options, asked)?;
    let splices = in_order(splices, |byte| source.line_of(byte))?;
    source.check_signs(&splices)?;
    let text = source.with(&splices);
    let checks = verify::verify(source, &splices, &text, update, format, options, provider)?;
    let how = How { format, stage, reindented };
    let edits = edits(source, &splices);
    Ok((Merged { text, encoding: source.encoding(), edits, how, checks }, evidence))
}

fn check_size(bytes: &[u8], most: usize, what: &str) -> Result<(), Refused> {
    if bytes.len() <= most {
        return Ok(());
    }
    let message = format!("{what} has {} bytes, and at most {most} are read", bytes.len());
    Err(Refused::new(Code::TooLarge, message, "edit a smaller file"))
}

#[cfg(test)]
mod tests {
    use super::{Options, Outcome, merge};
    use crate::{Code, Encoding, Format};

    fn whole(original: &[u8], update: &str, encoding: Option<Encoding>) -> Result<Vec<u8>, Code> {
        let options = Options { format: Some(Format::WholeFile), encoding, ..Options::default() };
        match merge(original, update.as_bytes(), &options) {
            Outcome::Merged(merged) => {
                assert_eq!(merged.is_unchanged(), *merged.bytes() == *original, "{update:?}");
                Ok(merged.bytes().into_owned())
            }
            Outcome::Refused(refused) => Err(refused.code),
        }
    }

    #[test]
    fn a_stated_whole_file_is_taken_byte_for_byte() {
        for original in ["", "a\n", "1 | a\n2 | b\n", "\u{feff}a\r\nb\r\n", "a", "```\na\n```\n"] {
            for update in [
                "1 | a\n2 | b\n",
                "1 | a\n2 | c\n",
                "  1\ta\n",
                "```py\na\n```\n",
                "src/a.py\n```\na\n```",
                "a\r\nb\nc\r\n",
                "\u{feff}a\nb",
                "a\r\nb\r\n",
                "a",
                "\n\na\n\n",
                "a\rb\n",
            ] {
                assert_eq!(whole(original.as_bytes(), update, None), Ok(update.as_bytes().to_vec()), "{original:?}");
            }
        }
    }

    #[test]
    fn a_stated_whole_file_does_not_change_the_encoding_unless_that_is_stated() {
        let file = b"# \xe9\nx = 1\n";
        assert_eq!(whole(file, "x = 2\n", None), Ok(b"x = 2\n".to_vec()));
        assert_eq!(whole(file, "# \u{e9}\nx = 2\n", None), Err(Code::NotText));
        assert_eq!(whole(file, "# \u{e9}\n", Some(Encoding::Latin1)), Ok(b"# \xe9\n".to_vec()));
        assert_eq!(whole(file, "# \u{e9}\n", Some(Encoding::Utf8)), Ok("# \u{e9}\n".as_bytes().to_vec()));
    }

    #[test]
    fn a_new_file_keeps_the_line_ends_that_it_is_given() {
        let made = |update: &str| match merge(b"", update.as_bytes(), &Options::default()) {
            Outcome::Merged(merged) => merged.text,
            Outcome::Refused(refused) => panic!("{refused}"),
        };
        assert_eq!(made("a\r\nb\r\n"), "a\r\nb\r\n");
        assert_eq!(made("a\r\nb\nc\r\n"), "a\r\nb\nc\r\n");
        assert_eq!(made("a\nb\n"), "a\nb\n");
        assert_eq!(made("```\r\na\r\n```\r\n"), "a\r\n");
        assert_eq!(made(r#"{"old_string": "", "new_string": "a\r\nb"}"#), "a\r\nb");
        assert_eq!(made("{\r\n\"old_string\": \"\",\r\n\"new_string\": \"a\\nb\\n\"}"), "a\nb\n");
        assert_eq!(made("<<<<<<< SEARCH\r\n=======\r\na\r\n>>>>>>> REPLACE\r\n"), "a\r\n");
    }
}
