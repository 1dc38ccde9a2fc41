//! The distribution of one minute's values: a sketch while more may come, three quantiles afterwards.
//!
//! Invariant: once closed it takes the space of four small numbers, however many values there were.

use tokrate_core::Sketch;

/// Values of one minute.
#[derive(Clone, Debug)]
pub enum Distribution {
    /// All values, while more may come.
    Open(Box<Sketch>),
    /// Their quantiles, once the minute is closed; `None` if there were no values.
    Closed(Option<Band>),
}

/// The quantiles of a closed minute, within [`Sketch::RELATIVE_ERROR`]. Small, because every lane has 60 of them for
/// each of two metrics.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Band {
    /// How many values there were.
    pub count: u32,
    /// The 10th percentile.
    pub low: f32,
    /// The 50th percentile.
    pub median: f32,
    /// The 90th percentile.
    pub high: f32,
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution::Open(Box::default())
    }
}

impl Distribution {
    /// Adds a value; one that comes after closing is dropped.
    pub(crate) fn record(&mut self, value: u64) {
        if let Distribution::Open(sketch) = self {
            sketch.record(value);
        }
    }

    /// The quantiles; `None` if there was no value.
    pub fn band(&self) -> Option<Band> {
        match self {
            Distribution::Open(sketch) => {
                let quantile = |share| sketch.quantile(share).map(|value| value as f32);
                let count = u32::try_from(sketch.count()).unwrap_or(u32::MAX);
                Some(Band { count, low: quantile(0.1)?, median: quantile(0.5)?, high: quantile(0.9)? })
            }
            Distribution::Closed(band) => *band,
        }
    }

    /// All values; `None` once only their quantiles are left.
    pub fn sketch(&self) -> Option<&Sketch> {
        match self {
            Distribution::Open(sketch) => Some(sketch),
            Distribution::Closed(_) => None,
        }
    }

    /// Reduces the sketch to its quantiles.
    pub(crate) fn close(&mut self) {
        *self = Distribution::Closed(self.band());
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Distribution::Open(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_keeps_the_quantiles_and_drops_later_values() {
        let mut spread = Distribution::default();
        assert_eq!(spread.band(), None);
        (1..=1_000).for_each(|value| spread.record(value * 1_000));
        let open = spread.band().expect("there are values");
        assert_eq!(open.count, 1_000);
        for (was_new, exact) in [(open.low, 100_000.0), (open.median, 500_000.0), (open.high, 900_000.0)] {
            assert!((f64::from(was_new) / exact - 1.0).abs() <= Sketch::RELATIVE_ERROR, "{was_new} of {exact}");
        }
        spread.close();
        assert_eq!(spread.band(), Some(open));
        spread.record(1);
        assert_eq!((spread.band(), spread.is_open()), (Some(open), false));
    }

    #[test]
    fn a_distribution_without_values_stays_empty() {
        let mut spread = Distribution::default();
        spread.close();
        spread.record(7);
        assert_eq!(spread.band(), None);
    }
}
