//! The tool `edit_file`: an edit merged into a file of the roots, or a file made.
//!
//! Invariant: a call with an argument that the tool does not know changes nothing.

use super::workspace::{Request, Workspace, output_schema};
use crate::commands::apply::expect::Expected;
use crate::config::apply::encodings;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;
use tokrate_apply::{Encoding, Format};
use tokrate_apply_host::mcp::{Tool, ToolResult};

/// The tool's name.
const NAME: &str = "edit_file";
/// The arguments that it takes.
const ARGUMENTS: [&str; 8] = ["path", "code_edit", "edits", "instruction", "format", "encoding", "dry_run", "expected"];

/// The fields of each of `edits`; those of other tools' lists are known as well.
const EDIT_FIELDS: [&str; 10] = [
    "old_string",
    "new_string",
    "replace_all",
    "old_str",
    "new_str",
    "oldText",
    "newText",
    "oldString",
    "newString",
    "replaceAll",
];

/// The tool and where it may work.
pub struct EditFile(pub Arc<Workspace>);

impl Tool for EditFile {
    fn name(&self) -> &str {
        NAME
    }

    fn description(&self) -> Value {
        json!({
            "name": NAME,
            "title": "Edit a file",
            "description": DESCRIPTION,
            "inputSchema": {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file: an absolute path, or one below the project's folder."},
                    "code_edit": {"type": "string", "description": "The changed lines with two unchanged lines of the file above and below each change, and `// ... existing code ...` (in the comment style of the language) for what stays as it is; or all of a new file."},
                    "edits": {
                        "type": "array",
                        "description": "Instead of code_edit: strings to replace, one after the other.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "old_string": {"type": "string"},
                                "new_string": {"type": "string"},
                                "replace_all": {"type": "boolean"},
                            },
                            "required": ["old_string", "new_string"],
                            "additionalProperties": false,
                        },
                    },
                    "instruction": {"type": "string", "description": "One sentence that says what the edit does."},
                    "format": {"type": "string", "enum": Format::ALL.map(Format::name), "description": "What code_edit is written in, if it could be taken for another: lazy is a snippet with markers."},
                    "encoding": encoding_schema(),
                    "dry_run": {"type": "boolean", "description": "Only try, and write nothing."},
                    "expected": {"type": "string", "description": "The file that the edit was made for, as sha256:HEX or mtime:SECONDS; one that was changed since is refused."},
                },
                "required": ["path"],
                "additionalProperties": false,
            },
            "outputSchema": output_schema(),
            "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false},
        })
    }

    fn call(&self, arguments: &Value, cancelled: &dyn Fn() -> bool) -> Result<ToolResult, String> {
        only(arguments, &ARGUMENTS)?;
        let format = text(arguments, "format")?.map(|name| {
            let known = || Format::ALL.map(Format::name).join(", ");
            Format::from_name(name).ok_or_else(|| format!("`format` must be one of {}", known()))
        });
        let path = needed(arguments, "path")?;
        let (update, format) = match (text(arguments, "code_edit")?, &arguments["edits"]) {
            (Some(update), Value::Null) => (Cow::Borrowed(update), format.transpose()?),
            (Some(_), _) => return Err("give `code_edit` or `edits`, and not both".to_owned()),
            (None, Value::Array(_)) if format.is_some_and(|format| format != Ok(Format::StringReplace)) => {
                return Err(
                    "`format` says what `code_edit` is written in, and `edits` are strings to replace".to_owned()
                );
            }
            (None, Value::Array(edits)) => {
                edits.iter().try_for_each(|edit| only(edit, &EDIT_FIELDS)).map_err(|what| format!("edits: {what}"))?;
                (Cow::Owned(json!({ "edits": edits }).to_string()), Some(Format::StringReplace))
            }
            (None, Value::Null) => return Err("`code_edit` is missing".to_owned()),
            (None, _) => return Err("`edits` must be a list".to_owned()),
        };
        let request = Request {
            path,
            update: &update,
            instruction: text(arguments, "instruction")?,
            format,
            encoding: encoding(arguments)?,
            dry_run: flag(arguments, "dry_run")?,
            expected: expected(arguments)?,
        };
        Ok(self.0.edit(&request, cancelled))
    }
}

/// Checks that there are no other arguments than these.
pub fn only(arguments: &Value, known: &[&str]) -> Result<(), String> {
    // One that is null is not there.
    let given = arguments.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    match given.map(|(name, _)| name).find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let shown: String = name.chars().take(80).collect();
            Err(format!("there is no argument `{shown}`; there are {}", known.join(", ")))
        }
    }
}

/// An argument that is a text.
pub fn text<'a>(arguments: &'a Value, name: &str) -> Result<Option<&'a str>, String> {
    match &arguments[name] {
        Value::String(text) => Ok(Some(text.as_str())),
        Value::Null => Ok(None),
        _ => Err(format!("`{name}` must be a string")),
    }
}

/// The same, where it may not be left out.
pub fn needed<'a>(arguments: &'a Value, name: &str) -> Result<&'a str, String> {
    text(arguments, name)?.ok_or_else(|| format!("`{name}` is missing"))
}

/// An argument that is true or false, or not there.
pub fn flag(arguments: &Value, name: &str) -> Result<bool, String> {
    match &arguments[name] {
        Value::Bool(value) => Ok(*value),
        Value::Null => Ok(false),
        _ => Err(format!("`{name}` must be true or false")),
    }
}

/// The encoding of the file.
pub fn encoding(arguments: &Value) -> Result<Option<Encoding>, String> {
    let known = |name| Encoding::from_name(name).ok_or_else(|| format!("`encoding` must be one of {}", encodings()));
    text(arguments, "encoding")?.map(known).transpose()
}

/// What is said of that argument.
pub fn encoding_schema() -> Value {
    let what = "The file's encoding, if it is not UTF-8; else new text in such a file must be ASCII.";
    json!({"type": "string", "enum": Encoding::NAMED.map(|(name, _)| name), "description": what})
}

/// The file that an edit was made for.
pub fn expected(arguments: &Value) -> Result<Option<Expected>, String> {
    let read = |text| Expected::read(text).map_err(|what| format!("`expected`: {what}"));
    text(arguments, "expected")?.map(read).transpose()
}

const DESCRIPTION: &str = "\
Edits a file, or creates one. Give only the lines that change, with two unchanged lines of the file before and after each change, and \
write `// ... existing code ...` (in the comment style of the language) for every part that stays as it is. Put all changes of a \
file into one call. To delete lines, show the two lines before and the line after them next to each other, with no marker between. \
SEARCH/REPLACE blocks, unified diffs and V4A patches of one file, and lists of strings to replace (`edits`) are taken as well. To \
create a file, give all of its text. The edit is merged or refused: a refusal names the lines in question and what to add to the \
edit, and leaves the file as it was. The answer is the diff of what changed; read it.";
