//! The values that machines read: JSON, version 1, and CSV.
//!
//! Invariant: a number that is missing is `null` and never 0; ranks are ranges; names are bounded as on the pages. Fields are
//! only added within a version.

use crate::board::{Board, Entry};
use crate::data::{Change, Metric};
use crate::html::rfc;
use crate::links::{Mode, Target};
use crate::view::{Row, View};
use crate::window::{Estimate, Load, Share, Summary, Window};
use serde::Serialize;

/// The version of everything here.
const VERSION: u32 = 1;

/// What there is: `api/v1/index.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiIndex {
    /// Version of the form: 1.
    pub version: u32,
    /// The heading of the board.
    pub title: String,
    /// The time at which windows end (RFC 3339).
    pub as_of: String,
    /// Addresses below the board's root.
    pub leaderboard: String,
    /// Address of the changes.
    pub changes: String,
    /// Address of the Atom feed.
    pub feed: String,
    /// What `leaderboard` takes as parameters, with the values of each.
    pub parameters: Vec<ApiParameter>,
    /// Every endpoint with the address of its values.
    pub endpoints: Vec<ApiLink>,
}

/// A parameter of the leaderboard.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiParameter {
    /// Its name.
    pub name: String,
    /// The values that it may have.
    pub values: Vec<String>,
}

/// A name with an address.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiLink {
    /// The name.
    pub name: String,
    /// The address below the board's root.
    pub path: String,
}

/// The ranked rows of a view: `api/v1/leaderboard.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiLeaderboard {
    /// Version of the form: 1.
    pub version: u32,
    /// The time at which the window ends (RFC 3339).
    pub as_of: String,
    /// The window: `24h`, `72h`, `14d` or `30d`.
    pub window: String,
    /// What was asked.
    pub workload: String,
    /// Where it was asked from.
    pub place: String,
    /// Requests in flight: `1`, `2-7`, `8-31` or `32` (and more).
    pub load: String,
    /// What measured: `monitor`, `bench` or `gateway`.
    pub source: String,
    /// The metric that ranks are of.
    pub ranked_by: String,
    /// The rows, model by model.
    pub rows: Vec<ApiRow>,
}

/// One endpoint.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiRow {
    /// `target/model`.
    pub endpoint: String,
    /// Who runs it.
    pub provider: String,
    /// The model; ranks are among rows of one model and fingerprint.
    pub model: String,
    /// Fingerprint of the conditions.
    pub fingerprint: String,
    /// The places that it may have; `null` below the sample floor.
    pub rank: Option<ApiRange>,
    /// The numbers.
    pub numbers: ApiNumbers,
    /// Answers to tasks that have one right answer; `null` where none was asked for.
    pub tasks: Option<ApiTasks>,
    /// Price of a million tokens, three of input to one of output (USD).
    pub blended_usd_per_million: Option<f64>,
    /// Where its page is, below the board's root.
    pub page: String,
}

/// Answers of the last 14 days to tasks that have one right answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiTasks {
    /// Tasks that were answered.
    pub asked: u64,
    /// Answers that were right.
    pub right: u64,
}

/// Places, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiRange {
    /// The best.
    pub best: u32,
    /// The worst.
    pub worst: u32,
}

/// The numbers of a window.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiNumbers {
    /// Requests that count.
    pub n: u64,
    /// Requests in quarantine, which do not.
    pub quarantined: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Their share, with its 95 % interval.
    pub error_share: ApiEstimate,
    /// Median output speed (tok/s).
    pub output_speed: ApiEstimate,
    /// The speed that 5 % of requests stay below (tok/s).
    pub output_speed_p5: ApiEstimate,
    /// Median time to the first text (ms).
    pub ttft_ms: ApiEstimate,
    /// The time that 5 % of requests wait longer than (ms).
    pub ttft_p95_ms: ApiEstimate,
    /// Median time to the end (ms).
    pub e2e_ms: ApiEstimate,
    /// Median of the requests' own p99 of chunk gaps (ms).
    pub gap_p99_ms: ApiEstimate,
    /// Median cost of an answered request (USD).
    pub cost_usd: ApiEstimate,
}

/// A number with its interval: 95 % for medians and shares, each bound 99 % for tails.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiEstimate {
    /// The number; `null` below `needed` samples.
    pub value: Option<f64>,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Samples.
    pub n: u64,
    /// Samples that it needs.
    pub needed: u64,
}

/// Everything of an endpoint: `api/v1/endpoint/NAME.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiEndpoint {
    /// Version of the form: 1.
    pub version: u32,
    /// The time at which windows end (RFC 3339).
    pub as_of: String,
    /// `target/model`.
    pub endpoint: String,
    /// Answers to tasks that have one right answer; `null` where none was asked for.
    pub tasks: Option<ApiTasks>,
    /// USD for a million tokens of prompt.
    pub input_usd_per_million: Option<f64>,
    /// USD for a million tokens of answer.
    pub output_usd_per_million: Option<f64>,
    /// Everything that is measured there.
    pub series: Vec<ApiSeries>,
    /// What changed, newest first.
    pub changes: Vec<ApiChange>,
}

/// A series at a load in a window.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiSeries {
    /// What measured.
    pub source: String,
    /// Who runs the endpoint.
    pub provider: String,
    /// The model.
    pub model: String,
    /// What was asked.
    pub workload: String,
    /// Where it was asked from.
    pub place: String,
    /// Requests in flight.
    pub load: String,
    /// The window.
    pub window: String,
    /// Fingerprint of the conditions.
    pub fingerprint: String,
    /// The conditions, as name and value.
    pub conditions: Vec<(String, String)>,
    /// The places that it may have by output speed.
    pub rank: Option<ApiRange>,
    /// The numbers.
    pub numbers: ApiNumbers,
}

/// What changed: `api/v1/changes.json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiChanges {
    /// Version of the form: 1.
    pub version: u32,
    /// The time up to which changes are known (RFC 3339).
    pub as_of: String,
    /// The changes, newest first.
    pub changes: Vec<ApiChange>,
}

/// One change.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApiChange {
    /// The same for one change for all time.
    pub id: String,
    /// When it was found (RFC 3339).
    pub at: String,
    /// `target/model`; empty for one that concerns a place.
    pub endpoint: String,
    /// Where it was seen.
    pub workload: String,
    /// Where it was seen from.
    pub place: String,
    /// Which number.
    pub metric: String,
    /// `regression`, `suspect`, `improvement`, `spread`, `cycle`, `errors`, `fidelity`, `quarantine`, `stream` or `other`.
    pub kind: String,
    /// Since when, with the earliest and latest time that fit nearly as well (RFC 3339).
    pub since: [String; 3],
    /// When it was over.
    pub until: Option<String>,
    /// Value after over value before, less 1; of errors the difference of the shares.
    pub change: Option<f64>,
    /// Lower end of the 95 % interval of `change`.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// How likely so much is by chance.
    pub p: f64,
    /// Samples since the change.
    pub n: u64,
    /// What else is known.
    pub remarks: Vec<String>,
}

impl From<&Estimate> for ApiEstimate {
    fn from(estimate: &Estimate) -> ApiEstimate {
        let Estimate { n, floor, value, low, high } = *estimate;
        let [value, low, high] = [value, low, high].map(|number| number.map(rounded));
        ApiEstimate { value, low, high, n, needed: floor }
    }
}

impl From<&Share> for ApiEstimate {
    fn from(share: &Share) -> ApiEstimate {
        let (low, high) = share.interval.unzip();
        let [value, low, high] = [share.value(), low, high].map(|number| number.map(rounded));
        ApiEstimate { value, low, high, n: share.n, needed: 1 }
    }
}

impl From<&Summary> for ApiNumbers {
    fn from(summary: &Summary) -> ApiNumbers {
        let median = |metric| (&summary.median(metric)).into();
        ApiNumbers {
            n: summary.errors.n,
            quarantined: summary.quarantined,
            failed: summary.errors.hits,
            error_share: (&summary.errors).into(),
            output_speed: median(Metric::OutputSpeed),
            output_speed_p5: (&summary.speed_p5).into(),
            ttft_ms: median(Metric::Ttft),
            ttft_p95_ms: (&summary.ttft_p95).into(),
            e2e_ms: median(Metric::E2e),
            gap_p99_ms: median(Metric::GapP99),
            cost_usd: (&summary.cost).into(),
        }
    }
}

/// A number to six significant digits: what is behind them is the width of the type, not the measurement.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn bounded(text: &str) -> String {
    tokrate_core::one_line(text, crate::names::MAX_SENTENCE_BYTES)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// One change as a value.
fn change_value(change: &Change) -> ApiChange {
    ApiChange {
        id: crate::pages::changes::id(change),
        at: rfc(change.at),
        endpoint: bounded(&change.endpoint),
        workload: bounded(&change.workload),
        place: bounded(&change.place),
        metric: bounded(&change.metric),
        kind: format!("{:?}", change.kind).to_lowercase(),
        since: [change.since, change.since_earliest, change.since_latest].map(rfc),
        until: change.until.map(rfc),
        change: change.change.and_then(finite),
        low: change.interval.and_then(|(low, _)| finite(low)),
        high: change.interval.and_then(|(_, high)| finite(high)),
        p: finite(change.p).unwrap_or(1.0),
        n: change.n,
        remarks: change.remarks.iter().take(20).map(|remark| bounded(remark)).collect(),
    }
}

impl Board {
    /// What there is.
    pub fn api_index(&self) -> ApiIndex {
        let usual = self.default_view();
        let path = |kind| self.path(&crate::html::ranked(self, kind), Mode::Served);
        let slugs = |names: &crate::names::Names| names.iter().map(|name| name.slug.clone()).collect();
        let parameter = |name: &str, values: Vec<String>| ApiParameter { name: name.to_owned(), values };
        let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let endpoint = |(index, name): (usize, &crate::names::Name)| ApiLink {
            name: name.label.clone(),
            path: self.path(&Target::EndpointJson(index), Mode::Served),
        };
        ApiIndex {
            version: VERSION,
            title: bounded(&self.data.title),
            as_of: rfc(self.data.now_unix_ms),
            leaderboard: path(crate::links::Ranked::Json),
            changes: self.path(&Target::ChangesJson, Mode::Served),
            feed: self.path(&Target::Feed, Mode::Served),
            parameters: if usual.is_none() {
                Vec::new()
            } else {
                vec![
                    parameter("model", slugs(&self.models)),
                    parameter("workload", slugs(&self.workloads)),
                    parameter("place", slugs(&self.places)),
                    parameter("load", words(&Load::ALL.map(Load::name))),
                    parameter("window", words(&Window::ALL.map(Window::name))),
                    parameter("source", words(&crate::data::Source::ALL.map(crate::data::Source::name))),
                    parameter("sort", words(&crate::view::Sort::ALL.map(crate::view::Sort::name))),
                ]
            },
            endpoints: self.endpoints.iter().enumerate().map(endpoint).collect(),
        }
    }

    pub(crate) fn api_leaderboard(&self, view: &View) -> ApiLeaderboard {
        ApiLeaderboard {
            version: VERSION,
            as_of: rfc(self.data.now_unix_ms),
            window: view.window.name().to_owned(),
            workload: self.workloads[view.workload].label.clone(),
            place: self.places[view.place].label.clone(),
            load: view.load.name().to_owned(),
            source: view.source.name().to_owned(),
            ranked_by: view.sort.metric().name().to_owned(),
            rows: self.rows(view).iter().map(|row| self.api_row(view, row)).collect(),
        }
    }

    fn api_row(&self, view: &View, row: &Row<'_>) -> ApiRow {
        let entry = row.entry;
        ApiRow {
            endpoint: self.endpoints[entry.endpoint].label.clone(),
            provider: self.providers[entry.provider].label.clone(),
            model: self.models[entry.model].label.clone(),
            fingerprint: self.fingerprints[entry.fingerprint].label.clone(),
            rank: range(entry, view.load, view.window, view.sort.metric()),
            numbers: row.summary.into(),
            tasks: self.api_tasks(entry.endpoint),
            blended_usd_per_million: self.blended_price(entry.endpoint).map(rounded),
            page: self.path(&Target::Endpoint(entry.endpoint), Mode::Served),
        }
    }

    pub(crate) fn api_endpoint(&self, endpoint: usize) -> ApiEndpoint {
        let mut series = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.endpoint == endpoint) {
            for load in entry.loads.keys() {
                series.extend(Window::ALL.iter().filter_map(|window| self.api_series(entry, *load, *window)));
            }
        }
        let full = &self.endpoints[endpoint].full;
        let price = self.price(endpoint);
        ApiEndpoint {
            version: VERSION,
            as_of: rfc(self.data.now_unix_ms),
            endpoint: self.endpoints[endpoint].label.clone(),
            tasks: self.api_tasks(endpoint),
            input_usd_per_million: price.and_then(|price| finite(price.input_usd_per_million)),
            output_usd_per_million: price.and_then(|price| finite(price.output_usd_per_million)),
            series,
            changes: self.changes.iter().filter(|change| change.endpoint == *full).map(change_value).collect(),
        }
    }

    fn api_tasks(&self, endpoint: usize) -> Option<ApiTasks> {
        self.tasks(endpoint).map(|tasks| ApiTasks { asked: tasks.asked, right: tasks.right })
    }

    fn api_series(&self, entry: &Entry, load: Load, window: Window) -> Option<ApiSeries> {
        let summary = entry.summary(load, window)?;
        let conditions = &self.data.series[entry.series].conditions;
        Some(ApiSeries {
            source: entry.source.name().to_owned(),
            provider: self.providers[entry.provider].label.clone(),
            model: self.models[entry.model].label.clone(),
            workload: self.workloads[entry.workload].label.clone(),
            place: self.places[entry.place].label.clone(),
            load: load.name().to_owned(),
            window: window.name().to_owned(),
            fingerprint: self.fingerprints[entry.fingerprint].label.clone(),
            conditions: conditions.iter().take(60).map(|(name, value)| (bounded(name), bounded(value))).collect(),
            rank: range(entry, load, window, Metric::OutputSpeed),
            numbers: summary.into(),
        })
    }

    /// The changes, newest first.
    pub fn api_changes(&self) -> ApiChanges {
        ApiChanges {
            version: VERSION,
            as_of: rfc(self.data.now_unix_ms),
            changes: self.changes.iter().take(1_000).map(change_value).collect(),
        }
    }
}

fn range(entry: &Entry, load: Load, window: Window, metric: Metric) -> Option<ApiRange> {
    entry.ranks(load, window, metric).map(|ranks| ApiRange { best: ranks.best, worst: ranks.worst })
}

/// The text of a value.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Plain data with text keys: nothing in it can fail.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests;
