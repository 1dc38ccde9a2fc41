//! Aggregates a group of rows: counts, exact percentiles, tokens, cost, and the conditions that were mixed.
//!
//! Invariant: every row of the query is in exactly one group; a percentile is the nearest rank of the values themselves; conditions that
//! differ within a group are listed in its [`Mixture`].

use crate::cache_sight::{CACHE_COLUMNS, CacheSight};
use crate::{Query, Store, StoreError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_core::FailureKind;
use tokrate_record::{AttemptEnd, CostBasis, tpot_ms};
use tokrate_stats::{Distribution, Unit};

const HOUR_MS: u64 = 3_600_000;

/// What makes a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grouping {
    /// A group for each lane, or endpoint.
    pub lane: bool,
    /// A group for each name asked for, or workload.
    pub alias: bool,
    /// A group for each hour (UTC) of beginning.
    pub hour: bool,
}

/// A group of rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// Its lane, where groups are made by lane.
    pub lane: Option<String>,
    /// What was asked for, where groups are made by that.
    pub alias: Option<String>,
    /// The beginning of its hour (ms since 1970), where groups are made by hour.
    pub hour_unix_ms: Option<u64>,
    /// Attempts.
    pub attempts: u64,
    /// Those whose answer was given to the client, whole.
    pub answered: u64,
    /// Those that failed, by kind; `None` for those of which no kind is known.
    pub failed: BTreeMap<Option<FailureKind>, u64>,
    /// Those that lost to another attempt of their call.
    pub lost: u64,
    /// Those whose client went away.
    pub abandoned: u64,
    /// Those of `lost` and `abandoned` that were given up before their first text: they are in no percentile, so that times
    /// to first text look better than they were.
    pub given_up_early: u64,
    /// Sent to first output text (ms), of all attempts that came so far.
    pub ttft: Distribution,
    /// Sent to the last byte (ms), of answers that came in one piece: they have no time to first text.
    pub answer: Distribution,
    /// Time per token after the first chunk (ms): 1 / output speed, of all attempts that have one.
    pub tpot: Distribution,
    /// Input tokens: as reported, else as counted.
    pub input_tokens: u64,
    /// Output tokens, o200k_base.
    pub output_tokens_std: u64,
    /// Output tokens as reported.
    pub output_tokens: u64,
    /// What was expected of prompt caches, and found.
    pub cache: CacheSight,
    /// What is known of the cost (USD).
    pub cost_usd: f64,
    /// Attempts of unknown cost.
    pub cost_unknown: u64,
    /// Attempts whose cost is estimated.
    pub cost_estimated: u64,
    /// That part of `cost_usd` which went to attempts that lost (USD): the price of racing and hedging.
    pub lost_cost_usd: f64,
    /// What differs between the rows.
    pub mixture: Mixture,
}

/// Conditions of the rows of a group; more than one of a kind means that unlike things are summed up together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mixture {
    /// Lanes.
    pub lanes: BTreeSet<String>,
    /// Models that were asked for.
    pub models: BTreeSet<String>,
    /// Models that answered under another name than was asked for.
    pub models_answered: BTreeSet<String>,
    /// Dialects of client and lane.
    pub dialects: BTreeSet<(String, String)>,
    /// Whether answers were asked for piece by piece.
    pub stream: BTreeSet<bool>,
    /// The fewest and the most calls that the lane had open.
    pub in_flight: Option<(u32, u32)>,
    /// Versions of tokrate.
    pub versions: BTreeSet<String>,
    /// Regions, as far as they were named.
    pub regions: BTreeSet<String>,
    /// Tokenizers, as far as they are known.
    pub tokenizers: BTreeSet<String>,
    /// Fingerprints of conditions; attempts of a gateway have none.
    pub fingerprints: BTreeSet<String>,
}

const COLUMNS: [&str; 26] = [
    "lane",
    "alias",
    "started_unix_ms",
    "end",
    "failure",
    "ttft_ns",
    "answer_ns",
    "output_speed",
    "input_tokens",
    "input_tokens_std",
    "output_tokens",
    "output_tokens_std",
    CACHE_COLUMNS[0],
    CACHE_COLUMNS[1],
    "cost_usd",
    "cost_basis",
    "model",
    "model_answered",
    "dialect_in",
    "dialect_out",
    "stream",
    "in_flight",
    "version",
    "region",
    "tokenizer",
    "fingerprint",
];

/// A group while its rows come.
#[derive(Clone, Default)]
struct Group {
    attempts: u64,
    ends: BTreeMap<AttemptEnd, u64>,
    failed: BTreeMap<Option<FailureKind>, u64>,
    given_up_early: u64,
    ttft_ns: Vec<u64>,
    answer_ns: Vec<u64>,
    tpot_ms: Vec<f64>,
    input_tokens: u64,
    output_tokens_std: u64,
    output_tokens: u64,
    cache: CacheSight,
    cost_usd: f64,
    cost_unknown: u64,
    cost_estimated: u64,
    lost_cost_usd: f64,
    mixture: Mixture,
}

/// What tells groups apart: lane, name asked for, hour. An empty name and hour 0 stand for all where groups are not made by them.
type Groups = BTreeMap<String, BTreeMap<String, BTreeMap<u64, Group>>>;

/// As [`Store::summarise`].
pub(crate) fn summarise<S: Store + ?Sized>(store: &S, query: &Query, by: Grouping) -> Result<Vec<Summary>, StoreError> {
    let mut groups = Groups::new();
    store.visit(&COLUMNS, query, false, &mut |mut row| {
        let (lane, alias) = (row.str()?, row.str()?);
        let started: u64 = row.count()?;
        let hour = if by.hour { started / HOUR_MS * HOUR_MS } else { 0 };
        let of_lane = entry(&mut groups, if by.lane { lane } else { "" });
        let of_alias = entry(of_lane, if by.alias { alias } else { "" });
        of_alias.entry(hour).or_default().take(lane, row)
    })?;
    Ok(close(groups, by))
}

fn close(groups: Groups, by: Grouping) -> Vec<Summary> {
    let mut closed = Vec::new();
    for (lane, aliases) in groups {
        for (alias, hours) in aliases {
            let names = (by.lane.then(|| lane.clone()), by.alias.then_some(alias));
            closed.extend(hours.into_iter().map(|(hour, group)| group.close(names.clone(), by.hour.then_some(hour))));
        }
    }
    closed
}

/// The value of a name, made if there is none; the name is copied only then.
pub(crate) fn entry<'m, V: Default>(map: &'m mut BTreeMap<String, V>, name: &str) -> &'m mut V {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), V::default());
    }
    map.get_mut(name).expect("put there above")
}

impl Group {
    fn take(&mut self, lane: &str, mut row: crate::row::Reader<'_>) -> Result<(), StoreError> {
        let end = row.named(&AttemptEnd::ALL, AttemptEnd::name)?;
        let failure = row.opt_named(&FailureKind::ALL, FailureKind::name)?;
        let ttft: Option<u64> = row.opt_count()?;
        let answer: Option<u64> = row.opt_count()?;
        let speed = row.opt_real()?;
        let (reported, counted): (Option<u64>, Option<u64>) = (row.opt_count()?, row.opt_count()?);
        self.ended(end, failure);
        let given_up = matches!(end, AttemptEnd::Lost | AttemptEnd::Abandoned);
        self.given_up_early += u64::from(given_up && ttft.is_none());
        self.ttft_ns.extend(ttft);
        self.answer_ns.extend(answer);
        self.tpot_ms.extend(tpot_ms(speed));
        self.input_tokens += reported.or(counted).unwrap_or(0);
        self.output_tokens += row.opt_count::<u64>()?.unwrap_or(0);
        self.output_tokens_std += row.count::<u64>()?;
        self.cache.add(CacheSight::of(reported, &mut row)?);
        let cost = row.opt_real()?;
        self.paid(cost, row.named(&CostBasis::ALL, CostBasis::name)?);
        if end == AttemptEnd::Lost {
            self.lost_cost_usd += cost.unwrap_or(0.0);
        }
        self.mixture.take(lane, row)
    }

    fn ended(&mut self, end: AttemptEnd, failure: Option<FailureKind>) {
        self.attempts += 1;
        *self.ends.entry(end).or_default() += 1;
        if end == AttemptEnd::Failed {
            *self.failed.entry(failure).or_default() += 1;
        }
    }

    fn paid(&mut self, cost: Option<f64>, basis: CostBasis) {
        self.cost_usd += cost.unwrap_or(0.0);
        self.cost_unknown += u64::from(cost.is_none() && basis != CostBasis::Free);
        self.cost_estimated += u64::from(basis == CostBasis::Estimated);
    }

    fn close(mut self, (lane, alias): (Option<String>, Option<String>), hour_unix_ms: Option<u64>) -> Summary {
        let ended = |end: AttemptEnd| self.ends.get(&end).copied().unwrap_or(0);
        Summary {
            lane,
            alias,
            hour_unix_ms,
            attempts: self.attempts,
            answered: ended(AttemptEnd::Answered),
            lost: ended(AttemptEnd::Lost),
            abandoned: ended(AttemptEnd::Abandoned),
            failed: self.failed,
            given_up_early: self.given_up_early,
            ttft: Distribution::of_nanos(&mut self.ttft_ns),
            answer: Distribution::of_nanos(&mut self.answer_ns),
            tpot: Distribution::of_values(&mut self.tpot_ms, Unit::Milliseconds),
            input_tokens: self.input_tokens,
            output_tokens_std: self.output_tokens_std,
            output_tokens: self.output_tokens,
            cache: self.cache,
            cost_usd: self.cost_usd,
            cost_unknown: self.cost_unknown,
            cost_estimated: self.cost_estimated,
            lost_cost_usd: self.lost_cost_usd,
            mixture: self.mixture,
        }
    }
}

mod of_probes;

pub(crate) use of_probes::summarise_probes;

impl Summary {
    /// Attempts that failed, of any kind.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// As JSON, under the names of its fields.
    pub fn json(&self) -> Value {
        let failed =
            |(kind, n): (&Option<FailureKind>, &u64)| (kind.map_or("unknown", FailureKind::name).to_owned(), *n);
        json!({
            "lane": self.lane,
            "alias": self.alias,
            "hour_unix_ms": self.hour_unix_ms,
            "attempts": self.attempts,
            "answered": self.answered,
            "failed": self.failed.iter().map(failed).collect::<BTreeMap<String, u64>>(),
            "lost": self.lost,
            "abandoned": self.abandoned,
            "given_up_early": self.given_up_early,
            "ttft": self.ttft,
            "answer": self.answer,
            "tpot": self.tpot,
            "input_tokens": self.input_tokens,
            "output_tokens_std": self.output_tokens_std,
            "output_tokens": self.output_tokens,
            "cache": self.cache.json(),
            "cost_usd": self.cost_usd,
            "cost_unknown": self.cost_unknown,
            "cost_estimated": self.cost_estimated,
            "lost_cost_usd": self.lost_cost_usd,
            "mixture": {
                "lanes": self.mixture.lanes,
                "models": self.mixture.models,
                "models_answered": self.mixture.models_answered,
                "dialects": self.mixture.dialects,
                "stream": self.mixture.stream,
                "in_flight": self.mixture.in_flight,
                "versions": self.mixture.versions,
                "regions": self.mixture.regions,
                "tokenizers": self.mixture.tokenizers,
                "fingerprints": self.mixture.fingerprints,
            },
        })
    }
}

impl Mixture {
    /// Of a row that had so many calls open.
    fn opened(&mut self, in_flight: u32) {
        let (least, most) = self.in_flight.unwrap_or((in_flight, in_flight));
        self.in_flight = Some((least.min(in_flight), most.max(in_flight)));
    }

    fn take(&mut self, lane: &str, mut row: crate::row::Reader<'_>) -> Result<(), StoreError> {
        let model = row.str()?;
        let answered = row.opt_str()?.filter(|answered| *answered != model);
        let (client, other) = (row.str()?, row.str()?);
        self.stream.insert(row.boolean()?);
        self.opened(row.count()?);
        insert(&mut self.versions, row.str()?);
        for set in [&mut self.regions, &mut self.tokenizers, &mut self.fingerprints] {
            row.opt_str()?.into_iter().for_each(|name| insert(set, name));
        }
        insert(&mut self.lanes, lane);
        insert(&mut self.models, model);
        if let Some(answered) = answered {
            insert(&mut self.models_answered, answered);
        }
        // Few pairs, so that walking them costs less than making texts to look them up.
        if !self.dialects.iter().any(|(a, b)| a == client && b == other) {
            self.dialects.insert((client.to_owned(), other.to_owned()));
        }
        Ok(())
    }
}

/// Without making a text for each row.
fn insert(set: &mut BTreeSet<String>, text: &str) {
    if !set.contains(text) {
        set.insert(text.to_owned());
    }
}
