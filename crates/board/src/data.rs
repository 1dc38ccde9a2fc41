//! What a board is made of, as a store fills it: plain values in memory.
//!
//! Texts may be anything that a provider or a settings file holds; they are bounded and escaped where they are shown.
//! Invariant: a number that is missing is `None` with a reason next to it, never 0.

use std::sync::Arc;
use tokrate_core::FailureKind;

/// Everything that a board shows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BoardData {
    /// The time at which windows end (ms since 1970).
    pub now_unix_ms: i64,
    /// The heading of the board.
    pub title: String,
    /// The address at which it is served, such as `https://speed.example.org/`, for feeds and badges; empty if unknown.
    pub url: String,
    /// The measurements. One endpoint may have many series: one for each workload, place, source and fingerprint.
    pub series: Vec<Series>,
    /// Tasks with one right answer, by endpoint.
    pub canaries: Vec<Canary>,
    /// What a detector found, in any order.
    pub events: Vec<Change>,
    /// The machines that measure.
    pub probers: Vec<Prober>,
    /// What endpoints charge.
    pub prices: Vec<EndpointPrice>,
    /// What others say of a model's or an endpoint's speed: shown as hollow marks, never ranked.
    pub claims: Vec<Claim>,
    /// What a reader must know before any number: a store that fails, a budget that lowered the cadence. One sentence each.
    pub notices: Vec<String>,
}

/// Which part of the program made the measurements. Sources are never mixed in one number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Source {
    /// Probes of a monitor, at random times of every day.
    #[default]
    Monitor,
    /// Runs of `bench`, when somebody started them.
    Bench,
    /// Traffic of a gateway.
    Gateway,
}

/// Measurements that may be put into one number.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// What made them.
    pub source: Source,
    /// `target/model`.
    pub endpoint: String,
    /// Who runs the endpoint.
    pub provider: String,
    /// The model, by a name that is the same at every provider; endpoints of one model are ranked together.
    pub model: String,
    /// What is asked, by name.
    pub workload: String,
    /// Where it is asked from.
    pub place: String,
    /// Equal for series that may be ranked together: a fingerprint of all [`conditions`](Series::conditions). It must not
    /// depend on endpoint, provider or model, which always differ.
    pub fingerprint: String,
    /// What the numbers depend on beside endpoint, model, workload and place, as name and value: tokenizer, connection,
    /// output limit, options.
    pub conditions: Vec<(String, String)>,
    /// The requests, in any order. A board shows at most the last 30 days.
    pub points: Vec<Point>,
}

/// One request.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// When it was sent (ms since 1970).
    pub at: i64,
    /// Time to the first output text (ms).
    pub ttft_ms: Option<f32>,
    /// Output speed (tokens per second).
    pub output_speed: Option<f32>,
    /// Time to the end of the answer (ms).
    pub e2e_ms: Option<f32>,
    /// 99th percentile of the request's own chunk gaps (ms).
    pub gap_p99_ms: Option<f32>,
    /// How it failed; `None` for an answered request. The numbers of a failed one are not used.
    pub failure: Option<FailureKind>,
    /// Why numbers of an answered request are missing, or the message of a failure.
    pub reason: Option<Arc<str>>,
    /// Why the request is left out of every number: the prober was at fault. Shown grey.
    pub quarantine: Option<Arc<str>>,
    /// Requests that the prober had in flight at the endpoint, this one included; at least 1.
    pub in_flight: u32,
    /// Tokens of the prompt.
    pub input_tokens: Option<u32>,
    /// Tokens of the answer.
    pub output_tokens: Option<u32>,
    /// What it cost (USD).
    pub cost_usd: Option<f32>,
    /// How much it counts: 1 for a scheduled probe; the samples of one slot share 1, so that more probes after a suspect do
    /// not move the estimate. Above 0, at most 1.
    pub weight: f32,
}

impl Default for Point {
    fn default() -> Point {
        Point {
            at: 0,
            ttft_ms: None,
            output_speed: None,
            e2e_ms: None,
            gap_p99_ms: None,
            failure: None,
            reason: None,
            quarantine: None,
            in_flight: 1,
            input_tokens: None,
            output_tokens: None,
            cost_usd: None,
            weight: 1.0,
        }
    }
}

/// What an endpoint answered to tasks that have one right answer: speed that is bought with wrong ones shows so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Canary {
    /// `target/model`.
    pub endpoint: String,
    /// When each was asked (ms since 1970), and whether the answer was right.
    pub answers: Vec<(i64, bool)>,
    /// When the latest wrong one was, and what was wrong with it.
    pub latest_wrong: Option<(i64, String)>,
}

/// A number that is ranked, drawn and watched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Metric {
    /// Output speed of one request (tok/s).
    OutputSpeed,
    /// Time to the first output text (ms).
    Ttft,
    /// Time to the end of the answer (ms).
    E2e,
    /// 99th percentile of the chunk gaps of one request (ms).
    GapP99,
    /// Share of requests that failed.
    Errors,
}

/// What kind of change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ChangeKind {
    /// The level changed for the worse.
    Regression,
    /// One test of two sees a change for the worse.
    Suspect,
    /// The level changed for the better.
    Improvement,
    /// Values scatter more, or less, than they did.
    Spread,
    /// Some hours of the day became bad.
    Cycle,
    /// More requests fail, or no more than usual again.
    Errors,
    /// More answers to tasks are wrong, or no more than usual again.
    Fidelity,
    /// The prober was at fault: its samples of that time are left out.
    Quarantine,
    /// The stream has another form: tokens per chunk or gaps.
    Stream,
    /// Something else about the endpoint: its price, the model that answers, the server.
    Other,
}

/// A change that a detector found.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// When it was found (ms since 1970).
    pub at: i64,
    /// `target/model`; empty for one that concerns all of a place.
    pub endpoint: String,
    /// Where it was seen.
    pub workload: String,
    /// Where it was seen from.
    pub place: String,
    /// Which number; a name of the detector's, such as `ttft_ms`.
    pub metric: String,
    /// What kind.
    pub kind: ChangeKind,
    /// The first sample after the change, and the earliest and latest that fit nearly as well (ms since 1970).
    pub since: i64,
    /// See `since`.
    pub since_earliest: i64,
    /// See `since`.
    pub since_latest: i64,
    /// When it was over, if it is (ms since 1970).
    pub until: Option<i64>,
    /// Value after over value before, less 1; of errors the difference of the shares. `None` where no size is known.
    pub change: Option<f64>,
    /// The 95 % interval of `change`.
    pub interval: Option<(f64, f64)>,
    /// How likely so much is by chance, at one look; 1 where no test was made.
    pub p: f64,
    /// Samples since the change.
    pub n: u64,
    /// What else is known, one sentence each: what changed at the same time, which other endpoints moved with it.
    pub remarks: Vec<String>,
}

/// A machine that measures.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Prober {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub place: String,
    /// When it was last heard from (ms since 1970); `None` if never.
    pub last_seen_unix_ms: Option<i64>,
    /// How long it may be away before it counts as silent (ms).
    pub silent_after_ms: i64,
    /// Its clock less ours (ms), if known.
    pub clock_skew_ms: Option<f64>,
    /// Probes that it made.
    pub probes: u64,
    /// Probes that were due and not made: late, over budget, or the machine slept.
    pub missed: u64,
    /// Probes in quarantine.
    pub quarantined: u64,
    /// Anything else worth knowing, one sentence; empty for none.
    pub note: String,
}

/// What an endpoint charges.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EndpointPrice {
    /// `target/model`.
    pub endpoint: String,
    /// USD for a million tokens of prompt.
    pub input_usd_per_million: f64,
    /// USD for a million tokens of answer.
    pub output_usd_per_million: f64,
    /// Where that stands.
    pub source: String,
    /// As of when (YYYY-MM-DD).
    pub date: String,
}

/// What somebody says of a speed, or what was computed.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// The model, by the name that [`Series::model`] has.
    pub model: String,
    /// `target/model` if it is one endpoint's, else the provider's name.
    pub endpoint: String,
    /// Which number.
    pub metric: Metric,
    /// The number, in the metric's unit.
    pub value: f64,
    /// Who says so.
    pub source: String,
    /// Where; empty for none. Only `https:` and `http:` addresses become links.
    pub url: String,
    /// When (YYYY-MM-DD).
    pub date: String,
    /// What it was computed for; `None` of what somebody says.
    pub computed: Option<Computed>,
}

/// What an estimate is of.
#[derive(Clone, PartialEq, Debug)]
pub struct Computed {
    /// What is asked, by the name that [`Series::workload`] has.
    pub workload: String,
    /// Requests in flight.
    pub in_flight: u32,
    /// Its interval of 80 %.
    pub interval: (f64, f64),
}

impl From<tokrate_detect::ChangeKind> for ChangeKind {
    fn from(kind: tokrate_detect::ChangeKind) -> ChangeKind {
        match kind {
            tokrate_detect::ChangeKind::Regression => ChangeKind::Regression,
            tokrate_detect::ChangeKind::Improvement => ChangeKind::Improvement,
            tokrate_detect::ChangeKind::Spread => ChangeKind::Spread,
            tokrate_detect::ChangeKind::Cycle => ChangeKind::Cycle,
            tokrate_detect::ChangeKind::Errors => ChangeKind::Errors,
            tokrate_detect::ChangeKind::Quarantine => ChangeKind::Quarantine,
        }
    }
}

impl From<&tokrate_detect::Event> for Change {
    fn from(event: &tokrate_detect::Event) -> Change {
        Change {
            at: event.at,
            endpoint: event.source.endpoint.clone(),
            workload: event.source.workload.clone(),
            place: event.source.place.clone(),
            metric: event.metric.to_owned(),
            kind: event.kind.into(),
            since: event.since,
            since_earliest: event.since_earliest,
            since_latest: event.since_latest,
            until: None,
            change: Some(event.change).filter(|change| change.is_finite()),
            interval: Some((event.low, event.high)).filter(|(low, high)| low.is_finite() && high.is_finite()),
            p: event.p,
            n: event.n as u64,
            remarks: Vec::new(),
        }
    }
}
