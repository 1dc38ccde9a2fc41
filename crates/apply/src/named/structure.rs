//! Compares the tree of the result with that of the file, by kinds, names and lines of declarations.
//!
//! Invariant: a result that passes changed no declaration that the update does not show, and lost none inside of those
//! that it shows.

use super::shown::{File, Shown};
use crate::splice::Splice;
use crate::tree::{Declaration, Kind, Outline, parse_again};
use crate::verify::spliced;
use std::collections::BTreeSet;
use std::ops::Range;
use tree_sitter::Tree;

/// Passes splices, one for each part that is shown, that put whole declarations in the place of whole ones.
pub(super) fn check(file: &File<'_>, tree: &Tree, shown: &[Shown], splices: &[Splice]) -> Option<()> {
    let text = spliced(file.source, splices);
    let new = parse_again(file.language, file.source, tree, splices, &text)?;
    if new.root_node().has_error() {
        return None;
    }
    let new = Outline::of_tree(file.language, &text, &new);
    let mut grown: isize = 0;
    let mut places = Vec::new();
    for it in shown {
        let start = (it.old.start as isize + grown) as usize;
        places.push(start..start + it.new.len());
        grown += it.new.len() as isize - it.old.len() as isize;
    }
    let are_whole = shown.iter().zip(&places).all(|(it, place)| is_whole(file, it, &new, place));
    let old: Vec<Range<usize>> = shown.iter().map(|it| it.old.clone()).collect();
    (are_whole && outside(&file.outline, &old).eq(outside(&new, &places))).then_some(())
}

/// The declarations that are not in lines, by kind and name.
fn outside<'o>(outline: &'o Outline, lines: &'o [Range<usize>]) -> impl Iterator<Item = (Kind, &'o str)> {
    let is_outside = |it: &&Declaration| !lines.iter().any(|lines| is_in(lines, it));
    outline.declarations.iter().filter(is_outside).map(|it| (it.kind, &*it.name))
}

/// Whether a declaration ends in lines; an annotation of it may stand above them.
fn is_in(lines: &Range<usize>, it: &Declaration) -> bool {
    lines.start < it.lines.end && it.lines.end <= lines.end
}

/// Whether lines of the result are as many whole declarations as the update seems to show, where those stood that they take
/// the place of, with all that those held.
fn is_whole(file: &File<'_>, shown: &Shown, new: &Outline, place: &Range<usize>) -> bool {
    let inside = |at: &usize| is_in(place, &new.declarations[*at]);
    let is_nested = |parent: Option<usize>| parent.is_some_and(|parent| inside(&parent));
    let outer: Vec<usize> =
        (0..new.declarations.len()).filter(inside).filter(|&at| !is_nested(new.declarations[at].parent)).collect();
    let (Some(&first), Some(&last)) = (outer.first(), outer.last()) else { return false };
    let begin = |at: usize| new.declarations[at].head.start.min(new.declarations[at].lines.start);
    let covers = begin(first) <= place.start && new.declarations[last].lines.end == place.end;
    let old = &file.outline;
    let parent = |outline: &Outline, at: usize| outline.declarations[at].parent.map(|parent| outline.path(parent));
    let has_same_scope = outer.iter().all(|&at| {
        parent(new, at) == parent(old, shown.replaced[0]) && new.declarations[at].scope == new.declarations[first].scope
    });
    let named: BTreeSet<(Kind, String)> =
        (0..new.declarations.len()).filter(inside).map(|at| (new.declarations[at].kind, new.path(at))).collect();
    let kept = (0..old.declarations.len())
        .filter(|&at| is_in(&shown.old, &old.declarations[at]))
        .all(|at| named.contains(&(old.declarations[at].kind, old.path(at))));
    outer.len() == shown.count && covers && has_same_scope && kept
}
