//! `tokrate bench`: from flags to a run, its live display, its files and its exit code.

use super::Verdict;
use super::baseline::Baseline;
use crate::config::bench::{Outputs, check_open_files, resolve};
use crate::config::environment::Environment;
use crate::config::file::File;
use crate::flags::bench::Flags;
use crate::out::files;
use crate::out::forecast;
use crate::out::results::Results;
use crate::out::summary;
use anyhow::Result;
use std::path::Path;
use tokrate_bench::{Config, Stop, Target};
use tokrate_meter::{AssertionStatus, Comparison, PhaseResult, Record, Status};
use tokrate_net::Clock;

/// Runs a bench to its end or to the first Ctrl-C.
pub fn run(flags: &Flags) -> Result<Verdict> {
    tokrate_net::server::raise_open_files();
    let file = File::read(flags.target.config.as_deref())?;
    let (configs, outputs) = resolve(flags, &Environment::read(), &file)?;
    check_open_files(&configs, tokrate_net::server::open_files())?;
    let names = names_of(&configs);
    if flags.limits.dry_run {
        anstream::print!("{}", forecast::text(&names, &configs));
        return Ok(Verdict::Good);
    }
    let kept = outputs.demands.save_baseline.as_deref();
    for path in outputs.files().map(|(_, path)| path).chain(kept) {
        files::check_writable(path)?;
    }
    // A baseline that cannot be read is told before anything is measured.
    let baseline = Baseline::read(&outputs.demands, configs.len())?;
    let stop = Stop::default();
    super::interrupt::watch(stop.clone())?;
    let mut results = Results::new(&outputs, &names)?;
    let mut records = tokrate_bench::run(&configs, Clock::monotonic(), &stop, &mut results)?;
    for record in &mut records {
        let outcomes = outputs.demands.assertions.iter().flat_map(|assertion| assertion.judge(&record.phases));
        record.assertions = outcomes.collect();
    }
    let held = baseline.compare(&records, &outputs.demands);
    let judged = Comparison::of(records).judged(&names, outputs.scorecard);
    results.finish(&judged, &held.reports)?;
    let records = &judged.records;
    let mut text = if outputs.quiet { String::new() } else { summary::of(&names, &judged, &outputs) };
    if !outputs.quiet {
        text += &held.text();
    }
    if outputs.claims_stdout() {
        anstream::eprint!("{text}");
    } else {
        anstream::print!("{text}");
    }
    let measured = records.iter().map(|record| verdict(record, &outputs)).max().unwrap_or(Verdict::NotMeasured);
    if let Some(path) = kept {
        keep(path, records, measured)?;
    }
    Ok(measured.max(held.verdict()?))
}

/// What the targets are called: provider and model, with their address or a number where that does not tell them apart.
fn names_of(configs: &[Config]) -> Vec<String> {
    let short: Vec<String> = configs.iter().map(|config| name_of(&config.target, false)).collect();
    let mut names: Vec<String> = Vec::new();
    for (config, short_name) in configs.iter().zip(&short) {
        let is_unique = short.iter().filter(|other| *other == short_name).count() == 1;
        let name = name_of(&config.target, !is_unique);
        let alike = names.iter().filter(|other| **other == name || other.starts_with(&format!("{name} ("))).count();
        names.push(if alike == 0 { name } else { format!("{name} ({})", alike + 1) });
    }
    names
}

fn name_of(target: &Target, with_address: bool) -> String {
    let Target::Remote(remote) = target else { return "sim".to_owned() };
    let provider = remote.provider.as_deref().unwrap_or(remote.base.host());
    let address = if with_address { format!("@{}:{}", remote.base.host(), remote.base.port()) } else { String::new() };
    format!("{provider}{address}/{}", remote.model)
}

/// What the exit code says: nothing answered is no measurement, a part of a run is one of its own kind, too many failures are
/// below the bar.
fn verdict(record: &Record, outputs: &Outputs) -> Verdict {
    let valid = record.phases.iter().all(PhaseResult::is_valid);
    let inconsistent = record.phases.iter().any(|phase| !phase.gate.is_empty());
    let above = |phase: &PhaseResult| {
        phase.counts.failed_share().is_some_and(|share| share > outputs.max_failures)
            || (phase.counts.started > 0 && phase.counts.answered == 0)
    };
    if record.status == Status::Failed || inconsistent || (outputs.strict && !valid) {
        Verdict::NotMeasured
    } else if record.status == Status::Partial {
        Verdict::Partial
    } else if record.phases.is_empty() {
        Verdict::NotMeasured
    } else if record.phases.iter().any(above)
        || record.assertions.iter().any(|outcome| outcome.status != AssertionStatus::Met)
    {
        Verdict::BelowBar
    } else {
        Verdict::Good
    }
}

/// Keeps the records as a baseline; one that does not count would make every later run look well.
fn keep(path: &Path, records: &[Record], measured: Verdict) -> Result<()> {
    let complete = records.iter().all(|record| record.status == Status::Complete);
    if !complete || measured == Verdict::NotMeasured {
        anstream::eprintln!("tokrate: no baseline is kept in {}: the run is not complete and valid", path.display());
        return Ok(());
    }
    match records {
        [record] => files::write(path, &record.to_json()),
        several => files::write(path, &Comparison::of(several.to_vec()).to_json()),
    }
}
