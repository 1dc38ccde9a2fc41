//! Snippets: lines of a file, some of them new, with markers (or nothing) where the rest of the file is.
//!
//! Invariant: a snippet is merged only if every interpretation with nearly the best score gives the same text, and two ways to
//! find it that share no weights agree.

mod agreed;
mod align;
mod anchored;
mod applied;
mod blanks;
mod boundaries;
mod candidates;
mod cells;
mod changed_ends;
mod changes;
mod choice;
mod closers;
mod context;
mod decision;
mod doubts;
mod ends;
mod exact;
mod foreign;
mod held;
mod indent;
mod inline;
mod inserted;
mod keys;
pub(crate) mod law;
mod likeness;
mod lines;
mod literal;
mod markers;
mod members;
mod moved;
mod otherwise;
mod part;
mod placement;
mod prepared;
mod readings;
mod removal;
mod scopes;
mod seams;
mod snippet;
mod steps;
mod weakness;
mod weighed;
mod weights;
mod window;

pub(crate) use applied::is_applied;
pub(crate) use indent::indent;
pub(crate) use inline::{has_gap, resolved};
#[cfg(feature = "tree")]
pub(crate) use keys::{Key, key};
#[cfg(feature = "tree")]
pub(crate) use likeness::are_similar;
pub(crate) use lines::{Lines, is_blank, is_distinctive};
#[cfg(feature = "tree")]
pub(crate) use lines::{MIN_INFORMATION, information, is_balanced};
pub(crate) use literal::MarkerLines;
#[cfg(feature = "tree")]
pub(crate) use markers::removed;
pub(crate) use markers::{is_marker, is_worded_marker, lines_with_dots};
#[cfg(feature = "tree")]
pub(crate) use prepared::places_of;
pub(crate) use removal::removed_lines;
pub(crate) use snippet::{Piece, Removal, Snippet};

use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use crate::splice::Located;
use crate::splice::Splice;
use align::{Alignment, Problem};
use anchored::Ends;
use boundaries::Boundaries;
use changes::Change;
use lines::{Says, UNIT};
use prepared::{PreparedSnippet, Scoring};
use seams::Seams;
use window::Windows;

/// Larger alignment tables are refused: this one takes 60 MB (cells of a byte).
const MAX_CELLS: u64 = 60_000_000;
/// More text is not searched for the names in new lines, to bound the time of a merge (bytes, each line's search counted).
const MAX_SEARCHED_BYTES: u64 = 32 << 30;

/// What is answered with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// What is sure.
    Sure,
    /// The likeliest, however likely: to measure what is decided.
    Any,
}

/// Whether an update has a marker line.
pub(crate) fn has_marker(update: &str) -> bool {
    lines_with_dots(update).any(is_marker)
}

/// Locates a snippet.
///
/// # Errors
/// When it names no place, or several.
pub(crate) fn locate(source: &Source, update: &str, asked: Asked) -> Result<Located, Refused> {
    let lines = Lines::of(source);
    let marked = located(source, &lines, &Snippet::read(update, |_| false), asked);
    let has_marker_lines = lines_with_dots(update).any(|line| is_marker(line) && lines.id_of(line).is_some());
    if !has_marker_lines || !MarkerLines::of(&source.text).are_content(update) {
        return marked;
    }
    // The file itself has lines that look like markers, so those of the update may be content.
    let literal = Snippet::read(update, |line| lines.id_of(line).is_some());
    let literal = located(source, &lines, &literal, asked);
    match (marked, literal) {
        // Overlapping changes are refused by the caller.
        (Ok(one), Ok(_)) if !are_apart(&one.splices) => Ok(one),
        (Ok(one), Ok(other)) if are_apart(&other.splices) && source.is_same_with(&one.splices, &other.splices) => {
            Ok(one)
        }
        (Ok(_), Ok(_)) => Err(unresolved()),
        // What goes for nothing beside such a line may be what the line was to stand for.
        (Err(_), Ok(one)) if takes_away(source, &one.splices) => Err(unresolved()),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(refused), Err(_)) => Err(refused),
    }
}

/// The refusal of an update whose markers may be lines of the file.
fn unresolved() -> Refused {
    Refused::new(
        Code::MarkerUnresolved,
        "the file itself has a line that reads like a marker, and the update may mean that line or what it stands for",
        "write another marker, such as `... existing code ...` with the comment sign of the language",
    )
}

/// Whether lines with text go somewhere and none come in their place.
fn takes_away(source: &Source, splices: &[Splice]) -> bool {
    let has_text = |text: &str| text.lines().any(|line| !is_blank(line));
    splices.iter().any(|splice| has_text(&source.text[splice.old.clone()]) && !has_text(&splice.new))
}

/// Whether splices, in order, change no byte twice.
fn are_apart(splices: &[Splice]) -> bool {
    splices.windows(2).all(|pair| pair[0].old.end <= pair[1].old.start)
}

fn located(source: &Source, lines: &Lines<'_>, snippet: &Snippet<'_>, asked: Asked) -> Result<Located, Refused> {
    check_search(source, lines, snippet)?;
    if let Some(splices) = members::located(source, lines, snippet) {
        return Ok(Located { splices, stage: Stage::Lines, reindented: false, evidence: None });
    }
    let removals = removals(source, snippet)?;
    let prepared = PreparedSnippet::new(snippet, source, lines);
    if prepared.segments.is_empty() && !removals.is_empty() {
        return Ok(Located { splices: removals, stage: Stage::Lines, reindented: false, evidence: None });
    }
    if prepared.segments.is_empty() {
        return Err(Refused::new(
            Code::NotAnEdit,
            "the update has markers and no line between them",
            "write the lines that change with a line of context on each side",
        ));
    }
    let by_ends = |ends| anchored::locate(source, lines, &prepared, ends);
    let by_lines = by_alignment(source, lines, &prepared).or_else(|refused| {
        // What an alignment refuses because lines may have to go stays refused.
        let found = match refused.code {
            Code::NoAnchor => by_ends(Ends::Shown).or_else(|| by_ends(Ends::MayBeNew)),
            Code::AmbiguousLocation => by_ends(Ends::Shown),
            _ => None,
        };
        found.ok_or(refused)
    });
    let lost = |splices: &[Splice]| law::line_lost(source, splices, snippet);
    let by_ranges = placement::locate(source, lines, &prepared, lost);
    let (mut splices, evidence) = agreed::agreed(source, by_lines, by_ranges, asked)?;
    splices.extend(removals);
    splices.sort_by_key(|splice| (splice.old.start, splice.old.end));
    Ok(Located { splices, stage: Stage::Lines, reindented: prepared.reindented, evidence })
}

/// The changes of the one alignment with the file that has no rival.
fn by_alignment(source: &Source, lines: &Lines<'_>, prepared: &PreparedSnippet<'_>) -> Result<Vec<Splice>, Refused> {
    let windows = Windows::near(prepared, lines, source);
    let (chosen, found, splices) = match aligned(source, lines, prepared, &windows) {
        // A segment's anchor was not matched, so its window was wrong: search the whole file.
        Ok((chosen, ..)) if !windows.hold(&chosen) => {
            aligned(source, lines, prepared, &Windows::wide(prepared, source))
        }
        chosen => chosen,
    }?;
    let is_unchanged = splices.is_empty();
    Boundaries::new(source, lines, prepared, &chosen, &found, is_unchanged).check()?;
    Seams { source, lines, prepared, alignment: &chosen, found: &found }.check()?;
    Ok(splices)
}

/// The unambiguous alignment within the windows, with its changes.
fn aligned(
    source: &Source,
    lines: &Lines<'_>,
    prepared: &PreparedSnippet<'_>,
    windows: &Windows,
) -> Result<(Alignment, Vec<Change>, Vec<Splice>), Refused> {
    let rows = &windows.rows;
    if rows.iter().map(|row| row.len() as u64).sum::<u64>() > MAX_CELLS {
        let message =
            format!("{} lines of update on {} of file are too many to compare", prepared.len(), source.line_count());
        return Err(Refused::new(
            Code::TooLarge,
            message,
            "split the update, or show lines that stand once in the file",
        ));
    }
    let cost = |says: &Says| if *says == Says::Nothing { UNIT / 10 } else { UNIT };
    let delete: Vec<i32> = lines.says().iter().map(cost).collect();
    let tokens =
        [Scoring::FewestDeleted, Scoring::MostMatched, Scoring::Lenient].map(|scoring| prepared.tokens(scoring));
    let cheap = vec![UNIT / 10; source.line_count()];
    let deletes = [&delete, &delete, &cheap];
    let [fewest, most, lenient] =
        [0, 1, 2].map(|at| Problem { tokens: &tokens[at], ids: lines.ids, delete: deletes[at], rows });
    let exact = [&fewest, &most].map(|problem| exact::steps(prepared, lines, problem));
    let exact = if exact[0] == exact[1] { exact.into_iter().next().flatten() } else { None };
    readings::choose(source, prepared, [&fewest, &most], &lenient, exact)
}

/// Checks that the new lines of a snippet can be searched for in bounded time.
fn check_search(source: &Source, lines: &Lines<'_>, snippet: &Snippet<'_>) -> Result<(), Refused> {
    let is_much = |searched: usize| searched as u64 * source.text.len() as u64 > MAX_SEARCHED_BYTES;
    if !is_much(snippet.pieces.len() + snippet.removals.len()) {
        return Ok(());
    }
    let is_new = |piece: &&Piece<'_>| matches!(piece, Piece::Line(line) if lines.id_of(line).is_none());
    let new = snippet.pieces.iter().filter(is_new).count() + snippet.removals.len();
    if !is_much(new) {
        return Ok(());
    }
    let message = format!("{new} new lines are too many for a file of {} bytes", source.text.len());
    Err(Refused::new(Code::TooLarge, message, "split the update"))
}

/// The deletions of declarations that a snippet asks to remove, in order.
fn removals(source: &Source, snippet: &Snippet<'_>) -> Result<Vec<Splice>, Refused> {
    let removal = |removal: &Removal<'_>| {
        Ok(Splice { old: source.bytes_of(removed_lines(source, removal)?), new: String::new() })
    };
    let mut removals = snippet.removals.iter().map(removal).collect::<Result<Vec<Splice>, Refused>>()?;
    removals.sort_by_key(|splice| (splice.old.start, splice.old.end));
    Ok(removals)
}

#[cfg(test)]
mod tests;
