//! A time window of rows as one measurement that can be held against another: of a log, of probes, of added bench runs.
//!
//! Invariant: the requests of a level were sent when as many were open; what differs between rows is listed, so that unlike ones are
//! not taken for one measurement by mistake.

use crate::{Query, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_core::{Conditions, FailureKind};
use tokrate_record::run::Load;
use tokrate_record::{AttemptEnd, LevelSamples, Metric, PhaseFigures, RunSamples, Samples, tpot_ms};

const COLUMNS: [&str; 18] = [
    "lane",
    "alias",
    "provider",
    "model",
    "dialect_out",
    "stream",
    "region",
    "tokenizer",
    "fingerprint",
    "host",
    "version",
    "in_flight",
    "end",
    "failure",
    "wait_ns",
    "ttft_ns",
    "total_ns",
    "output_speed",
];

/// The rows of a window.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowSamples {
    /// Their numbers, by the requests that were open.
    pub samples: RunSamples,
    /// How many rows there are.
    pub rows: u64,
    /// What differs between them, by name: lanes, workloads, models and so on. Of one measurement each has one value.
    pub kinds: BTreeMap<&'static str, BTreeSet<String>>,
}

#[derive(Default)]
struct Level {
    ttft_ms: Vec<f64>,
    tpot_ms: Vec<f64>,
    e2e_ms: Vec<f64>,
    failed: u64,
    ended: u64,
}

/// As [`Store::window_samples`].
pub(crate) fn window_samples<S: Store + ?Sized>(store: &S, query: &Query) -> Result<WindowSamples, StoreError> {
    let mut levels: BTreeMap<u32, Level> = BTreeMap::new();
    let mut kinds: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    let mut conditions = Conditions::default();
    let mut count = 0;
    store.visit(&COLUMNS, query, false, &mut |mut row| {
        count += 1;
        let mut note = |name: &'static str, value: Option<&str>| {
            let value = value.unwrap_or_default().to_owned();
            kinds.entry(name).or_default().insert(value.clone());
            value
        };
        note("lane", Some(row.str()?));
        note("workload", Some(row.str()?));
        conditions.provider = note("provider", Some(row.str()?));
        conditions.model = note("model", Some(row.str()?));
        conditions.dialect = note("dialect", Some(row.str()?));
        conditions.streaming = row.boolean()?;
        note("streaming", Some(if conditions.streaming { "true" } else { "false" }));
        conditions.region = note("region", row.opt_str()?);
        conditions.tokenizer = note("tokenizer", row.opt_str()?);
        note("conditions", row.opt_str()?);
        conditions.host = row.opt_text()?.unwrap_or_default();
        conditions.version = row.text()?;
        let level = levels.entry(row.count::<u32>()?.max(1)).or_default();
        let end = row.named(&AttemptEnd::ALL, AttemptEnd::name)?;
        let failure = row.opt_named(&FailureKind::ALL, FailureKind::name)?;
        let is_failed = end == AttemptEnd::Failed && failure != Some(FailureKind::Cancelled);
        level.failed += u64::from(is_failed);
        level.ended += u64::from(is_failed || end == AttemptEnd::Answered);
        let wait: u64 = row.opt_count()?.unwrap_or(0);
        let ms = |ns: u64| ns as f64 / 1e6;
        level.ttft_ms.extend(row.opt_count()?.map(ms));
        let total: u64 = row.count()?;
        level.e2e_ms.extend((end == AttemptEnd::Answered).then(|| ms(total.saturating_sub(wait))));
        level.tpot_ms.extend(tpot_ms(row.opt_real()?));
        Ok(())
    })?;
    kinds.retain(|_, values| values.len() > 1);
    let levels = levels.into_iter().map(|(in_flight, level)| level.close(in_flight)).collect();
    Ok(WindowSamples { samples: RunSamples { conditions, levels, cut_rounds: 0, looks: None }, rows: count, kinds })
}

impl Level {
    fn close(self, in_flight: u32) -> LevelSamples {
        LevelSamples {
            name: format!("concurrency {in_flight}"),
            load: Load::Closed { concurrency: in_flight },
            times: BTreeMap::from([
                (Metric::Ttft, Samples::exact(self.ttft_ms)),
                (Metric::Tpot, Samples::exact(self.tpot_ms)),
                (Metric::E2e, Samples::exact(self.e2e_ms)),
            ]),
            failed: self.failed,
            ended: self.ended,
            throughput: None,
            of_phases: PhaseFigures::default(),
        }
    }
}
