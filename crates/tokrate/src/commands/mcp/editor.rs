//! The tool `str_replace_based_edit_tool`: the commands of Anthropic's text editor on the files of the roots.
//!
//! It lists no folders and undoes nothing. Invariant: what may not be edited may not be viewed either.

use super::tool::{encoding, encoding_schema, expected, flag, needed, only};
use super::workspace::{Request, Workspace};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use tokrate_apply::{Encoding, Format};
use tokrate_apply_host::mcp::{Tool, ToolResult};

/// The name by which models know the tool.
const NAME: &str = "str_replace_based_edit_tool";
/// Arguments of every command.
const COMMON: [&str; 3] = ["command", "path", "encoding"];
/// Further ones of each.
const COMMANDS: [(&str, &[&str]); 4] = [
    ("view", &["view_range", "hashes"]),
    ("str_replace", &["old_str", "new_str", "dry_run", "expected"]),
    ("insert", &["insert_line", "insert_text", "new_str", "dry_run", "expected"]),
    ("create", &["file_text", "dry_run", "expected"]),
];
/// Arguments that are no matter of the command itself.
const HOST_ARGUMENTS: [&str; 3] = ["dry_run", "expected", "encoding"];
/// Lines that are shown at once.
const MAX_LINES: usize = 2000;
/// Characters of a line that are shown.
const MAX_CHARACTERS: usize = 2000;

/// The tool and where it may work.
pub struct TextEditor(pub Arc<Workspace>);

impl Tool for TextEditor {
    fn name(&self) -> &str {
        NAME
    }

    fn description(&self) -> Value {
        json!({
            "name": NAME,
            "title": "Text editor",
            "description": DESCRIPTION,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "enum": ["view", "str_replace", "insert", "create"]},
                    "path": {"type": "string", "description": "The file: an absolute path, or one below the project's folder."},
                    "old_str": {"type": "string", "description": "str_replace: text that stands once in the file."},
                    "new_str": {"type": "string", "description": "str_replace: what takes its place."},
                    "insert_line": {"type": "integer", "description": "insert: the line that the text follows; 0 is the beginning."},
                    "insert_text": {"type": "string", "description": "insert: the text."},
                    "file_text": {"type": "string", "description": "create: all of the new file."},
                    "view_range": {"type": "array", "items": {"type": "integer"}, "description": "view: first and last line; -1 is the end."},
                    "hashes": {"type": "boolean", "description": "view: show each line's hash behind its number."},
                    "encoding": encoding_schema(),
                    "dry_run": {"type": "boolean", "description": "Only try, and write nothing."},
                    "expected": {"type": "string", "description": "The file that the edit was made for, as sha256:HEX or mtime:SECONDS; one that was changed since is refused."},
                },
                "required": ["command", "path"],
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false},
        })
    }

    fn call(&self, arguments: &Value, cancelled: &dyn Fn() -> bool) -> Result<ToolResult, String> {
        let name = needed(arguments, "command")?;
        let Some((_, own)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
            let shown: String = name.chars().take(80).collect();
            return Err(format!("there is no command `{shown}`; there are view, str_replace, insert, create"));
        };
        only(arguments, &[&COMMON[..], own].concat()).map_err(|what| format!("{name}: {what}"))?;
        let path = needed(arguments, "path")?;
        match name {
            "view" => Ok(self.view(path, &range(arguments)?, flag(arguments, "hashes")?, encoding(arguments)?)),
            _ => {
                let mut command = arguments.clone();
                if let Some(map) = command.as_object_mut() {
                    map.retain(|name, value| !HOST_ARGUMENTS.contains(&name.as_str()) && !value.is_null());
                }
                let update = command.to_string();
                let request = Request {
                    path,
                    update: &update,
                    instruction: None,
                    format: Some(Format::TextEditor),
                    encoding: encoding(arguments)?,
                    dry_run: flag(arguments, "dry_run")?,
                    expected: expected(arguments)?,
                };
                Ok(ToolResult { structured: Value::Null, ..self.0.edit(&request, cancelled) })
            }
        }
    }
}

impl TextEditor {
    fn view(&self, path: &str, range: &Range, hashes: bool, encoding: Option<Encoding>) -> ToolResult {
        let lines = match self.0.lines(path, encoding) {
            Ok(lines) => lines,
            Err(refused) => return refused,
        };
        let mut shown = String::new();
        let count = lines.len();
        let (first, last) = (range.first, range.last.unwrap_or(count).min(count));
        for (at, line) in lines.iter().enumerate().take(last).skip(first - 1).take(MAX_LINES) {
            // Of the whole line, however much of it is shown.
            let hash = if hashes { format!(":{}", line.hash) } else { String::new() };
            let text: String = line.text.chars().take(MAX_CHARACTERS).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(shown, "{:>6}{hash}\t{text}", at + 1);
            if text.len() < line.text.len() {
                let all = line.text.chars().count();
                let _ = writeln!(
                    shown,
                    "      \t(line {} goes on: {MAX_CHARACTERS} of its {all} characters are shown)",
                    at + 1
                );
            }
        }
        if last.saturating_sub(first - 1) > MAX_LINES {
            let _ = writeln!(shown, "(and more: the file has {count} lines; name others with view_range)");
        } else if shown.is_empty() {
            let _ = writeln!(shown, "(the file has {count} lines, and none of these)");
        }
        ToolResult { text: shown, word: "no_change", is_error: false, structured: Value::Null }
    }
}

/// Lines to show, counted from 1.
struct Range {
    first: usize,
    last: Option<usize>,
}

fn range(arguments: &Value) -> Result<Range, String> {
    let wrong = || "`view_range` must be two line numbers, the first at least 1, the last -1 for the end".to_owned();
    let lines = match &arguments["view_range"] {
        Value::Null => return Ok(Range { first: 1, last: None }),
        Value::Array(lines) => lines,
        _ => return Err(wrong()),
    };
    let [first, last] = &lines[..] else { return Err(wrong()) };
    let first =
        first.as_u64().and_then(|line| usize::try_from(line).ok()).filter(|&line| line > 0).ok_or_else(wrong)?;
    let last = match last.as_i64() {
        Some(-1) => None,
        Some(line) => Some(usize::try_from(line).ok().filter(|&last| last >= first).ok_or_else(wrong)?),
        None => return Err(wrong()),
    };
    Ok(Range { first, last })
}

const DESCRIPTION: &str = "\
Views, creates and edits files. `view` shows a file with line numbers, `str_replace` replaces a text that stands once in it, `insert` \
puts text behind a line, `create` makes a file that is not there. What does not fit is refused, with the lines in question, and \
leaves the file as it was. Folders are not listed.";
