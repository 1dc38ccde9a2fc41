//! What is said of a block that stands nowhere: the place that is most like it, and the first line that differs.
//!
//! It does not find anything: what is named here is for the reader and is never edited. Invariant: the work is bounded
//! by the block, not by how often its lines repeat.

use super::lines::{LineIndex, core};
use crate::outcome::{Code, Refused};
use std::collections::BTreeMap;
use std::ops::Range;

/// A line that stands more often tells nothing of the place.
const REPEATS_MOST: usize = 16;
/// Lines of a block that are looked at.
const LINES_MOST: usize = 4096;
/// Characters of a line that are shown.
const TEXT_MOST: usize = 60;

/// The refusal for a block, called `name`, that begins in none of the lines `within`.
pub(super) fn missing(lines: &LineIndex<'_>, block: &[&str], name: &str, within: &Range<usize>) -> Refused {
    let hint = "copy the lines as they stand in the file";
    let Some(start) = most_like(lines, block, within) else {
        let text = block
            .iter()
            .find(|line| !core(line).is_empty())
            .map_or_else(String::new, |line| format!(": none of its lines tells where, the first is {}", quoted(line)));
        return Refused::new(Code::NoAnchor, format!("{} is not in the file{text}", name), hint);
    };
    let source = lines.source;
    let last = (start + block.len() - 1).min(source.line_count() - 1);
    let stands = |at: usize| (start + at < source.line_count()).then(|| source.line(start + at));
    let differs = |same: fn(&str, &str) -> bool| {
        (0..block.len()).find(|&at| stands(at).is_none_or(|line| !same(line, block[at])))
    };
    let place =
        if start == last { format!("line {}", start + 1) } else { format!("lines {} to {}", start + 1, last + 1) };
    let message = match differs(|a, b| core(a) == core(b)) {
        Some(at) => match stands(at) {
            Some(line) => format!(
                "{} is not in the file; {place} are most like it, but line {} is {} and not {}",
                name,
                start + at + 1,
                quoted(line),
                quoted(block[at])
            ),
            None => format!("{} is not in the file; {place} are most like it, but the file ends there", name),
        },
        None => {
            let at = differs(|a, b| a == b).unwrap_or(0);
            format!(
                "{} is not in the file; {place} differ from it in white space only, line {} for one",
                name,
                start + at + 1
            )
        }
    };
    let message = if start == last {
        message.replace(" are most like it", " is most like it").replace(" differ from it", " differs from it")
    } else {
        message
    };
    Refused::new(Code::NoAnchor, message, hint).at([(start, last)])
}

/// Where the block would begin if as many of its lines as possible stood where they stand.
fn most_like(lines: &LineIndex<'_>, block: &[&str], within: &Range<usize>) -> Option<usize> {
    let mut votes: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, line) in block.iter().enumerate().take(LINES_MOST) {
        let alike = lines.like(line);
        if alike.len() > REPEATS_MOST || core(line).len() < 2 {
            continue;
        }
        for &stands in alike {
            let start = (stands as usize).saturating_sub(at);
            if within.contains(&start) {
                *votes.entry(start).or_default() += REPEATS_MOST + 1 - alike.len();
            }
        }
    }
    votes.into_iter().max_by_key(|&(start, votes)| (votes, std::cmp::Reverse(start))).map(|(start, _)| start)
}

/// A line as it is shown: short and in backticks.
pub(crate) fn quoted(line: &str) -> String {
    match short(line) {
        text if text.is_empty() => "blank".to_owned(),
        text => format!("`{text}`"),
    }
}

/// The beginning of a line for a message.
pub(crate) fn short(line: &str) -> String {
    let text = line.trim();
    match text.char_indices().nth(TEXT_MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Lines counted from 0 as they are named: "lines 3, 5 and 8".
pub(crate) fn numbered(lines: &[usize]) -> String {
    const MOST: usize = 6;
    let mut lines = lines.to_vec();
    lines.dedup();
    let mut shown: Vec<String> = lines.iter().take(MOST).map(|line| (line + 1).to_string()).collect();
    if lines.len() > MOST {
        shown.push(format!("{} more", lines.len() - MOST));
    }
    match shown.split_last() {
        None => "no line".to_owned(),
        Some((only, [])) => format!("line {only}"),
        Some((last, rest)) => format!("lines {} and {last}", rest.join(", ")),
    }
}
