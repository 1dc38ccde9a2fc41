//! `cargo xtask`: the chores of the project. Each is a file of its own; this one only chooses.

mod advisories;
mod agents;
mod clickhouse;
mod docs;
mod fuzz;
mod nightly;
mod node_package;
mod packages;
mod sdk;
mod tables;
mod tidy;
mod tour;
mod verify;

use anyhow::Context;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use xtask::{exit_code, workspace_root};

const USAGE: &str = "\
usage: cargo xtask <chore>

  test            install what the tests need if it is missing, then run everything
  tools           only install what the tests need if it is missing
  tidy            check the project's rules: dependency table, pure crates, headers, sizes
  sdk [--only PART]
                  run the published SDKs of OpenAI and Anthropic against the gateway (part of test)
  agents [--only PART] [--show]
                  let Claude Code, Codex CLI, opencode and aider do a small task through the gateway (installs 2 GB once)
  tables          let DuckDB and pandas open the monitor's exports (part of test)
  packages [--only node]
                  build the merge engine as a wheel for Python and as an npm package, install them, and run the cases that all
                  share (node: part of test)
  clickhouse      run the store's statements on ClickHouse's own engine, in one process (part of test)
  soak gateway [--minutes N] [--rate R] [--seed S] [--tokrate BINARY] [--write]
                  the gateway under faults, every answer and every row checked (a short one is part of test)
  advisories [--database DIR | --update DIR]
                  look for known security advisories of the dependencies; needs no network
  fuzz [--minutes N] [--only TARGET] [--keep]
                  look for inputs that break a property, in every fuzz target and property test, for N minutes (5); --keep
                  writes what reaches something new into fuzz/data/corpus (needs a C++ compiler)
  nightly [--seed N]
                  10,000 gateways and other worlds in virtual time and 200 kills of the log's writer, with seeds of the day
  tour            run the command lines of scripts/tour.txt against simulated engines, with all that they print
  docs            write anew what docs/ has that is made from the code: schemas, the reference of the settings
  release         build target/guided/tokrate, the binary as it is handed out: optimised by a profile of its own use
  bench [NAME…]   measure the bars with the release binary, beside a floor in the same run
  bench estimate [--rows N] [--told] [--write]
                  how far estimates are off in cross-validation, worst rows first, beside the naive roofline
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = workspace_root();
    let result = match arguments.first().map(String::as_str) {
        Some("test") => verify::run(&root),
        Some("tools") => verify::install(&root),
        Some("tidy") => tidy::run(&root),
        Some("advisories") => advisories::run(&root, &arguments[1..]),
        Some("docs") => docs::run(&root),
        Some("fuzz") => fuzz::run(&root, &arguments[1..]),
        Some("nightly") => nightly::run(&root, &arguments[1..]),
        Some("tour") => tour::run(&root),
        Some("sdk") => sdk::run(&root, &arguments[1..]),
        Some("agents") => agents::run(&root, &arguments[1..]),
        Some("bench") if arguments.get(1).is_some_and(|name| name == "estimate") => {
            let flags = ["run", "--quiet", "--release", "--package", "tokrate-estimate", "--example", "validate", "--"];
            Err(Command::new(env!("CARGO")).args(flags).args(&arguments[2..]).exec()).context("run cargo")
        }
        Some("packages") => packages::run(&root, &arguments[1..]),
        Some("tables") => tables::run(&root),
        Some("clickhouse") => clickhouse::run(&root),
        // Chores that need the workspace's crates are built only when they are called.
        Some("bench" | "soak" | "release") => {
            let flags = ["run", "--quiet", "--package", "lab", "--"];
            // The chore's exit code and output are passed on.
            Err(Command::new(env!("CARGO")).args(flags).args(&arguments).exec()).context("run cargo")
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    exit_code("xtask", result)
}
