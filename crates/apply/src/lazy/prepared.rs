//! A snippet prepared for alignment: implied markers at its edges, lines at the file's indentation, the worth of each line.
//!
//! Invariant: there is a marker at both ends, so that every line is between two.

use super::align::{LineToken, Token};
use super::indent::{indent, shift_of, shifted};
use super::inserted::{Block, Run};
use super::keys::{Key, declared_name, key};
use super::likeness::LineFeatures;
use super::lines::{LineStats, Lines, MIN_INFORMATION, UNIT, information, is_blank};
use super::snippet::{Piece, Snippet};
use crate::source::Source;
use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;

/// A name that occurs at more places does not identify one.
const MAX_PLACES: usize = 1;
/// Cost of a written marker that stands for no lines.
const EMPTY_MARKER: i32 = UNIT / 4;
/// Cost of an implied marker that stands for lines although the snippet has written ones.
const IMPLIED_MARKER: i32 = 2 * UNIT;

/// Worth of replacing a line by a similar one.
const SIMILAR: i32 = 2 * UNIT;
/// Neighbouring lines that occur at more places do not identify one.
const MAX_NEIGHBOUR_PLACES: usize = 3;

/// Signs that begin the comments and annotations above a declaration.
pub(super) const HEADS: &[&str] = &["@", "#", "//", "/*", "*", "--"];

/// Cost of taking a line at the end of a segment as new although the file has it once: more than any match is worth.
const UNIQUE_END: i32 = 60 * UNIT;

/// Weights of an alignment. A result on which several agree is likely the intended one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scoring {
    /// Maximises the lines of the snippet that match the file.
    MostMatched,
    /// Minimises deleted lines, and matches the lines at the ends of segments.
    FewestDeleted,
    /// As `MostMatched`, but deletions are cheap: finds other interpretations.
    Lenient,
}

/// A snippet that is ready to be aligned with a file.
pub(crate) struct PreparedSnippet<'u> {
    /// The text of each token; `None` for a marker.
    texts: Vec<Option<Cow<'u, str>>>,
    /// The file's statistics of each line; `None` for lines of a new declaration.
    pub known: Vec<Option<LineStats>>,
    /// Lines of the same name that each line may replace, with the worth of it.
    replaces: Vec<Vec<(usize, i32)>>,
    /// Similar lines near its neighbours.
    similar: Vec<Vec<usize>>,
    /// Whether each line belongs to a declaration that the file does not have.
    apart: Vec<bool>,
    /// How far each marker is indented that is written.
    marker_indents: Vec<Option<usize>>,
    /// Whether the first and the last marker are implied.
    pub implied: [bool; 2],
    /// The runs of lines between markers, as ranges of tokens.
    pub segments: Vec<Range<usize>>,
    /// Segments whose new block fits above either of two lines of the file.
    pub rivals: Vec<(Range<usize>, [usize; 2])>,
    /// Whether any segment had another indentation than the file.
    pub reindented: bool,
    /// Whether the first line is the file's first, and the last the file's last.
    pub edges: [bool; 2],
    /// Whether all markers have blank lines on both sides.
    padded: bool,
}

impl<'u> PreparedSnippet<'u> {
    /// Prepares a snippet.
    pub fn new(snippet: &Snippet<'u>, source: &Source, lines: &Lines<'_>) -> PreparedSnippet<'u> {
        // Plus a marker at both ends.
        let room = snippet.pieces.len() + 2;
        let mut prepared = PreparedSnippet {
            texts: Vec::with_capacity(room),
            known: Vec::with_capacity(room),
            replaces: Vec::with_capacity(room),
            similar: Vec::with_capacity(room),
            apart: Vec::with_capacity(room),
            marker_indents: Vec::with_capacity(room),
            implied: [false; 2],
            segments: Vec::new(),
            rivals: Vec::new(),
            reindented: false,
            edges: [false; 2],
            padded: false,
        };
        prepared.edges = edges(snippet, source);
        if !matches!(snippet.pieces.first(), Some(Piece::Marker(_))) {
            prepared.implied[0] = true;
            prepared.push_marker(None);
        }
        let mut run: Vec<&'u str> = Vec::new();
        for piece in &snippet.pieces {
            match piece {
                Piece::Line(line) => run.push(line),
                Piece::Marker(marker) => {
                    prepared.push_segment(&std::mem::take(&mut run), lines, source);
                    prepared.push_marker(Some(marker.line));
                }
            }
        }
        prepared.push_segment(&run, lines, source);
        if matches!(prepared.texts.last(), Some(Some(_))) {
            prepared.implied[1] = true;
            prepared.push_marker(None);
        }
        prepared.padded = prepared.are_markers_padded();
        for segment in prepared.segments.clone() {
            prepared.find_replaced(segment.clone(), source);
            prepared.set_new_blocks_apart(segment.clone(), source, lines);
            prepared.set_inserted_apart(segment.clone(), lines);
            prepared.find_similar(segment, lines, source);
        }
        prepared
    }

    /// The text of a line at the file's indentation.
    pub fn text(&self, token: usize) -> &str {
        self.texts[token].as_deref().unwrap_or_default()
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// The snippet for the alignment.
    pub fn tokens(&self, scoring: Scoring) -> Vec<Token> {
        let says_more = self.segments.len() > 1 || !self.implied[0] || !self.implied[1];
        (0..self.len())
            .map(|token| match &self.texts[token] {
                Some(text) => Token::Line(self.line_token(token, text, scoring)),
                None => {
                    let is_implied = (token == 0 && self.implied[0]) || (token + 1 == self.len() && self.implied[1]);
                    let unsaid = if scoring == Scoring::FewestDeleted { IMPLIED_MARKER } else { 4 * IMPLIED_MARKER };
                    let some = if is_implied && says_more { unsaid } else { 0 };
                    Token::Marker { empty: if is_implied { 0 } else { EMPTY_MARKER }, some }
                }
            })
            .collect()
    }

    /// Worth of replacing a line by another.
    pub fn worth_of_replacing(&self, token: usize, line: usize) -> i32 {
        self.replaces[token].iter().find(|(place, _)| *place == line).map_or(0, |(_, worth)| *worth)
    }

    fn line_token(&self, token: usize, text: &str, scoring: Scoring) -> LineToken {
        let known = self.known[token];
        let (id, mut replaces) = (known.map(|known| known.id), self.replaces[token].clone());
        if scoring == Scoring::FewestDeleted {
            // A replaced line cannot be matched.
            replaces.iter_mut().for_each(|(_, worth)| *worth = -UNIT / 2);
        } else if replaces.is_empty() {
            replaces = self.similar[token].iter().map(|&line| (line, SIMILAR)).collect();
        }
        // Blank lines are no anchors.
        if is_blank(text) {
            let new = match scoring {
                _ if !self.is_beside_marker(token) => 0,
                Scoring::FewestDeleted => 3 * UNIT / 2,
                _ => UNIT / 2,
            };
            return LineToken { id, worth: UNIT / 50, new, ..LineToken::default() };
        }
        let full = known.map_or(0, |known| known.worth);
        let stands_once = known.is_some_and(|known| known.count == 1 && full >= UNIT / 2);
        let (worth, new) = match scoring {
            Scoring::MostMatched if stands_once && self.is_at_end(token) => (full, UNIQUE_END),
            Scoring::MostMatched => (full, if full >= MIN_INFORMATION { full / 2 } else { 0 }),
            Scoring::FewestDeleted if !self.is_at_end(token) => (full / 6, 0),
            Scoring::FewestDeleted if full >= UNIT / 2 => (full / 6, if stands_once { UNIQUE_END } else { 12 * UNIT }),
            Scoring::FewestDeleted => (full / 6, if known.is_some() { 3 * UNIT / 2 } else { 0 }),
            Scoring::Lenient => (full, 0),
        };
        LineToken { id, worth, new: new + UNIT / 10, replaces, ..LineToken::default() }
    }

    /// Whether the next token on a side is a written marker.
    fn is_beside_marker(&self, token: usize) -> bool {
        let is_marker = |near: usize| {
            let is_implied = (near == 0 && self.implied[0]) || (near + 1 == self.len() && self.implied[1]);
            !self.is_line(near) && !is_implied
        };
        is_marker(token - 1) || is_marker(token + 1)
    }

    /// Whether a line is the first or last of its segment that is not blank.
    fn is_at_end(&self, token: usize) -> bool {
        let is_told = |near: &usize| !self.is_line(*near) || !is_blank(self.text(*near));
        let before = (0..token).rev().find(is_told);
        let after = (token + 1..self.len()).find(is_told);
        [before, after].into_iter().flatten().any(|near| !self.is_line(near))
    }

    /// The lines of the file that declare or assign the name that a new line does, as deep.
    pub fn namesakes(&self, token: usize) -> impl Iterator<Item = usize> {
        self.replaces[token].iter().map(|(line, _)| *line)
    }

    /// Whether a token is a line.
    pub fn is_line(&self, token: usize) -> bool {
        self.texts[token].is_some()
    }

    /// Whether all markers have blank lines on both sides: then these belong to the markers.
    pub fn is_padded(&self) -> bool {
        self.padded
    }

    fn are_markers_padded(&self) -> bool {
        let [first, last] = self.implied;
        let blank = |token: usize| is_blank(self.text(token));
        self.segments.iter().all(|segment| {
            let above = segment.start == 1 && first || blank(segment.start);
            above && (segment.end + 1 == self.len() && last || blank(segment.end - 1))
        })
    }

    /// Whether a line belongs to a declaration that the file does not have.
    pub fn is_apart(&self, token: usize) -> bool {
        self.apart[token]
    }

    /// Whether a new line is similar to a line of the file near the places of its neighbours.
    pub fn is_similar(&self, token: usize, line: usize) -> bool {
        self.similar[token].contains(&line)
    }

    /// The lines of the file that a line may take the place of: those of its name, and similar ones.
    pub fn likes(&self, token: usize) -> impl Iterator<Item = usize> {
        self.namesakes(token).chain(self.similar[token].iter().copied())
    }

    /// The segment of a line.
    pub fn segment_of(&self, token: usize) -> Option<&Range<usize>> {
        self.segments
            .get(self.segments.partition_point(|segment| segment.end <= token))
            .filter(|it| it.contains(&token))
    }

    /// How far a written marker is indented.
    pub fn marker_indent(&self, token: usize) -> Option<usize> {
        self.marker_indents.get(token).copied().flatten()
    }

    fn push_marker(&mut self, marker: Option<&str>) {
        self.marker_indents.resize(self.len(), None);
        self.marker_indents.push(marker.map(|line| indent(line).len()));
        self.push(None, None);
    }

    fn push(&mut self, text: Option<Cow<'u, str>>, known: Option<LineStats>) {
        self.texts.push(text);
        self.known.push(known);
        self.replaces.push(Vec::new());
        self.similar.push(Vec::new());
        self.apart.push(false);
    }

    fn push_segment(&mut self, run: &[&'u str], lines: &Lines<'_>, source: &Source) {
        if run.is_empty() {
            return;
        }
        let shift = shift_of(run, lines, source.lines());
        self.reindented |= shift.is_some();
        let first = self.len();
        for line in run {
            let text = shifted(line, shift.as_ref());
            let known = lines.stats(&text);
            self.push(Some(text), known);
        }
        self.segments.push(first..self.len());
    }

    /// Marks lines of declarations that the file does not have as new, even if the file has equal lines elsewhere.
    fn set_new_blocks_apart(&mut self, segment: Range<usize>, source: &Source, lines: &Lines<'_>) {
        let mut token = segment.start;
        while token < segment.end {
            let name = Some(self.text(token)).filter(|_| self.known[token].is_none()).and_then(declared_name);
            let is_new = name.is_some_and(|name| places_of(source, name, declared_name).next().is_none());
            let is_new = is_new && !self.keeps_comment(token, segment.start, source, lines);
            let end = if is_new { self.block_end(token, segment.end) } else { token };
            if end > token && self.is_renamed(token..end, source, lines) {
                token = end;
                continue;
            }
            if end > token {
                self.set_apart(self.head_start(token, segment.start)..end);
            }
            token = end.max(token + 1);
        }
    }

    /// Also marks lines between two parts of the segment that are adjacent in the file.
    fn set_inserted_apart(&mut self, segment: Range<usize>, lines: &Lines<'_>) {
        let texts: Vec<&str> = segment.clone().map(|token| self.text(token)).collect();
        let ids: Vec<Option<u32>> = segment.clone().map(|token| lines.id_of(self.text(token))).collect();
        match (Run { texts: &texts, ids: &ids }).block(lines) {
            Block::None => {}
            Block::One(block) => self.set_apart(segment.start + block.start..segment.start + block.end),
            Block::Several(places) => self.rivals.push((segment, places)),
        }
    }

    fn set_apart(&mut self, block: Range<usize>) {
        self.known[block.clone()].fill(None);
        self.replaces[block.clone()].fill(Vec::new());
        self.apart[block].fill(true);
    }

    /// Whether the lines after a block's first stand in the file one after another, below a declaration: then its name is new
    /// and the block is not.
    fn is_renamed(&self, block: Range<usize>, source: &Source, lines: &Lines<'_>) -> bool {
        let body: Option<Vec<u32>> = (block.start + 1..block.end).map(|token| Some(self.known[token]?.id)).collect();
        let Some(body) = body.filter(|body| !body.is_empty()) else { return false };
        let depth = indent(self.text(block.start));
        lines.runs(&body).filter(|&start| start > 0).any(|start| {
            let head = source.line(start - 1);
            indent(head) == depth && declared_name(head).is_some()
        })
    }

    /// Finds lines that new lines may replace: similar ones, next to the places of the lines around them.
    fn find_similar(&mut self, segment: Range<usize>, lines: &Lines<'_>, source: &Source) {
        let mut token = segment.start;
        while token < segment.end {
            if self.known[token].is_some() || self.apart[token] {
                token += 1;
                continue;
            }
            let end = (token..segment.end)
                .find(|&next| self.known[next].is_some() || self.apart[next])
                .unwrap_or(segment.end);
            let mut near: Vec<Range<usize>> = Vec::new();
            let reach = end - token + 2;
            for (neighbour, is_before) in [(token.checked_sub(1), true), (Some(end), false)] {
                // Blank lines and brackets occur everywhere; the line beyond them identifies the place.
                let inside = neighbour.filter(|near| segment.contains(near));
                let known = inside.and_then(|near| {
                    let beyond: Vec<usize> = if is_before {
                        (segment.start..=near).rev().take(4).collect()
                    } else {
                        (near..segment.end).take(4).collect()
                    };
                    let informative =
                        |at: &usize| self.known[*at].is_some_and(|known| known.count as usize <= MAX_NEIGHBOUR_PLACES);
                    let at = beyond.iter().copied().find(informative)?;
                    Some((self.known[at]?, at.abs_diff(near)))
                });
                for (place, off) in known.iter().flat_map(|(known, off)| {
                    lines.few_places(known, MAX_NEIGHBOUR_PLACES).map(move |place| (place, *off))
                }) {
                    near.push(if is_before {
                        (place + 1).min(source.line_count())..(place + 1 + off + reach).min(source.line_count())
                    } else {
                        place.saturating_sub(off + reach)..place
                    });
                }
            }
            let mut near: Vec<usize> = near.into_iter().flatten().collect();
            near.sort_unstable();
            near.dedup();
            let looks: Vec<LineFeatures<'_>> = near.iter().map(|&line| LineFeatures::of(source.line(line))).collect();
            for fresh in token..end {
                let new = LineFeatures::of(self.text(fresh));
                let alike = near.iter().zip(&looks).filter(|(_, old)| new.is_similar_to(old));
                self.similar[fresh] = alike.map(|(&line, _)| line).collect();
            }
            token = end;
        }
    }

    /// Whether the comment above a declaration occurs in the file once, above another one: then that one has been renamed.
    fn keeps_comment(&self, header: usize, least: usize, source: &Source, lines: &Lines<'_>) -> bool {
        let Some(above) = header.checked_sub(1).filter(|above| *above >= least) else { return false };
        let words = self.text(above).trim_start();
        let is_comment = ["#", "//", "*", "--"].iter().any(|sign| words.starts_with(sign)) && !words.starts_with("#[");
        let known = self.known[above].filter(|known| is_comment && known.count == 1 && known.worth >= MIN_INFORMATION);
        let below = known.and_then(|known| lines.place_of_first(known.id)).map(|place| place + 1);
        below.is_some_and(|below| below < source.line_count() && declared_name(source.line(below)).is_some())
    }

    /// The first of the comments and annotations right above a declaration.
    fn head_start(&self, header: usize, least: usize) -> usize {
        let depth = indent(self.text(header)).len();
        let heads = |&token: &usize| {
            let text = self.text(token);
            let words = text.trim_start();
            indent(text).len() >= depth && HEADS.iter().any(|sign| words.starts_with(sign))
        };
        (least..header).rev().take_while(heads).last().unwrap_or(header)
    }

    /// After the last line of the block that a line begins.
    fn block_end(&self, first: usize, end: usize) -> usize {
        block_end(first, end, |token| self.text(token))
    }

    /// Lines that are not in the file may replace those that declare or assign the same name.
    fn find_replaced(&mut self, segment: Range<usize>, source: &Source) {
        for token in segment {
            if self.known[token].is_some() {
                continue;
            }
            let text = self.texts[token].as_deref().unwrap_or_default();
            let Some(key) = key(text) else { continue };
            let (name, worth) = match key {
                Key::Declares(name) => (name, 4 * UNIT),
                Key::Assigns(name) => (name, 5 * UNIT / 2),
            };
            let depth = indent(text);
            let places: Vec<usize> = places_of(source, name, |line| {
                match (Some(line).filter(|line| indent(line) == depth).and_then(super::keys::key)?, key) {
                    (Key::Declares(found), Key::Declares(_)) | (Key::Assigns(found), Key::Assigns(_)) => Some(found),
                    _ => None,
                }
            })
            .take(MAX_PLACES + 1)
            .collect();
            if places.is_empty() || places.len() > MAX_PLACES {
                continue;
            }
            let worth = (f64::from(worth) / (places.len() as f64).sqrt()) as i32;
            self.replaces[token] = places.into_iter().map(|place| (place, worth)).collect();
        }
    }
}

/// After the last line of the block that a line begins, by indentation.
pub(super) fn block_end<'t>(first: usize, end: usize, text: impl Fn(usize) -> &'t str) -> usize {
    let depth = indent(text(first)).len();
    let mut last = first;
    for at in first + 1..end {
        let text = text(at);
        if is_blank(text) {
            continue;
        }
        let closes = text.trim_start().starts_with(['}', ')', ']', '{']) || text.trim() == "end";
        match indent(text).len() {
            deeper if deeper > depth => last = at,
            same if same == depth && closes => {
                last = at;
                // Behind `}` alone another block begins or ends; behind `) {` this one goes on.
                if !text.trim_end().ends_with(['{', '(', '[']) && text.trim() != "{" {
                    break;
                }
            }
            _ => break,
        }
    }
    last + 1
}

/// Lines of the file that `named` gives this name.
pub(crate) fn places_of<'s>(
    source: &'s Source,
    name: &'s str,
    named: impl Fn(&'s str) -> Option<&'s str> + 's,
) -> impl Iterator<Item = usize> + 's {
    let mut last = usize::MAX;
    memmem::find_iter(source.text.as_bytes(), name.as_bytes()).filter_map(move |byte| {
        let line = source.line_of(byte);
        let is_first = std::mem::replace(&mut last, line) != line;
        (is_first && named(source.line(line)) == Some(name)).then_some(line)
    })
}

/// Whether the snippet's edges are the file's: no marker, and the same first (last) line that is not blank.
fn edges(snippet: &Snippet<'_>, source: &Source) -> [bool; 2] {
    // In a snippet with markers, an edge without one is the file's edge; without markers, a bracket alone is no evidence of it.
    let least = if snippet.has_markers() { 0 } else { MIN_INFORMATION / 2 };
    let at = |piece: Option<&Piece<'_>>, line: Option<&str>| match (piece, line) {
        (Some(Piece::Line(shown)), Some(line)) => shown.trim_end() == line.trim_end() && information(line) >= least,
        _ => false,
    };
    let is_full = |piece: &&Piece<'_>| !matches!(piece, Piece::Line(line) if is_blank(line));
    let is_full_line = |line: &&str| !is_blank(line);
    [
        at(snippet.pieces.iter().find(is_full), source.lines().find(is_full_line)),
        at(snippet.pieces.iter().rev().find(is_full), source.lines().rev().find(is_full_line)),
    ]
}
