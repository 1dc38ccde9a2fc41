//! Histograms with fixed buckets, as Prometheus keeps them. No sketch: scrapers add up buckets by their published bounds, which no
//! logarithmic bucket ends at.
//!
//! Invariant: a value is counted once, in the first bucket whose bound is not below it; the bounds never change while
//! the process lives.

/// Bounds of durations (ns): six a decade from 0.05 ms to 130 s. The buckets that OpenTelemetry advises end at 10 ms a
/// token, which cannot tell speeds above 100 tokens per second apart.
pub(crate) const TIMES_NS: [u64; 40] = [
    50_000,
    70_000,
    100_000,
    150_000,
    200_000,
    300_000,
    500_000,
    700_000,
    1_000_000,
    1_500_000,
    2_000_000,
    3_000_000,
    5_000_000,
    7_000_000,
    10_000_000,
    15_000_000,
    20_000_000,
    30_000_000,
    50_000_000,
    70_000_000,
    100_000_000,
    150_000_000,
    200_000_000,
    300_000_000,
    500_000_000,
    700_000_000,
    1_000_000_000,
    1_500_000_000,
    2_000_000_000,
    3_000_000_000,
    5_000_000_000,
    7_000_000_000,
    10_000_000_000,
    15_000_000_000,
    20_000_000_000,
    30_000_000_000,
    50_000_000_000,
    70_000_000_000,
    100_000_000_000,
    130_000_000_000,
];

/// Bounds of the gateway's overhead (ns): six a decade from 5 µs to 100 ms.
pub(crate) const OVERHEADS_NS: [u64; 27] = [
    5_000,
    7_000,
    10_000,
    15_000,
    20_000,
    30_000,
    50_000,
    70_000,
    100_000,
    150_000,
    200_000,
    300_000,
    500_000,
    700_000,
    1_000_000,
    1_500_000,
    2_000_000,
    3_000_000,
    5_000_000,
    7_000_000,
    10_000_000,
    15_000_000,
    20_000_000,
    30_000_000,
    50_000_000,
    70_000_000,
    100_000_000,
];

/// Bounds of token counts, as OpenTelemetry advises for `gen_ai.client.token.usage`.
pub(crate) const TOKENS: [u64; 14] =
    [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];

/// Counts of integers by bucket.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One more than there are bounds, for values above the last.
    counts: Box<[u64]>,
    sum: u128,
    /// The last example of each bucket; none before the first one.
    exemplars: Option<Box<[Option<Exemplar>]>>,
}

/// A counted value whose trace a collector has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exemplar {
    /// The value, in the histogram's own unit.
    pub value: u64,
    /// When it was counted (ns since 1970).
    pub at_unix_ns: u64,
    /// The trace.
    pub trace_id: [u8; 16],
    /// The span in it.
    pub span_id: [u8; 8],
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [u64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0, exemplars: None }
    }

    /// Counts a value.
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[self.bucket_of(value)] += 1;
        self.sum += u128::from(value);
    }

    /// Keeps an example of a value that was counted.
    pub(crate) fn add_exemplar(&mut self, exemplar: Exemplar) {
        let bucket = self.bucket_of(exemplar.value);
        let exemplars = self.exemplars.get_or_insert_with(|| vec![None; self.counts.len()].into());
        exemplars[bucket] = Some(exemplar);
    }

    /// The last example of each bucket, in their order; empty without any.
    pub fn exemplars(&self) -> &[Option<Exemplar>] {
        self.exemplars.as_deref().unwrap_or_default()
    }

    fn bucket_of(&self, value: u64) -> usize {
        self.bounds.partition_point(|bound| *bound < value)
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.sum as f64
    }

    /// Upper bound (divided by `unit`) and count of each bucket, in rising order, the last without a bound.
    pub fn buckets(&self, unit: f64) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / unit).chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_belongs_below_it() {
        let mut histogram = Histogram::new(&TOKENS);
        for value in [0, 1, 2, 4, 5, u64::MAX] {
            histogram.add(value);
        }
        let filled: Vec<(f64, u64)> = histogram.buckets(1.0).into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1.0, 2), (4.0, 2), (16.0, 1), (f64::INFINITY, 1)]);
        assert_eq!(histogram.count(), 6);
        assert_eq!(histogram.sum(), 12.0 + u64::MAX as f64);
    }

    #[test]
    fn bounds_lie_close_from_50_microseconds_to_130_seconds() {
        for bounds in [&TIMES_NS[..], &OVERHEADS_NS[..]] {
            for pair in bounds.windows(2) {
                let ratio = pair[1] as f64 / pair[0] as f64;
                assert!(ratio > 1.0 && ratio < 1.7, "{pair:?}");
            }
        }
        assert_eq!((TIMES_NS[0], TIMES_NS[39]), (50_000, 130_000_000_000));
    }
}
