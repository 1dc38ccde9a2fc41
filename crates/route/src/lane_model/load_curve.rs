//! A quantity as a function of the calls in flight: a scaling law fitted to all samples, corrected by the samples near the
//! load in question.
//!
//! Invariant: it does not fall with load beyond what was observed, and is `None` until there is a sample.
//!
//! The law is the Universal Scalability Law for time per token, `c0 + c1 (n - 1) + c2 n (n - 1)` with non-negative
//! coefficients. It is linear in them, so decaying sums and a small linear system are enough.

use crate::decay::decay_factor;
use tokrate_core::{Span, Tick};

/// Contention assumed without data: each further call slows all of them down by this share.
const ASSUMED_CONTENTION: f64 = 0.02;
/// Prior weight (in samples) for that contention, placed at a load of [`PRIOR_LOAD`].
const PRIOR_WEIGHT: f64 = 0.5;
const PRIOR_LOAD: f64 = 8.0;
/// Bins per octave of load, and their number: up to about 2,000 calls in flight.
const BINS_PER_OCTAVE: f64 = 4.0;
const BINS: usize = 45;
/// Samples count for loads up to half an octave away.
const SMOOTHING_BINS: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct LoadCurve {
    half_life: Span,
    /// Weight of the law, in samples, against samples near a load.
    law_weight: f64,
    /// A sample at this tick weighs 1; later ones weigh more instead of the earlier ones less, so that a lookup needs
    /// no powers.
    reference: Tick,
    /// Weight of the latest sample.
    scale: f64,
    /// Normal equations of the law: sums of products of its terms, upper triangle by rows.
    products: [f64; 6],
    /// Right-hand side of the normal equations: sums of terms times values.
    right: [f64; 3],
    weight: f64,
    law: [f64; 3],
    /// The highest load observed.
    max_load: f64,
    bins: [Bin; BINS],
}

/// Samples of one range of loads.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    weight: f64,
    load: f64,
    /// Binary logarithm of `load`.
    log2_load: f64,
    value: f64,
    /// Deviation from the law, relative to its value.
    residual: f64,
}

/// Weights are rescaled after this many half-lives, long before they overflow.
const MAX_HALF_LIVES: f64 = 40.0;

impl LoadCurve {
    pub fn new(half_life: Span, law_weight: f64) -> LoadCurve {
        LoadCurve {
            half_life,
            law_weight,
            reference: Tick::ZERO,
            scale: 1.0,
            products: [0.0; 6],
            right: [0.0; 3],
            weight: 0.0,
            law: [0.0; 3],
            max_load: 1.0,
            bins: [Bin::default(); BINS],
        }
    }

    pub fn add(&mut self, now: Tick, load: f64, value: f64, weight: f64) {
        let load = load.max(1.0);
        self.max_load = self.max_load.max(load);
        self.rescale(now);
        let weight = weight * self.scale;
        let [one, first, second] = terms(load);
        let products = [one * one, one * first, one * second, first * first, first * second, second * second];
        self.products.iter_mut().zip(products).for_each(|(sum, product)| *sum += weight * product);
        self.right.iter_mut().zip([one, first, second]).for_each(|(sum, term)| *sum += weight * term * value);
        self.weight += weight;
        let bin = &mut self.bins[bin_of(load.log2())];
        let held = bin.weight;
        bin.weight += weight;
        bin.load = (bin.load * held + load * weight) / bin.weight;
        bin.value = (bin.value * held + value * weight) / bin.weight;
        bin.log2_load = bin.load.log2();
        self.law = self.solve();
        // Here and not at lookup, which is far more frequent.
        for place in 0..BINS {
            let Bin { weight, load, value, .. } = self.bins[place];
            if weight > 0.0 {
                self.bins[place].residual = value / self.law_at(load) - 1.0;
            }
        }
    }

    /// Total weight now, in samples.
    pub fn weight(&self, now: Tick) -> f64 {
        self.weight * decay_factor(now.since(self.reference), self.half_life)
    }

    /// The value at a load.
    pub fn value(&self, load: f64) -> Option<f64> {
        let load = load.max(1.0);
        self.value_at(load, load.log2())
    }

    /// The value at a load of at least 1 whose binary logarithm is known.
    pub fn value_at(&self, load: f64, log2_load: f64) -> Option<f64> {
        if self.weight <= 0.0 {
            return None;
        }
        let centre = bin_of(log2_load);
        let (mut weights, mut residual) = (self.law_weight * self.scale, 0.0);
        for bin in &self.bins[centre.saturating_sub(SMOOTHING_BINS)..(centre + SMOOTHING_BINS + 1).min(BINS)] {
            let near = 1.0 - (log2_load - bin.log2_load).abs() * (BINS_PER_OCTAVE / SMOOTHING_BINS as f64);
            if bin.weight > 0.0 && near > 0.0 {
                // Relative to the law, so that residuals at different loads are comparable.
                weights += near * bin.weight;
                residual += near * bin.weight * bin.residual;
            }
        }
        Some(self.law_at(load) * (1.0 + residual / weights))
    }

    /// Updates the weight of a sample at `now`.
    fn rescale(&mut self, now: Tick) {
        let half_lives = now.since(self.reference).as_nanos() as f64 / self.half_life.as_nanos().max(1) as f64;
        if half_lives <= MAX_HALF_LIVES {
            self.scale = self.scale.max(half_lives.exp2());
            return;
        }
        let left = (-half_lives).exp2();
        self.products.iter_mut().chain(&mut self.right).for_each(|sum| *sum *= left);
        self.bins.iter_mut().for_each(|bin| bin.weight *= left);
        self.weight *= left;
        (self.reference, self.scale) = (now, 1.0);
    }

    /// How much the law rises with a further call at a load.
    pub fn law_slope(&self, load: f64) -> f64 {
        let (low, high) = (load.max(1.0) * 0.95, load.max(1.0) * 1.05);
        (self.law_at(high) - self.law_at(low)) / (high - low)
    }

    fn law_at(&self, load: f64) -> f64 {
        // Far beyond the observed loads, throughput is assumed to stay constant.
        let within = load.min(2.0 * self.max_load);
        let law: f64 = self.law.iter().zip(terms(within)).map(|(factor, term)| factor * term).sum();
        law.max(1e-9) * (load / within)
    }

    /// Least-squares coefficients of the law, of as many terms as give no negative one.
    fn solve(&self) -> [f64; 3] {
        let [p00, p01, p02, p11, p12, p22] = self.products;
        let prior = |term: f64| PRIOR_WEIGHT * self.scale * term * term;
        let [_, first, second] = terms(PRIOR_LOAD);
        let (p11, p22) = (p11 + prior(first), p22 + prior(second));
        let [r0, r1, r2] = self.right;
        // All three.
        let (a, b, c) = (p11 * p22 - p12 * p12, p02 * p12 - p01 * p22, p01 * p12 - p02 * p11);
        let determinant = p00 * a + p01 * b + p02 * c;
        let c0 = (a * r0 + b * r1 + c * r2) / determinant;
        let c1 = (b * r0 + (p00 * p22 - p02 * p02) * r1 + (p01 * p02 - p00 * p12) * r2) / determinant;
        let c2 = (c * r0 + (p01 * p02 - p00 * p12) * r1 + (p00 * p11 - p01 * p01) * r2) / determinant;
        let fits = |c0: f64, c1: f64, c2: f64| c0 > 0.0 && c2 >= 0.0 && c1 + ASSUMED_CONTENTION * c0 >= 0.0;
        if fits(c0, c1, c2) {
            return [c0, c1, c2];
        }
        // Without the quadratic term, or without the linear one.
        for (p0, pp, r, square) in [(p01, p11, r1, false), (p02, p22, r2, true)] {
            let determinant = p00 * pp - p0 * p0;
            let c0 = (pp * r0 - p0 * r) / determinant;
            let other = (p00 * r - p0 * r0) / determinant;
            let (c1, c2) = if square { (0.0, other) } else { (other, 0.0) };
            if fits(c0, c1, c2) {
                return [c0, c1, c2];
            }
        }
        // A value that seems to fall with load is taken as constant.
        let weight: f64 = self.bins.iter().map(|bin| bin.weight).sum();
        let sum: f64 = self.bins.iter().map(|bin| bin.weight * bin.value).sum();
        let mean = sum / weight;
        [mean, -ASSUMED_CONTENTION * mean, 0.0]
    }
}

/// Terms of the law. The first includes the assumed contention, so that the second measures the deviation from it.
fn terms(load: f64) -> [f64; 3] {
    [1.0 + ASSUMED_CONTENTION * (load - 1.0), load - 1.0, load * (load - 1.0)]
}

/// The bin of a load, by its logarithm.
fn bin_of(log2_load: f64) -> usize {
    ((log2_load * BINS_PER_OCTAVE + 0.5) as usize).min(BINS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Span = Span::from_secs(60);

    /// A sample: second, load, value, weight.
    type Sample = (u64, f64, f64, f64);

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    fn curve(samples: &[Sample]) -> LoadCurve {
        let mut curve = LoadCurve::new(MINUTE, 2.0);
        samples.iter().for_each(|&(second, load, value, weight)| curve.add(at(second), load, value, weight));
        curve
    }

    /// Compares values with a reference implementation: weighted least squares by elimination with pivoting, the prior
    /// as two further observations, every bin summed up from all samples.
    #[track_caller]
    fn expect(samples: &[Sample], values: &[(f64, f64)]) {
        let curve = curve(samples);
        for &(load, expected) in values {
            let found = curve.value(load).expect("samples");
            assert!((found / expected - 1.0).abs() < 1e-9, "at {load}: {found} instead of {expected}");
        }
    }

    #[test]
    fn a_law_of_three_terms_is_corrected_by_nearby_samples() {
        let samples = [
            (0, 1.0, 10.0, 1.0),
            (10, 2.0, 11.2, 2.0),
            (30, 4.0, 12.0, 1.0),
            (60, 8.0, 14.5, 0.5),
            (90, 16.0, 19.0, 1.0),
            (120, 32.0, 33.0, 1.0),
        ];
        let values = [
            (0.5, 10.8662063459),
            (1.0, 10.8662063459),
            (3.0, 11.6929377739),
            (8.0, 13.9860800929),
            (11.0, 15.5545989274),
            (20.0, 21.7675467799),
            (32.0, 33.0216691964),
            (100.0, 125.318597104),
            (300.0, 375.955791313),
        ];
        expect(&samples, &values);
    }

    #[test]
    fn a_law_with_a_negative_quadratic_term_is_linear() {
        let samples = [(0, 1.0, 10.0, 1.0), (20, 4.0, 13.0, 1.0), (40, 16.0, 20.0, 1.0), (60, 64.0, 38.0, 1.0)];
        let values = [
            (1.0, 11.632663816),
            (3.0, 12.8585948171),
            (8.0, 14.9527518099),
            (11.0, 16.2007183985),
            (20.0, 20.1769097714),
            (32.0, 24.9364845184),
            (100.0, 53.2237271923),
            (300.0, 152.042379732),
        ];
        expect(&samples, &values);
        // Samples of 46 half-lives before do not count any more, and rescaling changes nothing.
        let later: Vec<Sample> = std::iter::once((0, 4.0, 50.0, 1.0))
            .chain(samples.iter().map(|&(second, load, value, weight)| (45 * 60 + second, load, value, weight)))
            .collect();
        expect(&later, &[(1.0, 11.632663816), (3.0, 12.8585948171), (8.0, 14.9527518099), (32.0, 24.9364845184)]);
        let left = 0.5 + (-40.0f64 / 60.0).exp2() + (-20.0f64 / 60.0).exp2() + 1.0;
        assert!((curve(&later).weight(at(46 * 60)) - left).abs() < 1e-6);
    }

    #[test]
    fn a_law_with_a_negative_linear_term_is_fitted_without_it() {
        let samples = [(0, 1.0, 10.0, 1.0), (0, 2.0, 9.6, 2.0), (0, 8.0, 4.5, 4.0), (30, 32.0, 15.0, 0.1)];
        let values = [
            (1.0, 7.13932287286),
            (2.0, 7.63917649544),
            (3.0, 6.37959473011),
            (5.0, 6.64001151696),
            (8.0, 5.55501416559),
            (16.0, 8.22858196501),
            (32.0, 11.2012788691),
            (64.0, 18.2554882343),
            (200.0, 57.0484007321),
        ];
        expect(&samples, &values);
    }

    #[test]
    fn a_law_that_would_fall_with_load_is_constant() {
        let samples = [(0, 1.0, 10.0, 1.0), (30, 8.0, 7.0, 1.0), (60, 32.0, 4.0, 3.0)];
        let values = [
            (1.0, 6.17384176061),
            (3.0, 5.21730220076),
            (8.0, 5.68294977381),
            (11.0, 5.26701491852),
            (32.0, 4.4869208803),
            (100.0, 8.15203468868),
            (300.0, 24.4561040661),
        ];
        expect(&samples, &values);
        assert_eq!(LoadCurve::new(MINUTE, 2.0).value(1.0), None);
    }

    #[test]
    fn bins_are_a_quarter_of_an_octave_wide_and_smoothing_reaches_two_of_them() {
        let samples = [
            (0, 1.0, 10.0, 1.0),
            (0, 1.19, 12.0, 1.0),
            (0, 1.32, 10.5, 1.0),
            (0, 2.0, 11.0, 1.0),
            (0, 2.8, 15.0, 1.0),
            (0, 5000.0, 900.0, 0.01),
        ];
        let values = [
            (1.0, 11.1419186075),
            (1.0718, 11.2195681401),
            (1.1, 11.2472180589),
            (1.19, 11.3268958054),
            (1.5, 11.4375323623),
            (2.0, 11.5349699298),
            (2.4, 12.2722921139),
            (2.8, 12.9138760282),
            (4.0, 12.1100584373),
            (5000.0, 900.116647746),
        ];
        expect(&samples, &values);
    }

    #[test]
    fn less_contention_than_assumed_can_be_learned() {
        let samples = [1.0, 4.0, 16.0, 64.0].map(|load| (0, load, 10.0 + 0.1 * (load - 1.0), 5.0));
        expect(&samples, &[(1.0, 9.99775531401), (4.0, 10.2979845967), (10.0, 10.8945510676), (64.0, 16.3025702511)]);
    }

    #[test]
    fn after_a_long_pause_old_samples_do_not_count() {
        let curve = curve(&[(0, 1.0, 50.0, 1.0), (2_000 * 60, 1.0, 10.0, 1.0)]);
        assert!(curve.value(1.0).is_some_and(|value| (value - 10.0).abs() < 1e-9), "{:?}", curve.value(1.0));
        assert!((curve.weight(at(2_000 * 60)) - 1.0).abs() < 1e-9);
    }
}
