//! One update and one file: the merged text printed, written into the file, shown as a diff, or only tried.
//!
//! Nothing is written when the edit was refused. Invariant: standard output carries the result and nothing
//! else.

use super::confine::named_by_hand;
use super::expect::Expected;
use super::place::Place;
use super::{Merger, print, print_bytes, read_file, read_named, replace};
use crate::commands::Verdict;
use crate::config::apply::{encoding, format, language};
use crate::flags::apply::Flags;
use crate::out::apply::{MergeReport, Refusal, edits_named};
use anyhow::{Context, Result, anyhow, bail};
use std::io::{IsTerminal, stdin};
use std::path::Path;
use tokrate_apply::{Encoding, Merged, Options};
use tokrate_apply_host::{MergeResult, MergedBy, unified_diff};

/// Merges.
pub fn run(flags: &Flags, path: &Path, merger: &Merger) -> Result<Verdict> {
    let language = language(flags.language.as_deref())?;
    if flags.in_place
        && let Err(refusal) = named_by_hand(path)?
    {
        return refused(flags, path, &refusal, b"");
    }
    let original = match read_file(path)? {
        Ok(original) => original,
        Err(refusal) => return refused(flags, path, &refusal, b""),
    };
    if let Some(expected) = &flags.expect {
        let expected = Expected::read(expected).map_err(|what| anyhow!("read --expect: {what}"))?;
        let metadata = path.metadata().with_context(|| format!("read {}", path.display()))?;
        if let Err(refusal) = expected.check(&original, &metadata) {
            return refused(flags, path, &refusal, &original);
        }
    }
    let update = flags.update.as_deref().unwrap_or(Path::new("-"));
    if update == Path::new("-") && stdin().is_terminal() {
        bail!("read the update: name its file with --update, or give it on standard input");
    }
    let update = read_named("--update", update)?;
    let options = Options {
        path: Some(path.to_string_lossy().into_owned()),
        language,
        format: format(flags.format.as_deref())?,
        encoding: encoding(flags.encoding.as_deref())?,
        instruction: flags.instruction.clone(),
        ..Options::default()
    };
    match merger.settle(&original, &update, options) {
        MergeResult::Refused { refused: why, fallback } => refused(flags, path, &Refusal::of(why, fallback), &original),
        MergeResult::Merged { merged, by } => {
            deliver(flags, path, &original, &merged, by)?;
            if merged.is_unchanged() && !flags.json {
                anstream::eprintln!("{}: no change: the file already is as the update wants it", path.display());
            } else if merger.fallback.is_some() && !flags.json {
                anstream::eprintln!("{}: merged ({})", path.display(), by.name());
            }
            Ok(Verdict::Good)
        }
    }
}

fn deliver(flags: &Flags, path: &Path, original: &[u8], merged: &Merged, by: MergedBy) -> Result<()> {
    let bytes = merged.bytes();
    let changed = *bytes != *original;
    if flags.in_place && changed {
        // Looked at again: a model may have had its time.
        let real = named_by_hand(path)?.map_err(|refusal| anyhow!("write {}: {}", path.display(), refusal.message))?;
        let place = Place::of(&real).with_context(|| format!("open the folder of {}", path.display()))?;
        if let Some(note) = replace::replace(place, original, &bytes)? {
            anstream::eprintln!("{}: {note}", path.display());
        }
    }
    // A program that has a file edited gets what changed, as no one else can tell it afterwards.
    let diff = (flags.diff || flags.json && flags.in_place).then(|| diff(path, original, merged));
    if flags.json {
        let mut report = MergeReport::merged(merged, by);
        if let MergeReport::Merged { output, diff: shown, .. } = &mut report {
            *output = (!flags.diff && !flags.check && !flags.in_place).then_some(merged.text.as_str());
            *shown = diff.as_deref();
        }
        return print(&report.line());
    }
    match diff {
        Some(diff) => print_bytes(&merged.encoding.encode(&diff)),
        None if flags.check => print(&format!("{}: would merge, {}\n", path.display(), edits_named(&merged.edits))),
        None if flags.in_place => {
            anstream::eprintln!("{}: merged, {}", path.display(), edits_named(&merged.edits));
            Ok(())
        }
        None => print_bytes(&bytes),
    }
}

fn refused(flags: &Flags, path: &Path, refusal: &Refusal, original: &[u8]) -> Result<Verdict> {
    match flags.json {
        true => print(&MergeReport::refused(refusal).line())?,
        false => anstream::eprint!("{}: {}", path.display(), refusal.text(original)),
    }
    Ok(Verdict::BelowBar)
}

/// What changed in a file, as git writes it.
pub fn diff(path: &Path, original: &[u8], merged: &Merged) -> String {
    let name = git_name(path);
    unified_diff(&merged.encoding.text(original), &merged.text, &format!("a/{name}"), &format!("b/{name}"))
}

/// The same of bytes, in the encoding of the files.
pub fn byte_diff(original: &[u8], new: &[u8], old_name: &str, new_name: &str) -> Vec<u8> {
    let ((old, one), (new, other)) = (Encoding::decode(original), Encoding::decode(new));
    let encoding = if one == Encoding::Utf8 { other } else { one };
    encoding.encode(&unified_diff(&old, &new, old_name, new_name)).into_owned()
}

/// A path as git writes it behind `a/`.
pub fn git_name(path: &Path) -> String {
    let name = path.to_string_lossy();
    name.trim_start_matches("./").trim_start_matches('/').to_owned()
}
