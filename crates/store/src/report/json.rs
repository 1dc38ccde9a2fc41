//! A report as JSON, under the names of its fields.

use super::{Bucket, LaneReport, Report, Spread, Tally, Times};
use serde_json::{Value, json};
use tokrate_core::FailureKind;

impl Report {
    /// As JSON.
    pub fn json(&self) -> Value {
        let calls = self.calls.map(|calls| {
            json!({
                "all": calls.all,
                "answered": calls.answered,
                "broken": calls.broken,
                "failed": calls.failed,
                "abandoned": calls.abandoned,
                "open": calls.open,
            })
        });
        let failures = self.failures.iter().map(|((lane, kind), found)| {
            let keys = found.keys.iter().map(|(key, count)| json!({ "key": key, "count": count }));
            json!({
                "lane": lane,
                "failure": kind.map_or("unknown", FailureKind::name),
                "count": found.count,
                "first_unix_ms": found.first_unix_ms,
                "last_unix_ms": found.last_unix_ms,
                "last_call": found.last_call,
                "keys": keys.collect::<Vec<Value>>(),
                "aliases": found.aliases,
                "buckets": found.buckets,
            })
        });
        let keys = self.keys.iter().map(|(key, tally)| with(tally.json(), "key", json!(key)));
        let aliases = self.aliases.iter().map(|(alias, tally)| with(tally.json(), "alias", json!(alias)));
        let lanes = self.lanes.iter().map(|(name, lane)| with(lane.json(), "lane", json!(name)));
        json!({
            "since_unix_ms": self.from_unix_ms,
            "until_unix_ms": self.until_unix_ms,
            "cut_off": self.is_cut,
            "bucket_ms": self.bucket_ms,
            "first_bucket_unix_ms": self.bucket_unix_ms(0),
            "calls": calls,
            "total": self.total.json(),
            "lanes": lanes.collect::<Vec<Value>>(),
            "keys": keys.collect::<Vec<Value>>(),
            "aliases": aliases.collect::<Vec<Value>>(),
            "failures": failures.collect::<Vec<Value>>(),
        })
    }
}

fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

impl Tally {
    fn json(&self) -> Value {
        json!({
            "attempts": self.attempts,
            "answered": self.answered,
            "failed": self.failed,
            "lost": self.lost,
            "abandoned": self.abandoned,
            "failovers": self.failovers,
            "hedges": self.hedges,
            "hedges_won": self.hedges_won,
            "races": self.races,
            "races_won": self.races_won,
            "cost_usd": self.cost_usd,
            "lost_cost_usd": self.lost_cost_usd,
            "cost_unknown": self.cost_unknown,
            "cost_estimated": self.cost_estimated,
        })
    }
}

impl LaneReport {
    fn json(&self) -> Value {
        let mut lane = self.tally.json();
        lane["models"] = json!(self.models);
        lane["ttft_ms"] = self.ttft.json();
        lane["answer_ms"] = self.answer.json();
        lane["tpot_ms"] = self.tpot.json();
        lane["cache"] = self.cache.json();
        lane["buckets"] = self.buckets.iter().map(Bucket::json).collect();
        lane
    }
}

impl Times {
    pub(crate) fn json(&self) -> Value {
        json!({ "n": self.n, "p50": self.p50, "p90": self.p90, "p99": self.p99 })
    }
}

impl Bucket {
    fn json(&self) -> Value {
        let spread =
            |spread: &Option<Spread>| spread.map(|s| json!({ "n": s.n, "p10": s.low, "p50": s.median, "p90": s.high }));
        json!({
            "attempts": self.attempts,
            "failed": self.failed,
            "extra": self.extra,
            "extra_won": self.extra_won,
            "ttft_ms": spread(&self.ttft),
            "output_speed": spread(&self.speed),
        })
    }
}
