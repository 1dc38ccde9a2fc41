//! The tool `edit_file`: an edit merged into a file of the roots.
//!
//! Invariant: a file is written whole or not at all, and never when the edit was refused.

use crate::commands::apply::confine::Roots;
use crate::commands::apply::file::diff;
use crate::commands::apply::replace::replace;
use crate::commands::apply::{Merger, read_place};
use crate::out::apply::{Refusal, edits_named};
use serde_json::{Value, json};
use std::path::Path;
use tokrate_apply::{Format, Merged, Options};
use tokrate_apply_host::mcp::{Tool, ToolResult};
use tokrate_apply_host::{MergeResult, MergedBy};

/// The tool's name.
const NAME: &str = "edit_file";

/// The tool and where it may work.
pub struct EditFile {
    pub roots: Roots,
    pub merger: Merger,
}

/// Arguments of a call.
struct Arguments<'a> {
    path: &'a str,
    code_edit: &'a str,
    instruction: Option<&'a str>,
    format: Option<Format>,
}

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
                    "code_edit": {"type": "string", "description": "The changed lines with a line or two of the file around each, and `// ... existing code ...` (in the comment style of the language) for what stays as it is."},
                    "instruction": {"type": "string", "description": "One sentence that says what the edit does."},
                    "format": {"type": "string", "enum": Format::ALL.map(Format::name), "description": "What code_edit is written in, if it could be taken for another: lazy is a snippet with markers."},
                },
                "required": ["path", "code_edit", "instruction"],
            },
            "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false},
        })
    }

    fn call(&self, arguments: &Value, cancelled: &dyn Fn() -> bool) -> Result<ToolResult, String> {
        let arguments = Arguments::read(arguments)?;
        Ok(match self.edit(&arguments, cancelled) {
            Ok(called) => called,
            Err(why) => ToolResult {
                text: format!("{}: {why}the file was not changed\n", arguments.path),
                word: "refused",
                is_error: true,
            },
        })
    }
}

impl EditFile {
    /// Edits; an error is the reason in a few lines.
    fn edit(&self, arguments: &Arguments<'_>, cancelled: &dyn Fn() -> bool) -> Result<ToolResult, String> {
        let bare = |refusal: Refusal| refusal.text(b"");
        let failed = |error: anyhow::Error| {
            bare(Refusal::new(
                "not_written",
                format!("failed to {error:#}"),
                "see whether the file can be read and written",
            ))
        };
        let place = self.roots.existing(arguments.path).map_err(bare)?;
        let real = place.path().to_path_buf();
        let (original, _) = read_place(&place).map_err(failed)?.map_err(bare)?;
        let options = Options {
            path: Some(arguments.path.to_owned()),
            instruction: arguments.instruction.map(str::to_owned),
            format: arguments.format,
            ..Options::default()
        };
        match self.merger.settle(&original, arguments.code_edit.as_bytes(), options) {
            MergeResult::Refused { refused, fallback } => Err(Refusal::of(refused, fallback).text(&original)),
            MergeResult::Merged { .. } if cancelled() => {
                Err(bare(Refusal::new("cancelled", "the request was cancelled before anything was written", "")))
            }
            MergeResult::Merged { merged, by } => {
                let bytes = merged.bytes();
                if *bytes != *original {
                    replace(place, &original, &bytes).map_err(failed)?;
                }
                Ok(ToolResult {
                    text: result_text(&real, arguments.path, &original, &merged, by),
                    word: if merged.is_unchanged() { "no_change" } else { by.name() },
                    is_error: false,
                })
            }
        }
    }
}

/// The diff, or that there is none.
fn result_text(real: &Path, path: &str, original: &[u8], merged: &Merged, by: MergedBy) -> String {
    let diff = diff(Path::new(path), original, merged);
    match (diff.is_empty(), by) {
        (true, _) => format!("{}: {}; the file already is as the edit wants it\n", real.display(), edits_named(&[])),
        (false, MergedBy::Deterministic) => diff,
        (false, MergedBy::Model) => format!("{diff}(merged by the fallback model and checked)\n"),
    }
}

impl<'a> Arguments<'a> {
    fn read(arguments: &'a Value) -> Result<Arguments<'a>, String> {
        let text = |name: &str| match &arguments[name] {
            Value::String(text) => Ok(Some(text.as_str())),
            Value::Null => Ok(None),
            _ => Err(format!("`{name}` must be a string")),
        };
        let needed = |name: &str| text(name)?.ok_or_else(|| format!("`{name}` is missing"));
        let known = || Format::ALL.map(Format::name).join(", ");
        let format = text("format")?
            .map(|name| Format::from_name(name).ok_or_else(|| format!("`format` must be one of {}", known())));
        let (path, code_edit) = (needed("path")?, needed("code_edit")?);
        Ok(Arguments { path, code_edit, instruction: text("instruction")?, format: format.transpose()? })
    }
}

const DESCRIPTION: &str = "\
Edits a file. Give only the lines that change, with one or two lines of the file before and after each change, and write \
`// ... existing code ...` (in the comment style of the language) for every part that stays as it is. Put all changes of a file \
into one call. To delete lines, show the line before and the line after them next to each other, with no marker between. \
SEARCH/REPLACE blocks and unified diffs are taken as well. The edit is merged exactly or refused, never guessed: a refusal \
names the lines in question and what to add to the edit, and leaves the file as it was. The answer is the diff of what changed.";
