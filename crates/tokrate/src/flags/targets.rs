//! The flags of `tokrate targets`. Nothing is resolved or checked here beyond its form.

use clap::Args;

/// `tokrate targets`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate targets                                 every provider and engine, and what runs on this machine
  tokrate targets --json                          the same for programs
  tokrate targets --port 8001,9000                look at these ports as well")]
pub struct Flags {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Further ports of this machine at which an engine may listen
    #[arg(long = "port", value_name = "N,…", value_delimiter = ',')]
    pub ports: Vec<u16>,
    /// Only list; connect to nothing
    #[arg(long, conflicts_with = "ports")]
    pub no_search: bool,
}
