//! The verdicts of a run as JUnit XML, which CI systems show beside the tests.
//!
//! It does not decide: a case fails exactly where the exit code says so. Invariant: the file is well-formed whatever a
//! server answered.

use super::badge::escaped;
use crate::config::bench::Outputs;
use std::fmt::Write;
use tokrate_judge::SelfCheck;
use tokrate_judge::compare::{CompareReport, CompareRow, CompareVerdict};
use tokrate_record::run::{Rounds, by_load};
use tokrate_record::{
    AssertionOutcome, AssertionStatus, PhaseResult, PrecisionOutcome, PrecisionStatus, Record, Status, UntilResult,
};

/// One check of one load level.
struct Case {
    name: String,
    seconds: f64,
    /// Why it failed, if it did.
    failure: Option<String>,
    /// Why it does not count, if so.
    skipped: Option<String>,
}

/// The whole file: a suite for each target. Names and records belong together.
pub fn of(
    names: &[String],
    records: &[Record],
    held: &[CompareReport],
    self_check: Option<&SelfCheck>,
    outputs: &Outputs,
) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"tokrate\">\n".to_owned();
    for (place, (name, record)) in names.iter().zip(records).enumerate() {
        let mut cases = cases(record, outputs);
        cases.extend(self_check.filter(|_| place == 0).map(checked));
        cases.extend(held.get(place).into_iter().flat_map(|report| &report.rows).map(compared));
        // Writing to a String cannot fail.
        let _ = suite(&mut text, name, &cases, record.wall_seconds);
    }
    text + "</testsuites>\n"
}

fn suite(text: &mut String, name: &str, cases: &[Case], seconds: f64) -> std::fmt::Result {
    let failures = cases.iter().filter(|case| case.failure.is_some()).count();
    let skipped = cases.iter().filter(|case| case.skipped.is_some()).count();
    let name = escaped(name);
    writeln!(
        text,
        "<testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\" time=\"{seconds:.3}\">",
        cases.len()
    )?;
    for case in cases {
        write!(
            text,
            "<testcase classname=\"tokrate.{name}\" name=\"{}\" time=\"{:.3}\"",
            escaped(&case.name),
            case.seconds
        )?;
        match (&case.failure, &case.skipped) {
            (Some(why), _) => {
                let why = escaped(why);
                writeln!(text, ">\n<failure message=\"{why}\">{why}</failure>\n</testcase>")?;
            }
            (None, Some(why)) => writeln!(text, ">\n<skipped message=\"{}\"/>\n</testcase>", escaped(why))?,
            (None, None) => writeln!(text, "/>")?,
        }
    }
    writeln!(text, "</testsuite>")
}

fn cases(record: &Record, outputs: &Outputs) -> Vec<Case> {
    let mut cases = Vec::new();
    if record.status != Status::Complete {
        let reason = record.reason.clone().unwrap_or_else(|| "see the warnings".to_owned());
        cases.push(Case { name: "the run is complete".to_owned(), seconds: 0.0, failure: Some(reason), skipped: None });
    }
    for rounds in by_load(&record.phases) {
        cases.push(answers(&rounds, outputs));
        cases.extend(rounds.phases.iter().map(|phase| validity(phase, outputs)));
    }
    cases.extend(record.assertions.iter().map(asserted));
    cases.extend(record.until.iter().flat_map(known));
    cases
}

/// What the run was to go on for.
fn known(until: &UntilResult) -> Vec<Case> {
    let case = |name: String, is_met: bool, sentence: &str| Case {
        name,
        seconds: 0.0,
        failure: (!is_met).then(|| sentence.to_owned()),
        skipped: None,
    };
    let of = |it: &PrecisionOutcome| {
        let is_reached = it.status == PrecisionStatus::Reached;
        case(format!("--until {} at {}", it.condition, it.phase), is_reached, &it.sentence)
    };
    let verdict = until.verdict.iter().map(|it| case("--until verdict".to_owned(), until.is_reached(), &it.sentence));
    verdict.chain(until.conditions.iter().map(of)).collect()
}

/// Whether the target is like itself.
fn checked(check: &SelfCheck) -> Case {
    let failure = (!check.passed).then(|| check.sentence.clone());
    Case { name: "--self-check".to_owned(), seconds: 0.0, failure, skipped: None }
}

fn asserted(outcome: &AssertionOutcome) -> Case {
    let place = outcome.phase.as_deref().unwrap_or("no level");
    let missed = outcome.status != AssertionStatus::Met;
    Case {
        name: format!("{place}: {}", outcome.assertion),
        seconds: 0.0,
        failure: missed.then(|| format!("{}: {}", outcome.status.name(), outcome.detail)),
        skipped: None,
    }
}

/// A row of the comparison with the baseline: what could not be decided does not count.
fn compared(row: &CompareRow) -> Case {
    let change = row.change.map_or_else(String::new, |change| format!(", change {change:.4}"));
    let message = || format!("{}{change}", row.verdict.words());
    let undecided = row.verdict == CompareVerdict::Undecided;
    Case {
        name: format!("{}: {} against the baseline", row.level, row.metric.label()),
        seconds: 0.0,
        failure: row.regression.then(message),
        skipped: undecided.then(|| row.note.clone().unwrap_or_else(|| "undecided".to_owned())),
    }
}

/// Whether the rounds of a load together have few enough failures.
fn answers(rounds: &Rounds<'_>, outputs: &Outputs) -> Case {
    let counts = rounds.counts();
    let share = counts.failed_share().unwrap_or(0.0);
    let nothing = counts.started > 0 && counts.answered == 0;
    let kinds: Vec<String> =
        rounds.failures().iter().map(|failure| format!("{} {}", failure.count, failure.kind.name())).collect();
    let above = share > outputs.max_failures || nothing;
    let message = || {
        format!(
            "{:.2} % of {} requests failed ({}); allowed are {:.2} %",
            share * 100.0,
            counts.started,
            kinds.join(", "),
            outputs.max_failures * 100.0
        )
    };
    Case {
        name: format!("{}: requests are answered", rounds.name()),
        seconds: rounds.count(|phase| phase.ended_at_ns - phase.started_at_ns) as f64 / 1e9,
        failure: above.then(message),
        skipped: None,
    }
}

fn validity(phase: &PhaseResult, outputs: &Outputs) -> Case {
    let limited = phase.client_error.as_ref().and_then(|error| error.reason.clone());
    let gate = (!phase.gate.is_empty()).then(|| "the numbers contradict each other, a bug of tokrate".to_owned());
    let (failure, skipped) = match (gate, limited) {
        (Some(gate), _) => (Some(gate), None),
        (None, Some(reason)) if outputs.strict => (Some(reason), None),
        (None, None) if !phase.is_client_error_known() => {
            let unknown = "what the client itself adds was not measured".to_owned();
            if outputs.strict { (Some(unknown), None) } else { (None, Some(unknown)) }
        }
        (None, reason) => (None, reason),
    };
    Case { name: format!("{}: the client was fast enough", phase.name), seconds: 0.0, failure, skipped }
}
