//! The flags of `tokrate export`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate export`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate export record.json --mlflow mlruns       a run for each target, in a file store of MLflow
  tokrate export record.json --wandb wandb         history, summary and configuration of a run, for `wandb.log`")]
pub struct Flags {
    /// Record of `tokrate bench --json`
    #[arg(value_name = "FILE")]
    pub record: PathBuf,
    /// Folder of MLflow's file store that a run is added to; made if it is not there
    #[arg(long, value_name = "DIR", required_unless_present = "wandb")]
    pub mlflow: Option<PathBuf>,
    /// Folder for the files of a Weights & Biases run; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub wandb: Option<PathBuf>,
}
