//! Intervals of 80 %: the tenth and ninetieth percentile of what cross-validation was off by, by kind of question.
//!
//! Invariant: low <= value <= high.

use crate::csv;
use crate::fit::Output;
use crate::hardware::Class;
use crate::question::Kind;
use crate::validate::Residual;
use serde::Serialize;

/// The table that is embedded; `validate` writes it.
const TABLE: &str = include_str!("../data/intervals.csv");

/// Share of the rows that an interval should cover.
pub const COVERAGE: f64 = 0.8;
/// Rows that a class of devices needs for an interval of its own.
const OWN_FROM: usize = 8;
/// Fewer residuals than this say little by their ranks.
const FEW: usize = 40;

/// A number with its interval of 80 %.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Value {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Value {
    /// The same in another unit.
    pub fn times(self, factor: f64) -> Value {
        Value { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// One over it.
    pub fn inverse(self) -> Value {
        Value { value: 1.0 / self.value, low: 1.0 / self.high, high: 1.0 / self.low }
    }
}

/// Factors of an interval's ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Factors {
    /// Low end over value.
    pub low: f64,
    /// High end over value.
    pub high: f64,
}

/// Where nothing was measured: a factor of two and a half, as wide as the worst kind.
const UNKNOWN: Factors = Factors { low: 0.4, high: 2.5 };
/// On-chip memory: six published speeds of three makers, no measurement of others; a judgement.
const SRAM: Factors = Factors { low: 0.6, high: 1.67 };

impl Factors {
    /// From residuals (logarithms of measured over predicted): the ranks that cover four fifths of a further one, or what a
    /// normal distribution makes of few, if that is wider.
    pub fn of_residuals(logs: &[f64]) -> Option<Factors> {
        if logs.len() < 4 {
            return None;
        }
        let mut sorted = logs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let tail = (1.0 - COVERAGE) / 2.0;
        let rank = (((sorted.len() + 1) as f64 * tail + 1e-9).floor() as usize).max(1);
        let (few_low, few_high) = if sorted.len() < FEW { of_few(&sorted) } else { (0.0, 0.0) };
        // The estimate itself stays inside.
        let low = sorted[rank - 1].min(few_low).min(-0.02);
        let high = sorted[sorted.len() - rank].max(few_high).max(0.02);
        Some(Factors { low: low.exp(), high: high.exp() })
    }

    /// Wider by a factor of the logarithms.
    pub fn widened(self, by: f64) -> Factors {
        Factors { low: self.low.powf(by), high: self.high.powf(by) }
    }

    /// The interval around a value.
    pub fn around(self, value: f64) -> Value {
        Value { value, low: value * self.low, high: value * self.high }
    }
}

/// Ends of the interval for a further value of a normal distribution of which few are known: mean ± t s sqrt(1 + 1/n), t the
/// ninetieth percentile of Student's distribution (by Cornish and Fisher's expansion). Every row was left out twice, so that
/// half as many residuals are independent.
fn of_few(logs: &[f64]) -> (f64, f64) {
    let (count, independent) = (logs.len() as f64, (logs.len() as f64 / 2.0).max(2.0));
    let mean = logs.iter().sum::<f64>() / count;
    let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
    let freedom = independent - 1.0;
    let t = 1.2816 + 0.8467 / freedom + 0.571 / freedom.powi(2);
    let half = t * deviation * (1.0 + 1.0 / independent).sqrt();
    (mean - half, mean + half)
}

/// Whose residuals make an interval: of a class of devices with or without experts, of the class, of all.
fn keys(kind: Kind, output: Output, class: Class, experts: bool) -> [String; 3] {
    let of = |who: &str| format!("{}/{output:?}/{who}", kind.name());
    let model = if experts { "experts" } else { "dense" };
    [of(&format!("{} {model}", class.name())), of(class.name()), of("all")]
}

/// Intervals by kind of question, output, class of device and whether the model has experts.
#[derive(Clone, PartialEq, Debug)]
pub struct Intervals(Vec<(String, Factors, usize)>);

impl Intervals {
    /// The embedded ones.
    pub fn embedded() -> Intervals {
        let read = |row: &csv::Row| {
            let factors = Factors { low: row.number("low")?, high: row.number("high")? };
            Some((row.text("kind").to_owned(), factors, row.number("residuals")? as usize))
        };
        Intervals(csv::rows(TABLE).iter().filter_map(read).collect())
    }

    /// From residuals.
    pub fn of_residuals<'a>(residuals: impl Iterator<Item = &'a Residual>) -> Intervals {
        let mut logs: Vec<(String, Vec<f64>)> = Vec::new();
        for residual in residuals {
            for key in keys(residual.kind, residual.output, residual.class, residual.experts) {
                match logs.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, logs)) => logs.push(residual.log()),
                    None => logs.push((key, vec![residual.log()])),
                }
            }
        }
        logs.sort_by(|a, b| a.0.cmp(&b.0));
        let kept = logs.into_iter().filter(|(key, logs)| key.ends_with("/all") || logs.len() >= OWN_FROM);
        Intervals(kept.filter_map(|(key, logs)| Some((key, Factors::of_residuals(&logs)?, logs.len()))).collect())
    }

    /// The factors for an output; wide where nothing was measured.
    pub fn factors(&self, kind: Kind, output: Output, class: Class, experts: bool) -> Factors {
        if kind == Kind::Sram {
            return SRAM;
        }
        let find = |key: String| self.0.iter().find(|(other, ..)| *other == key).map(|(_, factors, _)| *factors);
        keys(kind, output, class, experts).into_iter().find_map(find).unwrap_or(UNKNOWN)
    }

    /// The table as `validate` writes it.
    pub fn table(&self) -> String {
        let rows = self
            .0
            .iter()
            .map(|(key, factors, count)| format!("{key},{:.4},{:.4},{count}\n", factors.low, factors.high));
        format!("kind,low,high,residuals\n{}", rows.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_covers_four_fifths_of_its_residuals() {
        let logs: Vec<f64> = (0..99).map(|i| (f64::from(i) - 49.0) / 100.0).collect();
        let factors = Factors::of_residuals(&logs).expect("enough");
        let inside = logs.iter().filter(|log| log.exp() >= factors.low && log.exp() <= factors.high).count();
        assert_eq!(inside, 81);
        assert_eq!(Factors::of_residuals(&[0.1, 0.2]), None);
        // Of few the ends lie beyond the outermost.
        let few = Factors::of_residuals(&[-0.1, -0.05, 0.0, 0.05, 0.1]).expect("enough");
        assert!(few.low < 0.9 && few.high > 1.12, "{few:?}");
    }

    #[test]
    fn widening_and_inverting_keep_the_order() {
        let value = Factors { low: 0.8, high: 1.3 }.widened(1.5).around(2.0);
        let inverse = value.inverse();
        assert!(value.low < value.value && value.value < value.high);
        assert!(inverse.low < inverse.value && inverse.value < inverse.high);
    }
}
