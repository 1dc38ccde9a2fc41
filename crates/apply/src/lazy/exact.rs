//! Snippets that the file already has: each segment occurs in it line by line, at one place.
//!
//! Invariant: what it returns is the one way of the highest score under every weighing, because each
//! line is matched, none goes, each marker that is there stands for something, and no other way has all three.

use super::align::{Problem, Step, Token};
use super::lines::Lines;
use super::prepared::PreparedSnippet;

/// The steps of the only way that matches everything, if there is one.
pub(crate) fn steps(prepared: &PreparedSnippet<'_>, lines: &Lines<'_>, problem: &Problem<'_>) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::with_capacity(prepared.len());
    let mut at = 0;
    for segment in &prepared.segments {
        let ids: Vec<u32> = segment.clone().map(|token| Some(prepared.known[token]?.id)).collect::<Option<_>>()?;
        let once = segment.clone().position(|token| prepared.known[token].is_some_and(|known| known.count == 1));
        let first = match once {
            Some(offset) => lines.place_of_first(ids[offset])?.checked_sub(offset)?,
            None => {
                let mut places = lines.runs(&ids);
                places.next().filter(|_| places.next().is_none())?
            }
        };
        if first < at || !lines.ids[first..].starts_with(&ids) {
            return None;
        }
        steps.push(Step::Kept(at, first));
        steps.extend((first..first + ids.len()).map(Step::Matched));
        at = first + ids.len();
    }
    steps.push(Step::Kept(at, lines.ids.len()));
    let costs_nothing = |(token, step): (&Token, &Step)| match (token, *step) {
        (Token::Marker { empty, some }, Step::Kept(from, to)) => from == to && *empty == 0 || from < to && *some == 0,
        (Token::Line(line), Step::Matched(_)) => line.replaces.is_empty(),
        _ => false,
    };
    let fits = |(place, step): (usize, &Step)| match *step {
        Step::Matched(line) => problem.rows[place + 1].contains(&(line + 1)),
        Step::Kept(_, to) => problem.rows[place + 1].contains(&to),
        Step::Replaces(_) | Step::New(_) => false,
    };
    let is_whole = steps.len() == prepared.len();
    (is_whole && problem.tokens.iter().zip(&steps).all(costs_nothing) && steps.iter().enumerate().all(fits))
        .then_some(steps)
}
