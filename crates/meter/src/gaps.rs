//! Chunk gaps as a small mergeable histogram: eight buckets per octave from 1 µs to 137 s.
//!
//! Invariant: merging is associative and commutative, and a quantile lies within [`GapSketch::RELATIVE_ERROR`] of the exact
//! one for gaps between 1.024 µs and 137 s; gaps outside count in the first or last bucket.
//!
//! The buckets are those of OpenTelemetry's exponential histogram at scale 3: bucket `i` covers `(2^(i/8), 2^((i+1)/8)]`.

use serde::{Deserialize, Serialize, Serializer};
use tokrate_core::Buckets;

/// Buckets of gaps. Finer ones would take more of a row of the log than everything else in it.
type Gaps = Buckets<3, u32>;

/// The lowest bucket, `(2^10, 2^(81/8)]` ns; everything shorter is counted there.
const LOWEST: u16 = 80;
/// How many buckets there are: 27 octaves, up to 2^37 ns.
const BUCKETS: usize = 216;

/// Chunk gaps (ns), as index and count of each bucket that is not empty, rising.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<(u16, u32)>")]
#[cfg_attr(feature = "schema", schemars(with = "Vec<(u16, u32)>"))]
pub struct GapSketch(Gaps);

/// The histogram under construction: of fixed size and without a search, so that an open stream allocates nothing for a gap.
#[derive(Clone, Debug)]
pub(crate) struct GapCounts([u32; BUCKETS]);

impl GapSketch {
    /// Largest relative error of a quantile: half a bucket, `2^(1/16) - 1`.
    pub const RELATIVE_ERROR: f64 = Gaps::RELATIVE_ERROR;

    /// True when there is no gap.
    pub fn is_empty(&self) -> bool {
        self.0.counts().is_empty()
    }

    /// How many gaps there are.
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// The buckets that are not empty: index and count, rising.
    pub fn buckets(&self) -> &[(u16, u32)] {
        self.0.counts()
    }

    /// Adds one gap (ns).
    pub fn record(&mut self, gap_ns: u64) {
        self.0.add(index_of(gap_ns), 1);
    }

    /// Adds all gaps of another.
    pub fn merge(&mut self, other: &GapSketch) {
        self.0.merge(&other.0);
    }

    /// The gap at quantile `q` (nearest rank, ns); `None` when there is no gap.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        self.0.quantile(q)
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
        // An answer in one piece has no gap, and is most of what some gateways carry.
        if self.0 == Self::EMPTY.0 {
            return GapSketch::default();
        }
        let filled = self.0.iter().enumerate().filter(|(_, n)| **n > 0);
        let counts = filled.map(|(place, &n)| (LOWEST + place as u16, n)).collect();
        GapSketch(Gaps::from_counts(counts).unwrap_or_default())
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
        let are_known = buckets.iter().all(|(index, _)| known.contains(index));
        let gaps = Gaps::from_counts(buckets).filter(|_| are_known);
        gaps.map(GapSketch).ok_or("the buckets of a gap sketch do not fit together")
    }
}

impl Serialize for GapSketch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.counts().serialize(serializer)
    }
}

/// The bucket that counts a gap.
#[inline]
fn index_of(gap_ns: u64) -> u16 {
    // The lower bound itself closes the bucket below.
    Gaps::index_of(gap_ns.clamp(1 << 10, 1 << 37)).max(LOWEST)
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
    fn gaps_outside_of_the_range_count_in_the_first_or_last_bucket() {
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
        assert_eq!(serde_json::to_string(&read).expect("plain data"), "[[90,1],[91,4000000000]]");
    }
}
