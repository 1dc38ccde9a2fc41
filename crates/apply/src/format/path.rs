//! Paths that an update names, and whether it means the file at hand.
//!
//! Invariant: of several files, only the one that is beyond doubt is chosen.

use crate::outcome::{Code, Refused};
use std::collections::BTreeMap;

/// Whether two paths name one file: the same, or one the end of the other.
pub(crate) fn same(a: &str, b: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
    };
    let (a, b) = (parts(a), parts(b));
    !a.is_empty() && !b.is_empty() && (a.ends_with(&b) || b.ends_with(&a))
}

/// The parts that are for the file at hand: all, if they name one file at most.
///
/// # Errors
/// When they name several files and none of them, or more than one, is the file at hand.
pub(crate) fn chosen<P>(
    parts: Vec<P>,
    named: impl Fn(&P) -> Option<&str>,
    path: Option<&str>,
) -> Result<Vec<P>, Refused> {
    let mut names: Vec<String> = Vec::new();
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    // A part without a name goes with the one before it.
    let mut of: Vec<Option<usize>> = Vec::with_capacity(parts.len());
    for part in &parts {
        let number = match named(part) {
            None => of.last().copied().flatten(),
            Some(name) => Some(*numbers.entry(name.to_owned()).or_insert_with(|| {
                names.push(name.to_owned());
                names.len() - 1
            })),
        };
        of.push(number);
    }
    if names.len() <= 1 {
        return Ok(parts);
    }
    let Some(path) = path else {
        let message = format!("the update names {} files, {} and {} among them", names.len(), names[0], names[1]);
        return Err(Refused::new(
            Code::InvalidFormat,
            message,
            "say which of them this one is, or write one update for each",
        ));
    };
    let exact = names.iter().position(|name| name == path);
    let alike: Vec<usize> = (0..names.len()).filter(|&at| same(&names[at], path)).collect();
    let wanted = match (exact, &alike[..]) {
        (Some(at), _) => at,
        (None, [at]) => *at,
        (None, []) => {
            let message = format!("the update names {} files, and none of them is {path}", names.len());
            return Err(Refused::new(Code::NoAnchor, message, "name the file as it is named here"));
        }
        (None, [first, second, ..]) => {
            let message = format!("both {} and {} could be {path}", names[*first], names[*second]);
            return Err(Refused::new(Code::AmbiguousLocation, message, "write the whole path of each file"));
        }
    };
    Ok(parts.into_iter().zip(of).filter(|(_, of)| of.is_none_or(|at| at == wanted)).map(|(part, _)| part).collect())
}

/// The path in the last line before a block, if it is alone there, a fence between them or not.
pub(crate) fn before<'u>(lines: &[&'u str]) -> Option<&'u str> {
    let mut lines = lines.iter().rev().map(|line| line.trim()).filter(|line| !line.is_empty());
    let line = lines.next()?;
    let line = if line.starts_with("```") || line.starts_with("~~~") { lines.next()? } else { line };
    of_line(line)
}

/// The path that a line consists of, in whatever dress: `**src/a.rs**`, `src/a.rs:`, `# src/a.rs`.
pub(crate) fn of_line(line: &str) -> Option<&str> {
    let text = line.trim().trim_start_matches(['#', '*', '`', ' ']).trim_end_matches(['*', '`', ':', ' ']);
    let name = text.rsplit(['/', '\\']).next()?;
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let looks = text.contains('/')
        || ending
            .is_some_and(|it| !it.is_empty() && it.len() <= 10 && it.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let plain = !text.is_empty()
        && text.len() <= 300
        && !text.contains(char::is_whitespace)
        && !text.contains(['<', '>', '(', ')', ';', '{', '}', '"']);
    (looks && plain && !name.is_empty()).then_some(text)
}
