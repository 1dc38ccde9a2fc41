//! Flags of `tokrate bench` that say how requests arrive. Nothing is resolved or checked here beyond its form.

use clap::{Args, ValueEnum};

/// How requests arrive.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Load")]
pub struct Load {
    /// Closed loop: requests in flight; a list is a sweep [default: 1,10,25,50]
    #[arg(long, short = 'c', value_name = "N,…", value_delimiter = ',', conflicts_with = "rate")]
    pub concurrency: Option<Vec<u32>>,
    /// Open loop: arrivals per second on an absolute schedule; a list is a sweep
    #[arg(long, allow_negative_numbers = true, value_name = "R,…", value_delimiter = ',')]
    pub rate: Option<Vec<f64>>,
    /// How the arrivals of an open loop are spaced [default: poisson]
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<Arrivals>,
    /// Open loop: requests in flight above which an arrival is forfeited (and counted) [default: 4096]
    #[arg(long, value_name = "N", requires = "rate")]
    pub max_in_flight: Option<u32>,
    /// Measured requests per load level [default: 3 per slot, at least 20; embedded engine: 8 s per level]
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// Time per load level, such as 30s or 2m
    #[arg(long, short = 'd', value_name = "TIME")]
    pub duration: Option<String>,
    /// Requests sent first at each level and kept out of the numbers [default: one per slot; open loop: 0]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// How often each load level runs [default: 1; several targets: 2, in turns A-B-B-A]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,
    /// Seed of prompts and arrivals [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Client threads [default: chosen from the cores and the load]
    #[arg(long, value_name = "N")]
    pub workers: Option<u32>,
}

/// Arrival processes.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Equal gaps
    Constant,
    /// Exponential gaps
    Poisson,
}
