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
mod syntax;
mod targets;
mod unified;
mod v4a;
mod whole;

#[cfg(test)]
mod properties;

#[cfg(test)]
use detect::detect;
pub(crate) use detect::of;
use detect::unwrapped;
pub use files::{PatchAction, PatchedFile};
pub use patch::Patch;
pub(crate) use similar::{quoted, short};

use crate::language::Language;
use crate::lazy::{self, Asked};
#[cfg(feature = "tree")]
use crate::named;
use crate::options::Options;
use crate::outcome::{Code, Format, Refused};
use crate::source::{Source, as_text, with_lf};
use crate::splice::{Located, Splice};
use std::collections::BTreeSet;

/// An update as it is worked on, and its format.
pub(crate) struct Update {
    /// With LF, and without a fence around all of it or the line numbers of a shown file.
    pub text: String,
    pub format: Format,
}

/// Reads an update; a file that has no lines takes over how those of the update end. A stated whole file is not read here: nothing is
/// taken off that.
///
/// # Errors
/// When it is no text or empty, or holds what may be none of the file.
pub(crate) fn read(source: &mut Source, update: &[u8], options: &Options) -> Result<Update, Refused> {
    let given = as_text(update, "the update")?;
    let given = given.strip_prefix('\u{feff}').unwrap_or(given);
    let lf = with_lf(given);
    let bare = unwrapped(&lf);
    if bare.trim().is_empty() {
        return Err(Refused::new(Code::NotAnEdit, "the update is empty", "write the lines that change"));
    }
    let may_be_shown = options.format.is_none_or(Format::is_text);
    let text = may_be_shown.then(|| numbers::stripped(source, bare)).flatten().unwrap_or_else(|| bare.to_owned());
    let format = of(source, &text, options)?;
    if format.is_text() {
        syntax::refuse_unread(source, &text, options.path.as_deref())?;
    }
    match format {
        _ if format.is_text() && text.len() == lf.len() => source.take_ends(given),
        Format::StringReplace | Format::TextEditor | Format::Targets => {}
        _ if patch::ends_with_crlf(given) => source.take_ends("\r\n"),
        _ => {}
    }
    Ok(Update { text, format })
}

/// Locates an update (LF, unwrapped) of a known format.
pub(crate) fn locate(
    format: Format,
    source: &Source,
    update: &str,
    options: &Options,
    asked: Asked,
) -> Result<Located, Refused> {
    if let Some(path) = options.path.as_deref().filter(|_| source.text.is_empty()) {
        refuse_other_file(format, update, path)?;
    }
    match format {
        Format::Lazy => snippet(source, update, options, asked),
        Format::Fragment => {
            let located = snippet(source, update, options, asked)?;
            refuse_strangers(source, update, &located)?;
            if options.format.is_none() {
                refuse_staying_edge(source, update, &located)?;
            }
            Ok(located)
        }
        Format::WholeFile => whole::locate(source, update, options),
        Format::SearchReplace => search_replace::locate(source, update),
        Format::StringReplace => string_replace::locate(source, update),
        Format::UnifiedDiff => unified::locate(source, update),
        Format::V4a => v4a::locate(source, update),
        Format::TextEditor => editor::locate(source, update),
        Format::Targets => targets::locate(source, update, options),
    }
}

/// Refuses lines none of which the file has and which are more than those in whose place they would come: some may be words above them.
fn refuse_strangers(source: &Source, update: &str, located: &Located) -> Result<(), Refused> {
    let (goes, comes) = located.splices.iter().fold((0, 0), |(goes, comes), splice| {
        (goes + lines_with_text(&source.text[splice.old.clone()]), comes + lines_with_text(&splice.new))
    });
    if comes <= goes {
        return Ok(());
    }
    let known: BTreeSet<&str> = source.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if update.lines().any(|line| known.contains(line.trim())) {
        return Ok(());
    }
    let message = "no line of the update is one of the file, so that some may be no lines of it at all";
    Err(Refused::new(Code::NoAnchor, message, "show a line of the file as it is, or state the format whole_file"))
}

fn lines_with_text(text: &str) -> usize {
    text.lines().filter(|line| !lazy::is_blank(line)).count()
}

/// Fewer lines with text are seen at a glance: an excerpt may well show all but one of them.
const SMALL: usize = 10;

/// Refuses lines that are nearly a whole file where its first or its last line would stay and is not shown: it may be meant to go.
fn refuse_staying_edge(source: &Source, update: &str, located: &Located) -> Result<(), Refused> {
    let (new, old) = (lines_with_text(update), lines_with_text(&source.text));
    if old < SMALL || new * 4 < old * 3 {
        return Ok(());
    }
    let at = || (0..source.line_count()).filter(|&line| !lazy::is_blank(source.line(line)));
    let stays = |line: &usize| {
        let bytes = source.bytes_of(*line..*line + 1);
        let goes = located.splices.iter().any(|splice| splice.old.start <= bytes.start && bytes.end <= splice.old.end);
        !goes && !update.lines().any(|shown| shown.trim() == source.line(*line).trim())
    };
    let Some(line) = at().next().into_iter().chain(at().next_back()).find(stays) else { return Ok(()) };
    let message = format!(
        "line {} is at an edge of the file and not in the update, which has nearly as many lines as the file: it may be meant to stay or to go",
        line + 1
    );
    let hint = "put a marker where lines stay, or state the format whole_file";
    Err(Refused::new(Code::AmbiguousDeletion, message, hint).at([(line, line)]))
}

/// Refuses an update that names another file: an empty one has no lines by which it could be seen that the update is not for it.
fn refuse_other_file(format: Format, update: &str, path: &str) -> Result<(), Refused> {
    let lines: Vec<&str> = update.lines().collect();
    let files = match format {
        Format::V4a => v4a::files(&lines),
        Format::UnifiedDiff => unified::files(&lines),
        Format::SearchReplace => search_replace::files(&lines),
        _ => return Ok(()),
    };
    // What is wrong with one that cannot be read is said where it is located.
    match files.unwrap_or_default().iter().find(|file| !path::same(&file.path, path)) {
        None => Ok(()),
        Some(file) => Err(Refused::new(
            Code::InvalidFormat,
            format!("the update is for {}, and the file at hand is {path}", file.path),
            "name the file that is meant, or carry it out with `tokrate apply --patch`",
        )),
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
fn snippet(source: &Source, update: &str, options: &Options, asked: Asked) -> Result<Located, Refused> {
    lazy::locate(source, update, asked).or_else(|refused| {
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
