//! `tokrate estimate fit-api`: the law of a hosted endpoint from what was measured of it.

use super::subject;
use crate::commands::Verdict;
use crate::config::clickhouse;
use crate::flags::estimate::FitApiFlags;
use crate::out::estimate::hosted::{Shown, html, json, text};
use crate::out::records::{read_record, read_rows};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use tokrate_estimate::hosted::{Call, Hosted, seen};
use tokrate_record::{AttemptEnd, AttemptRole, Load};
use tokrate_store::Query;
use tokrate_targets::reading::{self, MAX_SETTINGS_BYTES};

/// What files hold of an endpoint.
#[derive(Default)]
struct Gathered {
    calls: Vec<Call>,
    failed: u64,
    names: BTreeSet<String>,
}

/// Fits and prints. Below the bar when the objectives are kept at no load that was measured.
pub fn run(flags: &FitApiFlags) -> Result<Verdict> {
    for path in [&flags.write, &flags.html].into_iter().flatten() {
        crate::out::files::check_writable(path)?;
    }
    let shown = fitted(flags)?;
    if let Some(path) = &flags.write {
        crate::out::files::write(path, &format!("{}\n", serde_json::to_string_pretty(&shown.hosted)?))?;
    }
    if let Some(path) = &flags.html {
        crate::out::files::write(path, &html(&shown))?;
    }
    let is_stdout = |path: &Option<std::path::PathBuf>| path.as_deref() == Some(Path::new("-"));
    if !is_stdout(&flags.html) && !is_stdout(&flags.write) {
        let written = if flags.json { format!("{}\n", json(&shown)) } else { text(&shown) };
        crate::out::stdout::write(&written)?;
    }
    let is_kept = shown.within.is_none_or(|within| within.value > 0.0);
    Ok(if is_kept { Verdict::Good } else { Verdict::BelowBar })
}

/// The law of what the files hold.
pub(super) fn fitted(flags: &FitApiFlags) -> Result<Shown> {
    let mut all = Gathered::default();
    for path in &flags.records {
        match clickhouse::holds_rows(path) {
            true => all.add_database(path, flags)?,
            false => all.add_record(path)?,
        }
    }
    let names: Vec<String> = all.names.iter().cloned().collect();
    if names.len() > 1 && flags.name.is_none() {
        bail!(
            "estimate: calls of {} would be one law ({}); name one with --lane, or say with --name that they are the same endpoint",
            names.len(),
            names.join(", ")
        );
    }
    let name = flags.name.clone().or_else(|| names.first().cloned()).unwrap_or_else(|| "api".to_owned());
    let shown: Vec<String> = flags.records.iter().map(|path| path.display().to_string()).collect();
    let hosted = Hosted::fit(&name, &shown.join(", "), &all.calls, all.failed)
        .map_err(|error| anyhow!("estimate: {}: {error}", shown.join(", ")))?;
    let mut prompts: Vec<f64> = all.calls.iter().map(|call| call.prompt).collect();
    prompts.sort_by(f64::total_cmp);
    let prompt = flags.isl.map_or_else(|| tokrate_estimate::traffic::quantile(&prompts, 0.5), f64::from);
    let lengths = (prompt, f64::from(flags.osl));
    let objectives = flags.slos.iter().map(|slo| subject::objective(slo)).collect::<Result<Vec<_>>>()?;
    let within = (!objectives.is_empty())
        .then(|| hosted.most_within(&objectives, lengths))
        .transpose()
        .map_err(|error| anyhow!("estimate: {error}"))?;
    let mut asked = Vec::new();
    for load in &flags.concurrency {
        let expected = hosted.expected(f64::from(*load), prompt);
        asked.push((*load, expected.map_err(|error| anyhow!("estimate: {error}; check -c and --isl"))?));
    }
    Ok(Shown { hosted, seen: seen(&all.calls), lengths, slos: flags.slos.clone(), within, asked })
}

/// A law that was written before.
pub fn read(path: &Path) -> Result<Hosted> {
    let shown = path.display();
    let text = reading::text_of(path, MAX_SETTINGS_BYTES).with_context(|| format!("read the law {shown}"))?;
    let hosted: Hosted = serde_json::from_str(&text)
        .with_context(|| format!("understand the law {shown}; `tokrate estimate fit-api --write` writes one"))?;
    hosted.check().map_err(|error| anyhow!("use the law {shown}: {error}"))?;
    Ok(hosted)
}

impl Gathered {
    /// Calls of a gateway's log, of a monitor's database, or of a ClickHouse.
    fn add_database(&mut self, path: &Path, flags: &FitApiFlags) -> Result<()> {
        let lane = flags.lane.as_deref();
        let (store, _) = clickhouse::rows(path, flags.source)?;
        let before = self.calls.len();
        let query = Query { lane: lane.map(str::to_owned), ..Query::default() };
        store.visit_attempts(&query, &mut |row| {
            let sample = &row.sample;
            if row.role == AttemptRole::Probe || !sample.stream {
                return;
            }
            match row.end {
                AttemptEnd::Answered => {
                    self.names.insert(row.lane.clone());
                    self.calls.push(Call {
                        load: f64::from(sample.in_flight.max(1)),
                        prompt: sample.input_tokens.or(sample.input_tokens_std).unwrap_or(0) as f64,
                        ttft: sample.ttft_ns.map(|ns| ns as f64 / 1e9),
                        tpot: sample.tpot_ms().map(|ms| ms / 1e3),
                    });
                }
                AttemptEnd::Failed => self.failed += 1,
                _ => {}
            }
        })?;
        ensure!(
            self.calls.len() > before,
            "estimate: {}: no answer of it was streamed{}",
            path.display(),
            lane.map_or(String::new(), |lane| format!(" by the lane {lane:?}"))
        );
        Ok(())
    }

    /// Requests of a bench: of the rows beside the record, else of its sketches.
    fn add_record(&mut self, path: &Path) -> Result<()> {
        let record = read_record(path)?;
        ensure!(
            !record.is_estimate(),
            "estimate: {} is an estimate; a law is fitted to what was measured",
            path.display()
        );
        let beside = path.with_extension("jsonl");
        let rows = if beside != path && beside.is_file() { read_rows(&beside, &record)? } else { Vec::new() };
        self.names.insert(format!("{}/{}", record.conditions.provider, record.conditions.model));
        for (place, phase) in record.phases.iter().enumerate() {
            let load = match phase.load {
                Load::Closed { concurrency } => f64::from(concurrency),
                // Of an open loop what was in flight in the mean.
                _ => phase.concurrency.mean.unwrap_or(1.0).max(1.0),
            };
            let tokens = &phase.input_tokens;
            let mean = tokens.reported_mean.or(tokens.asked_mean);
            let prompt = mean.unwrap_or(f64::from(phase.conditions.input_tokens));
            self.failed += phase.counts.failed;
            let rows = rows.get(place).filter(|rows| !rows.is_empty());
            match rows {
                Some(rows) => {
                    self.calls.extend(rows.iter().filter(|row| row.is_answered() && !row.warmup).map(|row| Call {
                        load,
                        prompt: row.input_reported.or(row.input_asked).map_or(prompt, |tokens| tokens as f64),
                        ttft: row.ttft_ns.map(|ns| ns as f64 / 1e9),
                        tpot: row.tpot_ms.map(|ms| ms / 1e3),
                    }))
                }
                None => {
                    let call = Call { load, prompt, ttft: None, tpot: None };
                    let ttfts = phase.ttft.values().into_iter().map(|ms| Call { ttft: Some(ms / 1e3), ..call });
                    let tpots = phase.tpot.values().into_iter().map(|ms| Call { tpot: Some(ms / 1e3), ..call });
                    self.calls.extend(ttfts.chain(tpots));
                }
            }
        }
        Ok(())
    }
}
