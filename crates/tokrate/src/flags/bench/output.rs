//! Flags of `tokrate bench` that say where results go. Nothing is resolved or checked here beyond its form.

use clap::Args;
use std::path::PathBuf;

/// Where results go.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Write the record (JSON) to a file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one line of JSON per request to a file
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// Write the report (one self-contained HTML file) [default without --url: tokrate-report.html]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Do not write an HTML report
    #[arg(long, conflicts_with = "html")]
    pub no_html: bool,
    /// No progress and no table, only files and errors
    #[arg(long, short)]
    pub quiet: bool,
}
