//! The files of a Weights & Biases run, by the names under which its client keeps them: configuration, history and summary.
//!
//! It does not write the client's own log (`.wandb`, protocol buffers whose form is the client's own): docs/ci.md says how these files are logged.

use super::{ExportedRun, Logged};
use crate::out::files;
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Writes the files; where they are.
pub fn write(folder: &Path, run: &ExportedRun<'_>) -> Result<PathBuf> {
    let place = folder.join(format!("tokrate-{}", &run.id[..8])).join("files");
    std::fs::create_dir_all(&place).with_context(|| format!("make the folder {}", place.display()))?;
    let config: Map<String, Value> =
        run.parameters.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    files::write(&place.join("config.json"), &format!("{}\n", Value::Object(config)))?;
    files::write(&place.join("wandb-history.jsonl"), &history(run))?;
    files::write(&place.join("wandb-summary.json"), &format!("{}\n", summary(run)))?;
    files::write(&place.join("record.json"), &run.record.to_json())?;
    Ok(place)
}

/// A line for each level and for each slice. Steps of levels and of slices are axes of their own (`level/step`, `time/step`).
fn history(run: &ExportedRun<'_>) -> String {
    let mut text = String::new();
    for (axis, logged) in [("level/step", &run.levels), ("time/step", &run.slices)] {
        for row in logged.chunk_by(|a, b| (a.step, a.at_unix_ms) == (b.step, b.at_unix_ms)) {
            let mut line: Map<String, Value> =
                row.iter().map(|Logged { name, value, .. }| (name.clone(), json!(value))).collect();
            line.insert("_timestamp".to_owned(), json!(row[0].at_unix_ms as f64 / 1e3));
            line.insert(axis.to_owned(), json!(row[0].step));
            text += &format!("{}\n", Value::Object(line));
        }
    }
    text
}

/// The last of each figure of levels: those of the highest load.
fn summary(run: &ExportedRun<'_>) -> Value {
    let mut all: Map<String, Value> =
        run.levels.iter().map(|Logged { name, value, .. }| (name.clone(), json!(value))).collect();
    all.insert("_runtime".to_owned(), json!(run.record.wall_seconds));
    Value::Object(all)
}
