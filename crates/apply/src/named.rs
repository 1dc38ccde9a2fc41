//! Locates declarations that an update shows whole, by their names.
//!
//! Parts of declarations and names that occur twice are not located here. Invariant: the result declares what the
//! file declared, in the same order and the same places, but for what the update shows.

mod claims;
mod shown;
mod structure;

use crate::language::Language;
use crate::lazy;
use crate::outcome::Stage;
use crate::source::Source;
use crate::splice::Located;
use crate::splice::Splice;
use crate::tree::{Outline, parse};
use claims::Claim;
use shown::{File, Shown};
use std::ops::Range;

/// Longer updates declare too many names to search for each (lines).
const MAX_LINES: usize = 2_000;

/// Locates a snippet whose parts, or some of them, are whole declarations of names that stand once in the file; the other
/// parts are located by their lines. `None` if that does not make sense of all of it.
pub(crate) fn locate(source: &Source, update: &str, language: Language) -> Option<Located> {
    let lines: Vec<&str> = update.lines().collect();
    let parts = parts(&lines).filter(|_| lines.len() <= MAX_LINES)?;
    if lazy::lines_with_dots(&source.text).any(|line| lazy::is_marker(line) && lines.contains(&line)) {
        return None;
    }
    let claims: Vec<Claim<'_>> = parts.into_iter().filter_map(|part| claims::claim(source, &lines, part)).collect();
    if claims.is_empty() {
        return None;
    }
    let tree = parse(language, &source.text).filter(|tree| !tree.root_node().has_error())?;
    let file = File { source, language, outline: Outline::of_tree(language, &source.text, &tree) };
    let shown: Vec<Shown> = claims.iter().filter_map(|claim| file.shown(&lines, claim)).collect();
    if shown.is_empty() || !shown.is_sorted_by(|one, other| one.old.end <= other.old.start) {
        return None;
    }
    let mut splices: Vec<Splice> = shown.iter().map(|it| it.splice(source, &lines)).collect();
    structure::check(&file, &tree, &shown, &splices)?;
    splices.extend(of_the_rest(source, &lines, &shown)?);
    Some(Located { splices, stage: Stage::Tree, reindented: false, evidence: None })
}

/// The lines between markers, without the blank ones around them; `None` if the update asks for more than lines.
fn parts(lines: &[&str]) -> Option<Vec<Range<usize>>> {
    if lines.iter().any(|line| lazy::removed(line).is_some()) {
        return None;
    }
    let mut parts = Vec::new();
    let mut first = None;
    let mut end = 0;
    for (at, line) in lines.iter().enumerate() {
        if lazy::is_marker(line) {
            parts.extend(first.take().map(|first| first..end));
        } else if !lazy::is_blank(line) {
            first = first.or(Some(at));
            end = at + 1;
        }
    }
    parts.extend(first.map(|first| first..end));
    Some(parts)
}

/// What the lines change that are in no declaration shown whole.
fn of_the_rest(source: &Source, lines: &[&str], shown: &[Shown]) -> Option<Vec<Splice>> {
    let is_shown = |at: usize| shown.iter().any(|it| it.new.contains(&at));
    let rest: String = (0..lines.len()).filter(|&at| !is_shown(at)).flat_map(|at| [lines[at], "\n"]).collect();
    let is_empty = rest.lines().all(|line| lazy::is_blank(line) || lazy::is_marker(line));
    if is_empty || lazy::is_applied(&source.text, &rest) {
        return Some(Vec::new());
    }
    lazy::locate(source, &rest, lazy::Asked::Sure).ok().map(|located| located.splices)
}

#[cfg(all(test, feature = "all-languages"))]
mod tests;
