//! `tokrate bench`: from flags to a run, its live display, its files and its exit code.

use super::Verdict;
use super::baseline::Baseline;
use super::batch_notes::BatchNotes;
use crate::config::bench::{Outputs, check_open_files, resolve};
use crate::config::environment::{Environment, data_folder};
use crate::config::file::File;
use crate::flags::bench::Flags;
use crate::out::files;
use crate::out::forecast;
use crate::out::paragraph::hanging;
use crate::out::results::{Results, Written};
use crate::out::{stdout, summary};
use anyhow::Result;
use std::path::Path;
use tokrate_bench::{Config, Stop, Target};
use tokrate_judge::Comparison;
use tokrate_net::Clock;
use tokrate_record::run::{Rounds, by_load};
use tokrate_record::{AssertionStatus, PhaseResult, Record, Status};

/// Runs a bench to its end or to the first Ctrl-C.
pub fn run(flags: &Flags) -> Result<Verdict> {
    tokrate_net::server::raise_open_files();
    let file = File::read(flags.target.config.as_deref())?;
    let (mut configs, outputs) = resolve(flags, &Environment::read(), &file)?;
    check_open_files(&configs, tokrate_net::server::open_files())?;
    tokrate_bench::check_cost_limit(&configs)?;
    // A baseline that cannot be read, or not be compared with the run, is an error before anything is measured.
    let baseline = Baseline::read(&outputs.requirements, configs.len())?;
    baseline.attach(&mut configs);
    baseline.check(&configs, &outputs.requirements)?;
    let names = names_of(&configs);
    if flags.limits.dry_run {
        stdout::write(&forecast::text(&names, &configs, stdout::width(stdout::MAX_TEXT_WIDTH)))?;
        return Ok(Verdict::Good);
    }
    let mut batch_notes = BatchNotes::begin(&mut configs, data_folder())?;
    let kept = outputs.requirements.save_baseline.as_deref();
    for path in outputs.files().map(|(_, path)| path).chain(kept) {
        files::check_writable(path)?;
    }
    let stop = Stop::default();
    super::interrupt::watch(stop.clone())?;
    let mut results = Results::new(&outputs, &names, &stop)?;
    let mut records = tokrate_bench::run(&configs, Clock::monotonic(), &stop, &mut results)?;
    for record in &mut records {
        let outcomes = outputs.requirements.assertions.iter().flat_map(|assertion| assertion.judge(&record.phases));
        record.assertions = outcomes.collect();
    }
    let held = baseline.compare(&records, &outputs.requirements);
    let judged = Comparison::of(records).judged(&names, outputs.scorecard);
    let judged = if flags.verdict.self_check { judged.self_checked() } else { judged };
    results.clear();
    batch_notes.tell("this run");
    let records = &judged.records;
    let text =
        if outputs.quiet { String::new() } else { summary::of(&names, &judged, &outputs) + &held.text(outputs.wide) };
    // The table first: what happens to files takes nothing from it, nor what happens to it from them.
    let printed = print(&text, &outputs);
    let all_written = tell(results.finish(&judged, &held.reports, held.missing.clone()), &outputs);
    printed?;
    if let Some(missing) = &held.missing {
        warn(missing);
    }
    if outputs.quiet {
        anstream::eprint!("{}{}", summary::troubles(&names, &judged), held.troubles());
    }
    if outputs.strict {
        for (name, why) in names.iter().zip(records).filter_map(|(name, record)| Some((name, strict_reason(record)?))) {
            warn(&format!("{name}: --strict: {why}"));
        }
    }
    let measured = records.iter().map(|record| verdict(record, &outputs)).max().unwrap_or(Verdict::NotMeasured);
    let files = if all_written { Verdict::Good } else { Verdict::NotMeasured };
    let compared = held.verdict();
    let is_alike = judged.self_check.as_ref().is_none_or(|check| check.passed);
    let measured = if is_alike { measured } else { measured.max(Verdict::BelowBar) };
    if let Some(path) = kept {
        let ended = Ended { measured, files, compared: compared.as_ref().ok().copied() };
        keep(path, records, &ended)?;
    }
    Ok(measured.max(files).max(compared?))
}

/// Prints where standard output does not belong to a document.
///
/// # Errors
/// When standard output cannot be written.
fn print(text: &str, outputs: &Outputs) -> Result<()> {
    if outputs.claims_stdout() {
        anstream::eprint!("{text}");
        return Ok(());
    }
    stdout::write(text)
}

/// A warning on standard error.
fn warn(text: &str) {
    anstream::eprint!("{}", hanging("tokrate: ", text, stdout::error_width()));
}

/// Says where the files are and which could not be written; whether all could.
fn tell(files: Vec<Written>, outputs: &Outputs) -> bool {
    let mut all = true;
    for Written { name, path, result } in files {
        match result {
            Ok(()) if outputs.quiet => {}
            Ok(()) => {
                // Where standard output is full the files are there all the same; the table has failed with that already.
                let _ = print(&format!("{name}: {}\n", path.display()), outputs);
            }
            Err(error) => {
                anstream::eprintln!("tokrate: failed to {error:#}");
                all = false;
            }
        }
    }
    all
}

/// What the targets are called: provider and model, with their address or a number where that does not tell them apart.
fn names_of(configs: &[Config]) -> Vec<String> {
    let short: Vec<String> = configs.iter().map(|config| name_of(&config.target, false)).collect();
    let mut names: Vec<String> = Vec::new();
    for (config, short_name) in configs.iter().zip(&short) {
        // An address of its own tells a target from those with the same name; that of one measured twice does not.
        let at = name_of(&config.target, true);
        let is_shared = |(other, name): (&Config, &String)| name == short_name && name_of(&other.target, true) != at;
        let name = if configs.iter().zip(&short).any(is_shared) { at } else { short_name.clone() };
        let alike = names.iter().filter(|other| **other == name || other.starts_with(&format!("{name} ("))).count();
        names.push(if alike == 0 { name } else { format!("{name} ({})", alike + 1) });
    }
    names
}

fn name_of(target: &Target, with_address: bool) -> String {
    let Target::Remote(remote) = target else { return "sim".to_owned() };
    let (host, port) = (remote.base.host(), remote.base.port());
    let server = match (remote.provider.as_deref(), with_address) {
        (Some(provider), true) => format!("{provider}@{host}:{port}"),
        (Some(provider), false) => provider.to_owned(),
        (None, true) => format!("{host}:{port}"),
        (None, false) => host.to_owned(),
    };
    format!("{server}/{}", remote.model)
}

/// What the exit code says: nothing answered is no measurement, a part of a run is one of its own kind, too many failures are
/// below the bar.
fn verdict(record: &Record, outputs: &Outputs) -> Verdict {
    let valid = record.phases.iter().all(PhaseResult::is_valid);
    let inconsistent = record.phases.iter().any(|phase| !phase.gate.is_empty());
    let above = |rounds: &Rounds<'_>| {
        let counts = rounds.counts();
        counts.failed_share().is_some_and(|share| share > outputs.max_failures)
            || (counts.started > 0 && counts.answered == 0)
    };
    if record.status == Status::Failed || inconsistent || (outputs.strict && !valid) {
        Verdict::NotMeasured
    } else if record.status == Status::Partial {
        Verdict::Partial
    } else if record.phases.is_empty() || (outputs.strict && !unknown_error_levels(record).is_empty()) {
        Verdict::NotMeasured
    } else if by_load(&record.phases).iter().any(above)
        || record.assertions.iter().any(|outcome| outcome.status != AssertionStatus::Met)
        || record.until.as_ref().is_some_and(|until| !until.is_reached())
    {
        Verdict::BelowBar
    } else {
        Verdict::Good
    }
}

/// Levels with answers at which the client's own error is not known: nothing says whether their figures are valid.
fn unknown_error_levels(record: &Record) -> Vec<&str> {
    let unknown = record.phases.iter().filter(|phase| phase.counts.answered > 0 && !phase.is_client_error_known());
    unknown.map(|phase| phase.name.as_str()).collect()
}

/// Why `--strict` does not take a record, if it does not.
fn strict_reason(record: &Record) -> Option<String> {
    let invalid = record.phases.iter().filter_map(|phase| {
        let reason = phase.client_error.as_ref()?.reason.as_deref()?;
        Some(format!("{}: {reason}", phase.name))
    });
    let invalid: Vec<String> = invalid.collect();
    let unknown = unknown_error_levels(record);
    if !invalid.is_empty() {
        return Some(format!(
            "not valid by the client's own error: {}; measure from a machine with more idle cores",
            invalid.join("; ")
        ));
    }
    (!unknown.is_empty()).then(|| {
        format!(
            "the client's own error is not known at {}, so nothing says whether the figures are valid: a calibration needs answers \
             that stream in several pieces; ask for longer ones (--output-tokens), or leave out --strict",
            unknown.join(", ")
        )
    })
}

/// How the parts of a run ended.
struct Ended {
    measured: Verdict,
    files: Verdict,
    /// Against the baseline; `None` if it cannot be compared with the run.
    compared: Option<Verdict>,
}

/// Keeps the records as a baseline. Only of a run that ends with 0: any other would let the next one pass that is no better.
fn keep(path: &Path, records: &[Record], ended: &Ended) -> Result<()> {
    if let Some(why) = unfit(records, ended) {
        warn(&format!("no baseline is kept in {}: {why}", path.display()));
        return Ok(());
    }
    match records {
        [record] => files::write(path, &record.to_json()),
        several => files::write(path, &Comparison::of(several.to_vec()).to_json()),
    }
}

/// Why records are no baseline, if they are not.
fn unfit(records: &[Record], ended: &Ended) -> Option<String> {
    if let Some(why) = records.iter().find_map(unfit_record) {
        return Some(why);
    }
    let unmet = records.iter().flat_map(|record| &record.assertions).find(|it| it.status != AssertionStatus::Met);
    let why = match (ended.compared, ended.measured, unmet) {
        (None, ..) => "the run cannot be compared with the baseline".to_owned(),
        (Some(Verdict::BelowBar), ..) => "the run is a regression against the baseline".to_owned(),
        (Some(Verdict::NotMeasured | Verdict::Partial), ..) => "nothing could be compared with the baseline".to_owned(),
        _ if records.iter().any(|record| record.until.as_ref().is_some_and(|until| !until.is_reached())) => {
            "what --until asks for is not reached".to_owned()
        }
        (_, _, Some(outcome)) => format!("--assert {} is {}", outcome.assertion, outcome.status.name()),
        (_, Verdict::BelowBar, None) => "more requests failed than --max-failures allows".to_owned(),
        (_, Verdict::NotMeasured | Verdict::Partial, None) => "nothing was measured".to_owned(),
        _ if ended.files != Verdict::Good => "a file of the run could not be written".to_owned(),
        _ => return None,
    };
    Some(why)
}

fn unfit_record(record: &Record) -> Option<String> {
    let unknown = unknown_error_levels(record);
    match record.phases.iter().find(|phase| !phase.is_valid()) {
        _ if record.status != Status::Complete => Some("the run is not complete".to_owned()),
        Some(phase) => Some(format!("at {} a figure is not valid by the client's own error", phase.name)),
        None if !unknown.is_empty() => Some(format!("the client's own error is not known at {}", unknown.join(", "))),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::{Conditions, Sketch, Span, Tick};
    use tokrate_meter::ClientBias;
    use tokrate_meter::ClientError;
    use tokrate_record::run::Load;
    use tokrate_record::{AssertionOutcome, ConditionsRow, PhaseInput, Tool, Warmup};

    fn record(status: Status, client_limited: bool) -> Record {
        let conditions = Conditions::default();
        let input = PhaseInput {
            name: "concurrency 1".to_owned(),
            conditions: &conditions,
            load: Load::Closed { concurrency: 1 },
            warmup: Warmup::None,
            started_at: Tick::ZERO,
            ended_at: Tick::from_nanos(1),
            interrupted: false,
            client_error: Some(ClientError::default()),
            timer_lag: &Sketch::new(),
            client_cpu: Span::ZERO,
            late: 0,
            forfeited: 0,
            withheld: 0,
            held_back: None,
        };
        let mut phase = PhaseResult::of(&input, &mut []);
        phase.gate.clear();
        phase.client_error = Some(ClientError { client_limited, ..ClientError::default() });
        Record {
            schema: Record::SCHEMA.to_owned(),
            tool: Tool { name: "tokrate".to_owned(), version: "0".to_owned() },
            kind: "bench".to_owned(),
            started_at: "2026-11-23T00:00:00Z".to_owned(),
            wall_seconds: 1.0,
            status,
            reason: None,
            conditions: ConditionsRow::from(&conditions),
            price: None,
            engine_host: None,
            search: None,
            until: None,
            spending: None,
            phases: vec![phase],
            timeline: None,
            curve: None,
            assertions: Vec::new(),
            estimate: None,
            warnings: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn strict_takes_no_figure_whose_error_is_not_known() {
        let known = |client_error| {
            let mut record = record(Status::Complete, false);
            record.phases[0].counts.answered = 1;
            record.phases[0].client_error = client_error;
            strict_reason(&record)
        };
        let moved = Some(ClientBias::default());
        assert_eq!(known(Some(ClientError { moved, ..ClientError::default() })), None);
        for unknown in [None, Some(ClientError::default())] {
            let why = known(unknown).expect("nobody knows");
            assert!(why.starts_with("the client's own error is not known at concurrency 1, so"), "{why}");
        }
        let reason = Some("ITL p99 of 6.00 ms could be off by 500 µs".to_owned());
        let why = known(Some(ClientError { moved, reason, client_limited: true, ..ClientError::default() }));
        assert!(why.is_some_and(|why| why.contains("concurrency 1: ITL p99 of 6.00 ms could be off")));
    }

    const PASSED: Ended = Ended { measured: Verdict::Good, files: Verdict::Good, compared: Some(Verdict::Good) };

    #[test]
    fn only_a_complete_and_valid_run_of_known_error_is_a_baseline() {
        let why = |records: &[Record]| unfit(records, &PASSED).unwrap_or_default();
        assert_eq!(unfit(&[record(Status::Complete, false)], &PASSED), None);
        let invalid = [record(Status::Complete, false), record(Status::Complete, true)];
        assert!(why(&invalid).contains("at concurrency 1 a figure is not valid"), "without --strict too");
        assert!(why(&[record(Status::Partial, false)]).contains("not complete"));
        let mut unknown = record(Status::Complete, false);
        (unknown.phases[0].counts.answered, unknown.phases[0].client_error) = (1, None);
        assert_eq!(why(&[unknown]), "the client's own error is not known at concurrency 1");
    }

    #[test]
    fn no_baseline_is_kept_of_a_run_that_does_not_end_with_0() {
        let good = || record(Status::Complete, false);
        let why = |ended: Ended| unfit(&[good()], &ended).unwrap_or_default();
        assert!(why(Ended { compared: Some(Verdict::BelowBar), ..PASSED }).contains("a regression"));
        assert!(why(Ended { compared: Some(Verdict::NotMeasured), ..PASSED }).contains("nothing could be compared"));
        assert!(why(Ended { compared: None, ..PASSED }).contains("cannot be compared"));
        assert!(why(Ended { measured: Verdict::BelowBar, ..PASSED }).contains("--max-failures"));
        assert!(why(Ended { measured: Verdict::NotMeasured, ..PASSED }).contains("nothing was measured"));
        assert!(why(Ended { files: Verdict::NotMeasured, ..PASSED }).contains("could not be written"));
        let mut missed = good();
        missed.assertions.push(AssertionOutcome {
            assertion: "ttft_ms.p50 < 1".to_owned(),
            phase: None,
            status: AssertionStatus::Missed,
            value: None,
            unit: String::new(),
            detail: String::new(),
        });
        let ended = Ended { measured: Verdict::BelowBar, ..PASSED };
        assert_eq!(unfit(&[missed], &ended).as_deref(), Some("--assert ttft_ms.p50 < 1 is missed"));
    }
}
