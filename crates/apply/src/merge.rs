//! From an original and an update to the merged text: read, locate, carry out, check.
//!
//! It does not return what has not been checked. Invariant: the same input gives the same outcome.

use crate::format;
use crate::lazy;
use crate::options::Options;
use crate::outcome::{Check, Checks, Code, Format, How, Merged, Outcome, Refused, Stage};
use crate::parsed::Ahead;
use crate::source::{Source, as_text, edits, with_lf};
use crate::splice::{Located, in_order};
use crate::verify;
use std::borrow::Cow;

/// More of an original than this is not read (bytes).
const ORIGINAL_MOST: usize = 64 << 20;
/// More of an update than this is not read (bytes).
const UPDATE_MOST: usize = 16 << 20;

/// Merges an update into a file.
pub fn merge(original: &[u8], update: &[u8], options: &Options) -> Outcome {
    merge_beside(original, update, options, &mut |_| None)
}

/// The same merge, for a caller that has the original parsed on another thread or has kept its tree.
pub fn merge_beside(original: &[u8], update: &[u8], options: &Options, ahead: Ahead<'_>) -> Outcome {
    match merged(original, update, options, ahead) {
        Ok(merged) => Outcome::Merged(merged),
        Err(refused) => Outcome::Refused(refused.inside(original)),
    }
}

fn merged(original: &[u8], update: &[u8], options: &Options, ahead: Ahead<'_>) -> Result<Merged, Refused> {
    check_size(original, ORIGINAL_MOST, "the original")?;
    check_size(update, UPDATE_MOST, "the update")?;
    let source = Source::read(original)?;
    let update = lines_of(update)?;
    let format = format::detect(&source, &update);
    let is_text = matches!(format, Format::Lazy | Format::Fragment | Format::WholeFile);
    let update = if is_text { lazy::resolved(&source, &update)? } else { Cow::Borrowed(&*update) };
    let merged = carried_out(&source, &update, format, options, ahead)?;
    if !is_text {
        let why = "an edit of this format says what it replaces, and may find that in its own result";
        let checks = Checks { idempotence: Check::Skipped(why), ..merged.checks };
        return Ok(Merged { checks, ..merged });
    }
    // What changes nothing says the same of its result, which is the original.
    if merged.edits.is_empty() || says_no_more(&merged, &update) {
        let checks = Checks { idempotence: Check::Passed, ..merged.checks };
        return Ok(Merged { checks, ..merged });
    }
    drop(source);
    let again = Source::read(merged.text.as_bytes())?;
    let twice = format::locate(format::detect(&again, &update), &again, &update, options)
        .and_then(|located| in_order(located.splices, |byte| again.line_of(byte)))
        .map(|splices| again.with(&splices));
    match twice {
        Ok(text) if text == merged.text => {
            let checks = Checks { idempotence: Check::Passed, ..merged.checks };
            Ok(Merged { checks, ..merged })
        }
        // The update no longer names one place in the result: that is no second change.
        Err(_) => Ok(merged),
        Ok(_) => Err(Refused::new(
            Code::AmbiguousLocation,
            "the update would change its own result again, so it does not say what the result is",
            "show a line of the file on each side of what is new",
        )),
    }
}

/// Whether a snippet stands in its result as it is, once, so that it has nothing more to say of it.
fn says_no_more(merged: &Merged, update: &str) -> bool {
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
    lazy::stands(&text, update)
}

fn carried_out(
    source: &Source,
    update: &str,
    format: Format,
    options: &Options,
    ahead: Ahead<'_>,
) -> Result<Merged, Refused> {
    let Located { splices, stage, reindented } = format::locate(format, source, update, options)?;
    let splices = in_order(splices, |byte| source.line_of(byte))?;
    let text = source.with(&splices);
    let checks = verify::verify(source, &splices, &text, update, options, ahead)?;
    Ok(Merged { text, edits: edits(source, &splices), how: How { format, stage, reindented }, checks })
}

fn check_size(bytes: &[u8], most: usize, what: &str) -> Result<(), Refused> {
    if bytes.len() <= most {
        return Ok(());
    }
    let message = format!("{what} has {} bytes, and at most {most} are read", bytes.len());
    Err(Refused::new(Code::TooLarge, message, "edit a smaller file"))
}

/// An update as text with LF, out of its wrapping.
pub(crate) fn lines_of(bytes: &[u8]) -> Result<String, Refused> {
    let text = as_text(bytes, "the update")?;
    let text = with_lf(text.strip_prefix('\u{feff}').unwrap_or(text));
    let update = format::unwrapped(&text);
    if update.trim().is_empty() {
        return Err(Refused::new(Code::NotAnEdit, "the update is empty", "write the lines that change"));
    }
    Ok(update.to_owned())
}
