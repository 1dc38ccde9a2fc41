//! Other meanings of a part than the one that is chosen, which what it shows of the file does not rule out: a new declaration beside one like it,
//! lines put into a comment, the same change in another block that begins and ends alike.
//!
//! Invariant: it only refuses or speaks against a choice, and changes none.

use super::choice::Choice;
use super::doubts;
use super::indent::indent;
use super::keys::{brought, declared_name};
use super::likeness::LineFeatures;
use super::lines::{is_blank, is_distinctive};
use super::scopes::{belongs_to_the_next, is_closer};
use super::seams;
use super::weights::Weights;
use std::collections::BTreeSet;
use std::ops::Range;

/// Signs that begin a comment of one line.
const COMMENTS: [&str; 5] = ["//", "#", "--", ";", "%"];
/// Signs that begin a line of a comment, of one line or of several.
const COMMENT_SIGNS: [&str; 8] = ["//", "///", "//!", "#", "--", ";", "*", "%"];
/// What may stand at the end of an entry of a list, besides letters and digits.
const AT_AN_END: &str = ")]\"'_";
/// Lines beyond those that come and go in which what is put into a comment may stand.
const COMMENTED_WITHIN: usize = 20;
/// Lines beyond those that come and go in which an import stands near by.
const BROUGHT_WITHIN: usize = 6;
/// Places of a line that are looked at, to bound the work.
const MAX_PLACES: usize = 50;
/// Of more new lines none is compared with those elsewhere, to bound the work: it is taken for granted that one is alike.
const MAX_COMPARED: usize = 200;
/// For each line that comes, so many may stand between the same lines elsewhere, and so many more.
const BETWEEN_FOR_EACH: usize = 3;
const BETWEEN: usize = 4;
/// What a line there has in common with a new one, if it may be the one that goes for it (percent).
const ALIKE: i32 = 40;

/// The lines of the file that new lines of a part may stand for although they stay, or that go although no more than a sign of a comment holds them.
pub(super) fn meant(choice: &Choice<'_>, part: usize) -> Option<(usize, usize)> {
    let hunks = || choice.hunks[part].iter();
    let commented = hunks().find_map(|hunk| in_comment(choice, part, hunk));
    commented
        .or_else(|| hunks().find_map(|hunk| goes_to_empty_comment(choice, part, hunk)))
        .or_else(|| hunks().find_map(|hunk| is_never_reached(choice, part, hunk)))
        .or_else(|| hunks().find_map(|hunk| brings_twice(choice, hunk)))
        .or_else(|| hunks().find_map(|hunk| documents_twice(choice, hunk)))
        .or_else(|| hunks().find_map(|hunk| loses_its_comma(choice, hunk)))
        .or_else(|| hunks().find_map(|hunk| says_it_in_a_comment(choice, part, hunk)))
        .or_else(|| hunks().find_map(|hunk| stands_between_the_same(choice, part, hunk)))
}

/// The line below a changed one that has lost the comma at its end, if it is of the same list: it may be meant to go.
fn loses_its_comma(choice: &Choice<'_>, [gone, comes]: &[Range<usize>; 2]) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let full = |text: &&str| !is_blank(text);
    let old = gone.clone().rev().map(|line| weights.source.line(line)).find(full)?;
    let new = comes.clone().rev().map(|token| weights.text(token)).find(full)?;
    let below = Some(gone.end).filter(|&line| line < weights.source.line_count())?;
    let next = weights.source.line(below);
    let ends = new.trim_end().ends_with(|last: char| last.is_alphanumeric() || AT_AN_END.contains(last));
    // Not at the margin, where words may stand.
    let is_list = !indent(old).is_empty() && indent(new) == indent(old) && indent(next) == indent(old);
    let is_next = !is_blank(next) && !is_closer(next);
    (old.trim_end().ends_with(',') && ends && is_list && is_next).then_some((below, below))
}

/// A hidden line of a comment beside new ones that are all of a comment, where it is all of that comment or its first line: they may come in its place.
fn says_it_in_a_comment(choice: &Choice<'_>, part: usize, [gone, comes]: &[Range<usize>; 2]) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let tokens = &choice.parts[part][choice.best[part]].tokens;
    let text = |at: usize| (at < weights.source.line_count()).then(|| weights.source.line(at));
    let above = || gone.start.checked_sub(1);
    let first = comes.clone().next().map(|token| weights.text(token))?;
    let sign = comment_sign(first)?;
    let is_same = |text: &str| comment_sign(text) == Some(sign) && indent(text) == indent(first);
    if !gone.is_empty() || !comes.clone().all(|token| is_same(weights.text(token))) {
        return None;
    }
    let is_of_it = |at: usize| text(at).is_some_and(is_same);
    let is_alone = |at: usize| is_of_it(at) && !at.checked_sub(1).is_some_and(is_of_it) && !is_of_it(at + 1);
    let opens = |at: usize| text(at).is_some_and(|text| text.trim().starts_with("/*"));
    let before = above().filter(|&at| comes.start == tokens.start && is_alone(at));
    let is_first = comes.end == tokens.end && above().is_some_and(opens);
    let hidden = before.or_else(|| Some(gone.start).filter(|&at| is_first && is_of_it(at)))?;
    Some((hidden, hidden))
}

/// The sign of a comment that a line with words begins with.
fn comment_sign(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (sign, words) = text.split_once(char::is_whitespace)?;
    (COMMENT_SIGNS.contains(&sign) && is_distinctive(words)).then_some(sign)
}

/// The first of the lines that come anew although they stand once in the file, if at least half of all new ones do so between the same lines as are shown
/// around them: the update may show that place.
fn stands_between_the_same(
    choice: &Choice<'_>,
    part: usize,
    hunk @ [_, comes]: &[Range<usize>; 2],
) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let [upper, lower] = around(choice, part, hunk)?;
    let reach = BETWEEN_FOR_EACH * comes.len() + BETWEEN;
    let is_between = |line: &usize| {
        let to = (line + reach).min(weights.numbers.len());
        let ends = |at: usize| at + upper.len() <= *line && weights.numbers[at..].starts_with(&upper);
        let begins = |at: usize| weights.numbers[at..].starts_with(&lower);
        (line.saturating_sub(reach)..*line).any(ends) && (line + 1..to).any(begins)
    };
    let told = || comes.clone().filter(|&token| is_distinctive(weights.text(token)));
    let once = told().filter(|&token| weights.stands_once(token)).filter_map(|token| weights.ids[token]);
    let places = once.take(MAX_COMPARED).filter_map(|id| weights.lines.place_of_first(id));
    let there: Vec<usize> = places.filter(is_between).collect();
    (2 * there.len() >= told().count()).then(|| there.first().map(|&line| (line, line))).flatten()
}

/// The numbers of the lines that a part shows above and below new ones, if it shows nothing else and none of the file goes.
fn around(choice: &Choice<'_>, part: usize, [gone, comes]: &[Range<usize>; 2]) -> Option<[Vec<u32>; 2]> {
    let weights = choice.weights;
    let chosen = &choice.parts[part][choice.best[part]];
    if !gone.is_empty() || comes.is_empty() {
        return None;
    }
    let kept: BTreeSet<usize> = choice.kept[part].iter().map(|pair| pair.0).collect();
    let is_kept = |token: usize| kept.contains(&token);
    let above = (chosen.tokens.start..comes.start).rev().take_while(|&token| is_kept(token)).count();
    let below = (comes.end..chosen.tokens.end).take_while(|&token| is_kept(token)).count();
    let is_whole = comes.start - above == chosen.tokens.start && comes.end + below == chosen.tokens.end;
    let numbers = |lines: Range<usize>| -> Vec<u32> { lines.map(|line| weights.numbers[line]).collect() };
    (above > 0 && below > 0 && is_whole)
        .then(|| [numbers(gone.start - above..gone.start), numbers(gone.start..gone.start + below)])
}

/// An import that comes although the same one stays near by: it would stand twice, or other lines may be meant to go up to it.
fn brings_twice(choice: &Choice<'_>, [gone, comes]: &[Range<usize>; 2]) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let goes = |line: usize| choice.hunks.iter().flatten().any(|[gone, _]| gone.contains(&line));
    let is_near = |line: usize| line + BROUGHT_WITHIN >= gone.start && line < gone.end + BROUGHT_WITHIN;
    let brings = comes.clone().filter(|&token| brought(weights.text(token)).is_some());
    let mut places = brings.filter_map(|token| weights.ids[token]).flat_map(|id| weights.lines.places_of(id));
    places.find(|&line| is_near(line) && !goes(line)).map(|line| (line, line))
}

/// A comment of one line that documents what is below it, right below a new one: of both the declaration needs one.
fn documents_twice(choice: &Choice<'_>, [gone, comes]: &[Range<usize>; 2]) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let documents = |text: &str| text.trim().starts_with("/**") && text.trim().ends_with("*/");
    let is_new = comes.clone().next_back().is_some_and(|token| documents(weights.text(token)));
    let below = Some(gone.end).filter(|&line| is_new && line < weights.source.line_count());
    below.filter(|&line| documents(weights.source.line(line))).map(|line| (line, line))
}

/// The hidden line right below new ones that leave its block: it may be meant to go, as it would not be carried out any more.
fn is_never_reached(choice: &Choice<'_>, part: usize, [gone, comes]: &[Range<usize>; 2]) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let last = comes.clone().rev().map(|token| weights.text(token)).find(|text| !is_blank(text))?;
    let is_shown = choice.kept[part].iter().any(|pair| pair.0 >= comes.end);
    let left = |line: usize| {
        let old = weights.source.line(line);
        seams::leaves(old) && indent(old) == indent(last)
    };
    if is_shown || !seams::leaves(last) || gone.clone().any(left) {
        return None;
    }
    let below = gone.end..weights.source.line_count();
    let below = below.into_iter().find(|&line| !is_blank(weights.source.line(line)))?;
    seams::goes_on(weights.source.line(below), indent(last)).then_some((below, below))
}

/// A declaration that goes where another one comes, if the update shows all of that one: it may be a new one beside the first, made after it.
/// One that declares another name, or the same where the file declares names more than once, if its body differs too.
pub(super) fn may_be_beside(choice: &Choice<'_>, part: usize, [gone, comes]: &[Range<usize>; 2]) -> bool {
    let weights = choice.weights;
    let Some(old) = gone.clone().find(|&line| name(weights.source.line(line)).is_some()) else { return false };
    let is_head = |token: &usize| {
        let text = weights.text(*token);
        name(text).is_some() && indent(text) == indent(weights.source.line(old))
    };
    let Some(head) = comes.clone().find(is_head) else { return false };
    let (new_text, old_text) = (weights.text(head), weights.source.line(old));
    let is_other = name(new_text) != name(old_text);
    let part_end = choice.parts[part][choice.best[part]].tokens.end;
    let Some(end) = end_of_block(weights, part_end, head) else { return false };
    let body_differs = choice.hunks[part].iter().any(|[gone, comes]| {
        comes.clone().any(|token| token > head && token <= end)
            || comes.is_empty() && gone.start > old && !gone.is_empty()
    });
    let is_other = is_other || body_differs && is_overloaded(weights, old);
    // A comment right above it is its own, and may stand above both.
    let is_own = |token: &usize| !is_blank(weights.text(*token)) && belongs_to_the_next(weights.text(*token));
    let first = head - (0..head).rev().take_while(is_own).count();
    is_other && !is_pinned(choice, part, first..end + 1)
}

/// Whether lines that say where they are, or the edges of the file, are shown both above and below a declaration: no other one lies between.
fn is_pinned(choice: &Choice<'_>, part: usize, declaration: Range<usize>) -> bool {
    let weights = choice.weights;
    let [at_first, at_last] = weights.prepared.implied;
    let kept = || choice.kept[part].iter();
    let told = |pair: &&(usize, usize)| doubts::holds(weights, pair.0);
    let above = kept().filter(|pair| pair.0 < declaration.start).any(|pair| told(&pair) || at_first && pair.1 == 0);
    let last = weights.source.line_count().saturating_sub(1);
    let below = kept().filter(|pair| pair.0 >= declaration.end).any(|pair| told(&pair) || at_last && pair.1 == last);
    above && below
}

/// The name of what a line declares, if that has a body or parameters; of a test of Ruby or Elixir its text.
fn name(text: &str) -> Option<&str> {
    let text = text.trim();
    let opens = text.ends_with(['{', ':']) || text.contains('(');
    let named = || text.strip_suffix(" do").filter(|test| test.ends_with(['"', '\'']));
    declared_name(text).filter(|_| opens).or_else(named)
}

/// The last line of the block that a line heads, if the part shows it: that no marker stands in it.
fn end_of_block(weights: &Weights<'_>, end: usize, head: usize) -> Option<usize> {
    let depth = |token: usize| indent(weights.text(token)).len();
    let full = |token: &usize| !is_blank(weights.text(*token));
    let next =
        (head + 1..end).filter(full).find(|&token| depth(token) <= depth(head) && !opens_body(weights.text(token)));
    match next {
        Some(next) => Some(if is_closer(weights.text(next)) { next } else { next - 1 }),
        None => {
            let is_closed = !weights.text(head).trim_end().ends_with(['{', '(']);
            let is_out = weights.prepared.marker_indent(end).is_none_or(|marker| marker <= depth(head));
            (is_closed && is_out).then_some(end - 1)
        }
    }
}

/// `{` and `) {` below a head belong to it.
fn opens_body(text: &str) -> bool {
    matches!(text.trim_end().as_bytes().last(), Some(b'{' | b'('))
}

/// Whether a block of the file declares a name more than once, at the depth of a line that it holds.
fn is_overloaded(weights: &Weights<'_>, line: usize) -> bool {
    let source = weights.source;
    let depth = indent(source.line(line)).len();
    let is_in = |line: &usize| is_blank(source.line(*line)) || indent(source.line(*line)).len() >= depth;
    let block = (0..line).rev().take_while(is_in).chain((line..source.line_count()).take_while(is_in));
    let heads = block.map(|line| source.line(line)).filter(|text| indent(text).len() == depth);
    let mut names: Vec<&str> = heads.filter_map(name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Lines beside a part that one of its new lines is with a sign of a comment before it, or without: they would stand twice.
fn in_comment(choice: &Choice<'_>, part: usize, [gone, comes]: &[Range<usize>; 2]) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let from = gone.start.saturating_sub(COMMENTED_WITHIN);
    let to = (gone.end + COMMENTED_WITHIN + comes.len()).min(weights.source.line_count());
    let kept: BTreeSet<usize> = choice.kept[part].iter().map(|pair| pair.1).collect();
    let is_new = |token: &usize| weights.ids[*token].is_none() && is_distinctive(weights.text(*token));
    let new: BTreeSet<&str> = comes.clone().filter(is_new).map(|token| weights.text(token).trim()).collect();
    let uncommented: BTreeSet<&str> = new.iter().filter_map(|text| without_sign(text)).collect();
    let mut near = (from..to).filter(|line| !gone.contains(line) && !kept.contains(line));
    let stands = |line: &usize| {
        let old = weights.source.line(*line).trim();
        let is_told = || uncommented.contains(old) || without_sign(old).is_some_and(|old| new.contains(old));
        is_distinctive(old) && is_told()
    };
    near.find(stands).map(|line| (line, line))
}

/// A line without the sign of a comment that it begins with.
fn without_sign(text: &str) -> Option<&str> {
    COMMENTS.iter().find_map(|sign| text.strip_prefix(sign)).map(str::trim)
}

/// Whether new lines may be meant to come elsewhere, in the place of some that are like them: all that is shown on either side of them stands
/// there too, on either side of those.
pub(super) fn may_be_elsewhere(choice: &Choice<'_>, part: usize, hunk @ [gone, comes]: &[Range<usize>; 2]) -> bool {
    let weights = choice.weights;
    let Some([upper, lower]) = around(choice, part, hunk) else { return false };
    let inside = weights.places[comes.start - 1].inside.clone().unwrap_or(0..weights.source.line_count());
    let reach = BETWEEN_FOR_EACH * comes.len() + BETWEEN;
    let new: Vec<LineFeatures<'_>> = comes.clone().map(|token| LineFeatures::of(weights.text(token))).collect();
    let is_alike = |line: usize| {
        let old = LineFeatures::of(weights.source.line(line));
        new.iter().any(|new| new.share_with(&old) >= ALIKE)
    };
    let places = weights.lines.runs(&upper).take(MAX_PLACES).map(|at| at + upper.len());
    places.filter(|&at| at != gone.start && inside.contains(&at)).any(|at| {
        let mut ends = at + 1..(at + reach + 1).min(weights.numbers.len());
        let end = ends.find(|&end| weights.numbers[end..].starts_with(&lower));
        end.is_some_and(|end| new.len() > MAX_COMPARED || (at..end).any(is_alike))
    })
}

/// Lines that go without any in their place up to a sign of a comment without words, which may be a new one above them.
fn goes_to_empty_comment(
    choice: &Choice<'_>,
    part: usize,
    [gone, comes]: &[Range<usize>; 2],
) -> Option<(usize, usize)> {
    let weights = choice.weights;
    let is_sign = |text: &str| {
        let text = text.trim();
        !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'/' | b'#' | b'*' | b'-' | b';' | b'!'))
    };
    let kept = &choice.kept[part];
    let above: Vec<usize> = kept.iter().filter(|pair| pair.1 < gone.start).map(|pair| pair.0).collect();
    let below: Vec<usize> = kept.iter().filter(|pair| pair.1 >= gone.end).map(|pair| pair.0).collect();
    let says_nothing = |tokens: &[usize]| {
        let mut full = tokens.iter().map(|&token| weights.text(token)).filter(|text| !is_blank(text)).peekable();
        full.peek().is_some() && full.all(is_sign)
    };
    (comes.is_empty() && !gone.is_empty() && (says_nothing(&above) || says_nothing(&below)))
        .then(|| (gone.start, gone.end - 1))
}
