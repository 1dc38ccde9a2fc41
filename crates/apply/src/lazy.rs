//! Snippets: lines of a file, some of them new, with markers (or nothing) where the rest of the file is.
//!
//! It refuses to choose between places. Invariant: an answer is given only when every reading of the snippet that explains
//! it nearly as well gives the same text.

mod align;
mod carry;
mod doubt;
mod exact;
mod indent;
mod inserted;
mod judge;
mod keys;
mod lines;
mod markers;
mod seams;
mod segments;
mod snippet;

pub(crate) use lines::tells_much;
pub(crate) use markers::{is_marker, removed};
use snippet::{Piece, Snippet};

use crate::format::Located;
use crate::merge::Options;
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use crate::splice::Splice;
use align::Problem;
use doubt::Doubt;
use lines::{INFORMATIVE, Lines, UNIT, is_blank};
use seams::Seams;
use segments::{Laid, Scoring};
use std::ops::Range;

/// More work than this is not done (cells of the table).
const CELLS_MOST: usize = 60_000_000;
/// More text than this is not searched for the names in new lines (bytes, each line's search counted).
const SEARCH_MOST: usize = 32 << 30;
/// Files of fewer lines are searched from end to end.
const SMALL: usize = 200;
/// How far around its unique lines a segment may reach, beyond its own length.
const REACH: usize = 150;

/// Whether an update has a line that stands for others.
pub(crate) fn has_marker(update: &str) -> bool {
    update.lines().any(is_marker)
}

/// Locates a snippet.
///
/// # Errors
/// When it names no place, or several.
pub(crate) fn locate(source: &Source, update: &str, _options: &Options) -> Result<Located, Refused> {
    let lines = Lines::of(source.lines());
    let marked = located(source, &lines, &Snippet::read(update, |_| false));
    let documented = update.lines().any(|line| is_marker(line) && lines.known(line).is_some());
    if !documented {
        return marked;
    }
    // The file has lines that look like markers: they may be meant as themselves.
    let meant = located(source, &lines, &Snippet::read(update, |line| lines.known(line).is_some()));
    match (marked, meant) {
        (Ok(one), Ok(other)) if source.with(&one.splices) == source.with(&other.splices) => Ok(one),
        (Ok(_), Ok(_)) => Err(Refused::new(
            Code::MarkerUnresolved,
            "the file itself has a line that reads like a marker, and the update makes sense with and without it",
            "write another marker, such as `... existing code ...` with the comment sign of the language",
        )),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(refused), Err(_)) => Err(refused),
    }
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
    let rows = rows(&laid, lines, source);
    let cells: usize = rows.iter().map(Range::len).sum();
    if cells > CELLS_MOST {
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
        [0, 1, 2].map(|at| Problem { tokens: &tokens[at], ids: &lines.ids, delete: deletes[at], rows: &rows });
    let exact = [&fewest, &most].map(|problem| exact::steps(&laid, lines, problem));
    let exact = if exact[0] == exact[1] { exact.into_iter().next().flatten() } else { None };
    let chosen = judge::choose(source, &laid, [&fewest, &most], &lenient, exact)?;
    let found = carry::changes(&laid, &chosen.steps);
    let mut splices = carry::splices(source, &laid, &found);
    let is_idle = splices.is_empty();
    Doubt::new(source, lines, &laid, &chosen, &found, is_idle).check()?;
    Seams { source, lines, laid: &laid, alignment: &chosen, found: &found }.check()?;
    splices.extend(gone);
    Ok(Located { splices, stage: Stage::Lines, reindented: laid.reindented })
}

/// Passes a snippet whose new lines can be looked for in bounded time.
fn check_search(source: &Source, lines: &Lines<'_>, snippet: &Snippet<'_>) -> Result<(), Refused> {
    let is_new = |piece: &&Piece<'_>| matches!(piece, Piece::Line(line) if lines.known(line).is_none());
    let new = snippet.pieces.iter().filter(is_new).count() + snippet.gone.len();
    if new.saturating_mul(source.text.len()) <= SEARCH_MOST {
        return Ok(());
    }
    let message = format!("{new} new lines are too many for a file of {} bytes", source.text.len());
    Err(Refused::new(Code::TooLarge, message, "split the update"))
}

/// The declarations that a snippet asks to remove.
fn gone(source: &Source, snippet: &Snippet<'_>) -> Result<Vec<Splice>, Refused> {
    let gone = |name: &&str| {
        let lines = segments::declaration(source, name)?;
        Ok(Splice { old: source.bytes_of(lines), new: String::new() })
    };
    snippet.gone.iter().map(gone).collect()
}

/// For each number of tokens read, which lines may be read by then. In a long file, segments are looked for around those of
/// their lines that stand once in the file.
fn rows(laid: &Laid<'_>, lines: &Lines<'_>, source: &Source) -> Vec<Range<usize>> {
    let count = source.line_count();
    let mut windows: Vec<Range<usize>> = vec![0..count + 1; laid.segments.len()];
    if count > SMALL {
        narrow(&mut windows, laid, lines, count);
    }
    let mut rows: Vec<Range<usize>> = Vec::with_capacity(laid.len() + 1);
    rows.push(0..1);
    let mut segment = 0;
    for token in 0..laid.len() {
        while segment + 1 < laid.segments.len() && laid.segments[segment].end <= token {
            segment += 1;
        }
        // After a marker the next segment begins; after a line its own goes on.
        rows.push(windows[segment].clone());
        let is_last = token + 1 == laid.len();
        if is_last {
            rows[token + 1] = count..count + 1;
        }
    }
    let blank_head = source.lines().take_while(|line| is_blank(line)).count();
    if laid.edges[0] {
        rows[1] = 0..(blank_head + 1).min(count + 1);
    }
    if laid.edges[1] {
        let last_line = laid.len() - 1;
        let blank_tail = (0..count).rev().take_while(|&line| is_blank(source.line(line))).count();
        rows[last_line] = rows[last_line].start.max(count - blank_tail).min(count)..count + 1;
    }
    rows
}

fn narrow(windows: &mut [Range<usize>], laid: &Laid<'_>, lines: &Lines<'_>, count: usize) {
    let mut anchors: Vec<(usize, usize, usize)> = Vec::new();
    for (number, segment) in laid.segments.iter().enumerate() {
        for token in segment.clone() {
            let unique = laid.known[token].filter(|known| known.count == 1 && known.worth >= INFORMATIVE);
            if let Some(place) = unique.and_then(|known| lines.place_of_first(known.id)) {
                anchors.push((number, token, place));
            }
        }
    }
    let places: Vec<usize> = anchors.iter().map(|anchor| anchor.2).collect();
    let kept = longest_rising(&places);
    for (number, segment) in laid.segments.iter().enumerate() {
        let mine: Vec<usize> = kept.iter().filter(|&&at| anchors[at].0 == number).map(|&at| places[at]).collect();
        if let (Some(first), Some(last)) = (mine.first(), mine.last()) {
            let reach = REACH + segment.len();
            windows[number] = first.saturating_sub(reach)..(last + reach).min(count) + 1;
        }
    }
    // What stands between two located segments lies between them.
    for number in 1..windows.len() {
        windows[number].start = windows[number].start.max(windows[number - 1].start);
    }
    for number in (0..windows.len().saturating_sub(1)).rev() {
        windows[number].end = windows[number].end.min(windows[number + 1].end);
    }
}

/// Positions of a longest strictly rising subsequence.
fn longest_rising(values: &[usize]) -> Vec<usize> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; values.len()];
    for (at, value) in values.iter().enumerate() {
        let length = tails.partition_point(|&tail| values[tail] < *value);
        before[at] = length.checked_sub(1).map(|shorter| tails[shorter]);
        if length == tails.len() { tails.push(at) } else { tails[length] = at }
    }
    let mut chain: Vec<usize> = std::iter::successors(tails.last().copied(), |&at| before[at]).collect();
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests;
