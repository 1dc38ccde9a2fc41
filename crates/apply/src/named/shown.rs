//! Finds the declarations of the file that a part of an update replaces.
//!
//! Whether the shown declarations are complete is checked later, on the tree of the result. Invariant: the replaced
//! declarations are neighbours in one scope, and no attribute above them is lost.

use super::claims::{Claim, simple};
use crate::language::Language;
use crate::lazy::{MIN_INFORMATION, are_similar, indent, information, is_blank};
use crate::source::Source;
use crate::splice::Splice;
use crate::tree::{Declaration, Kind, Outline};
use std::collections::BTreeSet;
use std::ops::Range;

/// Signs that begin a comment, an attribute or a decorator above a declaration.
const HEADS: &[&str] = &["@", "#", "//", "/*", "*", "--", "["];
/// Those of them that begin a comment only.
const COMMENTS: &[&str] = &["# ", "//", "/*", "*", "--"];
/// From this many lost lines on, new ones must make up for them.
const FREE_DELETIONS: usize = 12;

/// Lines of a declaration that are compared, to bound the work.
const MAX_COMPARED_LINES: usize = 200;

/// The file.
pub(super) struct File<'s> {
    pub source: &'s Source,
    pub language: Language,
    pub outline: Outline,
}

/// Declarations that an update shows, at least one of which the file has.
pub(super) struct Shown {
    /// Lines of the update.
    pub new: Range<usize>,
    /// How many declarations they should be.
    pub count: usize,
    /// Lines of the file that they replace.
    pub old: Range<usize>,
    /// The declarations of the file that they replace, in order.
    pub replaced: Vec<usize>,
}

impl Shown {
    /// The change of the file.
    pub fn splice(&self, source: &Source, lines: &[&str]) -> Splice {
        let new = lines[self.new.clone()].iter().flat_map(|line| [line, "\n"]).collect();
        Splice { old: source.bytes_of(self.old.clone()), new }
    }
}

/// A declaration that a part and the file have: its line in the update, its number in the file and its line there.
struct Pair {
    new: usize,
    declaration: usize,
    old: usize,
}

impl File<'_> {
    /// The declarations that a claim shows; `None` if the file's tree does not have them.
    pub fn shown(&self, lines: &[&str], claim: &Claim<'_>) -> Option<Shown> {
        let (part, count) = (&claim.part, claim.named.len());
        let mut pairs = Vec::new();
        for named in &claim.named {
            match named.place {
                Some(old) => pairs.push(Pair { new: named.line, declaration: self.declared(named.name, old)?, old }),
                // A name that the file has, and no line that reads like it.
                None if self.outline.declarations.iter().any(|it| simple(&it.name) == named.name) => return None,
                None => {}
            }
        }
        let (first, last) = (pairs.first()?, pairs.last()?);
        let replaced: Vec<usize> = pairs.iter().map(|pair| pair.declaration).collect();
        let is_inside = claim.scope.is_none_or(|scope| self.ancestors(replaced[0]).any(|it| simple(&it.name) == scope));
        if !is_inside || !self.are_neighbours(&replaced) {
            return None;
        }
        let start = if first.new == part.start { first.old } else { self.head(first.declaration, first.old).start };
        let old = start..self.outline.declarations[last.declaration].lines.end;
        let shown = Shown { new: part.clone(), count, old, replaced };
        // A new value beside one that is known is as likely a value of another file.
        let is_value = pairs.iter().any(|pair| is_value(self.outline.declarations[pair.declaration].kind));
        if is_value && count > pairs.len() {
            return None;
        }
        let heads = pairs.iter().all(|pair| pair.new == part.start || self.keeps_head(lines, part, pair));
        let is_last = claim.named.last().is_some_and(|it| it.line == last.new);
        let ends = !is_last || !self.may_be_cut(last) || self.ends_similarly(lines, &shown);
        (heads && ends && self.is_the_same(lines, &shown, &pairs)).then_some(shown)
    }

    /// The one declaration of a name around a line.
    fn declared(&self, name: &str, line: usize) -> Option<usize> {
        let mut found = (0..self.outline.declarations.len()).filter(|&at| {
            let declaration = &self.outline.declarations[at];
            simple(&declaration.name) == name && declaration.lines.contains(&line)
        });
        found.next().filter(|_| found.next().is_none())
    }

    fn ancestors(&self, at: usize) -> impl Iterator<Item = &Declaration> {
        std::iter::successors(self.outline.declarations[at].parent, |&at| self.outline.declarations[at].parent)
            .map(|at| &self.outline.declarations[at])
    }

    /// Whether declarations of one scope are adjacent.
    fn are_neighbours(&self, declarations: &[usize]) -> bool {
        declarations.windows(2).all(|pair| {
            let [one, other] = [pair[0], pair[1]].map(|at| &self.outline.declarations[at]);
            let between = one.lines.end..other.head.start.min(other.lines.start);
            one.scope == other.scope
                && between.start <= between.end
                && between.into_iter().all(|line| is_blank(self.source.line(line)))
        })
    }

    /// The lines of a declaration above the one that names it, and comments and attributes above those.
    fn head(&self, declaration: usize, line: usize) -> Range<usize> {
        let declaration = &self.outline.declarations[declaration];
        declaration.head.start.min(declaration.lines.start)..line
    }

    /// Whether the update keeps the lines above a declaration: all attributes, and at least one line of its comments.
    fn keeps_head(&self, lines: &[&str], part: &Range<usize>, pair: &Pair) -> bool {
        let begins = |line: &str, signs: &[&str]| signs.iter().any(|sign| line.trim_start().starts_with(sign));
        let above = (part.start..pair.new).rev().take_while(|&at| begins(lines[at], HEADS));
        let new: BTreeSet<&str> = above.map(|at| lines[at].trim()).collect();
        let old: Vec<&str> = self.head(pair.declaration, pair.old).map(|line| self.source.line(line).trim()).collect();
        let is_kept = |line: &&str| new.contains(line);
        let is_informative = |line: &&&str| information(line) >= MIN_INFORMATION;
        old.iter().filter(|line| !begins(line, COMMENTS)).all(is_kept)
            && (old.is_empty() || old.iter().filter(is_informative).any(is_kept))
    }

    /// Whether a declaration has no end of its own, so that the first lines of it could be shown as well as all.
    fn may_be_cut(&self, last: &Pair) -> bool {
        let declaration = &self.outline.declarations[last.declaration];
        let by_indentation = matches!(self.language, Language::Python | Language::Yaml | Language::Toml);
        (by_indentation || is_value(declaration.kind)) && declaration.lines.len() > 1
    }

    fn ends_similarly(&self, lines: &[&str], shown: &Shown) -> bool {
        let (new, old) = (lines[shown.new.end - 1], self.source.line(shown.old.end - 1));
        // A declaration that ends with the same line, or with another `return`, was hardly cut off there.
        indent(new) == indent(old) && new.split_whitespace().next() == old.split_whitespace().next()
    }

    /// Whether old and new declaration share more than the name, and little is lost.
    fn is_the_same(&self, lines: &[&str], shown: &Shown, pairs: &[Pair]) -> bool {
        if shown.old.len() == 1 {
            return true;
        }
        let new: BTreeSet<&str> = lines[shown.new.clone()].iter().map(|line| line.trim()).collect();
        let old: BTreeSet<&str> = shown.old.clone().map(|line| self.source.line(line).trim()).collect();
        let lost = shown.old.clone().filter(|&line| !new.contains(self.source.line(line).trim())).count();
        let added = lines[shown.new.clone()].iter().filter(|line| !old.contains(line.trim())).count();
        let has_heads = pairs.iter().all(|pair| lines[pair.new] == self.source.line(pair.old));
        let body = shown.old.clone().filter(|line| pairs.iter().all(|pair| pair.old != *line));
        let telling = body.map(|line| self.source.line(line)).filter(|line| information(line) >= MIN_INFORMATION);
        let is_kept = |line: &str| {
            new.contains(line.trim())
                || lines[shown.new.clone()].iter().take(MAX_COMPARED_LINES).any(|new| are_similar(new, line))
        };
        let (all, kept) = telling
            .take(MAX_COMPARED_LINES)
            .fold((0, 0), |(all, kept), line| (all + 1, kept + usize::from(is_kept(line))));
        (lost <= FREE_DELETIONS || lost <= 3 * added + 6) && (has_heads || (kept > 0 && kept * 4 >= all))
    }
}

/// Whether a declaration gives a value to a name, and needs no body.
fn is_value(kind: Kind) -> bool {
    matches!(kind, Kind::Constant | Kind::Field | Kind::Key | Kind::Type | Kind::Table | Kind::Rule | Kind::Signature)
}
