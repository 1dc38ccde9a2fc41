//! Samples of which only bounds are known (censored): a quantile is stated where they cannot move it out of its interval.
//!
//! Invariant: the interval of a stated quantile holds whatever the censored samples are within their bounds.

use super::{Level, Quantile, QuantileStatus, SketchParts};
use serde::{Deserialize, Serialize};

/// Largest relative difference by which censored samples may move a value that only describes a small sample.
const MAX_DESCRIPTIVE_SHIFT: f64 = 0.02;

/// The censored samples of a distribution.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Censored {
    /// The upper bounds that are known, as a histogram.
    pub at_most: SketchParts,
    /// The lower bounds that are known, as a histogram; of the others it is 0.
    #[serde(default)]
    pub at_least: SketchParts,
    /// How many have no upper bound.
    pub unbounded: u64,
}

impl Censored {
    /// How many there are.
    pub fn n(&self) -> u64 {
        self.at_most.0.count() + self.unbounded
    }
}

/// All samples behind a quantile; both lists rise and are finite.
#[derive(Clone, Copy, Debug)]
pub struct CensoredSamples<'a> {
    /// The exact ones.
    pub exact: &'a [f64],
    /// Upper bounds of others, which are not negative.
    pub at_most: &'a [f64],
    /// Lower bounds of others, above 0; of those without one it is 0.
    pub at_least: &'a [f64],
    /// How many more have no bound.
    pub unbounded: u64,
    /// Samples at +infinity.
    pub infinite: u64,
}

impl Quantile {
    /// The quantile of samples some of which are censored. It is taken once with those at their lower and once at their upper bounds: where
    /// each value lies within the interval of the other, the larger one is stated, in an interval that covers both; otherwise
    /// the status is [`QuantileStatus::Undetermined`].
    pub fn of_censored(samples: CensoredSamples<'_>, level: Level) -> Quantile {
        let CensoredSamples { exact, at_most, at_least, unbounded, infinite } = samples;
        let censored = at_most.len() as u64 + unbounded;
        let sorted = |parts: [&[f64]; 2]| {
            let mut values = parts.concat();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let (least, bounds) = (sorted([exact, at_least]), sorted([exact, at_most]));
        let zeros = censored.saturating_sub(at_least.len() as u64);
        let fast = Quantile::of_ranks(zeros + least.len() as u64, infinite, level, |rank| {
            rank.checked_sub(zeros + 1).map_or(0.0, |place| least[place as usize])
        });
        let slow = Quantile::of_sorted(&bounds, infinite + unbounded, level);
        if censored == 0 { fast } else { between(fast, slow) }
    }
}

/// The quantile that is between two: with the censored samples as small and as large as they can be.
fn between(fast: Quantile, slow: Quantile) -> Quantile {
    let undetermined = Quantile {
        value: None,
        descriptive: None,
        low: None,
        high: None,
        status: QuantileStatus::Undetermined,
        infinite: false,
        high_infinite: false,
        ..fast.clone()
    };
    match fast.status {
        QuantileStatus::NotEnoughSamples => {
            let alike = |(fast, slow): &(f64, f64)| slow - fast <= MAX_DESCRIPTIVE_SHIFT * slow;
            match fast.descriptive.zip(slow.descriptive).filter(alike) {
                Some((_, descriptive)) => Quantile { descriptive: Some(descriptive), ..fast },
                None if fast.infinite => fast,
                None => undetermined,
            }
        }
        QuantileStatus::Stated if fast.infinite => fast,
        QuantileStatus::Stated => {
            // An interval that begins among the censored has no end there.
            let low = fast.low.filter(|low| *low > 0.0);
            let (Some(low), Some((first, value))) = (low, fast.value.zip(slow.value)) else { return undetermined };
            let is_within = fast.high.is_none_or(|high| value <= high) && slow.low.is_none_or(|low| first >= low);
            if is_within { Quantile { low: Some(low), ..slow } } else { undetermined }
        }
        QuantileStatus::NoSamples | QuantileStatus::Undetermined | QuantileStatus::Computed => fast,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn median(exact: &[f64], at_most: &[f64], unbounded: u64) -> Quantile {
        Quantile::of_censored(CensoredSamples { exact, at_most, at_least: &[], unbounded, infinite: 0 }, Level::P50)
    }

    #[test]
    fn the_median_is_exact_where_all_censored_samples_are_smaller() {
        let exact: Vec<f64> = (2..=40).map(f64::from).collect();
        let all: Vec<f64> = (1..=40).map(f64::from).collect();
        assert_eq!(median(&exact, &[1.5], 0), Quantile::of_sorted(&all, 0, Level::P50));
    }

    #[test]
    fn one_that_may_be_anywhere_widens_the_interval_by_a_rank() {
        let exact: Vec<f64> = (1..=39).map(f64::from).collect();
        let seen = median(&exact, &[], 1);
        // Of 40 samples the 20th is the median, and its interval reaches from the 14th to the 27th.
        assert_eq!((seen.value, seen.low, seen.high), (Some(20.0), Some(13.0), Some(27.0)));
    }

    #[test]
    fn censored_samples_that_have_a_lower_bound_leave_the_median_an_interval() {
        // 11 of 15 are known, around 10; of the other four it is known that they lie between 8 and 12.
        let exact: Vec<f64> = (0..11).map(|place| 10.0 + 0.01 * f64::from(place)).collect();
        let with = |at_least: &[f64]| {
            let samples = CensoredSamples { exact: &exact, at_most: &[12.0; 4], at_least, unbounded: 0, infinite: 0 };
            Quantile::of_censored(samples, Level::P50)
        };
        assert_eq!(with(&[]).status, QuantileStatus::Undetermined);
        let seen = with(&[8.0; 4]);
        assert_eq!((seen.status, seen.value, seen.low), (QuantileStatus::Stated, Some(10.07), Some(8.0)));
    }

    #[test]
    fn a_quantile_that_they_could_move_out_of_its_interval_is_not_stated() {
        let exact: Vec<f64> = (1..=20).map(f64::from).collect();
        for (at_most, unbounded) in [(vec![30.0; 20], 0), (vec![], 20), (vec![0.5; 25], 0)] {
            let seen = median(&exact, &at_most, unbounded);
            assert_eq!((seen.status, seen.value, seen.low), (QuantileStatus::Undetermined, None, None));
        }
        let none = median(&[], &[], 0);
        assert_eq!(none.status, QuantileStatus::NoSamples);
    }

    #[test]
    fn a_small_sample_is_described_where_they_do_not_matter() {
        let p95 = |at_most: &[f64], unbounded| {
            let exact: Vec<f64> = (1..=39).map(f64::from).collect();
            Quantile::of_censored(
                CensoredSamples { exact: &exact, at_most, at_least: &[], unbounded, infinite: 0 },
                Level::P95,
            )
        };
        let small = p95(&[1.0], 0);
        assert_eq!((small.status, small.descriptive), (QuantileStatus::NotEnoughSamples, Some(37.0)));
        assert_eq!(p95(&[], 1).status, QuantileStatus::Undetermined, "38 or 37 is more than 2 %");
    }

    #[test]
    fn among_failures_it_is_infinite_whatever_the_others_are() {
        let samples =
            CensoredSamples { exact: &[1.0, 2.0], at_most: &[1.0], at_least: &[], unbounded: 0, infinite: 90 };
        assert!(Quantile::of_censored(samples, Level::P50).infinite);
    }

    proptest! {
        #[test]
        fn whatever_the_censored_samples_are_the_quantile_lies_in_the_interval(
            exact in prop::collection::vec(0.001..10.0_f64, 0..60),
            censored in prop::collection::vec((0.001..10.0_f64, 0.0..1.0_f64), 0..60),
        ) {
            let sorted = |mut values: Vec<f64>| { values.sort_unstable_by(f64::total_cmp); values };
            let exact = sorted(exact);
            let at_most = sorted(censored.iter().map(|(bound, _)| *bound).collect());
            let truth = sorted(exact.iter().copied().chain(censored.iter().map(|(bound, share)| bound * share)).collect());
            for level in [Level::P50, Level::P90] {
                let seen = Quantile::of_censored(CensoredSamples { exact: &exact, at_most: &at_most, at_least: &[], unbounded: 0, infinite: 0 }, level);
                let whole = Quantile::of_sorted(&truth, 0, level);
                if let (Some(low), Some(high)) = (seen.low, seen.high) {
                    prop_assert!(low <= whole.low.unwrap_or(0.0) && whole.high.unwrap_or(f64::MAX) <= high);
                    prop_assert!(whole.value.is_some_and(|value| low <= value && value <= high));
                }
            }
        }
    }
}
