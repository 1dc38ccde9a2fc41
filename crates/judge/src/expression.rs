//! Tokenizer for short expressions such as `ttft_ms<500`: words, comparisons, numbers, units, each with its column.
//!
//! Invariant: every error has the column (from 1, in characters), what was expected there, and the nearest known name for a
//! misspelt one.

use serde::{Deserialize, Serialize};
use std::fmt;
use tokrate_core::edit_distance;

/// Syntax error in an expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpressionError {
    /// The whole text.
    pub text: String,
    /// Where the error is, in characters counted from 1.
    pub column: usize,
    /// What is wrong there, and what was expected.
    pub message: String,
    /// A valid example.
    pub example: String,
}

impl ExpressionError {
    /// The same with another example.
    pub(crate) fn with_example(self, example: impl Into<String>) -> ExpressionError {
        ExpressionError { example: example.into(), ..self }
    }
}

/// How a value must compare with a bound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Relation {
    /// `<`
    #[serde(rename = "<")]
    Below,
    /// `<=`
    #[serde(rename = "<=")]
    AtMost,
    /// `>`
    #[serde(rename = ">")]
    Above,
    /// `>=`
    #[serde(rename = ">=")]
    AtLeast,
}

impl Relation {
    /// As it is written.
    pub const fn symbol(self) -> &'static str {
        match self {
            Relation::Below => "<",
            Relation::AtMost => "<=",
            Relation::Above => ">",
            Relation::AtLeast => ">=",
        }
    }

    /// Whether the bound is one from above (`<` or `<=`).
    pub const fn is_upper(self) -> bool {
        matches!(self, Relation::Below | Relation::AtMost)
    }

    /// Whether `value` satisfies the bound; NaN never does.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Relation::Below => value < bound,
            Relation::AtMost => value <= bound,
            Relation::Above => value > bound,
            Relation::AtLeast => value >= bound,
        }
    }
}

/// A place in the text.
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    pub fn new(text: &'t str) -> Cursor<'t> {
        Cursor { text, at: 0 }
    }

    /// The byte offset of the next symbol that is no space.
    pub fn here(&mut self) -> usize {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    pub fn is_over(&mut self) -> bool {
        self.here() == self.text.len()
    }

    /// All of it.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The byte offset up to which the text is read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// What is not read yet.
    pub fn text_here(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The next run of letters, digits, `_` and whatever `also` allows; empty if there is none.
    pub fn word(&mut self, also: &[char]) -> &'t str {
        let from = self.here();
        let rest = &self.text[from..];
        let end = rest.find(|symbol: char| !(symbol.is_alphanumeric() || symbol == '_' || also.contains(&symbol)));
        self.at += end.unwrap_or(rest.len());
        &self.text[from..self.at]
    }

    /// Steps over `symbol` if it comes next.
    pub fn take(&mut self, symbol: char) -> bool {
        let from = self.here();
        let found = self.text[from..].starts_with(symbol);
        self.at += if found { symbol.len_utf8() } else { 0 };
        found
    }

    pub fn relation(&mut self) -> Result<Relation, ExpressionError> {
        let from = self.here();
        let signs = [
            ("<=", Relation::AtMost),
            (">=", Relation::AtLeast),
            ("≤", Relation::AtMost),
            ("≥", Relation::AtLeast),
            ("<", Relation::Below),
            (">", Relation::Above),
        ];
        match signs.iter().find(|(sign, _)| self.text[from..].starts_with(sign)) {
            Some((sign, relation)) => {
                self.at += sign.len();
                Ok(*relation)
            }
            None => Err(self.error(from, format!("expected <, <=, > or >={}", self.found(from)))),
        }
    }

    pub fn number(&mut self) -> Result<f64, ExpressionError> {
        let from = self.here();
        let rest = &self.text[from..];
        let numeric = |(place, symbol): &(usize, char)| {
            let exponent = matches!(rest[..*place].chars().last(), Some('e' | 'E'));
            symbol.is_ascii_digit()
                || matches!(symbol, '.' | '_')
                || (matches!(symbol, 'e' | 'E')
                    && rest[place + 1..].starts_with(|next: char| next.is_ascii_digit() || next == '-'))
                || (*symbol == '-' && (*place == 0 || exponent))
        };
        let length = rest.char_indices().take_while(numeric).count();
        let digits = rest[..length].replace('_', "");
        match digits.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                self.at += length;
                Ok(number)
            }
            _ => Err(self.error(from, format!("expected a number{}", self.found(from)))),
        }
    }

    /// An error at a byte offset of the text.
    pub fn error(&self, at: usize, message: String) -> ExpressionError {
        let column = self.text[..at].chars().count() + 1;
        ExpressionError { text: self.text.to_owned(), column, message, example: String::new() }
    }

    /// Fails unless the text is over.
    pub fn end(&mut self, expected: &str) -> Result<(), ExpressionError> {
        let from = self.here();
        if self.is_over() { Ok(()) } else { Err(self.error(from, format!("expected {expected}{}", self.found(from)))) }
    }

    /// The word at an offset, for the end of a message.
    pub fn found(&self, at: usize) -> String {
        let rest: String = self.text[at..].chars().take(12).collect();
        if rest.is_empty() { ", and the text ends".to_owned() } else { format!(", found `{}`", rest.trim_end()) }
    }
}

/// The known names nearest to a misspelt one, as the end of a message: `; did you mean ...?` or the whole list.
#[inline(never)]
pub(crate) fn suggestion(word: &str, known: &[&str]) -> String {
    match nearest(word, known).as_slice() {
        [] => format!("; known are {}", known.join(", ")),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

/// The known names that a misspelt one could stand for, the nearest first; at most three.
pub fn nearest<'n>(word: &str, known: &[&'n str]) -> Vec<&'n str> {
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|name| (edit_distance(word, name), *name))
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3) || (word.len() > 2 && name.starts_with(word)))
        .collect();
    near.sort_unstable();
    near.truncate(3);
    near.into_iter().map(|(_, name)| name).collect()
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExpressionError { text, column, message, example } = self;
        let end = if message.ends_with('?') { " Write" } else { "; write" };
        write!(formatter, "`{text}`, column {column}: {message}{end} for example '{example}'")
    }
}

impl std::error::Error for ExpressionError {}

/// The number that a text holds something to, as it was typed, and the unit behind it: what stands behind the relation or the colon.
pub(crate) fn bound_in(text: &str) -> Option<(&str, &str)> {
    let behind = &text[text.find(['<', '>', '≤', '≥', ':'])?..];
    let behind = behind.trim_start_matches(['<', '>', '≤', '≥', '=', ':', ' ', '-']);
    let end = behind.find(|symbol: char| !(symbol.is_ascii_digit() || symbol == '.')).unwrap_or(behind.len());
    let (number, rest) = behind.split_at(end);
    number.parse::<f64>().ok()?;
    let unit = rest.trim_start();
    let end = unit.find(|symbol: char| !(symbol.is_alphabetic() || matches!(symbol, '/' | '%'))).unwrap_or(unit.len());
    Some((number, &unit[..end]))
}

/// Milliseconds in a unit of time.
pub(crate) fn milliseconds_in(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-6),
        "us" | "µs" => Some(1e-3),
        "ms" => Some(1.0),
        "s" => Some(1e3),
        "min" => Some(6e4),
        _ => None,
    }
}

/// Whether a unit is one of tokens per second.
pub(crate) fn is_speed_unit(unit: &str) -> bool {
    matches!(unit, "tok/s" | "tokens/s" | "tps" | "t/s" | "per_second")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known = ["ttft", "ttfb", "tpot", "output_speed"];
        assert_eq!(suggestion("ttt", &known), "; did you mean ttft or tpot or ttfb?");
        assert_eq!(suggestion("output", &known), "; did you mean output_speed?");
        assert_eq!(suggestion("zebra", &known), "; known are ttft, ttfb, tpot, output_speed");
    }

    #[test]
    fn numbers_are_read_with_exponents_and_not_into_their_units() {
        let read = |text| {
            let mut cursor = Cursor::new(text);
            (cursor.number().ok(), cursor.word(&['/']).to_owned())
        };
        assert_eq!(read("500ms"), (Some(500.0), "ms".into()));
        assert_eq!(read("1e3 ms"), (Some(1000.0), "ms".into()));
        assert_eq!(read("1.5e-2"), (Some(0.015), String::new()));
        assert_eq!(read("12_000 tok/s"), (Some(12_000.0), "tok/s".into()));
        assert_eq!(read("-3"), (Some(-3.0), String::new()));
        assert_eq!(read("3e"), (Some(3.0), "e".into()));
        for bad in ["", "x", ".", "1.2.3", "1e999"] {
            assert_eq!(read(bad).0, None, "{bad}");
        }
    }

    #[test]
    fn the_bound_of_a_text_is_found_as_it_was_typed() {
        assert_eq!(bound_in("p95(ttft) <= 0.4 s @ concurrency 3"), Some(("0.4", "s")));
        assert_eq!(bound_in("p99_ttft_ms:400"), Some(("400", "")));
        assert_eq!(bound_in("failures.share<1%"), Some(("1", "%")));
        for none in ["ttft", "ttft < fast @ concurrency 3", "ttft<1.2.3", ""] {
            assert_eq!(bound_in(none), None, "{none}");
        }
    }

    #[test]
    fn a_number_ends_at_a_sign_that_is_not_its_own() {
        let mut cursor = Cursor::new("5-3");
        assert_eq!(cursor.number().ok(), Some(5.0));
    }

    #[test]
    fn two_letters_are_no_beginning_of_a_name() {
        let known = ["end_to_end_latency"];
        assert_eq!(suggestion("en", &known), "; known are end_to_end_latency");
        assert_eq!(suggestion("end", &known), "; did you mean end_to_end_latency?");
    }
}
