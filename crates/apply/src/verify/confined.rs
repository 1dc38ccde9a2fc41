//! Checks that changes stay inside of the declarations that the update shows.
//!
//! Invariant: every deleted line, and every declaration that gets new lines, is in a declaration of which the update
//! shows a line.

use crate::language::Language;
use crate::outcome::{Code, Refused};
use crate::source::Source;
use crate::splice::Splice;
use crate::tree::{Declaration, Outline};
use std::collections::BTreeSet;

/// Checks that every deleted line is in an innermost declaration with a line of which `is_shown` is true, and that new lines
/// are in such a declaration or in none.
pub(super) fn check(
    source: &Source,
    splices: &[Splice],
    language: Language,
    is_shown: impl Fn(&str) -> bool,
) -> Result<(), Refused> {
    let Some(outline) = Outline::of(language, &source.text) else {
        return Err(refused("the original is too much to parse", 0));
    };
    let innermost = innermost(&outline.declarations, source.line_count());
    let shown: BTreeSet<usize> = (0..source.line_count())
        .filter(|&line| is_shown(source.line(line)))
        .filter_map(|line| innermost[line])
        .collect();
    for splice in splices {
        let (first, end) = (source.line_of(splice.old.start), source.line_of(splice.old.end));
        let is_shown = |line: &usize| innermost[*line].is_some_and(|at| shown.contains(&at));
        if let Some(line) = (first..end).find(|line| !is_shown(line)) {
            return Err(refused("the model changed a line outside of the declarations that the update shows", line));
        }
        // Lines inserted between two others are in the declaration around both.
        if first == end && first > 0 && first < source.line_count() {
            let holds =
                |at: usize| outline.declarations[at].lines.start < first && first < outline.declarations[at].lines.end;
            let around = ancestors(&outline.declarations, innermost[first - 1]).find(|&at| holds(at));
            if around.is_some_and(|at| !shown.contains(&at)) {
                return Err(refused("the model wrote into a declaration of which the update shows no line", first));
            }
        }
    }
    Ok(())
}

/// The innermost declaration of each line; comments and attributes above it belong to it.
fn innermost(declarations: &[Declaration], count: usize) -> Vec<Option<usize>> {
    let mut innermost = vec![None; count];
    // Parents come before their children.
    for (at, declaration) in declarations.iter().enumerate() {
        let lines = declaration.head.start.min(declaration.lines.start)..declaration.lines.end.min(count);
        innermost[lines.start.min(count)..lines.end].fill(Some(at));
    }
    innermost
}

fn ancestors(declarations: &[Declaration], from: Option<usize>) -> impl Iterator<Item = usize> {
    std::iter::successors(from, |&at| declarations[at].parent)
}

fn refused(message: &str, line: usize) -> Refused {
    let hint = "show more of the lines around the change, so that no model is needed";
    Refused::new(Code::AmbiguousLocation, format!("line {}: {message}", line + 1), hint).at([(line, line)])
}
