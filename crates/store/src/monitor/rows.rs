//! What a monitor keeps.
//!
//! Invariant: a row is plain data; what it means is decided elsewhere.

use serde_json::{Value, json};
use std::path::PathBuf;
use tokrate_core::rfc3339;
use tokrate_record::Probe;

/// Why the rows of a cycle count in nothing while it is under way.
pub const CYCLE_IS_OPEN: &str = "its cycle has not ended yet";

/// A probe, and what the monitor knows of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProbeRow {
    /// The probe.
    pub probe: Probe,
    /// Its cycle, by a unique name.
    pub cycle: String,
    /// When its slot began (ms since 1970). Probes of one endpoint, workload, place and slot count as one.
    pub slot_unix_ms: u64,
    /// Whether it was asked for by a suspicion.
    pub is_further: bool,
    /// Why it has no numbers: the message of its failure, or what was wrong with the answer.
    pub reason: Option<String>,
    /// Whether it was ended from this side before its answer was whole, as of a gateway whose client left: it has no total time.
    pub is_cut_off: bool,
}

/// A change that was found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EventRow {
    /// The sample after which it was found (ms since 1970).
    pub at_unix_ms: i64,
    /// Target and model; `*` of a quarantine.
    pub endpoint: String,
    /// What was asked.
    pub workload: String,
    /// Where it was asked from.
    pub place: String,
    /// Which number.
    pub metric: String,
    /// What kind, such as `regression`.
    pub kind: String,
    /// The first sample after the change (ms since 1970).
    pub since_unix_ms: i64,
    /// The earliest first sample that fits nearly as well.
    pub since_earliest_unix_ms: i64,
    /// The latest.
    pub since_latest_unix_ms: i64,
    /// Value after over value before, less 1; of errors the difference of the shares.
    pub change: f64,
    /// Lower end of the 95 % interval of `change`.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// How likely so much is by chance, at one look.
    pub p: f64,
    /// Samples since the change.
    pub n: u64,
    /// What else is known of it.
    pub remark: Option<String>,
}

impl EventRow {
    /// As a JSON object, with the keys of `monitor replay` and `remark`.
    pub fn to_json(&self) -> Value {
        let time = |ms: i64| rfc3339(u64::try_from(ms / 1_000).unwrap_or(0));
        json!({
            "at": time(self.at_unix_ms),
            "endpoint": self.endpoint,
            "workload": self.workload,
            "place": self.place,
            "metric": self.metric,
            "kind": self.kind,
            "since": time(self.since_unix_ms),
            "since_earliest": time(self.since_earliest_unix_ms),
            "since_latest": time(self.since_latest_unix_ms),
            "change": self.change,
            "low": self.low,
            "high": self.high,
            "p": self.p,
            "n": self.n,
            "remark": self.remark,
        })
    }
}

/// What was computed for an endpoint that may not even exist. One of the same endpoint, model, workload and load takes its place.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EstimateRow {
    /// What it is of, such as `estimate/4 x H100-SXM-80GB`.
    pub endpoint: String,
    /// The model, by the name that measured ones have on the board.
    pub model: String,
    /// What is asked, by the name that measured ones have.
    pub workload: String,
    /// Requests in flight.
    pub in_flight: u32,
    /// Tokens/s of one request.
    pub output_speed: f64,
    /// Lower end of its interval of 80 %.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// When it was computed (ms since 1970).
    pub made_unix_ms: u64,
}

/// One thing to be written.
#[derive(Clone, PartialEq, Debug)]
pub enum MonitorWrite {
    /// A cycle has begun.
    CycleBegun {
        /// Its unique name.
        cycle: String,
        /// Whose it is.
        prober: String,
        /// Where.
        place: String,
        /// When (ms since 1970).
        at_unix_ms: u64,
    },
    /// A request of a probe has ended. One whose id is there already is passed over.
    Probe(Box<ProbeRow>),
    /// A cycle has ended: its rows count, or are in quarantine.
    CycleEnded {
        /// Its name.
        cycle: String,
        /// When (ms since 1970).
        at_unix_ms: u64,
        /// Its reference probes, as JSON.
        reference: String,
        /// Why it does not count.
        quarantine: Option<String>,
    },
    /// Rows of a prober at a place that began in a time, both ends included, do not count.
    Quarantine {
        /// The place.
        place: String,
        /// The prober.
        prober: String,
        /// The time (ms since 1970).
        from_unix_ms: u64,
        /// Its end.
        until_unix_ms: u64,
        /// Why.
        reason: String,
    },
    /// Something was computed.
    Estimate(Box<EstimateRow>),
    /// A change was found. One that is there already is passed over.
    Event(Box<EventRow>),
    /// Something that users should know.
    Notice {
        /// When (ms since 1970).
        at_unix_ms: u64,
        /// Whose.
        prober: String,
        /// What.
        text: String,
    },
    /// A prober is alive.
    Seen {
        /// Its name.
        prober: String,
        /// Where it stands.
        place: String,
        /// When (ms since 1970).
        at_unix_ms: u64,
        /// Probes that it missed since it was last seen.
        missed: u64,
    },
    /// Samples of a prober up to a time have gone through the detector.
    Detected {
        /// The prober.
        prober: String,
        /// The time (ms since 1970).
        until_unix_ms: i64,
    },
    /// A part of what the rules of alerts remember, in place of the one with its key; `None` where it is no more.
    AlertPart {
        /// Its key.
        key: String,
        /// What is remembered.
        value: Option<String>,
    },
    /// Rules of alerts remember nothing: what they do follows.
    AlertPartsGone,
    /// A message that is still to be delivered, or what has become of it.
    Delivery(Box<DeliveryRow>),
    /// A receiver has a message.
    Delivered {
        /// The message.
        message: String,
        /// Who has it.
        receiver: String,
    },
    /// Something for the hub.
    Spooled(String),
    /// The hub has everything of the spool up to an entry.
    SpoolSent {
        /// The entry's number.
        last: u64,
    },
    /// A hub has everything of a prober's spool up to an entry.
    Pushed {
        /// The prober.
        prober: String,
        /// The name of its spool.
        spool: String,
        /// The entry's number.
        last: u64,
        /// Its clock less the hub's (ms).
        skew_ms: i64,
    },
}

/// A message that is still to be delivered, or was given up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeliveryRow {
    /// The message, by its unique id.
    pub message: String,
    /// Who gets it.
    pub receiver: String,
    /// When the message was made (ms since 1970).
    pub made_unix_ms: u64,
    /// All of it, as JSON.
    pub delivery: String,
    /// When it was given up.
    pub given_up_unix_ms: Option<u64>,
}

/// An entry of a spool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpoolEntry {
    /// Its number, which no later entry has.
    pub id: u64,
    /// What it says.
    pub entry: String,
}

/// A prober, and what is known of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProberRow {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: String,
    /// When it was last seen (ms since 1970).
    pub seen_unix_ms: u64,
    /// Probes that were planned and not sent.
    pub missed: u64,
    /// Requests that are kept.
    pub requests: u64,
    /// Those of them that are in quarantine.
    pub quarantined: u64,
    /// Samples up to here went through the detector (ms since 1970).
    pub detected_unix_ms: i64,
    /// Its clock less that of the hub (ms), where it pushes to this one.
    pub skew_ms: Option<i64>,
}

/// Something that users should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoticeRow {
    /// When (ms since 1970).
    pub at_unix_ms: u64,
    /// Whose.
    pub prober: String,
    /// What.
    pub text: String,
}

/// A cycle that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenCycle {
    /// Its name.
    pub cycle: String,
    /// When it began (ms since 1970).
    pub begun_unix_ms: u64,
}

/// What probes used in a time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct UsedRow {
    /// What they cost (USD).
    pub usd: f64,
    /// Tokens of prompts and answers.
    pub tokens: u64,
}

/// A damaged database that was moved away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetAside {
    /// Where it is now.
    pub to: PathBuf,
    /// What was wrong with it.
    pub reason: String,
}
