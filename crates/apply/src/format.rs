//! The formats of updates, and the way from each to splices.
//!
//! The format is detected once: an update that breaks the rules of its format is refused, not tried as another.
//! Invariant: all edits of an update are located, or none.

mod change;
mod detect;
mod editor;
mod files;
mod find;
mod hunk;
mod lines;
mod numbers;
mod patch;
mod path;
mod search_replace;
mod similar;
mod string_replace;
mod targets;
mod unified;
mod v4a;
mod whole;

#[cfg(test)]
mod properties;

#[cfg(test)]
use detect::detect;
pub(crate) use detect::{of, unwrapped};
pub use files::{PatchAction, PatchedFile};
pub(crate) use numbers::stripped;
pub use patch::Patch;
pub(crate) use similar::{quoted, short};
pub use targets::line_hash;

use crate::language::Language;
use crate::lazy;
#[cfg(feature = "tree")]
use crate::named;
use crate::options::Options;
use crate::outcome::{Code, Format, Refused};
use crate::source::Source;
use crate::splice::{Located, Splice};

/// Locates an update (LF, unwrapped) of a known format.
pub(crate) fn locate(format: Format, source: &Source, update: &str, options: &Options) -> Result<Located, Refused> {
    match format {
        Format::Lazy | Format::Fragment => snippet(source, update, options),
        Format::WholeFile => whole::locate(source, update, options),
        Format::SearchReplace => search_replace::locate(source, update),
        Format::StringReplace => string_replace::locate(source, update),
        Format::UnifiedDiff => unified::locate(source, update),
        Format::V4a => v4a::locate(source, update),
        Format::TextEditor => editor::locate(source, update),
        Format::Targets => targets::locate(source, update, options),
    }
}

/// Refuses an update in which another patch begins below or between the edits of one: it would be left out.
fn no_other_patch(lines: &[&str], at: usize) -> Result<(), Refused> {
    let line = lines[at];
    if unified::names_files(lines, at)
        || line.starts_with("diff --git ")
        || v4a::begins_part(line)
        || search_replace::opens(line)
    {
        let message = format!("another patch begins in line {} of the update: {}", at + 1, quoted(line));
        return Err(Refused::new(
            Code::InvalidFormat,
            message,
            "write all edits in one patch of one format, or send one after the other",
        ));
    }
    Ok(())
}

/// The changes that make lines of a file, from a line on, others.
pub(crate) fn replaced(source: &Source, start: usize, old: &[&str], new: &[&str]) -> Vec<Splice> {
    change::splices(source, start, old, new, &find::Shift::default(), "the update").unwrap_or_default()
}

/// A snippet is located by its lines, and by the names that it declares where the lines leave boundaries.
fn snippet(source: &Source, update: &str, options: &Options) -> Result<Located, Refused> {
    lazy::locate(source, update).or_else(|refused| {
        let is_doubt = matches!(refused.code, Code::NoAnchor | Code::AmbiguousLocation | Code::AmbiguousDeletion);
        let language = options.parsed_as().filter(|_| is_doubt);
        language.and_then(|language| by_name(source, update, language)).ok_or(refused)
    })
}

#[cfg(feature = "tree")]
fn by_name(source: &Source, update: &str, language: Language) -> Option<Located> {
    named::locate(source, update, language)
}

#[cfg(not(feature = "tree"))]
fn by_name(_: &Source, _: &str, _: Language) -> Option<Located> {
    None
}
