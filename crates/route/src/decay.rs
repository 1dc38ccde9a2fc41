//! Exponentially decaying means and histograms.
//!
//! Invariant: a sample of one half-life ago weighs half; weights are finite and never negative.

use tokrate_core::{Span, Tick};

/// The factor by which a weight decays in a time.
pub(crate) fn decay_factor(elapsed: Span, half_life: Span) -> f64 {
    if elapsed.is_zero() {
        return 1.0;
    }
    (-(elapsed.as_nanos() as f64) / (half_life.as_nanos().max(1) as f64)).exp2()
}

/// An exponentially weighted mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecayingMean {
    weight: f64,
    sum: f64,
    at: Tick,
}

impl DecayingMean {
    pub fn add(&mut self, now: Tick, value: f64, weight: f64, half_life: Span) {
        self.decay(now, half_life);
        self.weight += weight;
        self.sum += weight * value;
    }

    /// The mean, shrunk towards `other` with this much weight.
    pub fn shrunk_towards(&self, other: f64, now: Tick, half_life: Span, weight: f64) -> f64 {
        let left = decay_factor(now.since(self.at), half_life);
        (self.sum * left + weight * other) / (self.weight * left + weight).max(f64::MIN_POSITIVE)
    }

    fn decay(&mut self, now: Tick, half_life: Span) {
        let left = decay_factor(now.since(self.at), half_life);
        self.weight *= left;
        self.sum *= left;
        self.at = self.at.max(now);
    }
}

/// Buckets per octave: each is 9 % wide.
const BINS_PER_OCTAVE: f64 = 8.0;
const BUCKETS: usize = 168;

/// A histogram of positive numbers with decaying weights: 21 octaves of 8 buckets. No `Buckets`: those count whole values above
/// zero, these weigh ratios below 1 by real numbers.
#[derive(Clone, Debug)]
pub(crate) struct DecayingHistogram {
    /// The first bucket begins at two to this power.
    lowest_octave: i32,
    half_life: Span,
    weights: Box<[f64; BUCKETS]>,
    total: f64,
    /// The sum of weights times values.
    sum: f64,
    /// A sample at this tick weighs 1; later ones weigh more, instead of all earlier ones less.
    reference: Tick,
    /// Median and 90th percentile, computed a few samples ago.
    median_and_p90: Option<(f64, f64)>,
    /// Samples until they are computed again.
    refresh_in: u32,
}

/// The cached quantiles are computed again after this many samples, so that not every sample pays for a scan of all
/// buckets.
const QUANTILE_REFRESH_SAMPLES: u32 = 8;

impl DecayingHistogram {
    pub fn new(lowest_octave: i32, half_life: Span) -> DecayingHistogram {
        DecayingHistogram {
            lowest_octave,
            half_life,
            weights: Box::new([0.0; BUCKETS]),
            total: 0.0,
            sum: 0.0,
            reference: Tick::ZERO,
            median_and_p90: None,
            refresh_in: 0,
        }
    }

    pub fn add(&mut self, now: Tick, value: f64, weight: f64) {
        let weight = weight * self.relative_weight(now);
        let bucket = self.bucket(value);
        self.weights[bucket] += weight;
        self.total += weight;
        self.sum += weight * value;
        self.refresh_quantiles();
    }

    /// A censored sample, known only to be at least `value`: its weight is distributed over the larger samples (Efron,
    /// "The two sample problem with censored data", 1967).
    pub fn add_censored(&mut self, now: Tick, value: f64, weight: f64) {
        let first = self.bucket(value);
        let relative_weight = self.relative_weight(now);
        let beyond: f64 = self.weights[first + 1..].iter().sum();
        self.total += weight * relative_weight;
        if beyond <= 0.0 {
            self.weights[first] += weight * relative_weight;
            self.sum += weight * relative_weight * value;
            self.refresh_quantiles();
            return;
        }
        let added = weight * relative_weight / beyond;
        for (index, mass) in self.weights.iter_mut().enumerate().skip(first + 1).filter(|(_, mass)| **mass > 0.0) {
            self.sum += *mass * added * centre(index, self.lowest_octave);
            *mass += *mass * added;
        }
        self.refresh_quantiles();
    }

    /// Median and 90th percentile, at most a few samples old; `None` when it is empty.
    pub fn median_and_p90(&self) -> Option<(f64, f64)> {
        self.median_and_p90
    }

    fn refresh_quantiles(&mut self) {
        if self.refresh_in == 0 {
            self.median_and_p90 = self.quantiles(0.5, 0.9);
            // Each of the first few matters.
            self.refresh_in =
                if self.total < 4.0 * f64::from(QUANTILE_REFRESH_SAMPLES) { 1 } else { QUANTILE_REFRESH_SAMPLES };
        }
        self.refresh_in -= 1;
    }

    /// Total weight now, in samples.
    pub fn weight(&self, now: Tick) -> f64 {
        self.total * decay_factor(now.since(self.reference), self.half_life)
    }

    /// Two quantiles, the lower one first, each interpolated within its bucket; `None` when it is empty.
    pub fn quantiles(&self, low: f64, high: f64) -> Option<(f64, f64)> {
        if self.total <= 0.0 {
            return None;
        }
        let (mut below, mut found) = (0.0, None);
        let mut last = 0;
        for (index, mass) in self.weights.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
            let value_at = |share: f64| {
                let within = ((share * self.total - below) / mass).clamp(0.0, 1.0);
                (f64::from(self.lowest_octave) + (index as f64 + within) / BINS_PER_OCTAVE).exp2()
            };
            if found.is_none() && below + mass >= low * self.total {
                found = Some(value_at(low));
            }
            if below + mass >= high * self.total {
                return Some((found.unwrap_or_else(|| value_at(low)), value_at(high)));
            }
            below += mass;
            last = index;
        }
        // The sum of the buckets may be slightly below the total.
        let top = (f64::from(self.lowest_octave) + (last + 1) as f64 / BINS_PER_OCTAVE).exp2();
        Some((found.unwrap_or(top), top))
    }

    /// The mean; `None` when it is empty.
    pub fn mean(&self) -> Option<f64> {
        (self.total > 0.0).then(|| self.sum / self.total)
    }

    fn bucket(&self, value: f64) -> usize {
        let index = (value.max(f64::MIN_POSITIVE).log2() - f64::from(self.lowest_octave)) * BINS_PER_OCTAVE;
        // A cast saturates: smaller values go to the first bucket.
        (index as usize).min(BUCKETS - 1)
    }

    /// Weight of a sample at `now`, relative to the reference.
    fn relative_weight(&mut self, now: Tick) -> f64 {
        let half_lives = now.since(self.reference).as_nanos() as f64 / self.half_life.as_nanos().max(1) as f64;
        if half_lives > 30.0 {
            let left = (-half_lives).exp2();
            self.weights.iter_mut().for_each(|mass| *mass *= left);
            self.total *= left;
            self.sum *= left;
            self.reference = now;
            return 1.0;
        }
        half_lives.exp2()
    }
}

/// The geometric centre of a bucket.
fn centre(index: usize, lowest_octave: i32) -> f64 {
    (f64::from(lowest_octave) + (index as f64 + 0.5) / BINS_PER_OCTAVE).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Span = Span::from_secs(60);

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_half_life_halves() {
        assert_eq!(decay_factor(MINUTE, MINUTE), 0.5);
        assert_eq!(decay_factor(Span::ZERO, MINUTE), 1.0);
        let mut mean = DecayingMean::default();
        mean.add(at(0), 10.0, 1.0, MINUTE);
        mean.add(at(60), 40.0, 1.0, MINUTE);
        assert!((mean.shrunk_towards(0.0, at(60), MINUTE, 0.0) - 30.0).abs() < 1e-9);
        assert!(
            (mean.shrunk_towards(0.0, at(60), MINUTE, 1.5) - 15.0).abs() < 1e-9,
            "shrunk by as much weight of zeros"
        );
    }

    #[test]
    fn quantiles_are_within_a_bucket_of_the_truth_and_follow_the_latest_samples() {
        let mut histogram = DecayingHistogram::new(0, MINUTE);
        (1..=1_000).for_each(|value| histogram.add(at(0), f64::from(value), 1.0));
        let (median, p90) = histogram.quantiles(0.5, 0.9).expect("full");
        assert!((median / 500.0 - 1.0).abs() < 0.03 && (p90 / 900.0 - 1.0).abs() < 0.03, "{median} {p90}");
        assert!((histogram.mean().expect("full") / 500.0 - 1.0).abs() < 0.03);
        // Ten half-lives later a tenth as many samples outweigh them.
        (1..=100).for_each(|_| histogram.add(at(600), 4_000.0, 1.0));
        assert!(histogram.quantiles(0.1, 0.9).expect("full").0 > 3_600.0);
        assert!((histogram.weight(at(600)) - 101.0).abs() < 0.1, "{}", histogram.weight(at(600)));
        assert!((histogram.weight(at(660)) - 50.5).abs() < 0.1);
        // So much later, the weights are rescaled.
        histogram.add(at(6_000), 8.0, 1.0);
        assert!((histogram.weight(at(6_000)) - 1.0).abs() < 1e-3);
        assert!(DecayingHistogram::new(0, MINUTE).quantiles(0.5, 0.9).is_none());
    }

    #[test]
    fn censored_samples_reproduce_the_uncensored_tail() {
        let mut cut = DecayingHistogram::new(0, MINUTE);
        let mut whole = DecayingHistogram::new(0, MINUTE);
        for value in (1..=1_000).map(|step| step * 617 % 1_001) {
            whole.add(at(0), f64::from(value), 1.0);
            // Every other one is given up at 500.
            if value > 500 && value % 2 == 0 {
                cut.add_censored(at(0), 500.0, 1.0);
            } else {
                cut.add(at(0), f64::from(value), 1.0);
            }
        }
        let (cut, whole) = (cut.quantiles(0.5, 0.9).expect("full"), whole.quantiles(0.5, 0.9).expect("full"));
        assert!((cut.1 / whole.1 - 1.0).abs() < 0.05, "{cut:?} {whole:?}");
    }

    /// Two to this power.
    fn two_to(power: f64) -> f64 {
        power.exp2()
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 1e-12
    }

    #[test]
    fn a_bucket_is_an_eighth_of_an_octave_above_the_lowest() {
        let mut histogram = DecayingHistogram::new(3, MINUTE);
        histogram.add(at(0), 16.0, 1.0);
        // The ninth bucket of those from 8 on goes from 2^4 to 2^4.125; of one sample each share lies as far within it.
        let (median, p90) = histogram.quantiles(0.5, 0.9).expect("one sample");
        assert!(is_near(median, two_to(4.0 + 0.5 / 8.0)) && is_near(p90, two_to(4.0 + 0.9 / 8.0)), "{median} {p90}");
        assert_eq!(histogram.mean(), Some(16.0), "the mean is of the values themselves");
        histogram.add(at(0), 1.0, 1.0);
        assert!(
            histogram.quantiles(0.1, 0.4).expect("two").1 < two_to(3.125),
            "what is below the first is in the first"
        );
    }

    #[test]
    fn values_beyond_the_last_bucket_go_to_the_last() {
        let mut histogram = DecayingHistogram::new(0, MINUTE);
        histogram.add(at(0), 1e9, 1.0);
        let (_, top) = histogram.quantiles(0.5, 1.0).expect("one sample");
        assert!(is_near(top, two_to(21.0)), "{top}");
    }

    #[test]
    fn a_censored_sample_beyond_all_others_counts_at_its_own_value() {
        let mut histogram = DecayingHistogram::new(0, MINUTE);
        histogram.add(at(0), 10.0, 1.0);
        // A half-life later a sample counts twice what one of the beginning does: 3 x 2 of 20 beside 1 of 10.
        histogram.add_censored(at(60), 20.0, 3.0);
        assert!(is_near(histogram.mean().expect("two"), 130.0 / 7.0), "{:?}", histogram.mean());
        assert!(is_near(histogram.weight(at(60)), 3.5));
        let (median, _) = histogram.quantiles(0.5, 0.9).expect("two");
        let bucket = (20f64.log2() * 8.0).floor();
        assert!(is_near(median, two_to((bucket + 2.5 / 6.0) / 8.0)), "1 at 10 and 6 at 20: {median}");
    }

    #[test]
    fn a_censored_sample_is_distributed_over_the_larger_ones_by_weight() {
        let mut histogram = DecayingHistogram::new(0, MINUTE);
        // Of its own bucket, so not beyond it.
        histogram.add(at(0), 2.0, 5.0);
        histogram.add(at(0), 8.0, 1.0);
        histogram.add(at(0), 64.0, 3.0);
        histogram.add_censored(at(60), 2.0, 6.0);
        // 6 x 2 are spread over 1 + 3: each of these gets three times as much again, at the middle of its bucket.
        let sum = 10.0 + 8.0 + 192.0 + 3.0 * two_to(3.0 + 0.5 / 8.0) + 9.0 * two_to(6.0 + 0.5 / 8.0);
        assert!(is_near(histogram.mean().expect("four"), sum / 21.0), "{:?}", histogram.mean());
        // 5 at 2, 4 at 8, 12 at 64: a third of 21 lies in the middle of those at 8.
        let (third, _) = histogram.quantiles(1.0 / 3.0, 0.9).expect("four");
        assert!(is_near(third, two_to(3.0 + 0.5 / 8.0)), "{third}");
    }

    #[test]
    fn rescaling_changes_no_result() {
        let mut histogram = DecayingHistogram::new(0, MINUTE);
        histogram.add(at(0), 100.0, two_to(31.0));
        histogram.add(at(31 * 60), 10.0, 3.0);
        // Of the first one is left: 1 of 100 and 3 of 10.
        assert!(is_near(histogram.mean().expect("two"), 130.0 / 4.0), "{:?}", histogram.mean());
        let (low, high) = histogram.quantiles(0.5, 0.9).expect("two");
        let tenth = |value: f64| (value.log2() * 8.0).floor() / 8.0;
        assert!(is_near(low, two_to(tenth(10.0) + 2.0 / 3.0 / 8.0)), "{low}");
        assert!(is_near(high, two_to(tenth(100.0) + 0.6 / 8.0)), "{high}");
        histogram.add(at(2_000 * 60), 7.0, 1.0);
        assert_eq!(histogram.mean(), Some(7.0), "however long nothing came");
    }

    #[test]
    fn each_of_the_first_samples_updates_the_cached_quantiles() {
        let mut histogram = DecayingHistogram::new(0, MINUTE);
        for sample in 1..=31 {
            histogram.add(at(0), f64::from(sample * sample), 1.0);
            assert_eq!(histogram.median_and_p90(), histogram.quantiles(0.5, 0.9), "after {sample}");
        }
        (0..QUANTILE_REFRESH_SAMPLES + 1).for_each(|_| histogram.add(at(0), 5_000.0, 4.0));
        assert!(histogram.median_and_p90().expect("full").1 > 4_500.0, "and later they are a few samples old at most");
    }
}
