//! An update that is the whole file.
//!
//! A text that leaves parts out is refused. Invariant: the file becomes the update, and lines that both have are not touched.

use super::Located;
use super::change::splices;
use super::find::Shift;
use super::lines::{core, lines_of};
use super::similar::quoted;
use crate::lazy;
use crate::options::Options;
use crate::outcome::{Code, Refused, Stage};
use crate::source::Source;
use std::collections::BTreeSet;
use std::ops::Range;

/// From this many lost declarations on, the update may be an excerpt: fewer are an ordinary edit.
const MIN_LOST: usize = 3;
/// Lost declarations that a refusal lists.
const MAX_LISTED: usize = 20;

/// Makes the file the update.
pub(super) fn locate(source: &Source, update: &str, _options: &Options) -> Result<Located, Refused> {
    let new = lines_of(update);
    let old: Vec<&str> = source.lines().collect();
    let above = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let below = old[above..].iter().rev().zip(new[above..].iter().rev()).take_while(|(old, new)| old == new).count();
    refuse_markers(&old, above, &new[above..new.len() - below])?;
    refuse_losses(&old, above..old.len() - below, &new)?;
    let splices = splices(source, 0, &old, &new, &Shift::default(), "the update")?;
    Ok(Located { splices, stage: Stage::Whole, reindented: false, evidence: None })
}

/// Refuses markers that are no lines of the file: they stand for lines left out.
fn refuse_markers(old: &[&str], first: usize, new: &[&str]) -> Result<(), Refused> {
    let mut known: Option<BTreeSet<&str>> = None;
    for (at, line) in new.iter().enumerate() {
        if lazy::has_marker(line)
            && !known.get_or_insert_with(|| old.iter().map(|line| core(line)).collect()).contains(core(line))
        {
            let message =
                format!("line {} of the update stands for lines that are left out: {}", first + at + 1, quoted(line));
            return Err(Refused::new(
                Code::MarkerUnresolved,
                message,
                "write the whole file, or only the lines around each change",
            ));
        }
    }
    Ok(())
}

/// A file that loses most of what it declares was cut off rather than edited.
fn refuse_losses(old: &[&str], differ: Range<usize>, new: &[&str]) -> Result<(), Refused> {
    // Only declarations in lines that differ can be lost.
    if old[differ].iter().filter_map(|line| declared(line)).take(MIN_LOST).count() < MIN_LOST {
        return Ok(());
    }
    let kept: BTreeSet<&str> = new.iter().filter_map(|line| declared(line)).collect();
    let declared: Vec<(usize, &str)> =
        old.iter().enumerate().filter_map(|(at, line)| Some((at, declared(line)?))).collect();
    let lost: Vec<(usize, &str)> = declared.iter().copied().filter(|(_, name)| !kept.contains(name)).collect();
    if lost.len() < MIN_LOST || lost.len() * 2 <= declared.len() {
        return Ok(());
    }
    let message = format!(
        "as a whole file the update would lose {} of {} declarations, {} at line {} the first of them",
        lost.len(),
        declared.len(),
        quoted(lost[0].1),
        lost[0].0 + 1
    );
    let hint = "write only the lines around each change with a marker such as `... existing code ...` for the rest";
    Err(Refused::new(Code::AmbiguousDeletion, message, hint).at(lost.iter().take(MAX_LISTED).map(|&(at, _)| (at, at))))
}

/// The name that a line looks as if it declared.
fn declared(line: &str) -> Option<&str> {
    const BEFORE: [&str; 18] = [
        "pub",
        "export",
        "default",
        "public",
        "private",
        "protected",
        "internal",
        "static",
        "final",
        "abstract",
        "async",
        "unsafe",
        "extern",
        "inline",
        "override",
        "virtual",
        "sealed",
        "partial",
    ];
    const KINDS: [&str; 22] = [
        "fn",
        "def",
        "class",
        "function",
        "func",
        "struct",
        "enum",
        "interface",
        "impl",
        "type",
        "trait",
        "module",
        "mod",
        "namespace",
        "sub",
        "proc",
        "const",
        "macro_rules!",
        "record",
        "object",
        "protocol",
        "union",
    ];
    let is_name = |it: char| it.is_alphanumeric() || it == '_' || it == '$';
    let mut rest = core(line);
    loop {
        let (word, after) = rest.split_once([' ', '\t'])?;
        let word = word.split_once('(').map_or(word, |(word, _)| word);
        if KINDS.contains(&word) {
            // The receiver of a method in Go is no name.
            let receiver =
                after.trim_start().strip_prefix('(').filter(|_| word == "func").and_then(|it| it.split_once(')'));
            let after = receiver.map_or(after, |(_, after)| after);
            let name = after.trim_start_matches(|it: char| !is_name(it));
            let name = &name[..name.find(|it: char| !is_name(it)).unwrap_or(name.len())];
            return (!name.is_empty() && !BEFORE.contains(&name)).then_some(name);
        }
        if !BEFORE.contains(&word) {
            return None;
        }
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests;
