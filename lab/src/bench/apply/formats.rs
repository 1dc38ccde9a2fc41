//! The same change in the other formats that models write: blocks of search and replacement, JSON, diffs, the whole file.
//!
//! It does not write blocks without any line to search for. Invariant: carried out by the rules of its format, an
//! update gives the changed file.

use super::chance::Chance;
use super::change::{Change, Hunk};
use super::sketch::Place;
use serde_json::json;
use std::fmt::Write;

/// An update in one of the formats.
pub struct Written {
    /// The format's name.
    pub format: &'static str,
    /// How it is written.
    pub style: &'static str,
    /// Its text.
    pub text: String,
    /// Whether each of its blocks stands once in the file.
    pub place: Place,
}

/// How the numbers of a diff are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Right,
    Wrong,
    None,
}

/// A change in every format.
pub fn all(change: &Change, path: &str, chance: &mut Chance) -> Vec<Written> {
    let mut all = Vec::new();
    let groups = change.groups(3);
    let place = place_of_blocks(change, &groups);
    let searchable = groups.iter().all(|group| old_of(change, group).iter().any(|line| !line.trim().is_empty()));
    if searchable {
        let mut add = |format, style, text| all.push(Written { format, style, text, place });
        add("search/replace", "aider", aider(change, &groups, path));
        add("search/replace", "Cline", blocks(change, &groups, false));
        add("search/replace", "Roo", blocks(change, &groups, true));
        let pairs: Vec<_> = groups.iter().map(|group| pair(change, group)).collect();
        let strings = Place::of(pairs.iter().all(|(old, _)| count(&change.file(&change.old), old) == 1));
        let edits: Vec<_> = pairs.iter().map(|(old, new)| json!({"old_string": old, "new_string": new})).collect();
        let mut add = |style, text| all.push(Written { format: "string replace", style, text, place: strings });
        match &edits[..] {
            [one] => add("one edit", one.to_string()),
            several => add("list", json!({ "edits": several }).to_string()),
        }
        let mut add = |style, text| all.push(Written { format: "V4A", style, text, place });
        add("without headers", v4a(change, &groups, path, false));
        add("with headers", v4a(change, &groups, path, true));
    }
    let context = 1 + chance.below(3);
    for (style, numbers) in
        [("right numbers", Numbers::Right), ("wrong numbers", Numbers::Wrong), ("no numbers", Numbers::None)]
    {
        // Numbers that are right tell the place of a short context too.
        let groups = change.groups(if numbers == Numbers::Right { context } else { 3 });
        if groups.iter().all(|group| !old_of(change, group).is_empty()) {
            let text = unified(change, &groups, path, numbers, chance);
            all.push(Written { format: "unified diff", style, text, place: place_of_blocks(change, &groups) });
        }
    }
    let whole = change.file(&change.new);
    all.push(Written { format: "whole file", style: "whole file", text: whole, place: Place::of(true) });
    all
}

/// An edit of every occurrence of a name, and the file that it gives.
pub fn replace_all(change: &Change, chance: &mut Chance) -> Option<(Written, String)> {
    let original = change.file(&change.old);
    let line = chance.one_of(&change.old);
    // Several words in one are a name, and no word of the language, which may not have another name.
    let joined = |word: &str| word.contains('_') || word.chars().skip(1).any(char::is_uppercase);
    let is_name = |word: &&str| {
        word.len() > 3
            && word.starts_with(|c: char| c.is_alphabetic())
            && word.contains(char::is_lowercase)
            && joined(word)
    };
    let name = line.split(|c: char| !c.is_alphanumeric() && c != '_').find(is_name)?;
    if original.matches(name).count() < 2 {
        return None;
    }
    let new = format!("{name}2");
    let text = json!({"old_string": name, "new_string": &new, "replace_all": true}).to_string();
    let truth = original.replace(name, &new);
    Some((Written { format: "string replace", style: "replace_all", text, place: Place::of(true) }, truth))
}

fn old_of<'c>(change: &'c Change, group: &Hunk) -> &'c [String] {
    &change.old[group.old.clone()]
}

fn pair(change: &Change, group: &Hunk) -> (String, String) {
    (old_of(change, group).join("\n"), change.new[group.new.clone()].join("\n"))
}

fn place_of_blocks(change: &Change, groups: &[Hunk]) -> Place {
    let once = |group: &Hunk| {
        let lines: Vec<&str> = old_of(change, group).iter().map(String::as_str).collect();
        change.places_of(&lines).len() == 1
    };
    Place::of(groups.iter().all(once))
}

/// Occurrences of a text, those that overlap too.
fn count(text: &str, part: &str) -> usize {
    text.char_indices().filter(|(at, _)| text[*at..].starts_with(part)).take(2).count()
}

fn ended(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

fn aider(change: &Change, groups: &[Hunk], path: &str) -> String {
    let mut text = String::new();
    for group in groups {
        let (old, new) = (ended(old_of(change, group)), ended(&change.new[group.new.clone()]));
        write!(text, "{path}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n\n").expect("a text grows");
    }
    text
}

/// Blocks as Cline writes them, or with the line that they start at as Roo does.
fn blocks(change: &Change, groups: &[Hunk], roo: bool) -> String {
    let mut text = String::new();
    for group in groups {
        let (old, new) = (ended(old_of(change, group)), ended(&change.new[group.new.clone()]));
        let start = group.old.start + 1;
        if roo {
            write!(text, "<<<<<<< SEARCH\n:start_line:{start}\n-------\n{old}=======\n{new}>>>>>>> REPLACE\n\n")
        } else {
            writeln!(text, "------- SEARCH\n{old}=======\n{new}+++++++ REPLACE")
        }
        .expect("a text grows");
    }
    text
}

fn unified(change: &Change, groups: &[Hunk], path: &str, numbers: Numbers, chance: &mut Chance) -> String {
    let mut text = format!("--- a/{path}\n+++ b/{path}\n");
    for group in groups {
        let shift = if numbers == Numbers::Wrong { 1 + chance.below(60) } else { 0 };
        let (old, new) = (group.old.start + 1 + shift, group.new.start + 1 + shift / 2);
        let (olds, news) = (group.old.len(), group.new.len());
        match numbers {
            Numbers::None => text.push_str("@@ ... @@\n"),
            _ => writeln!(text, "@@ -{old},{olds} +{new},{news} @@").expect("a text grows"),
        }
        for (sign, line) in change.diff(group) {
            writeln!(text, "{sign}{line}").expect("a text grows");
        }
    }
    text
}

fn v4a(change: &Change, groups: &[Hunk], path: &str, headers: bool) -> String {
    let mut text = format!("*** Begin Patch\n*** Update File: {path}\n");
    let mut at = 0;
    for group in groups {
        // A header moves forward only: one above the block before would be looked for below it.
        let head =
            change.scope(&group.new).map(|(head, _)| head).filter(|&head| head >= at && change.kept[head].is_some());
        at = group.new.end;
        match head.filter(|_| headers) {
            Some(head) => writeln!(text, "@@ {}", change.new[head].trim()),
            None => writeln!(text, "@@"),
        }
        .expect("a text grows");
        for (sign, line) in change.diff(group) {
            writeln!(text, "{sign}{line}").expect("a text grows");
        }
    }
    text + "*** End Patch\n"
}
