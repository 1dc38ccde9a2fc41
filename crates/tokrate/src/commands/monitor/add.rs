//! `tokrate monitor add`: records of a bench on a board, as a source of their own.
//!
//! Invariant: every file is read and understood before anything is added.

use crate::commands::Verdict;
use crate::config::file::File;
use crate::config::monitor::database;
use crate::flags::monitor::AddFlags;
use crate::out::board::add_phase;
use crate::out::records::{read_record, read_rows};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tokrate_core::parse_rfc3339;
use tokrate_record::{EstimatedLoad, ProbeNames, Record};
use tokrate_store::{EstimateRow, MonitorStore, MonitorWrite};

/// Adds records with the rows beside them.
pub fn run(flags: &AddFlags) -> Result<Verdict> {
    let path = database_path(flags.db.as_deref());
    let (mut read, mut estimates) = (Vec::new(), Vec::new());
    for record_path in &flags.records {
        let record = read_record(record_path)?;
        if record.is_estimate() {
            estimates.push(estimated(&record, flags).with_context(|| format!("add {}", record_path.display()))?);
            continue;
        }
        ensure!(
            flags.model.is_none(),
            "add {}: --model is of estimates; a measured record says which model it asked",
            record_path.display()
        );
        let beside = record_path.with_extension("jsonl");
        ensure!(
            beside != *record_path && beside.is_file(),
            "add {}: its requests are not beside it, in {}; measure with --jsonl as well, or with `tokrate bench --board`",
            record_path.display(),
            beside.display()
        );
        let rows = read_rows(&beside, &record)?;
        read.push((record_path, record, rows));
    }
    let mut store = MonitorStore::open_to_add(&path)?;
    for rows in estimates {
        store.apply(&rows.iter().cloned().map(|row| MonitorWrite::Estimate(Box::new(row))).collect::<Vec<_>>())?;
        let Some(EstimateRow { endpoint, model, workload, .. }) = rows.into_iter().next() else { continue };
        anstream::eprintln!(
            "tokrate: the estimate {endpoint} is in {}: a hollow mark beside what is measured of the model {model} ({workload}), never ranked",
            path.display()
        );
    }
    for (record_path, record, rows) in read {
        let mut names = ProbeNames::of(&record);
        let given = [
            (&flags.endpoint, &mut names.endpoint),
            (&flags.workload, &mut names.workload),
            (&flags.place, &mut names.place),
        ];
        for (given, name) in given {
            if let Some(given) = given {
                name.clone_from(given);
            }
        }
        let mut count = 0;
        for (number, rows) in rows.iter().enumerate() {
            count += add_phase(&mut store, &record, number, rows, &names)
                .with_context(|| format!("add {}", record_path.display()))?;
        }
        ensure!(count > 0, "add {}: no request of it counts", record_path.display());
        let ProbeNames { endpoint, workload, place } = names;
        anstream::eprintln!(
            "tokrate: {count} requests of {endpoint} ({workload}, from {place}) are in {}, as the source `bench`",
            path.display()
        );
    }
    Ok(Verdict::Good)
}

/// The rows of an estimate: one for each load that has a speed.
fn estimated(record: &Record, flags: &AddFlags) -> Result<Vec<EstimateRow>> {
    ensure!(flags.place.is_none(), "an estimate is from nowhere; leave out --place");
    let estimate = record.estimate.as_ref().context("it says that it is an estimate and holds none")?;
    let names = ProbeNames::of(record);
    let endpoint = || format!("estimate/{} x {}", estimate.devices, estimate.hardware);
    let row = |load: &EstimatedLoad| {
        let speed = load.tok_s_user?;
        Some(EstimateRow {
            endpoint: flags.endpoint.clone().unwrap_or_else(endpoint),
            model: flags.model.clone().unwrap_or_else(|| record.conditions.model.clone()),
            workload: flags.workload.clone().unwrap_or_else(|| names.workload.clone()),
            in_flight: load.concurrency,
            output_speed: speed.value,
            low: speed.low,
            high: speed.high,
            made_unix_ms: parse_rfc3339(&record.started_at).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0),
        })
    };
    let rows: Vec<EstimateRow> = estimate.loads.iter().filter_map(row).collect();
    ensure!(!rows.is_empty(), "no load of it has a speed");
    Ok(rows)
}

/// The named database, or that of the settings file, or the default one.
pub fn database_path(named: Option<&Path>) -> PathBuf {
    named.map_or_else(
        || {
            File::of_folder("name the database with --db")
                .map_or_else(|_| PathBuf::from(DEFAULT), |file| database(&file))
        },
        Path::to_owned,
    )
}

const DEFAULT: &str = crate::config::monitor::DEFAULT_DATABASE;
