//! The flags of `tokrate apply`.

use clap::Args;
use std::path::PathBuf;

/// `tokrate apply`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
The update may be lines of the file with `// ... existing code ...` for the rest, blocks of SEARCH and REPLACE, JSON with
old_string and new_string, a unified diff, a patch from `*** Begin Patch`, or the whole file.

Exit codes: 0 merged; 1 refused, with the reason and the lines in question; 2 bad usage, or a file cannot be read or written.

Examples:
  tokrate apply src/main.rs --update edit.txt --diff
  model | tokrate apply src/main.rs --in-place
  tokrate apply --batch cases.jsonl > results.jsonl")]
pub struct Flags {
    /// The file that is edited
    #[arg(value_name = "FILE", required_unless_present = "batch", conflicts_with = "batch")]
    pub file: Option<PathBuf>,
    /// The update, `-` for standard input [default: -]
    #[arg(long, short, value_name = "FILE", conflicts_with = "batch")]
    pub update: Option<PathBuf>,
    /// Write the merged text into the file, whole or not at all
    #[arg(long, short, group = "form", conflicts_with = "batch")]
    pub in_place: bool,
    /// Print what changes as a unified diff
    #[arg(long, short, group = "form", conflicts_with = "batch")]
    pub diff: bool,
    /// Only say whether it can be merged
    #[arg(long, short, group = "form", conflicts_with = "batch")]
    pub check: bool,
    /// The language of the file [default: by its name]
    #[arg(long, value_name = "NAME", conflicts_with = "batch")]
    pub language: Option<String>,
    /// Leave the syntax tree alone: no check for new syntax errors and doubled declarations
    #[arg(long)]
    pub no_tree: bool,
    /// Merge many: one JSON object a line with id, path, original, update; one result a line on standard output
    #[arg(long, value_name = "FILE")]
    pub batch: Option<PathBuf>,
}
