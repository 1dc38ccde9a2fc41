//! Parses a claim: every number becomes a speed, a time to first token, a condition, part of a name, or is reported as not
//! understood.
//!
//! Invariant: no number is dropped silently, and none is parsed twice.

use super::figure::{Figure, begins, ends, figure, per_token_unit, speed_unit, time_unit};
use super::vocabulary::*;
use super::{Bound, Claim, ClaimError, Condition, Meaning, StatedValue};

/// Words between a name and its number.
const FILLERS: [&str; 12] =
    ["of", "size", "length", "len", "a", "at", "is", "was", "with", "about", "approximately", "around"];
const FIRST_TOKEN: [&str; 9] = [
    "ttft",
    "first token",
    "first-token",
    "first-token latency",
    "time to first token",
    "time-to-first-token",
    "time to first",
    "first tokens",
    "first token latency",
];
const PER_TOKEN: [&str; 7] =
    ["tpot", "itl", "inter-token latency", "time per output token", "time per token", "time between tokens", "tbt"];

pub(super) fn read(text: &str) -> Result<Claim, ClaimError> {
    let text = plain_text(text);
    let lower = text.to_ascii_lowercase();
    let mut parser = Parser { text: &text, lower: &lower, at: 0, taken: 0, claim: Claim::default() };
    while let Some(start) = parser.next_word() {
        let rest = &lower[start..];
        let end = if rest.starts_with(|first: char| first.is_ascii_digit()) {
            parser.number(start)?
        } else {
            parser.word(start)
        };
        parser.at = end.max(start + 1);
        while !lower.is_char_boundary(parser.at) {
            parser.at += 1;
        }
    }
    Ok(parser.claim)
}

/// The signs that typesetting has in place of plain ones.
fn plain_text(text: &str) -> String {
    let signs: Vec<char> = text.chars().collect();
    let digit = |place: usize| signs.get(place).is_some_and(char::is_ascii_digit);
    let parts_thousands =
        |place: usize| place > 0 && digit(place - 1) && (1..=3).all(|ahead| digit(place + ahead)) && !digit(place + 4);
    let plain = |(place, sign): (usize, &char)| match sign {
        '\u{a0}' | '\u{202f}' | '\u{2009}' if parts_thousands(place) => ',',
        '\u{a0}' | '\u{202f}' | '\u{2009}' | '\n' | '\t' | '*' | '`' => ' ',
        '×' => 'x',
        '–' | '—' | '‑' | '−' => '-',
        '≈' => '~',
        '≤' => '<',
        '≥' => '>',
        '’' => '\'',
        'µ' | 'μ' => 'u',
        other => *other,
    };
    signs.iter().enumerate().map(plain).collect()
}

pub(super) struct Parser<'t> {
    text: &'t str,
    /// The same in lower case, at the same places.
    pub(super) lower: &'t str,
    at: usize,
    /// Up to here words belong to a number before.
    taken: usize,
    claim: Claim,
}

impl<'t> Parser<'t> {
    /// Where the next word begins.
    fn next_word(&self) -> Option<usize> {
        let rest = &self.lower[self.at..];
        rest.find(|sign: char| sign.is_alphanumeric() || sign == '$').map(|skipped| self.at + skipped)
    }

    pub(super) fn add_condition(&mut self, condition: Condition, start: usize, end: usize) {
        let value = self.text[start..end].trim().to_owned();
        match self.claim.conditions.iter_mut().find(|(named, _)| *named == condition) {
            Some((_, known)) if known.split(", ").any(|part| part == value) => {}
            Some((_, known)) => *known = format!("{known}, {value}"),
            None => self.claim.conditions.push((condition, value)),
        }
    }

    /// The text before a position that is not consumed yet, without fillers.
    fn before(&self, start: usize) -> &'t str {
        let mut before = &self.lower[self.taken.min(start)..start];
        loop {
            let trimmed = before.trim_end_matches([' ', '=', ':', '~', '<', '>', '(', '-']);
            let word = trimmed.rsplit(' ').next().unwrap_or_default();
            match FILLERS.contains(&word) {
                true => before = &trimmed[..trimmed.len() - word.len()],
                false => return trimmed,
            }
        }
    }

    /// Where the name directly before a position begins, if there is one.
    pub(super) fn named_before(&self, start: usize, names: &[&str]) -> Option<usize> {
        let before = self.before(start);
        let from = self.taken.min(start);
        let whole = |name: &&&str| {
            before.strip_suffix(**name).is_some_and(|head| !head.ends_with(|last: char| last.is_alphanumeric()))
        };
        let name = names.iter().filter(whole).max_by_key(|name| name.len())?;
        Some(from + before.len() - name.len())
    }

    /// The part of the sentence that a place lies in.
    fn clause(&self, place: usize) -> &'t str {
        let parts = |(at, sign): &(usize, char)| match sign {
            ';' | '(' | ')' => true,
            ',' | '.' => !self.lower[at + 1..].starts_with(|next: char| next.is_alphanumeric()),
            _ => false,
        };
        let cut = |(at, _): (usize, char)| at;
        let start = self.lower[..place].char_indices().filter(parts).map(cut).next_back().map_or(0, |at| at + 1);
        let end = self.lower[place..].char_indices().map(|(at, sign)| (place + at, sign)).find(parts);
        &self.lower[start..end.map_or(self.lower.len(), cut)]
    }

    /// Parses a word that does not begin with a digit; returns where to continue.
    fn word(&mut self, start: usize) -> usize {
        let rest = &self.lower[start..];
        if rest.starts_with('$') {
            return self.not_understood(start, start + 1);
        }
        let lists: [(Condition, &[&str]); 7] = [
            (Condition::Provider, PROVIDERS),
            (Condition::Provider, CHIPS),
            (Condition::Precision, PRECISIONS),
            (Condition::Load, LOAD_WORDS),
            (Condition::Statistic, STATISTICS),
            (Condition::Tokens, TOKENS),
            (Condition::Place, PLACES),
        ];
        let found = lists.iter().filter_map(|(condition, list)| Some((begins(rest, list)?, *condition)));
        if let Some((word, condition)) = found.max_by_key(|(word, _)| word.len()) {
            let mut end = start + word.len();
            if condition == Condition::Place {
                end = start + word_length(rest);
            } else if PROVIDERS.contains(&word) {
                end += version_length(&self.lower[end..]);
            } else if CHIPS.contains(&word) {
                end += begins(&self.lower[end..], &[" pro", " max", " ultra"]).map_or(0, str::len);
            }
            self.add_condition(condition, start, end);
            return end;
        }
        let begins_with = |list: &[&str]| list.iter().any(|name| rest.starts_with(name));
        if begins_with(HARDWARE) {
            let end = start + self.hardware(start);
            self.add_condition(Condition::Provider, start, end);
            return end;
        }
        let family = MODELS.iter().filter_map(|family| rest.strip_prefix(family));
        if family.into_iter().any(|behind| !behind.starts_with(|next: char| next.is_alphabetic())) {
            return self.model(start, start);
        }
        start + word_length(rest)
    }

    /// Parses a number; returns where to continue.
    fn number(&mut self, start: usize) -> Result<usize, ClaimError> {
        let Some(figure) = figure(&self.lower[start..]) else { return Ok(start + word_length(&self.lower[start..])) };
        let end = match self.speed(start, &figure)? {
            Some(end) => end,
            None => match self.time(start, &figure)? {
                Some(end) => end,
                None => self
                    .condition(start, &figure)
                    .unwrap_or_else(|| self.not_understood(start, start + figure.with_scale)),
            },
        };
        self.taken = end;
        Ok(end)
    }

    fn ensure_clear(&self, start: usize, figure: &Figure) -> Result<(), ClaimError> {
        // `8 500 tok/s`: one number or two.
        let head = self.lower[..start].trim_end_matches(' ');
        let digits = head.len() - head.trim_end_matches(|sign: char| sign.is_ascii_digit()).len();
        let single = start == head.len() + 1 && start > self.taken && (1..=3).contains(&digits);
        let word = &head[..head.len() - digits];
        let parted =
            single && figure.length == 3 && !word.ends_with(|last: char| last.is_alphanumeric() || last == '-');
        if !figure.is_ambiguous && !parted {
            return Ok(());
        }
        let number =
            if parted { &self.text[head.len() - digits..start + 3] } else { &self.text[start..start + figure.length] };
        let message = format!(
            "`{number}` can be read in two ways; write thousands with a comma or not at all (10,500 or 10500) and decimals with a point"
        );
        Err(ClaimError { message })
    }

    fn stated(&self, start: usize, end: usize, low: f64, high: f64) -> StatedValue {
        let behind = &self.lower[end..];
        let bound = if self.named_before(start, AT_MOST).is_some() || self.sign_before(start) == Some('<') {
            Bound::AtMost
        } else if self.named_before(start, AT_LEAST).is_some()
            || self.sign_before(start) == Some('>')
            || behind.starts_with('+')
        {
            Bound::AtLeast
        } else {
            Bound::Plain
        };
        StatedValue { low, high, bound, meaning: None }
    }

    fn sign_before(&self, start: usize) -> Option<char> {
        self.lower[..start].trim_end().chars().next_back()
    }

    /// Reads the number as a speed.
    fn speed(&mut self, start: usize, figure: &Figure) -> Result<Option<usize>, ClaimError> {
        let plus = usize::from(self.lower[start + figure.with_scale..].starts_with('+'));
        let unit_at = start + figure.with_scale + plus;
        let (mut stated, kind, end) = if let Some(unit) = speed_unit(&self.lower[unit_at..]) {
            let each = figure.scale * unit.per_second;
            let stated = self.stated(start, start + figure.with_scale, figure.low * each, figure.high * each);
            (stated, unit.kind.to_owned(), unit_at + unit.length)
        } else if let Some((seconds, end)) = self.per_token(start, figure) {
            let stated =
                self.stated(start, start + figure.length, 1.0 / (figure.high * seconds), 1.0 / (figure.low * seconds));
            let bound = match stated.bound {
                Bound::Plain => Bound::Plain,
                Bound::AtMost => Bound::AtLeast,
                Bound::AtLeast => Bound::AtMost,
            };
            (StatedValue { bound, ..stated }, String::new(), end)
        } else {
            return Ok(None);
        };
        self.ensure_clear(start, figure)?;
        if !(stated.low > 0.0 && stated.high.is_finite()) {
            return Ok(None);
        }
        let each = [
            "/user",
            " per user",
            "/gpu",
            " per gpu",
            "/request",
            " per request",
            "/stream",
            " per stream",
            "/chip",
            " per chip",
        ];
        let end = end + begins(&self.lower[end..], &each).map_or(0, str::len);
        stated.meaning = self.meaning(start, end, &kind);
        if let Some(at) = self.named_before(start, UP_TO) {
            self.add_condition(Condition::Statistic, at, start);
        }
        if kind == "total" {
            self.add_condition(Condition::Tokens, start + figure.with_scale, end);
        }
        self.claim.speeds.push(stated);
        Ok(Some(end))
    }

    /// A time per token: seconds in its unit, and where it ends.
    fn per_token(&self, start: usize, figure: &Figure) -> Option<(f64, usize)> {
        let at = start + figure.length;
        if let Some((seconds, length)) = per_token_unit(&self.lower[at..]) {
            return Some((seconds, at + length));
        }
        let (seconds, length) = time_unit(&self.lower[at..])?;
        self.is_about(start, at + length, &PER_TOKEN).then_some((seconds, at + length))
    }

    /// Whether one of the names occurs shortly before a number, without another number between, or directly after it.
    fn is_about(&self, start: usize, end: usize, names: &[&str]) -> bool {
        let clause_start = self.clause(start).as_ptr() as usize - self.lower.as_ptr() as usize;
        let before = &self.lower[self.taken.max(clause_start).min(start)..start];
        let whole = |text: &str, name: &str| {
            text.match_indices(name).any(|(at, _)| {
                !text[..at].ends_with(|last: char| last.is_alphanumeric()) && ends(&text[at + name.len()..])
            })
        };
        let behind = self.lower[end..].trim_start();
        let behind = ["for the ", "to the ", "until the ", "for ", "to ", "until ", "("]
            .iter()
            .find_map(|word| behind.strip_prefix(word))
            .unwrap_or(behind);
        names.iter().any(|name| whole(before, name)) || begins(behind, names).is_some()
    }

    /// Which speed the words around it name.
    fn meaning(&self, start: usize, end: usize, kind: &str) -> Option<Meaning> {
        let clause = self.clause(start);
        let unit = &self.lower[start..end];
        let whole = |words: &[&str]| {
            words.iter().any(|word| {
                clause.match_indices(word).any(|(at, _)| {
                    let head = &clause[..at];
                    (word.starts_with('/') || !head.ends_with(|last: char| last.is_alphanumeric()))
                        && ends(&clause[at + word.len()..])
                })
            })
        };
        let llama_bench = |prefix: &str| {
            clause.split([' ', ':', '=']).any(|word| {
                word.strip_prefix(prefix)
                    .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
            })
        };
        if ["user", "request", "stream"].iter().any(|each| unit.ends_with(each))
            || whole(&[
                "per user",
                "per-user",
                "per request",
                "per stream",
                "each user",
                "single stream",
                "single-stream",
            ])
        {
            Some(Meaning::OutputSpeed)
        } else if ["input", "prompt", "prefill"].contains(&kind)
            || whole(&["prefill", "prompt processing", "prompt eval", "prompt eval rate"])
            || llama_bench("pp")
        {
            Some(Meaning::PrefillSpeed)
        } else if ["total", "combined"].contains(&kind)
            || unit.ends_with("gpu")
            || unit.ends_with("chip")
            || whole(&[
                "throughput",
                "aggregate",
                "aggregated",
                "in total",
                "system-wide",
                "per gpu",
                "per chip",
                "all users",
                "per node",
            ])
        {
            Some(Meaning::Throughput)
        } else if whole(&["end-to-end", "end to end", "e2e"]) {
            Some(Meaning::EndToEndSpeed)
        } else if kind == "decode"
            || whole(&["output speed", "decode", "eval rate"])
            || llama_bench("tg")
            || unit.contains("ms")
        {
            Some(Meaning::OutputSpeed)
        } else {
            None
        }
    }

    /// Reads the number as a time: to the first token, or of a measurement.
    fn time(&mut self, start: usize, figure: &Figure) -> Result<Option<usize>, ClaimError> {
        let at = start + figure.length;
        let Some((seconds, length)) = time_unit(&self.lower[at..]) else { return Ok(None) };
        let end = at + length;
        if self.is_about(start, end, &FIRST_TOKEN) {
            self.ensure_clear(start, figure)?;
            let stated =
                self.stated(start, start + figure.length, figure.low * seconds * 1e3, figure.high * seconds * 1e3);
            if stated.low > 0.0 {
                self.claim.first_tokens.push(stated);
                return Ok(Some(end));
            }
        }
        if let Some(at) = self.named_before(start, &["for", "over", "during", "in the last", "run"]) {
            self.add_condition(Condition::Sample, at, end);
            return Ok(Some(end));
        }
        Ok(Some(self.not_understood(start, end)))
    }

    /// Records a number that is not understood, with its context; returns where to continue.
    pub(super) fn not_understood(&mut self, start: usize, end: usize) -> usize {
        let tail = &self.lower[end..];
        let word = word_length(tail);
        let next = &tail[word..];
        let further = next.strip_prefix(' ').map_or(0, |next| 1 + word_length(next));
        let shown = self.text[start..end + word + further].trim_end_matches(['.', ' ']);
        self.claim.not_understood.push(shown.to_owned());
        end + word
    }
}

/// Length of a leading version such as ` 0.6.1`, unless a unit follows.
fn version_length(text: &str) -> usize {
    let Some(rest) = text.strip_prefix(' ') else { return 0 };
    let word = &rest[..word_length(rest)];
    let number = word.strip_prefix('v').unwrap_or(word);
    let is_version = number.contains('.') && number.chars().all(|sign| sign.is_ascii_digit() || sign == '.');
    let has_unit = figure(rest).is_some_and(|figure| has_unit(&rest[figure.with_scale..]));
    if is_version && !has_unit { 1 + word.len() } else { 0 }
}

/// Whether a unit handled elsewhere follows.
pub(super) fn has_unit(text: &str) -> bool {
    speed_unit(text).is_some() || per_token_unit(text).is_some() || time_unit(text).is_some()
}

/// How long the word is at the beginning of a text; a point at its end does not belong to it.
pub(super) fn word_length(text: &str) -> usize {
    let length =
        text.find([' ', ',', ';', '(', ')', '[', ']', ':', '=', '"', '<', '>', '~', '|', '+']).unwrap_or(text.len());
    text[..length].trim_end_matches(['.', '!', '?', '\'']).len()
}
