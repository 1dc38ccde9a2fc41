//! MLflow's file store: a folder of an experiment, a folder of a run in it, a file for each parameter, tag and figure.
//!
//! Layout: `mlflow/store/tracking/file_store.py` of <https://github.com/mlflow/mlflow>.

use super::{ExportedRun, Logged};
use crate::out::files;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The experiment that runs are added to: its name, and its number, the bytes of the name as one. A database has whole numbers here, and
/// `mlflow migrate-filestore` takes over no experiment whose folder is none.
const EXPERIMENT: &str = "tokrate";
const EXPERIMENT_ID: &str = "32773604569609317";
/// MLflow's numbers of states and of kinds of source.
const FINISHED: u32 = 3;
const FAILED: u32 = 4;
const LOCAL: u32 = 4;

/// Writes the run; where it is.
pub fn write(folder: &Path, run: &ExportedRun<'_>) -> Result<PathBuf> {
    let experiment = std::path::absolute(folder).context("find the folder of --mlflow")?.join(EXPERIMENT_ID);
    let place = experiment.join(&run.id);
    for part in ["metrics", "params", "tags", "artifacts"] {
        make_folder(&place.join(part))?;
    }
    let meta = experiment.join("meta.yaml");
    if !meta.is_file() {
        files::write(&meta, &experiment_meta(&experiment, run.started_unix_ms))?;
    }
    for (name, value) in &run.parameters {
        files::write(&place.join("params").join(name), value)?;
    }
    for (name, value) in [
        ("mlflow.runName", run.name.as_str()),
        ("mlflow.source.name", "tokrate bench"),
        ("mlflow.source.type", "LOCAL"),
    ] {
        files::write(&place.join("tags").join(name), value)?;
    }
    for (name, lines) in figures(run) {
        let file = place.join("metrics").join(name);
        make_folder(file.parent().unwrap_or(&place))?;
        files::write(&file, &lines)?;
    }
    files::write(&place.join("artifacts/record.json"), &run.record.to_json())?;
    // The last: a folder without it is no run yet.
    files::write(&place.join("meta.yaml"), &run_meta(&place, run))?;
    Ok(place)
}

fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("make the folder {}", path.display()))
}

/// The lines of each figure: time, value, step.
fn figures<'r>(run: &'r ExportedRun<'_>) -> BTreeMap<&'r str, String> {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for Logged { name, value, step, at_unix_ms } in run.levels.iter().chain(&run.slices) {
        // A string takes everything.
        let _ = writeln!(all.entry(name).or_default(), "{at_unix_ms} {value} {step}");
    }
    all
}

/// A text as YAML takes it whatever is in it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn address(place: &Path) -> String {
    quoted(&format!("file://{}", place.display()))
}

fn experiment_meta(place: &Path, at_unix_ms: i64) -> String {
    format!(
        "artifact_location: {}\ncreation_time: {at_unix_ms}\nexperiment_id: '{EXPERIMENT_ID}'\nlast_update_time: {at_unix_ms}\n\
         lifecycle_stage: active\nname: {EXPERIMENT}\n",
        address(place)
    )
}

fn run_meta(place: &Path, run: &ExportedRun<'_>) -> String {
    let ExportedRun { id, started_unix_ms, ended_unix_ms, .. } = run;
    let status = if run.has_failed { FAILED } else { FINISHED };
    format!(
        "artifact_uri: {}\nend_time: {ended_unix_ms}\nentry_point_name: ''\nexperiment_id: '{EXPERIMENT_ID}'\nlifecycle_stage: active\n\
         run_id: {id}\nrun_name: {}\nrun_uuid: {id}\nsource_name: tokrate bench\nsource_type: {LOCAL}\nsource_version: ''\n\
         start_time: {started_unix_ms}\nstatus: {status}\ntags: []\nuser_id: tokrate\n",
        address(&place.join("artifacts")),
        quoted(&run.name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiment_has_a_number_that_a_database_takes() {
        let name: [u8; 7] = EXPERIMENT.as_bytes().try_into().expect("seven letters");
        let number = name.iter().fold(0, |number: i64, letter| number << 8 | i64::from(*letter));
        assert_eq!(EXPERIMENT_ID.parse(), Ok(number));
    }
}
