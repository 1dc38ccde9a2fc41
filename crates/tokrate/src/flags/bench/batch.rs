//! Flags of `tokrate bench` for batches of requests. Nothing is resolved or checked here beyond its form.

use clap::Args;

/// How batches are carried out.
#[derive(Args, Clone, Debug, Default)]
pub struct Batches {
    /// With --task batch: from one question after a batch to the next; that is how far off its time may be [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub poll: Option<String>,
    /// With --task batch: leave its files and results at the server
    #[arg(long)]
    pub keep: bool,
}
