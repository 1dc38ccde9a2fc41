//! Blocks as places: the head of a block that a snippet shows is a line of the file, and so is the line that closes it.
//!
//! Blocks are told by indentation alone, as in nearly every formatted file of any language. Invariant: a line of a snippet
//! has a place only if no other line of the block that the snippet shows around it is equal.

use super::indent::indent;
use super::keys::{declared_name, key};
use super::lines::{Lines, is_blank, is_distinctive};
use super::prepared::{PreparedSnippet, places_of};
use crate::source::Source;
use std::ops::Range;

/// Places of a line that are looked at.
const MAX_PLACES: usize = 256;
/// Lines of the file that are walked for the ends of blocks, to bound the work.
const MAX_WALKED: usize = 4_000_000;
/// Longer blocks are not walked for a line in them.
const MAX_BLOCK: usize = 10_000;
/// Last lines of a file that are looked at.
const LAST_REACH: usize = 40;
/// Beginnings of lines that belong at the end of a file: what comes last may stand above them.
const LAST_LINES: [&str; 7] =
    ["if __name__", "module.exports", "export default", "export {", "return ", "#endif", "mod tests"];

/// A line of a snippet in the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    /// The line of the file that it is, or that declares the same.
    pub line: Option<usize>,
    /// Whether the file's line is the same.
    pub is_same: bool,
    /// The line of the snippet that heads the block around it.
    pub parent: Option<usize>,
    /// The line of the snippet that heads the block which it closes.
    pub closes: Option<usize>,
    /// The line of the snippet that heads the block which it opens, being a bracket alone below that.
    pub opens: Option<usize>,
    /// The lines of the file inside of the block around it, if the file has that block.
    pub inside: Option<Range<usize>>,
    /// Whether the snippet shows the head of the block which it closes, and the file does not have that head.
    pub closes_new: bool,
}

/// A block that a snippet has begun and not ended.
struct Open {
    /// The line of the snippet.
    number: usize,
    depth: usize,
    head: Option<usize>,
    /// Whether its head is no line of the file.
    is_new: bool,
    /// The lines of the file inside of it.
    inside: Range<usize>,
    closer: Option<usize>,
}

/// The places of a snippet's lines; `None` stands for a marker.
pub(super) fn places<'t>(
    texts: impl Iterator<Item = Option<&'t str>>,
    source: &Source,
    lines: &Lines<'_>,
) -> Vec<Place> {
    let mut walk = Walk { source, lines, left: MAX_WALKED, open: Vec::new(), marker: 0 };
    let place = |(number, text): (usize, Option<&'t str>)| {
        if text.is_none() {
            walk.marker = number;
        }
        text.filter(|text| !is_blank(text)).map_or(Place::default(), |text| walk.place(number, text))
    };
    texts.enumerate().map(place).collect()
}

struct Walk<'w> {
    source: &'w Source,
    lines: &'w Lines<'w>,
    left: usize,
    open: Vec<Open>,
    /// The last marker.
    marker: usize,
}

impl Walk<'_> {
    /// The place of the next line of a snippet.
    fn place(&mut self, number: usize, text: &str) -> Place {
        let depth = indent(text).len();
        while self.open.last().is_some_and(|open| open.depth > depth) {
            self.open.pop();
        }
        if let Some(place) = self.opener(number, text, depth) {
            return place;
        }
        let closed = self.open.pop_if(|open| open.depth == depth);
        // What heads no lines in the file and has no closer is no head.
        while self.open.pop_if(|open| open.head.is_some() && open.inside.is_empty() && open.closer.is_none()).is_some()
        {
        }
        let parent = self.open.last().map(|open| open.number);
        let inside = self.open.last().filter(|open| open.head.is_some()).map(|open| open.inside.clone());
        let mut place = Place { parent, inside, ..Place::default() };
        if let Some(open) = closed.filter(|_| is_closer(text)) {
            place.closes_new = open.head.is_none() && open.is_new && open.number >= self.marker;
            if let Some(closer) = open.closer.filter(|&closer| self.source.line(closer) == text) {
                (place.line, place.is_same, place.closes) = (Some(closer), true, Some(open.number));
            }
        } else {
            (place.line, place.is_same) = self.line(text, depth);
        }
        let (inside, closer) = place.line.map_or((0..0, None), |line| self.block(line));
        let is_new = place.line.is_none() && (place.closes_new || self.lines.id_of(text).is_none());
        self.open.push(Open { number, depth, head: place.line, is_new, inside, closer });
        place
    }

    /// The lines inside of the block that a line heads, and the line that closes it, as long as lines may be walked.
    fn block(&mut self, head: usize) -> (Range<usize>, Option<usize>) {
        let known = self.lines.blocks.borrow().get(&head).cloned();
        let Some((inside, closer, walked)) = known else {
            let before = self.left;
            let (inside, closer) = block(self.source, head, &mut self.left);
            if self.left > 0 {
                let found = (inside.clone(), closer, before - self.left);
                self.lines.blocks.borrow_mut().insert(head, found);
            }
            return (inside, closer);
        };
        if walked > 0 && self.left <= walked {
            self.left = 0;
            return (0..0, None);
        }
        self.left -= walked;
        (inside, closer)
    }

    /// The place of a bracket alone that opens the block of the head right above it: that of the file's own bracket, and none in a new block.
    fn opener(&self, number: usize, text: &str, depth: usize) -> Option<Place> {
        let open = self.open.last()?;
        if text.trim() != "{" || open.depth != depth || open.number + 1 != number {
            return None;
        }
        let line = open.head.map(|head| head + 1);
        let is_same = |line: usize| line < self.source.line_count() && self.source.line(line) == text;
        let outer = self.open.len().checked_sub(2).map(|outer| &self.open[outer]);
        line.is_none_or(is_same).then(|| Place {
            line,
            is_same: line.is_some(),
            parent: outer.map(|outer| outer.number),
            opens: Some(open.number),
            ..Place::default()
        })
    }

    /// The one line of the block around it that is the same, or else declares the same; and whether it is the same.
    fn line(&self, text: &str, depth: usize) -> (Option<usize>, bool) {
        let inside = match self.open.last() {
            Some(open) if open.head.is_none() => return (None, false),
            Some(open) => open.inside.clone(),
            None => 0..self.source.line_count(),
        };
        if let Some(stats) = self.lines.stats(text) {
            let mut found = self.lines.few_places(&stats, MAX_PLACES).filter(|line| inside.contains(line));
            let line = found.next().filter(|_| found.next().is_none());
            return (line, true);
        }
        let declared = declared_name(text).and_then(|name| {
            let is_here = |line: &usize| inside.contains(line) && indent(self.source.line(*line)).len() == depth;
            let mut found = places_of(self.source, name, declared_name).filter(is_here);
            found.next().filter(|_| found.next().is_none())
        });
        (declared, false)
    }
}

/// The lines inside of the block that a line of the file heads, and the line that closes it.
pub(super) fn block_of(source: &Source, head: usize) -> (Range<usize>, Option<usize>) {
    block(source, head, &mut { MAX_WALKED })
}

/// The lines inside of the block that a line heads, and the line that closes it; `left` lines may be walked.
fn block(source: &Source, head: usize, left: &mut usize) -> (Range<usize>, Option<usize>) {
    let depth = indent(source.line(head)).len();
    let mut end = head + 1;
    for line in head + 1..source.line_count() {
        let text = source.line(line);
        *left = left.saturating_sub(1);
        if *left == 0 {
            return (0..0, None);
        }
        let own_depth = indent(text).len();
        let is_deeper = own_depth > depth;
        // Lines of a preprocessor, comments of shells and labels stand anywhere.
        let is_loose = || text.starts_with('#') || text.trim_end().ends_with(':') && end > head + 1;
        if is_blank(text) || !is_deeper && depth > 0 && is_loose() {
            continue;
        }
        if is_deeper || own_depth == depth && end == head + 1 && text.trim() == "{" {
            end = line + 1;
            continue;
        }
        let closes = own_depth == depth && is_closer(text);
        return (head + 1..if closes { line } else { end }, closes.then_some(line));
    }
    (head + 1..end, None)
}

/// Whether a line of the file lies in the block that another one heads, or closes it.
pub(super) fn encloses(source: &Source, head: usize, line: usize) -> bool {
    let depth = indent(source.line(head)).len();
    let is_in = |line: usize| is_blank(source.line(line)) || indent(source.line(line)).len() > depth;
    head < line && line - head < MAX_BLOCK && (head + 1..line).all(is_in)
}

/// Whether a line closes a block.
pub(super) fn is_closer(line: &str) -> bool {
    let words = line.trim_start();
    let is_end =
        words.strip_prefix("end").is_some_and(|rest| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_'));
    words.starts_with(['}', ')', ']']) || words.starts_with("</") || is_end
}

/// Whether a line belongs to the declaration below it: a comment, an annotation, the parameters of a template.
pub(super) fn is_head(line: &str) -> bool {
    let words = line.trim();
    ["@", "#[", "//", "/*", "*", "# ", "--"].iter().any(|sign| words.starts_with(sign))
        || words.starts_with("template") && words.ends_with('>')
        || words.starts_with('[') && words.ends_with(']')
}

/// Whether a line is an annotation, of which many are equal.
pub(super) fn is_annotation(line: &str) -> bool {
    let words = line.trim();
    words.starts_with(['@', '[']) || words.starts_with("#[")
}

/// Whether a line is a comment, an annotation or the parameters of a template: it belongs to what is below it.
pub(super) fn belongs_to_the_next(text: &str) -> bool {
    is_head(text) || is_sign(text)
}

/// Whether a line leaves the block that it is in.
pub(super) fn leaves(text: &str) -> bool {
    let mut words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.next().is_some_and(|word| matches!(word, "return" | "throw" | "raise" | "break"))
}

/// Whether a line is a comment or an annotation, of which many are equal.
fn is_sign(text: &str) -> bool {
    ["@", "#", "//", "/*", "*", "--"].iter().any(|sign| text.trim_start().starts_with(sign))
}

/// Whether one of the last of these lines belongs at the end of a file.
pub(super) fn ends_with_its_last_lines(source: &Source, lines: Range<usize>) -> bool {
    let mut last = lines.rev().take(LAST_REACH).map(|line| source.line(line));
    last.any(|line| LAST_LINES.iter().any(|begin| line.starts_with(begin)))
}

/// The line of the file after the last of the block at whose end new lines belong, which stand below a marker and after which
/// the snippet leaves the block: the end of a file, and of a block that no line closes.
pub(super) fn end_of_block(prepared: &PreparedSnippet<'_>, run: &Range<usize>, source: &Source) -> Option<usize> {
    let full = |token: &usize| prepared.is_line(*token) && !is_blank(prepared.text(*token));
    let tokens: Vec<usize> = run.clone().filter(full).collect();
    let first = *tokens.first()?;
    let depth = indent(prepared.text(first)).len();
    let is_inside = tokens.iter().all(|&token| indent(prepared.text(token)).len() >= depth);
    let has_marker_above = run.start > 1 || !prepared.implied[0];
    if !is_inside || !has_marker_above || is_closer(prepared.text(first)) {
        return None;
    }
    let is_end = run.end + 1 == prepared.len() && prepared.implied[1];
    let inside = if depth == 0 {
        // Lines of another file end with a snippet as well; what is put behind all others is a declaration or a block, set off.
        let is_set_off = run.start < first;
        let begins = tokens.iter().position(|&token| !is_sign(prepared.text(token)));
        let declares = begins.is_some_and(|at| {
            let text = prepared.text(tokens[at]);
            let opens = tokens.get(at + 1).is_some_and(|&next| indent(prepared.text(next)).len() > depth);
            declared_name(text).is_some() || opens && is_distinctive(text)
        });
        (is_end && is_set_off && declares).then_some(0..source.line_count())?
    } else {
        // A marker as deep as the lines goes on with their block.
        if !is_end && prepared.marker_indent(run.end).is_none_or(|marker| marker >= depth) {
            return None;
        }
        let head = (0..first).rev().find(|token| full(token) && indent(prepared.text(*token)).len() < depth)?;
        prepared.known[head].filter(|known| known.count == 1)?;
        let line = source.lines().position(|line| line == prepared.text(head))?;
        let mut left = MAX_WALKED;
        let (inside, closer) = block(source, line, &mut left);
        closer.is_none().then_some(inside)?
    };
    let last = inside.clone().rev().find(|&line| !is_blank(source.line(line)))?;
    let is_left = depth > 0 && indent(source.line(last)).len() == depth && leaves(source.line(last));
    let is_last = is_left || depth == 0 && ends_with_its_last_lines(source, inside.clone());
    let is_known = |line: usize| {
        let old = source.line(line);
        let same = |new: &str| new == old || key(new).is_some() && key(new) == key(old);
        let beside = |new: &&usize| {
            let text = prepared.text(**new);
            indent(text).len() == depth && is_distinctive(text) && !is_sign(text)
        };
        indent(old).len() == depth && tokens.iter().filter(beside).any(|&new| same(prepared.text(new)))
    };
    let text = prepared.text(first);
    // Lines of the file at another indentation.
    let stands = |token: &usize| source.lines().any(|line| line.trim() == prepared.text(*token).trim());
    let first_told = tokens.iter().find(|&&token| !is_sign(prepared.text(token)));
    let is_moved = [first_told, tokens.last()]
        .into_iter()
        .flatten()
        .any(|token| is_distinctive(prepared.text(*token)) && stands(token));
    let begins_new = key(text).is_some() || !super::likeness::are_similar(source.line(last), text);
    (!is_last && !is_moved && begins_new && !inside.into_iter().any(is_known)).then_some(last + 1)
}
