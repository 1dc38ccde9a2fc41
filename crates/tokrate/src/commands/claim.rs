//! `tokrate claim`: what a stated speed can mean, and which questions have to be answered before it means anything.

use super::Verdict;
use crate::flags::claim::Flags;
use crate::out::paragraph::hanging;
use crate::out::stdout;
use anyhow::{Context, Result, anyhow};
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
    let mut text = Text { written: String::new(), width: stdout::width(stdout::MAX_TEXT_WIDTH) };
    text.claim(&claim, &records);
    stdout::write(&text.written)?;
    Ok(Verdict::Good)
}

/// What is printed, in lines of a width.
struct Text {
    written: String,
    width: usize,
}

impl Text {
    /// A paragraph, indented by so many columns.
    fn line(&mut self, indent: usize, text: &str) {
        self.labelled(&" ".repeat(indent), text);
    }

    fn labelled(&mut self, label: &str, text: &str) {
        self.written += &hanging(label, text, self.width);
    }

    fn blank(&mut self) {
        self.written.push('\n');
    }

    fn claim(&mut self, claim: &Claim, records: &[Record]) {
        for stated in &claim.speeds {
            self.speed(stated);
        }
        for stated in &claim.first_tokens {
            self.line(0, &format!("TTFT: {}", stated.shown("ms")));
            self.blank();
            self.line(
                2,
                "The wait for the first token; it says nothing about how fast the answer is written after that.",
            );
            self.line(2, "It grows with the prompt and with the load: without both it cannot be compared.");
            self.blank();
        }
        self.conditions(claim);
        for record in records {
            self.blank();
            self.line(0, &format!("Measured: {} at {}", record.conditions.model, record.conditions.endpoint));
            let sentences = claim.compare_with(record);
            if sentences.is_empty() {
                self.line(2, "This record cannot judge it: it holds no such number.");
            }
            for sentence in sentences {
                self.line(2, &sentence);
            }
        }
    }

    fn speed(&mut self, stated: &StatedValue) {
        self.line(0, &stated.shown("tok/s"));
        self.blank();
        match stated.meaning {
            Some(meaning) => self.line(0, &format!("The words say {}. Then:", meaning.name())),
            None => self.line(0, "The words do not say which speed. It could be:"),
        }
        for meaning in stated.meanings() {
            self.blank();
            self.line(2, &format!("{} ({})", meaning.name(), definition(meaning)));
            for sentence in stated.ends().into_iter().flat_map(|end| meaning.implications(end)) {
                self.line(4, &sentence);
            }
        }
        self.blank();
    }

    /// The conditions that were stated, what was not understood, and what is missing.
    fn conditions(&mut self, claim: &Claim) {
        if !claim.conditions.is_empty() {
            self.line(0, "Stated:");
            for (condition, stated) in &claim.conditions {
                self.line(2, &format!("{}: {stated}", condition.name()));
            }
            self.blank();
        }
        if !claim.not_understood.is_empty() {
            self.line(0, "Not understood, and not used:");
            for part in &claim.not_understood {
                self.line(2, part);
            }
            self.blank();
        }
        let missing: Vec<&str> = claim.missing().map(|condition| condition.question()).collect();
        if missing.is_empty() {
            self.line(0, "Nothing that the number depends on is missing.");
        } else {
            self.line(0, "To be asked before the number can be compared with another:");
            for question in missing {
                self.labelled("  - ", question);
            }
        }
    }
}

fn definition(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::OutputSpeed => "of one request after its first chunk",
        Meaning::EndToEndSpeed => "tokens of one request over its whole time",
        Meaning::Throughput => "of all requests together",
        Meaning::PrefillSpeed => "of reading the prompt",
    }
}
