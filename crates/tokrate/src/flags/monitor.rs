//! The flags of `tokrate monitor`.

use super::source::Source;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tokrate monitor`, as typed.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Probes the endpoints of [monitor] in tokrate.toml at random times, keeps what came of it in
tokrate-monitor.db, and prints changes as JSON lines as they are found. `tokrate monitor init` writes
[monitor]; docs/monitor.md has a start in five minutes.

Examples:
  tokrate monitor --demo                 two weeks of a simulated fleet, in seconds, no key
  tokrate monitor init                   write [monitor] for the keys found in the environment
  tokrate monitor --check                what it would send and cost
  tokrate monitor                        watch until Ctrl-C
  tokrate monitor once                   one cycle, for cron and CI")]
pub struct Flags {
    /// What to do instead of watching.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Let a simulated fleet live two weeks in virtual time, and say what was found
    #[arg(long, conflicts_with_all = ["check", "config"])]
    pub demo: bool,
    /// Seed of the demo
    #[arg(long, value_name = "N", requires = "demo", default_value_t = 1)]
    pub seed: u64,
    /// Say how often what would be probed, with tokens and dollars in a month, and send nothing
    #[arg(long)]
    pub check: bool,
    /// Address of the board, on loopback; `off` for none [default: 127.0.0.1:8413]
    #[arg(long, value_name = "ADDR", conflicts_with = "check")]
    pub board: Option<String>,
    /// Throughput log of a gateway, whose traffic the board shows beside the probes, as a source of its own [default: `log` of
    /// [monitor]]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "demo"])]
    pub log: Option<PathBuf>,
    /// Settings file [default: tokrate.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The parts of the monitor.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Probe everything once, now
    Once(ConfigFlags),
    /// Write [monitor] for the keys found in the environment
    Init(InitFlags),
    /// Write the probes that are kept, as lines that `monitor replay` reads, CSV or Parquet, or the board as files
    Export(ExportFlags),
    /// Put records of `tokrate bench` on the board, as a source of their own
    Add(AddFlags),
    /// Copy the database while it is written
    Backup(BackupFlags),
    /// Send a test alert to a receiver of [monitor.alerts]
    AlertTest(AlertTestFlags),
    /// Make the key with which a prober pushes to a hub, and print its public half
    PushKey(PushKeyFlags),
    /// Say what changed in a file of samples: since when, by how much, how sure that is
    Replay(ReplayFlags),
}

/// The settings file.
#[derive(Args, Debug)]
pub struct ConfigFlags {
    /// Settings file [default: tokrate.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `tokrate monitor alert-test`, as typed.
#[derive(Args, Debug)]
pub struct AlertTestFlags {
    /// Name of the receiver
    #[arg(value_name = "RECEIVER")]
    pub receiver: String,
    /// Settings file [default: tokrate.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `tokrate monitor push-key`, as typed.
#[derive(Args, Debug)]
pub struct PushKeyFlags {
    /// File to write the private key to; it must not be there
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name of the prober, as the hub knows it
    #[arg(long, value_name = "NAME", default_value = "NAME")]
    pub prober: String,
}

/// `tokrate monitor init`, as typed.
#[derive(Args, Debug)]
pub struct InitFlags {
    /// File to write; where there is one without [monitor], it is added at its end
    #[arg(long, value_name = "FILE", default_value = "tokrate.toml")]
    pub file: PathBuf,
}

/// `tokrate monitor export`, as typed.
#[derive(Args, Debug)]
pub struct ExportFlags {
    /// Write JSON lines to this file; `-` for standard output
    #[arg(long, value_name = "FILE", group = "form", required_unless_present_any = ["csv", "parquet", "static_board"])]
    pub jsonl: Option<PathBuf>,
    /// Write CSV to this file; `-` for standard output
    #[arg(long, value_name = "FILE", group = "form")]
    pub csv: Option<PathBuf>,
    /// Write Parquet to this file, for DuckDB, pandas and their like
    #[arg(long, value_name = "FILE", group = "form")]
    pub parquet: Option<PathBuf>,
    /// Write the whole board as files to this folder, which must be empty or not be there; as of the newest probe
    #[arg(long = "static", value_name = "DIR", group = "form", conflicts_with = "all")]
    pub static_board: Option<PathBuf>,
    /// With probes that are in quarantine, each with the reason
    #[arg(long)]
    pub all: bool,
    /// Which rows: probes of the monitor, bench runs that were added, or a gateway's traffic (of --log); never two of them together
    /// [default: monitor]
    #[arg(long, value_name = "SOURCE", value_enum, conflicts_with = "static_board")]
    pub source: Option<Source>,
    /// Throughput log of a gateway, or clickhouse://USER@HOST/DATABASE: the board shows its traffic as a source of its own, and
    /// `--source gateway` reads it [default: `log` of [monitor]; of --source gateway else `store` or `log` of [gateway]]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Database, or clickhouse://USER@HOST/DATABASE [default: `store`, else `database` of the settings file, else
    /// tokrate-monitor.db]
    #[arg(long, value_name = "FILE")]
    pub db: Option<PathBuf>,
}

/// `tokrate monitor add`, as typed.
#[derive(Args, Debug)]
#[command(after_help = "\
The requests are read from the rows beside a record (the same name with .jsonl). `tokrate bench --board FILE` adds a run while it is
measured. One that is added twice is there once. A record
of `tokrate estimate speed --json` becomes a hollow mark beside what is measured of the same model and workload, never ranked.

Examples:
  tokrate bench openai/gpt-5-mini --json run.json --jsonl run.jsonl
  tokrate monitor add run.json
  tokrate estimate speed --model llama-3.3-70b --hardware h100 --gpus 4 --precision fp8 --json > estimate.json
  tokrate monitor add estimate.json --model llama-3.3-70b-instruct")]
pub struct AddFlags {
    /// Records of one target each
    #[arg(value_name = "RECORD", required = true)]
    pub records: Vec<PathBuf>,
    /// What the endpoint is called on the board [default: provider/model]
    #[arg(long, value_name = "NAME")]
    pub endpoint: Option<String>,
    /// What the model of an estimate is called on the board [default: as it was asked for]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// What the workload is called; only the same one is ranked together [default: tokens of prompt and answer, such as 1000-500]
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Where it was measured from [default: the record's region, else its machine]
    #[arg(long, value_name = "NAME")]
    pub place: Option<String>,
    /// Database [default: that of the settings file, else tokrate-monitor.db]
    #[arg(long, value_name = "FILE")]
    pub db: Option<PathBuf>,
}

/// `tokrate monitor backup`, as typed.
#[derive(Args, Debug)]
pub struct BackupFlags {
    /// File to write; it must not be there
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Database [default: that of the settings file, else tokrate-monitor.db]
    #[arg(long, value_name = "FILE")]
    pub db: Option<PathBuf>,
}

/// `tokrate monitor replay`, as typed.
#[derive(Args, Debug)]
#[command(after_help = "\
A sample is a JSON object a line: `at` (RFC 3339), `endpoint`, `workload`, `place`, `ttft_ms`, `output_speed`, `e2e_ms`, `ok`,
`error`. All but `at` and `endpoint` may be missing; other keys are passed over. An event is a JSON object a line on standard
output; see docs/monitor.md.

Examples:
  tokrate monitor replay samples.jsonl
  tokrate monitor replay samples.jsonl --false-alarms 0.01     fewer false alarms, found later
  zcat samples.jsonl.gz | tokrate monitor replay -")]
pub struct ReplayFlags {
    /// File of samples; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Regressions that may be reported by chance, for one endpoint, workload and place in 30 days (0.0001 to 10)
    #[arg(long, value_name = "N", default_value_t = 0.042)]
    pub false_alarms: f64,
}
