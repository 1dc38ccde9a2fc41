//! What can be typed on the command line, as it was typed. Nothing is resolved or checked here beyond its form.

pub mod apply;
pub mod bench;
pub mod claim;
pub mod compare;
pub mod estimate;
pub mod export;
pub mod feel;
pub mod foreign;
pub mod gateway;
pub mod log;
pub mod mcp;
pub mod monitor;
pub mod race;
pub mod replay;
pub mod sim;
pub mod source;
pub mod targets;
pub mod trust;

use clap::{Parser, Subcommand};

/// How fast language models answer, measured truthfully.
#[derive(Parser, Debug)]
#[command(name = "tokrate", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "\
Exit codes:
  0  measured
  1  below an asserted bar (by default: more than 1 % of the requests failed), or a regression
  2  could not measure
  3  measured in part: interrupted, stopped by its cost, or aborted")]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The parts of tokrate.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Merge a model's code edit into a file exactly, or say why not
    Apply(Box<apply::Flags>),
    /// Measure how fast an endpoint answers, at which load, and how sure the numbers are
    Bench(Box<bench::Flags>),
    /// Say what a stated speed can mean, and what has to be asked
    Claim(claim::Flags),
    /// Hold two records against each other: what changed, how sure that is, and whether it is a regression
    Compare(compare::Flags),
    /// Estimate how fast a model answers on given hardware under a load, and what holds it back
    Estimate(Box<estimate::Flags>),
    /// Write a record in the forms of MLflow and Weights & Biases
    Export(export::Flags),
    /// Stream text at a stated speed, to feel what a number means
    Feel(feel::Flags),
    /// One address for all providers: races them, routes on measured speed, logs what was true
    Gateway(gateway::Flags),
    /// Write a commented tokrate.toml from the keys found in the environment
    Init(gateway::InitFlags),
    /// Read the gateway's throughput log: percentiles by lane and hour, calls, regressions
    Log(log::Flags),
    /// Serve the tool edit_file to coding agents (Model Context Protocol on standard input and output)
    Mcp(mcp::Flags),
    /// Probe endpoints for days, and say what changed: since when, by how much, how sure that is
    Monitor(monitor::Flags),
    /// Ask several lanes the same at once and watch who is quicker, by how much, at what cost
    Race(race::Flags),
    /// Estimate from the throughput log what another policy would have cost and saved
    Replay(replay::Flags),
    /// Serve simulated engines of known truth, in every dialect, for trying things without a key
    Sim(Box<sim::Flags>),
    /// List what can be measured by name, and find the engines of this machine
    Targets(targets::Flags),
    /// Say that the tokrate.toml of this folder may name addresses, keys and commands
    Trust(trust::Flags),
}

/// A command line of `gateway`, read without the flags and help of all other commands: a server that runs for months keeps what its
/// start has touched, 0.9 MiB of it.
#[derive(Parser)]
#[command(name = "tokrate", disable_help_flag = true, disable_help_subcommand = true)]
struct ServerFlags {
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(Subcommand)]
enum ServerCommand {
    Gateway(gateway::Flags),
}

/// The command line of a server; `None` for any other, and for one that has to be explained.
pub fn of_server() -> Option<Flags> {
    let is_server = std::env::args_os().nth(1).is_some_and(|word| word == "gateway");
    let flags = if is_server { ServerFlags::try_parse().ok()? } else { return None };
    let ServerCommand::Gateway(flags) = flags.command;
    Some(Flags { command: Command::Gateway(flags) })
}

#[cfg(test)]
mod tests;
