//! The `tokrate` binary: reads the command line, hands over to a command, turns its outcome into an exit code.

mod commands;
mod config;
mod flags;
mod out;

use clap::Parser;
use std::process::ExitCode;

/// Returns memory to the system after a peak of connections, which the system's allocator does not.
#[cfg(all(feature = "jemalloc", target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let flags = flags::of_server().map_or_else(flags::Flags::try_parse, Ok).unwrap_or_else(|error| {
        let arguments: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        flags::foreign::explained(error, &arguments).exit()
    });
    let outcome = match &flags.command {
        flags::Command::Apply(flags) => commands::apply::run(flags),
        flags::Command::Bench(flags) => commands::bench::run(flags),
        flags::Command::Claim(flags) => commands::claim::run(flags),
        flags::Command::Compare(flags) => commands::compare::run(flags),
        flags::Command::Estimate(flags) => commands::estimate::run(flags),
        flags::Command::Export(flags) => commands::export::run(flags),
        flags::Command::Feel(flags) => commands::feel::run(flags),
        flags::Command::Gateway(flags) => commands::gateway::run(flags),
        flags::Command::Init(flags) => commands::init::run(flags),
        flags::Command::Log(flags) => commands::log::run(flags),
        flags::Command::Mcp(flags) => commands::mcp::run(flags),
        flags::Command::Monitor(flags) => commands::monitor::run(flags),
        flags::Command::Race(flags) => commands::race::run(flags),
        flags::Command::Replay(flags) => commands::replay::run(flags),
        flags::Command::Sim(flags) => commands::sim::run(flags),
        flags::Command::Targets(flags) => commands::targets::run(flags),
        flags::Command::Trust(flags) => commands::trust::run(flags),
    };
    match outcome {
        Ok(verdict) => verdict.exit_code(),
        Err(error) => {
            anstream::eprintln!("tokrate: failed to {}", error_text(&error));
            commands::Verdict::NotMeasured.exit_code()
        }
    }
}

/// An error with its causes. Many messages contain their cause already; it is not repeated.
fn error_text(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| match cause.to_string() {
        cause if text.is_empty() => cause,
        cause if text.contains(&cause) => text,
        cause => format!("{text}: {cause}"),
    })
}
