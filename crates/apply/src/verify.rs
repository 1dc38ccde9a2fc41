//! Checks a merged text against the original and the update.
//!
//! Invariant: a text that fails a check is refused, and a skipped check has a reason.

mod brackets;
#[cfg(feature = "tree")]
mod declarations;
mod parts;
mod provenance;
#[cfg(feature = "tree")]
mod syntax;
mod tags;

use crate::options::Options;
use crate::outcome::{Check, Checks, Code, Format, Refused};
use crate::parsed::{ParseProvider, Parsed};
use crate::source::Source;
use crate::splice::Splice;
use std::borrow::Cow;

/// The merge itself fills this in when the update can be merged into its result.
const NOT_DONE_HERE: Check = Check::Skipped("the update names no single place in its result");
const NO_TREE: Check = Check::Skipped("the syntax tree was not asked for");

/// Holds a merged text against its sources. The splices come in order.
pub(crate) fn verify(
    source: &Source,
    splices: &[Splice],
    text: &str,
    update: &str,
    format: Format,
    options: &Options,
    provider: ParseProvider<'_>,
) -> Result<Checks, Refused> {
    let parsed = provider(text);
    provenance::check_order(source, splices)?;
    // Of most files the text with LF is the text itself. It is not kept while trees are.
    let is_lf = is_spliced(source, splices, text);
    let lf = || if is_lf { Cow::Borrowed(text) } else { Cow::Owned(spliced(source, splices)) };
    let provenance = provenance::check(source, splices, &lf(), text, update)?;
    parts::check(source, &lf(), update, format)?;
    let (parse, declarations) =
        if options.without_tree { (NO_TREE, NO_TREE) } else { trees(source, splices, options, parsed.as_deref())? };
    // A parser is more exact than a count of brackets, but that of HTML closes tags itself.
    let brackets = match (tags::check(source, splices, &lf(), options), parse) {
        (Some(checked), _) => checked?,
        (None, Check::Passed) => Check::Skipped("the parser decided"),
        (None, Check::Skipped(_)) => brackets::check(source, splices, &lf(), options.language())?,
    };
    Ok(Checks { provenance, brackets, parse, declarations, idempotence: NOT_DONE_HERE })
}

#[cfg(feature = "tree")]
fn trees(
    source: &Source,
    splices: &[Splice],
    options: &Options,
    parsed: Option<&Parsed>,
) -> Result<(Check, Check), Refused> {
    syntax::check(source, splices, options.language(), parsed)
}

#[cfg(not(feature = "tree"))]
#[allow(clippy::unnecessary_wraps, reason = "the same shape as with a tree")]
fn trees(_: &Source, _: &[Splice], _: &Options, _: Option<&Parsed>) -> Result<(Check, Check), Refused> {
    let check = Check::Skipped("no grammar is built in");
    Ok((check, check))
}

/// The text with LF that splices, in order, make of a source.
pub(crate) fn spliced(source: &Source, splices: &[Splice]) -> String {
    source.spliced(splices, 0..source.text.len())
}

/// The refusal of a merged text in which a bracket or tag that begins at a byte has no partner.
fn without_partner(
    source: &Source,
    splices: &[Splice],
    text: &str,
    at: usize,
    found: &str,
    hint: &'static str,
) -> Refused {
    let line = text[..at].matches('\n').count() + 1;
    let near = splices.iter().map(|splice| {
        let last = source.line_of(splice.old.end.saturating_sub(1).max(splice.old.start));
        (source.line_of(splice.old.start), last)
    });
    Refused::new(Code::SyntaxRegression, format!("line {line}: {found}"), hint).at(near)
}

/// Whether a text is what splices, in order, make of a source.
fn is_spliced(source: &Source, splices: &[Splice], text: &str) -> bool {
    let mut rest = text;
    let mut goes_on = |piece: &str| rest.strip_prefix(piece).map(|after| rest = after).is_some();
    let mut at = 0;
    let pieces = splices.iter().all(|splice| {
        let kept = &source.text[at..splice.old.start];
        at = splice.old.end;
        goes_on(kept) && goes_on(&splice.new)
    });
    pieces && rest == &source.text[at..]
}

/// The line of the source at the place of a line of the spliced text, both counted from 0.
#[cfg(feature = "tree")]
fn line_before(source: &Source, splices: &[Splice], line: usize) -> usize {
    let mut grown: isize = 0;
    for splice in splices {
        let first = source.line_of(splice.old.start);
        if (first as isize + grown) as usize > line {
            break;
        }
        let (old, new) = (source.text[splice.old.clone()].matches('\n').count(), splice.new.matches('\n').count());
        if line <= (first as isize + grown) as usize + new {
            return first.min(source.line_count().saturating_sub(1));
        }
        grown += new as isize - old as isize;
    }
    ((line as isize - grown).max(0) as usize).min(source.line_count().saturating_sub(1))
}

#[cfg(test)]
mod tests;
