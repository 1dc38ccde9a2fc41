//! Whether a stream changed its form: how many tokens a chunk has, and how uneven its gaps are. A new batching, speculation or proxy
//! shows there first, whether or not the speed changes.
//!
//! Forms are steady where levels are not, so that a plain rule does: the latest values lie all beyond those before them, but for two odd
//! ones, and their middle is far from the middle before. Those before are of two days at least, so that every hour is among them.
//! Invariant: a change is reported once; values after it are what is usual from then on.

use crate::series::DAY_MS;
use std::collections::VecDeque;

/// Values before, and latest values, that are compared; of those before, so many may be odd at either end.
const BEFORE: usize = 48;
const LATEST: usize = 6;
const ODD: usize = 2;
/// Chance of that: of the (54 over 6) orders, 1 + 6 + 21 have no more than two of those before above all of the latest; either way.
const P: f64 = 2.0 * 28.0 / 25_827_165.0;
/// Least time that those before span.
const MIN_SPAN_MS: i64 = 2 * DAY_MS - DAY_MS / 8;
/// Ratio of the middles from which on a form has changed.
const LEAST_RATIO: f64 = 1.25;

/// A change of the form.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StreamChange {
    /// The first value after it (ms since 1970).
    pub since: i64,
    /// Middle after over middle before, less 1.
    pub change: f64,
    /// Least and most of that, by single values against the middle before.
    pub range: (f64, f64),
    /// How likely so much is by chance, at one look.
    pub p: f64,
    /// Values since.
    pub n: usize,
}

/// Follows one number of a stream's form.
#[derive(Clone, Debug, Default)]
pub struct StreamWatch {
    /// When, and the value.
    values: VecDeque<(i64, f64)>,
}

impl StreamWatch {
    /// Adds a value, in the order of times; one that is not above 0 is none.
    pub fn push(&mut self, at: i64, value: f64) -> Option<StreamChange> {
        if !(value.is_finite() && value > 0.0) {
            return None;
        }
        self.values.push_back((at, value));
        if self.values.len() > BEFORE + LATEST {
            self.values.pop_front();
        }
        if self.values.len() < BEFORE + LATEST {
            return None;
        }
        if self.values[BEFORE].0 - self.values[0].0 < MIN_SPAN_MS {
            return None;
        }
        let before = sorted(self.values.range(..BEFORE));
        let latest = sorted(self.values.range(BEFORE..));
        let (low, high) = (latest[0], latest[LATEST - 1]);
        let is_apart = low > before[BEFORE - 1 - ODD] || high < before[ODD];
        let middle = |values: &[f64]| f64::midpoint(values[values.len() / 2 - 1], values[values.len() / 2]);
        let (usual, now) = (middle(&before), middle(&latest));
        let ratio = now / usual;
        if !is_apart || ratio.max(1.0 / ratio) < LEAST_RATIO {
            return None;
        }
        let since = self.values[BEFORE].0;
        self.values.drain(..BEFORE);
        let range = (low / usual - 1.0, high / usual - 1.0);
        Some(StreamChange { since, change: ratio - 1.0, range, p: P, n: LATEST })
    }
}

fn sorted<'v>(values: impl Iterator<Item = &'v (i64, f64)>) -> Vec<f64> {
    let mut values: Vec<f64> = values.map(|(_, value)| *value).collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Rng;

    const SLOT_MS: i64 = DAY_MS / 8;

    #[test]
    fn chunks_that_grow_are_one_change() {
        let (mut watch, mut rng) = (StreamWatch::default(), Rng::root(3));
        let changes: Vec<StreamChange> = (0..200)
            .filter_map(|slot| {
                let odd = if rng.chance(0.02) { 0.1 } else { 1.0 };
                watch.push(slot * SLOT_MS, if slot < 100 { 1.0 } else { 4.0 } * (1.0 + 0.05 * rng.unit()) * odd)
            })
            .collect();
        let [change] = changes[..] else { panic!("{changes:?}") };
        assert!((100..108).contains(&(change.since / SLOT_MS)) && change.n == 6, "{change:?}");
        assert!((2.7..3.3).contains(&change.change) && change.range.0 <= change.change, "{change:?}");
    }

    #[test]
    fn noise_single_values_and_little_changes_are_none() {
        let mut alarms = 0;
        for seed in 0..50 {
            let (mut watch, mut rng) = (StreamWatch::default(), Rng::root(seed));
            for at in 0..480 {
                let odd = if rng.chance(0.03) { 5.0 } else { 1.0 };
                alarms += usize::from(watch.push(at * SLOT_MS, 3.0 * (0.15 * rng.normal()).exp() * odd).is_some());
            }
        }
        assert!(alarms == 0, "{alarms} in 50 series of two months");
        let mut watch = StreamWatch::default();
        let tenth = |slot: i64| if slot < 100 { 1.0 } else { 1.1 };
        let shifts = (0..200).filter(|slot| watch.push(*slot * SLOT_MS, tenth(*slot)).is_some()).count();
        assert_eq!(shifts, 0, "a tenth more is no other form");
        let mut daily = StreamWatch::default();
        let evening = |slot: i64| if slot % 24 >= 18 { 2.0 } else { 1.0 };
        let alarms = (0..24 * 30).filter(|slot| daily.push(slot * DAY_MS / 24, evening(*slot)).is_some()).count();
        assert_eq!(alarms, 0, "every evening is no change");
        assert_eq!(watch.push(201 * SLOT_MS, 0.0), None);
        assert_eq!(watch.push(202 * SLOT_MS, f64::NAN), None);
    }
}
