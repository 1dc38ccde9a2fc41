//! `tokrate replay`: what another policy would have cost and saved, from the gateway's throughput log.
//!
//! Nothing is estimated where too little was measured. Invariant: each name that clients ask for is replayed by
//! itself, on the lanes that it was sent to.

mod logged;
mod sessions;

use super::Verdict;
use crate::config::clickhouse;
use crate::config::gateway::aliases::{PolicyWords, format_mode, mode, policy};
use crate::config::log::moment;
use crate::flags::replay::Flags;
use crate::out::log::nothing;
use crate::out::replay::{self, Replayed};
use crate::out::replay_sessions::Sessions;
use crate::out::stdout;
use anyhow::{Context, Result, anyhow, bail, ensure};
use logged::Logged;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokrate_net::Clock;
use tokrate_record::AttemptRole;
use tokrate_route::{Alternative, Mode, Policy, ReplayConfig};
use tokrate_store::{Attempt, Query, StoreError};

/// How far back rows are read by default.
const DEFAULT_SINCE: &str = "24h";
/// Only policies that draw lots use it; fixed, so that the same log gives the same report.
const SEED: u64 = 1;

/// Reads the log and prints what is estimated.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let words = PolicyWords {
        name: &flags.policy,
        max_ttft: flags.ttft_most.as_deref(),
        min_speed: flags.speed_least,
        usd_per_second: flags.usd_per_second,
    };
    let policy = policy(&words).context("read --policy")?;
    let mode = mode(flags.mode.as_deref()).context("read --mode")?;
    let now_unix_ms = Clock::monotonic().wall_nanos() / 1_000_000;
    let since = moment(flags.since.as_deref().unwrap_or(DEFAULT_SINCE), now_unix_ms).context("read --since")?;
    let query = Query { from_unix_ms: since, alias: flags.alias.clone(), ..Query::default() };
    let file = clickhouse::settings_for(Some(&flags.log))?;
    let store = clickhouse::named(&flags.log, file.as_ref())?.log().map_err(|error| match error {
        StoreError::Missing { path } => {
            anyhow!(
                "read the log {}: there is no such file; `tokrate gateway` writes one where it runs",
                path.display()
            )
        }
        error => error.into(),
    })?;
    let mut aliases: BTreeMap<String, Vec<Attempt>> = BTreeMap::new();
    // A probe is nobody's call.
    let rows = store.attempts(&query)?.into_iter().filter(|row| row.role != AttemptRole::Probe);
    for row in rows {
        aliases.entry(row.alias.clone()).or_default().push(row);
    }
    ensure!(!aliases.is_empty(), "replay the calls: {}", nothing("attempts", &flags.log, &query));
    if policy == Policy::Cache {
        ensure!(mode == Mode::Off, "read --mode: the policy `cache` is replayed one lane a call; leave --mode out");
        ensure!(flags.lanes.is_empty(), "read --lanes: the policy `cache` keeps sessions on the lanes that they had");
        let all: Vec<Sessions> = aliases.into_iter().map(|(alias, rows)| sessions::sessions(alias, &rows)).collect();
        return print_sessions(flags, &query, &all);
    }
    let replayed = aliases
        .into_iter()
        .map(|(alias, rows)| replay(alias, &rows, &flags.lanes, policy, mode))
        .collect::<Result<Vec<_>>>()?;
    print(flags, &query, &policy_text(&policy, mode), &replayed)
}

fn policy_text(policy: &Policy, mode: Mode) -> String {
    match mode {
        Mode::Off => policy.to_string(),
        mode => format!("{}, {}", policy, format_mode(mode)),
    }
}

fn replay(alias: String, rows: &[Attempt], wanted: &[String], policy: Policy, mode: Mode) -> Result<Replayed> {
    let lanes = lanes(&alias, rows, wanted)?;
    let instead = match mode {
        Mode::Off => Alternative::Single(policy),
        Mode::Hedge => Alternative::Hedge { policy },
        Mode::Race { lanes } => Alternative::Race { policy, lanes },
    };
    let at_once = match mode {
        Mode::Off => 1,
        Mode::Hedge => 2,
        Mode::Race { lanes } => lanes,
    };
    ensure!(
        lanes.len() >= at_once,
        "replay {alias} with {}: that takes {at_once} lanes, and there {} {}; --alias picks another name",
        format_mode(mode),
        if lanes.len() == 1 { "is only" } else { "are only" },
        lanes.join(", ")
    );
    let logged = Logged::new(rows, &lanes);
    let config = ReplayConfig::default();
    let report = tokrate_route::replay(&logged.rows, &logged.lanes, &instead, &config, SEED);
    Ok(Replayed {
        alias,
        measurable: logged.measurable(),
        given_up_early: logged.given_up_early(),
        prices: logged.lanes.iter().map(|lane| lane.price).collect(),
        from_unix_ms: rows.iter().map(|row| row.sample.started_unix_ms).min().unwrap_or(0),
        until_unix_ms: rows.iter().map(|row| row.sample.started_unix_ms).max().unwrap_or(0),
        ttft_ms: logged.ttft_ms,
        completion_ms: logged.completion_ms,
        answer_ms: logged.answer_ms,
        lanes,
        listed: !wanted.is_empty(),
        policy,
        one_lane: mode == Mode::Off,
        hedged: mode == Mode::Hedge,
        near: config.window,
        neighbours_least: config.min_neighbours,
        report,
    })
}

/// The lanes to choose from.
fn lanes(alias: &str, rows: &[Attempt], wanted: &[String]) -> Result<Vec<String>> {
    let mut known: Vec<&str> = rows.iter().map(|row| row.lane.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    for (place, lane) in wanted.iter().enumerate() {
        if !known.contains(&lane.as_str()) {
            bail!("read --lanes: {alias} was not sent to `{lane}` in that time; it was sent to {}", known.join(", "));
        }
        ensure!(!wanted[..place].contains(lane), "read --lanes: `{lane}` is named twice");
    }
    Ok(if wanted.is_empty() { known.into_iter().map(str::to_owned).collect() } else { wanted.to_vec() })
}

fn print(flags: &Flags, query: &Query, instead: &str, all: &[Replayed]) -> Result<Verdict> {
    let has_refusal = all.iter().any(|replayed| replayed.refusal(instead).is_some());
    if flags.json {
        let aliases: Vec<Value> = all.iter().map(|replayed| replayed.json(instead)).collect();
        let all = json!({
            "schema": "tokrate.replay.v1",
            "from_unix_ms": query.from_unix_ms,
            "policy": flags.policy,
            "mode": flags.mode.as_deref().unwrap_or("off"),
            "instead": instead,
            "aliases": aliases,
        });
        stdout::write(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    } else {
        let texts: Vec<String> = all.iter().filter_map(|replayed| replay::text(replayed, instead)).collect();
        stdout::write(&texts.join("\n"))?;
        for refusal in all.iter().filter_map(|replayed| replayed.refusal(instead)) {
            anstream::eprintln!("tokrate: {refusal}");
        }
    }
    Ok(if has_refusal { Verdict::NotMeasured } else { Verdict::Good })
}

/// Of sessions kept on the lanes that have their prompts: the log knows no prompts, so that the policy itself cannot be replayed.
fn print_sessions(flags: &Flags, query: &Query, all: &[Sessions]) -> Result<Verdict> {
    if flags.json {
        let all = json!({
            "schema": "tokrate.replay.v1",
            "from_unix_ms": query.from_unix_ms,
            "policy": flags.policy,
            "sessions": all.iter().map(Sessions::json).collect::<Vec<Value>>(),
        });
        stdout::write(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    } else {
        let texts: Vec<String> = all.iter().filter_map(Sessions::text).collect();
        stdout::write(&texts.join("\n"))?;
        for refusal in all.iter().filter_map(Sessions::refusal) {
            anstream::eprintln!("tokrate: {refusal}");
        }
    }
    let has_refusal = all.iter().any(|sessions| sessions.refusal().is_some());
    Ok(if has_refusal { Verdict::NotMeasured } else { Verdict::Good })
}
