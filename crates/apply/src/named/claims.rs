//! Finds the parts of an update that look like declarations of the file, by their lines alone, so that most updates need no
//! parse.
//!
//! Invariant: a name that occurs in more than one line of the file identifies nothing.

use crate::lazy::{self, Key, indent, is_balanced, is_blank, is_marker, key, places_of};
use crate::source::Source;
use std::ops::Range;

/// A part of an update that names declarations.
pub(super) struct Claim<'u> {
    /// Lines of the update, from the first to the last that is not blank.
    pub part: Range<usize>,
    /// The name that the update shows around it.
    pub scope: Option<&'u str>,
    /// The declarations at its own depth, in order.
    pub named: Vec<Named<'u>>,
}

/// A declaration of a part.
pub(super) struct Named<'u> {
    /// Its line in the update.
    pub line: usize,
    /// Its name.
    pub name: &'u str,
    /// Its line in the file, if the file has such a line.
    pub place: Option<usize>,
}

/// What a part of an update claims to be; `None` if it shows no line that begins a declaration of the file, or does not look
/// whole.
pub(super) fn claim<'u>(source: &Source, lines: &[&'u str], part: Range<usize>) -> Option<Claim<'u>> {
    let depth = indent(lines[part.start]);
    let shown = &lines[part.clone()];
    let is_in = |line: &&str| is_blank(line) || indent(line).len() >= depth.len();
    if !shown.iter().all(is_in) || !is_balanced(shown) {
        return None;
    }
    let mut named = Vec::new();
    for line in part.clone().filter(|&line| indent(lines[line]) == depth) {
        let Some(key) = key(lines[line]) else { continue };
        let mut places =
            places_of(source, key.name(), move |line| lazy::key(line).filter(|it| *it == key).map(Key::name));
        let place = places.next();
        let is_one = places.next().is_none() && place.is_none_or(|place| indent(source.line(place)) == depth);
        if !is_one {
            return None;
        }
        named.push(Named { line, name: simple(key.name()), place });
    }
    let first = named.iter().find_map(|it| Some((it.line, it.place?)))?;
    (!is_unchanged(source, lines, &part, first)).then(|| Claim { scope: scope(lines, part.start), part, named })
}

/// A name without what it is a part of.
pub(super) fn simple(name: &str) -> &str {
    let end = name.rsplit("::").next().unwrap_or(name);
    end.rsplit('.').next().unwrap_or(end)
}

/// Whether the file already has a part as it is: then it changes nothing.
fn is_unchanged(source: &Source, lines: &[&str], part: &Range<usize>, (line, place): (usize, usize)) -> bool {
    let first = (place + part.start).checked_sub(line);
    first.is_some_and(|first| {
        first + part.len() <= source.line_count()
            && part.clone().zip(first..).all(|(line, place)| lines[line] == source.line(place))
    })
}

/// The name of the line above that is further out.
fn scope<'u>(lines: &[&'u str], at: usize) -> Option<&'u str> {
    let depth = indent(lines[at]).len();
    let is_out = |line: &&&str| !is_blank(line) && !is_marker(line) && indent(line).len() < depth;
    match key(lines[..at].iter().rev().find(is_out)?)? {
        Key::Declares(name) => Some(simple(name)),
        Key::Assigns(_) => None,
    }
}
