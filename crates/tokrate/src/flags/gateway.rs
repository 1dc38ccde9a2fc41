//! The flags of `tokrate gateway` and `tokrate init`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `tokrate gateway`, as typed.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Examples:
  tokrate gateway                    three simulated providers, no key needed
  tokrate init                       writes a tokrate.toml from the keys found in the environment
  tokrate init --from litellm.yaml   writes one that serves the models of a LiteLLM proxy
  tokrate gateway --check            says what tokrate.toml comes to, and where each value is from
  tokrate gateway --init-roles agent.toml >> tokrate.toml     an alias for each role of an agent (`estimate chain`)
  tokrate gateway --listen 127.0.0.1:8411 --admin 127.0.0.1:8412

Point an SDK at http://127.0.0.1:8411/v1 and ask for the name of an alias as the model.
SIGHUP reads the settings file again; Ctrl-C lets open calls end.")]
pub struct Flags {
    /// Settings file [default: tokrate.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say what the settings come to, and end
    #[arg(long)]
    pub check: bool,
    /// Print the lanes and aliases that the best plan of a chain asks for, as a piece of tokrate.toml, and end
    #[arg(long, value_name = "CHAIN", conflicts_with_all = ["check", "config"])]
    pub init_roles: Option<PathBuf>,
    /// Address for clients [default: 127.0.0.1:8411]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Address for the page, the metrics and the log's API; `off` for none [default: 127.0.0.1:8412]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Throughput log (SQLite); `off` for none [default: tokrate-log.db]
    #[arg(long, value_name = "FILE")]
    pub log: Option<String>,
    /// Threads that serve [default: one a core]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Least severe events that are written to standard error
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t)]
    pub log_level: LogLevel,
    /// How events are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,
}

/// How severe an event is.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogLevel {
    /// What stops something from working.
    Error,
    /// What somebody should look at.
    Warn,
    /// What happened.
    #[default]
    Info,
    /// All.
    Debug,
}

/// How events are written.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// `tokrate init`, as typed.
#[derive(Args, Debug, Default)]
pub struct InitFlags {
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "tokrate.toml")]
    pub file: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
    /// Take over the settings of a LiteLLM proxy, its config.yaml; what is not taken over is said
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Write an alias for each part of an agent's work: reason, apply (the merge engine first), compact, search
    #[arg(long, conflicts_with = "from")]
    pub agents: bool,
}
