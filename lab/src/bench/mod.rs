//! `cargo xtask bench [NAME…]`: measures the bars with the release binary, beside a floor in the same run.
//!
//! The exit code does not depend on the bars: a missed bar is a result, not a failure. Invariant:
//! floor and tokrate take turns, at least five rounds, against the same server, each a process of its own.

mod accuracy;
mod apply;
mod blast;
mod client;
pub mod clock;
mod dialects;
mod events;
mod floor;
mod gateway;
mod monitor;
mod paced;
mod process;
mod request;
mod routing;
mod sockets;
pub mod stream;
mod summary;
mod table;
mod throughput;
mod whole;

use anyhow::{Context, Result, bail};
pub use apply::write_edits;
use client::Clients;
pub use gateway::{AnswerReader, GuardedProcess};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use stream::Tls;
pub use table::conditions;
use table::{Line, MachineTime, Table};
use xtask::tools;

/// One bar or several that are measured together.
struct Bar {
    name: &'static str,
    about: &'static str,
    measure: fn(&Stage) -> Result<Report>,
}

const BARS: &[Bar] = &[
    Bar {
        name: "stream-64",
        about: "events per second and CPU, 64 events a write",
        measure: throughput::many_per_write,
    },
    Bar { name: "stream-1", about: "events per second and CPU, one event a write", measure: throughput::one_per_write },
    Bar {
        name: "stream-1-nodelay",
        about: "the same, each event a segment of its own",
        measure: throughput::one_per_segment,
    },
    Bar {
        name: "tls-64",
        about: "events per second and CPU over TLS, 64 events a write",
        measure: throughput::many_per_record,
    },
    Bar {
        name: "tls-1",
        about: "events per second and CPU over TLS, one event a record",
        measure: throughput::one_per_record,
    },
    Bar {
        name: "dialects",
        about: "events per second in every other dialect, 64 a write",
        measure: dialects::every_dialect,
    },
    Bar { name: "ttft-50", about: "TTFT error at 50 streams, true 200 ms", measure: accuracy::ttft_50 },
    Bar { name: "ttft-50-tls", about: "the same over TLS", measure: accuracy::ttft_50_tls },
    Bar { name: "speed-1", about: "output_speed error, 1 token an event", measure: accuracy::speed_1 },
    Bar { name: "speed-4", about: "output_speed error, 4 tokens an event", measure: accuracy::speed_4 },
    Bar { name: "ttft-400", about: "TTFT error and gaps at 400 streams of 50 tok/s", measure: accuracy::ttft_400 },
    Bar { name: "ttft-800", about: "TTFT error and gaps at 800 streams of 50 tok/s", measure: accuracy::ttft_800 },
    Bar { name: "one-request", about: "a run of one request, start to exit", measure: whole::one_request },
    Bar { name: "help", about: "what `tokrate --help` takes", measure: whole::help },
    Bar { name: "memory-500", about: "peak memory at 500 connections", measure: whole::memory_500 },
    Bar { name: "cut", about: "what is left of streams that were cut", measure: whole::cut },
];

/// The setup of a measurement.
struct Stage {
    clients: Clients,
    rounds: usize,
    /// Of the bars of events per second.
    connections: usize,
    floor_only: bool,
}

/// The result of a measurement.
struct Report {
    lines: Vec<Line>,
    notes: Vec<String>,
}

impl Stage {
    /// Prints the result of a round.
    fn print_progress(&self, round: usize, what: &str) {
        eprintln!("round {}/{}: {what}", round + 1, self.rounds);
    }
}

/// Hidden commands that the bench runs as child processes; `None` for any other name.
pub fn run_hidden(arguments: &[String]) -> Option<Result<ExitCode>> {
    match arguments.split_first()? {
        (name, rest) if name == client::FLOOR => Some(client::run_floor(rest).map(|()| ExitCode::SUCCESS)),
        (name, rest) if name == gateway::GUARD => Some(gateway::guard(rest)),
        (name, rest) if name == gateway::RELAY => Some(gateway::relay(rest)),
        (name, rest) if name == process::WRAPPER => Some(process::wrap(rest)),
        _ => None,
    }
}

/// Builds what is measured, measures, and prints the table.
pub fn run(root: &Path, arguments: &[String]) -> Result<()> {
    // The merge engine needs no server, and has arguments of its own.
    if let Some(("apply", rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        return apply::run(root, rest);
    }
    // The gateway has peers beside the floor.
    if let Some(("gateway", rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        return gateway::run(root, rest);
    }
    // The simulated fleets need no server either.
    if let Some(("routing", rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        return routing::run(root, rest);
    }
    // Monitor and board are measured by examples of their crates, beside the binary.
    if let Some(("monitor", rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        return monitor::run(root, rest);
    }
    let options = Options::parse(arguments)?;
    if cfg!(debug_assertions) {
        return again_in_release(root, !options.floor_only && options.tokrate.is_none(), &[], arguments);
    }
    let folder = tempfolder()?;
    let tokrate = options.tokrate.clone().unwrap_or_else(|| root.join("target/release/tokrate"));
    let tls = Tls::make(&folder).context("make certificates")?;
    let clients = Clients { tokrate, folder: folder.clone(), tls };
    let stage =
        Stage { clients, rounds: options.rounds, connections: options.connections, floor_only: options.floor_only };
    let failed = measure(root, &stage, &options);
    drop(std::fs::remove_dir_all(folder));
    if failed > 0 {
        bail!("measure {failed} of the benchmarks; see the notes");
    }
    Ok(())
}

/// Runs the bench again in a release build of this program: its servers and floors must not be the bottleneck.
fn again_in_release(root: &Path, with_tokrate: bool, bench: &[&str], arguments: &[String]) -> Result<()> {
    let packages = ["tokrate", "lab"].into_iter().skip(usize::from(!with_tokrate));
    for package in packages {
        let mut command = Command::new(env!("CARGO"));
        tools::run(command.args(["build", "--release", "--quiet", "--package", package]).current_dir(root))?;
    }
    let mut command = Command::new(root.join("target/release/lab"));
    tools::run(command.arg("bench").args(bench).args(arguments).current_dir(root))
}

/// Measures the given bars and prints the table; the number that could not be measured.
fn measure(root: &Path, stage: &Stage, options: &Options) -> usize {
    let machine = MachineTime::now();
    let conditions = table::conditions(root, &stage.clients.tokrate);
    let mut table = Table::default();
    let mut failed = 0;
    for bar in &options.bars {
        eprintln!("{}: {}", bar.name, bar.about);
        match (bar.measure)(stage) {
            Ok(report) => {
                table.extend(report.lines);
                report.notes.into_iter().for_each(|note| table.note(note));
            }
            Err(error) => {
                failed += 1;
                eprintln!("{}: failed to {error:#}", bar.name);
                table.note(format!("**{} could not be measured**: failed to {error:#}", bar.name));
            }
        }
    }
    for condition in conditions {
        println!("- {condition}");
    }
    println!("- median of {} rounds (min..max), floor and tokrate in turn", stage.rounds);
    println!("- {}", machine.summary_since());
    let shown = client::Load { concurrency: 50, requests: 200, warmup: 0, ..client::Load::default() };
    println!("- client, with the load of the line: `tokrate {}`", Clients::arguments(&shown).join(" "));
    println!("\n{table}");
    failed
}

fn tempfolder() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("tokrate-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("make the folder {}", folder.display()))?;
    Ok(folder)
}

struct Options {
    bars: Vec<&'static Bar>,
    rounds: usize,
    connections: usize,
    floor_only: bool,
    /// Another build to measure.
    tokrate: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options {
            bars: Vec::new(),
            rounds: 5,
            connections: throughput::CONNECTIONS,
            floor_only: false,
            tokrate: None,
        };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("read what follows {word}"));
            let mut number = || -> Result<usize> {
                let value = value()?;
                value.parse().with_context(|| format!("read the number after {word}: {value}"))
            };
            match word {
                "--rounds" => options.rounds = number()?.max(1),
                "--connections" => options.connections = number()?.max(1),
                "--tokrate" => options.tokrate = Some(std::path::absolute(value()?)?),
                "--floor-only" => options.floor_only = true,
                "all" => options.bars.extend(BARS),
                name => match BARS.iter().find(|bar| bar.name == name) {
                    Some(bar) => options.bars.push(bar),
                    None => bail!("find the benchmark {name}\n{}", usage()),
                },
            }
        }
        if options.bars.is_empty() {
            options.bars.extend(BARS);
        }
        Ok(options)
    }
}

fn usage() -> String {
    let mut text =
        "usage: cargo xtask bench [--rounds N] [--connections N] [--tokrate BINARY] [--floor-only] [all | NAME…]\n\n"
            .to_owned();
    for bar in BARS {
        text += &format!("  {:<18}{}\n", bar.name, bar.about);
    }
    text += &format!("\nor, of the merge engine:\n\n{}", apply::USAGE);
    text += &format!("\nor, of the gateway:\n\n{}", gateway::USAGE);
    text += &format!("\nor, of monitor and board:\n\n{}", monitor::USAGE);
    text += &format!("\nor, of routing on simulated fleets:\n\n{}", routing::USAGE);
    text
}

#[cfg(test)]
mod tests;
