//! What came of a merge, for people: a summary, a diff, or a refusal with the lines in question.
//!
//! It refuses to soften a refusal. Invariant: nothing that a file holds reaches the terminal as a control sequence.

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use std::fmt::Write;
use std::path::Path;
use tokrate_apply::{Merged, Refused};

/// Lines of a candidate that are shown.
const SHOWN: usize = 3;

/// What changed, in one line.
pub fn summary(file: &Path, merged: &Merged) -> String {
    let (added, gone) = merged.edits.iter().fold((0, 0), |sum, edit| (sum.0 + edit.new_count, sum.1 + edit.old_count));
    match merged.edits.len() {
        0 => format!("{}: already as the update wants it", file.display()),
        1 => format!("{}: 1 edit, {added} lines in place of {gone}", file.display()),
        edits => format!("{}: {edits} edits, {added} lines in place of {gone}", file.display()),
    }
}

/// What changed, as a unified diff.
pub fn unified(file: &Path, before: &str, after: &str) -> String {
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let printer = BasicLineDiffPrinter(&input.interner);
    let hunks = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input).to_string();
    if hunks.is_empty() {
        return hunks;
    }
    format!("--- a/{0}\n+++ b/{0}\n{hunks}", file.display())
}

/// Why there is no merge, where, and what to do.
pub fn refusal(file: &Path, original: &[u8], refused: &Refused) -> String {
    let mut text = format!("tokrate: refused ({}): {}\n", refused.code.name(), plain(&refused.message));
    let original = String::from_utf8_lossy(original);
    let lines: Vec<&str> = original.lines().collect();
    for &(first, last) in &refused.candidates {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {}:{first}", file.display());
        for number in (first..=last).take(SHOWN) {
            let _ = writeln!(text, "    {number} | {}", plain(lines.get(number - 1).copied().unwrap_or_default()));
        }
    }
    if !refused.hint.is_empty() {
        let _ = writeln!(text, "  {}", plain(&refused.hint));
    }
    text
}

/// Text without control characters.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}
