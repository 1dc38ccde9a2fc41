//! Keeps rows, and runs the detector on those that count.
//!
//! What cannot be written now is held and written later, up to a limit. Samples go through the detector in the order of their times,
//! once their cycle has ended; after a restart the detector is fed from the store, and nothing that was reported before is reported
//! again.
//!
//! Invariant: a change is kept together with how far the detector has come, so that it is reported once.

use crate::MonitorError;
use crate::alerting::{AlertSettings, Alerting};
use crate::canary::{FIDELITY, is_canary};
use crate::push::entry_of;
use crate::row::{StreamForm, detected, stream_form};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokrate_alert::Delivery;
use tokrate_detect::{ChangeKind, Detector, Event, FalseAlarms, Source, StreamChange, StreamWatch};
use tokrate_prober::{ClosedCycle, ReferenceResult};
use tokrate_store::{EventRow, MonitorStore, MonitorWrite, ProbeQuery, ProbeRow, ProbeStore};

/// What the detector looks back: a baseline of 28 days that ends six days ago, and a day more.
const HISTORY_MS: u64 = 35 * 86_400_000;
/// The detector holds samples of the latest hour back.
const HELD_MS: i64 = 2 * 3_600_000;
/// A cycle that does not count within so long of another belongs to the same fault.
const SAME_FAULT_MS: i64 = 6 * 3_600_000;
/// Most things that are held while the disk is full: a day of 200 endpoints.
const MAX_HELD: usize = 20_000;
/// Rows that are removed at a time.
const PRUNE_ROWS: u64 = 5_000;

/// Who records, and how long it is kept.
#[derive(Clone, Debug)]
pub(crate) struct RecorderConfig {
    pub prober: String,
    pub place: String,
    pub false_alarms: FalseAlarms,
    pub retention_ms: u64,
    pub alerts: AlertSettings,
    /// Whether what is kept goes to a hub.
    pub pushes: bool,
}

/// What was found since it was last asked.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Findings {
    /// Changes.
    pub events: Vec<EventRow>,
    /// Series of which further probes would settle a suspicion: endpoint and workload.
    pub suspects: BTreeSet<(String, String)>,
}

/// Keeps and detects.
pub(crate) struct Recorder {
    config: RecorderConfig,
    store: MonitorStore,
    detector: Detector,
    /// Forms of streams, by series and number.
    streams: BTreeMap<(Source, &'static str), StreamWatch>,
    /// Not written yet.
    held: VecDeque<MonitorWrite>,
    lost: u64,
    /// Whether something was lost since all that the rules of alerts remember was written.
    is_short_of_alerts: bool,
    failure: Option<String>,
    /// Rows of cycles that have not ended, by the cycle's name.
    open: BTreeMap<String, OpenRows>,
    /// Rows that count and wait for older cycles to end, by time and id.
    waiting: BTreeMap<(u64, String), ProbeRow>,
    /// Events before this were found by an earlier run.
    reported_until: i64,
    /// When the latest cycle that does not count began.
    quarantined_at: Option<i64>,
    /// Events of an earlier run that the detector may find again.
    known: Vec<EventRow>,
    findings: Findings,
    alerting: Alerting,
    /// The wall time at which this was last asked to do something (ms since 1970).
    now_unix_ms: u64,
}

#[derive(Debug, Default)]
struct OpenRows {
    begun_unix_ms: u64,
    rows: Vec<ProbeRow>,
}

impl Recorder {
    /// A recorder on a store; its detector begins where that of the earlier run was.
    pub fn new(config: RecorderConfig, store: MonitorStore, now_unix_ms: u64) -> Result<Recorder, MonitorError> {
        let of_prober = store.known_probers()?.into_iter().find(|row| row.name == config.prober);
        let detected_until = of_prober.map_or(i64::MIN, |row| row.detected_unix_ms);
        let (alerting, held) = Alerting::new(&config.prober, &config.alerts, &store, now_unix_ms)?;
        let mut recorder = Recorder {
            alerting,
            now_unix_ms,
            detector: Detector::new(config.false_alarms.with_further_probes()),
            config,
            store,
            streams: BTreeMap::new(),
            held: held.into(),
            lost: 0,
            is_short_of_alerts: false,
            failure: None,
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
            reported_until: i64::MAX,
            quarantined_at: None,
            known: Vec::new(),
            findings: Findings::default(),
        };
        let query = ProbeQuery {
            from_unix_ms: Some(now_unix_ms.saturating_sub(HISTORY_MS)),
            prober: Some(recorder.config.prober.clone()),
            counted_only: true,
            ..ProbeQuery::default()
        };
        let mut history = Vec::new();
        recorder.store.visit_probes(&query, &mut |row| history.push((detected(&row), stream_form(&row))))?;
        recorder.known = recorder.store.events(detected_until.saturating_sub(HELD_MS))?;
        recorder.reported_until = detected_until.saturating_sub(HELD_MS);
        for (sample, form) in history {
            recorder.examine(sample, form);
        }
        // A suspicion of yesterday asks for nothing now.
        recorder.detector.take_suspects();
        recorder.findings.suspects.clear();
        recorder.write_held();
        Ok(recorder)
    }

    /// Limits the database.
    pub fn limit(&mut self, max_bytes: u64) -> Result<(), tokrate_store::StoreError> {
        self.store.limit(max_bytes)
    }

    pub fn store(&self) -> &MonitorStore {
        &self.store
    }

    /// A cycle has begun.
    pub fn begin_cycle(&mut self, cycle: String, at_unix_ms: u64) {
        self.open.insert(cycle.clone(), OpenRows { begun_unix_ms: at_unix_ms, rows: Vec::new() });
        self.hold(MonitorWrite::CycleBegun {
            cycle,
            prober: self.config.prober.clone(),
            place: self.config.place.clone(),
            at_unix_ms,
        });
        self.write_held();
    }

    /// A request has ended.
    pub fn keep(&mut self, rows: Vec<ProbeRow>) {
        for row in rows {
            self.hold(MonitorWrite::Probe(Box::new(row.clone())));
            self.open.entry(row.cycle.clone()).or_default().rows.push(row);
        }
        self.write_held();
    }

    /// Takes rows of an open cycle that an earlier run has written.
    pub fn take_over<'r>(&mut self, rows: impl Iterator<Item = &'r ProbeRow>) {
        for row in rows {
            self.open.entry(row.cycle.clone()).or_default().rows.push(row.clone());
        }
    }

    /// A cycle has ended, and counts or does not.
    pub fn end_cycle(&mut self, cycle: String, closed: &ClosedCycle, at_unix_ms: u64) {
        self.now_unix_ms = at_unix_ms;
        let reference: Vec<serde_json::Value> = closed.references.iter().map(reference_json).collect();
        let reference = serde_json::Value::Array(reference).to_string();
        let quarantine = closed.quarantine.clone();
        let OpenRows { rows, .. } = self.open.remove(&cycle).unwrap_or_default();
        if let Some(reason) = &quarantine {
            self.quarantined(&rows, reason, at_unix_ms);
        } else {
            for mut row in rows {
                row.probe.quarantine = None;
                self.alerting.probe(&row, at_unix_ms);
                self.waiting.insert((row.probe.sample.started_unix_ms, row.probe.id.clone()), row);
            }
        }
        self.hold(MonitorWrite::CycleEnded { cycle, at_unix_ms, reference, quarantine });
        self.detect();
        self.write_held();
    }

    /// Something that users should know.
    pub fn notice(&mut self, text: String, at_unix_ms: u64) {
        self.hold(MonitorWrite::Notice { at_unix_ms, prober: self.config.prober.clone(), text });
    }

    /// The prober is alive, and has missed so many probes since the last time.
    pub fn seen(&mut self, at_unix_ms: u64, missed: u64) {
        let (prober, place) = (self.config.prober.clone(), self.config.place.clone());
        self.hold(MonitorWrite::Seen { prober, place, at_unix_ms, missed });
        self.write_held();
    }

    /// Passes time on to the rules of alerts.
    pub fn poll_alerts(&mut self, now_unix_ms: u64) {
        self.now_unix_ms = now_unix_ms;
        if self.alerting.wake_at(now_unix_ms).is_some_and(|wake_at| wake_at <= now_unix_ms) {
            self.write_held();
        }
    }

    /// Lets the rules look for probers that are silent.
    pub fn look_for_silence(&mut self, now_unix_ms: u64) {
        self.now_unix_ms = now_unix_ms;
        if !self.alerting.watches_probers() {
            return;
        }
        match self.store.known_probers() {
            Ok(probers) => self.alerting.probers(&probers, now_unix_ms),
            Err(error) => self.failure = Some(error.to_string()),
        }
        self.write_held();
    }

    /// The next message to deliver. What is not written yet is not sent.
    pub fn take_delivery(&mut self, now_unix_ms: u64) -> Option<Delivery> {
        if self.held.is_empty() { self.alerting.take_due(now_unix_ms) } else { None }
    }

    /// What came of a delivery; returns what users should know.
    pub fn delivered(&mut self, delivery: &Delivery, result: Result<(), String>, now_unix_ms: u64) -> Option<String> {
        self.now_unix_ms = now_unix_ms;
        let (writes, notice) = self.alerting.ended(delivery, result, now_unix_ms);
        writes.into_iter().for_each(|write| self.hold(write));
        if let Some(text) = &notice {
            self.notice(text.clone(), now_unix_ms);
        }
        self.write_held();
        notice
    }

    /// When an alert or a delivery is due (ms since 1970).
    pub fn alert_wake_at(&self, now_unix_ms: u64) -> Option<u64> {
        let delivery = if self.held.is_empty() { self.alerting.delivery_at() } else { None };
        [self.alerting.wake_at(now_unix_ms), delivery].into_iter().flatten().min()
    }

    /// Removes what is older than it is kept.
    pub fn prune(&mut self, now_unix_ms: u64) {
        let before = now_unix_ms.saturating_sub(self.config.retention_ms);
        if let Err(error) = self.store.prune(before, PRUNE_ROWS) {
            self.failure = Some(error.to_string());
        }
    }

    /// What was found since this was last asked.
    pub fn take_findings(&mut self) -> Findings {
        std::mem::take(&mut self.findings)
    }

    /// Why something could not be written, since this was last asked; rows that were lost over it are counted.
    pub fn take_failure(&mut self) -> Option<String> {
        let failure = self.failure.take()?;
        Some(match self.lost {
            0 => format!("{failure}; {} rows are held until it can", self.held.len()),
            lost => format!("{failure}; {} rows are held and {lost} were lost", self.held.len()),
        })
    }

    fn hold(&mut self, write: MonitorWrite) {
        if self.held.len() >= MAX_HELD {
            self.held.pop_front();
            self.lost += 1;
            self.is_short_of_alerts = true;
        }
        let spooled = if self.config.pushes { entry_of(&write) } else { None };
        self.held.push_back(write);
        if let Some(entry) = spooled {
            // Plain data always becomes JSON.
            self.held.extend(serde_json::to_string(&entry).ok().map(MonitorWrite::Spooled));
        }
    }

    /// Writes what waits, if it can.
    pub fn write_held(&mut self) {
        // With what the rules made of it, in one transaction.
        for write in self.alerting.poll(self.now_unix_ms) {
            self.hold(write);
        }
        if self.held.is_empty() {
            return;
        }
        match self.store.apply(self.held.make_contiguous()) {
            Ok(()) => self.held.clear(),
            Err(error) => self.failure = Some(error.to_string()),
        }
        // What was held for too long and is lost may have been of the rules.
        if self.held.is_empty() && std::mem::take(&mut self.is_short_of_alerts) {
            self.alerting.write_anew();
            self.write_held();
        }
    }

    /// Gives the detector what no open cycle can come before.
    fn detect(&mut self) {
        let first_open = self.open.values().map(|open| open.begun_unix_ms).min().unwrap_or(u64::MAX);
        let mut until = None;
        while let Some(entry) = self.waiting.first_entry().filter(|entry| entry.key().0 < first_open) {
            let row = entry.remove();
            let sample = detected(&row);
            until = Some(sample.at);
            self.examine(sample, stream_form(&row));
        }
        let suspects = self.detector.take_suspects();
        self.findings.suspects.extend(suspects.into_iter().map(|source| (source.endpoint, source.workload)));
        if let Some(until_unix_ms) = until {
            self.hold(MonitorWrite::Detected { prober: self.config.prober.clone(), until_unix_ms });
        }
    }

    /// Gives a sample to the detector, and the form of its stream to those who follow it.
    fn examine(&mut self, sample: tokrate_detect::Sample, form: StreamForm) {
        for (metric, value) in form {
            let watch = self.streams.entry((sample.source.clone(), metric)).or_default();
            let change = value.and_then(|value| watch.push(sample.at, value));
            if let Some(row) = change.map(|change| stream_row(&sample, metric, &change)).filter(|row| self.is_new(row))
            {
                self.found(row);
            }
        }
        let events = self.detector.push(sample);
        self.report(events);
    }

    /// A change is kept and passed on.
    fn found(&mut self, row: EventRow) {
        self.alerting.change(&row, self.now_unix_ms);
        self.hold(MonitorWrite::Event(Box::new(row.clone())));
        self.findings.events.push(row);
    }

    /// Whether a change was not found before.
    fn is_new(&self, row: &EventRow) -> bool {
        row.at_unix_ms > self.reported_until && !self.known.iter().any(|other| is_same(other, row))
    }

    /// Keeps events that were not found before.
    fn report(&mut self, events: Vec<Event>) {
        for event in events {
            let row = event_row(&event, None);
            if !self.is_new(&row) {
                continue;
            }
            if event.kind == ChangeKind::Quarantine {
                let time = |ms: i64| u64::try_from(ms).unwrap_or(0);
                self.hold(MonitorWrite::Quarantine {
                    place: event.source.place.clone(),
                    prober: self.config.prober.clone(),
                    from_unix_ms: time(event.since),
                    until_unix_ms: time(event.at),
                    reason: "half of the unrelated providers moved together within an hour".to_owned(),
                });
            }
            self.found(row);
        }
    }

    /// Reports a cycle that does not count.
    fn quarantined(&mut self, rows: &[ProbeRow], reason: &str, at_unix_ms: u64) {
        let times = || rows.iter().map(|row| row.probe.sample.started_unix_ms);
        let time = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let since = time(times().min().unwrap_or(at_unix_ms));
        // Cycle after cycle of one fault is one event.
        let is_same_fault = self.quarantined_at.is_some_and(|before| since - before < SAME_FAULT_MS);
        self.quarantined_at = Some(since);
        if is_same_fault {
            return;
        }
        let event = Event {
            at: time(times().max().unwrap_or(at_unix_ms)),
            source: Source { endpoint: "*".to_owned(), workload: "*".to_owned(), place: self.config.place.clone() },
            metric: "all",
            kind: ChangeKind::Quarantine,
            since,
            since_earliest: since,
            since_latest: since,
            change: 0.0,
            low: 0.0,
            high: 0.0,
            p: 0.0,
            n: rows.len(),
        };
        self.found(event_row(&event, Some(reason.to_owned())));
    }
}

/// An event as it is kept.
fn event_row(event: &Event, remark: Option<String>) -> EventRow {
    EventRow {
        at_unix_ms: event.at,
        endpoint: event.source.endpoint.clone(),
        workload: event.source.workload.clone(),
        place: event.source.place.clone(),
        metric: event.metric.to_owned(),
        // What fails at a task is the answer.
        kind: match event.kind {
            ChangeKind::Errors if is_canary(&event.source.workload) => FIDELITY.to_owned(),
            kind => kind.name().to_owned(),
        },
        since_unix_ms: event.since,
        since_earliest_unix_ms: event.since_earliest,
        since_latest_unix_ms: event.since_latest,
        change: event.change,
        low: event.low,
        high: event.high,
        p: event.p,
        n: event.n as u64,
        remark,
    }
}

/// A change of a stream's form as it is kept.
fn stream_row(sample: &tokrate_detect::Sample, metric: &'static str, change: &StreamChange) -> EventRow {
    let remark = "the stream has another form: a new batching, speculation or proxy shows so".to_owned();
    EventRow {
        at_unix_ms: sample.at,
        endpoint: sample.source.endpoint.clone(),
        workload: sample.source.workload.clone(),
        place: sample.source.place.clone(),
        metric: metric.to_owned(),
        kind: "stream".to_owned(),
        since_unix_ms: change.since,
        since_earliest_unix_ms: change.since,
        since_latest_unix_ms: change.since,
        change: change.change,
        low: change.range.0,
        high: change.range.1,
        p: change.p,
        n: change.n as u64,
        remark: Some(remark),
    }
}

fn is_same(one: &EventRow, other: &EventRow) -> bool {
    let key = |row: &EventRow| {
        (
            row.at_unix_ms,
            row.endpoint.clone(),
            row.workload.clone(),
            row.place.clone(),
            row.metric.clone(),
            row.kind.clone(),
        )
    };
    key(one) == key(other)
}

fn reference_json(reference: &ReferenceResult) -> serde_json::Value {
    serde_json::json!({
        "ttft_error_ns": reference.ttft_error_ns,
        "speed_error": reference.speed_error,
        "failure": reference.failure,
    })
}

mod pushed;

#[cfg(test)]
mod tests;
