//! Checks a file that a model has merged: all checks of an own merge.
//!
//! Invariant: the model's file is the parts of the update, in order, with contiguous pieces of the original between them.

use crate::format::{self, Update};
use crate::lazy;
use crate::options::Options;
use crate::outcome::{Check, Checks, Code, Format, How, Merged, Refused, Stage};
use crate::source::{Source, as_text, edits};
use crate::splice::Splice;
use crate::verify;
use imara_diff::{Algorithm, Diff, InternedInput};

const HINT: &str = "show more of the lines around the change, so that no model is needed";

/// Accepts a whole file that a model made of an original and a snippet or whole file, by the checks of [`crate::merge`].
///
/// # Errors
/// What is wrong with the model's file, or that the update says itself which lines it replaces, so that no model can add to it.
pub fn accept(original: &[u8], update: &[u8], merged: &str, options: &Options) -> Result<Merged, Refused> {
    if options.format == Some(Format::WholeFile) {
        let message = "the update is stated to be all of the file, and a model cannot add to it";
        return Err(Refused::new(Code::InvalidFormat, message, "correct the file"));
    }
    let mut source = Source::read_as(original, options.encoding)?;
    let Update { text: update, format } = format::read(&mut source, update, options)?;
    if !format.is_text() {
        let message = "an edit of this format names the lines that it replaces, and a model cannot name others";
        return Err(Refused::new(Code::InvalidFormat, message, "correct the edit, or write it as a snippet"));
    }
    let update = lazy::resolved(&source, &update)?;
    let given = as_text(merged.as_bytes(), "the model's file")?;
    let given = given.strip_prefix('\u{feff}').unwrap_or(given).replace("\r\n", "\n");
    let splices = differences(&source, &given);
    if splices.is_empty() {
        return Err(Refused::new(Code::NotAnEdit, "the model's file is the original", HINT));
    }
    source.check_signs(&splices)?;
    let text = source.with(&splices);
    let checks = verify::verify(&source, &splices, &text, &update, format, options, &mut |_| None)?;
    let idempotence = Check::Skipped("a model's file is not merged again");
    Ok(Merged {
        text,
        encoding: source.encoding(),
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

#[cfg(all(test, feature = "rust"))]
mod tests;
