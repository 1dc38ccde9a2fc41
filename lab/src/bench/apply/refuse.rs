//! Updates that name no place, or several: the only right answer is a refusal.
//!
//! It does not build one that could be meant in one way. Invariant: a shown place that was doubled fits both copies
//! alike.

use super::cases::CUT;
use super::chance::Chance;
use super::change::{Change, Hunk};
use super::formats;
use super::language::Leader;
use super::lazy;
use std::collections::BTreeSet;

/// An update that must be refused, and its file.
pub struct Refusal {
    /// The format.
    pub format: &'static str,
    /// Why it must be refused.
    pub style: &'static str,
    /// The file.
    pub original: String,
    /// The update.
    pub update: String,
}

/// Refusals made of a change; `other` is a change of another file of the repository.
pub fn all(change: &Change, path: &str, leader: Leader, other: Option<&Change>, chance: &mut Chance) -> Vec<Refusal> {
    let original = change.file(&change.old);
    let mut all = doubled(change, path, leader, chance);
    let mut add = |format, style, update| {
        all.push(Refusal { format, style, original: original.clone(), update });
    };
    if let Some(other) = other.filter(|other| is_foreign(change, other)) {
        let foreign = in_formats(other, path, leader, chance).into_iter();
        for (format, update) in foreign.filter(|(format, update)| *format != CUT || !asks_to_append(update)) {
            add(format, "other file", update);
        }
    }
    let nothing = ["", "\n\n", "// ... existing code ...\n", "I have made the change that you asked for.\n"];
    add(CUT, "nothing in it", (*chance.one_of(&nothing)).to_owned());
    if let Some(blocks) = formats::all(change, path, chance).into_iter().find(|written| written.style == "Cline") {
        let first = blocks.text.split_inclusive("+++++++ REPLACE\n").next().unwrap_or_default();
        let (head, replacement) = first.split_once("=======\n").unwrap_or((first, ""));
        let (_, search) = head.split_once('\n').unwrap_or_default();
        let changed = format!("------- SEARCH\n{search}=======\nsomething else\n+++++++ REPLACE\n");
        // Where the lines stand after the first replacement, the second could be meant to follow it.
        if !replacement.contains(search.trim()) {
            add("search/replace", "contradiction", format!("{first}{changed}"));
        }
        // Cut behind the search, or within what replaces it.
        let whole: Vec<&str> = replacement.split_inclusive('\n').collect();
        let kept = whole[..chance.below(whole.len().max(1))].concat();
        let cut = if chance.coin() { head.to_owned() } else { format!("{head}=======\n{kept}") };
        add("search/replace", "cut", cut);
    }
    all
}

/// The one hunk of a change with two lines on each side, doubled elsewhere in the file.
fn doubled(change: &Change, path: &str, leader: Leader, chance: &mut Chance) -> Vec<Refusal> {
    let groups = change.groups(4);
    let [group] = &groups[..] else { return Vec::new() };
    // At an edge of the file the update would say which of the two is meant.
    if group.old.start == 0 || group.old.end == change.old.len() || change.new.len() - group.new.end < 2 {
        return Vec::new();
    }
    let block: Vec<String> = change.old[group.old.clone()].to_vec();
    if block.iter().all(|line| line.trim().len() < 4) {
        return Vec::new();
    }
    let after = group.old.end + 1 + chance.below(change.old.len() - group.old.end);
    let mut lines = change.old.clone();
    // Of a copy that would touch the block, more than the block might be doubled.
    let place = after.min(lines.len() - 1).max(group.old.end + 1).min(lines.len());
    lines.splice(place..place, block);
    // An update that the file holds already asks for nothing.
    let stands = |shown: &[String]| lines.windows(shown.len()).any(|window| window == shown);
    if (2..=4).any(|context| change.groups(context).iter().all(|group| stands(&change.new[group.new.clone()]))) {
        return Vec::new();
    }
    let original = change.file(&lines);
    in_formats(change, path, leader, chance)
        .into_iter()
        .map(|(format, update)| Refusal { format, style: "place occurs twice", original: original.clone(), update })
        .collect()
}

/// Whether no line of text around the changes of another file stands in this one, at any indentation.
fn is_foreign(change: &Change, other: &Change) -> bool {
    let known: BTreeSet<&str> = change.old.iter().map(|line| line.trim()).collect();
    other.groups(3).iter().all(|group: &Hunk| {
        let is_informative = |line: &&String| line.chars().filter(|c| c.is_alphanumeric()).count() >= 3;
        let old = &other.old[group.old.clone()];
        old.iter().any(|line| is_informative(&line))
            && old.iter().filter(is_informative).all(|line| !known.contains(line.trim()))
    })
}

/// Whether an update is a marker above outermost blocks: what it asks of any file is to put them at its end.
fn asks_to_append(update: &str) -> bool {
    let mut lines = update.lines().filter(|line| !line.trim().is_empty());
    let begins = lines.next().is_some_and(lazy::is_marker_like);
    let is_head =
        lines.next().is_some_and(|line| line.starts_with(|sign: char| sign.is_alphabetic() || "@/#".contains(sign)));
    begins && is_head && !lines.any(lazy::is_marker_like)
}

/// An update in the formats that tell no line numbers.
fn in_formats(change: &Change, path: &str, leader: Leader, chance: &mut Chance) -> Vec<(&'static str, String)> {
    let without_numbers = ["aider", "one edit", "list", "without headers", "no numbers"];
    let mut updates: Vec<_> = formats::all(change, path, chance)
        .into_iter()
        .filter(|written| without_numbers.contains(&written.style))
        .map(|written| (written.format, written.text))
        .collect();
    updates.extend(lazy::plain(change, leader).map(|snippet| (CUT, snippet.text)));
    updates
}
