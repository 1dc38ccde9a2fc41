//! Compares the gateway's log with the engines' ledgers and with what the clients received.
//!
//! Nothing may be missing, counted twice or estimated where it was reported. Invariant: every row, every ledger entry
//! and every client is checked.

use super::archive::{self, Uploads};
use super::client::{ClientResult, Outcome};
use super::engines::{INPUT_PRICE, OUTPUT_PRICE, PROFILES};
use super::ledger::{Entry, Ledger, is_text_of};
use super::plan::{BUDGET_USD, Key};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_record::{AttemptEnd, AttemptRole, CostBasis};
use tokrate_store::Attempt;

/// Violations, and the sums for the report.
#[derive(Default)]
pub struct Audit {
    pub violations: Vec<String>,
    pub calls: usize,
    pub rows: usize,
    pub requests: usize,
    /// Rows by how they ended.
    pub ends: BTreeMap<&'static str, u64>,
    /// Attempts that were closed before their engine had read them; no ledger has them.
    pub unread: u64,
    /// Attempts that never reached a socket.
    pub unsent: u64,
    /// Sums by the basis of the cost.
    pub reported: Sums,
    pub estimated: Sums,
    pub free: u64,
    /// Rows of the engine that reports more than it wrote.
    pub dishonest: Sums,
    /// What the key with a budget has spent.
    pub budget_spent_usd: f64,
    /// Answers whose text was compared, and their words.
    pub texts: u64,
    pub words: u64,
    /// Forms that arrived byte for byte, their bytes, and what they cost.
    pub forms: u64,
    pub form_bytes: u64,
    pub form_usd: f64,
}

/// Sums over rows, and over the ledgers' entries for the same attempts.
#[derive(Default, Clone, Copy)]
pub struct Sums {
    pub rows: u64,
    pub input: (u64, u64),
    pub output: (u64, u64),
    pub usd: (f64, f64),
}

impl Sums {
    fn add(&mut self, row: &Attempt, entry: &Entry, output: u64) {
        self.rows += 1;
        self.input.0 += row.sample.input_tokens.or(row.sample.input_tokens_std).unwrap_or(0);
        self.input.1 += entry.input_tokens;
        self.output.0 += output;
        self.output.1 += entry.written;
        self.usd.0 += row.sample.cost_usd.unwrap_or(0.0);
        self.usd.1 += cost(entry.input_tokens, entry.written);
    }
}

/// Clients of one kind: key, alias and dialect are in the log as well.
type Kind<'a> = (&'a str, &'a str, &'a str);

impl Audit {
    /// Checks everything; `seeds` are those of the engines, in their order.
    pub fn run(seen: &[ClientResult], rows: Vec<Attempt>, ledger: &Ledger, uploads: &Uploads, seeds: &[u64]) -> Audit {
        let mut audit = Audit::default();
        audit.budget(&rows);
        let (forms, rows): (Vec<Attempt>, Vec<Attempt>) = rows.into_iter().partition(|row| row.lane == archive::LANE);
        let (senders, seen): (Vec<&ClientResult>, Vec<&ClientResult>) =
            seen.iter().partition(|seen| seen.task.is_upload());
        audit.forms(&senders, &forms, uploads);
        (audit.rows, audit.requests) = (rows.len(), ledger.entries.len());
        let mut calls: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
        rows.iter().for_each(|row| calls.entry(&row.call).or_default().push(row));
        audit.calls = calls.len();
        for name in &ledger.repeated {
            audit.violations.push(format!("{name}: an engine was asked twice for one attempt"));
        }
        audit.rows_against_ledger(&rows, ledger);
        audit.clients_against_rows(&seen, &calls, ledger, seeds);
        audit.counts(&seen, &calls);
        audit
    }

    /// Every form has a row, and every row of one is what its lane got and what its client was told.
    fn forms(&mut self, senders: &[&ClientResult], rows: &[Attempt], uploads: &Uploads) {
        let mut by_call: BTreeMap<&str, &Attempt> = BTreeMap::new();
        for row in rows {
            let name = format!("{}-{}", row.call, row.attempt);
            if by_call.insert(&row.call, row).is_some() {
                self.wrong(&name, "a form was sent twice");
            }
            let upload = uploads.get(&name);
            if upload.is_some_and(|upload| row.sample.request_bytes != Some(upload.bytes)) {
                self.wrong(&name, format!("its lane got {upload:?}, and {}", shown(row)));
            }
            if row.end == AttemptEnd::Answered && upload.is_none() {
                self.wrong(&name, "it was answered, and its lane knows nothing of it");
            }
            let fee = upload.is_some_and(|upload| upload.is_transcript);
            let cost = row.sample.cost_usd.unwrap_or(-1.0);
            let is_priced = if upload.is_none() {
                cost == 0.0 || cost == archive::FEE
            } else {
                cost == if fee { archive::FEE } else { 0.0 }
            };
            if !is_priced {
                self.wrong(
                    &name,
                    format!("a transcript costs {} USD and a file nothing, and {}", archive::FEE, shown(row)),
                );
            }
            self.form_usd += cost.max(0.0);
        }
        for name in uploads.keys() {
            let call = name.rsplit_once('-').map_or(name.as_str(), |(call, _)| call);
            if !by_call.contains_key(call) {
                self.wrong(name, "a lane got a form, and the log has no row of it");
            }
        }
        for sender in senders {
            let row = sender.call.as_deref().map(|call| (call, by_call.get(call)));
            match (&sender.outcome, row) {
                (Ok(Outcome::Stored { bytes }), Some((_, Some(row)))) if row.end == AttemptEnd::Answered && row.won => {
                    self.forms += 1;
                    self.form_bytes += bytes;
                }
                (Ok(Outcome::Stored { .. }), _) => self.wrong("a form", "it was answered, and no row says so"),
                (_, Some((call, None))) => self.wrong(call, "a client saw its answer, and the log has no row of it"),
                _ => {}
            }
        }
    }

    /// Checks that the key with a budget has not spent more.
    fn budget(&mut self, rows: &[Attempt]) {
        let of_key = rows.iter().filter(|row| row.key.as_deref() == Some(Key::Budgeted.name()));
        self.budget_spent_usd = of_key.filter_map(|row| row.sample.cost_usd).sum();
        if self.budget_spent_usd > BUDGET_USD + 1e-12 {
            self.wrong(
                Key::Budgeted.name(),
                format!("it may spend {BUDGET_USD} USD, and has spent {}", self.budget_spent_usd),
            );
        }
    }

    fn wrong(&mut self, name: &str, what: impl std::fmt::Display) {
        self.violations.push(format!("{name}: {what}"));
    }

    fn rows_against_ledger(&mut self, rows: &[Attempt], ledger: &Ledger) {
        let mut names = BTreeSet::new();
        for row in rows {
            *self.ends.entry(row.end.name()).or_default() += 1;
            let name = format!("{}-{}", row.call, row.attempt);
            if !names.insert(name.clone()) {
                self.wrong(&name, "an attempt has two rows");
            }
            match ledger.entries.get(&name) {
                Some(entry) => self.row_against_entry(&name, row, entry),
                None => self.row_alone(&name, row),
            }
        }
        for name in ledger.entries.keys().filter(|name| !names.contains(*name)) {
            self.violations.push(format!("{name}: an engine was asked, and the log has no row of it"));
        }
    }

    /// A row without a ledger entry must have no response and no tokens.
    fn row_alone(&mut self, name: &str, row: &Attempt) {
        let is_silent =
            row.sample.ttfb_ns.is_none() && row.sample.output_tokens_std == 0 && row.sample.output_tokens.is_none();
        match row.sample.cost_basis {
            CostBasis::Free if is_silent && row.sample.cost_usd == Some(0.0) => self.unsent += 1,
            CostBasis::Estimated if is_silent && row.end != AttemptEnd::Answered => self.unread += 1,
            _ => self.wrong(name, format!("no engine was asked, and yet {}", shown(row))),
        }
    }

    fn row_against_entry(&mut self, name: &str, row: &Attempt, entry: &Entry) {
        let profile = &PROFILES[entry.engine];
        if profile.name != row.lane {
            self.wrong(name, format!("{} got the request, and the row names {}", profile.name, row.lane));
        }
        let output = row.sample.output_tokens.unwrap_or(row.sample.output_tokens_std);
        let is_priced = |output: u64| {
            row.sample.cost_usd.is_some_and(|usd| {
                (usd - cost(row.sample.input_tokens.unwrap_or(entry.input_tokens), output)).abs() < 1e-12
            })
        };
        match row.sample.cost_basis {
            CostBasis::Reported if profile.is_dishonest => {
                self.dishonest.add(row, entry, output);
                if row.sample.input_tokens != Some(entry.input_tokens)
                    || !is_priced(output)
                    || !is_dishonest_count(output, entry.written)
                {
                    self.wrong(name, format!("it wrote {} tokens, and {}", entry.written, shown(row)));
                }
            }
            CostBasis::Reported => {
                self.reported.add(row, entry, output);
                let is_exact = (row.sample.input_tokens, row.sample.output_tokens)
                    == (Some(entry.input_tokens), Some(entry.written));
                if !is_exact || !is_priced(output) {
                    self.wrong(name, mismatch(entry, row));
                }
            }
            CostBasis::Estimated => {
                self.estimated.add(row, entry, row.sample.output_tokens_std);
                if row.sample.output_tokens_std > entry.written || !is_priced(row.sample.output_tokens_std) {
                    self.wrong(name, mismatch(entry, row));
                }
            }
            CostBasis::Free => {
                self.free += 1;
                if row.end == AttemptEnd::Answered
                    || row.sample.cost_usd != Some(0.0)
                    || row.sample.output_tokens_std > 0
                {
                    self.wrong(name, format!("free, and yet {}", shown(row)));
                }
            }
            CostBasis::Unknown => self.wrong(name, "its lane has a price, and the row has no cost"),
        }
        if row.end == AttemptEnd::Answered && row.sample.output_tokens_std != entry.written {
            self.wrong(name, format!("{} tokens were written, and {}", entry.written, shown(row)));
        }
    }

    /// Compares the clients that got a call's name with the rows of that call.
    fn clients_against_rows(
        &mut self,
        seen: &[&ClientResult],
        calls: &BTreeMap<&str, Vec<&Attempt>>,
        ledger: &Ledger,
        seeds: &[u64],
    ) {
        for seen in seen {
            let Some(call) = &seen.call else { continue };
            let Some(rows) = calls.get(call.as_str()) else {
                self.wrong(call, "a client saw its answer, and the log has no row of it");
                continue;
            };
            let won: Vec<&&Attempt> = rows.iter().filter(|row| row.won).collect();
            if matches!(seen.outcome, Ok(Outcome::Refused { .. })) {
                if let Some(row) = rows.iter().find(|row| row.won || row.end == AttemptEnd::Answered) {
                    self.wrong(call, format!("the client was refused, and {}", shown(row)));
                }
                continue;
            }
            let [won] = won[..] else {
                self.wrong(call, format!("{} of its attempts have won", won.len()));
                continue;
            };
            if Some(&won.lane) != seen.winner.as_ref() {
                self.wrong(call, format!("its head named {:?}, and the log {}", seen.winner, won.lane));
            }
            let end = match &seen.outcome {
                Ok(Outcome::Whole { .. }) => Some(AttemptEnd::Answered),
                Ok(Outcome::Broken { .. }) => Some(AttemptEnd::Failed),
                _ => None,
            };
            if end.is_some_and(|end| end != won.end) {
                self.wrong(call, format!("the client saw {:?}, and {}", seen.outcome, shown(won)));
            }
            match ledger.entries.get(&format!("{call}-{}", won.attempt)) {
                Some(entry) => self.text_against_engine(call, seen, entry, seeds),
                None => self.wrong(call, "a client saw its answer, and no engine was asked"),
            }
        }
    }

    /// The text must be that of one answer of one engine, from its beginning, and whole if the outcome is.
    fn text_against_engine(&mut self, call: &str, seen: &ClientResult, entry: &Entry, seeds: &[u64]) {
        let (text, is_whole) = match &seen.outcome {
            Ok(Outcome::Whole { text, .. }) => (text, true),
            Ok(Outcome::Broken { text, .. } | Outcome::Disconnected { text }) => (text, false),
            _ => return,
        };
        let words = text.bytes().filter(|byte| *byte == b' ').count() as u64;
        (self.texts, self.words) = (self.texts + 1, self.words + words);
        let profile = &PROFILES[entry.engine];
        if !is_text_of(seeds[entry.engine], profile.is_dishonest, entry, text, is_whole) {
            self.wrong(call, format!("its text is not what {} wrote: {text}", profile.name));
        }
        if words > entry.written || is_whole && words != entry.written {
            self.wrong(call, format!("{words} words came of {} that were written, whole: {is_whole}", entry.written));
        }
        if let Ok(Outcome::Whole { has_end_marker, malformed, .. }) = &seen.outcome {
            if !has_end_marker && entry.done {
                self.wrong(call, "the mark of the end was written and did not come");
            }
            if *malformed > usize::from(entry.malformed) {
                self.wrong(call, format!("{malformed} events are no JSON, and its engine wrote them well"));
            }
        }
    }

    /// Calls whose name reached no client, by kind: at most one for each client that disconnected before the response head. An
    /// error of a lane always carries its call's name. Whether the client wanted a stream is no part of the kind: a row says
    /// how its lane was asked, and a whole answer may be asked for as a stream.
    fn counts(&mut self, seen: &[&ClientResult], calls: &BTreeMap<&str, Vec<&Attempt>>) {
        let named: BTreeSet<&str> = seen.iter().filter_map(|seen| seen.call.as_deref()).collect();
        let mut kinds: BTreeMap<Kind<'_>, (u64, u64)> = BTreeMap::new();
        for (call, rows) in calls {
            let row = rows[0];
            if row.role == AttemptRole::Probe {
                // The gateway's own: nobody's call, so that no client may have seen it.
                if named.contains(call) {
                    self.wrong(call, "it is a probe of the gateway's, and a client saw it");
                }
            } else if !named.contains(call) {
                let kind = (row.key.as_deref().unwrap_or(""), &*row.alias, &*row.dialect_in);
                kinds.entry(kind).or_default().0 += 1;
            }
        }
        for seen in seen {
            let task = &seen.task;
            let kind = (task.key.name(), task.alias.name(), task.dialect.name());
            let (_, disconnected) = kinds.entry(kind).or_default();
            match &seen.outcome {
                Ok(Outcome::Refused { message, .. }) if was_attempted(message) && seen.call.is_none() => {
                    self.wrong(message, "it is an error of a lane, and does not name its call");
                }
                Ok(Outcome::DisconnectedBeforeHead) => *disconnected += 1,
                // The violation is reported with the client; whether the call has rows is not known.
                Err(_) if seen.call.is_none() => *disconnected += 1,
                _ => {}
            }
        }
        for (kind, (found, disconnected)) in kinds {
            if found > disconnected {
                let what = format!(
                    "{found} calls in the log have a name that reached no client; {disconnected} clients disconnected before the head"
                );
                self.wrong(&format!("{kind:?}"), what);
            }
        }
    }
}

/// Whether an error is that of a call with attempts.
pub fn was_attempted(message: &str) -> bool {
    message.starts_with("lane ") || message.ends_with(": the call timed out before any lane answered")
}

/// What tokens cost (USD).
fn cost(input: u64, output: u64) -> f64 {
    (input as f64 * INPUT_PRICE + output as f64 * OUTPUT_PRICE) / 1e6
}

/// Whether an engine that hides reasoning, or reports half as much again, may report so many.
fn is_dishonest_count(reported: u64, written: u64) -> bool {
    let made = [written, 2 * written, (2 * written).saturating_sub(1)];
    made.into_iter().any(|made| reported == made || reported == (3 * made).div_ceil(2))
}

/// A ledger's entry and its row.
fn mismatch(entry: &Entry, row: &Attempt) -> String {
    format!("{} and {} tokens in the ledger, and {}", entry.input_tokens, entry.written, shown(row))
}

fn shown(row: &Attempt) -> String {
    format!(
        "its row has {} {} ({:?}), tokens {:?} and {:?}, counted {}, {:?} USD {}",
        row.lane,
        row.end.name(),
        row.sample.failure,
        row.sample.input_tokens,
        row.sample.output_tokens,
        row.sample.output_tokens_std,
        row.sample.cost_usd,
        row.sample.cost_basis.name()
    )
}

#[cfg(test)]
mod tests;
