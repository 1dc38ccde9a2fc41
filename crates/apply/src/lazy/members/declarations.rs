//! Whether lines of an update are whole declarations that a block of the file does not have.
//!
//! It knows no language. Invariant: what may be a line of the file in another form is no new declaration.

use crate::lazy::indent::indent;
use crate::lazy::keys::{Key, declared_name, declares_type, introducing, key};
use crate::lazy::likeness::LineFeatures;
use crate::lazy::lines::{Lines, is_balanced, is_blank, is_distinctive};
use crate::lazy::scopes::{belongs_to_the_next, is_closer};
use crate::source::Source;
use std::collections::BTreeSet;
use std::ops::Range;

/// Where a larger share of the lines stand once in the file (percent), they may be another block of it under a new name.
const RENAMED: usize = 50;

/// Beginnings of lines that go on with what is above them.
const GOES_ON: [&str; 8] = [": ", ", ", "? ", "&& ", "|| ", "+ ", "= ", "<< "];

/// Lines of an update that may be new declarations of a block.
pub(super) struct Declarations<'d> {
    source: &'d Source,
    lines: &'d Lines<'d>,
    /// The lines.
    all: &'d [&'d str],
    /// How far the first is indented.
    depth: &'d str,
    /// Which of them are as deep and begin something.
    heads: Vec<usize>,
    /// The lines of the file inside of the block.
    inside: Range<usize>,
}

impl<'d> Declarations<'d> {
    /// Lines, of which the first and the last have text, for a block with these lines of the file in it.
    pub fn of(source: &'d Source, lines: &'d Lines<'d>, all: &'d [&'d str], inside: Range<usize>) -> Declarations<'d> {
        let depth = indent(all[0]);
        let begins =
            |text: &str| !is_blank(text) && indent(text) == depth && !belongs_to_the_next(text) && !is_closer(text);
        let heads = (0..all.len()).filter(|&at| begins(all[at])).collect();
        Declarations { source, lines, all, depth, heads, inside }
    }

    /// Whether the first of them has a name and begins as something of the block does, and all are whole. A value is one only if a blank line sets
    /// it off from the marker.
    pub fn are_whole(&self, is_set_off: bool) -> bool {
        let is_in = |text: &&str| is_blank(text) || indent(text).starts_with(self.depth);
        let Some(&first) = self.heads.first() else { return false };
        let comes_first = self.all[..first].iter().all(|text| is_blank(text) || belongs_to_the_next(text));
        // A comment that ends the lines belongs to what is below them.
        let ends = !self.all.last().is_some_and(|text| belongs_to_the_next(text))
            && !self.all.iter().any(|text| is_condition(text));
        comes_first
            && ends
            && self.all.iter().all(is_in)
            && is_balanced(self.all)
            && self.begins(first, is_set_off)
            && !GOES_ON.iter().any(|sign| self.all[first].trim_start().starts_with(sign))
            && self.is_begun_alike(self.all[first])
            && !(self.depth.is_empty() && is_of_a_type(self.all[first]))
    }

    fn begins(&self, head: usize, is_set_off: bool) -> bool {
        let text = self.all[head];
        let opens =
            is_distinctive(text) && self.all.get(head + 1).is_some_and(|next| indent(next).len() > self.depth.len());
        let is_named = key(text).is_some();
        let is_block = opens && (is_named || called_with_text(text).is_some());
        let is_value = is_signature(text) || is_named && self.depth.is_empty();
        declared_name(text).is_some() || is_block || is_set_off && is_value
    }

    /// Whether something of the block begins as a line does, both declare types, or one is exported below others. A method that a model writes without
    /// its indentation begins as nothing outermost of the file.
    fn is_begun_alike(&self, text: &str) -> bool {
        let is_exported = text.starts_with("export ");
        self.beside().any(|old| {
            manner(old) == manner(text)
                || declares_type(old) && declares_type(text)
                || is_exported && declared_name(old).is_some()
        })
    }

    /// Whether what begins as they do in the block stands below blank lines, or below comments that do.
    pub fn have_blank_lines_between(&self) -> bool {
        let manner_of_new = self.heads.first().map(|&at| manner(self.all[at]));
        let is_alike = |line: &usize| {
            let old = self.source.line(*line);
            indent(old) == self.depth && Some(manner(old)) == manner_of_new
        };
        let above = |line: usize| {
            let lines = self.inside.start..line;
            lines.rev().map(|line| self.source.line(line)).find(|text| !belongs_to_the_next(text))
        };
        self.inside.clone().filter(is_alike).any(|line| above(line).is_some_and(is_blank))
    }

    /// The lines of the block that are as deep.
    fn beside(&self) -> impl Iterator<Item = &str> {
        let lines = self.inside.clone().map(|line| self.source.line(line));
        lines.filter(|old| !is_blank(old) && indent(old) == self.depth)
    }

    /// Whether the block has none of them, nothing of the same name and nothing like those without one, and the file not most of their lines.
    pub fn are_new(&self) -> bool {
        let heads = || self.heads.iter().map(|&at| self.all[at]);
        let names: BTreeSet<&str> = heads().filter_map(name).collect();
        let is_named = |old: &str| name(old).is_some_and(|old| names.contains(old));
        let declares = |old: &str| declared_name(old).is_some_and(|old| names.contains(old));
        let is_declared_deeper = || self.depth.is_empty() && self.source.lines().any(declares);
        let is_old = |old: &str| is_distinctive(old) && heads().any(|new| new == old);
        let unnamed: Vec<LineFeatures<'_>> =
            heads().filter(|new| name(new).is_none()).filter(|new| is_distinctive(new)).map(LineFeatures::of).collect();
        let is_like = |old: &str| {
            let old = LineFeatures::of(old);
            unnamed.iter().any(|new| old.is_similar_to(new))
        };
        let is_there = |old: &str| is_named(old) || is_old(old) || !unnamed.is_empty() && is_like(old);
        if self.beside().any(is_there) || is_declared_deeper() {
            return false;
        }
        let told: BTreeSet<&str> = self.all.iter().copied().filter(|text| is_distinctive(text)).collect();
        let is_one = |text: &&&str| self.lines.id_of(text).is_some_and(|id| self.lines.count_of(id) == 1);
        100 * told.iter().filter(is_one).count() <= RENAMED * told.len()
    }
}

/// What a line declares or assigns, what it is called with, or what it gives the type of.
fn name(text: &str) -> Option<&str> {
    let typed = text.split_whitespace().next().filter(|_| is_signature(text));
    called_with_text(text).or_else(|| key(text).map(Key::name)).or(typed)
}

/// A call or a word with a text behind it, as tests and routes are named: `it "merges" do`, `router.get('/users', …`; up to the end of the last text.
fn called_with_text(text: &str) -> Option<&str> {
    let text = text.trim();
    let end = text.find(|sign: char| !sign.is_alphanumeric() && !matches!(sign, '_' | '.' | '!' | '?'))?;
    let rest = text[end..].strip_prefix(['(', ' '])?;
    let quote = rest.chars().next().filter(|sign| matches!(sign, '"' | '\'' | '`'))?;
    let is_word = end > 0 && !text.starts_with(|sign: char| sign.is_ascii_digit());
    let last = text.rfind(quote)?;
    (is_word && last > end + 1).then(|| &text[..last])
}

/// Whether a line gives the type of a name: `name :: Type`.
fn is_signature(text: &str) -> bool {
    text.split_whitespace().nth(1) == Some("::")
}

/// Whether a function takes what its type's methods do.
fn is_of_a_type(text: &str) -> bool {
    ["(self", "(&self", "(mut self", "(&mut self", "(cls"].iter().any(|parameter| text.contains(parameter))
}

/// Whether a line tells a preprocessor from where or up to where it reads.
fn is_condition(text: &str) -> bool {
    ["#if", "#endif", "#else", "#elif"].iter().any(|word| text.trim_start().starts_with(word))
}

/// How a line begins: with the word that declares something, or that is called; as a function, a value, or the type of a name.
fn manner(text: &str) -> &str {
    match (introducing(text), key(text)) {
        (Some(word), _) => word,
        (None, _) if is_signature(text) => "::",
        (None, Some(Key::Declares(_))) => "()",
        (None, Some(Key::Assigns(_))) => "=",
        (None, None) => {
            text.trim().split(|sign: char| !sign.is_alphanumeric() && sign != '_').next().unwrap_or_default()
        }
    }
}
