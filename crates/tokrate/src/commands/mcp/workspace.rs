//! Files of the roots as the tools edit them: looked at, merged, written whole or not at all.
//!
//! Invariant: a file is never written when the edit was refused, was only tried, or was made for another state of the file.

use crate::commands::apply::confine::Roots;
use crate::commands::apply::expect::Expected;
use crate::commands::apply::file::{diff, git_name};
use crate::commands::apply::place::{MadeFolders, Place};
use crate::commands::apply::replace::{Staged, all_or_none, replace};
use crate::commands::apply::{Merger, read_place};
use crate::out::apply::{Refusal, edits_named};
use crate::out::os_error::in_words;
use anyhow::Context;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokrate_apply::{Encoding, Format, Merged, Options, ViewedLine, view};
use tokrate_apply_host::mcp::ToolResult;
use tokrate_apply_host::{MergeResult, MergedBy, sha256, unified_diff};

/// The folders that are open, and what merges.
pub struct Workspace {
    pub roots: Roots,
    pub merger: Merger,
}

/// An edit that is asked for.
pub struct Request<'a> {
    pub path: &'a str,
    pub update: &'a str,
    pub instruction: Option<&'a str>,
    pub format: Option<Format>,
    pub encoding: Option<Encoding>,
    /// Only tried, and nothing written.
    pub dry_run: bool,
    /// The file that the edit was made for.
    pub expected: Option<Expected>,
}

/// Where an edit goes.
enum Target {
    There(Place, Vec<u8>),
    New(PathBuf),
}

/// Why nothing was changed, and the file that it is about.
struct Refused(Box<Refusal>, Vec<u8>);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused(Box::new(refusal), Vec::new())
    }
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Refused {
        let hint = "see whether the file can be read and written";
        Refusal::new("not_written", format!("failed to {:#}", in_words(error)), hint).into()
    }
}

impl Workspace {
    /// Carries an edit out.
    pub fn edit(&self, request: &Request<'_>, cancelled: &dyn Fn() -> bool) -> ToolResult {
        self.try_edit(request, cancelled).unwrap_or_else(|Refused(refusal, original)| {
            let text = format!("{}: {}the file was not changed\n", request.path, refusal.text(&original));
            let structured = refused(request.path, &refusal, &text);
            ToolResult { text, word: "refused", is_error: true, structured }
        })
    }

    /// The lines of a file of the roots.
    pub fn lines(&self, path: &str, encoding: Option<Encoding>) -> Result<Vec<ViewedLine>, ToolResult> {
        let read = || -> Result<Vec<ViewedLine>, Refused> {
            let (bytes, _) = read_place(&self.roots.existing(path)?)??;
            Ok(view(&bytes, encoding).map_err(|refused| Refusal::of(refused, None))?)
        };
        read().map_err(|Refused(refusal, _)| ToolResult {
            text: format!("{path}: {}", refusal.text(b"")),
            word: "refused",
            is_error: true,
            structured: Value::Null,
        })
    }

    fn try_edit(&self, request: &Request<'_>, cancelled: &dyn Fn() -> bool) -> Result<ToolResult, Refused> {
        let target = self.target(request)?;
        let original = match &target {
            Target::There(_, bytes) => bytes.as_slice(),
            Target::New(_) => &[],
        };
        let options = Options {
            path: Some(request.path.to_owned()),
            instruction: request.instruction.map(str::to_owned),
            format: request.format,
            encoding: request.encoding,
            ..Options::default()
        };
        let (merged, by) = match self.merger.settle(original, request.update.as_bytes(), options) {
            MergeResult::Merged { merged, by } => (merged, by),
            MergeResult::Refused { refused, fallback } => {
                let refusal = Refusal::of(refused, fallback);
                return Err(match target {
                    Target::There(_, bytes) => Refused(Box::new(refusal), bytes),
                    Target::New(_) => {
                        let message =
                            format!("there is no file {}, and the edit makes none: {}", request.path, refusal.message);
                        let hint = "check the path; to create a file, give all of its text";
                        Refusal {
                            message,
                            hint: hint.to_owned(),
                            code: "no_such_file",
                            candidates: Vec::new(),
                            ..refusal
                        }
                        .into()
                    }
                });
            }
        };
        if cancelled() {
            return Err(Refusal::new("cancelled", "the request was cancelled before anything was written", "").into());
        }
        let bytes = merged.bytes();
        let note = if request.dry_run { None } else { self.write(&target, &bytes)? };
        Ok(report(request, &target, &merged, by, note))
    }

    fn target(&self, request: &Request<'_>) -> Result<Target, Refused> {
        let place = match self.roots.existing(request.path) {
            Err(refusal) if refusal.code == "no_such_file" && !request.path.is_empty() => {
                if request.expected.is_some() {
                    return Err(refusal.into());
                }
                return Ok(Target::New(self.roots.vacant_anywhere(request.path)?));
            }
            place => place?,
        };
        let (original, attributes) = read_place(&place)??;
        if let Some(expected) = &request.expected {
            expected.check(&original, attributes.metadata())?;
        }
        Ok(Target::There(place, original))
    }

    /// Writes the bytes; gives what is to be said of the file.
    fn write(&self, target: &Target, bytes: &[u8]) -> anyhow::Result<Option<String>> {
        match target {
            Target::There(_, original) if original == bytes => Ok(None),
            Target::There(place, original) => replace(place.clone(), original, bytes),
            Target::New(path) => {
                let mut made = MadeFolders::default();
                let (root, rest) = self.roots.split(path);
                let place = Place::below_made(root, rest, &mut made);
                let place = place.with_context(|| format!("make the folder of {}", path.display()))?;
                Ok(all_or_none(vec![Staged::create(place, bytes, None)?])?.pop())
            }
        }
    }
}

fn refused(path: &str, refusal: &Refusal, text: &str) -> Value {
    // Some clients show a model nothing but this, so that the lines in question are in it as well.
    let mut value = json!({"status": "refused", "path": path, "text": text});
    let fields = serde_json::to_value(refusal).expect("strings and numbers are always JSON");
    if let (Some(value), Value::Object(fields)) = (value.as_object_mut(), fields) {
        value.extend(fields);
    }
    value
}

fn report(request: &Request<'_>, target: &Target, merged: &Merged, by: MergedBy, note: Option<String>) -> ToolResult {
    let path = request.path;
    let (diff, status) = match target {
        Target::New(_) => {
            (unified_diff("", &merged.text, "/dev/null", &format!("b/{}", git_name(Path::new(path)))), "created")
        }
        Target::There(..) if merged.is_unchanged() => (String::new(), "no_change"),
        Target::There(_, original) => (diff(Path::new(path), original, merged), "merged"),
    };
    let mut text = match (status, target) {
        ("no_change", _) => format!("{path}: {}; the file already is as the edit wants it\n", edits_named(&[])),
        ("created", Target::New(_)) if diff.is_empty() => format!("{path}: made, and empty\n"),
        _ => diff.clone(),
    };
    if by == MergedBy::Model && status == "merged" {
        text.push_str("(merged by the fallback model and checked)\n");
    }
    if let Some(note) = &note {
        text.push_str(&format!("({note})\n"));
    }
    if request.dry_run {
        text.push_str("(only tried: nothing was written)\n");
    }
    let mut structured = json!({
        "status": status,
        "path": path,
        "by": by.name(),
        "diff": diff,
        "sha256": sha256(&merged.bytes()),
    });
    if request.dry_run {
        structured["dry_run"] = true.into();
    }
    if let Some(note) = note {
        structured["note"] = note.into();
    }
    let word = if status == "no_change" { status } else { by.name() };
    ToolResult { text, word, is_error: false, structured }
}

/// The schema of what [`Workspace::edit`] answers to programs.
pub fn output_schema() -> Value {
    let line_pair = json!({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2});
    json!({
        "type": "object",
        "properties": {
            "status": {"type": "string", "enum": ["merged", "created", "no_change", "refused"]},
            "path": {"type": "string"},
            "by": {"type": "string", "enum": ["deterministic", "model"]},
            "dry_run": {"type": "boolean", "description": "Whether it was only tried and nothing was written."},
            "diff": {"type": "string", "description": "What changed, as a unified diff."},
            "text": {"type": "string", "description": "A refusal in full, with the lines in question."},
            "sha256": {"type": "string", "description": "The file's hash after the edit, for `expected` of the next one."},
            "note": {"type": "string"},
            "code": {"type": "string", "description": "The kind of refusal."},
            "message": {"type": "string", "description": "What is wrong."},
            "candidates": {"type": "array", "items": line_pair, "description": "Lines in question, counted from 1."},
            "hint": {"type": "string", "description": "What to do about it."},
            "fallback": {"type": "string"},
        },
        "required": ["status", "path"],
    })
}
