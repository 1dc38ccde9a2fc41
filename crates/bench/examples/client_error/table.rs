//! Counts of the verdicts on figures, compared with the ground truth.

use crate::scenario::Scenario;
use std::collections::BTreeMap;
use std::fmt;
use tokrate_meter::FigureValidity;

/// A verdict beside the truth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// It holds and is stated.
    Stated,
    /// It holds and is disowned.
    WronglyDisowned,
    /// It does not hold and is disowned.
    Disowned,
    /// It does not hold and is stated.
    WronglyPassed,
}

impl Outcome {
    const ALL: [Outcome; 4] = [Outcome::Stated, Outcome::WronglyDisowned, Outcome::Disowned, Outcome::WronglyPassed];

    /// The verdict of a calibration beside that of the engine's log.
    pub fn of(judged: &FigureValidity, truth: &FigureValidity) -> Outcome {
        match (truth.valid, judged.valid) {
            (true, true) => Outcome::Stated,
            (true, false) => Outcome::WronglyDisowned,
            (false, false) => Outcome::Disowned,
            (false, true) => Outcome::WronglyPassed,
        }
    }

    /// Whether the calibration was wrong.
    pub fn is_wrong(self) -> bool {
        matches!(self, Outcome::WronglyDisowned | Outcome::WronglyPassed)
    }
}

/// How often each came about, by figure and by kind of scenario.
#[derive(Default)]
pub struct Table {
    counts: BTreeMap<(u8, String), BTreeMap<Outcome, u64>>,
}

impl Table {
    /// Counts a verdict.
    pub fn add(&mut self, scenario: &Scenario, figure: &str, outcome: Outcome) {
        for row in [(0, figure.to_owned()), (1, scenario.kind()), (2, "all".to_owned())] {
            *self.counts.entry(row).or_default().entry(outcome).or_default() += 1;
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "| | figures | right, stated | right, disowned | wrong, disowned | wrong, stated |")?;
        writeln!(to, "|---|---|---|---|---|---|")?;
        for ((_, name), counts) in &self.counts {
            let all: u64 = counts.values().sum();
            let cells = Outcome::ALL.map(|outcome| counts.get(&outcome).copied().unwrap_or(0).to_string());
            writeln!(to, "| {name} | {all} | {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}
