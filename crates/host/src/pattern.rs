//! Texts that a regular expression matches: for `pattern` in a JSON Schema.
//!
//! Invariant: the text that comes out is matched by the pattern from its beginning to its end.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use tokrate_core::Rng;

/// Most repetitions beyond the least that are drawn.
const MAX_MORE: u64 = 4;
/// Most parts of a pattern that are gone through for one text.
const MAX_STEPS: u32 = 20_000;

/// Draws a text that a pattern matches.
///
/// # Errors
/// What is wrong with the pattern, as a sentence.
pub(crate) fn text_of(pattern: &str, rng: &mut Rng) -> Result<String, String> {
    // Of ASCII, for which no tables are needed: 0.7 MB of a program.
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
    let parsed = parser.parse(pattern).map_err(|_| {
        format!("the simulated engine makes no text for the pattern `{pattern}`: it is no regular expression without look-around")
    })?;
    let (mut text, mut steps) = (String::new(), MAX_STEPS);
    match push(&parsed, rng, &mut text, &mut steps) {
        Some(()) => Ok(text),
        None => Err(format!(
            "the simulated engine makes no text for the pattern `{pattern}`: none matches, or all are too long"
        )),
    }
}

/// `None` if there is no such text, or it takes too many steps.
fn push(pattern: &Hir, rng: &mut Rng, text: &mut String, steps: &mut u32) -> Option<()> {
    *steps = steps.checked_sub(1)?;
    match pattern.kind() {
        // Line starts, word boundaries: the text begins and ends where the pattern does.
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
        HirKind::Class(class) => text.push(character(class, rng)?),
        HirKind::Repetition(repetition) => {
            let least = u64::from(repetition.min);
            let most = repetition.max.map_or(least + MAX_MORE, u64::from).min(least + MAX_MORE);
            for _ in 0..least + rng.below(most - least + 1) {
                push(&repetition.sub, rng, text, steps)?;
            }
        }
        HirKind::Capture(capture) => push(&capture.sub, rng, text, steps)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| push(part, rng, text, steps))?,
        HirKind::Alternation(choices) => push(&choices[rng.below(choices.len() as u64) as usize], rng, text, steps)?,
    }
    Some(())
}

/// A character of a class, one of ASCII if there are such.
fn character(class: &Class, rng: &mut Rng) -> Option<char> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    let printable =
        ranges.iter().map(|&(start, end)| (start.max(0x20), end.min(0x7e))).filter(|(start, end)| start <= end);
    let printable: Vec<(u32, u32)> = printable.collect();
    let ranges = if printable.is_empty() { ranges } else { printable };
    let (start, end) = *ranges.get(rng.below(ranges.len().max(1) as u64) as usize)?;
    char::from_u32(start + rng.below(u64::from(end - start) + 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::text_of;
    use proptest::prelude::{any, prop_assert, proptest};
    use regex::Regex;
    use tokrate_core::Rng;

    const PATTERNS: [&str; 8] = [
        "^[A-Z]{2}-[0-9]{4}$",
        "^(yes|no)$",
        r"^\d{3}-\d{2}-\d{4}$",
        "^[a-z0-9_.]+@[a-z]+\\.(com|org)$",
        "^#?([a-f0-9]{6}|[a-f0-9]{3})$",
        "^.*$",
        r"^\w+\s\w+$",
        "^a?b*c+$",
    ];

    proptest! {
        #[test]
        fn a_text_is_matched_by_its_pattern(seed in any::<u64>()) {
            for pattern in PATTERNS {
                let text = text_of(pattern, &mut Rng::root(seed)).expect("it is understood");
                prop_assert!(Regex::new(pattern).expect("a pattern").is_match(&text), "{pattern}: {text:?}");
            }
        }
    }

    #[test]
    fn what_looks_ahead_is_refused_by_name() {
        let error = text_of("(?=a)b", &mut Rng::root(1)).expect_err("look-ahead");
        assert!(error.contains("(?=a)b"), "{error}");
    }
}
