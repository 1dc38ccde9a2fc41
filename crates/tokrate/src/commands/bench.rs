//! `tokrate bench`: from flags to a run, its live display, its files and its exit code.

use super::Verdict;
use crate::config::bench::{Outputs, resolve};
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::flags::bench::Flags;
use crate::out::files;
use crate::out::results::Results;
use crate::out::summary;
use anyhow::Result;
use tokrate_bench::{Config, Stop, Target};
use tokrate_meter::{PhaseResult, Record, Status};
use tokrate_net::Clock;

/// Runs a bench to its end or to the first Ctrl-C.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let file = File::read(flags.target.config.as_deref())?;
    let (configs, outputs) = resolve(flags, &Environment::read(), &file)?;
    for (_, path) in outputs.files() {
        files::check_writable(path)?;
    }
    let stop = Stop::default();
    super::interrupt::watch(stop.clone())?;
    let names = names_of(&configs);
    let mut results = Results::new(&outputs, &names)?;
    let records = tokrate_bench::run(&configs, Clock::monotonic(), &stop, &mut results)?;
    results.finish(&records)?;
    let text = if outputs.quiet { String::new() } else { summary::of(&names, &records, &outputs) };
    if outputs.claims_stdout() {
        anstream::eprint!("{text}");
    } else {
        anstream::print!("{text}");
    }
    Ok(records.iter().map(|record| verdict(record, &outputs)).max().unwrap_or(Verdict::NotMeasured))
}

/// What the targets are called: the model, with what tells it from the others where that is needed.
fn names_of(configs: &[Config]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for config in configs {
        let name = match &config.target {
            Target::Embedded(_) => "sim".to_owned(),
            Target::Remote(remote) => {
                let provider = remote.provider.as_deref().unwrap_or(remote.base.host());
                format!("{provider}/{}", remote.model)
            }
        };
        let alike = names.iter().filter(|other| **other == name || other.starts_with(&format!("{name} ("))).count();
        names.push(if alike == 0 { name } else { format!("{name} ({})", alike + 1) });
    }
    names
}

/// What the exit code says: nothing answered is no measurement, too many failures are below the bar.
fn verdict(record: &Record, outputs: &Outputs) -> Verdict {
    let valid = record.phases.iter().all(PhaseResult::is_valid);
    let inconsistent = record.phases.iter().any(|phase| !phase.gate.is_empty());
    let above = |phase: &PhaseResult| {
        phase.counts.failed_share().is_some_and(|share| share > outputs.max_failures)
            || (phase.counts.started > 0 && phase.counts.answered == 0)
    };
    if record.status == Status::Failed || record.phases.is_empty() || inconsistent || (outputs.strict && !valid) {
        Verdict::NotMeasured
    } else if record.phases.iter().any(above) {
        Verdict::BelowBar
    } else {
        Verdict::Good
    }
}
