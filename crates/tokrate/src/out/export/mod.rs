//! A record as a run of a program that keeps experiments: parameters, figures of levels, figures over time.
//!
//! Invariant: the same record gives the same run, so that exporting it twice leaves one; what is missing is left out, never 0.

pub mod mlflow;
pub mod wandb;

use crate::out::csv;
use std::fmt::Write as _;
use tokrate_core::parse_rfc3339;
use tokrate_record::run::by_rising_load;
use tokrate_record::{Record, Status};

/// A figure at a step and a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Logged {
    pub name: String,
    pub value: f64,
    /// The load of a level, or the number of a slice.
    pub step: u64,
    pub at_unix_ms: i64,
}

/// A run.
pub struct ExportedRun<'a> {
    pub record: &'a Record,
    /// 32 hexadecimal digits that follow from the record.
    pub id: String,
    pub name: String,
    pub started_unix_ms: i64,
    pub ended_unix_ms: i64,
    pub has_failed: bool,
    pub parameters: Vec<(&'static str, String)>,
    /// Of levels, by rising load.
    pub levels: Vec<Logged>,
    /// Over time.
    pub slices: Vec<Logged>,
}

impl ExportedRun<'_> {
    /// The run of a record.
    pub fn of(record: &Record) -> ExportedRun<'_> {
        let conditions = &record.conditions;
        let started_unix_ms = parse_rfc3339(&record.started_at).unwrap_or(0);
        let ended_unix_ms = started_unix_ms + (record.wall_seconds * 1e3) as i64;
        let parameters = vec![
            ("model", conditions.model.clone()),
            ("endpoint", conditions.endpoint.clone()),
            ("dialect", conditions.dialect.clone()),
            ("arrivals", conditions.arrivals.clone()),
            ("input_tokens", conditions.input_tokens.to_string()),
            ("output_tokens", conditions.output_tokens.to_string()),
            ("streaming", conditions.streaming.to_string()),
            ("seed", conditions.seed.to_string()),
            ("tokrate_version", record.tool.version.clone()),
            ("conditions", conditions.fingerprint.clone()),
        ];
        ExportedRun {
            record,
            id: id_of(&record.to_json()),
            name: format!("{} {}", conditions.model, record.started_at),
            started_unix_ms,
            ended_unix_ms,
            has_failed: record.status == Status::Failed,
            parameters: parameters.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
            levels: levels(record, started_unix_ms),
            slices: slices(record, started_unix_ms),
        }
    }
}

/// The figures of levels: those of `--csv` that are numbers. Their step is the load where every load is a whole number of its own.
fn levels(record: &Record, started_unix_ms: i64) -> Vec<Logged> {
    let phases = by_rising_load(&record.phases);
    let amounts: Vec<f64> = phases.iter().map(|phase| phase.load.amount()).collect();
    let is_whole = amounts.iter().all(|amount| amount.fract() == 0.0);
    let zero = record.timeline.as_ref().map_or(0, |timeline| timeline.began_at_ns);
    let each = phases.iter().zip(&amounts).enumerate().flat_map(|(place, (phase, amount))| {
        let step = if is_whole { *amount as u64 } else { place as u64 };
        let since = phase.ended_at_ns.checked_sub(zero).filter(|_| zero > 0).unwrap_or(0);
        let at_unix_ms = started_unix_ms + (since / 1_000_000) as i64;
        let sampled = phase.sampled.as_ref();
        let joules =
            sampled.and_then(|sampled| sampled.joules_per_token).map(|joules| ("joules_per_token".to_owned(), joules));
        let figures = csv::numbers(phase).into_iter().chain(joules);
        figures.map(move |(name, value)| Logged { name: format!("level/{name}"), value, step, at_unix_ms })
    });
    each.filter(|logged| logged.value.is_finite()).collect()
}

/// The figures over time, slice after slice.
fn slices(record: &Record, started_unix_ms: i64) -> Vec<Logged> {
    let Some(timeline) = &record.timeline else { return Vec::new() };
    let count = timeline.series.iter().map(|row| row.values.len()).max().unwrap_or(0);
    let of_slice = |slice: usize| {
        let at_unix_ms = started_unix_ms + ((slice + 1) as f64 * timeline.slice_seconds * 1e3) as i64;
        timeline.series.iter().filter_map(move |row| {
            let value = (*row.values.get(slice)?)?;
            Some(Logged { name: format!("time/{}", row.name), value, step: slice as u64, at_unix_ms })
        })
    };
    (0..count).flat_map(of_slice).collect()
}

/// 128 bits of FNV-1a from two beginnings: no secret, only the same for the same text.
fn id_of(text: &str) -> String {
    let hash =
        |basis: u64| text.bytes().fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut id = String::new();
    let _ = write!(id, "{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x6c62_272e_07bb_0142));
    id
}
