//! The rows of two windows of time, sorted into like with like, for comparing.
//!
//! It refuses to judge. Invariant: a level holds rows of one lane, one model, one pair of dialects, streamed or not, with
//! nearly the same number of calls open and nearly the same size of request; nothing else is ever held against each other.

use crate::{Query, Sqlite, StoreError};
use std::collections::BTreeMap;
use tokrate_core::Conditions;
use tokrate_meter::compare::{LevelSamples, RunSamples, Samples};
use tokrate_meter::run::Load;
use tokrate_meter::{AttemptEnd, Metric};

const COLUMNS: [&str; 11] = [
    "started_unix_ms",
    "lane",
    "model",
    "dialect_in",
    "dialect_out",
    "stream",
    "in_flight",
    "request_bytes",
    "end",
    "ttft_ns",
    "output_speed",
];

/// What makes rows alike. Bands are told by their lower ends: powers of two for calls, of four for KiB.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Likeness {
    lane: String,
    model: String,
    dialects: (String, String),
    stream: bool,
    in_flight: u32,
    request_kib: u64,
}

/// The rows of a level in one window.
#[derive(Default)]
struct Window {
    ttft_ms: Vec<f64>,
    tpot_ms: Vec<f64>,
    failed: u64,
    ended: u64,
}

impl Sqlite {
    /// The rows of a query, those begun before `split_unix_ms` and the later ones, for [`tokrate_meter::compare::compare`].
    /// TTFT and output speed are of all attempts that have one; failures are counted among those that were answered or
    /// failed. The concurrency of a level is only its number: its name says what its rows have in common.
    ///
    /// # Errors
    /// When the store cannot be read, or a row in it is damaged.
    pub fn sides(&self, query: &Query, split_unix_ms: u64) -> Result<(RunSamples, RunSamples), StoreError> {
        let mut levels: BTreeMap<Likeness, [Window; 2]> = BTreeMap::new();
        self.visit_all(&COLUMNS, query, |mut row| {
            let started: u64 = row.count()?;
            let likeness = Likeness {
                lane: row.text()?,
                model: row.text()?,
                dialects: (row.text()?, row.text()?),
                stream: row.truth()?,
                in_flight: calls_band(row.count()?),
                request_kib: size_band(row.count()?),
            };
            let end = row.named(&AttemptEnd::ALL, AttemptEnd::name)?;
            let ttft: Option<u64> = row.maybe_count()?;
            let speed = row.maybe_number()?;
            let window = &mut levels.entry(likeness).or_default()[usize::from(started >= split_unix_ms)];
            window.ttft_ms.extend(ttft.map(|ns| ns as f64 / 1e6));
            window.tpot_ms.extend(speed.filter(|speed| *speed > 0.0).map(|speed| 1e3 / speed));
            window.failed += u64::from(end == AttemptEnd::Failed);
            window.ended += u64::from(matches!(end, AttemptEnd::Failed | AttemptEnd::Answered));
            Ok(())
        })?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (number, (likeness, [earlier, later])) in (1..).zip(levels) {
            before.extend(earlier.level(&likeness, number));
            after.extend(later.level(&likeness, number));
        }
        let side = |levels| RunSamples { conditions: Conditions::default(), levels };
        Ok((side(before), side(after)))
    }
}

impl Window {
    fn level(self, likeness: &Likeness, number: u32) -> Option<LevelSamples> {
        let seen = self.ended > 0 || !self.ttft_ms.is_empty();
        seen.then(|| LevelSamples {
            name: likeness.name(),
            load: Load::Closed { concurrency: number },
            times: BTreeMap::from([
                (Metric::Ttft, Samples::exact(self.ttft_ms)),
                (Metric::Tpot, Samples::exact(self.tpot_ms)),
            ]),
            failed: self.failed,
            ended: self.ended,
            throughput: None,
        })
    }
}

impl Likeness {
    fn name(&self) -> String {
        let (client, lane) = &self.dialects;
        let dialects = if client == lane { client.clone() } else { format!("{client} to {lane}") };
        let stream = if self.stream { "stream" } else { "whole" };
        let calls = match self.in_flight {
            1 => "1 open".to_owned(),
            least => format!("{least}-{} open", 2 * least - 1),
        };
        let size = match self.request_kib {
            0 => "< 1 KiB".to_owned(),
            least => format!("{least}-{} KiB", 4 * least),
        };
        format!("{}, {}, {dialects}, {stream}, {calls}, {size}", self.lane, self.model)
    }
}

fn calls_band(in_flight: u32) -> u32 {
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
        assert_eq!([0, 1, 2, 3, 4, 7, 8, 100].map(calls_band), [1, 1, 2, 2, 4, 4, 8, 64]);
        assert_eq!([0, 1_023, 1_024, 4_095, 4_096, 16_383, 16_384].map(size_band), [0, 0, 1, 1, 4, 4, 16]);
    }
}
