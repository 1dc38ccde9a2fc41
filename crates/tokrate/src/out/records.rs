//! Records and rows read back from their files.
//!
//! It does not compare. Invariant: what cannot be understood is an error that names the file, the line and the column.

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use std::path::Path;
use tokrate_judge::Comparison;
use tokrate_meter::RequestNumbers;
use tokrate_record::Record;
use tokrate_targets::reading::{self, MAX_DATA_BYTES};

/// One line of `--jsonl`, as far as it is needed to find its phase.
#[derive(Deserialize)]
struct Row {
    phase: String,
    #[serde(flatten)]
    numbers: RequestNumbers,
}

/// The records of a file: one, or those of several targets.
pub fn read_records(path: &Path) -> Result<Vec<Record>> {
    let text = reading::text_of(path, MAX_DATA_BYTES)
        .with_context(|| format!("read {}; name a file that `tokrate bench --json` wrote", path.display()))?;
    ensure!(
        text.trim_start().starts_with('{'),
        "read {}: it holds no record, which is a JSON object; name a file that `tokrate bench --json` wrote",
        path.display()
    );
    Comparison::parse_records(&text).map_err(|error| anyhow!("{error} ({})", path.display()))
}

/// The only record of a file.
pub fn read_record(path: &Path) -> Result<Record> {
    let mut records = read_records(path)?;
    ensure!(
        records.len() == 1,
        "read {}: it holds {} records; name a file with the record of one target",
        path.display(),
        records.len()
    );
    Ok(records.remove(0))
}

/// The rows of a file, in the order of the record's phases; a phase without rows gets none.
pub fn read_rows(path: &Path, record: &Record) -> Result<Vec<Vec<RequestNumbers>>> {
    let text =
        reading::text_of(path, MAX_DATA_BYTES).with_context(|| format!("read the rows in {}", path.display()))?;
    let mut phases: Vec<Vec<RequestNumbers>> = record.phases.iter().map(|_| Vec::new()).collect();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row: Row = serde_json::from_str(line).map_err(|error| {
            anyhow!(
                "read the rows in {}, line {}, column {}: {error}; expected a request as --jsonl writes it, or move the file away \
                 to compare the record alone",
                path.display(),
                number + 1,
                error.column()
            )
        })?;
        if let Some(place) = record.phases.iter().position(|phase| phase.name == row.phase) {
            phases[place].push(row.numbers);
        }
    }
    Ok(phases)
}

/// Whether the embedded engine was measured.
pub fn is_embedded(record: &Record) -> bool {
    record.conditions.provider == "tokrate sim (embedded)"
}
