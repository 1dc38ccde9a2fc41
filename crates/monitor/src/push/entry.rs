//! What a prober keeps, as it goes to a hub.
//!
//! Invariant: an entry names neither prober nor place, which are those of its batch: nobody writes in another's name.

use serde::{Deserialize, Serialize};
use tokrate_core::one_line;
use tokrate_record::Probe;
use tokrate_store::{EventRow, MonitorWrite, ProbeRow};

/// Longest text of an event or a notice (bytes).
const MAX_TEXT_BYTES: usize = 512;
/// Longest JSON of a cycle's references.
const MAX_REFERENCE_BYTES: usize = 16 << 10;

/// An entry.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Entry {
    CycleBegun { cycle: String, at: u64 },
    Probe { cycle: String, slot: u64, further: bool, reason: Option<String>, probe: Box<Probe> },
    CycleEnded { cycle: String, at: u64, reference: String, quarantine: Option<String> },
    Quarantine { from: u64, until: u64, reason: String },
    Event(Box<Event>),
    Notice { at: u64, text: String },
    Seen { at: u64, missed: u64 },
}

/// A change that was found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    at: i64,
    endpoint: String,
    workload: String,
    metric: String,
    kind: String,
    since: i64,
    since_earliest: i64,
    since_latest: i64,
    change: f64,
    low: f64,
    high: f64,
    p: f64,
    n: u64,
    remark: Option<String>,
}

/// The entry for what is written; `None` for what is a prober's own.
pub(crate) fn entry_of(write: &MonitorWrite) -> Option<Entry> {
    Some(match write {
        MonitorWrite::CycleBegun { cycle, at_unix_ms, .. } => {
            Entry::CycleBegun { cycle: cycle.clone(), at: *at_unix_ms }
        }
        MonitorWrite::Probe(row) => Entry::Probe {
            cycle: row.cycle.clone(),
            slot: row.slot_unix_ms,
            further: row.is_further,
            reason: row.reason.clone(),
            probe: Box::new(row.probe.clone()),
        },
        MonitorWrite::CycleEnded { cycle, at_unix_ms, reference, quarantine } => Entry::CycleEnded {
            cycle: cycle.clone(),
            at: *at_unix_ms,
            reference: reference.clone(),
            quarantine: quarantine.clone(),
        },
        MonitorWrite::Quarantine { from_unix_ms, until_unix_ms, reason, .. } => {
            Entry::Quarantine { from: *from_unix_ms, until: *until_unix_ms, reason: reason.clone() }
        }
        MonitorWrite::Event(row) => Entry::Event(Box::new(Event::of(row))),
        MonitorWrite::Notice { at_unix_ms, text, .. } => Entry::Notice { at: *at_unix_ms, text: text.clone() },
        MonitorWrite::Seen { at_unix_ms, missed, .. } => Entry::Seen { at: *at_unix_ms, missed: *missed },
        MonitorWrite::Estimate(_)
        | MonitorWrite::Detected { .. }
        | MonitorWrite::AlertPart { .. }
        | MonitorWrite::AlertPartsGone
        | MonitorWrite::Delivery(_)
        | MonitorWrite::Delivered { .. }
        | MonitorWrite::Spooled(_)
        | MonitorWrite::SpoolSent { .. }
        | MonitorWrite::Pushed { .. } => return None,
    })
}

impl Entry {
    /// The latest time in it (ms since 1970).
    pub fn latest_unix_ms(&self) -> u64 {
        let unsigned = |ms: i64| u64::try_from(ms).unwrap_or(0);
        match self {
            Entry::CycleBegun { at, .. }
            | Entry::CycleEnded { at, .. }
            | Entry::Notice { at, .. }
            | Entry::Seen { at, .. } => *at,
            Entry::Probe { slot, probe, .. } => probe.sample.started_unix_ms.max(*slot).max(probe.due_unix_ms),
            Entry::Quarantine { until, .. } => *until,
            Entry::Event(event) => {
                unsigned(event.at.max(event.since).max(event.since_earliest).max(event.since_latest))
            }
        }
    }

    /// Whether what it names is the prober's own: ids and cycles are its name, the number of a run, and numbers in that. The whole of
    /// it is looked at, as another prober's name can begin with this one's.
    pub fn is_of(&self, prober: &str) -> bool {
        let of_run = |name: &str| -> Option<String> {
            let run = name.strip_prefix(prober)?.strip_prefix('-')?;
            let (digits, rest) = run.split_once('-')?;
            let is_run = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_run.then(|| rest.to_owned())
        };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_cycle = |name: &str| of_run(name).is_some_and(|rest| rest.strip_prefix('c').is_some_and(is_number));
        let is_probe = |name: &str| {
            let rest = of_run(name);
            rest.is_some_and(|rest| rest.split_once('-').is_some_and(|(one, two)| is_number(one) && is_number(two)))
        };
        match self {
            Entry::CycleBegun { cycle, .. } | Entry::CycleEnded { cycle, .. } => is_cycle(cycle),
            Entry::Probe { cycle, probe, .. } => is_cycle(cycle) && is_probe(&probe.id) && probe.prober == prober,
            Entry::Quarantine { .. } | Entry::Event(_) | Entry::Notice { .. } | Entry::Seen { .. } => true,
        }
    }

    /// What is to be written for a prober at a place; texts are bounded and on one line.
    pub fn into_write(self, prober: &str, place: &str) -> MonitorWrite {
        let (prober, place) = (prober.to_owned(), place.to_owned());
        let bounded = |text: String| one_line(&text, MAX_TEXT_BYTES);
        match self {
            Entry::CycleBegun { cycle, at } => {
                MonitorWrite::CycleBegun { cycle: bounded(cycle), prober, place, at_unix_ms: at }
            }
            Entry::Probe { cycle, slot, further, reason, probe } => {
                let mut probe = Probe { place, prober, ..*probe };
                probe.bound_texts();
                MonitorWrite::Probe(Box::new(ProbeRow {
                    probe,
                    cycle: bounded(cycle),
                    slot_unix_ms: slot,
                    is_further: further,
                    is_cut_off: false,
                    reason: reason.map(bounded),
                }))
            }
            Entry::CycleEnded { cycle, at, reference, quarantine } => MonitorWrite::CycleEnded {
                cycle: bounded(cycle),
                at_unix_ms: at,
                reference: one_line(&reference, MAX_REFERENCE_BYTES),
                quarantine: quarantine.map(bounded),
            },
            Entry::Quarantine { from, until, reason } => MonitorWrite::Quarantine {
                place,
                prober,
                from_unix_ms: from,
                until_unix_ms: until,
                reason: bounded(reason),
            },
            Entry::Event(event) => MonitorWrite::Event(Box::new(event.into_row(place))),
            Entry::Notice { at, text } => MonitorWrite::Notice { at_unix_ms: at, prober, text: bounded(text) },
            Entry::Seen { at, missed } => MonitorWrite::Seen { prober, place, at_unix_ms: at, missed },
        }
    }
}

impl Event {
    fn of(row: &EventRow) -> Event {
        // JSON has no infinity.
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        Event {
            at: row.at_unix_ms,
            endpoint: row.endpoint.clone(),
            workload: row.workload.clone(),
            metric: row.metric.clone(),
            kind: row.kind.clone(),
            since: row.since_unix_ms,
            since_earliest: row.since_earliest_unix_ms,
            since_latest: row.since_latest_unix_ms,
            change: finite(row.change),
            low: finite(row.low),
            high: finite(row.high),
            p: finite(row.p),
            n: row.n,
            remark: row.remark.clone(),
        }
    }

    fn into_row(self, place: String) -> EventRow {
        let bounded = |text: String| one_line(&text, MAX_TEXT_BYTES);
        EventRow {
            at_unix_ms: self.at,
            endpoint: bounded(self.endpoint),
            workload: bounded(self.workload),
            place,
            metric: bounded(self.metric),
            kind: bounded(self.kind),
            since_unix_ms: self.since,
            since_earliest_unix_ms: self.since_earliest,
            since_latest_unix_ms: self.since_latest,
            change: self.change,
            low: self.low,
            high: self.high,
            p: self.p,
            n: self.n,
            remark: self.remark.map(bounded),
        }
    }
}
