//! `tokrate log`: what the gateway's throughput log holds, and whether a lane got worse.

use super::{Verdict, compare};
use crate::config::log::{Config, View, resolve};
use crate::flags::log::Flags;
use crate::flags::source::Source;
use crate::out::comparison::Sides;
use crate::out::{comparison_blocks, log, stdout};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokrate_judge::compare::{CompareError, CompareOptions};
use tokrate_net::Clock;
use tokrate_record::{Attempt, Metric};
use tokrate_store::{Grouping, Store, StoreError};

/// Reads the log and prints the view that was chosen.
pub fn run(flags: &Flags) -> Result<Verdict> {
    let config = resolve(flags, Clock::monotonic().wall_nanos() / 1_000_000)?;
    let of_gateway = config.source == Source::Gateway;
    let store = config.from.rows(config.source.of_rows()).map_err(|error| match error {
        StoreError::Missing { path } => anyhow!(
            "read the log {}: there is no such file; `tokrate {}` writes one where it runs, --db names another",
            path.display(),
            if of_gateway { "gateway" } else { "monitor" }
        ),
        error => error.into(),
    })?;
    if !(of_gateway || config.json) {
        stdout::write(&format!("source: {}, in {}\n", config.source.of_rows().name(), config.from.shown().display()))?;
    }
    match config.view {
        View::Groups(by) => groups(&config, &*store, by),
        View::Calls(most) => calls(&config, &*store, most),
        View::Session => session(&config, &*store),
        View::Sessions => sessions(&config, &*store),
        View::Refused => refused(&config, &*store),
        View::Regressions { split_unix_ms, threshold } => regressions(&config, &*store, split_unix_ms, threshold),
    }
}

fn groups(config: &Config, store: &dyn Store, by: Grouping) -> Result<Verdict> {
    let groups = store.summarise(&config.query, by)?;
    let refused = store.refused_by_reason(&config.query)?;
    if config.json {
        let groups: Vec<Value> = groups.iter().map(tokrate_store::Summary::json).collect();
        return print_json(config, json!({ "groups": groups, "refused": refused }));
    }
    if groups.is_empty() {
        stdout::write(&format!("{}\n", log::nothing("attempts", config.from.shown(), &config.query)))?;
    } else {
        stdout::write(&log::groups(&groups, by, config.source))?;
    }
    stdout::write(&log::refused_line(&refused))?;
    Ok(Verdict::Good)
}

fn refused(config: &Config, store: &dyn Store) -> Result<Verdict> {
    let refusals = store.refusals(&config.query)?;
    if config.json {
        return print_json(config, json!({ "refusals": refusals }));
    }
    if refusals.is_empty() {
        stdout::write(&format!("{}\n", log::nothing("refused requests", config.from.shown(), &config.query)))?;
    } else {
        stdout::write(&log::refusals(&refusals))?;
    }
    Ok(Verdict::Good)
}

fn calls(config: &Config, store: &dyn Store, most: usize) -> Result<Verdict> {
    let calls = store.calls(&config.query, most)?;
    if config.json {
        return print_json(config, json!({ "calls": calls }));
    }
    if calls.is_empty() {
        stdout::write(&format!("{}\n", log::nothing("attempts", config.from.shown(), &config.query)))?;
    }
    for call in &calls {
        stdout::write(&format!("{}\n", log::call(call)))?;
    }
    Ok(Verdict::Good)
}

/// Most calls of one session that are shown: those of the longest agents are a few hundred.
const MAX_SESSION_CALLS: usize = 5_000;
/// Most sessions of a table: the latest.
const MAX_SESSIONS: usize = 200;

fn session(config: &Config, store: &dyn Store) -> Result<Verdict> {
    let name = config.query.session.as_deref().unwrap_or_default();
    let found = log::Session::of(name, &store.calls(&config.query, MAX_SESSION_CALLS)?);
    if config.json {
        return print_json(config, json!({ "chain": found.map(|session| session.json()) }));
    }
    let text = found.map_or_else(
        || format!("{}\n", log::nothing("calls", config.from.shown(), &config.query)),
        |session| session.text(),
    );
    stdout::write(&text)?;
    Ok(Verdict::Good)
}

fn sessions(config: &Config, store: &dyn Store) -> Result<Verdict> {
    let mut by_name: BTreeMap<String, BTreeMap<String, Vec<Attempt>>> = BTreeMap::new();
    store.visit_attempts(&config.query, &mut |row| {
        if let Some(name) = row.session.clone() {
            by_name.entry(name).or_default().entry(row.call.clone()).or_default().push(row);
        }
    })?;
    let of = |(name, calls): (String, BTreeMap<String, Vec<Attempt>>)| {
        log::Session::of(&name, &calls.into_values().collect::<Vec<_>>())
    };
    let mut all: Vec<log::Session> = by_name.into_iter().filter_map(of).collect();
    all.sort_by_key(|session| std::cmp::Reverse(session.begun_unix_ms()));
    all.truncate(MAX_SESSIONS);
    if config.json {
        let all: Vec<Value> = all.iter().map(log::Session::json).collect();
        return print_json(config, json!({ "sessions": all }));
    }
    let text = match all.is_empty() {
        true => format!("{}\n", log::nothing("calls with x-tokrate-session", config.from.shown(), &config.query)),
        false => log::sessions(&all),
    };
    stdout::write(&text)?;
    Ok(Verdict::Good)
}

fn regressions(config: &Config, store: &dyn Store, split_unix_ms: u64, threshold: f64) -> Result<Verdict> {
    let (before, after) = store.sides(&config.query, split_unix_ms)?;
    let options = CompareOptions {
        metrics: vec![Metric::Ttft, Metric::OutputSpeed, Metric::FailureShare],
        threshold,
        ..CompareOptions::default()
    };
    let report = tokrate_judge::compare::compare(&before, &after, &options).map_err(|error| match error {
        CompareError::NoCommonLevel { a, b, .. } => anyhow!(
            "compare the two windows: no lane has attempts of like conditions in both (kinds of conditions: {} in the earlier, \
             {} in the later); choose a longer --since, or look at both with --by lane,hour",
            a.len(),
            b.len()
        ),
        error => anyhow!("{error}"),
    })?;
    if config.json {
        print_json(config, json!({ "split_unix_ms": split_unix_ms, "comparison": report }))?;
    } else {
        let windows = log::windows(&config.query, split_unix_ms);
        stdout::write(&(windows + &comparison_blocks::shown(&report, Sides::BeforeAfter, false)))?;
    }
    Ok(compare::verdict(&report))
}

fn print_json(config: &Config, what: Value) -> Result<Verdict> {
    let query = &config.query;
    let mut all = json!({
        "schema": "tokrate.log.v1",
        "source": config.source.of_rows().name(),
        "from_unix_ms": query.from_unix_ms,
        "until_unix_ms": query.until_unix_ms,
        "lane": query.lane,
        "alias": query.alias,
        "key": query.key,
    });
    if let (Some(all), Value::Object(what)) = (all.as_object_mut(), what) {
        all.extend(what);
    }
    stdout::write(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    Ok(Verdict::Good)
}
