//! What was read of engine and graphics processors so far.
//!
//! Invariant: what could not be read is counted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokrate_core::Span;
use tokrate_meter::server_metrics::{EngineSample, GpuReading, GpuSample};
use tokrate_record::timeline::Samples;

/// The last that was read of engine and graphics processors.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LatestReadings {
    /// The engine, if its page could be read.
    pub engine: Option<EngineSample>,
    /// The graphics processors of all sources.
    pub gpus: Vec<GpuReading>,
}

/// What was read so far; shared by everyone who reads.
#[derive(Clone, Debug)]
pub(crate) struct Readings(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    samples: Samples,
    /// Readings that failed, and why the last did.
    failed: u64,
    reason: Option<String>,
}

impl Readings {
    /// Nothing yet, of so many sources of graphics processors.
    pub fn new(every: Span, gpu_sources: usize) -> Readings {
        let samples = Samples { every, engine: Vec::new(), gpus: vec![Vec::new(); gpu_sources] };
        Readings(Arc::new(Mutex::new(Held { samples, failed: 0, reason: None })))
    }

    pub fn add_engine(&self, sample: EngineSample) {
        self.held().samples.engine.push(sample);
    }

    pub fn add_gpus(&self, source: usize, sample: GpuSample) {
        self.held().samples.gpus[source].push(sample);
    }

    pub fn fail(&self, reason: String) {
        let mut held = self.held();
        held.failed += 1;
        held.reason = Some(reason);
    }

    /// Everything so far, in the order of time.
    pub fn samples(&self) -> Samples {
        let mut samples = self.held().samples.clone();
        samples.engine.sort_by_key(|sample| sample.at);
        samples.gpus.iter_mut().for_each(|source| source.sort_by_key(|sample| sample.at));
        samples
    }

    /// The last of each.
    pub fn latest(&self) -> LatestReadings {
        let held = self.held();
        let last = held.samples.gpus.iter().filter_map(|source| source.last());
        LatestReadings {
            engine: held.samples.engine.last().copied(),
            gpus: last.flat_map(|sample| sample.gpus.clone()).collect(),
        }
    }

    /// What is missing, in words.
    pub fn note(&self) -> Option<String> {
        let held = self.held();
        let reason = held.reason.as_deref()?;
        let times = if held.failed == 1 { "once" } else { &format!("{} times", held.failed) };
        Some(format!("metrics could not be read {times} during the run, and are missing then: {reason}"))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
