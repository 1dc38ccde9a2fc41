//! `tokrate claim`: what a stated speed can mean, and which questions have to be answered before it means anything.

use super::Verdict;
use crate::flags::claim::Flags;
use anyhow::{Context, Result, anyhow};
use std::fmt::Write;
use tokrate_judge::{Claim, Comparison, Meaning, StatedValue};
use tokrate_record::Record;
use tokrate_targets::reading::{self, MAX_DATA_BYTES};

/// Explains the claim; with a record, holds it against what was measured.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let claim = Claim::parse(&flags.text).map_err(|error| anyhow!("{error}"))?;
    let records = match &flags.record {
        Some(path) => {
            let text = reading::text_of(path, MAX_DATA_BYTES)
                .with_context(|| format!("read the record {}; check --record", path.display()))?;
            Comparison::parse_records(&text).map_err(|error| anyhow!("{error} ({})", path.display()))?
        }
        None => Vec::new(),
    };
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_claim(&mut text, &claim, &records);
    crate::out::stdout::write(&text)?;
    Ok(Verdict::Good)
}

fn write_claim(text: &mut String, claim: &Claim, records: &[Record]) -> std::fmt::Result {
    for stated in &claim.speeds {
        speed(text, stated)?;
    }
    for stated in &claim.first_tokens {
        writeln!(text, "TTFT: {}\n", stated.shown("ms"))?;
        writeln!(
            text,
            "  The wait for the first token; it says nothing about how fast the answer is written after that."
        )?;
        writeln!(text, "  It grows with the prompt and with the load: without both it cannot be compared.\n")?;
    }
    conditions(text, claim)?;
    for record in records {
        writeln!(text, "\nMeasured: {} at {}", record.conditions.model, record.conditions.endpoint)?;
        let sentences = claim.compare_with(record);
        if sentences.is_empty() {
            writeln!(text, "  This record cannot judge it: it holds no such number.")?;
        }
        for sentence in sentences {
            writeln!(text, "  {sentence}")?;
        }
    }
    Ok(())
}

fn speed(text: &mut String, stated: &StatedValue) -> std::fmt::Result {
    writeln!(text, "{}", stated.shown("tok/s"))?;
    match stated.meaning {
        Some(meaning) => writeln!(text, "\nThe words say {}. Then:", meaning.name())?,
        None => writeln!(text, "\nThe words do not say which speed. It could be:")?,
    }
    for meaning in stated.meanings() {
        writeln!(text, "\n  {} ({})", meaning.name(), definition(meaning))?;
        for end in stated.ends() {
            for sentence in meaning.implications(end) {
                writeln!(text, "    {sentence}")?;
            }
        }
    }
    writeln!(text)
}

/// The conditions that were stated, what was not understood, and what is missing.
fn conditions(text: &mut String, claim: &Claim) -> std::fmt::Result {
    if !claim.conditions.is_empty() {
        writeln!(text, "Said:")?;
        for (condition, stated) in &claim.conditions {
            writeln!(text, "  {}: {stated}", condition.name())?;
        }
        writeln!(text)?;
    }
    if !claim.not_understood.is_empty() {
        writeln!(text, "Not understood, and not used:")?;
        for part in &claim.not_understood {
            writeln!(text, "  {part}")?;
        }
        writeln!(text)?;
    }
    let missing: Vec<&str> = claim.missing().map(|condition| condition.question()).collect();
    if missing.is_empty() {
        writeln!(text, "Nothing that the number depends on is missing.")?;
    } else {
        writeln!(text, "To be asked before the number can be compared with another:")?;
        for question in missing {
            writeln!(text, "  - {question}")?;
        }
    }
    Ok(())
}

fn definition(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::OutputSpeed => "of one request after its first chunk",
        Meaning::EndToEndSpeed => "tokens of one request over its whole time",
        Meaning::Throughput => "of all requests together",
        Meaning::PrefillSpeed => "of reading the prompt",
    }
}
