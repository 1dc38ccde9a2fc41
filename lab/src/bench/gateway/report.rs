//! What the rounds gave, and the table of it.
//!
//! Invariant: a bar is judged by tokrate's median alone, and every line shows what the floor and the peers gave in the
//! same rounds.

use super::endpoint::Tool;
use crate::bench::summary::Rounds;
use std::collections::BTreeMap;
use std::fmt;

/// Values by what they are and whose they are, one a round.
#[derive(Default)]
pub struct Values(BTreeMap<(&'static str, Tool), Vec<f64>>);

impl Values {
    pub fn add(&mut self, name: &'static str, tool: Tool, value: f64) {
        self.0.entry((name, tool)).or_default().push(value);
    }

    pub fn rounds(&self, name: &'static str, tool: Tool) -> Option<Rounds> {
        Rounds::of(self.0.get(&(name, tool))?.clone())
    }

    pub fn sum(&self, name: &'static str, tool: Tool) -> Option<f64> {
        Some(self.0.get(&(name, tool))?.iter().sum())
    }

    /// By how much a tool's value is above the floor's, round by round.
    pub fn added(&self, name: &'static str, tool: Tool) -> Option<Rounds> {
        let (its, floor) = (self.0.get(&(name, tool))?, self.0.get(&(name, Tool::Direct))?);
        Rounds::of(its.iter().zip(floor).map(|(its, floor)| its - floor).collect())
    }
}

/// What tokrate's median has to be.
#[derive(Clone, Copy)]
pub enum Bar {
    AtMost(f64),
    /// At least so much, judged only where the floor reaches it: else upstream and client are the limit.
    AtLeastAsFloor(f64),
    None,
}

/// A line in the making.
pub struct Line {
    what: String,
    cells: BTreeMap<Tool, String>,
    bar: String,
    met: Option<bool>,
}

impl Line {
    pub fn new(what: impl Into<String>) -> Line {
        Line { what: what.into(), cells: BTreeMap::new(), bar: "-".to_owned(), met: None }
    }

    /// The rounds of every tool that has any.
    pub fn of(what: impl Into<String>, values: &Values, name: &'static str, write: fn(f64) -> String) -> Line {
        let mut line = Line::new(what);
        for tool in Tool::ALL {
            if let Some(rounds) = values.rounds(name, tool) {
                line.cells.insert(tool, rounds.show(write));
            }
        }
        line
    }

    /// What every gateway adds to the floor.
    pub fn added(what: impl Into<String>, values: &Values, name: &'static str, write: fn(f64) -> String) -> Line {
        let mut line = Line::new(what);
        for tool in Tool::ALL.into_iter().filter(|tool| *tool != Tool::Direct) {
            if let Some(rounds) = values.added(name, tool) {
                line.cells.insert(tool, rounds.show(write));
            }
        }
        line
    }

    pub fn cell(mut self, tool: Tool, text: impl Into<String>) -> Line {
        self.cells.insert(tool, text.into());
        self
    }

    /// Holds a value of tokrate against a bar; `floor` is the floor's value.
    pub fn judged(mut self, bar: Bar, write: fn(f64) -> String, value: Option<f64>, floor: Option<f64>) -> Line {
        (self.bar, self.met) = match bar {
            Bar::AtMost(most) => (format!("≤ {}", write(most)), value.map(|value| value <= most)),
            Bar::AtLeastAsFloor(least) if floor.is_some_and(|floor| floor < least) => {
                (format!("≥ {} (the floor does not reach it)", write(least)), None)
            }
            Bar::AtLeastAsFloor(least) => (format!("≥ {}", write(least)), value.map(|value| value >= least)),
            Bar::None => ("-".to_owned(), None),
        };
        self
    }

    /// A bar that is summary in words.
    pub fn verdict(mut self, bar: impl Into<String>, met: Option<bool>) -> Line {
        self.bar = bar.into();
        self.met = met;
        self
    }
}

/// Lines and sentences below them.
#[derive(Default)]
pub struct Report {
    lines: Vec<Line>,
    notes: Vec<String>,
}

impl Report {
    pub fn line(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_cell = |tool: &Tool| self.lines.iter().any(|line| line.cells.contains_key(tool));
        let tools: Vec<Tool> = Tool::ALL.into_iter().filter(has_cell).collect();
        let names: String = tools.iter().map(|tool| format!(" {} |", tool.column())).collect();
        writeln!(formatter, "| what |{names} bar | |\n|---|{}---|---|", "---|".repeat(tools.len()))?;
        for Line { what, cells, bar, met } in &self.lines {
            write!(formatter, "| {what} |")?;
            for tool in &tools {
                write!(formatter, " {} |", cells.get(tool).map_or("-", String::as_str))?;
            }
            let verdict = match met {
                Some(true) => "met",
                Some(false) => "**MISSED**",
                None => "-",
            };
            writeln!(formatter, " {bar} | {verdict} |")?;
        }
        if !self.notes.is_empty() {
            writeln!(formatter)?;
        }
        for note in &self.notes {
            writeln!(formatter, "- {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::summary::two_decimals;

    #[test]
    fn what_is_added_is_the_difference_of_the_same_round() {
        let mut values = Values::default();
        for (direct, tokrate) in [(1.0, 1.5), (10.0, 10.1), (2.0, 2.9)] {
            values.add("p50", Tool::Direct, direct);
            values.add("p50", Tool::Tokrate, tokrate);
        }
        let added = values.added("p50", Tool::Tokrate).expect("rounds of both");
        assert!((added.median - 0.5).abs() < 1e-9 && (added.max - 0.9).abs() < 1e-9, "{added:?}");
        assert_eq!(values.added("p50", Tool::LiteLlm), None);
    }

    #[test]
    fn a_bar_that_the_floor_misses_judges_nobody() {
        let bar = Bar::AtLeastAsFloor(10.0);
        let met = |value, floor| Line::new("x").judged(bar, two_decimals, Some(value), Some(floor)).met;
        assert_eq!(met(9.0, 20.0), Some(false));
        assert_eq!(met(10.0, 20.0), Some(true));
        assert_eq!(met(9.0, 9.5), None);
    }
}
