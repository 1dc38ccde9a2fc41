//! Snippets shaped as models write them: the heads of the blocks around a change, markers, the new lines, the closers.
//!
//! What a diff would show around them is left out: a new member stands between a marker and the closer of its class.
//! Invariant: without its markers a snippet is lines of the changed file, and where lines go the update shows both sides.

use super::chance::Chance;
use super::change::{Change, Hunk, indent};
use super::language::Leader;
use super::lazy::is_marker_like;
use super::sketch::{Piece, Place, Sketch};
use std::collections::BTreeSet;
use std::ops::Range;

/// Hunks of a change that are written alone, each as a change of its own.
const MAX_ALONE: usize = 4;
/// Longer functions are not written anew (lines).
const MAX_WHOLE_LINES: usize = 80;
/// Words that begin the lines which bring names from elsewhere.
const IMPORTS: [&str; 9] =
    ["import ", "from ", "use ", "using ", "#include", "require", "const {", "alias ", "pub use "];

/// A snippet with the file that it stands for.
pub struct Snippet {
    /// The style's name.
    pub style: &'static str,
    /// Its text.
    pub text: String,
    /// The file that it means.
    pub truth: String,
    /// How well it names its place.
    pub place: Place,
}

/// The shape of one hunk: what it is called, the lines that are shown, and whether they name one place.
struct Shape {
    style: &'static str,
    shown: Vec<Range<usize>>,
    is_unique: bool,
}

/// The snippets of a change and of its hunks alone.
pub fn snippets(change: &Change, leader: Leader, chance: &mut Chance) -> Vec<Snippet> {
    let mut snippets = Vec::new();
    if change.hunks.len() > 1 {
        let shapes: Option<Vec<Shape>> = change.hunks.iter().map(|hunk| shape(change, hunk)).collect();
        if let Some(shapes) = shapes.filter(|_| change.hunks.len() <= 8) {
            let is_unique = shapes.iter().all(|shape| shape.is_unique);
            let shown = shapes.into_iter().flat_map(|shape| shape.shown).collect();
            let shape = Shape { style: "several in one update", shown, is_unique };
            snippets.extend(written(change, &shape, leader, chance));
        }
    }
    let mut order: Vec<usize> = (0..change.hunks.len()).collect();
    chance.shuffle(&mut order);
    for number in order.into_iter().take(MAX_ALONE) {
        let Some(alone) = alone(change, &change.hunks[number]) else { continue };
        let [hunk] = &alone.hunks[..] else { continue };
        if let Some(shape) = shape(&alone, hunk) {
            snippets.extend(written(&alone, &shape, leader, chance));
        }
        if let Some(shape) = rewritten(&alone, hunk) {
            snippets.extend(written(&alone, &shape, leader, chance));
        }
    }
    snippets
}

/// The change of one hunk.
pub fn alone(change: &Change, hunk: &Hunk) -> Option<Change> {
    let mut new = change.old.clone();
    new.splice(hunk.old.clone(), change.new[hunk.new.clone()].iter().cloned());
    let mut alone = Change::between(change.old.clone(), new, change.final_newline)?;
    alone.final_newline = change.final_newline;
    Some(alone)
}

/// How a model would write a hunk: new lines right below a head, right above a closer, at the end of the file, beside another
/// import; else with a line on each side.
fn shape(change: &Change, hunk: &Hunk) -> Option<Shape> {
    let lines = hunk.new.clone();
    let is_full = |at: &usize| !change.new[*at].trim().is_empty();
    let full: Vec<usize> = lines.clone().filter(is_full).collect();
    let above = (0..lines.start).rev().find(is_full);
    let below = (lines.end..change.new.len()).find(is_full);
    let scopes = scopes(change, &lines);
    let mut shown = vec![lines.clone()];
    let heads = scopes.iter().map(|scope| scope.0..scope.0 + 1);
    shown.extend(heads.chain(scopes.iter().filter_map(|scope| scope.1).map(|end| end..end + 1)));
    if shown.iter().skip(1).any(|line| change.kept[line.start].is_none()) {
        return None;
    }
    let is_held = is_unique(change, &scopes);
    if !hunk.old.is_empty() || full.is_empty() {
        let context = [above?, below?];
        let is_kept = context.iter().all(|&line| change.kept[line].is_some());
        let touches = context[0] + 1 == lines.start && context[1] == lines.end;
        shown.push(context[0]..context[0] + 1);
        shown.push(context[1]..context[1] + 1);
        let with_context = lines.start - 1..lines.end + 1;
        let place = Sketch::of(change, vec![with_context]).place(change, true);
        let style = "lines changed in a block";
        return (is_kept && touches).then_some(Shape { style, shown, is_unique: place.unique });
    }
    let is_import = full.iter().all(|&at| IMPORTS.iter().any(|word| change.new[at].starts_with(word)));
    let innermost = scopes.first();
    let (style, is_unique) = if is_import && scopes.is_empty() {
        let beside = above.filter(|&at| at + 1 == lines.start).or(below.filter(|&at| at == lines.end))?;
        shown.push(beside..beside + 1);
        let is_once = change.kept[beside].is_some_and(|old| change.places_of(&[&change.old[old]]).len() == 1);
        ("import added beside another", is_once)
    } else if innermost.is_some_and(|scope| Some(scope.0) == above) {
        ("new lines after the head", is_held)
    } else if innermost.is_some_and(|scope| scope.1.is_some() && scope.1 == below) {
        ("new lines before the closer", is_held)
    } else if below.is_none() && scopes.is_empty() {
        ("new lines at the end of the file", true)
    } else {
        let is_line = |at: usize| change.kept[at].is_some();
        let beside = above.filter(|&at| is_line(at))?;
        shown.push(beside..lines.start);
        let line = &change.old[change.kept[beside]?];
        ("new lines below another", change.places_of(&[line]).len() == 1)
    };
    Some(Shape { style, shown, is_unique })
}

/// The function around a hunk, written anew as a whole, below the head of its class.
fn rewritten(change: &Change, hunk: &Hunk) -> Option<Shape> {
    let inside = hunk.new.start..hunk.new.end.max(hunk.new.start + 1).min(change.new.len());
    let scopes = scopes(change, &inside);
    let at = scopes.iter().position(|&(head, _)| is_function(&change.new[head]))?;
    let (head, closer) = scopes[at];
    let end = closer.map_or_else(
        || {
            let level = indent(&change.new[head]);
            let is_in = |line: &usize| change.new[*line].trim().is_empty() || indent(&change.new[*line]) > level;
            let last = (head + 1..change.new.len()).take_while(is_in).filter(|&at| !change.new[at].trim().is_empty());
            last.last().unwrap_or(head) + 1
        },
        |closer| closer + 1,
    );
    if end - head > MAX_WHOLE_LINES || hunk.new.end > end || hunk.new.start < head {
        return None;
    }
    let outer = &scopes[at + 1..];
    let whole = head..end;
    let mut shown = vec![whole];
    let heads = outer.iter().map(|scope| scope.0..scope.0 + 1);
    shown.extend(heads.chain(outer.iter().filter_map(|scope| scope.1).map(|end| end..end + 1)));
    let is_unique = is_unique(change, &scopes[at..]);
    Some(Shape { style: "function written anew", shown, is_unique })
}

/// Whether a line looks like the head of a function.
fn is_function(line: &str) -> bool {
    let words = line.trim_start();
    let is_word = ["fn ", "def ", "func ", "function ", "fun ", "defp "]
        .iter()
        .any(|word| words.starts_with(word) || words.contains(&format!(" {word}")));
    let is_statement = ["if", "for", "while", "switch", "else", "}", "return", "catch", "with", "match", "do", "try"]
        .iter()
        .any(|word| words.starts_with(word));
    is_word || (words.contains('(') && words.ends_with('{') && !is_statement && !words.contains('='))
}

/// Heads and closers of the blocks around lines, the innermost first.
fn scopes(change: &Change, lines: &Range<usize>) -> Vec<(usize, Option<usize>)> {
    let mut scopes: Vec<(usize, Option<usize>)> = Vec::new();
    let mut inner = lines.clone();
    while let Some((head, closer)) = change.scope(&inner) {
        scopes.push((head, closer));
        inner = head..closer.map_or(inner.end, |closer| closer + 1).max(inner.end);
    }
    scopes
}

/// Whether the head of the innermost block stands once in the file before, or once in a block for which the same holds.
fn is_unique(change: &Change, scopes: &[(usize, Option<usize>)]) -> bool {
    let Some((&(head, _), outer)) = scopes.split_first() else { return false };
    let Some(old) = change.kept[head] else { return false };
    let places = change.places_of(&[&change.old[old]]);
    if places.len() == 1 {
        return true;
    }
    if !is_unique(change, outer) {
        return false;
    }
    let (first, last) = outer[0];
    let kept = |line: usize| change.kept[line];
    let (Some(first), Some(last)) = (kept(first), last.and_then(kept)) else { return false };
    places.iter().filter(|&&place| first < place && place < last).count() == 1
}

/// The snippet of a shape, if it says what changes.
fn written(change: &Change, shape: &Shape, leader: Leader, chance: &mut Chance) -> Option<Snippet> {
    let sketch = Sketch::of(change, shape.shown.clone());
    let says_all = sketch.is_faithful(change, false)
        && sketch.says_what_goes(change)
        && shows_both_sides(change, &sketch)
        && sketch.ends_are_told(change);
    if !sketch.hides() || !says_all {
        return None;
    }
    let edges = chance.coin();
    let mut lines: Vec<String> = Vec::new();
    let last = sketch.pieces.len() - 1;
    let only_end = shape.style == "new lines at the end of the file";
    for (number, piece) in sketch.pieces.iter().enumerate() {
        match piece {
            Piece::Show(range) => lines.extend(change.new[range.clone()].iter().cloned()),
            Piece::Hide(_) if !edges && !only_end && (number == 0 || number == last) => {}
            Piece::Hide(range) => {
                let hidden = change.new[range.clone()].iter().find(|line| !line.trim().is_empty());
                let blanks = hidden.map_or("", |line| &line[..indent(line)]);
                lines.push(format!("{blanks}{} ... existing code ...{}", leader.0, leader.1));
            }
        }
    }
    let markers = lines.iter().filter(|line| is_marker_like(line)).count();
    let written = sketch.pieces.iter().filter(|piece| matches!(piece, Piece::Hide(_))).count();
    let reads_otherwise = markers > written || lines.iter().any(|line| is_marker_like(line) && change.has(line));
    let place = Place { unique: shape.is_unique, anchored: shape.is_unique };
    let truth = change.file(&change.new);
    (!reads_otherwise && markers > 0).then(|| Snippet {
        style: shape.style,
        text: lines.join("\n") + "\n",
        truth,
        place,
    })
}

/// Whether all lines that go went from between two that are shown.
fn shows_both_sides(change: &Change, sketch: &Sketch) -> bool {
    let hidden: BTreeSet<usize> = sketch
        .pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Hide(range) => Some([range.start, range.end]),
            Piece::Show(_) => None,
        })
        .flatten()
        .collect();
    change
        .hunks
        .iter()
        .filter(|hunk| !hunk.old.is_empty())
        .all(|hunk| !hidden.contains(&hunk.new.start) && !hidden.contains(&hunk.new.end))
}
