//! Snippets with markers for the rest of the file, as models write them.
//!
//! It does not write one that leaves something of the change out. Invariant: without its markers, padding and fences a
//! snippet is lines of the changed file.

use super::chance::Chance;
use super::change::{Change, indent};
use super::language::{JSX, LEADERS, Leader};
use super::sketch::{Piece, Place, Sketch};
use std::ops::Range;

/// What models write in place of the rest.
const PHRASES: [&str; 9] = [
    "... existing code ...",
    "... rest of code ...",
    "... rest of the file ...",
    "... unchanged ...",
    "...",
    "... keep existing code",
    "... code remains the same ...",
    "... other code ...",
    "... previous code ...",
];

/// Texts after a marker's dots.
const NOTES: [&str; 3] = ["(imports)", "up to here", "for the other cases"];

/// Longer functions are not shown whole (lines).
const MAX_WHOLE_LINES: usize = 150;

/// A snippet of a style.
pub struct Snippet {
    /// The style's name.
    pub style: &'static str,
    /// Its text.
    pub text: String,
    /// How well it names its place.
    pub place: Place,
}

/// How markers are written.
struct Writing {
    phrase: &'static str,
    leader: Leader,
    note: &'static str,
    indented: bool,
    edges: bool,
    padded: bool,
}

impl Writing {
    fn marker(&self, next: &str) -> String {
        let indentation = if self.indented { &next[..indent(next)] } else { "" };
        let space = if self.note.is_empty() { "" } else { " " };
        format!("{indentation}{} {}{space}{}{}", self.leader.0, self.phrase, self.note, self.leader.1)
    }
}

/// One snippet of each style that fits a change.
pub fn snippets(change: &Change, path: &str, leader: Leader, chance: &mut Chance) -> Vec<Snippet> {
    let mut snippets = Vec::new();
    let plain = |chance: &mut Chance| Writing {
        phrase: PHRASES[0],
        leader,
        note: "",
        indented: chance.coin(),
        edges: true,
        padded: false,
    };
    let mut add = |style, sketch: &Sketch, writing: &Writing| {
        snippets.extend(written(change, sketch, writing).map(|lines| Snippet {
            style,
            text: text(&lines),
            place: sketch.place(change, writing.edges),
        }));
    };
    let [one, two, three] = [1, 2, 3].map(|context| Sketch::with_context(change, context));
    for (style, sketch) in [("context 1", &one), ("context 2", &two), ("context 3", &three)] {
        add(style, sketch, &plain(chance));
    }
    if change.hunks.iter().all(|hunk| hunk.new.is_empty()) {
        add("deletion", &two, &plain(chance));
    }
    if two.shown().count() > 1 {
        add("several changes", &two, &plain(chance));
    }
    if let Some(sketch) = with_scopes(change, &two) {
        add("scope header", &sketch, &plain(chance));
    }
    if let Some(sketch) = whole_functions(change) {
        add("whole function", &sketch, &plain(chance));
    }
    let between = three.shown().count() > 1;
    let fragment = three.shown().map(Range::len).sum::<usize>() * 10 < change.old.len() * 6;
    if (between || fragment) && keeps_edges(change, &three) {
        let style = if between { "markers between only" } else { "no markers" };
        add(style, &three, &Writing { edges: false, ..plain(chance) });
    }
    let padded = [&three, &two].into_iter().find(|sketch| can_be_padded(change, sketch));
    if let Some(sketch) = padded {
        add("padded markers", sketch, &Writing { padded: true, ..plain(chance) });
    }
    let phrase = chance.below(PHRASES.len());
    add(PHRASE_STYLES[phrase], &two, &Writing { phrase: PHRASES[phrase], ..plain(chance) });
    add("wrong comment sign", &two, &Writing { leader: *chance.one_of(LEADERS), ..plain(chance) });
    add("words after the dots", &two, &Writing { note: chance.one_of::<&str>(&NOTES), ..plain(chance) });
    if path.ends_with("sx") {
        add("JSX marker", &two, &Writing { leader: JSX, indented: true, ..plain(chance) });
    }
    let bare = Sketch::of(change, change.hunks.iter().map(|hunk| hunk.new.clone()).collect());
    let shows_each =
        change.hunks.iter().all(|hunk| change.new[hunk.new.clone()].iter().any(|line| !line.trim().is_empty()));
    if shows_each && bare.is_faithful(change, false) && !reads_like_markers(change, &bare) {
        let lines = lines(change, &bare, &plain(chance));
        snippets.push(Snippet { style: BARE, text: text(&lines), place: Place::default() });
    }
    if let Some(lines) = written(change, &two, &plain(chance)) {
        let place = two.place(change, true);
        let fence = format!("```{}\n{}```\n", if chance.coin() { "text" } else { "" }, text(&lines));
        snippets.push(Snippet { style: "fenced", text: fence, place });
        snippets.extend(dedented(change, &two, &Writing { indented: false, ..plain(chance) }).map(|text| Snippet {
            style: "dedented",
            text,
            place,
        }));
    }
    snippets
}

/// The style of changed lines alone, which may be answered or refused.
pub const BARE: &str = "bare lines";

/// Styles of the phrases, in their order.
const PHRASE_STYLES: [&str; 9] = [
    "phrase: existing code",
    "phrase: rest of code",
    "phrase: rest of the file",
    "phrase: unchanged",
    "phrase: dots alone",
    "phrase: keep existing code",
    "phrase: code remains the same",
    "phrase: other code",
    "phrase: previous code",
];

/// The plain snippet that other kinds of cases begin with: two lines of context, every marker written.
pub fn plain(change: &Change, leader: Leader) -> Option<Snippet> {
    let writing = Writing { phrase: PHRASES[0], leader, note: "", indented: false, edges: true, padded: false };
    let sketch = Sketch::with_context(change, 2);
    let lines = written(change, &sketch, &writing)?;
    Some(Snippet { style: "context 2", text: text(&lines), place: sketch.place(change, true) })
}

fn text(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

/// The lines of a snippet, if they determine the change.
fn written(change: &Change, sketch: &Sketch, writing: &Writing) -> Option<Vec<String>> {
    let says_all = sketch.is_faithful(change, true) && sketch.says_what_goes(change);
    if !sketch.hides() || !says_all || reads_like_markers(change, sketch) {
        return None;
    }
    let lines = lines(change, sketch, writing);
    // A marker that the file holds as a line of its own could be meant as that line.
    let is_held = lines.iter().any(|line| is_marker_like(line) && change.has(line));
    (!is_held).then_some(lines)
}

fn lines(change: &Change, sketch: &Sketch, writing: &Writing) -> Vec<String> {
    let mut lines = Vec::new();
    let last = sketch.pieces.len() - 1;
    for (number, piece) in sketch.pieces.iter().enumerate() {
        match piece {
            Piece::Show(range) => lines.extend(change.new[range.clone()].iter().cloned()),
            Piece::Hide(_) if !writing.edges && (number == 0 || number == last) => {}
            Piece::Hide(range) => {
                if writing.padded && number > 0 {
                    lines.push(String::new());
                }
                let next = change.new.get(range.end).or_else(|| change.new.get(range.start.wrapping_sub(1)));
                lines.push(writing.marker(next.map_or("", String::as_str)));
                if writing.padded && number < last {
                    lines.push(String::new());
                }
            }
        }
    }
    lines
}

/// The snippet without the white space that all its lines begin with, if there is any.
fn dedented(change: &Change, sketch: &Sketch, writing: &Writing) -> Option<String> {
    let shown = || sketch.shown().flat_map(|range| &change.new[range.clone()]).filter(|line| !line.trim().is_empty());
    let first = shown().next()?;
    let mut common = &first[..indent(first)];
    for line in shown() {
        let same = common.bytes().zip(line.bytes()).take_while(|(a, b)| a == b).count();
        common = &common[..same];
    }
    if common.is_empty() {
        return None;
    }
    let lines = written(change, sketch, writing)?;
    let cut = |line: &String| line.strip_prefix(common).unwrap_or(line).to_owned();
    Some(text(&lines.iter().map(cut).collect::<Vec<_>>()))
}

/// The shown lines with the head and the end of the block around each.
fn with_scopes(change: &Change, sketch: &Sketch) -> Option<Sketch> {
    let mut shown: Vec<Range<usize>> = sketch.shown().cloned().collect();
    for range in sketch.shown() {
        let (head, end) = change.scope(range)?;
        shown.push(head..head + 1);
        shown.extend(end.map(|end| end..end + 1));
    }
    // Heads and ends that changed would need their own context.
    if shown.iter().any(|range| range.len() == 1 && change.kept[range.start].is_none()) {
        return None;
    }
    Some(Sketch::of(change, shown))
}

/// The blocks around the changes, each from its head to its end.
fn whole_functions(change: &Change) -> Option<Sketch> {
    let mut shown = Vec::new();
    for group in change.groups(1) {
        let (head, end) = change.scope(&group.new)?;
        let end = end.map_or(group.new.end, |end| end + 1);
        if end - head > MAX_WHOLE_LINES {
            return None;
        }
        shown.push(head..end);
    }
    Some(Sketch::of(change, shown))
}

/// Whether what is shown first and last is unchanged: without markers nothing else shows where the file goes on.
fn keeps_edges(change: &Change, sketch: &Sketch) -> bool {
    let is_told = |line: usize, old: Option<usize>| change.kept[line] == old && !change.new[line].trim().is_empty();
    let first = sketch.shown().next().is_none_or(|range| {
        let old = if range.start == 0 { Some(0) } else { change.kept[range.start] };
        old.is_some() && is_told(range.start, old)
    });
    let last = sketch.shown().last().is_none_or(|range| {
        let at_end = range.end == change.new.len();
        let old = if at_end { Some(change.old.len() - 1) } else { change.kept[range.end - 1] };
        old.is_some() && is_told(range.end - 1, old)
    });
    first && last
}

/// Blanks beside a marker say nothing only if the lines there are unchanged and not blank themselves.
fn can_be_padded(change: &Change, sketch: &Sketch) -> bool {
    let plain = |at: usize| change.kept[at].is_some() && !change.new[at].trim().is_empty();
    let last = sketch.pieces.len() - 1;
    sketch.pieces.iter().enumerate().all(|(number, piece)| match piece {
        Piece::Show(range) => (number == 0 || plain(range.start)) && (number == last || plain(range.end - 1)),
        Piece::Hide(_) => true,
    })
}

/// Whether a line that is shown could be taken for a marker.
pub fn reads_like_markers(change: &Change, sketch: &Sketch) -> bool {
    sketch.shown().any(|range| change.new[range.clone()].iter().any(|line| is_marker_like(line)))
}

/// Whether a line could be taken for a marker: a comment with an ellipsis, or an ellipsis alone.
pub fn is_marker_like(line: &str) -> bool {
    let line = line.trim();
    let dots = line.contains("...") || line.contains('…');
    dots && (line.starts_with(['.', '…', '*', '%']) || LEADERS.iter().any(|(open, _)| line.starts_with(open)))
}
