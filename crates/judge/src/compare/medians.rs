//! Whether the medians of two sides differ: by the medians of their rounds where both have several, else by their requests.
//!
//! Invariant: interval and p come from the same samples, both leave out what the client itself may have moved, and the interval holds
//! the ratio that is shown.
//!
//! Requests of one round share its state (what is cached, who else is on the machine, how a connection fell out), so they are no
//! independent draws of what a further round would give. With rounds, those are the units: the logarithms of their medians are
//! compared by a t-test with pooled variance, whose error is never below that of the requests (bootstrap).

use super::CompareOptions;
use tokrate_core::Rng;
use tokrate_record::{LevelSamples, Metric, Samples};
use tokrate_stats::{
    IntervalMethod, Level, permutation_p, ratio_of_medians, student_p, student_quantile, visible_errors,
};

/// One side of a comparison.
pub(super) struct Medians<'s> {
    samples: &'s Samples,
    /// Of each round (ms).
    rounds: &'s [f64],
    /// How far the client may have moved the median (ms).
    client_error_ms: f64,
    /// The median (ms), above 0.
    pub(super) value: Option<f64>,
}

/// The ratio of the medians, second to first.
pub(super) struct MedianTest {
    /// Lower end of its interval.
    pub(super) low: f64,
    /// Upper end.
    pub(super) high: f64,
    /// How it was found.
    pub(super) method: IntervalMethod,
    /// Probability of a ratio this far from 1 by chance.
    pub(super) p: f64,
    /// The smallest relative change that would be seen with 80 % probability.
    pub(super) visible: f64,
    /// Rounds of the side that has fewer, where the test is one of rounds.
    pub(super) rounds: Option<u64>,
}

/// The relative change that so many rounds of each of two sides show with 80 % probability, where medians of rounds differ among
/// themselves by `spread` (standard deviation, as a share) and this is one of `tests`, corrected together at 5 %. Infinite for less than
/// two rounds.
pub fn detectable_change(rounds: u64, tests: usize, spread: f64) -> f64 {
    let (freedom, alpha) = (2.0 * rounds as f64 - 2.0, CompareOptions::default().alpha / tests.max(1) as f64);
    (visible_errors_of_rounds(freedom, alpha) * spread * (2.0 / rounds as f64).sqrt()).exp_m1()
}

/// The smallest effect seen with 80 % probability by a t-test, in standard errors.
fn visible_errors_of_rounds(freedom: f64, alpha: f64) -> f64 {
    student_quantile(1.0 - alpha / 2.0, freedom) + student_quantile(0.8, freedom)
}

impl<'s> Medians<'s> {
    pub(super) fn of(level: &'s LevelSamples, metric: Metric) -> Medians<'s> {
        let samples = level.times(metric);
        Medians {
            samples,
            rounds: level.of_phases.rounds(metric),
            client_error_ms: level.of_phases.client_error_ms(metric),
            value: samples.median().nearest_rank().filter(|&median| median > 0.0),
        }
    }

    pub(super) fn n(&self) -> u64 {
        self.samples.n()
    }
}

impl MedianTest {
    /// Coverage of the interval.
    pub(super) const CONFIDENCE: f64 = 0.95;

    /// The test with an interval of this confidence, or why there is none.
    pub(super) fn of(
        a: &Medians<'_>,
        b: &Medians<'_>,
        alpha_each: f64,
        confidence: f64,
        rng: &Rng,
    ) -> Result<MedianTest, String> {
        let floor = Level::P50.floor();
        if a.n().min(b.n()) < floor {
            return Err(format!("not enough samples (n = {} and {}), needs {floor} on each side", a.n(), b.n()));
        }
        let (Some(value_a), Some(value_b)) = (a.value, b.value) else {
            return Err("a median of 0 has no ratio".to_owned());
        };
        let unsampled = || "the ratio of the medians cannot be resampled".to_owned();
        let (interval, error) = ratio_of_medians(&a.samples.sorted, &b.samples.sorted, rng).ok_or_else(unsampled)?;
        let shown = (value_b / value_a).ln();
        // The same client adds the same to both sides, so that what it adds differs by at most the larger of the two.
        let zone = (a.client_error_ms.max(b.client_error_ms) / value_a.min(value_b)).ln_1p();
        let test = if a.rounds.len().min(b.rounds.len()) > 1 {
            MedianTest::of_rounds([a.rounds, b.rounds], shown, error, zone, alpha_each, confidence)
        } else {
            // As far apart as they are without what the client may have moved.
            let shift = shown.clamp(-zone, zone).exp();
            let nearer: Vec<f64> = a.samples.sorted.iter().map(|value| value * shift).collect();
            MedianTest {
                low: interval.low,
                high: interval.high,
                method: interval.method,
                p: if zone > 0.0 && shown.abs() <= zone { 1.0 } else { permutation_p(&nearer, &b.samples.sorted, rng) },
                visible: (visible_errors(alpha_each) * error).exp(),
                rounds: None,
            }
        };
        // The resolution of sketches and the client's error widen the interval.
        let slack = (1.0 + a.samples.resolution) * (1.0 + b.samples.resolution) * zone.exp();
        Ok(MedianTest { low: test.low / slack, high: test.high * slack, visible: test.visible * slack - 1.0, ..test })
    }

    /// `error` is the standard error of the logarithm of the ratio as what is within the rounds has it; `visible` is a ratio here.
    pub(super) fn of_rounds(
        rounds: [&[f64]; 2],
        shown: f64,
        error: f64,
        zone: f64,
        alpha_each: f64,
        confidence: f64,
    ) -> MedianTest {
        let [a, b] = rounds.map(|medians| {
            let logs: Vec<f64> = medians.iter().map(|median| median.ln()).collect();
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            (logs.len() as f64, mean, logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>())
        });
        let freedom = a.0 + b.0 - 2.0;
        let of_rounds = ((a.2 + b.2) / freedom * (1.0 / a.0 + 1.0 / b.0)).sqrt();
        // Where nothing varies, any difference is far beyond chance.
        let error = of_rounds.max(error).max(1e-12);
        let middle = b.1 - a.1;
        let reach = student_quantile(0.5 + confidence / 2.0, freedom) * error;
        MedianTest {
            low: (middle - reach).min(shown).exp(),
            high: (middle + reach).max(shown).exp(),
            method: IntervalMethod::Normal,
            p: student_p((middle.abs() - zone).max(0.0) / error, freedom),
            visible: (visible_errors_of_rounds(freedom, alpha_each) * error).exp(),
            rounds: Some(rounds[0].len().min(rounds[1].len()) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_record::{PhaseFigures, run::Load};

    fn level(values: &[f64], rounds: &[f64], client_error_ms: f64) -> LevelSamples {
        LevelSamples {
            name: String::new(),
            load: Load::Closed { concurrency: 1 },
            times: [(Metric::Ttft, Samples::exact(values.to_vec()))].into(),
            failed: 0,
            ended: values.len() as u64,
            throughput: None,
            of_phases: PhaseFigures {
                rounds: [(Metric::Ttft, rounds.to_vec())].into(),
                client_error_ms: [(Metric::Ttft, client_error_ms)].into(),
                answer_length: None,
            },
        }
    }

    fn test(a: &LevelSamples, b: &LevelSamples) -> MedianTest {
        let [a, b] = [a, b].map(|side| Medians::of(side, Metric::Ttft));
        MedianTest::of(&a, &b, 0.05, MedianTest::CONFIDENCE, &Rng::root(1)).expect("enough samples")
    }

    #[test]
    fn requests_of_rounds_that_differ_among_themselves_do_not_make_a_difference() {
        // Two rounds a side, each of 15 equal requests: by its requests every round differs from every other.
        let side = |rounds: [f64; 2]| level(&[[rounds[0]; 15], [rounds[1]; 15]].concat(), &rounds, 0.0);
        let alike = test(&side([100.0, 101.0]), &side([100.5, 101.5]));
        assert!(alike.p > 0.3 && alike.low < 1.0 && alike.high > 1.0, "{}", alike.p);
        // ln 1.1 = 0.0953 of an error of 0.0070: t = 13.5 with two degrees of freedom.
        let apart = test(&side([100.0, 101.0]), &side([110.0, 111.1]));
        assert!((apart.p - 0.0054).abs() < 2e-4 && apart.low > 1.06, "{} {}", apart.p, apart.low);
    }

    #[test]
    fn what_rounds_show_follows_from_their_number_and_how_much_they_differ() {
        // t quantiles (Student's tables): 0.995 and 0.8 at two degrees of freedom 9.925 and 1.061, at six 3.707 and 0.906.
        assert!((detectable_change(2, 5, 0.01) - 0.1161).abs() < 2e-4, "{}", detectable_change(2, 5, 0.01));
        assert!((detectable_change(4, 5, 0.01) - 0.0332).abs() < 2e-4, "{}", detectable_change(4, 5, 0.01));
        assert!(detectable_change(1, 5, 0.01).is_infinite(), "a single round says nothing of others");
    }

    #[test]
    fn a_difference_within_the_clients_own_error_is_none() {
        let side = |value: f64, rounds: &[f64]| level(&[value; 20], rounds, 0.1);
        for rounds in [1, 2] {
            let near = test(&side(10.0, &vec![10.0; rounds]), &side(10.09, &vec![10.09; rounds]));
            assert!(near.p > 0.9 && near.low <= 1.0, "{} of {rounds} rounds", near.p);
            let far = test(&side(10.0, &vec![10.0; rounds]), &side(10.3, &vec![10.3; rounds]));
            assert!(far.p < 0.01 && far.low > 1.0, "{} of {rounds} rounds", far.p);
        }
    }
}
