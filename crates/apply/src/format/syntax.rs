//! Signs of an edit in a text that is read as lines of a file.
//!
//! What looks like an edit and was not read as one is no content: it would be written into the file. Invariant: signs that the file itself
//! has are its content.

use super::similar::quoted;
use super::{detect, path, search_replace, string_replace, unified, v4a};
use crate::outcome::{Code, Format, Refused};
use crate::source::Source;
use serde_json::{Deserializer, Value};
use std::cell::LazyCell;
use std::collections::BTreeSet;

/// Lines below a header `@@` that are looked at for the signs of a hunk.
const HUNK_LINES: usize = 20;
/// Beginnings of JSON that are looked at: an edit is one value, and texts of code have many brackets.
const MAX_VALUES: usize = 8;
/// Keys that name what an edit is to do, beside those of old and new strings.
const TARGETS: [&str; 7] = ["lines", "after", "before", "symbol", "after_symbol", "before_symbol", "edits"];
/// Keys that hold an update.
const UPDATES: [&str; 3] = ["code_edit", "edit_snippet", "editSnippet"];
/// Keys of what is searched, beside `replace`.
const SEARCHES: [&str; 2] = ["search", "find"];
/// Tags in which models write edits and the calls of tools.
const TAGS: [&str; 9] = [
    "<old_string>",
    "<old_str>",
    "<new_string>",
    "<new_str>",
    "<invoke name=",
    "<parameter name=",
    "<updated-code>",
    "<code_edit>",
    "<think>",
];
/// What begins a search, and its replacement below it.
const PAIRS: [(&str, &str); 4] =
    [("SEARCH", "REPLACE"), ("<search>", "<replace>"), ("old_string:", "new_string:"), ("old_str:", "new_str:")];
/// An edit lies no deeper in the call of a tool.
const MAX_DEPTH: usize = 3;
/// Commands of a text editor.
const COMMANDS: [&str; 4] = ["str_replace", "insert", "create", "view"];
/// Keys that such commands have.
const COMMAND_KEYS: [&str; 7] =
    ["old_str", "new_str", "insert_line", "insert_text", "new_string", "file_text", "view_range"];

/// Arguments of tools that write or edit files, in small letters and without signs between words: one of these, and nothing but these and those below,
/// makes JSON a call.
const ARGUMENTS: [&str; 22] = [
    "content",
    "contents",
    "newcontent",
    "filecontent",
    "filetext",
    "appendcontent",
    "replacementlines",
    "replacelines",
    "setline",
    "insertafter",
    "insertbefore",
    "inserttext",
    "oldtext",
    "newtext",
    "oldstring",
    "newstring",
    "patch",
    "diff",
    "codeedit",
    "command",
    "input",
    "edits",
];
const BESIDE_ARGUMENTS: [&str; 25] = [
    "path",
    "file",
    "filename",
    "filepath",
    "targetfile",
    "instruction",
    "instructions",
    "explanation",
    "description",
    "startline",
    "endline",
    "line",
    "lines",
    "range",
    "viewrange",
    "insertline",
    "symbol",
    "anchor",
    "direction",
    "occurrence",
    "replaceall",
    "hash",
    "mode",
    "overwrite",
    "dryrun",
];

/// What was seen in the lines so far.
#[derive(Default)]
struct Seen {
    /// Beginnings of JSON.
    values: usize,
    /// Of each pair, whether its first was there.
    begun: [bool; PAIRS.len()],
}

/// Refuses a text that holds an edit which was not read as one.
///
/// # Errors
/// When a line that the file has not begins such an edit, or ends one.
pub(super) fn refuse_unread(source: &Source, update: &str, path: Option<&str>) -> Result<(), Refused> {
    let lines: Vec<&str> = update.lines().collect();
    refuse_name(source, &lines, path)?;
    refuse_call(source, update, path)?;
    if are_marked(&lines) && !are_marked(&source.lines().collect::<Vec<_>>()) {
        let message = "all lines of the update are marked with + or -, and nothing says that it is a diff";
        let hint = "write `@@` above them; a whole file of such lines needs the format whole_file stated";
        return Err(Refused::new(Code::InvalidFormat, message, hint));
    }
    let mut seen = Seen::default();
    let signs = (0..lines.len()).filter_map(|at| Some((at, sign(&lines, at, &mut seen)?)));
    // Most updates have no sign at all.
    let known: LazyCell<BTreeSet<&str>, _> = LazyCell::new(|| source.lines().map(str::trim_end).collect());
    let Some((at, (what, format))) = signs.into_iter().find(|&(at, _)| !known.contains(lines[at].trim_end())) else {
        return Ok(());
    };
    // A diff that is kept as a file gets other lines of a diff.
    if detect::explicit(&source.text) == Some(format) || format == Format::StringReplace && is_json(&source.text) {
        return Ok(());
    }
    let fault = if format == Format::StringReplace { string_replace::fault(update) } else { None };
    let why = fault.unwrap_or_else(|| quoted(lines[at]));
    let message = format!("line {} of the update {what}, and the update could not be read as such: {why}", at + 1);
    let hint = "give the edit alone and whole, with nothing above it, in one format; a whole file that holds such lines needs the format \
         whole_file stated";
    Err(Refused::new(Code::InvalidFormat, message, hint))
}

/// Refuses JSON that is nothing but arguments of a tool, for a file that is no JSON.
fn refuse_call(source: &Source, update: &str, path: Option<&str>) -> Result<(), Refused> {
    let is_data = path.is_some_and(|path| path.rsplit('.').next().is_some_and(|end| end.contains("json")));
    if is_data || !update.trim_start().starts_with('{') || source.text.trim_start().starts_with('{') {
        return Ok(());
    }
    let Ok(Value::Object(map)) = serde_json::from_str(update) else { return Ok(()) };
    let plain = |key: &str| key.to_ascii_lowercase().replace(['_', '-'], "");
    let is_in = |list: &[&str], key: &str| list.contains(&&*plain(key));
    let has_argument = map.iter().any(|(key, value)| is_in(&ARGUMENTS, key) && (value.is_string() || value.is_array()));
    let is_call = has_argument && map.keys().all(|key| is_in(&ARGUMENTS, key) || is_in(&BESIDE_ARGUMENTS, key));
    if !is_call {
        return Ok(());
    }
    let names: Vec<String> = map.keys().map(|key| quoted(key)).collect();
    let message =
        format!("the update is JSON with arguments of a tool ({}), and not the text of the file", names.join(", "));
    let hint = "give the edit in one of the formats that are known; a file that is to hold this JSON needs the format whole_file stated";
    Err(Refused::new(Code::InvalidFormat, message, hint))
}

/// Refuses a first line that is nothing but the name of the file, as answers have it above the text.
fn refuse_name(source: &Source, lines: &[&str], path: Option<&str>) -> Result<(), Refused> {
    let first = lines.iter().position(|line| !line.trim().is_empty());
    let Some((at, path)) = first.zip(path) else { return Ok(()) };
    let line = lines[at].trim_end();
    // A comment with the name, or a title, is text.
    let is_name = !line.starts_with('#') && path::of_line(line).is_some_and(|named| path::same(named, path));
    if !is_name || lines.len() == at + 1 || source.lines().any(|own| own.trim_end() == line) {
        return Ok(());
    }
    let message = format!("line {} of the update is the name of the file, and may be none of its text", at + 1);
    let hint = "leave it out; a whole file that begins so needs the format whole_file stated";
    Err(Refused::new(Code::InvalidFormat, message, hint))
}

/// What a line is of an edit, if it is anything, and the format of that.
fn sign(lines: &[&str], at: usize, seen: &mut Seen) -> Option<(&'static str, Format)> {
    let line = lines[at];
    let bare = line.trim();
    match bare.as_bytes().first()? {
        b'<' | b'>' | b'-' | b'+' if search_replace::is_sign(bare) => {
            return Some(("is a sign of a SEARCH/REPLACE block", Format::SearchReplace));
        }
        b'<' | b'>' if is_conflict(line) => return Some(("is the mark of a conflict", Format::SearchReplace)),
        b'<' if TAGS.iter().any(|tag| bare.starts_with(tag)) => {
            return Some(("is a tag of an edit", Format::StringReplace));
        }
        b'*' if v4a::is_sign(line) => return Some(("is a line of a V4A patch", Format::V4a)),
        b'0'..=b'9' if begins_plain_diff(lines, at) => return Some(("begins a diff", Format::UnifiedDiff)),
        _ => {}
    }
    for (begun, (begin, end)) in seen.begun.iter_mut().zip(PAIRS) {
        if *begun && is_word(line, end) {
            return Some(("is the replacement of a search", Format::SearchReplace));
        }
        *begun |= is_word(line, begin);
    }
    match line.as_bytes().first()? {
        b'-' | b'd' | b'@'
            if unified::names_files(lines, at)
                || line.starts_with("diff --git ")
                || line.starts_with("@@") && unified::begins(&lines[at..lines.len().min(at + HUNK_LINES)]) =>
        {
            Some(("begins a diff", Format::UnifiedDiff))
        }
        _ if seen.values < MAX_VALUES && bare.starts_with(['{', '[']) => {
            seen.values += 1;
            is_json(&lines[at..].join("\n")).then_some(("begins an edit as JSON", Format::StringReplace))
        }
        _ => None,
    }
}

/// Whether a line begins with a tag or a key, or is a word.
fn is_word(line: &str, word: &str) -> bool {
    let rest = line.strip_prefix(word);
    rest.is_some_and(|rest| word.ends_with(['>', ':']) || matches!(rest.trim_end(), "" | ":"))
}

/// A mark that merges leave, and that models write instead of a block.
fn is_conflict(line: &str) -> bool {
    ["<<<<<<<", ">>>>>>>"]
        .iter()
        .any(|sign| line.strip_prefix(sign).is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with(' ')))
}

/// A change as `diff` writes it without options: `1,2c1`, and lines behind `<` and `>`.
fn begins_plain_diff(lines: &[&str], at: usize) -> bool {
    let is_range = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit() || it == b',');
    let command = lines[at].split_once(['a', 'c', 'd']);
    command.is_some_and(|(old, new)| is_range(old) && is_range(new))
        && lines.get(at + 1).is_some_and(|line| line.starts_with("< ") || line.starts_with("> "))
}

/// Whether all lines are marked as gone or new, as in a diff that has lost its head.
fn are_marked(lines: &[&str]) -> bool {
    let mut text = lines.iter().filter(|line| !line.trim().is_empty());
    let has = |sign: char| lines.iter().any(|line| line.starts_with(sign));
    // Points of a list have a blank behind their sign.
    let is_list =
        lines.iter().all(|line| line.trim().is_empty() || line.get(1..).is_some_and(|rest| rest.starts_with(' ')));
    text.all(|line| line.starts_with(['+', '-'])) && has('+') && has('-') && !is_list
}

/// Whether a text begins with JSON that is an edit, well-formed or not.
fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    if !text.starts_with(['{', '[']) {
        return false;
    }
    let has = |keys: &[&str]| keys.iter().any(|key| has_text(text, key));
    let names = has(&string_replace::OLD)
        || has(&string_replace::NEW)
        || has(&["command", "replace"])
        || has(&UPDATES)
        || TARGETS.iter().any(|key| text.contains(key)) && has(&["content"]);
    if !names {
        return false;
    }
    match Deserializer::from_str(text).into_iter::<Value>().next() {
        Some(Ok(value)) => is_edit(&value, 0),
        _ => {
            let first = string_replace::OLD.iter().chain(&UPDATES).any(|key| first_key(text) == Some(key));
            let is_command = COMMANDS.iter().any(|name| text.contains(name)) && has(&["command"]);
            first
                || has(&string_replace::OLD) && has(&string_replace::NEW)
                || has(&SEARCHES) && has(&["replace"])
                || is_command && COMMAND_KEYS.iter().any(|key| text.contains(key))
                || first_key(text) == Some("edits") && has(&["content"])
        }
    }
}

/// Whether a value is an edit, with what else there may be in it, or the call of a tool with one.
fn is_edit(value: &Value, depth: usize) -> bool {
    let map = match value {
        Value::Array(list) => return list.iter().any(|value| is_edit(value, depth)),
        Value::Object(map) => map,
        _ => return false,
    };
    let is_text = |keys: &[&str]| keys.iter().any(|key| map.get(*key).is_some_and(Value::is_string));
    let command = map.get("command").and_then(Value::as_str).unwrap_or_default();
    let is_target = |edit: &Value| edit["content"].is_string() && TARGETS.iter().any(|key| edit[*key].is_string());
    let edits = map.get("edits").and_then(Value::as_array);
    is_text(&string_replace::OLD) && is_text(&string_replace::NEW)
        || is_text(&SEARCHES) && is_text(&["replace"])
        || is_text(&UPDATES)
        || COMMANDS.contains(&command) && COMMAND_KEYS.iter().any(|key| map.contains_key(*key))
        || edits.is_some_and(|edits| edits.iter().any(is_target))
        || depth < MAX_DEPTH && map.values().any(|value| is_edit(value, depth + 1))
}

/// The first key of an object, or of the first object of a list.
fn first_key(text: &str) -> Option<&str> {
    let inside = text.trim_start_matches(|sign: char| "{[\"'".contains(sign) || sign.is_whitespace());
    let end = inside.find(|sign: char| !(sign.is_alphanumeric() || sign == '_'))?;
    Some(&inside[..end])
}

/// Whether a text has this key, in whatever quotes, with a string as its value.
fn has_text(text: &str, key: &str) -> bool {
    text.match_indices(key).any(|(at, _)| {
        let is_end = |sign: char| !(sign.is_alphanumeric() || sign == '_');
        let begins = text[..at].chars().next_back().is_some_and(is_end);
        let rest = text[at + key.len()..].trim_start_matches(['"', '\'']).trim_start();
        let value = rest.strip_prefix(':').map(str::trim_start);
        begins && value.is_some_and(|value| value.starts_with(['"', '\'', '`']))
    })
}

#[cfg(test)]
mod tests;
