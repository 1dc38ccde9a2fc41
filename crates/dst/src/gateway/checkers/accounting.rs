//! Compares the log, the key meters and the requests that reached the lanes.
//!
//! Checks that need every row are skipped where rows were reported lost. Invariant: each attempt that was started has one
//! row, written or counted as lost, and so has each request that was refused before one was started.

use crate::gateway::{GatewayHistory, GatewayScenario, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_core::{Date, Span};
use tokrate_gateway::{AliasConfig, Spending, WinRule};
use tokrate_record::{Attempt, AttemptEnd, AttemptRole};
use tokrate_tokens::{Encoding, count};

/// Dollars that are added up in another order differ by less than that.
const USD_TOLERANCE: f64 = 1e-9;

/// In virtual time computing takes none: what the gateway counts as its own time is by how much timers of a millisecond are late.
const MAX_OWN_TIME: Span = Span::from_millis(2);

pub(super) fn check(scenario: &GatewayScenario, history: &GatewayHistory, wrong: &mut Vec<String>) {
    let (rows, log) = (&history.kept.rows, history.log);
    if log.written != rows.len() as u64 || log.waiting != 0 {
        wrong.push(format!("the log holds {} rows and says {log:?}", rows.len()));
    }
    if log.written + log.lost != history.counted.attempts {
        wrong.push(format!("{} attempts were settled, and the log says {log:?}", history.counted.attempts));
    }
    let refused = history.kept.refusals.iter().map(|row| row.count).sum::<u64>();
    if refused + log.lost_refusals != history.counted.refused {
        wrong.push(format!(
            "{} requests were refused, {refused} are kept, and the log says {log:?}",
            history.counted.refused
        ));
    }
    let mut known = BTreeSet::new();
    for row in rows.iter().chain(&history.kept.moved) {
        if !known.insert((&row.call, row.attempt)) {
            wrong.push(format!("two rows of {}-{}", row.call, row.attempt));
        }
    }
    // A first token that is held back counts as well, for as long as the rule of the alias says.
    let configs = scenario.reloads.iter().map(|(_, reload)| &reload.config).chain([&scenario.config]);
    let holds = configs.flat_map(|config| &config.aliases).any(|alias| alias.win != WinRule::FirstToken);
    for row in rows {
        let is_long = |overhead: &Span| !holds && *overhead > MAX_OWN_TIME;
        if let Some(overhead) = row.overhead_ns.map(Span::from_nanos).filter(is_long) {
            wrong.push(format!("row {}-{} ({:?}): an overhead of {overhead}", row.call, row.attempt, row.end));
        }
        if let Some(what) = row_is_true(history, row) {
            wrong.push(format!("row {}-{} ({:?}, {:?}): {what}", row.call, row.attempt, row.end, row.sample.failure));
        }
    }
    extras_are_paid_for(scenario, history, wrong);
    if log.lost == 0 {
        budgets_are_kept(scenario, history, wrong);
        nobody_was_asked_without_a_row(scenario, history, wrong);
        winners_are_those_of_clients(history, wrong);
        money_is_the_same(history, wrong);
    }
}

/// A row says what its lane wrote.
fn row_is_true(history: &GatewayHistory, row: &Attempt) -> Option<String> {
    let id = format!("{}-{}", row.call, row.attempt);
    let Some(served) = history.served.iter().rev().find(|served| served.id == id) else {
        return row.sample.status.map(|status| format!("status {status} of a request that reached no lane"));
    };
    let response = &served.response;
    if row.lane != format!("lane{}", served.lane) {
        return Some(format!("it went to lane {}", served.lane));
    }
    if !response.is_sound {
        return None;
    }
    if row.sample.status.is_some_and(|status| status != response.status) {
        return Some(format!("status {:?}, but the lane said {}", row.sample.status, response.status));
    }
    let usage = response.usage.unwrap_or_default();
    let differs = |row: Option<u64>, wrote: Option<u64>| row.is_some() && row != wrote;
    if differs(row.sample.output_tokens, usage.output) || differs(row.sample.input_tokens, usage.input) {
        return Some(format!(
            "tokens {:?} {:?}, but the lane said {usage:?}",
            row.sample.input_tokens, row.sample.output_tokens
        ));
    }
    let tokens = count(Encoding::O200kBase, &response.text) as u64;
    let came_whole = row.end == AttemptEnd::Answered && row.sample.failure.is_none() && served.routed.is_some();
    let fits = if came_whole { row.sample.output_tokens_std == tokens } else { row.sample.output_tokens_std <= tokens };
    (!fits).then(|| format!("{} tokens of the {tokens} that the lane wrote", row.sample.output_tokens_std))
}

/// Hedges and races are no more than calls have earned.
fn extras_are_paid_for(scenario: &GatewayScenario, history: &GatewayHistory, wrong: &mut Vec<String>) {
    let extras =
        history.kept.rows.iter().filter(|row| matches!(row.role, AttemptRole::Hedge | AttemptRole::Race)).count();
    let configs = || scenario.reloads.iter().map(|(_, reload)| &reload.config).chain([&scenario.config]);
    let share = |alias: &AliasConfig| alias.budget.extra_share;
    // A lane's own name has the usual budget of a tenth.
    let most = configs().flat_map(|config| config.aliases.iter().map(share)).fold(0.1, f64::max);
    // Every budget begins with one, since the first call may be one that hangs.
    let budgets: usize = configs().map(|config| config.aliases.len()).sum();
    if extras as f64 > (history.outcomes.len() as f64).mul_add(most, budgets as f64) + 1e-6 {
        wrong.push(format!(
            "{extras} extra attempts of {} calls, of which each earns {most}, with {budgets} beforehand",
            history.outcomes.len()
        ));
    }
}

fn nobody_was_asked_without_a_row(scenario: &GatewayScenario, history: &GatewayHistory, wrong: &mut Vec<String>) {
    let rows: BTreeSet<String> = history.kept.rows.iter().map(|row| format!("{}-{}", row.call, row.attempt)).collect();
    for served in &history.served {
        if !rows.contains(&served.id) {
            wrong.push(format!("lane {} was asked for {} and there is no row of it", served.lane, served.id));
        }
    }
    // Where a client's request was broken, what a lane is asked may be.
    let broken: BTreeSet<Option<&str>> = history
        .outcomes
        .iter()
        .filter(|outcome| is_broken(scenario, outcome))
        .map(|outcome| call_of(outcome))
        .collect();
    let known: BTreeSet<Option<&str>> = history.outcomes.iter().map(|outcome| call_of(outcome)).collect();
    for served in history.served.iter().filter(|served| !served.is_understood) {
        let call = served.id.rsplit_once('-').map(|(call, _)| call);
        if known.contains(&call) && !broken.contains(&call) {
            wrong.push(format!("lane {} was asked what it does not understand in {}", served.lane, served.id));
        }
    }
    let mut attempts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    history.kept.rows.iter().for_each(|row| attempts.entry(&row.call).or_default().push(row.attempt));
    for (call, mut numbers) in attempts {
        numbers.sort_unstable();
        if !numbers.iter().copied().eq(0..numbers.len() as u32) {
            wrong.push(format!("attempts {numbers:?} of call {call}"));
        }
    }
}

fn is_broken(scenario: &GatewayScenario, outcome: &Outcome) -> bool {
    !scenario.clients[outcome.client].calls[outcome.nth].is_sound
}

fn call_of(outcome: &Outcome) -> Option<&str> {
    outcome.reply.header("x-tokrate-call")
}

/// A row is marked as won if and only if its client was told that lane.
fn winners_are_those_of_clients(history: &GatewayHistory, wrong: &mut Vec<String>) {
    let mut won: BTreeMap<&str, &str> = BTreeMap::new();
    for row in history.kept.rows.iter().filter(|row| row.won) {
        if won.insert(&row.call, &row.lane).is_some() {
            wrong.push(format!("two attempts of {} won", row.call));
        }
    }
    for outcome in &history.outcomes {
        let (Some(call), Some(lane)) =
            (outcome.reply.header("x-tokrate-call"), outcome.reply.header("x-tokrate-winner"))
        else {
            continue;
        };
        if won.get(call) != Some(&lane) {
            wrong.push(format!("a client was told that {lane} won {call}, and rows say {:?}", won.get(call)));
        }
    }
}

/// What rows cost is what the gateway has counted and keys have spent.
fn money_is_the_same(history: &GatewayHistory, wrong: &mut Vec<String>) {
    let sum = |rows: &mut dyn Iterator<Item = &Attempt>| rows.filter_map(|row| row.sample.cost_usd).sum::<f64>();
    let all = sum(&mut history.kept.rows.iter());
    if (all - history.counted.cost_usd).abs() > USD_TOLERANCE {
        wrong.push(format!("rows cost {all}, and {} was counted", history.counted.cost_usd));
    }
    for (name, months) in months(history) {
        let spent: f64 = months.values().map(|dollars| dollars.spent.as_usd()).sum();
        let cost = sum(&mut history.kept.rows.iter().filter(|row| row.key.as_deref() == Some(name)));
        if (spent - cost).abs() > USD_TOLERANCE {
            wrong.push(format!("rows of {name} cost {cost}, and its meter says {spent}"));
        }
    }
}

/// No key has spent more than its budget, but for one answer without a limit; and nothing is held any more.
fn budgets_are_kept(scenario: &GatewayScenario, history: &GatewayHistory, wrong: &mut Vec<String>) {
    let configs = || scenario.reloads.iter().map(|(_, reload)| &reload.config).chain([&scenario.config]);
    for (name, months) in months(history) {
        let held: f64 = months.values().map(|dollars| dollars.reserved.as_usd()).sum();
        if held > 0.0 {
            wrong.push(format!("{name} still holds {held} USD at the end"));
        }
        let budgets = configs().filter_map(|config| {
            let key = config.keys.iter().find(|key| key.name == name)?;
            key.limits.usd_per_month.map(|budget| budget.as_usd())
        });
        let Some(budget) = budgets.reduce(f64::max) else { continue };
        let unlimited = |row: &&Attempt| row.key.as_deref() == Some(name) && row.sample.output_limit.is_none();
        let beyond =
            history.kept.rows.iter().filter(unlimited).filter_map(|row| row.sample.cost_usd).fold(0.0, f64::max);
        for (month, dollars) in months {
            let spent = dollars.spent.as_usd();
            if spent > budget + beyond + USD_TOLERANCE {
                wrong.push(format!("{name} has spent {spent} of {budget} USD in {month:?}, with {beyond} beyond it"));
            }
        }
    }
}

/// The dollars of each key by month.
fn months(history: &GatewayHistory) -> BTreeMap<&str, BTreeMap<(u64, u64), Spending>> {
    let mut months: BTreeMap<&str, BTreeMap<_, _>> = BTreeMap::new();
    for (name, second, dollars) in &history.key_dollars {
        let Date { year, month, .. } = Date::of_seconds(*second);
        months.entry(name).or_default().insert((year, month), *dollars);
    }
    months
}
