//! Blocks of search and replacement, as aider, Cline and Roo write them.
//!
//! A block with several possible dividers is refused. Invariant: every block is searched in the original file, before
//! any other is applied.

use super::change::{Change, change, filled_with, nowhere, together, unchanged};
use super::files::{PatchAction, PatchedFile};
use super::find::{Finder, Wanted};
use super::lines::core;
use super::numbers::{self, Bare};
use super::similar::quoted;
use super::{Located, path};
use crate::lazy;
use crate::outcome::{Code, Format, Refused, Stage};
use crate::source::Source;

/// Least length of a divider: aider writes seven signs, models sometimes fewer.
const MIN_SIGNS: usize = 5;

/// One block.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Block<'u> {
    /// Its first line in the update, counted from 0.
    at: usize,
    /// Its last.
    end: usize,
    /// The file that is named before it.
    path: Option<&'u str>,
    search: Vec<&'u str>,
    replace: Vec<&'u str>,
    /// The line of the file given for its beginning, counted from 0.
    near: Option<usize>,
}

/// The kinds of divider lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    Open(usize),
    Divide(usize),
    Close(usize),
}

/// Whether a line opens a block.
pub(super) fn opens(line: &str) -> bool {
    matches!(sign(line), Some(Sign::Open(_)))
}

/// Whether a line opens a block or closes one.
pub(super) fn is_sign(line: &str) -> bool {
    matches!(sign(line), Some(Sign::Open(_) | Sign::Close(_)))
}

/// Reads blocks. Those that keep to one number of signs may hold others as content.
fn blocks<'u>(lines: &[&'u str]) -> Result<Vec<Block<'u>>, Refused> {
    read(lines, true).or_else(|_| read(lines, false))
}

/// The files that blocks are for, a part each: the file is named in the line above the first of its blocks.
pub(super) fn files(lines: &[&str]) -> Result<Vec<PatchedFile>, Refused> {
    let blocks = blocks(lines)?;
    let mut files: Vec<PatchedFile> = Vec::with_capacity(blocks.len());
    let mut between = 0;
    for block in &blocks {
        // Here every block has the name of a file, so that a bare word above one is such a name.
        let above = &lines[between..block.at];
        // The file of the block before is meant only where nothing else is said.
        let is_silent = above.iter().all(|line| core(line).is_empty() || core(line).starts_with("```"));
        let of_before = files.last().map(|file| file.path.as_str()).filter(|_| is_silent);
        let path = path::word_before(above).or(of_before);
        between = block.end + 1;
        let Some(path) = path else {
            return Err(malformed(block.at, "opens a block of no file", "write the path in the line above the block"));
        };
        let is_new = block.search.iter().all(|line| core(line).is_empty());
        // A word above may be a word only, and no file is there that would say so. None begins with a dot.
        if is_new && path::before(above).is_none() && !path.starts_with('.') && Some(path) != of_before {
            let what = format!("would make a file called {path}, which may be a word only");
            return Err(malformed(block.at, &what, &format!("if it is the name of a file, write ./{path}")));
        }
        let action = match is_new {
            true => PatchAction::Add { content: block.replace.iter().flat_map(|line| [*line, "\n"]).collect() },
            false => PatchAction::Update {
                section: lines[block.at..=block.end].iter().flat_map(|line| [*line, "\n"]).collect(),
                format: Format::SearchReplace,
                moved_to: None,
            },
        };
        files.push(PatchedFile { path: path.to_owned(), action });
    }
    Ok(files)
}

/// Locates all blocks.
pub(super) fn locate(source: &Source, update: &str) -> Result<Located, Refused> {
    let lines: Vec<&str> = update.lines().collect();
    let blocks = blocks(&lines)?;
    path::of_one_file(&blocks, |block| block.path)?;
    refuse_parts_outside(&lines, &blocks)?;
    let finder = Finder::new(source);
    let mut changes = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let name = match blocks.len() {
            1 => "the block".to_owned(),
            _ => format!("block {} (line {} of the update)", number + 1, block.at + 1),
        };
        located(&finder, block, &name, &mut changes)?;
    }
    let (splices, reindented) = together(changes)?;
    Ok(Located { splices, stage: Stage::Lines, reindented, evidence: None })
}

/// Refuses a marker outside of all blocks: it stands in another edit, which would be left out.
fn refuse_parts_outside(lines: &[&str], blocks: &[Block<'_>]) -> Result<(), Refused> {
    let mut is_inside = vec![false; lines.len()];
    blocks.iter().for_each(|block| is_inside[block.at..=block.end].fill(true));
    let marker = (0..lines.len()).find(|&at| !is_inside[at] && lazy::is_marker(lines[at]));
    marker.map_or(Ok(()), |at| {
        let what = format!("stands for lines of a file outside of a block: {}", quoted(lines[at]));
        Err(malformed(at, &what, "send all changes as blocks, or each kind of edit alone"))
    })
}

fn located<'a>(finder: &Finder<'a>, block: &Block<'a>, name: &str, changes: &mut Vec<Change>) -> Result<(), Refused> {
    if block.search.iter().all(|line| core(line).is_empty()) {
        if !finder.lines.source.text.is_empty() {
            return Err(nowhere(name));
        }
        changes.push(filled_with(&block.replace));
        return Ok(());
    }
    let wanted = Wanted { near: block.near, ..Wanted::anywhere(name, finder.lines.source) };
    if let Some(Bare { near, old, new }) = numbers::without(finder.lines.source, &block.search, &block.replace)
        && block.search.iter().all(|line| finder.lines.id(line).is_none() || core(line).is_empty())
    {
        let wanted = Wanted { near: Some(near), trusted: true, ..wanted };
        changes.push(change(finder, &finder.find(&old, &wanted)?, &old, &new, name)?);
        return Ok(());
    }
    let refused = match finder.find(&block.search, &wanted) {
        Ok(place) => {
            changes.push(change(finder, &place, &block.search, &block.replace, name)?);
            return Ok(());
        }
        Err(refused) if refused.code == Code::NoAnchor => refused,
        Err(refused) => return Err(refused),
    };
    if block.search.iter().any(|line| is_elision(line)) {
        return elided(finder, block, name, changes);
    }
    if block.search == block.replace {
        return Err(unchanged());
    }
    match finder.find(&block.replace, &Wanted::anywhere(name, finder.lines.source)) {
        Ok(place) if block.replace.iter().any(|line| !core(line).is_empty()) => {
            let hint = format!("its replacement already stands at line {}", place.lines.start + 1);
            Err(Refused { hint, ..refused })
        }
        _ => Err(refused),
    }
}

/// A block of pieces with lines of dots between them: each piece must occur once, in order; the lines between them stay.
fn elided<'a>(finder: &Finder<'a>, block: &Block<'a>, name: &str, changes: &mut Vec<Change>) -> Result<(), Refused> {
    let search: Vec<&[&str]> = block.search.split(|line| is_elision(line)).collect();
    let replace: Vec<&[&str]> = block.replace.split(|line| is_elision(line)).collect();
    if search.len() != replace.len() {
        let (search, replace) = (search.len() - 1, replace.len() - 1);
        let message = format!(
            "{name} leaves out lines by dots in {search} places of its search and {replace} of its replacement"
        );
        return Err(Refused::new(
            Code::AmbiguousDeletion,
            message,
            "write the lines that are to go, or the same dots in both",
        ));
    }
    let mut end = 0;
    for (number, (old, new)) in search.iter().zip(&replace).enumerate() {
        if old.is_empty() && new.is_empty() {
            continue;
        }
        let piece = format!("piece {} of {name}", number + 1);
        if old.iter().all(|line| core(line).is_empty()) {
            return Err(nowhere(&piece));
        }
        let place = finder.find(old, &Wanted::anywhere(&piece, finder.lines.source))?;
        if place.lines.start < end {
            let message = format!("{piece} stands at line {}, before the piece that it follows", place.lines.start + 1);
            return Err(Refused::new(Code::NoAnchor, message, "write the pieces in the order of the file")
                .at([(place.lines.start, place.lines.end - 1)]));
        }
        end = place.lines.end;
        changes.push(change(finder, &place, old, new, &piece)?);
    }
    Ok(())
}

fn is_elision(line: &str) -> bool {
    let text = core(line);
    text == "…" || text.len() >= 3 && text.bytes().all(|byte| byte == b'.')
}

/// The kind of divider that a line is.
fn sign(line: &str) -> Option<Sign> {
    let line = line.trim_end();
    let first = *line.as_bytes().first()?;
    let count = line.bytes().take_while(|&byte| byte == first).count();
    if count < MIN_SIGNS {
        return None;
    }
    match (first, line[count..].trim_start().trim_end_matches('>')) {
        (b'<' | b'-', "SEARCH") => Some(Sign::Open(count)),
        (b'=', "") if line.len() == count => Some(Sign::Divide(count)),
        (b'>', "") if line.len() == count => None,
        (b'>' | b'+', "REPLACE") => Some(Sign::Close(count)),
        _ => None,
    }
}

/// Reads all blocks; `strict` if one block has one number of signs, and other numbers are content.
fn read<'u>(lines: &[&'u str], strict: bool) -> Result<Vec<Block<'u>>, Refused> {
    let mut blocks = Vec::new();
    let mut between = 0;
    let mut at = 0;
    while at < lines.len() {
        match sign(lines[at]) {
            None => {
                super::no_other_patch(lines, at)?;
                at += 1;
            }
            Some(Sign::Open(signs)) => {
                let path = path::before(&lines[between..at]);
                let (block, end) = block(lines, at, strict.then_some(signs))?;
                blocks.push(Block { path, ..block });
                at = end + 1;
                between = at;
            }
            Some(_) => return Err(malformed(at, "stands outside of a block", "begin each block with a SEARCH line")),
        }
    }
    match blocks.is_empty() {
        false => Ok(blocks),
        true => Err(Refused::new(Code::InvalidFormat, "there is no block of search and replacement", "")),
    }
}

/// Reads the block that is opened in a line, and the line that closes it.
fn block<'u>(lines: &[&'u str], open: usize, signs: Option<usize>) -> Result<(Block<'u>, usize), Refused> {
    let counts = |count: usize| signs.is_none_or(|signs| signs == count);
    let mut dividers = Vec::new();
    let mut close = None;
    for (at, line) in lines.iter().enumerate().skip(open + 1) {
        match sign(line) {
            Some(Sign::Divide(count)) if counts(count) => dividers.push(at),
            Some(Sign::Close(count)) if counts(count) => {
                close = Some(at);
                break;
            }
            Some(Sign::Open(count)) if counts(count) => {
                return Err(malformed(at, "opens a block inside of another", "close each block with a REPLACE line"));
            }
            _ => {}
        }
    }
    let Some(close) = close else {
        return Err(malformed(open, "opens a block that is not closed", "close each block with a REPLACE line"));
    };
    let divider = match dividers[..] {
        [only] => only,
        [] => {
            return Err(malformed(
                open,
                "opens a block without a line of `=`",
                "divide search and replacement by `=======`",
            ));
        }
        [_, second, ..] => {
            let hint = "if it is content, write the three sign lines of the block with another number of signs";
            return Err(malformed(second, "divides a block a second time", hint));
        }
    };
    let (search, near, escaped) = header(&lines[open + 1..divider]);
    let plain = |lines: &[&'u str]| -> Vec<&'u str> {
        lines.iter().map(|line| if escaped { unescaped(line) } else { line }).collect()
    };
    let block = Block {
        at: open,
        end: close,
        path: None,
        search: plain(search),
        replace: plain(&lines[divider + 1..close]),
        near,
    };
    Ok((block, close))
}

/// Roo's lines before the search: `:start_line:7`, `:end_line:9`, `-------`. What follows, the line, whether they are there.
fn header<'l, 'u>(lines: &'l [&'u str]) -> (&'l [&'u str], Option<usize>, bool) {
    let mut near = None;
    let mut at = 0;
    while let Some(line) = lines.get(at).map(|line| line.trim()) {
        let number = |name: &str| Some(line.strip_prefix(name)?.trim().parse::<usize>());
        match (number(":start_line:"), number(":end_line:")) {
            (Some(line), _) => near = line.ok().filter(|&line| line > 0).map(|line| line - 1),
            (None, Some(_)) => {}
            (None, None) => break,
        }
        at += 1;
    }
    if at == 0 {
        return (lines, None, false);
    }
    let is_rule = |line: &&str| line.len() >= MIN_SIGNS && line.bytes().all(|byte| byte == b'-');
    at += usize::from(lines.get(at).map(|line| line.trim_end()).as_ref().is_some_and(is_rule));
    (&lines[at..], near, true)
}

/// A line that was escaped because it looks like a sign.
fn unescaped(line: &str) -> &str {
    match line.strip_prefix('\\') {
        Some(rest)
            if ["<<<<<", "=====", ">>>>>", "-----", "+++++", ":start_line:", ":end_line:"]
                .iter()
                .any(|it| rest.starts_with(it)) =>
        {
            rest
        }
        _ => line,
    }
}

fn malformed(at: usize, what: &str, hint: &str) -> Refused {
    Refused::new(Code::InvalidFormat, format!("line {} of the update {what}", at + 1), hint)
}

#[cfg(test)]
mod tests;
