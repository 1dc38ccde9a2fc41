//! The detector on a gateway's own traffic, from its throughput log while it is written.
//!
//! A quarter of an hour of a lane, model asked for and band of load and prompt length is one sample: the medians of its requests. So a
//! lane is compared with itself at like load, and a busy gateway costs no more than an idle one. It reads through a connection of its
//! own, and no call waits for it.
//!
//! Invariant: each quarter is read once, after its requests have had time to end; the work for one is bounded.

use crate::row::detected;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokrate_detect::{Detector, Event, FalseAlarms, Sample, Source};
use tokrate_record::{Attempt, AttemptRole};
use tokrate_store::{ProbeRow, Query, Sqlite, Store, StoreError};

/// What is one sample (ms).
pub const STEP_MS: u64 = 900_000;
/// So long after a quarter's end it is read: a request that takes longer is left out.
const SETTLE_MS: u64 = 120_000;
/// What the detector looks back: a baseline of 28 days that ends six days ago, and a day more.
const HISTORY_MS: u64 = 35 * 86_400_000;
/// Most requests of a quarter that are read, the first ones: a median of more is no surer than its hour is like others.
const MAX_ROWS: u64 = 1_000;
/// Quarters of one poll: a day.
const MAX_QUARTERS: u64 = 96;

/// Follows a log.
pub struct TrafficWatch {
    log: PathBuf,
    detector: Detector,
    /// The first quarter that is not read (ms since 1970).
    next_unix_ms: u64,
}

/// What a poll came to.
#[derive(Debug, Default)]
pub struct TrafficFindings {
    /// What was found, in the order of finding.
    pub events: Vec<Event>,
    /// Whether more can be read at once.
    pub is_behind: bool,
}

impl TrafficWatch {
    /// Begins with what the log has of the last 35 days.
    pub fn new(log: PathBuf, now_unix_ms: u64) -> TrafficWatch {
        let first = now_unix_ms.saturating_sub(HISTORY_MS);
        TrafficWatch {
            log,
            detector: Detector::new(FalseAlarms::default()),
            next_unix_ms: first.next_multiple_of(STEP_MS),
        }
    }

    /// Reads what is due, up to a day of it. Blocks on the database.
    ///
    /// # Errors
    /// When the log cannot be read; the same is read by the next poll.
    pub fn poll(&mut self, now_unix_ms: u64) -> Result<TrafficFindings, StoreError> {
        let mut found = TrafficFindings::default();
        let is_due = |next: u64| next + STEP_MS + SETTLE_MS <= now_unix_ms;
        if !is_due(self.next_unix_ms) {
            return Ok(found);
        }
        let reader = Sqlite::open_reader(&self.log)?;
        if !self.skip_empty(&reader, now_unix_ms)? {
            return Ok(found);
        }
        for _ in 0..MAX_QUARTERS {
            if !is_due(self.next_unix_ms) {
                return Ok(found);
            }
            let query = Query {
                from_unix_ms: Some(self.next_unix_ms),
                until_unix_ms: Some(self.next_unix_ms + STEP_MS),
                limit: Some(MAX_ROWS),
                ..Query::default()
            };
            for sample in samples(reader.attempts(&query)?) {
                found.events.extend(self.detector.push(sample));
            }
            self.next_unix_ms += STEP_MS;
        }
        found.is_behind = is_due(self.next_unix_ms);
        Ok(found)
    }

    /// Goes on to the first quarter with a request; says whether there is one that is due.
    fn skip_empty(&mut self, reader: &Sqlite, now_unix_ms: u64) -> Result<bool, StoreError> {
        let due_until = now_unix_ms.saturating_sub(SETTLE_MS) / STEP_MS * STEP_MS;
        let first = reader.attempts(&Query {
            from_unix_ms: Some(self.next_unix_ms),
            until_unix_ms: Some(due_until),
            limit: Some(1),
            ..Query::default()
        })?;
        let first = first.first().map(|attempt| attempt.sample.started_unix_ms);
        self.next_unix_ms = first.map_or(due_until, |at| at / STEP_MS * STEP_MS);
        Ok(first.is_some())
    }
}

/// What belongs to one sample.
#[derive(Default)]
struct Group {
    ttft_ms: Vec<f64>,
    output_speed: Vec<f64>,
    in_flight: Option<u32>,
    input_tokens: Option<u32>,
    at: i64,
}

/// The samples of a quarter, by time.
fn samples(attempts: Vec<Attempt>) -> Vec<Sample> {
    let mut groups: BTreeMap<(Source, u8), Group> = BTreeMap::new();
    // Requests of each source, and how many of them failed.
    let mut outcomes: BTreeMap<Source, (usize, usize, i64)> = BTreeMap::new();
    for attempt in attempts {
        // The gateway's own questions whether a lane is back are nobody's traffic.
        if attempt.role == AttemptRole::Probe {
            continue;
        }
        let row = ProbeRow::of_attempt(attempt);
        let kept = &row.probe.sample;
        let tokens =
            kept.input_tokens.or(kept.input_tokens_std).map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
        let sample = Sample { in_flight: Some(kept.in_flight), input_tokens: tokens, ..detected(&row) };
        let outcome = outcomes.entry(sample.source.clone()).or_insert((0, 0, sample.at));
        *outcome = (outcome.0 + 1, outcome.1 + usize::from(!sample.ok), outcome.2);
        let group = groups.entry((sample.source.clone(), sample.band())).or_default();
        group.ttft_ms.extend(sample.ttft_ms);
        group.output_speed.extend(sample.output_speed);
        (group.in_flight, group.input_tokens, group.at) = (sample.in_flight, sample.input_tokens, sample.at);
    }
    let has_failed = |source: &Source| outcomes.get(source).is_some_and(|(all, failed, _)| 2 * failed > *all);
    let numbers = groups.into_iter().filter(|((source, _), _)| !has_failed(source));
    let mut samples: Vec<Sample> = numbers.map(|((source, _), group)| sample(source, group)).collect();
    let failed = outcomes.iter().filter(|(source, _)| has_failed(source));
    samples.extend(failed.map(|(source, (_, _, at))| Sample {
        ok: false,
        ..sample(source.clone(), Group { at: *at, ..Group::default() })
    }));
    samples.sort_by_key(|sample| sample.at);
    samples
}

fn sample(source: Source, group: Group) -> Sample {
    Sample {
        at: group.at,
        source,
        ttft_ms: median(group.ttft_ms),
        output_speed: median(group.output_speed),
        e2e_ms: None,
        ok: true,
        in_flight: group.in_flight,
        input_tokens: group.input_tokens,
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
