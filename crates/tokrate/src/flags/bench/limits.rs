//! Flags of `tokrate bench` that say when to stop. Nothing is resolved or checked here beyond its form.

use crate::config::quantity::share;
use clap::{Args, ValueEnum};

/// When to stop.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Time to open a connection [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub connect_timeout: Option<String>,
    /// Time without a byte after which a request counts as stalled [default: 60s]
    #[arg(long, value_name = "TIME")]
    pub idle_timeout: Option<String>,
    /// Time for a whole request [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// The longest wait that a provider may ask for (`Retry-After`); a longer one ends the run [default: 2m]
    #[arg(long, value_name = "TIME")]
    pub max_wait: Option<String>,
    /// Begin with the load, without asking an endpoint once before
    #[arg(long)]
    pub no_probe: bool,
    /// Go on when every request fails, to measure failures themselves [default: a run is aborted after 3 refusals of the key or
    /// path in a row, or 20 other failures beside those in flight; 4 of requests that nobody answers]
    #[arg(long)]
    pub keep_going: bool,
    /// Say what the run would ask for (requests, tokens, dollars, time) and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Go on until this is known so well, such as 'output_speed_p50 ± 2%' or 'ttft_p95 ± 20ms @ concurrency 8' (+- does as well as ±);
    /// repeatable; or `verdict`: until every target is compared with the first, or with the --baseline. Rounds and levels are chosen while it
    /// runs; it ends unreached, with exit code 1, at --max-requests or --duration of a level
    #[arg(long, value_name = "FIGURE±WIDTH|verdict", conflicts_with_all = ["requests", "rounds", "refine", "search", "ramp", "ramp_rate", "trace", "agents", "sessions"])]
    pub until: Vec<String>,
    /// Start no more requests when they might cost more than this in all (USD)
    #[arg(long, allow_negative_numbers = true, value_name = "USD")]
    pub max_cost_usd: Option<f64>,
    /// Price of a million input tokens (USD) [default: the catalog's, if it has one]
    #[arg(long, allow_negative_numbers = true, value_name = "USD")]
    pub price_input: Option<f64>,
    /// Price of a million output tokens (USD) [default: the catalog's, if it has one]
    #[arg(long, allow_negative_numbers = true, value_name = "USD")]
    pub price_output: Option<f64>,
    /// Price of what is no token of a text: image-in or image-out (USD an image), minute-in or minute-out (USD a minute of sound), characters (USD
    /// a million that are said), or `tokens` where they are billed as tokens, such as image-out=0.04 or minute-in=tokens; repeatable
    /// [default: image-in=tokens]
    #[arg(long, value_name = "KIND=USD|tokens")]
    pub price_of: Vec<String>,
    /// Share of failed requests above which the exit code is 1, such as 5% or 0.05 [default: 1%]
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", value_parser = share)]
    pub max_failures: Option<f64>,
    /// Exit with 2 when a figure is not valid by the client's own error, or when that error is not known
    #[arg(long)]
    pub strict: bool,
    /// How the client's own error is found: by a run against the embedded engine at the same load, from an earlier one
    /// of this machine, or not at all [default: cached]
    #[arg(long, value_enum)]
    pub calibration: Option<Calibration>,
}

/// Ways to know the client's own error.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calibration {
    /// Measure it now
    Run,
    /// Take it from an earlier run of this machine at a like load, else measure it
    Cached,
    /// Leave it unknown
    Off,
}
