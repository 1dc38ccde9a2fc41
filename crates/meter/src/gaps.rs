//! Chunk gaps as a small mergeable histogram: eight buckets per octave from 1 µs to 137 s.
//!
//! Invariant: merging is associative and commutative, and a quantile lies within [`GapSketch::RELATIVE_ERROR`] of the exact
//! one for gaps between 1.024 µs and 137 s; gaps outside count in the first or last bucket.
//!
//! The buckets are those of OpenTelemetry's exponential histogram at scale 3: bucket `i` covers `(2^(i/8), 2^((i+1)/8)]`.

use serde::{Deserialize, Serialize};

/// The lowest bucket, `(2^10, 2^(81/8)]` ns; everything shorter is counted there.
const LOWEST: u16 = 80;
/// How many buckets there are: 27 octaves, up to 2^37 ns.
const BUCKETS: usize = 216;

/// Chunk gaps (ns), as index and count of each bucket that is not empty, rising.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<(u16, u32)>")]
#[cfg_attr(feature = "schema", schemars(with = "Vec<(u16, u32)>"))]
pub struct GapSketch(Vec<(u16, u32)>);

/// The histogram under construction: of fixed size, without a search.
#[derive(Clone, Debug)]
pub(crate) struct GapCounts([u32; BUCKETS]);

impl GapSketch {
    /// OpenTelemetry's name for the resolution.
    pub const SCALE: i32 = 3;
    /// Largest relative error of a quantile: half a bucket, `2^(1/16) - 1`.
    pub const RELATIVE_ERROR: f64 = 0.044_274;

    /// True when there is no gap.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many gaps there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, n)| u64::from(*n)).sum()
    }

    /// The buckets that are not empty: index and count, rising.
    pub fn buckets(&self) -> &[(u16, u32)] {
        &self.0
    }

    /// Adds one gap (ns).
    pub fn record(&mut self, gap_ns: u64) {
        self.add(index_of(gap_ns), 1);
    }

    /// Adds all gaps of another.
    pub fn merge(&mut self, other: &GapSketch) {
        for &(index, n) in &other.0 {
            self.add(index, n);
        }
    }

    /// The gap at quantile `q` (nearest rank, ns); `None` when there is no gap.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|&(index, n)| {
            seen += u64::from(n);
            (rank <= seen).then(|| middle_of(index))
        })
    }

    fn add(&mut self, index: u16, n: u32) {
        match self.0.binary_search_by_key(&index, |bucket| bucket.0) {
            Ok(place) => self.0[place].1 = self.0[place].1.saturating_add(n),
            Err(place) => self.0.insert(place, (index, n)),
        }
    }
}

impl GapCounts {
    pub const EMPTY: GapCounts = GapCounts([0; BUCKETS]);

    #[inline]
    pub fn record(&mut self, gap_ns: u64) {
        let count = &mut self.0[usize::from(index_of(gap_ns) - LOWEST)];
        *count = count.saturating_add(1);
    }

    pub fn sketch(&self) -> GapSketch {
        let filled = self.0.iter().enumerate().filter(|(_, n)| **n > 0);
        GapSketch(filled.map(|(place, &n)| (LOWEST + place as u16, n)).collect())
    }
}

impl FromIterator<u64> for GapSketch {
    fn from_iter<I: IntoIterator<Item = u64>>(gaps: I) -> GapSketch {
        let mut counts = GapCounts::EMPTY;
        gaps.into_iter().for_each(|gap| counts.record(gap));
        counts.sketch()
    }
}

impl TryFrom<Vec<(u16, u32)>> for GapSketch {
    type Error = &'static str;

    fn try_from(buckets: Vec<(u16, u32)>) -> Result<GapSketch, Self::Error> {
        let known = LOWEST..LOWEST + BUCKETS as u16;
        let rising = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let whole = buckets.iter().all(|(index, n)| known.contains(index) && *n > 0);
        (rising && whole).then_some(GapSketch(buckets)).ok_or("the buckets of a gap sketch do not fit together")
    }
}

/// The bucket that counts a gap.
#[inline]
fn index_of(gap_ns: u64) -> u16 {
    // `ceil(2^63 * 2^(i/8))`: every eighth bound of core's sketch.
    const BOUNDS: [u64; 8] = [
        0x8000_0000_0000_0000,
        0x8b95_c1e3_ea8b_d6e7,
        0x9837_f051_8db8_a970,
        0xa5fe_d6a9_b151_38eb,
        0xb504_f333_f9de_6485,
        0xc567_2a11_5506_dade,
        0xd744_fcca_d69d_6af5,
        0xeac0_c6e7_dd24_392f,
    ];
    let value = gap_ns.clamp(1 << 10, 1 << 37);
    let octave = 63 - value.leading_zeros();
    let mantissa = value << (63 - octave);
    let step = BOUNDS[1..].iter().filter(|bound| **bound <= mantissa).count();
    // Of the bounds only powers of two are whole numbers, and they close the bucket below.
    let index = (octave * 8) as u16 + step as u16 - u16::from(value.is_power_of_two());
    index.max(LOWEST)
}

/// The geometric middle of a bucket, rounded.
fn middle_of(index: u16) -> u64 {
    ((f64::from(index) + 0.5) / 8.0).exp2().round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_core::Rng;

    #[test]
    fn quantiles_lie_within_the_stated_error_of_the_sort() {
        let mut rng = Rng::root(7);
        for octave in 11..=37 {
            let mut gaps: Vec<u64> = (0..2_000).map(|_| 1_024 + rng.below((1 << octave) - 1_024)).collect();
            let sketch: GapSketch = gaps.iter().copied().collect();
            gaps.sort_unstable();
            for q in [0.0, 0.01, 0.5, 0.9, 0.99, 1.0] {
                let exact = gaps[((q * 2_000.0_f64).ceil() as usize).max(1) - 1] as f64;
                let stated = sketch.quantile(q).expect("not empty") as f64;
                let slack = exact * GapSketch::RELATIVE_ERROR + 0.5;
                assert!((stated - exact).abs() <= slack, "q {q} below 2^{octave}: {stated} for {exact}");
            }
        }
    }

    #[test]
    fn a_gap_falls_into_the_bucket_whose_bounds_hold_it() {
        let mut rng = Rng::root(8);
        for _ in 0..20_000 {
            let octave = 10 + rng.below(27);
            let gap = (1_u64 << octave) + 1 + rng.below(1 << octave);
            let index = f64::from(index_of(gap));
            let (low, high) = ((index / 8.0).exp2(), ((index + 1.0) / 8.0).exp2());
            assert!(low < gap as f64 && gap as f64 <= high, "{gap} in ({low}, {high}]");
        }
        assert_eq!([0, 1, 1_024, 1_025].map(index_of), [80; 4]);
        assert_eq!([1 << 37, u64::MAX].map(index_of), [295; 2]);
        assert_eq!([2_048, 2_049].map(index_of), [87, 88], "2^11 closes its bucket");
    }

    #[test]
    fn merging_is_the_same_as_recording_everything_in_one() {
        let mut rng = Rng::root(9);
        let gaps: Vec<u64> = (0..3_000).map(|_| rng.below(1 << 38)).collect();
        let whole: GapSketch = gaps.iter().copied().collect();
        let mut parts: Vec<GapSketch> = gaps.chunks(700).map(|part| part.iter().copied().collect()).collect();
        let mut merged = parts.pop().expect("several");
        parts.iter().for_each(|part| merged.merge(part));
        assert_eq!(merged, whole);
        let mut one_by_one = GapSketch::default();
        gaps.iter().for_each(|gap| one_by_one.record(*gap));
        assert_eq!(one_by_one, whole);
        assert_eq!((whole.count(), GapSketch::default().quantile(0.5)), (3_000, None));
    }

    #[test]
    fn a_damaged_sketch_is_refused() {
        for damaged in ["[[79,1]]", "[[296,1]]", "[[90,0]]", "[[91,1],[90,1]]", "[[90,1],[90,1]]"] {
            assert!(serde_json::from_str::<GapSketch>(damaged).is_err(), "{damaged}");
        }
        let read: GapSketch = serde_json::from_str("[[90,1],[91,4000000000]]").expect("sound");
        assert_eq!(read.buckets(), [(90, 1), (91, 4_000_000_000)]);
    }
}
