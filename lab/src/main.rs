//! What `cargo xtask bench`, `soak` and `release` run: the chores that need the program's own crates.
//!
//! It stands apart from `xtask` so that the small chores are built without them, and so that everything below is built once
//! for it and the tests.

mod bench;
mod memory;
mod release;
mod soak;

use std::process::ExitCode;
use xtask::{exit_code, workspace_root};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

const USAGE: &str = "usage: cargo xtask bench | soak | release (cargo xtask alone says what each does)\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(result) = bench::run_hidden(&arguments) {
        return result.unwrap_or_else(|error| {
            eprintln!("failed to {error:#}");
            ExitCode::FAILURE
        });
    }
    let root = workspace_root();
    let result = match arguments.split_first().map(|(chore, rest)| (chore.as_str(), rest)) {
        Some(("bench", rest)) => bench::run(&root, rest),
        Some(("soak", rest)) => soak::run(&root, rest),
        Some(("release", rest)) => release::run(&root, rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    exit_code("lab", result)
}
