//! Commands of Anthropic's text editor tool as JSON: `insert` and `create`; `str_replace` is a string replacement.
//!
//! It shows no file: `view` is the matter of whoever has the files. Invariant: a command with a field that is not known is none.

use super::change::{Change, filled, together};
use super::{Located, string_replace};
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use crate::splice::Splice;
use serde_json::{Map, Value};

/// Fields that each command may have.
const FIELDS: [&str; 8] =
    ["command", "path", "insert_line", "insert_text", "new_str", "file_text", "view_range", "instruction"];

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Command {
    /// Text behind a line, counted from 1; 0 is the beginning.
    Insert(usize, String),
    Create(String),
    View,
}

/// Whether an update is such a command.
pub(super) fn begins(update: &str) -> bool {
    // Looked for first, as an update may be a large file of JSON.
    update.trim_start().starts_with('{')
        && update.contains("\"command\"")
        && serde_json::from_str(update).is_ok_and(|value| command(&value).is_some())
}

/// Locates what a command changes.
pub(super) fn locate(source: &Source, update: &str) -> Result<Located, Refused> {
    let invalid = |message: String| {
        let hint =
            "write {\"command\": \"insert\", \"insert_line\": …, \"insert_text\": …}, or `create` with `file_text`";
        Refused::new(Code::InvalidFormat, message, hint)
    };
    let value: Value =
        serde_json::from_str(update).map_err(|error| invalid(format!("the update is not JSON: {error}")))?;
    if value["command"] == "str_replace" {
        return string_replace::locate(source, update);
    }
    let command = command(&value).ok_or_else(|| invalid("the update is no command of a text editor".to_owned()))?;
    let change = match command {
        Command::View => {
            return Err(Refused::new(Code::NotAnEdit, "the command `view` changes nothing", "read the file itself"));
        }
        Command::Create(_) if !source.text.is_empty() => {
            let hint = "change it with `str_replace` or `insert`, or remove it first";
            return Err(Refused::new(Code::NoAnchor, "the command creates a file that is there and not empty", hint));
        }
        Command::Create(text) => filled(&text.lines().collect::<Vec<_>>()),
        Command::Insert(line, _) if line > source.line_count() => {
            let message = format!("line {line} is beyond the end of the file, which has {}", source.line_count());
            return Err(Refused::new(Code::NoAnchor, message, "name the line that the new ones follow; 0 is the top"));
        }
        Command::Insert(line, text) => {
            let mut new = text;
            if !new.is_empty() && !new.ends_with('\n') {
                new.push('\n');
            }
            let at = source.bytes_of(line..line).start;
            let splices = if new.is_empty() { Vec::new() } else { vec![Splice { old: at..at, new }] };
            Change { lines: line..line, splices, reindented: false }
        }
    };
    let (splices, reindented) = together(vec![change])?;
    Ok(Located { splices, stage: Stage::Lines, reindented })
}

/// The command in a JSON value.
fn command(value: &Value) -> Option<Command> {
    let map = value.as_object()?;
    if map.keys().any(|key| !FIELDS.contains(&key.as_str())) {
        return None;
    }
    match map.get("command")?.as_str()? {
        "insert" => {
            let line = usize::try_from(map.get("insert_line")?.as_u64()?).ok()?;
            Some(Command::Insert(line, text(map, "insert_text").or_else(|| text(map, "new_str"))?))
        }
        "create" => Some(Command::Create(text(map, "file_text")?)),
        "view" => Some(Command::View),
        _ => None,
    }
}

fn text(map: &Map<String, Value>, name: &str) -> Option<String> {
    Some(map.get(name)?.as_str()?.replace("\r\n", "\n"))
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
        let create = json!({"command": "create", "path": "a", "file_text": "x\ny"});
        assert_eq!(edited("", &create), Ok("x\ny\n".into()));
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
    fn json_with_other_fields_is_no_command() {
        let file = json!({"command": "create", "file_text": "x", "name": "y"});
        assert!(!super::begins(&file.to_string()));
    }
}
