//! The flags of `tokrate trust`. Nothing is resolved or checked here beyond its form.

use clap::Args;
use std::path::PathBuf;

/// `tokrate trust`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Settings that name addresses, keys, commands or files count in a tokrate.toml that was trusted, by
its path and its text: one that has changed has to be trusted again. A file that --config names
needs no trust.

Exit codes: 0 done; 2 the file cannot be read or understood, or the trust cannot be recorded.

Examples:
  tokrate trust                      shows what tokrate.toml would do, and trusts it as it is now
  tokrate trust --remove             takes that back
  tokrate trust --list               every file that was trusted")]
pub struct Flags {
    /// The file
    #[arg(value_name = "FILE", default_value = "tokrate.toml")]
    pub file: PathBuf,
    /// Trust it no more
    #[arg(long, conflicts_with = "list")]
    pub remove: bool,
    /// List what is trusted
    #[arg(long)]
    pub list: bool,
}
