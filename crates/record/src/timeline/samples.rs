//! What was read of an engine and of graphics processors during a run, and the same as curves.
//!
//! Invariant: power, clock and the like are those of all processors that a source ever named, or missing at that moment.

use super::curve::Curve;
use std::collections::BTreeSet;
use tokrate_core::{Span, Tick};
use tokrate_meter::server_metrics::{EngineSample, GpuReading, GpuSample};

/// Readings that may be missing between two that count as neighbours, in intervals.
const MAX_GAP: f64 = 2.5;

/// What was read during a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// From one reading to the next.
    pub every: Span,
    /// The engine, in the order of time.
    pub engine: Vec<EngineSample>,
    /// The processors of each source, in the order of time.
    pub gpus: Vec<Vec<GpuSample>>,
}

impl Samples {
    /// How far apart two readings may be with nothing missing between them (ns).
    fn max_gap(&self) -> u64 {
        (self.every.as_nanos() as f64 * MAX_GAP) as u64
    }

    /// A quantity of the engine.
    pub(super) fn engine_curve(&self, of: impl Fn(&EngineSample) -> Option<f64>) -> Curve {
        Curve::new(self.max_gap(), self.engine.iter().map(|sample| (sample.at.as_nanos(), of(sample))))
    }

    /// A quantity of the processors of each source, all of a source together.
    pub(super) fn gpu_curves(&self, together: Together, of: impl Fn(&GpuReading) -> Option<f64>) -> Vec<Curve> {
        let curve = |samples: &Vec<GpuSample>| {
            let count = names_of(samples).len();
            let value = |sample: &GpuSample| {
                let values: Vec<f64> = sample.gpus.iter().filter_map(&of).collect();
                let sum: f64 = values.iter().sum();
                (values.len() == count && count > 0).then(|| match together {
                    Together::Sum => sum,
                    Together::Mean => sum / count as f64,
                })
            };
            Curve::new(self.max_gap(), samples.iter().map(|sample| (sample.at.as_nanos(), value(sample))))
        };
        self.gpus.iter().map(curve).collect()
    }

    /// Every processor that was named.
    pub fn gpu_names(&self) -> Vec<String> {
        self.gpus.iter().flat_map(|samples| names_of(samples)).map(str::to_owned).collect()
    }

    /// The longest time within a window in which no reading of a source differed from the one before, if there are two (ns): how often
    /// the source itself looks.
    pub(super) fn longest_standstill(&self, from: u64, to: u64) -> Option<u64> {
        let of = |samples: &Vec<GpuSample>| {
            let inside: Vec<&GpuSample> =
                samples.iter().filter(|sample| (from..=to).contains(&sample.at.as_nanos())).collect();
            let mut changed: Option<Tick> = None;
            let mut longest = None;
            for (place, sample) in inside.iter().enumerate() {
                if place == 0 || inside[place - 1].gpus != sample.gpus {
                    changed = Some(sample.at);
                }
                let since = (sample.at - changed.unwrap_or(sample.at)).as_nanos();
                longest = longest.max((place > 0).then_some(since));
            }
            longest
        };
        self.gpus.iter().filter_map(of).max()
    }
}

/// How processors are put together.
#[derive(Clone, Copy)]
pub(super) enum Together {
    Sum,
    Mean,
}

fn names_of(samples: &[GpuSample]) -> BTreeSet<&str> {
    samples.iter().flat_map(|sample| sample.gpus.iter().map(|gpu| gpu.name.as_str())).collect()
}
