//! Groups the rows of two time windows into comparable levels.
//!
//! Invariant: a level holds rows of one lane, one model, one pair of dialects, streamed or not, from one region, counted with one
//! tokenizer, with a similar number of open calls and a similar request size; of probes and of a bench's requests also those of one
//! workload under the same conditions.

use crate::{Query, Store, StoreError};
use std::collections::BTreeMap;
use tokrate_core::Conditions;
use tokrate_record::run::Load;
use tokrate_record::{AttemptEnd, LevelSamples, Metric, PhaseFigures, RunSamples, Samples, tpot_ms};

const COLUMNS: [&str; 15] = [
    "started_unix_ms",
    "lane",
    "model",
    "dialect_in",
    "dialect_out",
    "stream",
    "in_flight",
    "request_bytes",
    "region",
    "tokenizer",
    "alias",
    "fingerprint",
    "end",
    "ttft_ns",
    "output_speed",
];

/// What rows of a level have in common. Bands are named by their lower ends: powers of two for calls, of four for KiB.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LevelKey {
    lane: String,
    model: String,
    dialects: (String, String),
    stream: bool,
    in_flight: u32,
    request_kib: u64,
    /// None that was named is one of its own: whoever names one has moved, or has begun to keep them apart.
    region: Option<String>,
    tokenizer: String,
    /// Workload and fingerprint, where requests have conditions of their own.
    workload: Option<(String, String)>,
}

/// Tokenizer of rows that do not name theirs: earlier versions had no other.
const FIRST_TOKENIZER: &str = "o200k_base";

/// The rows of a level in one window.
#[derive(Default)]
struct Window {
    ttft_ms: Vec<f64>,
    tpot_ms: Vec<f64>,
    failed: u64,
    ended: u64,
}

/// As [`Store::sides`].
pub(crate) fn sides<S: Store + ?Sized>(
    store: &S,
    query: &Query,
    split_unix_ms: u64,
) -> Result<(RunSamples, RunSamples), StoreError> {
    let mut levels: BTreeMap<LevelKey, [Window; 2]> = BTreeMap::new();
    store.visit(&COLUMNS, query, false, &mut |mut row| {
        let started: u64 = row.count()?;
        let key = LevelKey {
            lane: row.text()?,
            model: row.text()?,
            dialects: (row.text()?, row.text()?),
            stream: row.boolean()?,
            in_flight: concurrency_band(row.count()?),
            request_kib: size_band(row.count()?),
            region: row.opt_text()?,
            tokenizer: row.opt_str()?.unwrap_or(FIRST_TOKENIZER).to_owned(),
            workload: {
                let alias = row.str()?;
                row.opt_str()?.map(|fingerprint| (alias.to_owned(), fingerprint.to_owned()))
            },
        };
        let end = row.named(&AttemptEnd::ALL, AttemptEnd::name)?;
        let ttft: Option<u64> = row.opt_count()?;
        let speed = row.opt_real()?;
        let window = &mut levels.entry(key).or_default()[usize::from(started >= split_unix_ms)];
        window.ttft_ms.extend(ttft.map(|ns| ns as f64 / 1e6));
        window.tpot_ms.extend(tpot_ms(speed));
        window.failed += u64::from(end == AttemptEnd::Failed);
        window.ended += u64::from(matches!(end, AttemptEnd::Failed | AttemptEnd::Answered));
        Ok(())
    })?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (number, (key, [earlier, later])) in (1..).zip(levels) {
        before.extend(earlier.level(&key, number));
        after.extend(later.level(&key, number));
    }
    let side = |levels| RunSamples { conditions: Conditions::default(), levels, cut_rounds: 0, looks: None };
    Ok((side(before), side(after)))
}

impl Window {
    fn level(self, key: &LevelKey, number: u32) -> Option<LevelSamples> {
        let seen = self.ended > 0 || !self.ttft_ms.is_empty();
        seen.then(|| LevelSamples {
            name: key.name(),
            load: Load::Closed { concurrency: number },
            times: BTreeMap::from([
                (Metric::Ttft, Samples::exact(self.ttft_ms)),
                (Metric::Tpot, Samples::exact(self.tpot_ms)),
            ]),
            failed: self.failed,
            ended: self.ended,
            throughput: None,
            of_phases: PhaseFigures::default(),
        })
    }
}

impl LevelKey {
    fn name(&self) -> String {
        let (client, lane) = &self.dialects;
        let dialects = if client == lane { client.clone() } else { format!("{client} to {lane}") };
        let stream = if self.stream { "stream" } else { "whole" };
        let calls = match self.in_flight {
            1 => "1 open".to_owned(),
            low => format!("{low}-{} open", 2 * low - 1),
        };
        let size = match self.request_kib {
            0 => "< 1 KiB".to_owned(),
            low => format!("{low}-{} KiB", 4 * low),
        };
        let mut name = format!("{}, {}, {dialects}, {stream}, {calls}, {size}", self.lane, self.model);
        if let Some(region) = &self.region {
            name += &format!(", from {region}");
        }
        if self.tokenizer != FIRST_TOKENIZER {
            name += &format!(", {}", self.tokenizer);
        }
        if let Some((workload, fingerprint)) = &self.workload {
            name += &format!(", {workload} (conditions {fingerprint})");
        }
        name
    }
}

fn concurrency_band(in_flight: u32) -> u32 {
    1 << in_flight.max(1).ilog2()
}

fn size_band(request_bytes: u64) -> u64 {
    match request_bytes / 1_024 {
        0 => 0,
        kib => 1 << (kib.ilog2() / 2 * 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_what_their_names_say() {
        assert_eq!([0, 1, 2, 3, 4, 7, 8, 100].map(concurrency_band), [1, 1, 2, 2, 4, 4, 8, 64]);
        assert_eq!([0, 1_023, 1_024, 4_095, 4_096, 16_383, 16_384].map(size_band), [0, 0, 1, 1, 4, 4, 16]);
    }
}
