//! Whether values in the order of time go one way.

use crate::normal_cdf;

/// Values up to which the distribution of a sequence without ties is counted out; the normal one is within 0.003 of it from here on.
const EXACT: usize = 40;

/// Two-sided p-value of the Mann-Kendall test (Mann 1945): how often a sequence in random order goes as far up or down. Exact up to 40 values
/// without ties, else by the normal distribution with ties and continuity corrected (Kendall 1975). `None` of less than five values, in
/// which no order is rarer than 1 in 12.
pub fn trend_p(values: &[f64]) -> Option<f64> {
    let n = values.len();
    if n < 5 {
        return None;
    }
    let pairs = (0..n).flat_map(|later| (0..later).map(move |earlier| (values[earlier], values[later])));
    let (mut up, mut down) = (0_u64, 0_u64);
    for (earlier, later) in pairs {
        up += u64::from(later > earlier);
        down += u64::from(later < earlier);
    }
    let all = (n * (n - 1) / 2) as u64;
    let has_ties = up + down < all;
    Some(if has_ties || n > EXACT { normal(values, up.abs_diff(down)) } else { exact(n, up.min(down)) })
}

/// Share of the orders of `n` values with at most so many pairs in one of the two directions.
fn exact(n: usize, fewest: u64) -> f64 {
    // Orders by their inversions, each share of all: the k-th value may stand before 0 to k - 1 of those before it.
    let mut shares = vec![1.0];
    for k in 2..=n {
        let mut next = vec![0.0; shares.len() + k - 1];
        for (inversions, share) in shares.iter().enumerate() {
            next[inversions..inversions + k].iter_mut().for_each(|it| *it += share / k as f64);
        }
        shares = next;
    }
    let tail: f64 = shares.iter().take(fewest as usize + 1).sum();
    (2.0 * tail).min(1.0)
}

fn normal(values: &[f64], difference: u64) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|tied| term(tied.len() as f64)).sum();
    let variance = (term(values.len() as f64) - ties) / 18.0;
    if variance <= 0.0 || difference == 0 {
        return 1.0;
    }
    (2.0 * normal_cdf(-(difference as f64 - 1.0) / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn an_order_is_as_rare_as_the_share_of_orders_that_go_as_far() {
        let p = |values: &[f64]| trend_p(values).expect("enough values");
        // 2 of 120 orders of five values go one way throughout, 2 + 8 with one pair the other way.
        assert!((p(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 2.0 / 120.0).abs() < 1e-12);
        assert!((p(&[5.0, 4.0, 3.0, 1.0, 2.0]) - 10.0 / 120.0).abs() < 1e-12);
        assert_eq!(trend_p(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(p(&[7.0; 6]), 1.0, "no way at all");
    }

    #[test]
    fn the_approximation_is_near_the_counted_share_where_one_takes_over_from_the_other() {
        for inversions in [180, 250, 300, 340] {
            let all = (EXACT * (EXACT - 1) / 2) as u64;
            let values: Vec<f64> = (0..EXACT).map(|value| value as f64).collect();
            let (counted, near) = (exact(EXACT, inversions), normal(&values, all - 2 * inversions));
            assert!((counted - near).abs() < 0.002, "{inversions}: {counted} and {near}");
        }
    }

    proptest! {
        #[test]
        fn a_sequence_and_its_reverse_are_as_rare(values in proptest::collection::vec(0_u8..20, 5..30)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let reversed: Vec<f64> = values.iter().rev().copied().collect();
            let (p, q) = (trend_p(&values).expect("five"), trend_p(&reversed).expect("five"));
            prop_assert!((p - q).abs() < 1e-12 && p > 0.0 && p <= 1.0);
        }
    }
}
