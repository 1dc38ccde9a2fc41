//! What a monitor does between the clock and the network: the prober decides, the recorder keeps and detects, suspicions go back to the
//! prober. Real and virtual time drive the same.
//!
//! Invariant: after a restart no slot is probed twice, no budget begins anew, and a cycle that was under way is judged by what is
//! left of it.

use crate::MonitorError;
use crate::push::{Batch, PushAnswer, Refusal};
use crate::recorder::{Findings, Recorder, RecorderConfig};
use crate::row::{Frame, outcome};
use crate::settings::Settings;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use tokrate_alert::Delivery;
use tokrate_core::{Date, Money, Span, Tick};
use tokrate_prober::{ClosedCycle, Notice, Order, Outcome, Prober, ReferenceResult, SeriesId, Spent, Step};
use tokrate_store::{EventRow, MonitorStore, ProbeQuery, ProbeRow, ProbeStore, SpoolEntry};

const DAY_MS: u64 = 86_400_000;
/// What is usual is learned again from the latest days.
const USUAL_MS: u64 = 7 * DAY_MS;
/// How often the store hears that the prober is alive, and how often old rows are removed (ms).
const ALIVE_MS: u64 = 600_000;
const PRUNE_MS: u64 = 3_600_000;

/// Something that a monitor reports.
#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// The database is open and probes are scheduled.
    Started,
    /// A change was found.
    Event(EventRow),
    /// Something that users should know.
    Notice(String),
    /// A request of a probe has ended.
    Probe(Box<ProbeRow>),
}

/// Prober and recorder.
pub(crate) struct Core {
    pub settings: Arc<Settings>,
    pub frame: Frame,
    pub prober: Prober,
    recorder: Recorder,
    /// By endpoint and workload.
    ids: BTreeMap<(String, String), SeriesId>,
    begun: BTreeSet<u64>,
    missed: u64,
    alive_at: u64,
    pruned_at: u64,
    reports: VecDeque<Report>,
}

impl Core {
    /// Takes over what earlier runs have left in the store. `run` is unique among the starts of this prober.
    pub fn new(settings: Arc<Settings>, store: MonitorStore, run: u64, wall_ms: u64) -> Result<Core, MonitorError> {
        let prober = Prober::new(settings.schedule())?;
        let config = RecorderConfig {
            prober: settings.prober.clone(),
            place: settings.place.clone(),
            false_alarms: settings.false_alarms,
            retention_ms: settings.retention.as_nanos() / 1_000_000,
            alerts: settings.alerts.clone(),
            pushes: settings.push.is_some(),
        };
        let names = |series: &tokrate_prober::Series| {
            (settings.endpoints[series.endpoint].name.clone(), settings.workloads[series.workload].name.clone())
        };
        let ids = prober.series().iter().enumerate().map(|(id, series)| (names(series), id)).collect();
        let mut core = Core {
            frame: Frame::new(&settings, run),
            recorder: Recorder::new(config, store, wall_ms)?,
            settings,
            prober,
            ids,
            begun: BTreeSet::new(),
            missed: 0,
            alive_at: 0,
            pruned_at: wall_ms,
            reports: VecDeque::new(),
        };
        core.restore(wall_ms)?;
        Ok(core)
    }

    /// What to do now.
    pub fn poll(&mut self, now: Tick, wall_ms: u64) -> Step {
        let step = self.prober.poll(now, wall_ms);
        if let Step::Reference { cycle } | Step::Probe(Order { cycle, .. }) = step
            && self.begun.insert(cycle)
        {
            self.recorder.begin_cycle(self.frame.cycle(cycle), wall_ms);
        }
        self.settle(wall_ms);
        step
    }

    /// The requests of a probe have ended.
    pub fn completed(&mut self, order: &Order, rows: Vec<ProbeRow>, wall_ms: u64) {
        let outcome = outcome(&rows);
        self.reports.extend(rows.iter().map(|row| Report::Probe(Box::new(row.clone()))));
        self.recorder.keep(rows);
        self.prober.completed(order.number, outcome);
        self.settle(wall_ms);
    }

    /// A reference probe has ended.
    pub fn referenced(&mut self, now: Tick, cycle: u64, result: ReferenceResult, wall_ms: u64) {
        self.prober.referenced(now, cycle, result);
        self.settle(wall_ms);
    }

    /// The next message to deliver.
    pub fn take_delivery(&mut self, wall_ms: u64) -> Option<Delivery> {
        self.recorder.take_delivery(wall_ms)
    }

    /// What came of a delivery.
    pub fn delivered(&mut self, delivery: &Delivery, result: Result<(), String>, wall_ms: u64) {
        let notice = self.recorder.delivered(delivery, result, wall_ms);
        self.reports.extend(notice.map(Report::Notice));
    }

    /// How long there is nothing to do for alerts.
    pub fn alert_wait(&self, wall_ms: u64) -> Option<Span> {
        let wake_at = self.recorder.alert_wake_at(wall_ms)?;
        Some(Span::from_millis(wake_at.saturating_sub(wall_ms)))
    }

    /// The oldest entries that the hub does not have.
    pub fn spool(&mut self) -> Vec<SpoolEntry> {
        let found = self.recorder.spool();
        found.unwrap_or_else(|error| {
            self.reports.push_back(Report::Notice(format!("failed to {error}")));
            Vec::new()
        })
    }

    /// The name of the spool; `fresh` becomes it in a new database.
    pub fn spool_name(&mut self, fresh: &str) -> Result<String, MonitorError> {
        Ok(self.recorder.spool_name(fresh)?)
    }

    /// Whether the hub has everything.
    pub fn is_pushed(&self) -> bool {
        self.recorder.is_pushed()
    }

    /// What came of a batch.
    pub fn push_ended(&mut self, answer: &PushAnswer, notice: Option<String>, wall_ms: u64) {
        if let PushAnswer::Has(last) = answer {
            self.recorder.spool_sent(*last);
        }
        if let Some(text) = notice {
            self.notice(text, wall_ms);
        }
    }

    /// A batch of another prober has come.
    pub fn take_batch(&mut self, batch: Batch, wall_ms: u64) -> Result<u64, Refusal> {
        let result = self.recorder.take_batch(batch, wall_ms);
        self.settle(wall_ms);
        result
    }

    /// Something that users should know.
    pub fn notice(&mut self, text: String, wall_ms: u64) {
        self.recorder.notice(text.clone(), wall_ms);
        self.recorder.write_held();
        self.reports.push_back(Report::Notice(text));
    }

    /// What happened since this was last asked.
    pub fn take_reports(&mut self) -> VecDeque<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Limits the database; what does not fit fails as on a full disk.
    pub fn limit_disk(&mut self, max_bytes: u64) -> Result<(), tokrate_store::StoreError> {
        self.recorder.limit(max_bytes)
    }

    /// The store.
    pub fn store(&self) -> &MonitorStore {
        self.recorder.store()
    }

    /// Passes on what prober and recorder found.
    fn settle(&mut self, wall_ms: u64) {
        for notice in self.prober.take_notices() {
            if let Notice::Missed { count, .. } = &notice {
                self.missed += count;
            }
            self.recorder.notice(notice.to_string(), wall_ms);
            self.reports.push_back(Report::Notice(notice.to_string()));
        }
        for closed in self.prober.take_closed() {
            if self.begun.remove(&closed.cycle) {
                self.recorder.end_cycle(self.frame.cycle(closed.cycle), &closed, wall_ms);
            }
        }
        let Findings { events, suspects } = self.recorder.take_findings();
        self.reports.extend(events.into_iter().map(Report::Event));
        for suspect in suspects {
            if let Some(id) = self.ids.get(&suspect) {
                self.prober.suspect(*id, wall_ms);
            }
        }
        if wall_ms.abs_diff(self.alive_at) >= ALIVE_MS || self.missed > 0 {
            self.alive_at = wall_ms;
            self.recorder.seen(wall_ms, std::mem::take(&mut self.missed));
            self.recorder.look_for_silence(wall_ms);
        }
        self.recorder.poll_alerts(wall_ms);
        if wall_ms.abs_diff(self.pruned_at) >= PRUNE_MS {
            self.pruned_at = wall_ms;
            self.recorder.prune(wall_ms);
            match self.recorder.bound_spool() {
                Ok(0) => {}
                Ok(over) => self.notice(format!("the hub was away for too long: {over} entries were dropped"), wall_ms),
                Err(error) => self.reports.push_back(Report::Notice(format!("failed to {error}"))),
            }
        }
        if let Some(failure) = self.recorder.take_failure() {
            self.reports.push_back(Report::Notice(format!("failed to {failure}")));
        }
    }

    fn restore(&mut self, wall_ms: u64) -> Result<(), MonitorError> {
        let prober = self.settings.prober.clone();
        let day = wall_ms / DAY_MS * DAY_MS;
        let date = Date::of_seconds(wall_ms / 1_000);
        let month = Date { day: 1, ..date }.day_number().unsigned_abs() * DAY_MS;
        let store = self.recorder.store();
        let spent = |further_only| -> Result<Spent, MonitorError> {
            let of_month = store.used(&prober, month, further_only)?;
            let of_day = store.used(&prober, day, further_only)?;
            Ok(Spent { money: Money::from_usd(of_month.usd).unwrap_or(Money::MAX), tokens: of_day.tokens })
        };
        let (all, further) = (spent(false)?, spent(true)?);
        let open = store.open_cycles(&prober)?;
        let query = ProbeQuery {
            from_unix_ms: Some(wall_ms.saturating_sub(USUAL_MS)),
            prober: Some(prober),
            ..ProbeQuery::default()
        };
        let rows = store.probes(&query)?;
        self.prober.restore_spent(wall_ms, all, further);
        let is_open = |row: &ProbeRow| open.iter().any(|cycle| cycle.cycle == row.cycle);
        let mut left: BTreeMap<&str, Vec<(SeriesId, Outcome)>> = BTreeMap::new();
        for requests in rows.chunk_by(|one, other| probe_of(one) == probe_of(other)) {
            let first = &requests[0];
            let Some(&id) = self.ids.get(&(first.probe.endpoint.clone(), first.probe.workload.clone())) else {
                continue;
            };
            let outcome = outcome(requests);
            let counts = first.probe.quarantine.is_none();
            self.prober.restore_probe(id, first.probe.due_unix_ms, first.is_further, counts.then_some(&outcome));
            if is_open(first) {
                left.entry(&first.cycle).or_default().push((id, outcome));
            }
        }
        for cycle in &open {
            let outcomes = left.remove(cycle.cycle.as_str()).unwrap_or_default();
            let quarantine = self.prober.judge(&[], &outcomes);
            self.recorder.begin_cycle(cycle.cycle.clone(), cycle.begun_unix_ms);
            self.recorder.take_over(rows.iter().filter(|row| row.cycle == cycle.cycle));
            let closed = ClosedCycle { cycle: 0, quarantine, references: Vec::new(), probes: Vec::new() };
            self.recorder.end_cycle(cycle.cycle.clone(), &closed, wall_ms);
        }
        Ok(())
    }
}

/// The probe that a request belongs to: its id without the number of the request.
fn probe_of(row: &ProbeRow) -> &str {
    row.probe.id.rsplit_once('-').map_or(row.probe.id.as_str(), |(probe, _)| probe)
}
