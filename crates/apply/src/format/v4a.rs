//! `*** Begin Patch`, as OpenAI's models write it.
//!
//! Invariant: a block must occur once in the whole file, or once in the range that its headers name; it is not applied
//! to the first of several places.

use super::change::{Change, filled_with, together};
use super::files::{PatchAction, PatchedFile};
use super::find::{Finder, Wanted};
use super::hunk::Hunk;
use super::lines::{core, indent};
use super::similar::quoted;
use super::{Located, path};
use crate::outcome::{Code, Format, Refused, Stage};
use crate::source::Source;
use std::ops::Range;

/// More ranges below the headers of one block are refused, to bound the work.
const MAX_RANGES: usize = 1000;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const UPDATE: &str = "*** Update File:";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// The files of a patch, a section each.
pub(super) fn files(lines: &[&str]) -> Result<Vec<PatchedFile>, Refused> {
    read(lines)?.iter().map(|it| Ok(PatchedFile { path: it.path.to_owned(), action: it.action()? })).collect()
}

/// Puts a second section of a file behind its first.
pub(super) fn append(first: &mut String, more: &str) {
    first.truncate(first.len() - END.len() - 1);
    first.push_str(&more[BEGIN.len() + 1..]);
}

/// The section of a patch for one file, as lines.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Section<'u> {
    path: &'u str,
    kind: Kind,
    moved_to: Option<&'u str>,
    /// Line of the update in which `lines` begin, counted from 0.
    at: usize,
    lines: Vec<&'u str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Update,
    Add,
    Delete,
}

/// A hunk with its headers: lines of the file above it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Block<'u> {
    hunk: Hunk<'u>,
    headers: Vec<&'u str>,
    at: usize,
}

impl<'u> Section<'u> {
    fn action(&self) -> Result<PatchAction, Refused> {
        let text = |lines: Vec<&str>| -> String { lines.iter().flat_map(|line| [*line, "\n"]).collect() };
        Ok(match self.kind {
            Kind::Delete => {
                let lines = self.signed('-')?;
                PatchAction::Delete { shown: lines.iter().any(|line| !line.is_empty()).then(|| text(lines)) }
            }
            Kind::Add => PatchAction::Add { content: text(self.signed('+')?) },
            Kind::Update => PatchAction::Update {
                section: match self.blocks().is_empty() {
                    true => String::new(),
                    false => format!("{BEGIN}\n{UPDATE} {}\n{}\n{END}\n", self.path, self.lines.join("\n")),
                },
                format: Format::V4a,
                moved_to: self.moved_to.map(str::to_owned),
            },
        })
    }

    /// The lines of a file that comes or goes as a whole: each has that sign, but for blank ones.
    ///
    /// # Errors
    /// When a line has another one: it may be none of the file.
    fn signed(&self, sign: char) -> Result<Vec<&'u str>, Refused> {
        let lines = self.lines.iter().enumerate().filter(|(_, line)| line.trim_end() != END_OF_FILE);
        let bare = |(at, line): (usize, &&'u str)| match line.strip_prefix(sign) {
            Some(bare) => Ok(bare),
            None if line.trim().is_empty() => Ok(*line),
            None => {
                let message = format!("line {} of the update has no `{sign}`: {}", self.at + at + 1, quoted(line));
                Err(Refused::new(
                    Code::InvalidFormat,
                    message,
                    format!("begin each line of {} with `{sign}`", self.path),
                ))
            }
        };
        lines.map(bare).collect()
    }

    fn blocks(&self) -> Vec<Block<'u>> {
        let mut blocks: Vec<Block<'u>> = Vec::new();
        let mut block = Block::default();
        let mut close = |block: &mut Block<'u>, ended: bool| {
            block.hunk.at_end |= ended;
            block.hunk.trim_end();
            let block = std::mem::take(block);
            if block.hunk.changes() {
                blocks.push(block);
            }
        };
        for (at, &line) in self.lines.iter().enumerate() {
            if line.trim_end() == END_OF_FILE {
                close(&mut block, true);
            } else if let Some(header) = line.strip_prefix("@@") {
                if !block.hunk.lines.is_empty() {
                    close(&mut block, false);
                }
                let header = core(header.trim().trim_end_matches("@@"));
                if !header.is_empty() && !header.starts_with("-") {
                    block.headers.push(header);
                }
            } else {
                if block.hunk.lines.is_empty() {
                    block.at = self.at + at;
                }
                block.hunk.push(line);
            }
        }
        close(&mut block, false);
        blocks
    }
}

/// Whether a line begins a patch, white space before it or not.
pub(super) fn begins(line: &str) -> bool {
    line.trim() == BEGIN || line.trim_start().starts_with(UPDATE)
}

/// Locates the blocks for the file at hand.
pub(super) fn locate(source: &Source, update: &str) -> Result<Located, Refused> {
    let lines: Vec<&str> = update.lines().collect();
    let sections = read(&lines)?;
    path::of_one_file(&sections, |section| Some(section.path))?;
    let finder = Finder::new(source);
    let mut changes = Vec::new();
    for section in &sections {
        match section.kind {
            Kind::Delete => {
                let message = format!("the patch deletes {}", section.path);
                return Err(Refused::new(Code::NotAnEdit, message, "delete the file itself"));
            }
            Kind::Add if source.text.is_empty() => changes.push(filled_with(&section.signed('+')?)),
            Kind::Add => {
                let message = format!("the patch adds {}, and the file is there and not empty", section.path);
                return Err(Refused::new(Code::NoAnchor, message, "update the file instead"));
            }
            Kind::Update => {
                let blocks = section.blocks();
                for (number, block) in blocks.iter().enumerate() {
                    let name = match blocks.len() {
                        1 => "the block".to_owned(),
                        _ => format!("block {} (line {} of the update)", number + 1, block.at + 1),
                    };
                    changes.push(located(&finder, block, &name)?);
                }
            }
        }
    }
    if changes.is_empty() {
        return Err(Refused::new(
            Code::NotAnEdit,
            "the patch has no line that goes or comes",
            "mark lines with `-` and `+`",
        ));
    }
    let (splices, reindented) = together(changes)?;
    Ok(Located { splices, stage: Stage::Lines, reindented, evidence: None })
}

fn located<'a>(finder: &Finder<'a>, block: &Block<'a>, name: &str) -> Result<Change, Refused> {
    let wanted = Wanted { at_end: block.hunk.at_end, ..Wanted::anywhere(name, finder.lines.source) };
    let refused = match block.hunk.locate(finder, &wanted) {
        Ok(change) => {
            let headers = block.headers.last().map_or(&[][..], |header| finder.lines.like(header));
            return match headers.first() {
                Some(&first) if change.lines.end <= first as usize => Err(above(&change, first as usize, name)),
                _ => Ok(change),
            };
        }
        Err(refused) if refused.code == Code::AmbiguousLocation && !block.headers.is_empty() => refused,
        Err(refused) => return Err(refused),
    };
    let mut found: Option<Change> = None;
    for range in ranges(finder, &block.headers, name)? {
        match block.hunk.locate(finder, &Wanted { within: range, ..wanted.clone() }) {
            Ok(change) => match &found {
                Some(other) if other.lines != change.lines => return Err(refused),
                _ => found = Some(change),
            },
            Err(again) if again.code == Code::NoAnchor => {}
            Err(again) => return Err(again),
        }
    }
    found.ok_or(refused)
}

/// The ranges that headers name, each inside of those that the one before it names.
fn ranges(finder: &Finder<'_>, headers: &[&str], name: &str) -> Result<Vec<Range<usize>>, Refused> {
    let source = finder.lines.source;
    let mut ranges: Vec<Range<usize>> = std::iter::once(0..source.line_count()).collect();
    for header in headers {
        let mut lines: Vec<usize> = finder.lines.like(header).iter().map(|&line| line as usize).collect();
        if lines.is_empty() {
            finder.charge(source.line_count() as u64)?;
            let begins = |line: &str| {
                core(line)
                    .strip_prefix(header)
                    .is_some_and(|rest| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_'))
            };
            lines = (0..source.line_count()).filter(|&line| begins(source.line(line))).collect();
        }
        let mut inner: Vec<Range<usize>> = Vec::new();
        for range in &ranges {
            let from = lines.partition_point(|&line| line < range.start);
            inner.extend(
                lines[from..]
                    .iter()
                    .take_while(|&&line| line < range.end)
                    .take(MAX_RANGES + 1)
                    .map(|&line| scope(source, line)),
            );
        }
        inner.dedup();
        if inner.is_empty() {
            let message = format!("{name} has the header {}, and the file has no such line", quoted(header));
            return Err(Refused::new(Code::NoAnchor, message, "copy the header from the file"));
        }
        if inner.len() > MAX_RANGES {
            let message = format!("{name} has the header {}, and too many lines of the file fit it", quoted(header));
            return Err(Refused::new(Code::AmbiguousLocation, message, "name a line that occurs once"));
        }
        finder.charge(inner.iter().map(|range| range.len() as u64).sum())?;
        ranges = inner;
    }
    Ok(ranges)
}

/// The lines that belong to a line by indentation, itself included; all that follow if none does.
fn scope(source: &Source, header: usize) -> Range<usize> {
    let depth = indent(source.line(header)).len();
    let mut end = header + 1;
    let mut holds = false;
    for line in header + 1..source.line_count() {
        let text = core(source.line(line));
        if text.is_empty() {
            continue;
        }
        let inside = indent(source.line(line)).len() > depth;
        let outside = indent(source.line(line)).len() < depth;
        if outside || !inside && !text.starts_with(['{', '}', '(', ')', '[', ']']) {
            break;
        }
        holds |= inside;
        end = line + 1;
    }
    if holds { header..end } else { header..source.line_count() }
}

fn above(change: &Change, header: usize, name: &str) -> Refused {
    let message = format!("{name} is at line {}, above the line that its header names", change.lines.start + 1);
    Refused::new(Code::NoAnchor, message, "name a line above the block as its header, or none")
        .at([(change.lines.start, change.lines.end.max(1) - 1), (header, header)])
}

/// Reads all sections.
///
/// A header may stand behind white space where no line of a file can: before the first file, in what is added (where each line
/// has its sign), and below a deletion. A patch all of whose lines begin with the white space of its first is read without it.
fn read<'u>(lines: &[&'u str]) -> Result<Vec<Section<'u>>, Refused> {
    let lines = &without_margin(lines)[..];
    refuse_cut(lines)?;
    let mut sections: Vec<Section<'u>> = Vec::new();
    for (at, &line) in lines.iter().enumerate() {
        let is_content = sections.last().is_some_and(|it| it.kind == Kind::Update) && line.starts_with([' ', '\t']);
        let head = if is_content { line } else { line.trim_start() };
        let begun = [(UPDATE, Kind::Update), (ADD, Kind::Add), (DELETE, Kind::Delete)]
            .iter()
            .find_map(|(sign, kind)| Some((head.strip_prefix(sign)?.trim(), *kind)));
        let is_last = || lines[at + 1..].iter().all(|line| line.trim().is_empty());
        if let Some((path, kind)) = begun {
            sections.push(Section { path, kind, moved_to: None, at: at + 1, lines: Vec::new() });
        } else if head.trim_end() == END || line.trim() == END && is_last() {
            (at + 1..lines.len()).try_for_each(|at| super::no_other_patch(lines, at))?;
            break;
        } else if let Some(section) = sections.last_mut() {
            match line.trim_start().strip_prefix(MOVE) {
                Some(path) if section.lines.is_empty() => {
                    section.moved_to = Some(path.trim());
                    section.at = at + 1;
                }
                _ if head.starts_with("*** ") && head.trim_end() != END_OF_FILE => return Err(unknown(at, line)),
                _ => section.lines.push(line),
            }
        } else if head.trim_end() != BEGIN && !line.trim().is_empty() {
            return Err(unknown(at, line));
        }
    }
    if sections.is_empty() {
        return Err(Refused::new(Code::InvalidFormat, "the patch names no file", "begin with `*** Update File: path`"));
    }
    Ok(sections)
}

/// Refuses a patch that begins and does not end: it may have been cut off.
fn refuse_cut(lines: &[&str]) -> Result<(), Refused> {
    let begins = lines.iter().find(|line| !line.trim().is_empty()).is_some_and(|line| line.trim() == BEGIN);
    if !begins || lines.iter().any(|line| line.trim() == END) {
        return Ok(());
    }
    let message = format!("the patch begins with `{BEGIN}` and has no `{END}`: it may be cut off");
    Err(Refused::new(Code::InvalidFormat, message, "send the patch whole, with its last line"))
}

/// The lines without the white space that the first begins with, if all begin so.
fn without_margin<'u>(lines: &[&'u str]) -> Vec<&'u str> {
    let text = || lines.iter().filter(|line| !core(line).is_empty());
    let margin = text().next().map_or("", |line| indent(line));
    if margin.is_empty() || !text().all(|line| line.starts_with(margin)) {
        return lines.to_vec();
    }
    lines.iter().map(|line| line.strip_prefix(margin).unwrap_or_default()).collect()
}

/// Whether a line is one of a patch and of nothing else, in capitals or not.
pub(super) fn is_sign(line: &str) -> bool {
    let line = line.trim();
    let begins = |sign: &&str| line.get(..sign.len()).is_some_and(|head| head.eq_ignore_ascii_case(sign));
    [BEGIN, UPDATE, ADD, DELETE].iter().any(begins) || line.eq_ignore_ascii_case(END)
}

/// Whether a line begins a patch, or the section of a file.
pub(super) fn begins_part(line: &str) -> bool {
    [BEGIN, UPDATE, ADD, DELETE].iter().any(|sign| line.trim_start().starts_with(sign))
}

fn unknown(at: usize, line: &str) -> Refused {
    let message = format!("line {} of the update is no line of a patch: {}", at + 1, quoted(line));
    Refused::new(Code::InvalidFormat, message, "begin each file with `*** Update File: path`")
}

#[cfg(test)]
mod tests;
