//! The flags of `tokrate estimate chain`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate estimate chain`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
The file (TOML) holds [speeds.NAME]: where times come from (stated, a program, an estimate, a bench's record, a lane of the
gateway's log); [plans.NAME]: which speed answers which role; and [[steps]]: role, input, output, cached, tool, repeat,
fan_out, race, again. `--example coding --print` prints one to begin with. Exit codes: 0; 2 no answer.")]
pub struct ChainFlags {
    /// The chain [default: the example `coding`]
    #[arg(value_name = "FILE", conflicts_with = "example")]
    pub file: Option<PathBuf>,
    /// A chain that needs no file: coding, chat or research
    #[arg(long, value_name = "NAME")]
    pub example: Option<String>,
    /// Print the chain's file and nothing else
    #[arg(long)]
    pub print: bool,
    /// Write a page with the distribution and a Gantt chart of each plan
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
