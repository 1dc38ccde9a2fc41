//! Flags of `tokrate bench` that say what the result is held against. Nothing is resolved or checked here beyond its form.

use clap::Args;

/// What the result is held against.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Verdicts")]
pub struct Verdict {
    /// What a good request keeps, such as ttft_ms<500, tpot_ms<50 or output_speed>30; repeatable. Requests that keep all
    /// of them are the goodput; failed and rate-limited ones miss
    #[arg(long = "slo", value_name = "METRIC<BOUND")]
    pub slos: Vec<String>,
}
