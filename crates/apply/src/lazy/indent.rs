//! Snippets with another indentation than the file.
//!
//! Invariant: a segment has one shift, on which its informative lines agree; only leading white space changes.

use super::lines::{Lines, MIN_INFORMATION, blanks, information, is_blank};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How the indentation of a segment is brought to that of the file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shift {
    /// Adds this before each line.
    Add(String),
    /// Removes this from each line that begins with it.
    Remove(String),
    /// Replaces this many blanks by a tab.
    Tabs(usize),
    /// Replaces a tab by this many blanks.
    Blanks(usize),
}

/// The shift of a segment; `None` if it has the file's indentation, or the lines disagree.
pub(crate) fn shift_of<'o>(
    segment: &[&str],
    lines: &Lines<'_>,
    original: impl Iterator<Item = &'o str>,
) -> Option<Shift> {
    let telling: Vec<&str> = segment.iter().copied().filter(|line| information(line) >= MIN_INFORMATION).collect();
    let known = telling.iter().filter(|line| lines.id_of(line).is_some()).count();
    if telling.is_empty() || known * 2 >= telling.len() {
        return None;
    }
    let stands_once =
        |line: Option<&&str>| line.and_then(|line| lines.id_of(line)).is_some_and(|id| lines.count_of(id) == 1);
    if stands_once(telling.first()) || stands_once(telling.last()) {
        // What is shown to hold the segment stands where the file has it: the rest is meant to be shifted.
        return None;
    }
    let shown: Vec<&str> = telling.iter().copied().filter(|line| lines.id_of(line).is_none()).collect();
    // The indentations at which the file has the words of each line that is shown.
    let mut indents: BTreeMap<&str, Indents<'_>> = shown.iter().map(|line| (line.trim(), Indents::None)).collect();
    let mut firsts = [false; 256];
    indents.keys().filter_map(|words| words.bytes().next()).for_each(|byte| firsts[usize::from(byte)] = true);
    for line in original {
        let blanks = indent(line);
        let words = &line[blanks.len()..];
        // Most lines differ in their first byte.
        let may_be = words.bytes().next().is_some_and(|byte| firsts[usize::from(byte)]);
        if let Some(found) = Some(words.trim_end()).filter(|_| may_be).and_then(|words| indents.get_mut(words)) {
            *found = found.and(blanks);
        }
    }
    let mut votes: BTreeMap<Shift, usize> = BTreeMap::new();
    let mut cast = 0;
    for line in shown {
        let Some(Indents::One(place)) = indents.get(line.trim()) else { continue };
        cast += 1;
        if let Some(shift) = between(indent(line), place) {
            *votes.entry(shift).or_default() += 1;
        }
    }
    let (shift, votes) = votes.into_iter().max_by_key(|(_, votes)| *votes)?;
    // Nor is a line at its ends that the file has, and would not have when shifted.
    let is_lost = |line: Option<&&str>| {
        line.is_some_and(|line| lines.id_of(line).is_some() && lines.id_of(&shifted(line, Some(&shift))).is_none())
    };
    if is_lost(telling.first()) || is_lost(telling.last()) {
        return None;
    }
    // A snippet that begins at the margin was taken out of its place as a whole.
    let at_margin = segment.iter().any(|line| !is_blank(line) && indent(line).is_empty());
    // Wrapping lines in a block also shifts them; then the lines around them stand where the file has them.
    (votes * 3 >= cast * 2
        && votes > known
        && (votes > 1 || telling.len() == 1 || (at_margin && matches!(shift, Shift::Add(_)))))
    .then_some(shift)
}

/// The number of indentations at which the file has the same words.
#[derive(Clone, Copy)]
enum Indents<'o> {
    None,
    One(&'o str),
    Several,
}

impl<'o> Indents<'o> {
    fn and(self, indent: &'o str) -> Indents<'o> {
        match self {
            Indents::None => Indents::One(indent),
            Indents::One(known) if known == indent => self,
            Indents::One(_) | Indents::Several => Indents::Several,
        }
    }
}

/// A line at the indentation of the file.
pub(crate) fn shifted<'l>(line: &'l str, shift: Option<&Shift>) -> Cow<'l, str> {
    // Blank lines that have white space are taken out of their place with the others.
    let Some(shift) = shift.filter(|_| !line.is_empty()) else { return Cow::Borrowed(line) };
    let (blanks, words) = line.split_at(indent(line).len());
    match shift {
        Shift::Add(more) => Cow::Owned(format!("{more}{line}")),
        Shift::Remove(less) => Cow::Borrowed(line.strip_prefix(less.as_str()).unwrap_or(line)),
        Shift::Tabs(width) => {
            let columns: usize = blanks.chars().map(|c| if c == '\t' { *width } else { 1 }).sum();
            Cow::Owned("\t".repeat(columns / width) + &" ".repeat(columns % width) + words)
        }
        Shift::Blanks(width) => Cow::Owned(blanks.replace('\t', &" ".repeat(*width)) + words),
    }
}

/// The blanks at the beginning of a line.
pub(crate) fn indent(line: &str) -> &str {
    let blanks = blanks(line);
    let is_whole = line.as_bytes().get(blanks).is_none_or(u8::is_ascii_graphic);
    if is_whole { &line[..blanks] } else { &line[..line.len() - line.trim_start().len()] }
}

fn between(snippet: &str, file: &str) -> Option<Shift> {
    let (snippet_tabs, file_tabs) = (snippet.contains('\t'), file.contains('\t'));
    if snippet_tabs != file_tabs && !snippet.is_empty() && !file.is_empty() {
        let (tabs, blanks) = if file_tabs { (file, snippet) } else { (snippet, file) };
        let depth = tabs.chars().filter(|c| *c == '\t').count();
        let width = blanks.len().checked_div(depth).filter(|width| depth * width == blanks.len() && *width > 0)?;
        return Some(if file_tabs { Shift::Tabs(width) } else { Shift::Blanks(width) });
    }
    match (file.strip_suffix(snippet), snippet.strip_suffix(file)) {
        (Some(more), _) if !more.is_empty() => Some(Shift::Add(more.to_owned())),
        (_, Some(less)) if !less.is_empty() => Some(Shift::Remove(less.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn shift(segment: &[&str], original: &[&str]) -> Option<Shift> {
        let source = Source::of_lines(original.iter().copied());
        shift_of(segment, &Lines::of(&source), source.lines())
    }

    #[test]
    fn a_shift_is_found_where_lines_agree() {
        let file = ["class A:", "    def first(self):", "        return compute(1)", "    def second(self):"];
        let dedented = ["def first(self):", "    return compute(1)", "    value = 1"];
        assert_eq!(shift(&dedented, &file), Some(Shift::Add("    ".into())));
        let deeper = ["        def first(self):", "            return compute(1)"];
        assert_eq!(shift(&deeper, &file), Some(Shift::Remove("    ".into())));
        assert_eq!(shift(&["    def first(self):"], &file), None, "it stands right");
        assert_eq!(shift(&["unheard of"], &file), None);
    }

    #[test]
    fn tabs_and_blanks_are_changed_into_each_other() {
        let tabs = ["func main() {", "\tif ready(all) {", "\t\tstart(engine)", "\t}"];
        let found = shift(&["    if ready(all) {", "        start(engine)"], &tabs).expect("a shift");
        assert_eq!(found, Shift::Tabs(4));
        assert_eq!(shifted("        stop(engine)", Some(&found)), "\t\tstop(engine)");
        assert_eq!(shifted("\t\tx", Some(&Shift::Blanks(2))), "    x");
    }

    #[test]
    fn lines_between_ends_that_stand_are_not_shifted_back() {
        let file = [
            "    source(alpha)",
            "    first inner line",
            "    second inner line",
            "    third inner line",
            "    assert all(alpha)",
            "    source(alpha)",
            "    assert all(alpha)",
        ];
        let inner_lines_moved = [
            "    source(alpha)",
            "        first inner line",
            "        second inner line",
            "        third inner line",
            "    assert all(alpha)",
        ];
        assert_eq!(shift(&inner_lines_moved, &file), None);
    }

    #[test]
    fn lines_that_are_wrapped_are_not_shifted_back() {
        let file =
            ["fn run() {", "    start(engine);", "    stop(engine);", "    report(engine);", "    finish(all);", "}"];
        let wrapped = [
            "fn run() {",
            "    start(engine);",
            "    if ready {",
            "        stop(engine);",
            "        report(engine);",
            "    }",
            "    finish(all);",
        ];
        assert_eq!(shift(&wrapped, &file), None);
    }
}
