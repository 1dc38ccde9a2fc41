//! Records of several targets measured in one run, in one document.
//!
//! Invariant: every target keeps its own conditions, warnings and figures.

use crate::compare::{CompareOptions, CompareReport, compare};
use crate::scorecard::Scorecard;
use crate::self_check::SelfCheck;
use serde::{Deserialize, Serialize};
use tokrate_record::RunSamples;
use tokrate_record::{Record, RecordError, lay_out};

/// Several records, in the order in which the targets were named.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Which form this is: `tokrate.comparison.v1`.
    #[cfg_attr(test, schemars(extend("const" = Comparison::SCHEMA)))]
    pub schema: String,
    /// One record for each target.
    pub records: Vec<Record>,
    /// The second and later targets, each compared with the first; one without a common load level is omitted.
    #[serde(default)]
    pub against_first: Vec<ComparisonWithFirst>,
    /// The targets side by side, if that was asked for.
    #[serde(default)]
    pub scorecard: Option<Scorecard>,
    /// What the same target says of itself, if it was measured as two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheck>,
}

impl Comparison {
    /// The name of this form.
    pub const SCHEMA: &'static str = "tokrate.comparison.v1";

    /// These records, not yet compared.
    pub fn of(records: Vec<Record>) -> Comparison {
        Comparison {
            schema: Comparison::SCHEMA.to_owned(),
            records,
            against_first: Vec::new(),
            scorecard: None,
            self_check: None,
        }
    }

    /// The same with every target compared with the first, and with a scorecard on request. The names are those
    /// of the targets, in the order of the records.
    pub fn judged(self, names: &[String], with_scorecard: bool) -> Comparison {
        let targets: Vec<(&str, &Record)> = names.iter().map(String::as_str).zip(&self.records).collect();
        let against_first = against_first(&targets);
        let report = |name: &str| Some(&against_first.iter().find(|against| against.target == name)?.report);
        // The first itself has none.
        let reports: Vec<Option<&CompareReport>> =
            targets.iter().enumerate().map(|(place, (name, _))| report(name).filter(|_| place > 0)).collect();
        let scorecard = with_scorecard.then(|| Scorecard::beside(&targets, &reports));
        Comparison { against_first, scorecard, ..self }
    }

    /// The targets that could not be compared with the first. The names are those of the targets, in the order of the records.
    pub fn uncompared<'n>(&self, names: &'n [String]) -> impl Iterator<Item = &'n str> {
        let is_compared = |name: &str| self.against_first.iter().any(|against| against.target == name);
        names.iter().skip(1).map(String::as_str).filter(move |name| !is_compared(name))
    }

    /// The same of one target that was measured as two, with what its comparison with itself says.
    pub fn self_checked(self) -> Comparison {
        let self_check = match (self.records.as_slice(), self.against_first.first()) {
            ([a, b], Some(against)) => Some(SelfCheck::of(a, b, &against.report)),
            _ => None,
        };
        Comparison { self_check, ..self }
    }

    /// Reads the records of a document: those of a comparison, or the one of a single record.
    ///
    /// # Errors
    /// As for [`Record::parse`].
    pub fn parse_records(text: &str) -> Result<Vec<Record>, RecordError> {
        match Record::parse(text) {
            Err(RecordError::UnknownSchema { found }) if found == Comparison::SCHEMA => {
                Ok(serde_json::from_str::<Comparison>(text)?.records)
            }
            single => Ok(vec![single?]),
        }
    }

    /// The comparison as JSON: a field a line, arrays on one line, a line feed at the end.
    pub fn to_json(&self) -> String {
        lay_out(self)
    }
}

/// A target compared with the first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparisonWithFirst {
    /// What the target is called.
    pub target: String,
    /// What the first is called: `a` of the report.
    pub first: String,
    /// How they differ, level by level.
    pub report: CompareReport,
}

fn against_first(targets: &[(&str, &Record)]) -> Vec<ComparisonWithFirst> {
    let Some(((first, before), others)) = targets.split_first() else { return Vec::new() };
    let side = RunSamples::of_record(before);
    // All conditions are ignored: targets differ by definition, and the report lists the rest.
    let options = CompareOptions { ignore: vec!["all".to_owned()], ..CompareOptions::default() };
    let against = |(target, record): &(&str, &Record)| {
        let report = compare(&side, &RunSamples::of_record(record), &options).ok()?;
        Some(ComparisonWithFirst { target: (*target).to_owned(), first: (*first).to_owned(), report })
    };
    others.iter().filter_map(against).collect()
}

#[cfg(test)]
mod tests;
