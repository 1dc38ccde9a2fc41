//! Intervals and tests that are looked at again and again until they are narrow enough, or until they decide.
//!
//! Invariant: what is stated holds however often it was looked at and whenever the looking ended.
//!
//! Width: rounds are added until Student's interval of their mean is narrow enough (Chow and Robbins 1965, fixed-width sequential
//! estimation; Anscombe 1953). Of normal values the mean at the end is independent of when their spread let the run end, so that such an
//! interval only misses more often because it ends where the spread of few values happens to be small. Two things make up for that: a
//! start-up of [`MIN_ROUNDS`], and an interval of [`LOOKED_AT_CONFIDENCE`] in place of the 95 % that are stated
//! (`cargo run -p tokrate-stats --example sequential` counts how often it misses).
//!
//! Tests: the error is spent over the looks (Lan and DeMets 1983), a part of it at each, so that by Bonferroni's inequality all looks
//! together err no more often than is stated, whatever their number and however alike they are; see [`look_share`].

use crate::{Level, student_quantile};

/// Rounds before the first look at a width.
pub const MIN_ROUNDS: u64 = 6;

/// The confidence at which each look is taken so that 95 % are left at the end.
pub const LOOKED_AT_CONFIDENCE: f64 = 0.97;

/// Rounds beyond which nobody waits for a width.
const MAX_ROUNDS: u64 = 1_000_000;

/// Mean and standard error of the mean of independent values; `None` of less than two, or where one is not finite.
pub fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, (squares / (n - 1.0) / n).sqrt()))
}

/// Standard errors from the mean of so many rounds to either end of its interval of 95 %, which is looked at after every round; infinite
/// below two.
pub fn looked_at_errors(rounds: u64) -> f64 {
    student_quantile(0.5 + LOOKED_AT_CONFIDENCE / 2.0, rounds as f64 - 1.0)
}

/// The rounds after which the interval is expected to reach no further than `reach` to either side, where rounds differ by `spread`
/// (standard deviation). `None` where no number of rounds does.
pub fn rounds_for(spread: f64, reach: f64) -> Option<u64> {
    if !(spread.is_finite() && reach > 0.0) {
        return None;
    }
    let enough = |rounds: u64| looked_at_errors(rounds) * spread <= reach * (rounds as f64).sqrt();
    if !enough(MAX_ROUNDS) {
        return None;
    }
    let (mut low, mut high) = (MIN_ROUNDS - 1, MIN_ROUNDS);
    while !enough(high) {
        (low, high) = (high, (high * 2).min(MAX_ROUNDS));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The share of the error that the `look`-th look of a test may spend, counted from 1: 1 / (k (k + 1)), which are 1 in all. The first look
/// has half of it, as most differences are decided there.
pub fn look_share(look: u64) -> f64 {
    let look = look.max(1) as f64;
    1.0 / (look * (look + 1.0))
}

/// The interval of a quantile of samples in rounds whose samples are alike: Woodruff's (1952), the rounds being the clusters, at the errors
/// of [`looked_at_errors`], and never narrower than that of independent samples. Each round rises. The upper end is absent where it lies
/// beyond the largest sample; `None` of less than two rounds with samples.
pub fn quantile_between_rounds(rounds: &[Vec<f64>], level: Level) -> Option<(f64, Option<f64>)> {
    let rounds: Vec<&Vec<f64>> = rounds.iter().filter(|round| !round.is_empty()).collect();
    let mut sorted: Vec<f64> = rounds.iter().flat_map(|round| round.iter().copied()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (clusters, n) = (rounds.len() as f64, sorted.len() as f64);
    let estimate = sorted[level.nearest_rank(sorted.len() as u64).filter(|_| rounds.len() > 1)? as usize - 1];
    let below = |values: &[f64]| values.partition_point(|value| *value <= estimate) as f64;
    let share = below(&sorted) / n;
    let squares: f64 = rounds.iter().map(|round| (below(round) - share * round.len() as f64).powi(2)).sum();
    let of_rounds = (clusters / (clusters - 1.0) * squares).sqrt() / n;
    let error = of_rounds.max((level.share() * (1.0 - level.share()) / n).sqrt());
    let reach = looked_at_errors(rounds.len() as u64) * error;
    let rank = |share: f64| (share * n).clamp(1.0, n) as usize;
    let low = sorted[rank(((level.share() - reach) * n).floor() / n) - 1];
    let high = ((level.share() + reach) * n).ceil();
    Some((low, (high <= n).then(|| sorted[high as usize - 1])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Rng;

    #[test]
    fn the_mean_and_its_error_are_those_of_the_textbook() {
        // 1, 2, 3, 4: variance 5 / 3, of the mean 5 / 12.
        let (mean, error) = mean_and_error(&[1.0, 2.0, 3.0, 4.0]).expect("four values");
        assert!((mean - 2.5).abs() < 1e-12 && (error - (5.0_f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!((mean_and_error(&[1.0]), mean_and_error(&[1.0, f64::NAN])), (None, None));
    }

    #[test]
    fn a_look_at_six_rounds_is_at_97_percent() {
        // Student's t at 0.985 with five degrees of freedom is 3.0029 (R: qt(0.985, 5)).
        assert!((looked_at_errors(6) - 3.0029).abs() < 1e-3, "{}", looked_at_errors(6));
        assert!(looked_at_errors(1).is_infinite());
    }

    #[test]
    fn the_rounds_that_a_width_needs_are_the_fewest_that_reach_it() {
        for (spread, reach) in [(1.0, 3.0), (1.0, 0.5), (0.02, 0.01), (5.0, 0.3)] {
            let rounds = rounds_for(spread, reach).expect("reachable");
            let width = |rounds: u64| looked_at_errors(rounds) * spread / (rounds as f64).sqrt();
            assert!(width(rounds) <= reach, "{rounds} for {reach}");
            assert!(rounds == MIN_ROUNDS || width(rounds - 1) > reach, "{rounds} for {reach}");
        }
        assert_eq!((rounds_for(1.0, 0.0), rounds_for(1.0, 1e-9), rounds_for(0.0, 0.1)), (None, None, Some(MIN_ROUNDS)));
    }

    #[test]
    fn the_shares_of_all_looks_are_no_more_than_the_whole() {
        let sum: f64 = (1..=100_000).map(look_share).sum();
        assert!(sum <= 1.0 && sum > 0.9999, "{sum}");
        assert!((look_share(1) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_quantile_of_rounds_that_differ_has_a_wider_interval_than_one_of_rounds_that_do_not() {
        let rounds = |apart: f64| -> Vec<Vec<f64>> {
            (0..8).map(|round| (0..25).map(|i| f64::from(i) + apart * f64::from(round)).collect()).collect()
        };
        let width = |apart| {
            let (low, high) = quantile_between_rounds(&rounds(apart), Level::P50).expect("eight rounds");
            high.expect("within the samples") - low
        };
        assert!(width(5.0) > 2.0 * width(0.0), "{} {}", width(5.0), width(0.0));
        // Of 200 independent samples the ranks are 100 -+ 2.71 * 7.07: the values of ranks 80 and 120 of eight times 0..24.
        assert_eq!(quantile_between_rounds(&rounds(0.0), Level::P50), Some((9.0, Some(14.0))));
        assert_eq!(quantile_between_rounds(&rounds(0.0), Level::P99), Some((24.0, None)), "too few for an upper end");
        assert_eq!(quantile_between_rounds(&rounds(0.0)[..1], Level::P50), None);
    }

    /// How many of `runs` intervals miss 0, each looked at after every round until it is no wider than `reach` to either side.
    fn misses(runs: u64, reach: f64, seed: u64) -> u64 {
        let miss = |run: u64| {
            let mut rng = Rng::root(seed).nth(run);
            let mut values: Vec<f64> = (0..MIN_ROUNDS).map(|_| rng.normal()).collect();
            loop {
                let (mean, error) = mean_and_error(&values).expect("several");
                let half = looked_at_errors(values.len() as u64) * error;
                if half <= reach {
                    return u64::from(mean.abs() > half);
                }
                values.push(rng.normal());
            }
        };
        (0..runs).map(miss).sum()
    }

    #[test]
    fn an_interval_that_ended_the_looking_misses_in_five_of_a_hundred_runs_at_most() {
        for reach in [2.0, 1.0, 0.7, 0.5] {
            let missed = misses(400, reach, 3);
            // 20 are 5 %; 31 and more of 400 come in 1 of 100 such series (binomial).
            assert!(missed <= 30, "{missed} of 400 at {reach}");
        }
    }
}
