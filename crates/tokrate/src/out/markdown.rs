//! A result for a pull request: conditions, what to know first, one table for each target.
//!
//! It does not judge. Invariant: nothing that a server or a user named can break out of its cell.

use super::comparison::{self, Sides};
use super::markdown_text::{self, plain};
use super::{scorecard, table};
use std::fmt::Write;
use tokrate_bench::report;
use tokrate_judge::Comparison;
use tokrate_judge::compare::CompareReport;
use tokrate_record::{PhaseResult, Record, Status};

/// The whole text. The names are those of the targets, in the order of the records; `no_baseline` is why
/// there is none, if one was to be compared.
pub fn of(names: &[String], results: &Comparison, held: &[CompareReport], no_baseline: Option<&str>) -> String {
    let mut text = results.scorecard.as_ref().map_or_else(String::new, scorecard::markdown);
    for (place, (name, record)) in names.iter().zip(&results.records).enumerate() {
        // Writing to a String cannot fail.
        let _ = target(&mut text, name, record);
        if let Some(report) = held.get(place) {
            let table = comparison::markdown(report, Sides::BeforeAfter);
            let _ = write!(text, "#### Against the baseline\n\n{table}\n");
        }
    }
    if let Some(missing) = no_baseline {
        let _ = writeln!(text, "> {}\n", plain(missing));
    }
    for against in &results.against_first {
        let title = format!("{} compared with {}", against.target, against.first);
        let table = comparison::markdown(&against.report, Sides::of(against));
        let _ = write!(text, "### {}\n\n{table}\n", plain(&title));
    }
    text
}

fn target(text: &mut String, name: &str, record: &Record) -> std::fmt::Result {
    let conditions = &record.conditions;
    writeln!(text, "### {}\n", plain(name))?;
    writeln!(
        text,
        "{}, {}, {}, {}; {:.0} s on {}, {} {}\n",
        conditions.lengths(),
        if conditions.streaming { "streamed" } else { "not streamed" },
        conditions.dialect,
        conditions.http_version,
        record.wall_seconds,
        plain(&conditions.host),
        record.tool.name,
        record.tool.version,
    )?;
    if record.status != Status::Complete {
        let label = if record.status == Status::Failed { "FAILED" } else { "PARTIAL" };
        writeln!(text, "**{label}**: {}\n", plain(record.reason.as_deref().unwrap_or("see the warnings")))?;
    }
    for warning in &record.warnings {
        writeln!(text, "> **warning**: {}\n", plain(warning))?;
    }
    for note in &record.notes {
        writeln!(text, "> {}\n", plain(note))?;
    }
    if !record.phases.is_empty() {
        numbers(text, &record.phases)?;
    }
    if record.assertions.is_empty() {
        return Ok(());
    }
    writeln!(text, "| assertion | level | outcome | measured |\n|---|---|---|---|")?;
    for outcome in &record.assertions {
        writeln!(
            text,
            "| {} | {} | **{}** | {} |",
            plain(&outcome.assertion),
            plain(outcome.phase.as_deref().unwrap_or("-")),
            outcome.status.name(),
            plain(&outcome.detail)
        )?;
    }
    writeln!(text)
}

/// A row for each load; and every number, folded.
fn numbers(text: &mut String, phases: &[PhaseResult]) -> std::fmt::Result {
    let loads = report::loads(phases);
    text.push_str(&markdown_text::table(&loads));
    for note in &loads.notes {
        writeln!(text, "\n{}", plain(note))?;
    }
    writeln!(text, "\n<details><summary>Every number, each round by itself</summary>\n")?;
    let (head, rows) = table::cells(phases);
    writeln!(text, "| | {} |", head.iter().map(|cell| plain(cell)).collect::<Vec<String>>().join(" | "))?;
    writeln!(text, "|---|{}", "---:|".repeat(head.len()))?;
    for (label, cells) in rows {
        writeln!(text, "| {label} | {} |", cells.iter().map(|cell| plain(cell)).collect::<Vec<String>>().join(" | "))?;
    }
    writeln!(text, "\n</details>")?;
    writeln!(text, "\n[a..b] is the confidence interval; \\~ describes too few samples to state a percentile\n")?;
    Ok(())
}
