//! Commands of Anthropic's text editor tool as JSON: `insert` and `create`; `str_replace` is a string replacement.
//!
//! It shows no file: `view` is the matter of whoever has the files. Invariant: a command with a field that
//! it does not take is refused.

use super::change::{Change, filled, together};
use super::similar::quoted;
use super::{Located, string_replace};
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use crate::splice::Splice;
use serde_json::{Map, Value};

/// Fields that every command may have.
const COMMON: [&str; 3] = ["command", "path", "instruction"];
/// Further fields of each command.
const FIELDS: [(&str, &[&str]); 3] =
    [("insert", &["insert_line", "insert_text", "new_str"]), ("create", &["file_text"]), ("view", &["view_range"])];

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Command {
    /// Text behind a line, counted from 1; 0 is the beginning.
    Insert(usize, String),
    Create(String),
    View,
}

/// Whether an update is such a command, complete or not.
pub(super) fn begins(update: &str) -> bool {
    let is_known = |key: &str| COMMON.contains(&key) || FIELDS.iter().any(|(_, own)| own.contains(&key));
    let is_command = |map: &Map<String, Value>| {
        let command = map.get("command").and_then(Value::as_str);
        let own = FIELDS.iter().find(|(name, _)| Some(*name) == command).map(|(_, own)| *own);
        // Its own fields tell it from a file with a command of another kind.
        own.is_some_and(|own| own.iter().any(|key| map.contains_key(*key)) || command == Some("view"))
            && map.keys().all(|key| is_known(key))
    };
    // Looked for first, as an update may be a large file of JSON.
    update.trim_start().starts_with('{')
        && update.contains("\"command\"")
        && serde_json::from_str(update).is_ok_and(|value: Value| value.as_object().is_some_and(is_command))
}

/// Locates what a command changes.
pub(super) fn locate(source: &Source, update: &str) -> Result<Located, Refused> {
    let value: Value =
        serde_json::from_str(update).map_err(|error| invalid(format!("the update is not JSON: {error}")))?;
    if value["command"] == "str_replace" {
        return string_replace::locate(source, update);
    }
    let change = match command(&value)? {
        Command::View => {
            return Err(Refused::new(Code::NotAnEdit, "the command `view` changes nothing", "read the file itself"));
        }
        Command::Create(_) if !source.text.is_empty() => {
            let hint = "change it with `str_replace` or `insert`, or remove it first";
            return Err(Refused::new(Code::NoAnchor, "the command creates a file that is there and not empty", hint));
        }
        Command::Create(text) => filled(&text),
        Command::Insert(line, _) if line > source.line_count() => {
            let message = format!("line {line} is beyond the end of the file, which has {}", source.line_count());
            return Err(Refused::new(Code::NoAnchor, message, "name the line that the new ones follow; 0 is the top"));
        }
        // It is all of the text.
        Command::Insert(_, text) if source.text.is_empty() => filled(&text),
        Command::Insert(line, text) => {
            let mut new = text.replace("\r\n", "\n");
            if !new.is_empty() && !new.ends_with('\n') {
                new.push('\n');
            }
            let at = source.bytes_of(line..line).start;
            let splices = if new.is_empty() { Vec::new() } else { vec![Splice { old: at..at, new }] };
            Change { lines: line..line, splices, reindented: false }
        }
    };
    let (splices, reindented) = together(vec![change])?;
    Ok(Located { splices, stage: Stage::Lines, reindented, evidence: None })
}

/// The command in a JSON value.
///
/// # Errors
/// When it is none, or has fields that the command does not take: what they say would be left out.
fn command(value: &Value) -> Result<Command, Refused> {
    let map = value.as_object().ok_or_else(|| invalid("the update is no command of a text editor".to_owned()))?;
    let name = map.get("command").and_then(Value::as_str).unwrap_or_default();
    let Some((_, own)) = FIELDS.iter().find(|(known, _)| *known == name) else {
        return Err(invalid(format!("there is no command {}", quoted(name))));
    };
    if let Some(other) = map.keys().find(|key| !COMMON.contains(&key.as_str()) && !own.contains(&key.as_str())) {
        return Err(invalid(format!("the command `{name}` takes no {}", quoted(other))));
    }
    let missing = |what: &str| invalid(format!("the command `{name}` has no {what}"));
    let text = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
    match name {
        "insert" => {
            let line = map.get("insert_line").and_then(Value::as_u64).and_then(|line| usize::try_from(line).ok());
            let line = line.ok_or_else(|| missing("`insert_line`"))?;
            match (text("insert_text"), text("new_str")) {
                (Some(_), Some(_)) => Err(invalid("the command `insert` has two texts".to_owned())),
                (one, other) => {
                    one.or(other).map(|text| Command::Insert(line, text)).ok_or_else(|| missing("`insert_text`"))
                }
            }
        }
        "create" => text("file_text").map(Command::Create).ok_or_else(|| missing("`file_text`")),
        _ => Ok(Command::View),
    }
}

fn invalid(message: String) -> Refused {
    let hint = "write {\"command\": \"insert\", \"insert_line\": …, \"insert_text\": …}, or `create` with `file_text`";
    Refused::new(Code::InvalidFormat, message, hint)
}

#[cfg(test)]
mod tests {
    use crate::{Code, Format, Options, Outcome, merge};
    use serde_json::{Value, json};

    fn edited(original: &str, command: &Value) -> Result<String, Code> {
        match merge(original.as_bytes(), command.to_string().as_bytes(), &Options::default()) {
            Outcome::Merged(merged) => {
                assert!(matches!(merged.how.format, Format::TextEditor | Format::StringReplace));
                Ok(merged.text)
            }
            Outcome::Refused(refused) => Err(refused.code),
        }
    }

    #[test]
    fn the_commands_of_a_text_editor_are_carried_out() {
        let insert = |line: usize, text: &str| json!({"command": "insert", "path": "a", "insert_line": line, "insert_text": text});
        assert_eq!(edited("a\nb\n", &insert(1, "x\ny\n")), Ok("a\nx\ny\nb\n".into()));
        assert_eq!(edited("a\r\nb", &insert(2, "x")), Ok("a\r\nb\r\nx".into()));
        assert_eq!(edited("a\n", &insert(0, "x")), Ok("x\na\n".into()));
        assert_eq!(
            edited("a\n", &json!({"command": "insert", "path": "a", "insert_line": 1, "new_str": "x"})),
            Ok("a\nx\n".into())
        );
        assert_eq!(edited("a\n", &insert(2, "x")), Err(Code::NoAnchor), "there is no such line");
        let create = json!({"command": "create", "path": "a", "file_text": "x\r\n\ty\n\rz"});
        assert_eq!(edited("", &create), Ok("x\r\n\ty\n\rz".into()), "byte for byte");
        assert_eq!(edited("a\n", &create), Err(Code::NoAnchor), "it is there");
        let replace = json!({"command": "str_replace", "path": "a", "old_str": "a", "new_str": "b"});
        assert_eq!(edited("a\n", &replace), Ok("b\n".into()));
        assert_eq!(
            edited("a\nc\n", &json!({"command": "str_replace", "path": "a", "old_str": "a\n"})),
            Ok("c\n".into())
        );
        assert_eq!(edited("a\n", &json!({"command": "view", "path": "a"})), Err(Code::NotAnEdit));
    }

    #[test]
    fn a_field_that_the_command_does_not_take_is_refused_and_not_left_out() {
        for command in [
            json!({"command": "insert", "insert_line": 1, "insert_text": "x", "file_text": "y"}),
            json!({"command": "insert", "insert_line": 1, "insert_text": "x", "new_str": "y"}),
            json!({"command": "create", "file_text": "y", "insert_line": 1}),
            json!({"command": "str_replace", "old_str": "a", "new_str": "b", "insert_line": 1}),
            json!({"command": "insert", "insert_text": "x"}),
        ] {
            for original in ["", "a\n"] {
                let outcome = merge(original.as_bytes(), command.to_string().as_bytes(), &Options::default());
                assert!(
                    matches!(&outcome, Outcome::Refused(refused) if refused.code == Code::InvalidFormat),
                    "{command}: {outcome:?}"
                );
            }
        }
    }

    #[test]
    fn json_with_other_fields_is_no_command() {
        let file = json!({"command": "create", "file_text": "x", "name": "y"});
        assert!(!super::begins(&file.to_string()));
    }
}
