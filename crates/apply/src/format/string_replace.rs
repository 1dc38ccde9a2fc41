//! JSON with an old and a new string, one edit or a list.
//!
//! Invariant: every old string must occur once, in the file as it is or as the edits before it leave it, unless all occurrences
//! are to be replaced. Line ends in it are the file's, that of the last line too, if it has one.

use super::change::{change, filled, nowhere, splices, together, unchanged};
use super::find::{Finder, Shift, Wanted};
use super::lines::lines_of;
use super::numbers::{self, Bare};
use super::similar::{numbered, quoted};
use super::{Located, change::Change};
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use crate::splice::{Splice, in_order};
use memchr::memmem;
use serde_json::{Map, Value};
use std::ops::Range;

/// Limit of the bytes searched in one merge, to bound the time.
const MAX_SEARCHED_BYTES: u64 = 4 << 30;
/// Limit of the new text of one merge: that of an original (bytes).
const MAX_NEW_BYTES: usize = 64 << 20;
/// Lists of edits that would copy more are not carried out in turn (bytes).
const MAX_COPIED_BYTES: usize = 256 << 20;
/// Places that a refusal lists.
const MAX_PLACES: usize = 20;

pub(super) const OLD: [&str; 4] = ["old_string", "old_str", "oldText", "oldString"];
pub(super) const NEW: [&str; 4] = ["new_string", "new_str", "newText", "newString"];
const ALL: [&str; 2] = ["replace_all", "replaceAll"];
/// Optional fields beside them.
const OTHER: [&str; 9] = [
    "path",
    "file_path",
    "filePath",
    "filepath",
    "target_file",
    "command",
    "instruction",
    "instructions",
    "explanation",
];

/// One edit.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pair {
    old: String,
    new: String,
    all: bool,
}

/// A string that is replaced.
struct Match<'p> {
    old: Range<usize>,
    new: &'p str,
}

/// Whether an update begins as such JSON, well-formed or not.
pub(super) fn begins(update: &str) -> bool {
    let inside = update.trim_start().trim_start_matches(['{', '[', ' ', '\t', '\n']);
    if inside.len() == update.len() || !inside.starts_with('"') {
        return false;
    }
    match serde_json::from_str::<Value>(update) {
        Ok(value) => pairs(&value).is_ok(),
        Err(_) => OLD.iter().chain(&["edits"]).any(|key| {
            let rest = inside[1..].strip_prefix(key).and_then(|rest| rest.strip_prefix('"'));
            rest.is_some_and(|rest| *key != "edits" || OLD.iter().any(|old| rest.contains(&format!("\"{old}\""))))
        }),
    }
}

/// Locates all edits. A list is carried out in turn, as editors do it, where that is possible; where its strings all stand in the
/// file as it is, both ways must come to the same.
pub(super) fn locate(source: &Source, update: &str) -> Result<Located, Refused> {
    let value: Value = serde_json::from_str(update).map_err(|error| {
        Refused::new(
            Code::InvalidFormat,
            format!("the update is not JSON: {error}"),
            "write line breaks in strings as \\n",
        )
    })?;
    let pairs = pairs(&value)?;
    let at_once = at_once(source, &pairs);
    if pairs.len() == 1 || pairs.len().saturating_mul(source.text.len()) > MAX_COPIED_BYTES {
        return at_once;
    }
    match (at_once, in_turn(source, &pairs)) {
        (Ok(located), Ok(text)) => {
            let splices = in_order(located.splices.clone(), |byte| source.line_of(byte))?;
            let all = source.spliced(&splices, 0..source.text.len());
            let all = if source.has_final_newline() { &all } else { all.strip_suffix('\n').unwrap_or(&all) };
            if *all == text {
                return Ok(located);
            }
            let message = "the edits give one text when they are made in turn and another when they are made at once";
            Err(Refused::new(Code::AmbiguousLocation, message, "write what each part is to be in the end, as one edit"))
        }
        (Err(_), Ok(text)) => {
            let splices = lines_as(source, 0..source.line_count(), &text)?;
            if splices.is_empty() {
                Err(unchanged())
            } else {
                Ok(Located { splices, stage: Stage::Lines, reindented: false, evidence: None })
            }
        }
        (at_once, Err(_)) => at_once,
    }
}

/// The text after one edit after the other.
fn in_turn(source: &Source, pairs: &[Pair]) -> Result<String, Refused> {
    let mut text = source.written().to_owned();
    for pair in pairs {
        let step = Source::read(text.as_bytes())?;
        let located = at_once(&step, std::slice::from_ref(pair))?;
        let splices = in_order(located.splices, |byte| step.line_of(byte))?;
        text = step.with(&splices);
        if text.len() > MAX_NEW_BYTES {
            return Err(too_many());
        }
    }
    Ok(text)
}

/// Locates edits that are all searched in the file as it is.
fn at_once(source: &Source, pairs: &[Pair]) -> Result<Located, Refused> {
    if pairs.len() as u64 * source.text.len() as u64 > MAX_SEARCHED_BYTES {
        return Err(too_many());
    }
    let mut matches: Vec<Match<'_>> = Vec::new();
    let mut changes: Vec<Change> = Vec::new();
    let mut written: u64 = 0;
    let mut finder = None;
    for (number, pair) in pairs.iter().enumerate() {
        let name = if pairs.len() == 1 { "the old string".to_owned() } else { format!("old string {}", number + 1) };
        if pair.old.is_empty() {
            if !source.text.is_empty() || pair.new.is_empty() {
                return Err(nowhere(&name));
            }
            changes.push(filled(&pair.new));
            continue;
        }
        let (old, new): (Vec<&str>, Vec<&str>) = (pair.old.lines().collect(), pair.new.lines().collect());
        let found = found(source, pair, &name);
        if found.as_ref().is_ok_and(Vec::is_empty)
            && let Some(Bare { near, old, new }) = numbers::without(source, &old, &new)
        {
            let finder = finder.get_or_insert_with(|| Finder::new(source));
            let wanted = Wanted { near: Some(near), trusted: true, ..Wanted::anywhere(&name, source) };
            changes.push(change(finder, &finder.find(&old, &wanted)?, &old, &new, &name)?);
            continue;
        }
        let found = found?;
        written += found.len() as u64 * pair.new.len() as u64;
        if written > MAX_NEW_BYTES as u64 {
            return Err(too_many());
        }
        if found.is_empty() {
            // Whole lines may stand at another indentation.
            let finder = finder.get_or_insert_with(|| Finder::new(source));
            let place = finder.find(&old, &Wanted::anywhere(&name, source))?;
            changes.push(change(finder, &place, &old, &new, &name)?);
        }
        matches.extend(found.into_iter().map(|start| Match { old: start..start + pair.old.len(), new: &pair.new }));
    }
    changes.extend(by_lines(source, matches)?);
    // The file is as it is to be.
    if pairs.iter().all(|pair| pair.old == pair.new) && changes.iter().all(|change| change.splices.is_empty()) {
        return Ok(Located { splices: Vec::new(), stage: Stage::Lines, reindented: false, evidence: None });
    }
    let (splices, reindented) = together(changes)?;
    Ok(Located { splices, stage: Stage::Lines, reindented, evidence: None })
}

fn too_many() -> Refused {
    let message = "the edits are too many, or write too much, for a file of this size";
    Refused::new(Code::TooLarge, message, "write fewer at a time")
}

/// The places of a string: one, or all if all are to be replaced.
fn found(source: &Source, pair: &Pair, name: &str) -> Result<Vec<usize>, Refused> {
    let text = source.written().as_bytes();
    let searcher = memmem::Finder::new(&pair.old);
    if pair.all {
        return Ok(searcher.find_iter(text).collect());
    }
    // Places that overlap are two places too.
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = searcher.find(&text[from..]) {
        places.push(from + at);
        from += at + 1;
        if places.len() > MAX_PLACES {
            break;
        }
    }
    if places.len() <= 1 {
        return Ok(places);
    }
    let shown: Vec<usize> = places.iter().take(MAX_PLACES).map(|&at| source.line_of(at)).collect();
    let mut candidates = shown.clone();
    candidates.dedup();
    let count = if places.len() > MAX_PLACES { format!("more than {MAX_PLACES}") } else { places.len().to_string() };
    let first = pair.old.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let hint = format!(
        "{} stands at {}; add a line above or below that tells them apart, or set replace_all",
        quoted(first),
        numbered(&shown)
    );
    let height = pair.old.trim_end_matches('\n').matches('\n').count();
    Err(Refused::new(Code::AmbiguousLocation, format!("{name} fits {count} places"), hint)
        .at(candidates.iter().map(|&line| (line, line + height))))
}

/// Replaced strings as changes of lines. Those that share lines become one.
fn by_lines(source: &Source, mut matches: Vec<Match<'_>>) -> Result<Vec<Change>, Refused> {
    matches.sort_by_key(|it| (it.old.start, it.old.end));
    for pair in matches.windows(2) {
        if pair[1].old.start < pair[0].old.end {
            let line = source.line_of(pair[1].old.start);
            let message = format!("two of the edits change the same text in line {}", line + 1);
            return Err(
                Refused::new(Code::OverlappingEdits, message, "write both changes as one edit").at([(line, line)])
            );
        }
    }
    let mut changes = Vec::new();
    let mut rest = matches.iter().peekable();
    while let Some(first) = rest.peek() {
        let start = source.line_of(first.old.start);
        let (mut end, mut at) = (start + 1, source.bytes_of(start..start).start);
        let mut text = String::new();
        loop {
            while let Some(it) = rest.next_if(|it| it.old.start < source.bytes_of(start..end).end) {
                text.push_str(&source.text[at..it.old.start]);
                text.push_str(it.new);
                at = it.old.end;
                end = end.max(source.line_of(it.old.end - 1) + 1);
            }
            let stop = source.bytes_of(start..end).end;
            text.push_str(&source.text[at..stop]);
            at = stop;
            if text.is_empty() || text.ends_with('\n') || end == source.line_count() {
                break;
            }
            // Text that loses its line end joins the next line.
            end += 1;
        }
        let splices = lines_as(source, start..end, &text)?;
        changes.push(Change { lines: start..end, splices, reindented: false });
    }
    Ok(changes)
}

/// The changes that make a text of lines of the file. If it has no line end behind its last line, that goes at the end of the file.
fn lines_as(source: &Source, lines: Range<usize>, text: &str) -> Result<Vec<Splice>, Refused> {
    let (old, new): (Vec<&str>, Vec<&str>) = (lines.clone().map(|line| source.line(line)).collect(), lines_of(text));
    let has_end = text.is_empty() || text.ends_with('\n') || !source.has_final_newline();
    if lines.end < source.line_count() || has_end {
        return splices(source, lines.start, &old, &new, &Shift::default(), "");
    }
    let same = old.iter().zip(&new[..new.len() - 1]).take_while(|(old, new)| old == new).count();
    let old = source.bytes_of(lines.start + same..lines.end);
    Ok(vec![Splice { old, new: new[same..].join("\n") }])
}

/// The edits in a JSON value. A list that is written as a text, as models do with the arguments of tools, is read as well.
fn pairs(value: &Value) -> Result<Vec<Pair>, Refused> {
    let invalid = |message: &str| {
        Refused::new(Code::InvalidFormat, message, "write {\"old_string\": …, \"new_string\": …} or a list of them")
    };
    let written: Value;
    let list = match value {
        Value::Array(list) => list.as_slice(),
        Value::Object(map) => match map.get("edits") {
            None => std::slice::from_ref(value),
            Some(Value::Array(list)) if has_edits_alone(map) => list,
            Some(Value::String(text)) if has_edits_alone(map) => {
                written = serde_json::from_str(text).unwrap_or_default();
                written.as_array().ok_or_else(|| invalid("`edits` is a text that is no list of edits"))?
            }
            Some(_) => return Err(invalid("`edits` is no list of edits alone")),
        },
        _ => return Err(invalid("the update is neither an edit nor a list of edits")),
    };
    if list.is_empty() {
        return Err(Refused::new(Code::NotAnEdit, "the list of edits is empty", "write what changes"));
    }
    if let Some(key) = list.iter().filter_map(Value::as_object).find_map(|map| map.keys().find(|key| !is_known(key))) {
        return Err(invalid(&format!("an edit has an argument that is not known, {}", quoted(key))));
    }
    list.iter()
        .map(pair)
        .collect::<Option<Vec<Pair>>>()
        .ok_or_else(|| invalid("an edit has no old and new string, or an argument of another kind"))
}

/// Why JSON that has an old or a new string cannot be read as an edit, if that is known.
pub(super) fn fault(update: &str) -> Option<String> {
    let value: Value = serde_json::from_str(update).ok()?;
    pairs(&value).err().map(|refused| refused.message)
}

/// Whether nothing but optional fields stands beside a list of edits.
fn has_edits_alone(map: &Map<String, Value>) -> bool {
    map.keys().all(|key| key == "edits" || OTHER.contains(&key.as_str()))
}

fn is_known(key: &str) -> bool {
    [&OLD[..], &NEW, &ALL, &OTHER].iter().any(|keys| keys.contains(&key))
}

fn pair(value: &Value) -> Option<Pair> {
    let map = value.as_object()?;
    let text = |keys: &[&str]| -> Option<String> {
        let mut values = keys.iter().filter_map(|key| map.get(*key));
        let only = values.next().filter(|_| values.next().is_none())?;
        Some(only.as_str()?.to_owned())
    };
    let all = match ALL.iter().find_map(|key| map.get(*key)) {
        None | Some(Value::Null) => false,
        Some(value) => value.as_bool()?,
    };
    // The text editor's command may leave out a new string that is empty.
    let is_command = map.get("command").is_some_and(|command| command == "str_replace");
    let has_new = NEW.iter().any(|key| map.contains_key(*key));
    let new = if is_command && !has_new { String::new() } else { text(&NEW)? };
    let old = text(&OLD)?.replace("\r\n", "\n");
    // What fills an empty file is taken as it is; elsewhere lines end as the file's do.
    let new = if old.is_empty() { new } else { new.replace("\r\n", "\n") };
    Some(Pair { old, new, all })
}

#[cfg(test)]
mod tests;
