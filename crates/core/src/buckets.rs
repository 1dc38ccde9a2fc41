//! Counts of integers by logarithmic bucket, at a scale of OpenTelemetry's exponential histogram.
//!
//! Invariant: merging is addition, so it is associative and commutative; the middle of a bucket lies within
//! [`Buckets::RELATIVE_ERROR`] of every value in it.

/// The finest scale: 64 buckets an octave.
const MAX_SCALE: u32 = 6;

/// How many values a bucket holds: `u64`, or less where many histograms are kept.
pub trait Count: Copy + Eq + From<u8> + Into<u64> {
    /// The sum, at most the largest number.
    #[must_use]
    fn plus(self, other: Self) -> Self;
}

impl Count for u32 {
    fn plus(self, other: u32) -> u32 {
        self.saturating_add(other)
    }
}

impl Count for u64 {
    fn plus(self, other: u64) -> u64 {
        self.saturating_add(other)
    }
}

/// A histogram of integers above zero (usually nanoseconds) with `2^SCALE` buckets per power of two, `SCALE` at most 6. Bucket
/// `i` covers `(2^(i/2^SCALE), 2^((i+1)/2^SCALE)]`; bucket 0 holds 1 as well. Only buckets that are not empty take space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buckets<const SCALE: u32, C = u64>(Vec<(u16, C)>);

impl<const SCALE: u32, C: Count> Buckets<SCALE, C> {
    /// Largest relative error of a bucket's middle: half a bucket, `2^(1/2^(SCALE+1)) - 1`.
    pub const RELATIVE_ERROR: f64 =
        [0.414_214, 0.189_208, 0.090_508, 0.044_274, 0.021_898, 0.010_890, 0.005_430][SCALE as usize];
    /// One more than the largest index.
    pub const END: u32 = 64 << SCALE;

    /// Of counts by index; `None` unless indices rise and are below [`Buckets::END`], and no count is 0.
    pub fn from_counts(counts: Vec<(u16, C)>) -> Option<Buckets<SCALE, C>> {
        let rising = counts.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let known = counts.iter().all(|(index, n)| u32::from(*index) < Self::END && *n != C::from(0));
        (rising && known).then_some(Buckets(counts))
    }

    /// The bucket that holds a value above zero.
    #[inline]
    pub fn index_of(value: u64) -> u16 {
        const { assert!(SCALE <= MAX_SCALE, "there is no finer table of bounds") };
        let octave = 63 - value.leading_zeros();
        let mantissa = value << (63 - octave);
        let step = LOWER_BOUNDS.partition_point(|&bound| bound <= mantissa) - 1;
        let index = (octave << MAX_SCALE) as u16 + step as u16;
        // Only powers of two are integer bounds, and they belong to the bucket below. For 1 that would be bucket -1; it
        // goes to bucket 0, which holds no other integer.
        let index = if value.is_power_of_two() { index.saturating_sub(1) } else { index };
        // A coarser bucket is made of whole finer ones.
        index >> (MAX_SCALE - SCALE)
    }

    /// The geometric middle of a bucket, rounded.
    pub fn middle_of(index: u16) -> u64 {
        ((f64::from(index) + 0.5) / f64::from(1 << SCALE)).exp2().round() as u64
    }

    /// Adds a value above zero.
    pub fn record(&mut self, value: u64) {
        self.add(Self::index_of(value), C::from(1));
    }

    /// Adds `n` values of one bucket.
    pub fn add(&mut self, index: u16, n: C) {
        let place = match self.0.last() {
            // As it is when sorted values are recorded.
            Some(last) if last.0 < index => Err(self.0.len()),
            _ => self.0.binary_search_by_key(&index, |bucket| bucket.0),
        };
        match place {
            Ok(place) => self.0[place].1 = self.0[place].1.plus(n),
            Err(_) if n == C::from(0) => {}
            Err(place) => self.0.insert(place, (index, n)),
        }
    }

    /// Adds all values of another.
    pub fn merge(&mut self, other: &Buckets<SCALE, C>) {
        other.0.iter().for_each(|&(index, n)| self.add(index, n));
    }

    /// The buckets that are not empty: index and count, rising.
    pub fn counts(&self) -> &[(u16, C)] {
        &self.0
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, n)| (*n).into()).fold(0, u64::saturating_add)
    }

    /// The middle of the bucket with the value of this rank, counted from 1; `None` if there are fewer values.
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0_u64;
        self.0.iter().find_map(|&(index, n)| {
            seen = seen.saturating_add(n.into());
            (rank <= seen).then(|| Self::middle_of(index))
        })
    }

    /// The value at quantile `q` (nearest rank: the smallest value with at least `q * count` values at or below it), within
    /// [`Buckets::RELATIVE_ERROR`]; `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        self.at_rank(rank_of(q, self.count()))
    }
}

impl<const SCALE: u32, C> Default for Buckets<SCALE, C> {
    fn default() -> Buckets<SCALE, C> {
        Buckets(Vec::new())
    }
}

/// The nearest rank of a quantile among `count` values, from 1.
pub(crate) fn rank_of(q: f64, count: u64) -> u64 {
    ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1))
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

    fn check_scale<const SCALE: u32>() {
        let mut rng = Rng::root(u64::from(SCALE));
        for spread in [10, 1_000, 100_000_000, u64::MAX] {
            let mut values: Vec<u64> = (0..2_000).map(|_| 1 + rng.below(spread - 1)).collect();
            let mut buckets: Buckets<SCALE> = Buckets::default();
            values.iter().for_each(|&value| buckets.record(value));
            values.sort_unstable();
            for q in [0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let exact = values[rank_of(q, 2_000) as usize - 1];
                let stated = buckets.quantile(q).expect("not empty") as f64;
                // Half a nanosecond more: the middle of a bucket is rounded to a whole one. A bucket of 1 begins with 1 itself.
                let slack = exact as f64 * Buckets::<SCALE>::RELATIVE_ERROR + 0.5;
                let is_near = (stated - exact as f64).abs() <= slack;
                assert!(is_near, "scale {SCALE} q {q} spread {spread}: {stated} for {exact}");
            }
            for value in values {
                let index = f64::from(Buckets::<SCALE>::index_of(value)) / f64::from(1 << SCALE);
                let (low, high) = (index.exp2(), (index + 1.0 / f64::from(1 << SCALE)).exp2());
                assert!(
                    (low < value as f64 || value == 1) && value as f64 <= high * (1.0 + 1e-12),
                    "{value} in ({low}, {high}]"
                );
            }
        }
        let half = (1.0 / f64::from(2 << SCALE)).exp2() - 1.0;
        assert!((Buckets::<SCALE>::RELATIVE_ERROR - half).abs() < 1e-6);
    }

    #[test]
    fn quantiles_are_within_the_stated_error_at_every_scale() {
        check_scale::<0>();
        check_scale::<1>();
        check_scale::<2>();
        check_scale::<3>();
        check_scale::<4>();
        check_scale::<5>();
        check_scale::<6>();
    }

    #[test]
    fn buckets_include_their_upper_bound() {
        let index_of = Buckets::<6>::index_of;
        assert_eq!((index_of(1), index_of(2), index_of(3)), (0, 63, 101));
        assert!(index_of(1025) > index_of(1024), "1024 = 2^10 closes its bucket");
        assert_eq!(([2_048, 2_049].map(Buckets::<3>::index_of), Buckets::<3>::index_of(u64::MAX)), ([87, 88], 511));
    }

    #[test]
    fn merging_equals_recording_everything_in_one_and_counts_do_not_wrap() {
        let mut rng = Rng::root(2);
        let mut parts = vec![Buckets::<3, u32>::default(); 3];
        let mut whole = Buckets::<3, u32>::default();
        for i in 0..3_000 {
            let value = 1 + rng.below(1 << (i % 40));
            parts[i % 3].record(value);
            whole.record(value);
        }
        let mut merged = parts.pop().expect("three");
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!((&merged, merged.count()), (&whole, 3_000));
        assert_eq!(Buckets::from_counts(whole.counts().to_vec()), Some(whole));
        let mut full = Buckets::<3, u32>::default();
        full.add(9, u32::MAX);
        full.add(9, 2);
        full.add(8, 0);
        assert_eq!(full.counts(), [(9, u32::MAX)]);
    }

    #[test]
    fn counts_that_do_not_fit_together_are_refused() {
        for damaged in [vec![(90, 0)], vec![(91, 1), (90, 1)], vec![(90, 1), (90, 1)], vec![(512, 1)]] {
            assert_eq!(Buckets::<3, u32>::from_counts(damaged.clone()), None, "{damaged:?}");
        }
        assert_eq!(Buckets::<3, u32>::from_counts(vec![(511, 1)]).map(|buckets| buckets.count()), Some(1));
        assert_eq!(Buckets::<3, u32>::default().quantile(0.5), None);
    }
}
