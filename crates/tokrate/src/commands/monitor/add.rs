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
use tokrate_record::ProbeNames;
use tokrate_store::MonitorStore;

/// Adds records with the rows beside them.
pub fn run(flags: &AddFlags) -> Result<Verdict> {
    let path = database_path(flags.db.as_deref());
    let mut read = Vec::new();
    for record_path in &flags.records {
        let record = read_record(record_path)?;
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
