//! Samples for the report's charts, thinned to keep the page small.
//!
//! Invariant: thinning is even and deterministic, and the number of failed requests is kept.

use tokrate_meter::RequestNumbers;
use tokrate_record::PhaseResult;
use tokrate_record::run::Load;

/// Most values kept per phase, of a distribution and of a timeline; bounds the size of the page.
const MAX_VALUES: usize = 2_000;
const MAX_REQUESTS: usize = 1_500;

/// What the pictures of all phases are drawn from.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    pub(super) phases: Vec<PhaseSamples>,
}

/// What the pictures of one phase are drawn from.
#[derive(Clone, Debug)]
pub(super) struct PhaseSamples {
    pub name: String,
    load: Load,
    /// Seconds.
    pub ttft: Vec<f64>,
    /// Seconds.
    pub gaps: Vec<f64>,
    pub failed: usize,
    pub requests: Vec<RequestTimeline>,
    /// Where they differ from request to request.
    pub lengths: LengthSamples,
    /// Seconds, of requests for vectors or scores.
    pub e2e: Vec<f64>,
}

/// Lengths of measured requests in tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct LengthSamples {
    pub input: Vec<f64>,
    pub asked: Vec<f64>,
    pub output: Vec<f64>,
}

/// The samples of all rounds at one load.
#[derive(Clone, Debug)]
pub(super) struct LoadSamples {
    load: Load,
    /// Seconds.
    pub ttft: Vec<f64>,
    /// Seconds.
    pub gaps: Vec<f64>,
    /// Seconds, of requests for vectors or scores.
    pub e2e: Vec<f64>,
    pub failed: usize,
}

impl LoadSamples {
    /// The load in few words.
    pub fn name(&self) -> String {
        self.load.short()
    }
}

/// One request of a timeline, in seconds since the phase began.
#[derive(Clone, Debug)]
pub(super) struct RequestTimeline {
    pub index: u64,
    pub sent: f64,
    pub first: Option<f64>,
    pub end: f64,
    pub failure: Option<tokrate_core::FailureKind>,
}

impl Samples {
    /// Adds the rows of a phase.
    pub fn add(&mut self, phase: &PhaseResult, rows: &[RequestNumbers]) {
        let measured: Vec<&RequestNumbers> = rows.iter().filter(|row| row.is_answered() && !row.warmup).collect();
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let since = |tick: u64| seconds(tick.saturating_sub(phase.started_at_ns));
        let mut ttft: Vec<f64> = measured.iter().filter_map(|row| row.ttft_ns).map(seconds).collect();
        let mut gaps: Vec<f64> = measured.iter().flat_map(|row| row.gaps().map(|(gap, _)| seconds(gap))).collect();
        ttft.sort_unstable_by(f64::total_cmp);
        gaps.sort_unstable_by(f64::total_cmp);
        let requests: Vec<RequestTimeline> = rows
            .iter()
            .map(|row| RequestTimeline {
                index: row.index,
                sent: since(row.sent_at_ns.unwrap_or(row.due_at_ns)),
                first: row.first_text_at_ns.map(since),
                end: since(row.ended_at_ns),
                failure: row.failure_kind(),
            })
            .collect();
        let of_items = measured.iter().filter(|row| row.items.is_some());
        let mut e2e: Vec<f64> = of_items.filter_map(|row| row.e2e_ns).map(seconds).collect();
        e2e.sort_unstable_by(f64::total_cmp);
        let lengths = |of: fn(&RequestNumbers) -> Option<u64>| {
            let differ = measured.iter().filter(|_| phase.lengths.is_some());
            let mut lengths: Vec<f64> = differ.filter_map(|row| of(row)).map(|length| length as f64).collect();
            lengths.sort_unstable_by(f64::total_cmp);
            thinned(lengths, MAX_VALUES)
        };
        let failed = rows.iter().filter(|row| !row.warmup && !row.is_answered()).count();
        self.phases.push(PhaseSamples {
            name: phase.name.clone(),
            load: phase.load,
            ttft: thinned(ttft, MAX_VALUES),
            gaps: thinned(gaps, MAX_VALUES),
            failed,
            requests: thinned(requests, MAX_REQUESTS),
            e2e: thinned(e2e, MAX_VALUES),
            lengths: LengthSamples {
                input: lengths(|row| row.input_asked),
                asked: lengths(|row| row.output_asked),
                output: lengths(|row| Some(row.tokens_std).filter(|_| row.items.is_none())),
            },
        });
    }
}

impl Samples {
    /// The same with the phases from the lowest load to the highest.
    pub(super) fn by_rising_load(&self) -> Samples {
        let mut rising = self.clone();
        rising.phases.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
        rising
    }

    /// The samples by load, from the lowest to the highest.
    pub(super) fn by_load(&self) -> Vec<LoadSamples> {
        let mut loads: Vec<LoadSamples> = Vec::new();
        for phase in &self.phases {
            match loads.iter_mut().find(|load| load.load == phase.load) {
                Some(load) => {
                    load.ttft.extend(&phase.ttft);
                    load.gaps.extend(&phase.gaps);
                    load.e2e.extend(&phase.e2e);
                    load.failed += phase.failed;
                }
                None => loads.push(LoadSamples {
                    load: phase.load,
                    ttft: phase.ttft.clone(),
                    gaps: phase.gaps.clone(),
                    e2e: phase.e2e.clone(),
                    failed: phase.failed,
                }),
            }
        }
        loads.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
        loads
    }
}

/// At most `most` of the values, evenly spread over their order, first and last among them.
fn thinned<T: Clone>(values: Vec<T>, most: usize) -> Vec<T> {
    if values.len() <= most {
        return values;
    }
    let last = values.len() - 1;
    (0..most).map(|position| values[position * last / (most - 1)].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_is_even_and_keeps_both_ends() {
        let kept = thinned((0..10_001).collect::<Vec<u32>>(), 101);
        assert_eq!((kept.len(), kept[0], kept[50], kept[100]), (101, 0, 5_000, 10_000));
        assert_eq!(thinned(vec![1, 2], 10), [1, 2]);
    }
}
