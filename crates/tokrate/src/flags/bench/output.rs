//! Flags of `tokrate bench` that say where results go. Nothing is resolved or checked here beyond its form.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Where results go.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct Output {
    /// Write the record (JSON) to a file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one line of JSON per request to a file
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<PathBuf>,
    /// Keep in each row the top-level fields of the answer that its dialect does not prescribe, the last value of each; every
    /// event is then read in full
    #[arg(long, requires = "jsonl")]
    pub keep_unknown: bool,
    /// Write every arrival of every request to a file, in columns, CSV or lines of JSON by its ending: .parquet, .csv or .jsonl
    #[arg(long, value_name = "FILE")]
    pub chunks: Option<PathBuf>,
    /// Length of the slices of time in record and report, at least 100ms [default: such that there are 30 to 120]
    #[arg(long, value_name = "TIME")]
    pub slice: Option<String>,
    /// Write the report (one self-contained HTML file) [default: tokrate-report.html of the embedded engine, else none]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Do not write an HTML report
    #[arg(long, conflicts_with = "html")]
    pub no_html: bool,
    /// Write one row per load level (CSV) to a file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the result as Markdown, for a pull request, to a file or `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the result in the layout of `vllm bench serve --save-result` to a file
    #[arg(long, value_name = "FILE")]
    pub vllm_json: Option<PathBuf>,
    /// Write the verdicts as JUnit XML, for CI systems, to a file
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a badge (SVG) with output speed and TTFT at the lowest load to a file
    #[arg(long, value_name = "FILE")]
    pub badge: Option<PathBuf>,
    /// Put the requests on the board of `tokrate monitor`, as a source of their own: its database, made if it is not there
    #[arg(long, value_name = "FILE")]
    pub board: Option<PathBuf>,
    /// Show the targets side by side: speed, TTFT and ranks with ties, speed kept under load, tails, errors, price
    #[arg(long)]
    pub scorecard: bool,
    /// Print every number of every level, and each round by itself
    #[arg(long, conflicts_with = "quiet")]
    pub wide: bool,
    /// What is seen on standard error while it runs [default: auto, which is live where a terminal can show it]
    #[arg(long, value_enum, conflicts_with = "quiet")]
    pub progress: Option<Progress>,
    /// No progress and no table, only files and errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// What is seen of a run while it runs.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A view of the present level, the curve so far, errors, the client, time and money left
    Live,
    /// A line for each level that has ended
    Lines,
    /// Only the plan, and when a provider asks to wait
    None,
    /// Live in a terminal of 60 columns and 16 rows or more, lines in any other, none in a pipe
    Auto,
}
