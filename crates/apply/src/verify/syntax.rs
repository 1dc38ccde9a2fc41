//! Syntax: the parser finds no error that the original has not.
//!
//! Skipped if the original does not parse. Invariant: the original is parsed once.

use super::{declarations, line_before, spliced};
use crate::language::Language;
use crate::outcome::{Check, Code, Refused};
use crate::parsed::Parsed;
use crate::source::Source;
use crate::splice::Splice;
use crate::tree::{errors, head_without_block, parse, parse_again};

/// Checks the syntax, and with the same trees the declarations.
pub(super) fn check(
    source: &Source,
    splices: &[Splice],
    language: Option<Language>,
    parsed: Option<&Parsed>,
) -> Result<(Check, Check), Refused> {
    let skipped = |reason| Ok((Check::Skipped(reason), Check::Skipped(reason)));
    let Some(language) = language else { return skipped("the language is not known") };
    if !language.is_built_in() {
        return skipped("the language is not built in");
    }
    if splices.is_empty() {
        return Ok((Check::Passed, Check::Passed));
    }
    let known = parsed.and_then(|parsed| parsed.tree_of(language, &source.text));
    let Some(old) = known.unwrap_or_else(|| parse(language, &source.text)) else {
        return skipped("the original is too much to parse");
    };
    if old.root_node().has_error() {
        return skipped("the parser finds errors in the original too");
    }
    let text = spliced(source, splices);
    let Some(new) = parse_again(language, source, &old, splices, &text) else {
        return skipped("the merged text is too much to parse");
    };
    if new.root_node().has_error() {
        // One error node may span the whole file, so the first one from the change on is reported.
        let changed = source.line_of(splices[0].old.start);
        let line = errors(&new).into_iter().find(|&line| line >= changed).unwrap_or(changed);
        let before = line_before(source, splices, line);
        return Err(Refused::new(
            Code::SyntaxRegression,
            format!("line {}: the merged text has a syntax error that the original has not", line + 1),
            "show the lines around the change whole, with their brackets",
        )
        .at([(before, before)]));
    }
    if language == Language::Python
        && let Some(line) = head_without_block(&new)
        && head_without_block(&old).is_none()
    {
        let before = line_before(source, splices, line);
        let message = format!("line {}: the merged text has no line below this head, which the original has", line + 1);
        return Err(Refused::new(Code::SyntaxRegression, message, "write `pass`, or remove the head as well")
            .at([(before, before)]));
    }
    let declarations = declarations::check(language, source, splices, old, &text, new)?;
    Ok((Check::Passed, declarations))
}
