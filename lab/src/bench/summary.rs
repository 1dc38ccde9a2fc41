//! Quantiles of samples and of rounds, and how they are written.
//!
//! Invariant: a quantile is the nearest rank of the samples themselves.

/// The nearest-rank quantile of rising samples; `None` without any.
pub fn nearest_rank<T: Copy>(sorted: &[T], level: f64) -> Option<T> {
    let rank = (level * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

/// The nearest-rank quantile of samples in any order.
pub fn quantile(mut samples: Vec<f64>, level: f64) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    nearest_rank(&samples, level)
}

/// One number over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// The median round.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Rounds {
    /// Of what each round gave; `None` without a round. Of an even number of rounds the mean of the two in the middle.
    pub fn of(mut values: Vec<f64>) -> Option<Rounds> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
        Some(Rounds { median, min, max })
    }

    /// As `median (min..max)`, each number written by `write`.
    pub fn show(&self, write: fn(f64) -> String) -> String {
        format!("{} ({}..{})", write(self.median), write(self.min), write(self.max))
    }
}

/// A count or rate, in millions or thousands where it is large.
pub fn large(value: f64) -> String {
    if value >= 999_500.0 {
        format!("{:.2} M", value / 1e6)
    } else if value >= 1_000.0 {
        format!("{:.0} k", value / 1e3)
    } else {
        format!("{value:.0}")
    }
}

/// A share as signed per cent.
pub fn signed_percent(value: f64) -> String {
    format!("{:+.3} %", value * 100.0)
}

/// Seconds or milliseconds with two decimals, or whatever else wants them.
pub fn two_decimals(value: f64) -> String {
    format!("{value:.2}")
}

/// With one decimal.
pub fn one_decimal(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(samples.clone(), 0.5), Some(50.0));
        assert_eq!(quantile(samples.clone(), 0.99), Some(99.0));
        assert_eq!(quantile(samples, 1.0), Some(100.0));
        assert_eq!(quantile(Vec::new(), 0.5), None);
    }

    #[test]
    fn rounds_show_their_spread() {
        let rounds = Rounds::of(vec![3.0, 1.0, 2.0, 10.0]).expect("four rounds");
        assert_eq!(rounds, Rounds { median: 2.5, min: 1.0, max: 10.0 });
        assert_eq!(rounds.show(one_decimal), "2.5 (1.0..10.0)");
    }
}
