//! The report of a soak: tables that are printed and kept in docs/soak.md, with the conditions above and the violations below.

use super::audit::{Audit, Sums, was_attempted};
use super::client::{ClientResult, Outcome};
use super::plan::{Alias, BUDGET_USD, Purpose};
use super::process::ResourceUsage;
use super::trend::trend;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

const BEGIN: &str = "<!-- figures: written by `cargo xtask soak gateway --write` -->";
const END: &str = "<!-- end of the figures -->";
/// Violations beyond this number are only counted, so that the report stays readable.
const MAX_LISTED: usize = 40;
/// Slower growth counts as flat (KiB an hour): 512 KiB an hour are 12 MiB a day.
const MAX_FLAT_KIB: f64 = 512.0;

/// One sample of the gateway's resources.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Since the start of the load.
    pub seconds: f64,
    pub resources: ResourceUsage,
}

/// The results of a soak.
pub struct Report {
    pub conditions: Vec<String>,
    /// How long clients were started.
    pub minutes: f64,
    pub seen: Vec<ClientResult>,
    pub late: u64,
    pub samples: Vec<Sample>,
    /// At rest: before the first client, and after the last.
    pub rest: (ResourceUsage, ResourceUsage),
    pub audit: Audit,
    pub rows_lost: u64,
    pub log_bytes: u64,
    /// Changes of settings (valid, invalid): sent, and acknowledged.
    pub changes: ((usize, usize), (usize, usize)),
    /// Violations that belong to no client or row.
    pub violations: Vec<String>,
}

impl Report {
    /// All violations.
    pub fn all_violations(&self) -> Vec<String> {
        let of_client = |seen: &ClientResult| {
            let what = seen.outcome.as_ref().err()?;
            let (task, call) = (&seen.task, seen.call.as_deref().unwrap_or("call unknown"));
            Some(format!(
                "client {} ({call}, {}, {}, {:?}, stream {}, fault {:?}): {what}",
                task.number,
                task.alias.name(),
                task.dialect.name(),
                task.purpose,
                task.stream,
                task.fault
            ))
        };
        let clients = self.seen.iter().filter_map(of_client);
        clients.chain(self.audit.violations.iter().cloned()).chain(self.violations.iter().cloned()).collect()
    }

    /// The whole report.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let violations = self.all_violations();
        for condition in &self.conditions {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(text, "- {condition}");
        }
        text.push_str(&self.outcomes());
        text.push_str(&self.conservation());
        text.push_str(&self.resources());
        let verdict = if violations.is_empty() { "none" } else { "**see below**" };
        let _ = writeln!(text, "\nViolations of the promise: {} ({verdict}).", violations.len());
        for violation in violations.iter().take(MAX_LISTED) {
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
                move |seen: &&ClientResult| seen.task.alias == alias && matches!(seen.task.purpose, Purpose::Call(_));
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
                count(|outcome| matches!(outcome, Outcome::Refused { message, .. } if was_attempted(message))),
                count(|outcome| matches!(outcome, Outcome::Refused { message, .. } if !was_attempted(message))),
                count(|outcome| matches!(outcome, Outcome::Disconnected { .. } | Outcome::DisconnectedBeforeHead)),
            );
        }
        let handled = self.seen.iter().filter(|seen| seen.outcome == Ok(Outcome::AsExpected)).count();
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
        let audit = &self.audit;
        let ends: Vec<String> = audit.ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
        let mut text = format!(
            "\n| conservation | log of the gateway | ledgers of the engines |\n|---|---|---|\n\
             | attempts | {} rows of {} calls ({}) | {} requests |\n\
             | closed before an engine had read them, never sent | {}, {} | 0 |\n",
            audit.rows,
            audit.calls,
            ends.join(", "),
            audit.requests,
            audit.unread,
            audit.unsent
        );
        for (name, sums) in
            [("reported", audit.reported), ("reported, by an engine that reports more than it wrote", audit.dishonest)]
        {
            let Sums { rows, input, output, usd } = sums;
            let _ = writeln!(
                text,
                "| {name}: input tokens, output tokens, USD ({rows} rows) | {}, {}, {:.6} | {}, {}, {:.6} |",
                input.0, output.0, usd.0, input.1, output.1, usd.1
            );
        }
        let Sums { rows, output, usd, .. } = audit.estimated;
        let _ = writeln!(
            text,
            "| estimated: output tokens, USD ({rows} rows); the ledger has what was written by then | {}, {:.6} | {}, {:.6} |",
            output.0, usd.0, output.1, usd.1
        );
        let _ = writeln!(
            text,
            "| forms that arrived byte for byte, their bytes, USD | {}, {}, {:.4} | |",
            audit.forms, audit.form_bytes, audit.form_usd
        );
        let _ = writeln!(text, "| refused: nothing to pay | {} rows | |", audit.free);
        let _ =
            writeln!(text, "| spent by a key that may spend {BUDGET_USD:.6} USD | {:.6} | |", audit.budget_spent_usd);
        let _ = writeln!(text, "| rows lost | {} | |", self.rows_lost);
        let _ = writeln!(
            text,
            "\nText compared word by word with what one engine wrote for one request: {} answers, {} words.",
            audit.texts, audit.words
        );
        text
    }

    fn resources(&self) -> String {
        let settled = self.settled();
        let range = |of: fn(&ResourceUsage) -> u64| {
            let values = settled.iter().map(|sample| of(&sample.resources));
            format!("{} to {}", values.clone().min().unwrap_or(0), values.max().unwrap_or(0))
        };
        let (before, after) = self.rest;
        let mut text = "\n| gateway | before the load | under load, from the second quarter on | at rest after it |\n|---|---|---|---|\n".to_owned();
        for (name, of) in [
            ("resident memory (KiB)", (|resources| resources.resident_kib) as fn(&ResourceUsage) -> u64),
            ("of it the gateway's own (KiB)", |resources| resources.anonymous_kib),
            ("open descriptors", |resources| resources.descriptors),
            ("threads", |resources| resources.threads),
        ] {
            let _ = writeln!(text, "| {name} | {} | {} | {} |", of(&before), range(of), of(&after));
        }
        let _ = writeln!(text, "\nPeak memory: {} KiB.", after.peak_kib);
        let _ = writeln!(text, "{}", self.memory_verdict().0);
        let points: Vec<(f64, f64)> =
            settled.iter().map(|sample| (sample.seconds, sample.resources.descriptors as f64)).collect();
        if let Some(line) = trend(&points) {
            let _ = writeln!(
                text,
                "Open descriptors: slope {:+.1} an hour (95 % interval {:+.1} to {:+.1}).",
                line.slope, line.low, line.high
            );
        }
        let per_row = self.log_bytes as f64 / self.audit.rows.max(1) as f64;
        let _ = writeln!(
            text,
            "The log's file grows with its rows, not with time, until `log_retention` removes the oldest: {:.1} MB, {per_row:.0} bytes a row.",
            self.log_bytes as f64 / 1e6
        );
        let ((good, bad), (taken, refused)) = self.changes;
        let _ = writeln!(
            text,
            "Settings changed while calls were open: {taken} of {good} valid ones applied, {refused} of {bad} invalid ones refused."
        );
        text
    }

    /// Samples after the warm-up, which is the first quarter.
    fn settled(&self) -> Vec<Sample> {
        let from = self.minutes * 60.0 / 4.0;
        self.samples.iter().copied().filter(|sample| sample.seconds >= from).collect()
    }

    /// Verdicts on resident and anonymous memory, and whether either grows.
    pub fn memory_verdict(&self) -> (String, bool) {
        let (resident, resident_grows) = self.growth("Resident memory", |resources| resources.resident_kib);
        let (own, own_grows) = self.growth("Own memory", |resources| resources.anonymous_kib);
        (format!("{resident}\n{own}"), resident_grows || own_grows)
    }

    fn growth(&self, name: &str, of: fn(&ResourceUsage) -> u64) -> (String, bool) {
        let points: Vec<(f64, f64)> =
            self.settled().iter().map(|sample| (sample.seconds, of(&sample.resources) as f64)).collect();
        let Some(line) = trend(&points) else {
            return (format!("{name}: too short a soak to say whether it grows."), false);
        };
        let thousands_per_hour = self.seen.len() as f64 / 1000.0 / (self.minutes / 60.0);
        let (word, grows) = match (line.low > 0.0, line.high <= MAX_FLAT_KIB) {
            (_, true) => ("flat", false),
            (false, false) => ("no growth shown, and none excluded", false),
            (true, false) => ("**GROWS**", true),
        };
        let text = format!(
            "{name}: {word}. Slope from the second quarter on {:+.0} KiB an hour (95 % interval {:+.0} to {:+.0}), which is \
             {:+.2} KiB per 1,000 clients; flat means that the interval ends below {MAX_FLAT_KIB} KiB an hour.",
            line.slope,
            line.low,
            line.high,
            line.slope / thousands_per_hour
        );
        (text, grows)
    }

    /// Puts the figures into the page.
    pub fn write(&self, page: &Path) -> Result<()> {
        let text = std::fs::read_to_string(page).with_context(|| format!("read {}", page.display()))?;
        let (before, rest) = text.split_once(BEGIN).with_context(|| format!("find `{BEGIN}` in {}", page.display()))?;
        let (_, after) = rest.split_once(END).with_context(|| format!("find `{END}` in {}", page.display()))?;
        let text = format!("{before}{BEGIN}\n{}\n{END}{after}", self.text());
        std::fs::write(page, text).with_context(|| format!("write {}", page.display()))
    }
}
