//! Places a snippet by the lines at the ends of its segments, where each is one line of the file: what stands between the
//! two in the file becomes what stands between them in the snippet, and nothing else changes.
//!
//! Invariant: no line of the file beyond the outermost ones that a segment shows is touched.

use super::indent::indent;
use super::keys::key;
use super::likeness::are_similar;
use super::lines::{Lines, UNIT, information, is_blank, is_distinctive};
use super::moved;
use super::prepared::PreparedSnippet;
use super::scopes::{self, Place, is_closer};
use crate::format::replaced;
use crate::source::Source;
use crate::splice::Splice;
use std::ops::Range;

/// From this many deleted lines on, a marker may have been forgotten between the ends of a segment.
const MIN_FORGOTTEN: usize = 12;
/// Beginnings of lines that stand beside others like them: imports and comments.
const LOOSE: [&str; 14] = [
    "import ", "from ", "use ", "using ", "#include", "require", "alias ", "extern ", "export ", "mod ", "//", "#",
    "*", "--",
];
/// Beginnings of lines that belong to the declaration below them.
const HEADS: [&str; 6] = ["@", "#[", "//", "/*", "*", "# "];
/// Bytes that lines which say the same begin with.
const MIN_ALIKE: usize = 20;
/// Lines of the file beside new ones that are compared with them.
const REACH: usize = 6;

/// What the outermost line of a segment may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// A line of the file.
    Shown,
    /// Also a new line: right below a head, right above a closer, beside a line that is shown, at the end of a block.
    MayBeNew,
}

/// The changes of a snippet of which every segment is placed by its ends; none if one is not, or nothing changes.
pub(super) fn locate(
    source: &Source,
    lines: &Lines<'_>,
    prepared: &PreparedSnippet<'_>,
    ends: Ends,
) -> Option<Vec<Splice>> {
    let anchors = anchors(source, lines, prepared);
    let known: Vec<usize> = anchors.iter().flatten().copied().collect();
    if !known.is_sorted_by(|one, other| one < other) {
        return None;
    }
    let placed = Anchored { source, lines, prepared, anchors, ends };
    let mut splices = Vec::new();
    let mut above = 0;
    for segment in &prepared.segments {
        let Some(change) = placed.change(segment, above)? else { continue };
        above = change.old.end;
        let old: Vec<&str> = change.old.clone().map(|line| source.line(line)).collect();
        splices.extend(replaced(source, change.old.start, &old, &change.new));
    }
    (!splices.is_empty()).then_some(splices)
}

/// The lines of the file that lines of a snippet are: those that stand once in it, or once in a block that the snippet shows
/// around them, and the closers of such blocks. A segment that has a line which stands once needs no block, and may be of
/// another one.
fn anchors(source: &Source, lines: &Lines<'_>, prepared: &PreparedSnippet<'_>) -> Vec<Option<usize>> {
    let texts = (0..prepared.len()).map(|token| prepared.is_line(token).then(|| prepared.text(token)));
    let places = scopes::places(texts, source, lines);
    let line_of_once = |token: usize| {
        let known = prepared.known[token].or_else(|| lines.stats(prepared.text(token)))?;
        (known.count == 1 && is_distinctive(prepared.text(token))).then(|| lines.place_of_first(known.id)).flatten()
    };
    let once: Vec<Option<usize>> =
        (0..prepared.len()).map(|token| prepared.is_line(token).then(|| line_of_once(token)).flatten()).collect();
    let mut anchors = once.clone();
    for segment in &prepared.segments {
        for token in segment.clone().filter(|&token| prepared.is_line(token)) {
            let Some((head, line)) = new_head(lines, prepared, segment, token).zip(anchors[token]) else { continue };
            // A line of a new block is none of the file, unless the block is that of a declaration which is rewritten.
            if !prepared.namesakes(head).any(|old| scopes::encloses(source, old, line)) {
                anchors[token] = None;
            }
        }
    }
    let mut is_held = vec![false; prepared.len()];
    for segment in &prepared.segments {
        let held = segment.clone().any(|token| anchors[token].is_some());
        is_held[segment.clone()].fill(held);
    }
    // Whether the snippet shows the end of the block that each line heads, and whether each line is one of the file.
    let (mut is_closed, mut is_known) = (vec![false; prepared.len()], vec![false; prepared.len()]);
    let closers = (0..prepared.len()).filter(|&token| !is_held[token] || once[token].is_some());
    closers.filter_map(|token| places[token].closes).for_each(|head| is_closed[head] = true);
    for token in 0..prepared.len() {
        let Place { line: Some(line), is_same, parent, closes, .. } = places[token] else { continue };
        let in_known = parent.is_some_and(|parent| is_known[parent] && is_closed[parent]);
        is_known[token] = once[token].is_some() || in_known || !is_same && parent.is_none();
        let is_placed = match closes {
            Some(head) => is_known[head] && is_closed[head],
            None => in_known && is_same && information(prepared.text(token)) >= UNIT,
        };
        if is_placed && !is_held[token] {
            anchors[token] = Some(line);
        }
    }
    anchors
}

/// The line of a segment that heads a block, with a line in it or closing it, and is no line of the file.
fn new_head(lines: &Lines<'_>, prepared: &PreparedSnippet<'_>, segment: &Range<usize>, token: usize) -> Option<usize> {
    let text = prepared.text(token);
    let depth = indent(text).len();
    let mut least = depth + usize::from(is_closer(text));
    (segment.start..token).rev().filter(|&above| !is_blank(prepared.text(above))).find(|&above| {
        let head = prepared.text(above);
        let is_out = indent(head).len() < least;
        least = least.min(indent(head).len());
        is_out && lines.id_of(head).is_none()
    })
}

/// Lines of the file and the lines in their place.
struct Change<'c> {
    old: Range<usize>,
    new: Vec<&'c str>,
}

struct Anchored<'a> {
    source: &'a Source,
    lines: &'a Lines<'a>,
    prepared: &'a PreparedSnippet<'a>,
    anchors: Vec<Option<usize>>,
    ends: Ends,
}

impl Anchored<'_> {
    /// The change of a segment, which begins below a line of the file; nothing inside if it only closes blocks; none if it has no
    /// place.
    fn change(&self, segment: &Range<usize>, above: usize) -> Option<Option<Change<'_>>> {
        let full = |token: &usize| !is_blank(self.text(*token));
        let (Some(first), Some(last)) = (segment.clone().find(full), segment.clone().rev().find(full)) else {
            return Some(None);
        };
        let anchored: Vec<(usize, usize)> =
            segment.clone().filter_map(|token| Some((token, self.anchors[token]?))).collect();
        let (Some(&top), Some(&bottom)) = (anchored.first(), anchored.last()) else {
            return self.change_at_end(segment, last, above).map(Some);
        };
        let below = (segment.end..self.prepared.len()).find_map(|token| self.anchors[token]);
        let start = self.start(first, top, above);
        let end = self.end(last, bottom, below.unwrap_or(self.source.line_count()));
        let (mut tokens, old) = match (start, end, self.ends) {
            (Some(start), Some(end), _) => (first..last + 1, start..end),
            (_, _, Ends::Shown) => return None,
            (start, end, Ends::MayBeNew) => {
                let (mut tokens, mut old) = (first..last + 1, start.unwrap_or(top.1)..end.unwrap_or(bottom.1 + 1));
                if start.is_none() {
                    // A blank line beside the marker may be one of the file that is shown, except above a closer.
                    let is_told = first == segment.start || is_closer(self.text(top.0));
                    (is_told && self.begins_new(first, top.0)).then_some(())?;
                    let run: Vec<usize> = (first..top.0).rev().collect();
                    self.check_new(&run, (above..old.start).rev())?;
                    tokens.start = first - self.kept_blanks((segment.start..first).len(), (above..old.start).rev());
                }
                if end.is_none() {
                    let run = bottom.0 + 1..last + 1;
                    let is_told = run.end == segment.end || self.heads_block(bottom.1);
                    (is_told && self.ends_new(&run)).then_some(())?;
                    let hidden = old.end..below.unwrap_or(self.source.line_count());
                    let run: Vec<usize> = run.collect();
                    self.check_new(&run, hidden.clone())?;
                    tokens.end = last + 1 + self.kept_blanks((last + 1..segment.end).len(), hidden);
                }
                old.end = old.end.max(old.start);
                (tokens, old)
            }
        };
        if old.start < above || old.end < old.start || below.is_some_and(|below| old.end > below) {
            return None;
        }
        tokens.end = tokens.end.min(segment.end);
        let new: Vec<&str> = tokens.map(|token| self.text(token)).collect();
        let gone: Vec<&str> = old.clone().map(|line| self.source.line(line)).collect();
        let is_unchanged = gone == new;
        let is_told = self.anchors[first].is_some() && self.anchors[last].is_some();
        let count = |lines: &[&str], other: &[&str]| {
            lines.iter().filter(|line| !is_blank(line) && !other.contains(line)).count()
        };
        let (lost, comes) = (count(&gone, &new), count(&new, &gone));
        if is_unchanged && !is_told && self.ends == Ends::Shown || lost > MIN_FORGOTTEN.max(3 * comes + 6) {
            return None;
        }
        Some(Some(Change { old, new }))
    }

    /// New lines that no line of the file holds may belong at the end of a block.
    fn change_at_end(&self, segment: &Range<usize>, last: usize, above: usize) -> Option<Change<'_>> {
        let may_be_new = self.ends == Ends::MayBeNew;
        let end = may_be_new.then(|| scopes::end_of_block(self.prepared, segment, self.source)).flatten()?;
        let new: Vec<&str> = (segment.start..last + 1).map(|token| self.text(token)).collect();
        (!moved::stands_at_another_depth(self.source, self.lines, &new)).then_some(())?;
        (end >= above).then_some(Change { old: end..end, new })
    }

    fn text(&self, token: usize) -> &str {
        self.prepared.text(token)
    }

    /// The line of the file at which a segment begins, if its first line is one of the file.
    fn start(&self, first: usize, (token, line): (usize, usize), above: usize) -> Option<usize> {
        let shown = token - first;
        if shown == 0 {
            return Some(line);
        }
        if let Some(start) = line.checked_sub(shown).filter(|start| *start >= above)
            && (0..shown).all(|at| self.source.line(start + at) == self.text(first + at))
        {
            return Some(start);
        }
        let known = (first..token).map_while(|token| self.lines.id_of(self.text(token)));
        let run: Vec<u32> = known.collect();
        let run = self.full(&run);
        // Right above, or the only ones: lone brackets stand everywhere.
        let start = line.checked_sub(run.len()).filter(|start| *start >= above && !run.is_empty());
        let beside = start.filter(|&start| self.lines.ids[start..line] == *run);
        beside.or_else(|| self.only(run, above..line))
    }

    /// The line of the file after which a segment ends, if its last line is one of the file.
    fn end(&self, last: usize, (token, line): (usize, usize), below: usize) -> Option<usize> {
        let shown = last - token;
        let end = line + 1 + shown;
        if end <= below && (1..=shown).all(|at| self.source.line(line + at) == self.text(token + at)) {
            return Some(end);
        }
        if new_head(self.lines, self.prepared, &(token + 1..last + 1), last).is_some() {
            return None;
        }
        let known = (token + 1..last + 1).rev().map_while(|token| self.lines.id_of(self.text(token)));
        let mut run: Vec<u32> = known.collect();
        run.reverse();
        let blanks = run.iter().take_while(|&&id| is_blank(self.lines.text(id))).count();
        let run = &run[blanks..];
        let end = line + 1 + run.len();
        let is_beside = !run.is_empty() && end <= below && self.lines.ids[line + 1..end] == *run;
        if is_beside { Some(end) } else { self.only(run, line + 1..below).map(|start| start + run.len()) }
    }

    /// The run without blank lines at its end.
    fn full<'r>(&self, run: &'r [u32]) -> &'r [u32] {
        let blanks = run.iter().rev().take_while(|&&id| is_blank(self.lines.text(id))).count();
        &run[..run.len() - blanks]
    }

    /// The one place within others of lines of which one says more than a bracket.
    fn only(&self, run: &[u32], within: Range<usize>) -> Option<usize> {
        run.iter().any(|&id| is_distinctive(self.lines.text(id))).then_some(())?;
        let mut found =
            self.lines.ids.get(within.clone())?.windows(run.len()).enumerate().filter(|(_, ids)| *ids == run);
        let (at, _) = found.next().filter(|_| found.next().is_none())?;
        Some(within.start + at)
    }

    /// Checks that new lines at an end, the one beside the anchor first, stand for none of the file's lines there.
    fn check_new(&self, tokens: &[usize], hidden: impl Iterator<Item = usize>) -> Option<()> {
        let full = |line: &usize| !is_blank(self.source.line(*line));
        let beside = hidden.filter(full).take(REACH + 2 * tokens.len()).map(|line| self.source.line(line));
        let beside: Vec<&str> = beside.collect();
        let new: Vec<&str> = tokens.iter().map(|&token| self.text(token)).filter(|text| !is_blank(text)).collect();
        let (nearest, outermost) = (new.first()?, new.last()?);
        let depth = new.iter().map(|text| indent(text).len()).min()?;
        let is_plain =
            |text: &str| key(text).is_none() && !LOOSE.iter().any(|word| text.trim_start().starts_with(word));
        let goes_on =
            |old: &&&str| is_distinctive(nearest) && is_plain(nearest) && is_plain(old) && are_similar(old, nearest);
        let begins_alike = |old: &&str| {
            let same = old.bytes().zip(outermost.bytes()).take_while(|(old, new)| old == new).count();
            is_plain(outermost) && same > MIN_ALIKE && same * 3 > old.len().min(outermost.len()) * 2
        };
        let is_told = |old: &&str| {
            let is_named = |new: &&&str| indent(new).len() == depth && indent(new) == indent(old) && key(new).is_some();
            new.iter().filter(is_named).any(|new| key(new) == key(old)) || is_distinctive(old) && outermost == old
        };
        let stands = beside.first().iter().any(goes_on) || beside.iter().any(|old| begins_alike(old) || is_told(old));
        (!stands).then_some(())
    }

    /// Whether lines above an anchor begin with one that the file does not have. Above a closer that may also be the comment or
    /// annotation of one, which elsewhere would be a line that is shown to hold the segment.
    fn begins_new(&self, first: usize, anchor: usize) -> bool {
        let is_new = |token: usize| self.lines.id_of(self.text(token)).is_none();
        let is_head = |token: &usize| HEADS.iter().any(|sign| self.text(*token).trim_start().starts_with(sign));
        let below = (first..anchor).find(|token| !is_head(token));
        is_new(first) || is_closer(self.text(anchor)) && below.is_some_and(|below| below > first && is_new(below))
    }

    /// Whether the last of lines below an anchor is new, or in a block that begins below the anchor.
    fn ends_new(&self, run: &Range<usize>) -> bool {
        let last = run.end - 1;
        let text = self.text(last);
        self.lines.id_of(text).is_none() || new_head(self.lines, self.prepared, run, last).is_some()
    }

    /// Whether the lines below a line of the file are deeper.
    fn heads_block(&self, line: usize) -> bool {
        let below =
            (line + 1..self.source.line_count()).map(|line| self.source.line(line)).find(|line| !is_blank(line));
        below.is_some_and(|below| indent(below).len() > indent(self.source.line(line)).len())
    }

    /// How many blank lines beside a marker are content: those that the file does not have there.
    fn kept_blanks(&self, shown: usize, hidden: impl Iterator<Item = usize>) -> usize {
        let there = hidden.take_while(|&line| is_blank(self.source.line(line))).count();
        shown.saturating_sub(there)
    }
}
