//! A badge: one small SVG with the speed and the TTFT of the lowest load.
//!
//! It does not fetch fonts or run anything. Invariant: the picture is well-formed whatever the numbers are, and says at
//! which load they were taken.

use tokrate_bench::report::shows;
use tokrate_record::{PhaseResult, Record};

/// Width of a character at 11 px in the fonts that are named, generously.
const CHARACTER: usize = 7;
const PADDING: usize = 12;
/// What nobody should rely on.
const BAD: &str = "#8a1f1f";

/// The whole file; of several targets the first.
pub fn of(records: &[Record]) -> String {
    let measured = records.iter().take(1).flat_map(|record| &record.phases).filter(|phase| phase.counts.measured > 0);
    let phase = measured.min_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
    let (mut value, mut colour) = phase.map_or_else(|| ("not measured".to_owned(), BAD), label);
    if records.first().is_some_and(tokrate_bench::is_unchecked) {
        value += ", certificate not checked";
        colour = BAD;
    }
    svg("tokrate", &value, colour)
}

fn label(phase: &PhaseResult) -> (String, &'static str) {
    let speed = phase.output_speed.median.value.or(phase.output_speed.median.descriptive);
    let ttft = phase.ttft.p50.nearest_rank();
    // An answer that was not streamed has neither speed nor TTFT.
    let whole = if speed.is_none() && ttft.is_none() { phase.e2e.p50.nearest_rank() } else { None };
    let number = |value: f64| if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    let parts = [
        speed.map(|speed| format!("{} tok/s", number(speed))),
        ttft.map(|ttft| format!("TTFT {} ms", number(ttft))),
        whole.map(|e2e| format!("E2E {} ms", number(e2e))),
        Some(format!("at {}", phase.name)),
    ];
    let text = parts.into_iter().flatten().collect::<Vec<String>>().join(", ");
    let is_invalid = phase.client_error.iter().flat_map(|error| error.invalid()).any(shows) || !phase.gate.is_empty();
    (text, if is_invalid { BAD } else { "#1f5fa8" })
}

fn svg(label: &str, value: &str, colour: &str) -> String {
    let wide = |text: &str| text.chars().count() * CHARACTER + PADDING;
    let (left, right) = (wide(label), wide(value));
    let (label, value) = (escaped(label), escaped(value));
    let whole = left + right;
    let text = |x: usize, width: usize, text: &str| {
        format!(
            r#"<text x="{}" y="14" textLength="{}" lengthAdjust="spacingAndGlyphs">{text}</text>"#,
            x + PADDING / 2,
            width - PADDING
        )
    };
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" aria-label="{label}: {value}">
<title>{label}: {value}</title>
<rect width="{left}" height="20" fill="#333"/>
<rect x="{left}" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
{}
{}
</g>
</svg>
"##,
        text(0, left, &label),
        text(left, right, &value),
    )
}

/// Text that XML takes as text.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\t' => escaped.push(' '),
            // XML 1.0 has no place for the other control characters and for two non-characters.
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}');
            }
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_badge_is_of_the_lowest_load_and_says_that_nobody_checked_who_answered() {
        let mut record = Record::parse(include_str!("testdata/record.json")).expect("a record");
        record.phases.reverse();
        let svg = of(std::slice::from_ref(&record));
        assert!(svg.contains("at concurrency 2<") && !svg.contains("not checked"), "{svg}");
        record.warnings.push("the certificate of the endpoint was not checked (--insecure)".to_owned());
        assert!(of(&[record]).contains("at concurrency 2, certificate not checked<"));
    }
}
