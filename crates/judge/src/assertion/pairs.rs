//! Assertions in the form of other tools' objectives: `ttft:400 tpot:50` and `p99_ttft_ms:400`.
//!
//! Invariant: a pair without a statistic is of every request, as it is in those tools, and failed requests do not keep it.

use super::lookup::{Subject, subject_of};
use super::{Assertion, canonical_spelling, load_filter, unit_factor};
use crate::expression::{Cursor, ExpressionError, Relation, suggestion};
use tokrate_record::{Metric, MetricUnit};

/// Whether a text is a list of pairs; what has a relation is an assertion of our own.
pub(super) fn is_list(text: &str) -> bool {
    let left = text.split('@').next().unwrap_or_default();
    left.contains(':') && !left.contains(['<', '>', '≤', '≥'])
}

/// Reads `NAME:BOUND …`, with `@` and a load behind the last for all of them.
pub(super) fn read(text: &str) -> Result<Vec<Assertion>, ExpressionError> {
    let mut cursor = Cursor::new(text);
    let mut assertions = Vec::new();
    while !cursor.is_over() && !cursor.text_here().starts_with('@') {
        assertions.push(pair(&mut cursor)?);
        cursor.take(',');
    }
    let place = load_filter(&mut cursor)?;
    cursor.end("@ and a load, or the end")?;
    assertions.iter_mut().for_each(|assertion| assertion.place = place);
    Ok(assertions)
}

/// One pair: an upper limit of a time in milliseconds, a lower one of a speed, a share or a rate.
fn pair(cursor: &mut Cursor<'_>) -> Result<Assertion, ExpressionError> {
    let at = cursor.here();
    let word = cursor.word(&['.', '(', ')']);
    let (subject, statistic) = named(word).map_err(|message| cursor.error(at, message))?;
    let sign_at = cursor.here();
    if !cursor.take(':') {
        return Err(cursor.error(sign_at, format!("expected a colon and a number{}", cursor.found(sign_at))));
    }
    let number = cursor.number()?;
    let unit_at = cursor.position();
    let wanted = subject.unit_of(statistic);
    let bound = match number_unit(cursor) {
        "" => number,
        unit if wanted == MetricUnit::Milliseconds && unit != "ms" => {
            let message = format!("`{unit}` stands behind a number that is in ms in this form");
            return Err(cursor.error(unit_at, message));
        }
        _ if wanted == MetricUnit::Milliseconds => number,
        unit => {
            number
                * unit_factor(&mut Cursor::new(unit), wanted, None).map_err(|it| cursor.error(unit_at, it.message))?
        }
    };
    let relation = if subject.is_time() { Relation::AtMost } else { Relation::AtLeast };
    Ok(Assertion { subject, statistic, relation, bound, place: super::LoadFilter::Any })
}

/// The unit that hangs on a number; empty where a space or the next pair follows.
fn number_unit<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    let hangs = cursor.text_here().starts_with(|symbol: char| symbol.is_alphabetic() || symbol == '%');
    if hangs { cursor.word(&['/', 'µ', '%']) } else { "" }
}

/// The value that a name stands for, or why there is none.
fn named(word: &str) -> Result<(Subject, &'static str), String> {
    let spelled = canonical_spelling(word).unwrap_or_else(|| word.to_lowercase());
    let (name, statistic) = spelled.split_once('.').map_or((spelled.as_str(), None), |(name, of)| (name, Some(of)));
    let name = name.strip_suffix("_ms").unwrap_or(name);
    let metric = Metric::from_other_tools_name(name);
    match (statistic, metric) {
        (Some(statistic), _) => {
            let subject = subject_of(name).ok_or_else(|| unknown(word, name))?;
            let statistics = || subject.statistics().iter().map(|known| format!(".{known}")).collect::<Vec<_>>();
            let found = subject.statistic(statistic).ok_or_else(|| {
                format!("`{statistic}` is no statistic of {}; it has {}", subject.name(), statistics().join(", "))
            })?;
            // A pair says nothing of the direction of what is neither a time nor a speed.
            match subject {
                Subject::Metric(_) | Subject::Adjusted(_) => Ok((subject, found)),
                Subject::Group(_) => Err(format!("`{word}` needs a relation, such as {word} < 1%")),
            }
        }
        (None, Some(metric)) if metric.is_speed() => {
            Err(format!("`{word}` is a speed of each request; say of which, such as {}.median:30", metric.name()))
        }
        (None, Some(metric)) => {
            let adjusted = subject_of(&format!("adj_{}", metric.name()));
            Ok((adjusted.unwrap_or(Subject::Metric(metric)), "max"))
        }
        (None, None) => Err(unknown(word, name)),
    }
}

fn unknown(word: &str, name: &str) -> String {
    format!("`{word}` is no metric of a request{}", suggestion(name, &["ttft", "tpot", "e2el"]))
}
