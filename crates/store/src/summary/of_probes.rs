//! The same of a monitor's probes, of which a file holds what many have in common once.
//!
//! Reading a series' texts again for each of its probes took most of the time. Invariant: the answer is that of the log's way over the
//! same rows, as a property test shows.

use super::{Group, Grouping, Groups, HOUR_MS, Mixture, Summary, close, entry};
use crate::query::filtered;
use crate::row::{Reader, to_i64};
use crate::{Query, Sqlite, StoreError};
use rusqlite::params_from_iter;
use rusqlite::types::Value;
use std::collections::{BTreeMap, HashMap};
use tokrate_core::FailureKind;
use tokrate_record::{AttemptEnd, CostBasis, SampleSource, tpot_ms};

const SERIES: [&str; 10] =
    ["id", "endpoint", "workload", "model", "dialect_out", "stream", "version", "region", "tokenizer", "fingerprint"];

const PROBES: [&str; 14] = [
    "series",
    "started_unix_ms",
    "is_failed",
    "failure",
    "in_flight",
    "ttft_ns",
    "answer_ns",
    "output_speed",
    "input_tokens",
    "output_tokens_std",
    "output_tokens",
    "cost_usd",
    "cost_basis",
    "model_answered",
];

/// Rows that are read for each one that is wanted, before looking each up is cheaper.
const MAX_ROWS_READ: i64 = 3;

/// A series: the names of its groups, its model, and a group without rows that has what all its rows share.
struct OfSeries {
    lane: String,
    alias: String,
    model: String,
    empty: Group,
    /// By hour; by 0 where hours make no groups. Probes come nearly in the order of their times.
    groups: BTreeMap<u64, Group>,
}

/// The groups of a query of nothing but times and what series have; `None` for another.
pub(crate) fn summarise_probes(
    store: &Sqlite,
    source: SampleSource,
    query: &Query,
    by: Grouping,
) -> Result<Option<Vec<Summary>>, StoreError> {
    let Query { from_unix_ms, until_unix_ms, lane, alias, provider, .. } = query;
    let plain = Query {
        from_unix_ms: *from_unix_ms,
        until_unix_ms: *until_unix_ms,
        lane: lane.clone(),
        alias: alias.clone(),
        provider: provider.clone(),
        order: query.order,
        ..Query::default()
    };
    if plain != *query {
        return Ok(None);
    }
    let mut series = read_series(store, source, query)?;
    let time = |ms: Option<u64>| ms.map(|ms| Value::Integer(to_i64(ms)));
    let (filter, values) =
        filtered([("started_unix_ms >= ?", time(*from_unix_ms)), ("started_unix_ms < ?", time(*until_unix_ms))]);
    let (from, values) = rows_of_time(store, filter, values)?;
    let sql = format!(
        "SELECT id, series, started_unix_ms, reason IS NOT NULL, failure, in_flight, ttft_ns, answer_ns, output_speed, \
         coalesce(input_tokens, input_tokens_std), output_tokens_std, output_tokens, cost_usd, cost_basis, model_answered \
         FROM probes{from} quarantine IS NULL"
    );
    visit(store, &sql, values, &PROBES, |mut row| {
        // A series of another source, or of another lane than was asked for.
        let Some(series) = series.get_mut(&row.count::<i64>()?) else { return Ok(()) };
        let started: u64 = row.count()?;
        let hour = if by.hour { started / HOUR_MS * HOUR_MS } else { 0 };
        let OfSeries { model, empty, groups, .. } = series;
        groups.entry(hour).or_insert_with(|| empty.clone()).take_probe(model, row)
    })?;
    let mut groups = Groups::new();
    for OfSeries { lane, alias, groups: of_series, .. } in series.into_values() {
        for (hour, group) in of_series {
            let of_lane = entry(&mut groups, if by.lane { &lane } else { "" });
            let of_alias = entry(of_lane, if by.alias { &alias } else { "" });
            match of_alias.entry(hour) {
                std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(group)),
                std::collections::btree_map::Entry::Occupied(mut place) => place.get_mut().merge(group),
            }
        }
    }
    Ok(Some(close(groups, by)))
}

/// What follows `FROM probes`, up to the next condition, for the rows of a time. They are written nearly in the order of their times, so that they
/// lie together: one after the other they are read in half of the time that looking each up takes. Where many others lie between them, as
/// those of a prober whose clock was wrong, the index on time finds them.
fn rows_of_time(store: &Sqlite, filter: String, values: Vec<Value>) -> Result<(String, Vec<Value>), StoreError> {
    if filter.is_empty() {
        return Ok((" WHERE".to_owned(), values));
    }
    let sql = format!("SELECT min(id), max(id), count(*) FROM probes{filter}");
    let bounds = store.connection().prepare_cached(&sql).and_then(|mut statement| {
        statement.query_row(params_from_iter(&values), |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, i64>(2)?))
        })
    });
    match bounds.map_err(|error| store.error(&error))? {
        (Some(first), Some(last), count) if last - first < MAX_ROWS_READ * count => {
            let together = filter.replacen(" WHERE ", " NOT INDEXED WHERE id BETWEEN ? AND ? AND ", 1);
            let bounds = [first, last].map(Value::Integer);
            Ok((together + " AND", bounds.into_iter().chain(values).collect()))
        }
        _ => Ok((filter + " AND", values)),
    }
}

fn read_series(store: &Sqlite, source: SampleSource, query: &Query) -> Result<HashMap<i64, OfSeries>, StoreError> {
    let text = |text: &str| Value::Text(text.to_owned());
    let (filter, values) = filtered([
        ("source = ?", Some(text(source.name()))),
        ("endpoint = ?", query.lane.as_deref().map(text)),
        ("workload = ?", query.alias.as_deref().map(text)),
        ("provider = ?", query.provider.as_deref().map(text)),
    ]);
    let sql = format!("SELECT id, {} FROM series{filter}", SERIES.join(", "));
    let mut series = HashMap::new();
    visit(store, &sql, values, &SERIES, |mut row| {
        let id: i64 = row.count()?;
        let (lane, alias, model) = (row.text()?, row.text()?, row.text()?);
        let dialect = row.text()?;
        let mut mixture = Mixture::default();
        mixture.stream.insert(row.boolean()?);
        mixture.versions.insert(row.text()?);
        mixture.regions.extend(row.opt_text()?);
        mixture.tokenizers.extend(row.opt_text()?);
        mixture.fingerprints.extend(row.opt_text()?);
        mixture.lanes.insert(lane.clone());
        mixture.models.insert(model.clone());
        mixture.dialects.insert((dialect.clone(), dialect));
        let empty = Group { mixture, ..Group::default() };
        series.insert(id, OfSeries { lane, alias, model, empty, groups: BTreeMap::new() });
        Ok(())
    })?;
    Ok(series)
}

fn visit(
    store: &Sqlite,
    sql: &str,
    values: Vec<Value>,
    columns: &'static [&'static str],
    mut each: impl FnMut(Reader<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = store.connection().prepare_cached(sql).map_err(|error| store.error(&error))?;
    let mut rows = statement.query(params_from_iter(values)).map_err(|error| store.error(&error))?;
    while let Some(row) = rows.next().map_err(|error| store.error(&error))? {
        each(Reader::new(row, columns, store.path()))?;
    }
    Ok(())
}

impl Group {
    fn take_probe(&mut self, model: &str, mut row: Reader<'_>) -> Result<(), StoreError> {
        let end = if row.boolean()? { AttemptEnd::Failed } else { AttemptEnd::Answered };
        let failure = row.opt_named(&FailureKind::ALL, FailureKind::name)?;
        self.ended(end, failure);
        self.mixture.opened(row.count()?);
        self.ttft_ns.extend(row.opt_count::<u64>()?);
        self.answer_ns.extend(row.opt_count::<u64>()?);
        self.tpot_ms.extend(tpot_ms(row.opt_real()?));
        self.input_tokens += row.opt_count::<u64>()?.unwrap_or(0);
        self.output_tokens_std += row.count::<u64>()?;
        self.output_tokens += row.opt_count::<u64>()?.unwrap_or(0);
        let cost = row.opt_real()?;
        self.paid(cost, row.named(&CostBasis::ALL, CostBasis::name)?);
        if let Some(answered) = row.opt_str()?.filter(|answered| *answered != model) {
            super::insert(&mut self.mixture.models_answered, answered);
        }
        Ok(())
    }

    fn merge(&mut self, other: Group) {
        self.attempts += other.attempts;
        other.ends.into_iter().for_each(|(end, count)| *self.ends.entry(end).or_default() += count);
        other.failed.into_iter().for_each(|(kind, count)| *self.failed.entry(kind).or_default() += count);
        self.given_up_early += other.given_up_early;
        self.ttft_ns.extend(other.ttft_ns);
        self.answer_ns.extend(other.answer_ns);
        self.tpot_ms.extend(other.tpot_ms);
        self.input_tokens += other.input_tokens;
        self.output_tokens_std += other.output_tokens_std;
        self.output_tokens += other.output_tokens;
        self.cost_usd += other.cost_usd;
        self.cost_unknown += other.cost_unknown;
        self.cost_estimated += other.cost_estimated;
        self.lost_cost_usd += other.lost_cost_usd;
        self.mixture.merge(other.mixture);
    }
}

impl Mixture {
    fn merge(&mut self, other: Mixture) {
        self.lanes.extend(other.lanes);
        self.models.extend(other.models);
        self.models_answered.extend(other.models_answered);
        self.dialects.extend(other.dialects);
        self.stream.extend(other.stream);
        if let Some((least, most)) = other.in_flight {
            self.opened(least);
            self.opened(most);
        }
        self.versions.extend(other.versions);
        self.regions.extend(other.regions);
        self.tokenizers.extend(other.tokenizers);
        self.fingerprints.extend(other.fingerprints);
    }
}
