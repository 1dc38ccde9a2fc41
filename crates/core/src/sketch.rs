//! A mergeable histogram of nanosecond values with a bounded relative error.
//!
//! Invariant: merging is associative and commutative, and a quantile lies within [`Sketch::RELATIVE_ERROR`] of the exact
//! one.
//!
//! The buckets are those of OpenTelemetry's exponential histogram at scale 6: 64 per octave, bucket `i` covers `(2^(i/64),
//! 2^((i+1)/64)]`.

use std::collections::BTreeMap;

/// A histogram of integers (usually nanoseconds) with 64 buckets per power of two.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sketch {
    buckets: BTreeMap<u16, u64>,
    zeros: u64,
    count: u64,
    sum: u128,
    min: Option<u64>,
    max: Option<u64>,
}

impl Sketch {
    /// Buckets per power of two.
    pub const BUCKETS_PER_OCTAVE: u32 = 64;
    /// The OpenTelemetry scale of this resolution.
    pub const SCALE: i32 = 6;
    /// Largest relative error of a quantile: half a bucket, `2^(1/128) - 1`.
    pub const RELATIVE_ERROR: f64 = 0.005_430;

    /// An empty sketch.
    pub fn new() -> Sketch {
        Sketch::default()
    }

    /// Restores a sketch from the parts stored in a record; `None` if they are inconsistent.
    pub fn from_parts(
        zeros: u64,
        buckets: impl IntoIterator<Item = (u16, u64)>,
        sum: u128,
        min: u64,
        max: u64,
    ) -> Option<Sketch> {
        let mut all = BTreeMap::new();
        let mut count = zeros;
        for (index, n) in buckets {
            if n == 0 || u32::from(index) >= 64 * Self::BUCKETS_PER_OCTAVE {
                return None;
            }
            count = count.checked_add(n)?;
            if all.insert(index, n).is_some() {
                return None;
            }
        }
        if count == 0 {
            return (sum == 0).then(Sketch::default);
        }
        (min <= max).then_some(Sketch { buckets: all, zeros, count, sum, min: Some(min), max: Some(max) })
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Adds the same value `n` times.
    pub fn record_many(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        match value {
            0 => self.zeros += n,
            _ => *self.buckets.entry(index_of(value)).or_insert(0) += n,
        }
        self.count += n;
        self.sum += u128::from(value) * u128::from(n);
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }

    /// Adds all values of another sketch.
    pub fn merge(&mut self, other: &Sketch) {
        for (&index, &n) in &other.buckets {
            *self.buckets.entry(index).or_insert(0) += n;
        }
        self.zeros += other.zeros;
        self.count += other.count;
        self.sum += other.sum;
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.max = [self.max, other.max].into_iter().flatten().max();
    }

    /// The value at quantile `q` (nearest rank: the smallest value with at least `q * count` values at or below it),
    /// within [`Sketch::RELATIVE_ERROR`]; `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let (min, max) = (self.min?, self.max?);
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count);
        if rank == self.count {
            return Some(max);
        }
        let mut seen = self.zeros;
        if rank <= seen {
            return Some(0);
        }
        for (&index, &n) in &self.buckets {
            seen += n;
            if rank <= seen {
                return Some(midpoint_of(index).clamp(min, max));
            }
        }
        Some(max)
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact sum of all values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The exact mean, if there is any value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The smallest value.
    pub fn min(&self) -> Option<u64> {
        self.min
    }

    /// The largest value.
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// Number of zeros.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// The non-empty buckets: index and count, rising.
    pub fn buckets(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.buckets.iter().map(|(&index, &n)| (index, n))
    }
}

/// The bucket whose half-open range `(lower, upper]` holds a value above zero.
fn index_of(value: u64) -> u16 {
    let octave = 63 - value.leading_zeros();
    let mantissa = value << (63 - octave);
    let step = LOWER_BOUNDS.partition_point(|&bound| bound <= mantissa) - 1;
    let index = (octave * Sketch::BUCKETS_PER_OCTAVE) as u16 + step as u16;
    // Only powers of two are integer bounds, and they belong to the bucket below. For 1 that would be bucket -1; it
    // goes to bucket 0, which holds no other integer.
    if value.is_power_of_two() { index.saturating_sub(1) } else { index }
}

/// The geometric midpoint of a bucket, rounded.
fn midpoint_of(index: u16) -> u64 {
    ((f64::from(index) + 0.5) / f64::from(Sketch::BUCKETS_PER_OCTAVE)).exp2().round() as u64
}

/// `ceil(2^63 * 2^(i/64))` for i in 0..64, computed with 60 decimal digits.
const LOWER_BOUNDS: [u64; 64] = [
    0x8000_0000_0000_0000,
    0x8164_d1f3_bc03_0774,
    0x82cd_8698_ac2b_a1d8,
    0x843a_28c3_acde_4047,
    0x85aa_c367_cc48_7b15,
    0x871f_6196_9e8d_1011,
    0x8898_0e80_92da_8528,
    0x8a14_d575_496e_fd9b,
    0x8b95_c1e3_ea8b_d6e7,
    0x8d1a_df5b_7e5b_a9e6,
    0x8ea4_398b_45cd_53c1,
    0x9031_dc43_1466_b1dd,
    0x91c3_d373_ab11_c337,
    0x935a_2b2f_13e6_e92c,
    0x94f4_efa8_fef7_0962,
    0x9694_2d37_2018_5a01,
    0x9837_f051_8db8_a970,
    0x99e0_4593_20b7_fa65,
    0x9b8d_39b9_d54e_5539,
    0x9d3e_d9a7_2cff_b751,
    0x9ef5_3260_91a1_11ae,
    0xa0b0_510f_b971_4fc3,
    0xa270_4303_0c49_6819,
    0xa435_15ae_09e6_809f,
    0xa5fe_d6a9_b151_38eb,
    0xa7cd_93b4_e965_356a,
    0xa9a1_5ab4_ea7c_0ef9,
    0xab7a_39b5_a93e_d338,
    0xad58_3eea_42a1_4ac7,
    0xaf3b_78ad_690a_4375,
    0xb123_f581_d2ac_2590,
    0xb311_c412_a911_248a,
    0xb504_f333_f9de_6485,
    0xb6fd_91e3_28d1_7792,
    0xb8fb_af47_62fb_9eea,
    0xbaff_5ab2_133e_45fc,
    0xbd08_a39f_580c_36bf,
    0xbf17_99b6_7a73_1083,
    0xc12c_4cca_6670_9457,
    0xc346_ccda_2497_6408,
    0xc567_2a11_5506_dade,
    0xc78d_74c8_abb9_b15d,
    0xc9b9_bd86_6e2f_27a3,
    0xcbec_14fe_f272_7c5d,
    0xce24_8c15_1f84_80e4,
    0xd063_33da_ef2b_2595,
    0xd2a8_1d91_f12a_e45b,
    0xd4f3_5aab_cfed_fa20,
    0xd744_fcca_d69d_6af5,
    0xd99d_15c2_78af_d7b6,
    0xdbfb_b797_daf2_3756,
    0xde60_f482_5e0e_9124,
    0xe0cc_deec_2a94_e112,
    0xe33f_8972_be8a_5a52,
    0xe5b9_06e7_7c83_48a9,
    0xe839_6a50_3c4b_dc69,
    0xeac0_c6e7_dd24_392f,
    0xed4f_301e_d994_2b85,
    0xefe4_b99b_dcda_f5cc,
    0xf281_773c_59ff_b13a,
    0xf525_7d15_2486_cc2d,
    0xf7d0_df73_0ad1_3bb9,
    0xfa83_b2db_722a_033b,
    0xfd3e_0c0c_f486_c175,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut rng = Rng::root(1);
        for spread in [10, 1_000, 100_000_000, u64::MAX] {
            let mut values: Vec<u64> = (0..5_000).map(|_| rng.below(spread)).collect();
            let mut sketch = Sketch::new();
            values.iter().for_each(|&value| sketch.record(value));
            values.sort_unstable();
            for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let rank = ((q * values.len() as f64).ceil() as usize).max(1);
                let exact = values[rank - 1] as f64;
                let stated = sketch.quantile(q).expect("not empty") as f64;
                // Half a nanosecond more: the middle of a bucket is rounded to a whole one.
                let slack = exact * Sketch::RELATIVE_ERROR + 0.5;
                assert!((stated - exact).abs() <= slack, "q {q} spread {spread}: {stated} for {exact}");
            }
        }
    }

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let mut rng = Rng::root(2);
        let mut parts = vec![Sketch::new(); 3];
        let mut whole = Sketch::new();
        for i in 0..3_000 {
            let value = rng.below(1 << (i % 40));
            parts[i % 3].record(value);
            whole.record(value);
        }
        let mut left = parts[0].clone();
        left.merge(&parts[1]);
        left.merge(&parts[2]);
        let mut right = parts[2].clone();
        right.merge(&parts[0]);
        right.merge(&parts[1]);
        assert_eq!(left, whole);
        assert_eq!(right, whole);
        let (min, max) = (whole.min().expect("filled"), whole.max().expect("filled"));
        let rebuilt = Sketch::from_parts(whole.zeros(), whole.buckets(), whole.sum(), min, max);
        assert_eq!(rebuilt.as_ref(), Some(&whole));
    }

    #[test]
    fn buckets_include_their_upper_bound() {
        assert_eq!((index_of(1), index_of(2), index_of(3)), (0, 63, 101));
        assert!(index_of(1025) > index_of(1024), "1024 = 2^10 closes its bucket");
        assert_eq!(Sketch::new().quantile(0.5), None);
    }
}
