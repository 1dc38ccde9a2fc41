//! From an original and an update to the merged text: read, locate, splice, check.
//!
//! Invariant: only checked texts are returned; the same input gives the same outcome.

use crate::format;
use crate::lazy;
use crate::options::Options;
use crate::outcome::{Check, Checks, Code, Format, How, Merged, Outcome, Refused, Stage};
use crate::parsed::ParseProvider;
use crate::source::{Source, as_text, edits, with_lf};
use crate::splice::{Located, in_order};
use crate::verify;
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
    match merged(original, update, options, provider) {
        Ok(merged) => Outcome::Merged(merged),
        Err(refused) => Outcome::Refused(refused.inside(original)),
    }
}

fn merged(original: &[u8], update: &[u8], options: &Options, provider: ParseProvider<'_>) -> Result<Merged, Refused> {
    check_size(original, MAX_ORIGINAL_BYTES, "the original")?;
    check_size(update, MAX_UPDATE_BYTES, "the update")?;
    let source = Source::read(original)?;
    let written = lines_of(update)?;
    let is_plain = options.format.is_none_or(is_text);
    let written = is_plain.then(|| format::stripped(&source, &written)).flatten().unwrap_or(written);
    let format = format::of(&source, &written, options)?;
    let is_text = is_text(format);
    let update = if is_text { lazy::resolved(&source, &written)? } else { Cow::Borrowed(&*written) };
    let merged = apply(&source, &update, format, options, provider)?;
    if !is_text {
        let reason = "an edit of this format says what it replaces, and may find that in its own result";
        let checks = Checks { idempotence: Check::Skipped(reason), ..merged.checks };
        return Ok(Merged { checks, ..merged });
    }
    // If nothing changed, the result is the original, and merging again changes nothing either.
    if merged.edits.is_empty() || is_already_applied(&merged, &update) {
        let checks = Checks { idempotence: Check::Passed, ..merged.checks };
        return Ok(Merged { checks, ..merged });
    }
    drop(source);
    let again = Source::read(&merged.bytes())?;
    let twice = text_of(&again, &written, options);
    match twice {
        Ok(text) if text == merged.text => {
            let checks = Checks { idempotence: Check::Passed, ..merged.checks };
            Ok(Merged { checks, ..merged })
        }
        // The update no longer names one place in the result, so merging again changes nothing.
        Err(_) => Ok(merged),
        Ok(_) => Err(Refused::new(
            Code::AmbiguousLocation,
            "the update would change its own result again, so it does not say what the result is",
            "show a line of the file on each side of what is new",
        )),
    }
}

fn is_text(format: Format) -> bool {
    matches!(format, Format::Lazy | Format::Fragment | Format::WholeFile)
}

/// The text that an update (LF, unwrapped) makes of a file, unchecked.
fn text_of(source: &Source, written: &str, options: &Options) -> Result<String, Refused> {
    let format = format::of(source, written, options)?;
    let update = if is_text(format) { lazy::resolved(source, written)? } else { Cow::Borrowed(written) };
    let located = format::locate(format, source, &update, options)?;
    Ok(source.with(&in_order(located.splices, |byte| source.line_of(byte))?))
}

/// Whether the result already has the snippet as it is, at one place, so that merging again changes nothing.
fn is_already_applied(merged: &Merged, update: &str) -> bool {
    let full = |text: &str| text.lines().filter(|line| !lazy::is_blank(line)).count();
    let is_part = match merged.how.format {
        Format::Lazy => true,
        // It is no whole file of its result.
        Format::Fragment => full(update) * 2 < full(&merged.text),
        _ => false,
    };
    if !is_part || merged.how.stage != Stage::Lines {
        return false;
    }
    let text = merged.text.strip_prefix('\u{feff}').unwrap_or(&merged.text);
    let text = if text.contains("\r\n") { Cow::Owned(with_lf(text)) } else { Cow::Borrowed(text) };
    lazy::is_applied(&text, update)
}

fn apply(
    source: &Source,
    update: &str,
    format: Format,
    options: &Options,
    provider: ParseProvider<'_>,
) -> Result<Merged, Refused> {
    let Located { splices, stage, reindented } = format::locate(format, source, update, options)?;
    let splices = in_order(splices, |byte| source.line_of(byte))?;
    source.check_signs(&splices)?;
    let text = source.with(&splices);
    let checks = verify::verify(source, &splices, &text, update, format, options, provider)?;
    let how = How { format, stage, reindented };
    Ok(Merged { text, encoding: source.encoding(), edits: edits(source, &splices), how, checks })
}

fn check_size(bytes: &[u8], most: usize, what: &str) -> Result<(), Refused> {
    if bytes.len() <= most {
        return Ok(());
    }
    let message = format!("{what} has {} bytes, and at most {most} are read", bytes.len());
    Err(Refused::new(Code::TooLarge, message, "edit a smaller file"))
}

/// An update as text with LF, without its fence.
pub(crate) fn lines_of(bytes: &[u8]) -> Result<String, Refused> {
    let text = as_text(bytes, "the update")?;
    let text = with_lf(text.strip_prefix('\u{feff}').unwrap_or(text));
    let update = format::unwrapped(&text);
    if update.trim().is_empty() {
        return Err(Refused::new(Code::NotAnEdit, "the update is empty", "write the lines that change"));
    }
    Ok(update.to_owned())
}
