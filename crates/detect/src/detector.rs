//! Follows every source of a stream of samples, and sets aside what a prober did wrong.
//!
//! Samples of one hour and place are looked at together before they count: where half of at least three unrelated providers
//! fail or move far to the bad side at once, the prober is at fault (its network, its resolver, its machine), and the hour is
//! reported as a quarantine instead of as many regressions. While fewer than three providers are known, nothing waits.
//!
//! Invariant: a sample is either counted or part of a quarantine.

use crate::event::{ChangeKind, Event};
use crate::level::FalseAlarms;
use crate::sample::{Sample, Source};
use crate::series::HOUR_MS;
use crate::tracker::Tracker;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest providers that have to be seen, and to be bad, in an hour.
const LEAST_PROVIDERS: usize = 3;
/// An hour that follows a quarantine within so long belongs to it.
const SAME_FAULT_MS: i64 = 3 * HOUR_MS;

/// Follows samples of many endpoints.
#[derive(Clone, Debug)]
pub struct Detector {
    allowed: FalseAlarms,
    trackers: BTreeMap<Source, Tracker>,
    providers: BTreeSet<String>,
    /// Samples of the present hour, by place.
    waiting: BTreeMap<String, Vec<Sample>>,
    hour: i64,
    /// When the latest quarantined hour of a place began.
    quarantined: BTreeMap<String, i64>,
    suspects: BTreeSet<Source>,
}

impl Detector {
    /// A detector that reports nothing more often by chance than this, for each number of each source.
    pub fn new(allowed: FalseAlarms) -> Detector {
        Detector {
            allowed,
            trackers: BTreeMap::new(),
            providers: BTreeSet::new(),
            waiting: BTreeMap::new(),
            hour: i64::MIN,
            quarantined: BTreeMap::new(),
            suspects: BTreeSet::new(),
        }
    }

    /// Adds a sample; samples come in the order of their times.
    pub fn push(&mut self, sample: Sample) -> Vec<Event> {
        let mut events = Vec::new();
        let hour = sample.at.div_euclid(HOUR_MS);
        if hour != self.hour {
            events = self.end_hour();
            self.hour = hour;
        }
        if self.providers.len() < LEAST_PROVIDERS && !self.providers.contains(sample.source.provider()) {
            self.providers.insert(sample.source.provider().to_owned());
        }
        if self.providers.len() < LEAST_PROVIDERS {
            self.count(&sample, &mut events);
        } else {
            self.waiting.entry(sample.source.place.clone()).or_default().push(sample);
        }
        events
    }

    /// Counts what waits for its hour to end.
    pub fn end_hour(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for (place, samples) in std::mem::take(&mut self.waiting) {
            if self.is_prober_fault(&samples) {
                let began = self.hour * HOUR_MS;
                let before = self.quarantined.insert(place.clone(), began);
                if before.is_none_or(|before| began - before > SAME_FAULT_MS) {
                    events.push(quarantine(&place, &samples));
                }
                continue;
            }
            for sample in &samples {
                self.count(sample, &mut events);
            }
        }
        events.sort_by_key(|event| event.at);
        events
    }

    /// Sources of which further samples would settle a suspicion, since this was last asked.
    pub fn take_suspects(&mut self) -> BTreeSet<Source> {
        std::mem::take(&mut self.suspects)
    }

    fn count(&mut self, sample: &Sample, events: &mut Vec<Event>) {
        let tracker = self.trackers.entry(sample.source.clone()).or_insert_with(|| Tracker::new(self.allowed));
        if tracker.push(sample, events) {
            self.suspects.insert(sample.source.clone());
        }
    }

    /// Whether half of the providers of an hour are bad, of those whose usual is known, or fail, of all.
    fn is_prober_fault(&self, samples: &[Sample]) -> bool {
        let (mut judged, mut failed) = (Shares::default(), Shares::default());
        for sample in samples {
            let provider = sample.source.provider();
            failed.add(provider, !sample.ok);
            if let Some(is_bad) = self.trackers.get(&sample.source).and_then(|tracker| tracker.is_bad(sample)) {
                judged.add(provider, is_bad);
            }
        }
        judged.are_bad() || failed.are_bad()
    }
}

/// Of each provider how many samples are bad, and how many there are.
#[derive(Default)]
struct Shares<'s>(BTreeMap<&'s str, (usize, usize)>);

impl<'s> Shares<'s> {
    fn add(&mut self, provider: &'s str, is_bad: bool) {
        let (bad, all) = self.0.entry(provider).or_default();
        *bad += usize::from(is_bad);
        *all += 1;
    }

    fn are_bad(&self) -> bool {
        let bad = self.0.values().filter(|(bad, all)| 2 * bad > *all).count();
        bad >= LEAST_PROVIDERS && 2 * bad >= self.0.len()
    }
}

fn quarantine(place: &str, samples: &[Sample]) -> Event {
    let (first, last) = (samples[0].at, samples[samples.len() - 1].at);
    Event {
        at: last,
        source: Source { endpoint: "*".to_owned(), workload: "*".to_owned(), place: place.to_owned() },
        metric: "all",
        kind: ChangeKind::Quarantine,
        since: first,
        since_earliest: first,
        since_latest: first,
        change: 0.0,
        low: 0.0,
        high: 0.0,
        p: 0.0,
        n: samples.len(),
    }
}
