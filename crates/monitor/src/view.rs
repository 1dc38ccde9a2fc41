//! What a board shows of a monitor's database.
//!
//! Invariant: probes whose cycle has not ended are left out; those in quarantine are there, marked; the requests of one slot share a
//! weight of 1.

use crate::canary::{FIDELITY, is_canary};
use crate::settings::Settings;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::sync::Arc;
use tokrate_board::{
    BoardData, Canary, Change, ChangeKind, Claim, Computed, EndpointPrice, Metric, Point, Prober, Series, Source,
};
use tokrate_core::rfc3339;
use tokrate_record::{Probe, SampleSource};
use tokrate_store::{
    CYCLE_IS_OPEN, EstimateRow, EventRow, ProbeQuery, ProbeRow, ProbeStore, Query, ReadFrom, StoreError,
};

/// What a board looks back at (ms): 30 days.
pub(crate) const LOOK_BACK_MS: u64 = 30 * 86_400_000;
/// Notices of the last so many milliseconds stand above the numbers: a day.
const NOTICES_MS: u64 = 86_400_000;
/// Notices that are shown at most.
const MAX_NOTICES: usize = 5;
/// Attempts of a gateway that a board holds at most; of more, each n-th is taken.
const MAX_ATTEMPTS: u64 = 200_000;
/// A prober that was not seen for so long is silent (ms): two of the longest usual slots, of three hours.
const SILENT_AFTER_MS: i64 = 6 * 3_600_000;

/// What stands on a board beside what the database holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BoardFrame {
    /// The heading.
    pub title: String,
    /// The address at which it is served; empty if unknown.
    pub url: String,
    /// What endpoints charge.
    pub prices: Vec<EndpointPrice>,
    /// The throughput log of a gateway, whose traffic is shown beside the probes, as a source of its own.
    pub log: Option<ReadFrom>,
}

impl BoardFrame {
    /// That of a monitor, with the prices that its settings know.
    pub fn of(settings: &Settings, title: &str, url: &str) -> BoardFrame {
        let price = |endpoint: &crate::Endpoint| {
            let price = endpoint.price?;
            Some(EndpointPrice {
                endpoint: endpoint.name.clone(),
                input_usd_per_million: price.input.as_usd(),
                output_usd_per_million: price.output.as_usd(),
                source: "the settings or the catalog of this monitor".to_owned(),
                date: String::new(),
            })
        };
        BoardFrame {
            title: title.to_owned(),
            url: url.to_owned(),
            prices: settings.endpoints.iter().filter_map(price).collect(),
            log: None,
        }
    }
}

/// The data of a board at a time.
///
/// # Errors
/// When the database cannot be read.
pub fn board_data(store: &dyn ProbeStore, frame: &BoardFrame, now_unix_ms: u64) -> Result<BoardData, StoreError> {
    let from_unix_ms = now_unix_ms.saturating_sub(LOOK_BACK_MS);
    let query = ProbeQuery { from_unix_ms: Some(from_unix_ms), ..ProbeQuery::default() };
    let mut rows = Rows::default();
    store.visit_probes(&query, &mut |row| rows.add(row))?;
    let of_traffic = frame.log.as_ref().and_then(|log| {
        rows.add_traffic(log, from_unix_ms)
            .unwrap_or_else(|error| Some(format!("The gateway's traffic is not shown: failed to {error}.")))
    });
    let events = store.events(to_i64(from_unix_ms))?;
    let probers = store.probers()?.into_iter().map(|row| Prober {
        name: row.name,
        place: row.place,
        last_seen_unix_ms: Some(to_i64(row.seen_unix_ms)),
        silent_after_ms: SILENT_AFTER_MS,
        clock_skew_ms: row.skew_ms.map(|ms| ms as f64),
        probes: row.requests,
        missed: row.missed,
        quarantined: row.quarantined,
        note: String::new(),
    });
    let mut notices = store.notices(now_unix_ms.saturating_sub(NOTICES_MS))?;
    let first = notices.len().saturating_sub(MAX_NOTICES);
    Ok(BoardData {
        now_unix_ms: to_i64(now_unix_ms),
        title: frame.title.clone(),
        url: frame.url.clone(),
        probers: probers.collect(),
        canaries: std::mem::take(&mut rows.canaries).into_values().collect(),
        series: rows.into_series(),
        events: events.iter().map(change).collect(),
        prices: frame.prices.clone(),
        claims: store.estimates()?.into_iter().map(claim).collect(),
        notices: of_traffic.into_iter().chain(notices.split_off(first).into_iter().map(|notice| notice.text)).collect(),
    })
}

fn to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Source, endpoint, workload, place, fingerprint.
type Key = (SampleSource, String, String, String, String);

#[derive(Default)]
struct Rows {
    series: BTreeMap<Key, (Series, Vec<u64>)>,
    /// By endpoint.
    canaries: BTreeMap<String, Canary>,
    /// Reasons that many rows have in common.
    texts: HashMap<String, Arc<str>>,
}

impl Rows {
    /// Adds a gateway's attempts; what a reader must know of them.
    fn add_traffic(&mut self, from: &ReadFrom, from_unix_ms: u64) -> Result<Option<String>, StoreError> {
        let log = from.log()?;
        let mut query = Query { from_unix_ms: Some(from_unix_ms), ..Query::default() };
        let count = log.count(&query)?;
        query.each_nth = NonZeroU64::new(count.div_ceil(MAX_ATTEMPTS)).filter(|nth| nth.get() > 1);
        log.visit_attempts(&query, &mut |attempt| self.add(ProbeRow::of_attempt(attempt)))?;
        Ok(query.each_nth.map(|nth| {
            format!(
                "Of the gateway's {count} attempts of 30 days the numbers hold one in {nth}, spread evenly over them."
            )
        }))
    }

    fn add(&mut self, row: ProbeRow) {
        let ProbeRow { probe, slot_unix_ms, reason, is_cut_off, .. } = row;
        if probe.quarantine.as_deref() == Some(CYCLE_IS_OPEN) {
            return;
        }
        if is_canary(&probe.workload) {
            return self.add_canary(&probe, reason);
        }
        let sample = &probe.sample;
        let ms = |ns: Option<u64>| ns.map(|ns| ns as f32 / 1e6);
        let is_answered = sample.failure.is_none() && !is_cut_off;
        let missing = sample.output_speed_missing.as_deref().or(sample.ttft_missing.as_deref());
        let why = reason.as_deref().or(missing).map(|text| self.text(text));
        let point = Point {
            at: to_i64(sample.started_unix_ms),
            ttft_ms: ms(sample.ttft_ns),
            output_speed: sample.output_speed.map(|speed| speed as f32),
            e2e_ms: is_answered.then_some(sample.total_ns as f32 / 1e6),
            gap_p99_ms: ms(sample.gap_p99_ns),
            failure: sample.failure,
            reason: why,
            quarantine: probe.quarantine.as_deref().map(|text| self.text(text)),
            in_flight: sample.in_flight.max(1),
            input_tokens: to_u32(sample.input_tokens.or(sample.input_tokens_std)),
            output_tokens: to_u32(sample.output_tokens.or(Some(sample.output_tokens_std))),
            cost_usd: sample.cost_usd.map(|usd| usd as f32),
            weight: 1.0,
        };
        let conditions = &sample.conditions;
        // A gateway's attempts have no fingerprint: their requests are its clients'. What is known of them tells them apart.
        let fingerprint = conditions.fingerprint.clone().unwrap_or_else(|| {
            let form = if sample.stream { "streamed" } else { "whole" };
            format!("{form} {}", conditions.tokenizer.as_deref().unwrap_or_default())
        });
        let key =
            (probe.source, probe.endpoint.clone(), probe.workload.clone(), probe.place.clone(), fingerprint.clone());
        let (series, slots) = self.series.entry(key).or_insert_with(|| {
            let named =
                [("tokenizer", &conditions.tokenizer), ("region", &conditions.region), ("host", &conditions.host)];
            let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
            let limit = sample.output_limit.map(|limit| ("output limit".to_owned(), limit.to_string()));
            let series = Series {
                source: source(probe.source),
                endpoint: probe.endpoint.clone(),
                provider: sample.provider.clone(),
                model: sample.model.clone(),
                workload: probe.workload.clone(),
                place: probe.place.clone(),
                fingerprint,
                conditions: named.chain(limit).collect(),
                points: Vec::new(),
            };
            (series, Vec::new())
        });
        series.points.push(point);
        slots.push(slot_unix_ms);
    }

    /// A task: what was answered, right or wrong, is counted; its times are nobody's.
    fn add_canary(&mut self, probe: &Probe, reason: Option<String>) {
        // A request that failed was not answered at all.
        if probe.quarantine.is_some() || probe.sample.failure.is_some() {
            return;
        }
        let at = to_i64(probe.sample.started_unix_ms);
        let canary = self.canaries.entry(probe.endpoint.clone()).or_insert_with(|| Canary {
            endpoint: probe.endpoint.clone(),
            answers: Vec::new(),
            latest_wrong: None,
        });
        canary.answers.push((at, reason.is_none()));
        if let Some(reason) = reason {
            canary.latest_wrong = Some((at, reason));
        }
    }

    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(text.to_owned(), Arc::clone(&shared));
        shared
    }

    fn into_series(self) -> Vec<Series> {
        let weighed = |(mut series, slots): (Series, Vec<u64>)| {
            let mut counts: HashMap<u64, u32> = HashMap::new();
            slots.iter().for_each(|slot| *counts.entry(*slot).or_default() += 1);
            // Only a monitor's slots hold requests that were sent because of others.
            if series.source == Source::Monitor {
                series.points.iter_mut().zip(&slots).for_each(|(point, slot)| point.weight = 1.0 / counts[slot] as f32);
            }
            series
        };
        self.series.into_values().map(weighed).collect()
    }
}

fn to_u32(value: Option<u64>) -> Option<u32> {
    value.and_then(|value| u32::try_from(value).ok())
}

fn source(source: SampleSource) -> Source {
    match source {
        SampleSource::Bench => Source::Bench,
        SampleSource::Monitor => Source::Monitor,
        SampleSource::Gateway => Source::Gateway,
    }
}

/// What was computed, as the hollow mark of a claim.
fn claim(row: EstimateRow) -> Claim {
    Claim {
        model: row.model,
        endpoint: row.endpoint,
        metric: Metric::OutputSpeed,
        value: row.output_speed,
        source: "tokrate estimate".to_owned(),
        url: String::new(),
        date: rfc3339(row.made_unix_ms / 1_000).chars().take("2026-11-25".len()).collect(),
        computed: Some(Computed { workload: row.workload, in_flight: row.in_flight, interval: (row.low, row.high) }),
    }
}

fn change(row: &EventRow) -> Change {
    let is_quarantine = row.kind == "quarantine";
    Change {
        at: row.at_unix_ms,
        endpoint: if row.endpoint == "*" { String::new() } else { row.endpoint.clone() },
        workload: row.workload.clone(),
        place: row.place.clone(),
        metric: row.metric.clone(),
        kind: match row.kind.as_str() {
            "regression" => ChangeKind::Regression,
            "suspect" => ChangeKind::Suspect,
            "improvement" => ChangeKind::Improvement,
            "spread" => ChangeKind::Spread,
            "cycle" => ChangeKind::Cycle,
            "errors" => ChangeKind::Errors,
            FIDELITY => ChangeKind::Fidelity,
            "quarantine" => ChangeKind::Quarantine,
            "stream" => ChangeKind::Stream,
            _ => ChangeKind::Other,
        },
        since: row.since_unix_ms,
        since_earliest: row.since_earliest_unix_ms,
        since_latest: row.since_latest_unix_ms,
        until: None,
        change: Some(row.change).filter(|change| change.is_finite() && !is_quarantine),
        interval: Some((row.low, row.high)).filter(|(low, high)| low.is_finite() && high.is_finite() && !is_quarantine),
        p: row.p,
        n: row.n,
        remarks: row.remark.clone().into_iter().collect(),
    }
}

#[cfg(test)]
mod tests;
