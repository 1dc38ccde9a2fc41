//! A patch of several files (V4A, a unified diff, SEARCH/REPLACE blocks): all of them are changed, or none.
//!
//! No file outside of the root is touched. Invariant: nothing is written before every file has merged; what fails
//! while it is written is undone.

use super::attributes::Attributes;
use super::confine::Roots;
use super::file::{byte_diff, git_name};
use super::place::{MadeFolders, Place};
use super::replace::{Staged, all_or_none};
use super::{Merger, print, print_bytes, read_named, read_place};
use crate::commands::Verdict;
use crate::config::apply::encoding;
use crate::flags::apply::Flags;
use crate::out::apply::{Refusal, edits_named};
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokrate_apply::{Edit, Encoding, Format, Options, Patch, PatchAction, PatchedFile};
use tokrate_apply_host::{MergeResult, MergedBy};

/// What becomes of one file.
struct Planned {
    path: String,
    moved_to: Option<String>,
    edits: Vec<Edit>,
    by: MergedBy,
    /// The file that is there, with its text.
    old: Option<(Place, Vec<u8>, Attributes)>,
    /// The text that it is to have, and where.
    new: Option<(PathBuf, Vec<u8>)>,
}

/// A file that cannot be changed.
struct Failed {
    path: String,
    refusal: Refusal,
    original: Vec<u8>,
}

#[derive(Serialize)]
struct PatchReport<'a> {
    status: &'static str,
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_to: Option<&'a str>,
    by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    edits: Option<&'a [Edit]>,
    #[serde(flatten)]
    refusal: Option<&'a Refusal>,
}

/// Reads the patch, merges, writes.
pub fn run(flags: &Flags, patch: &Path, merger: &Merger) -> Result<Verdict> {
    let roots = Roots::new(&[flags.root.clone().unwrap_or_else(|| PathBuf::from("."))], &flags.allow)?;
    let text = read_named("--patch", patch)?;
    let encoding = encoding(flags.encoding.as_deref())?;
    let read = String::from_utf8(text)
        .map_err(|_| Refusal::new("not_text", "the patch is not UTF-8", "convert it to UTF-8 first"))
        .and_then(|text| Patch::read(&text).map_err(|refused| Refusal::of(refused, None)));
    let files = match read {
        Ok(patch) => patch.files,
        Err(refusal) => {
            let failed = Failed { path: patch.display().to_string(), refusal, original: Vec::new() };
            return refused(flags, &[failed]);
        }
    };
    let (mut planned, mut failed) = (Vec::new(), Vec::new());
    for file in &files {
        match plan(file, &roots, merger, encoding)? {
            Ok(one) => planned.push(one),
            Err(one) => failed.push(one),
        }
    }
    if failed.is_empty() {
        failed.extend(met_twice(&planned));
    }
    if !failed.is_empty() {
        return refused(flags, &failed);
    }
    if !flags.diff && !flags.check {
        for note in write(planned.as_slice(), &roots)? {
            anstream::eprintln!("{note}");
        }
    }
    deliver(flags, &planned)?;
    Ok(Verdict::Good)
}

/// What a section of the patch comes to.
fn plan(
    file: &PatchedFile,
    roots: &Roots,
    merger: &Merger,
    encoding: Option<Encoding>,
) -> Result<Result<Planned, Failed>> {
    let failed = |refusal: Refusal, original: Vec<u8>| Ok(Err(Failed { path: file.path.clone(), refusal, original }));
    let mut planned = Planned {
        path: file.path.clone(),
        moved_to: None,
        edits: Vec::new(),
        by: MergedBy::Deterministic,
        old: None,
        new: None,
    };
    if let PatchAction::Add { content } = &file.action {
        let text = made(content, encoding);
        return match text.and_then(|text| Ok((roots.vacant(&file.path)?, text))) {
            Ok(new) => Ok(Ok(Planned { new: Some(new), ..planned })),
            Err(refusal) => failed(refusal, Vec::new()),
        };
    }
    let there = match roots.own(&file.path) {
        Ok(there) => there,
        Err(refusal) => return failed(refusal, Vec::new()),
    };
    let (original, attributes) = match read_place(&there)? {
        Ok(read) => read,
        Err(refusal) => return failed(refusal, Vec::new()),
    };
    if let PatchAction::Delete { shown: Some(shown) } = &file.action
        && !is_same_text(shown, &encoding.map_or_else(|| Encoding::decode(&original).0, |it| it.text(&original)))
    {
        let refusal =
            Refusal::new("no_anchor", "the file is not the one that the patch deletes", "read the file again");
        return failed(refusal, original);
    }
    if let PatchAction::Update { section, format, moved_to } = &file.action {
        let (text, edits, by) = match merged(file, (section, *format), &original, (merger, encoding)) {
            Ok(merged) => merged,
            Err(refusal) => return failed(refusal, original),
        };
        let place = match moved_to {
            None => there.path().to_path_buf(),
            Some(path) => match roots.vacant(path) {
                Ok(place) => place,
                Err(refusal) => return failed(refusal, original),
            },
        };
        planned = Planned { new: Some((place, text)), moved_to: moved_to.clone(), edits, by, ..planned };
    }
    Ok(Ok(Planned { old: Some((there, original, attributes)), ..planned }))
}

/// The bytes of an updated file; as they were if it is only moved.
fn merged(
    file: &PatchedFile,
    (section, format): (&str, Format),
    original: &[u8],
    (merger, encoding): (&Merger, Option<Encoding>),
) -> Result<(Vec<u8>, Vec<Edit>, MergedBy), Refusal> {
    if section.is_empty() {
        return Ok((original.to_vec(), Vec::new(), MergedBy::Deterministic));
    }
    let options = Options { path: Some(file.path.clone()), format: Some(format), encoding, ..Options::default() };
    match merger.settle(original, section.as_bytes(), options) {
        MergeResult::Merged { merged, by } => Ok((merged.bytes().into_owned(), merged.edits, by)),
        MergeResult::Refused { refused, fallback } => Err(Refusal::of(refused, fallback)),
    }
}

/// The bytes of a new file.
fn made(content: &str, encoding: Option<Encoding>) -> Result<Vec<u8>, Refusal> {
    let encoding = encoding.unwrap_or_default();
    let bytes = encoding.encode(content);
    match encoding.text(&bytes) == content {
        true => Ok(bytes.into_owned()),
        false => Err(Refusal::new("not_text", "the stated encoding has not all signs of this file", "state another")),
    }
}

/// Whether a file has this text, whatever its line ends are and whether its last line has one.
fn is_same_text(shown: &str, text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().eq(shown.lines())
}

/// A file that two sections change, under whatever names.
fn met_twice(planned: &[Planned]) -> Option<Failed> {
    let mut known: BTreeSet<&Path> = BTreeSet::new();
    // Two names of one file are no two files: its text would be changed under one of them only.
    let mut identities: BTreeSet<(u64, u64)> = BTreeSet::new();
    planned.iter().find_map(|file| {
        let old = file.old.as_ref().map(|(there, ..)| there.path());
        let new = file.new.as_ref().map(|(path, _)| path.as_path()).filter(|new| old != Some(*new));
        let identity = file.old.as_ref().and_then(|(.., attributes)| attributes.identity());
        let fresh = old.into_iter().chain(new).all(|path| known.insert(path))
            && identity.is_none_or(|identity| identities.insert(identity));
        let message = "two sections of the patch change this file under different names";
        let refusal = || Refusal::new("invalid_format", message, "write one section for each file");
        (!fresh).then(|| Failed { path: file.path.clone(), refusal: refusal(), original: Vec::new() })
    })
}

fn write(planned: &[Planned], roots: &Roots) -> Result<Vec<String>> {
    // The folders are let go last, when it is known what they hold.
    let mut made = MadeFolders::default();
    let (mut staged, mut removals) = (Vec::new(), Vec::new());
    for file in planned {
        match (&file.old, &file.new) {
            (Some((there, old, _)), Some((path, new))) if there.path() == path => {
                if old != new {
                    staged.push(Staged::replace(there.clone(), old, new, &|_| Ok(()))?);
                }
            }
            (old, Some((path, new))) => {
                let (root, rest) = roots.split(path);
                let place = Place::below_made(root, rest, &mut made);
                let place = place.with_context(|| format!("make the folder of {}", path.display()))?;
                let like = old.as_ref().map(|(_, text, attributes)| match text == new {
                    true => attributes.clone(),
                    false => attributes.clone().of_other_text().0,
                });
                staged.push(Staged::create(place, new, like.as_ref())?);
                removals.extend(old.as_ref());
            }
            (Some(old), None) => removals.push(old),
            (None, None) => {}
        }
    }
    // Last, so that no text is gone before it stands elsewhere.
    for (there, old, like) in removals {
        staged.push(Staged::remove(there.clone(), old, like.clone()));
    }
    all_or_none(staged)
}

impl Planned {
    fn action(&self) -> &'static str {
        match (&self.old, &self.new, &self.moved_to) {
            (.., Some(_)) => "move",
            (None, ..) => "add",
            (_, None, _) => "delete",
            _ => "update",
        }
    }

    fn diff(&self) -> Vec<u8> {
        let old = self.old.as_ref().map_or(&[][..], |(_, text, _)| text);
        let new = self.new.as_ref().map_or(&[][..], |(_, text)| text);
        let name = |there: bool, side: &str, path: &str| match there {
            true => format!("{side}/{}", git_name(Path::new(path))),
            false => "/dev/null".to_owned(),
        };
        let moved = self.moved_to.as_deref().unwrap_or(&self.path);
        byte_diff(old, new, &name(self.old.is_some(), "a", &self.path), &name(self.new.is_some(), "b", moved))
    }

    fn line(&self, would: &str) -> String {
        match &self.moved_to {
            None if self.action() == "update" => format!("{would}update {}, {}\n", self.path, edits_named(&self.edits)),
            None => format!("{would}{} {}\n", self.action(), self.path),
            Some(moved) => format!("{would}move {} to {moved}, {}\n", self.path, edits_named(&self.edits)),
        }
    }
}

fn deliver(flags: &Flags, planned: &[Planned]) -> Result<()> {
    if flags.json {
        let files = planned.iter().map(|file| FileReport {
            path: &file.path,
            action: Some(file.action()),
            moved_to: file.moved_to.as_deref(),
            by: file.by.name(),
            edits: Some(&file.edits),
            refusal: None,
        });
        return print_report("merged", files.collect());
    }
    if flags.diff {
        return print_bytes(&planned.iter().flat_map(Planned::diff).collect::<Vec<u8>>());
    }
    let would = if flags.check { "would " } else { "" };
    print(&planned.iter().map(|file| file.line(would)).collect::<String>())
}

fn refused(flags: &Flags, failed: &[Failed]) -> Result<Verdict> {
    if flags.json {
        let files = failed.iter().map(|file| FileReport {
            path: &file.path,
            action: None,
            moved_to: None,
            by: "refused",
            edits: None,
            refusal: Some(&file.refusal),
        });
        print_report("refused", files.collect())?;
    } else {
        for file in failed {
            anstream::eprint!("{}: {}", file.path, file.refusal.text(&file.original));
        }
        anstream::eprintln!("no file was changed");
    }
    Ok(Verdict::BelowBar)
}

fn print_report(status: &'static str, files: Vec<FileReport<'_>>) -> Result<()> {
    let line = serde_json::to_string(&PatchReport { status, files }).context("write JSON")?;
    print(&(line + "\n"))
}
