//! The calls of a session as a chain: what its end waited for, where the time went, and the time between calls.
//!
//! It does not read the log. Invariant: the critical path's calls follow each other without overlap; what lies between them is the
//! client's own time (tools, its user), which no gateway sees.

use super::{date, dollars};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use tokrate_charts::format::seconds;
use tokrate_charts::{Column, Table};
use tokrate_record::Attempt;

/// Width of the picture of a call's place in time, in characters.
const WIDTH: usize = 32;
/// Clocks of a log are whole milliseconds: a call that begins so much before another's end followed it (ms).
const SLACK_MS: f64 = 2.0;

/// A call of a session.
#[derive(Clone, PartialEq, Debug)]
struct Call {
    alias: String,
    lane: String,
    /// Milliseconds since the session's first call.
    begin: f64,
    /// To its end.
    took: f64,
    ttft: Option<f64>,
    attempts: usize,
    output: u64,
    usd: Option<f64>,
    is_critical: bool,
    /// Between the end of the call before it on the critical path and its beginning.
    waited: f64,
}

impl Call {
    fn end(&self) -> f64 {
        self.begin + self.took
    }
}

/// The calls of a session, in the order in which they were begun.
#[derive(Clone, PartialEq, Debug)]
pub struct Session {
    name: String,
    begun_unix_ms: u64,
    calls: Vec<Call>,
}

impl Session {
    /// Of its calls with all their attempts; `None` without any.
    pub fn of(name: &str, calls: &[Vec<Attempt>]) -> Option<Session> {
        let all = || calls.iter().flatten();
        let begun_unix_ms = all().map(|row| row.sample.started_unix_ms).min()?;
        let mut calls: Vec<Call> = calls.iter().filter_map(|attempts| call(attempts, begun_unix_ms)).collect();
        calls.sort_by(|a, b| a.begin.total_cmp(&b.begin));
        mark_critical(&mut calls);
        Some(Session { name: name.to_owned(), begun_unix_ms, calls })
    }

    /// When its first call began (ms since 1970).
    pub fn begun_unix_ms(&self) -> u64 {
        self.begun_unix_ms
    }

    /// From the first call to the last end (ms).
    fn elapsed(&self) -> f64 {
        self.calls.iter().map(Call::end).fold(0.0, f64::max)
    }

    fn critical(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.is_critical)
    }

    /// Dollars, and calls of unknown cost.
    fn cost(&self) -> (f64, usize) {
        let known = self.calls.iter().filter_map(|call| call.usd).sum();
        (known, self.calls.iter().filter(|call| call.usd.is_none()).count())
    }

    /// Milliseconds of the critical path: until first tokens, after them, and between calls.
    fn parts(&self) -> [f64; 3] {
        self.critical().fold([0.0; 3], |[first, tokens, between], call| {
            let ttft = call.ttft.unwrap_or(0.0).min(call.took);
            [first + ttft, tokens + call.took - ttft, between + call.waited]
        })
    }

    /// By what was asked for: calls, calls on the critical path and milliseconds of these.
    fn by_alias(&self) -> Vec<(&str, usize, usize, f64)> {
        let mut all: BTreeMap<&str, (usize, usize, f64)> = BTreeMap::new();
        for call in &self.calls {
            let row = all.entry(&call.alias).or_default();
            *row = (
                row.0 + 1,
                row.1 + usize::from(call.is_critical),
                row.2 + if call.is_critical { call.took } else { 0.0 },
            );
        }
        let mut rows: Vec<_> = all.into_iter().map(|(alias, (n, critical, ms))| (alias, n, critical, ms)).collect();
        rows.sort_by(|a, b| b.3.total_cmp(&a.3));
        rows
    }

    /// For people.
    pub fn text(&self) -> String {
        let elapsed = self.elapsed();
        let share = |ms: f64| format!("{:.0} %", ms / elapsed.max(1e-9) * 100.0);
        let [first, tokens, between] = self.parts();
        let (usd, unknown) = self.cost();
        let unknown = if unknown > 0 { format!(" and {unknown} calls of unknown cost") } else { String::new() };
        let mut text = format!(
            "session {}: {} calls in {}, {} USD{unknown}; begun {} UTC\n",
            self.name,
            self.calls.len(),
            time(elapsed),
            dollars(usd),
            date(self.begun_unix_ms)
        );
        text += &format!(
            "its end waited for {} of them (marked *): {} until first tokens ({}), {} for tokens ({}), {} between calls ({}: tools and the client)\n\n",
            self.critical().count(),
            time(first),
            share(first),
            time(tokens),
            share(tokens),
            time(between),
            share(between),
        );
        for (alias, calls, critical, ms) in self.by_alias() {
            let noun = if calls == 1 { "call" } else { "calls" };
            text += &format!("  {alias}: {calls} {noun}, {critical} waited for, {} ({})\n", time(ms), share(ms));
        }
        text += "\n";
        text += &self.table().text();
        text
    }

    fn table(&self) -> Table {
        let elapsed = self.elapsed().max(1e-9);
        let row = |call: &Call| {
            let place = |ms: f64| (ms / elapsed * WIDTH as f64).round() as usize;
            let from = place(call.begin).min(WIDTH - 1);
            let length = place(call.end()).max(from + 1).min(WIDTH) - from;
            let sign = if call.is_critical { "#" } else { "-" };
            let picture = format!("{}{}{}", " ".repeat(from), sign.repeat(length), " ".repeat(WIDTH - from - length));
            vec![
                if call.is_critical { "*" } else { "" }.to_owned(),
                format!("|{picture}|"),
                call.alias.clone(),
                call.lane.clone(),
                time(call.begin),
                time(call.took),
                call.ttft.map_or("-".to_owned(), time),
                call.output.to_string(),
                call.attempts.to_string(),
            ]
        };
        let numbers = ["begun", "took", "TTFT", "tokens", "attempts"];
        Table {
            caption: String::new(),
            columns: ["", "", "alias", "lane"]
                .map(Column::words)
                .into_iter()
                .chain(numbers.map(|label| Column::numbers(label, "")))
                .collect(),
            rows: self.calls.iter().map(row).collect(),
            notes: Vec::new(),
        }
    }

    /// As JSON.
    pub fn json(&self) -> Json {
        let call = |call: &Call| {
            json!({
                "alias": call.alias, "lane": call.lane, "begun_ms": call.begin, "took_ms": call.took, "ttft_ms": call.ttft,
                "output_tokens": call.output, "attempts": call.attempts, "cost_usd": call.usd, "critical": call.is_critical,
                "waited_before_ms": call.waited,
            })
        };
        let [first, tokens, between] = self.parts();
        json!({
            "session": self.name,
            "begun_unix_ms": self.begun_unix_ms,
            "elapsed_ms": self.elapsed(),
            "critical_path": { "calls": self.critical().count(), "first_token_ms": first, "token_ms": tokens, "between_ms": between },
            "cost_usd": self.cost().0,
            "calls_of_unknown_cost": self.cost().1,
            "calls": self.calls.iter().map(call).collect::<Vec<_>>(),
        })
    }
}

fn time(ms: f64) -> String {
    seconds(ms / 1e3)
}

fn call(attempts: &[Attempt], begun_unix_ms: u64) -> Option<Call> {
    let start = attempts.iter().map(|row| row.sample.started_unix_ms).min()?;
    let end = |row: &Attempt| row.sample.started_unix_ms as f64 + row.sample.total_ns as f64 / 1e6;
    // The client waited for the attempt that it got; where it got none, for the last that ended.
    let won = attempts.iter().find(|row| row.won);
    let ended = won.map_or_else(|| attempts.iter().map(end).fold(0.0, f64::max), end);
    let shown = won.or(attempts.last())?;
    let later = shown.sample.started_unix_ms.saturating_sub(start) as f64;
    let usd = attempts.iter().map(|row| row.sample.cost_usd).sum::<Option<f64>>();
    Some(Call {
        alias: shown.alias.clone(),
        lane: shown.lane.clone(),
        begin: start.saturating_sub(begun_unix_ms) as f64,
        took: (ended - start as f64).max(0.0),
        ttft: shown.sample.ttft_ns.map(|ns| later + ns as f64 / 1e6),
        attempts: attempts.len(),
        output: shown.sample.output_tokens.unwrap_or(shown.sample.output_tokens_std),
        usd,
        is_critical: false,
        waited: 0.0,
    })
}

/// Marks the calls that the end waited for, backwards from the last to end: before each the one that ended latest before it began.
fn mark_critical(calls: &mut [Call]) {
    let last = |calls: &[Call], before: f64| {
        let ended = calls.iter().enumerate().filter(|(_, call)| !call.is_critical && call.end() <= before + SLACK_MS);
        ended.max_by(|a, b| a.1.end().total_cmp(&b.1.end())).map(|(place, _)| place)
    };
    let mut at = last(calls, f64::MAX);
    while let Some(place) = at {
        calls[place].is_critical = true;
        let begin = calls[place].begin;
        at = last(calls, begin).filter(|before| calls[*before].begin < begin);
        calls[place].waited = at.map_or(0.0, |before| (begin - calls[before].end()).max(0.0));
    }
}

/// A table of sessions, the latest first.
pub fn sessions(all: &[Session]) -> String {
    let row = |session: &Session| {
        let [first, tokens, between] = session.parts();
        vec![
            session.name.clone(),
            date(session.begun_unix_ms),
            session.calls.len().to_string(),
            time(session.elapsed()),
            time(first + tokens),
            time(between),
            dollars(session.cost().0),
        ]
    };
    let table = Table {
        caption: String::new(),
        columns: ["session", "begun (UTC)"]
            .map(Column::words)
            .into_iter()
            .chain(["calls", "elapsed", "in calls", "between", "USD"].map(|label| Column::numbers(label, "")))
            .collect(),
        rows: all.iter().map(row).collect(),
        notes: vec![
            "in calls and between: of the calls that the end of the session waited for; --session NAME shows them"
                .to_owned(),
        ],
    };
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_record::Sample;

    fn attempt(call: &str, alias: &str, started: u64, took_ms: u64, won: bool) -> Attempt {
        let sample = Sample {
            started_unix_ms: 1_795_000_000_000 + started,
            total_ns: took_ms * 1_000_000,
            ttft_ns: Some(took_ms * 200_000),
            output_tokens_std: 100,
            cost_usd: Some(0.01),
            ..Sample::default()
        };
        let (alias, lane, call) = (alias.to_owned(), "own".to_owned(), call.to_owned());
        Attempt { call, alias, lane, won, sample, ..Attempt::default() }
    }

    /// A plan, two searches side by side, an edit of which the first attempt failed, 3 s of a tool before it.
    fn calls() -> Vec<Vec<Attempt>> {
        vec![
            vec![attempt("a", "reason", 0, 4_000, true)],
            vec![attempt("b", "search", 4_100, 1_000, true)],
            vec![attempt("c", "search", 4_100, 2_000, true)],
            vec![attempt("d", "edit", 9_100, 500, false), attempt("d", "edit", 9_600, 2_400, true)],
        ]
    }

    #[test]
    fn the_end_waits_for_the_slower_of_two_and_for_the_tool() {
        let session = Session::of("run-17", &calls()).expect("calls");
        let critical: Vec<(&str, f64)> = session.critical().map(|call| (call.alias.as_str(), call.took)).collect();
        assert_eq!(critical, [("reason", 4_000.0), ("search", 2_000.0), ("edit", 2_900.0)]);
        assert_eq!(session.elapsed(), 12_000.0);
        let [first, tokens, between] = session.parts();
        assert_eq!((first + tokens + between, between), (12_000.0, 3_100.0));
        insta::assert_snapshot!("session", session.text());
        insta::assert_snapshot!("sessions", sessions(&[session]));
    }

    #[test]
    fn calls_of_no_length_and_of_one_moment_end() {
        let at_once: Vec<_> = (0..5).map(|place| vec![attempt(&format!("c{place}"), "x", 0, 0, true)]).collect();
        let session = Session::of("s", &at_once).expect("calls");
        assert_eq!(session.critical().count(), 1);
        assert!(!session.text().contains("NaN"));
        assert_eq!(Session::of("s", &[]), None);
    }
}
