//! Checks a file that a model has merged: all checks of an own merge, and more.
//!
//! Invariant: outside of the declarations that the update shows, the file keeps its bytes,
//! and what cannot be checked is not accepted.

use crate::format;
use crate::lazy::{is_distinctive, is_marker, removed};
use crate::merge::lines_of;
use crate::options::Options;
use crate::outcome::Format;
use crate::outcome::{Check, Checks, Code, How, Merged, Refused, Stage};
use crate::source::{Source, as_text, edits};
use crate::splice::Splice;
use crate::verify;
use imara_diff::{Algorithm, Diff, InternedInput};
use std::collections::BTreeSet;

const HINT: &str = "show more of the lines around the change, so that no model is needed";

/// Accepts a whole file that a model made of an original and an update. Beside the checks of [`crate::merge`], each of which
/// must have been made, every new line must be one of the update, whatever its indentation; every new line of a snippet must
/// have arrived; and lines go or come only inside of declarations that the update shows a line of, or between declarations.
///
/// # Errors
/// What is wrong with the model's file, or why it cannot be checked.
pub fn accept(original: &[u8], update: &[u8], merged: &str, options: &Options) -> Result<Merged, Refused> {
    let source = Source::read(original)?;
    let update = lines_of(update)?;
    let format = format::detect(&source, &update);
    let given = as_text(merged.as_bytes(), "the model's file")?;
    let given = given.strip_prefix('\u{feff}').unwrap_or(given).replace("\r\n", "\n");
    let splices = differences(&source, &given);
    if splices.is_empty() {
        return Err(Refused::new(Code::NotAnEdit, "the model's file is the original", HINT));
    }
    let shown = Shown::of(&update, format);
    shown.check(&source, &splices, &given)?;
    let text = source.with(&splices);
    let checks = verify::verify(&source, &splices, &text, &update, options, &mut |_| None)?;
    if let Check::Skipped(why) = checks.parse {
        let message = format!("the model's file cannot be checked: {why}");
        return Err(Refused::new(Code::SyntaxRegression, message, HINT));
    }
    verify::check_confined(&source, &splices, options, |line| shown.has(line))?;
    let idempotence = Check::Skipped("a model's file is not merged again");
    Ok(Merged {
        text,
        edits: edits(&source, &splices),
        how: How { format, stage: Stage::Given, reindented: false },
        checks: Checks { idempotence, ..checks },
    })
}

/// The lines that differ, as changes of the source.
fn differences(source: &Source, given: &str) -> Vec<Splice> {
    let mut given = given.to_owned();
    if !given.ends_with('\n') {
        given.push('\n');
    }
    let input = InternedInput::new(&*source.text, &*given);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let splice = |hunk: imara_diff::Hunk| {
        let new = &input.after[hunk.after.start as usize..hunk.after.end as usize];
        Splice {
            old: source.bytes_of(hunk.before.start as usize..hunk.before.end as usize),
            new: new.iter().map(|&token| input.interner[token]).collect(),
        }
    };
    diff.hunks().map(splice).collect()
}

/// The lines of an update, without their indentation.
struct Shown<'u> {
    lines: BTreeSet<&'u str>,
    /// Strings of an update that is JSON.
    unescaped: BTreeSet<String>,
    /// Lines that the result must hold.
    wanted: Vec<&'u str>,
}

impl<'u> Shown<'u> {
    fn of(update: &'u str, format: Format) -> Shown<'u> {
        let plain = update.lines().map(str::trim);
        let lines = match format {
            // The first character is the kind of the line.
            Format::UnifiedDiff | Format::V4a => {
                plain.chain(update.lines().filter_map(|line| line.get(1..)).map(str::trim)).collect()
            }
            _ => plain.collect(),
        };
        let mut unescaped = BTreeSet::new();
        if format == Format::StringReplace {
            serde_json::from_str(update).iter().for_each(|value| collect(value, &mut unescaped));
        }
        let is_snippet = matches!(format, Format::Lazy | Format::Fragment | Format::WholeFile);
        let wanted = update
            .lines()
            .filter(|line| is_snippet && !is_marker(line) && removed(line).is_none())
            .map(str::trim)
            .collect();
        Shown { lines, unescaped, wanted }
    }

    /// Whether the update shows a line, whatever its indentation.
    fn has(&self, line: &str) -> bool {
        let line = line.trim();
        is_distinctive(line) && (self.lines.contains(line) || self.unescaped.contains(line))
    }

    /// Passes when new lines are the update's and the update's lines are there.
    fn check(&self, source: &Source, splices: &[Splice], given: &str) -> Result<(), Refused> {
        for splice in splices {
            let at = source.line_of(splice.old.start).min(source.line_count().saturating_sub(1));
            let known = |line: &str| self.lines.contains(line) || self.unescaped.contains(line);
            if let Some(line) = splice.new.lines().map(str::trim).find(|line| !line.is_empty() && !known(line)) {
                let message =
                    format!("the model wrote `{}`, which is neither in the file nor in the update", short(line));
                return Err(Refused::new(Code::MarkerUnresolved, message, HINT).at([(at, at)]));
            }
        }
        let there: BTreeSet<&str> = given.lines().map(str::trim).collect();
        match self.wanted.iter().find(|line| !there.contains(*line)) {
            None => Ok(()),
            Some(line) => {
                let message = format!("the model left out `{}` of the update", short(line));
                Err(Refused::new(Code::MarkerUnresolved, message, HINT))
            }
        }
    }
}

/// The lines of all strings in a JSON value.
fn collect(value: &serde_json::Value, into: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::String(text) => into.extend(text.lines().map(|line| line.trim().to_owned())),
        serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
        serde_json::Value::Object(fields) => fields.values().for_each(|value| collect(value, into)),
        _ => {}
    }
}

fn short(line: &str) -> String {
    line.chars().take(80).collect()
}

#[cfg(all(test, feature = "rust"))]
mod tests;
