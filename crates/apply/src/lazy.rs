//! Snippets: lines of a file, some of them new, with markers (or nothing) where the rest of the file is.
//!
//! It does not choose between places. Invariant: an answer is given only when every reading of the snippet that
//! explains it nearly as well gives the same text.

mod align;
mod alike;
mod carry;
mod closers;
mod doubt;
mod exact;
mod indent;
mod inline;
mod inserted;
mod judge;
mod keys;
mod lines;
mod markers;
mod seams;
mod segments;
mod snippet;
mod stands;
mod window;

#[cfg(feature = "tree")]
pub(crate) use alike::are_alike;
pub(crate) use indent::indent;
pub(crate) use inline::{has_gap, resolved};
#[cfg(feature = "tree")]
pub(crate) use keys::{Key, key};
#[cfg(feature = "tree")]
pub(crate) use lines::{INFORMATIVE, information};
pub(crate) use lines::{is_blank, tells_much};
pub(crate) use markers::{is_marker, is_worded_marker, lines_with_dots, removed};
#[cfg(feature = "tree")]
pub(crate) use segments::places_of;
use snippet::{Piece, Snippet};
pub(crate) use stands::stands;

use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use crate::splice::Located;
use crate::splice::Splice;
use align::{Alignment, Problem};
use carry::Change;
use doubt::Doubt;
use lines::{Lines, UNIT};
use seams::Seams;
use segments::{Laid, Scoring};
use std::ops::Range;
use window::Windows;

/// More work than this is not done (cells of the table).
const CELLS_MOST: usize = 60_000_000;
/// More text than this is not searched for the names in new lines (bytes, each line's search counted).
const SEARCH_MOST: usize = 32 << 30;

/// Whether an update has a line that stands for others.
pub(crate) fn has_marker(update: &str) -> bool {
    lines_with_dots(update).any(is_marker)
}

/// Locates a snippet.
///
/// # Errors
/// When it names no place, or several.
pub(crate) fn locate(source: &Source, update: &str) -> Result<Located, Refused> {
    let lines = Lines::of(source.lines());
    let marked = located(source, &lines, &Snippet::read(update, |_| false));
    let documented = lines_with_dots(update).any(|line| is_marker(line) && lines.id_of(line).is_some());
    if !documented {
        return marked;
    }
    // The file has lines that look like markers: they may be meant as themselves.
    let meant = located(source, &lines, &Snippet::read(update, |line| lines.id_of(line).is_some()));
    match (marked, meant) {
        // Changes that overlap are refused as such.
        (Ok(one), Ok(_)) if !are_apart(&one.splices) => Ok(one),
        (Ok(one), Ok(other)) if are_apart(&other.splices) && source.is_same_with(&one.splices, &other.splices) => {
            Ok(one)
        }
        (Ok(_), Ok(_)) => Err(Refused::new(
            Code::MarkerUnresolved,
            "the file itself has a line that reads like a marker, and the update makes sense with and without it",
            "write another marker, such as `... existing code ...` with the comment sign of the language",
        )),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(refused), Err(_)) => Err(refused),
    }
}

/// Whether splices, in order, change no byte twice.
fn are_apart(splices: &[Splice]) -> bool {
    splices.windows(2).all(|pair| pair[0].old.end <= pair[1].old.start)
}

fn located(source: &Source, lines: &Lines<'_>, snippet: &Snippet<'_>) -> Result<Located, Refused> {
    check_search(source, lines, snippet)?;
    let gone = gone(source, snippet)?;
    let laid = Laid::new(snippet, source, lines);
    if laid.segments.is_empty() && !gone.is_empty() {
        return Ok(Located { splices: gone, stage: Stage::Lines, reindented: false });
    }
    if laid.segments.is_empty() {
        return Err(Refused::new(
            Code::NotAnEdit,
            "the update has markers and no line between them",
            "write the lines that change with a line of context on each side",
        ));
    }
    let windows = Windows::near(&laid, lines, source);
    let (chosen, found, mut splices) = match aligned(source, lines, &laid, &windows) {
        // What a segment was looked for around turned out to be none of the file's lines.
        Ok((chosen, ..)) if !windows.hold(&chosen) => aligned(source, lines, &laid, &Windows::wide(&laid, source)),
        chosen => chosen,
    }?;
    let is_idle = splices.is_empty();
    Doubt::new(source, lines, &laid, &chosen, &found, is_idle).check()?;
    Seams { source, lines, laid: &laid, alignment: &chosen, found: &found }.check()?;
    splices.extend(gone);
    splices.sort_by_key(|splice| (splice.old.start, splice.old.end));
    Ok(Located { splices, stage: Stage::Lines, reindented: laid.reindented })
}

/// The one alignment that makes sense, of those within windows, with what it changes.
fn aligned(
    source: &Source,
    lines: &Lines<'_>,
    laid: &Laid<'_>,
    windows: &Windows,
) -> Result<(Alignment, Vec<Change>, Vec<Splice>), Refused> {
    let rows = &windows.rows;
    if rows.iter().map(Range::len).sum::<usize>() > CELLS_MOST {
        let message =
            format!("{} lines of update on {} of file are too many to compare", laid.len(), source.line_count());
        return Err(Refused::new(
            Code::TooLarge,
            message,
            "split the update, or show lines that stand once in the file",
        ));
    }
    let delete: Vec<i32> = source.lines().map(|line| if is_blank(line) { UNIT / 10 } else { UNIT }).collect();
    let tokens = [Scoring::FewestGone, Scoring::MostMatched, Scoring::Lenient].map(|scoring| laid.tokens(scoring));
    let cheap = vec![UNIT / 10; source.line_count()];
    let deletes = [&delete, &delete, &cheap];
    let [fewest, most, lenient] =
        [0, 1, 2].map(|at| Problem { tokens: &tokens[at], ids: &lines.ids, delete: deletes[at], rows });
    let exact = [&fewest, &most].map(|problem| exact::steps(laid, lines, problem));
    let exact = if exact[0] == exact[1] { exact.into_iter().next().flatten() } else { None };
    judge::choose(source, laid, [&fewest, &most], &lenient, exact)
}

/// Passes a snippet whose new lines can be looked for in bounded time.
fn check_search(source: &Source, lines: &Lines<'_>, snippet: &Snippet<'_>) -> Result<(), Refused> {
    if (snippet.pieces.len() + snippet.gone.len()).saturating_mul(source.text.len()) <= SEARCH_MOST {
        return Ok(());
    }
    let is_new = |piece: &&Piece<'_>| matches!(piece, Piece::Line(line) if lines.id_of(line).is_none());
    let new = snippet.pieces.iter().filter(is_new).count() + snippet.gone.len();
    if new.saturating_mul(source.text.len()) <= SEARCH_MOST {
        return Ok(());
    }
    let message = format!("{new} new lines are too many for a file of {} bytes", source.text.len());
    Err(Refused::new(Code::TooLarge, message, "split the update"))
}

/// The declarations that a snippet asks to remove, in order.
fn gone(source: &Source, snippet: &Snippet<'_>) -> Result<Vec<Splice>, Refused> {
    let gone = |name: &&str| {
        let lines = segments::declaration(source, name)?;
        Ok(Splice { old: source.bytes_of(lines), new: String::new() })
    };
    let mut gone = snippet.gone.iter().map(gone).collect::<Result<Vec<Splice>, Refused>>()?;
    gone.sort_by_key(|splice| (splice.old.start, splice.old.end));
    Ok(gone)
}

#[cfg(test)]
mod tests;
