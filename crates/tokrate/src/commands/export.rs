//! `tokrate export`: a record in the forms of programs that keep experiments.

use super::Verdict;
use crate::flags::export::Flags;
use crate::out::export::{ExportedRun, mlflow, wandb};
use crate::out::records::read_records;
use crate::out::stdout;
use anyhow::Result;

/// Writes a run for each record of the file.
pub fn run(flags: &Flags) -> Result<Verdict> {
    for record in read_records(&flags.record)? {
        let run = ExportedRun::of(&record);
        if let Some(folder) = &flags.mlflow {
            stdout::write(&format!("mlflow: {}\n", mlflow::write(folder, &run)?.display()))?;
        }
        if let Some(folder) = &flags.wandb {
            stdout::write(&format!("wandb: {}\n", wandb::write(folder, &run)?.display()))?;
        }
    }
    Ok(Verdict::Good)
}
