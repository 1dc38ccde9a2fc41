//! What a soak gave, as a table that is printed and kept in docs/soak.md.
//!
//! It does not measure. Invariant: figures stand with their conditions, and whatever broke the promise stands below
//! them.

use super::books::{Books, Sums, was_attempted};
use super::client::{Outcome, Seen};
use super::plan::{Alias, POOR_USD, Purpose};
use super::process::Vitals;
use super::trend::trend;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = "<!-- figures: written by `cargo xtask soak gateway --write` -->";
const END: &str = "<!-- end of the figures -->";
/// More violations than this are only counted.
const SHOWN_MOST: usize = 40;
/// Growth that is none (KiB an hour): a megabyte in a day takes more than that.
const FLAT_KIB: f64 = 512.0;

/// One look at the gateway.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Since the start of the load.
    pub seconds: f64,
    pub vitals: Vitals,
}

/// Everything that a soak gave.
pub struct Report {
    pub conditions: Vec<String>,
    /// How long clients came.
    pub minutes: f64,
    pub seen: Vec<Seen>,
    pub late: u64,
    pub samples: Vec<Sample>,
    /// At rest: before the first client, and behind the last.
    pub rest: (Vitals, Vitals),
    pub books: Books,
    pub rows_lost: u64,
    pub log_bytes: u64,
    /// Changes of settings: told (good, bad), and spoken of.
    pub changes: ((usize, usize), (usize, usize)),
    /// What went wrong beside.
    pub violations: Vec<String>,
}

impl Report {
    /// All that broke the promise.
    pub fn all_violations(&self) -> Vec<String> {
        let of_client = |seen: &Seen| {
            let what = seen.outcome.as_ref().err()?;
            let (errand, call) = (&seen.errand, seen.call.as_deref().unwrap_or("call unknown"));
            Some(format!(
                "errand {} ({call}, {}, {}, {:?}, stream {}, fault {:?}): {what}",
                errand.number,
                errand.alias.name(),
                errand.spoken.name(),
                errand.purpose,
                errand.stream,
                errand.fault
            ))
        };
        let clients = self.seen.iter().filter_map(of_client);
        clients.chain(self.books.violations.iter().cloned()).chain(self.violations.iter().cloned()).collect()
    }

    /// The table and what stands below it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let violations = self.all_violations();
        for condition in &self.conditions {
            // A string takes everything, here and below.
            let _ = writeln!(text, "- {condition}");
        }
        text.push_str(&self.outcomes());
        text.push_str(&self.conservation());
        text.push_str(&self.resources());
        let verdict = if violations.is_empty() { "none" } else { "**see below**" };
        let _ = writeln!(text, "\nViolations of the promise: {} ({verdict}).", violations.len());
        for violation in violations.iter().take(SHOWN_MOST) {
            let _ = writeln!(text, "- {violation}");
        }
        text
    }

    fn outcomes(&self) -> String {
        let mut text = "\n| clients, by mode | whole answer | its beginning, one error | one error of a lane | no lane to ask, or a limit | \
                        left |\n|---|---|---|---|---|---|\n"
            .to_owned();
        let calls = |alias: Alias| {
            let is_call =
                move |seen: &&Seen| seen.errand.alias == alias && matches!(seen.errand.purpose, Purpose::Call(_));
            self.seen.iter().filter(is_call)
        };
        for alias in Alias::ALL {
            let count =
                |is: fn(&Outcome) -> bool| calls(alias).filter(|seen| seen.outcome.as_ref().is_ok_and(is)).count();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                alias.name(),
                count(|outcome| matches!(outcome, Outcome::Whole { .. })),
                count(|outcome| matches!(outcome, Outcome::Broken { .. })),
                count(|outcome| matches!(outcome, Outcome::Refused { said, .. } if was_attempted(said))),
                count(|outcome| matches!(outcome, Outcome::Refused { said, .. } if !was_attempted(said))),
                count(|outcome| matches!(outcome, Outcome::Left { .. } | Outcome::LeftUnheard)),
            );
        }
        let handled = self.seen.iter().filter(|seen| seen.outcome == Ok(Outcome::Handled)).count();
        let _ = writeln!(
            text,
            "\n{} clients, {handled} of them with a request that cannot be understood or for the list of models, each answered as it \
             must be; {} started more than 0.1 s late.",
            self.seen.len(),
            self.late
        );
        text
    }

    fn conservation(&self) -> String {
        let books = &self.books;
        let ends: Vec<String> = books.ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
        let mut text = format!(
            "\n| conservation | log of the gateway | ledgers of the engines |\n|---|---|---|\n\
             | attempts | {} rows of {} calls ({}) | {} requests |\n\
             | closed before an engine had read them, never sent | {}, {} | 0 |\n",
            books.rows,
            books.calls,
            ends.join(", "),
            books.requests,
            books.unread,
            books.unsent
        );
        for (name, sums) in
            [("reported", books.reported), ("reported, by an engine that says more than it wrote", books.sly)]
        {
            let Sums { rows, input, output, usd } = sums;
            let _ = writeln!(
                text,
                "| {name}: input tokens, output tokens, USD ({rows} rows) | {}, {}, {:.6} | {}, {}, {:.6} |",
                input.0, output.0, usd.0, input.1, output.1, usd.1
            );
        }
        let Sums { rows, output, usd, .. } = books.estimated;
        let _ = writeln!(
            text,
            "| estimated: output tokens, USD ({rows} rows); the ledger has what was written by then | {}, {:.6} | {}, {:.6} |",
            output.0, usd.0, output.1, usd.1
        );
        let _ = writeln!(text, "| refused: nothing to pay | {} rows | |", books.free);
        let _ = writeln!(text, "| spent by a key that may spend {POOR_USD:.6} USD | {:.6} | |", books.poor_usd);
        let _ = writeln!(text, "| rows lost | {} | |", self.rows_lost);
        let _ = writeln!(
            text,
            "\nText held word by word against what one engine said to one request: {} answers, {} words.",
            books.texts, books.words
        );
        text
    }

    fn resources(&self) -> String {
        let settled = self.settled();
        let range = |of: fn(&Vitals) -> u64| {
            let values = settled.iter().map(|sample| of(&sample.vitals));
            format!("{} to {}", values.clone().min().unwrap_or(0), values.max().unwrap_or(0))
        };
        let (before, after) = self.rest;
        let mut text = "\n| gateway | before the load | under load, from the second quarter on | at rest behind it |\n|---|---|---|---|\n".to_owned();
        for (name, of) in [
            ("resident memory (KiB)", (|vitals| vitals.resident_kib) as fn(&Vitals) -> u64),
            ("of it the gateway's own (KiB)", |vitals| vitals.own_kib),
            ("open descriptors", |vitals| vitals.descriptors),
            ("threads", |vitals| vitals.threads),
        ] {
            let _ = writeln!(text, "| {name} | {} | {} | {} |", of(&before), range(of), of(&after));
        }
        let _ = writeln!(text, "\nMost memory there has been: {} KiB.", after.peak_kib);
        let _ = writeln!(text, "{}", self.memory_verdict().0);
        let points: Vec<(f64, f64)> =
            settled.iter().map(|sample| (sample.seconds, sample.vitals.descriptors as f64)).collect();
        if let Some(line) = trend(&points) {
            let _ = writeln!(
                text,
                "Open descriptors: slope {:+.1} an hour (95 % interval {:+.1} to {:+.1}).",
                line.slope, line.low, line.high
            );
        }
        let per_row = self.log_bytes as f64 / self.books.rows.max(1) as f64;
        let _ = writeln!(
            text,
            "The log's file grows with its rows, not with time, until `log_retention` removes the oldest: {:.1} MB, {per_row:.0} bytes a row.",
            self.log_bytes as f64 / 1e6
        );
        let ((good, bad), (taken, refused)) = self.changes;
        let _ = writeln!(
            text,
            "Settings changed while calls were open: {taken} of {good} good ones taken over, {refused} of {bad} bad ones refused."
        );
        text
    }

    /// Samples behind the warm-up, which is the first quarter.
    fn settled(&self) -> Vec<Sample> {
        let from = self.minutes * 60.0 / 4.0;
        self.samples.iter().copied().filter(|sample| sample.seconds >= from).collect()
    }

    /// What is said of memory, all that is resident and what of it is the gateway's own, and whether either is held to be growing.
    pub fn memory_verdict(&self) -> (String, bool) {
        let (resident, resident_grows) = self.growth("Resident memory", |vitals| vitals.resident_kib);
        let (own, own_grows) = self.growth("Own memory", |vitals| vitals.own_kib);
        (format!("{resident}\n{own}"), resident_grows || own_grows)
    }

    fn growth(&self, name: &str, of: fn(&Vitals) -> u64) -> (String, bool) {
        let points: Vec<(f64, f64)> =
            self.settled().iter().map(|sample| (sample.seconds, of(&sample.vitals) as f64)).collect();
        let Some(line) = trend(&points) else {
            return (format!("{name}: too short a soak to say whether it grows."), false);
        };
        let thousands_per_hour = self.seen.len() as f64 / 1000.0 / (self.minutes / 60.0);
        let (word, grows) = match (line.low > 0.0, line.high <= FLAT_KIB) {
            (_, true) => ("flat", false),
            (false, false) => ("no growth shown, and none excluded", false),
            (true, false) => ("**GROWS**", true),
        };
        let said = format!(
            "{name}: {word}. Slope from the second quarter on {:+.0} KiB an hour (95 % interval {:+.0} to {:+.0}), which is \
             {:+.2} KiB per 1,000 clients; flat means that the interval ends below {FLAT_KIB} KiB an hour.",
            line.slope,
            line.low,
            line.high,
            line.slope / thousands_per_hour
        );
        (said, grows)
    }

    /// Puts the figures into the page.
    pub fn write(&self, page: &Path) -> Result<()> {
        let text = std::fs::read_to_string(page).with_context(|| format!("read {}", page.display()))?;
        let (before, rest) = text.split_once(BEGIN).with_context(|| format!("find `{BEGIN}` in {}", page.display()))?;
        let (_, behind) = rest.split_once(END).with_context(|| format!("find `{END}` in {}", page.display()))?;
        let text = format!("{before}{BEGIN}\n{}\n{END}{behind}", self.text());
        std::fs::write(page, text).with_context(|| format!("write {}", page.display()))
    }
}
