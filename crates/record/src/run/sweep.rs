//! Requests in flight over time, exactly: a sweep over starts and ends.
//!
//! Invariant: intervals are half open, so that one that ends at a tick does not overlap one that starts at it; no buckets,
//! no sampling.

use serde::{Deserialize, Serialize};
use tokrate_core::{Span, Tick};

/// Concurrency as it was, in requests in flight (sent, and not yet ended).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedConcurrency {
    /// Average over the time from the first request sent to the last one ended; absent without requests.
    pub mean: Option<f64>,
    /// Peak.
    pub peak: u32,
    /// The most that the plan allowed.
    pub cap: Option<u32>,
}

/// The number of open intervals as a step function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sweep {
    /// From this tick on the level holds, until the next step. Ticks rise strictly; the last level is 0.
    steps: Vec<(Tick, u32)>,
}

impl Sweep {
    /// Sweeps over half-open intervals (start, end); those that end where they start or before count for nothing.
    pub fn over(intervals: impl IntoIterator<Item = (Tick, Tick)>) -> Sweep {
        let mut edges: Vec<(Tick, i32)> = Vec::new();
        for (start, end) in intervals.into_iter().filter(|(start, end)| start < end) {
            edges.push((start, 1));
            edges.push((end, -1));
        }
        edges.sort_unstable();
        let mut steps: Vec<(Tick, u32)> = Vec::new();
        let mut level = 0_i64;
        for group in edges.chunk_by(|a, b| a.0 == b.0) {
            level += group.iter().map(|(_, change)| i64::from(*change)).sum::<i64>();
            let level = u32::try_from(level).expect("every end has its start before it, and there are below 2^32");
            if steps.last().is_none_or(|(_, last)| *last != level) {
                steps.push((group[0].0, level));
            }
        }
        Sweep { steps }
    }

    /// The largest level.
    pub fn peak(&self) -> u32 {
        self.steps.iter().map(|(_, level)| *level).max().unwrap_or(0)
    }

    /// The area under the step function: level times nanoseconds, exactly.
    pub fn area(&self) -> u128 {
        let held = |pair: &[(Tick, u32)]| u128::from(pair[0].1) * u128::from((pair[1].0 - pair[0].0).as_nanos());
        self.steps.windows(2).map(held).sum()
    }

    /// From the first start to the last end.
    pub fn extent(&self) -> Option<Span> {
        self.steps.first().zip(self.steps.last()).map(|(first, last)| last.0 - first.0)
    }

    /// The average level over [`Sweep::extent`].
    pub fn mean(&self) -> Option<f64> {
        self.extent().map(|extent| self.area() as f64 / extent.as_nanos() as f64)
    }

    /// The first tick at or after `from` at which the level is `target` or more, and the last tick at which it falls
    /// below that for good.
    pub fn plateau(&self, target: u32, from: Tick) -> Option<(Tick, Tick)> {
        let reached = |pair: &&[(Tick, u32)]| pair[0].1 >= target && pair[1].0 > from;
        let mut held = self.steps.windows(2).filter(reached);
        let first = held.next()?;
        let last = held.next_back().unwrap_or(first);
        Some((first[0].0.max(from), last[1].0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_interval_widens_nothing_wherever_it_lies() {
        let sweep = |intervals: &[(u64, u64)]| {
            Sweep::over(intervals.iter().map(|&(start, end)| (Tick::from_nanos(start), Tick::from_nanos(end))))
        };
        let line = sweep(&[(3, 3), (10, 20), (90, 90), (60, 50)]);
        assert_eq!((line.extent(), line.mean(), line.peak()), (Some(Span::from_nanos(10)), Some(1.0), 1));
        assert_eq!(line, sweep(&[(10, 20)]));
        assert_eq!(sweep(&[(5, 5)]).mean(), None, "no time passed, so there is no mean over it");
    }
}
