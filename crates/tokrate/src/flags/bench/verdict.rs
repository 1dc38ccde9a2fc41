//! Flags of `tokrate bench` that say what the result is compared with. Nothing is resolved or checked here beyond its form.

use clap::Args;
use std::path::PathBuf;

/// What the result is compared with.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Verdicts")]
pub struct Verdict {
    /// What a good request keeps, such as ttft_ms<500, tpot_ms<50 or output_speed>30, or 'ttft:500 tpot:50' as in vLLM; repeatable.
    /// Requests that keep all of them are the goodput; failed and rate-limited ones miss
    #[arg(long = "slo", value_name = "METRIC<BOUND")]
    pub slos: Vec<String>,
    /// What the result must keep, such as 'ttft_ms.p95 < 500 @ concurrency 10' or 'failures.share < 1%'; 'ttft:500' is of every
    /// request; repeatable. One that is not met, or not measured, makes the exit code 1
    #[arg(long = "assert", value_name = "ASSERTION")]
    pub asserts: Vec<String>,
    /// Compare with this record; a regression makes the exit code 1. It must be there, unless --save-baseline names the
    /// same file
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Keep the record as a baseline, if the run ends with exit code 0 and its figures are valid
    #[arg(long, value_name = "FILE")]
    pub save_baseline: Option<PathBuf>,
    /// Conditions in which the baseline may differ, `all` for every one
    #[arg(long, value_name = "CONDITION,…", value_delimiter = ',', requires = "baseline")]
    pub ignore: Vec<String>,
    /// Relative change for the worse above which it is a regression, such as 5% or 0.05 [default: 5%]
    #[arg(long, value_name = "SHARE", requires = "baseline")]
    pub threshold: Option<String>,
    /// Measure the target against itself as if it were two: says how often a difference would be found where there is none, and exits with 1
    /// if this machine or network makes one now
    #[arg(long)]
    pub self_check: bool,
}
