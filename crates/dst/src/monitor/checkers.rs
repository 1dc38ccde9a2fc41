//! What must hold of every history of a monitor.
//!
//! Invariant: a check compares two independent accounts, or a row with a rule.

use super::{DAY_MS, History, Scenario, Trouble};
use std::collections::{BTreeMap, BTreeSet};
use tokrate_alert::{Message, MessageKind};
use tokrate_store::{CYCLE_IS_OPEN, EventRow, ProbeRow};

/// Everything that is wrong with a history.
pub fn check(scenario: &Scenario, history: &History) -> Vec<String> {
    let mut wrong = Vec::new();
    rows(scenario, history, &mut wrong);
    slots(history, &mut wrong);
    numbers(history, &mut wrong);
    events(history, &mut wrong);
    alerts(history, &mut wrong);
    troubles(scenario, history, &mut wrong);
    budget(scenario, history, &mut wrong);
    wrong.truncate(10);
    wrong
}

fn key(row: &ProbeRow) -> &str {
    &row.probe.id
}

/// What ended is kept, once, and as it was reported.
fn rows(scenario: &Scenario, history: &History, wrong: &mut Vec<String>) {
    let kept: BTreeMap<&str, &ProbeRow> = history.kept.iter().map(|row| (key(row), row)).collect();
    if kept.len() != history.kept.len() {
        wrong.push("an id is there twice".to_owned());
    }
    let reported: BTreeSet<&str> = history.reported.iter().map(key).collect();
    for row in &history.reported {
        match kept.get(key(row)) {
            None => wrong.push(format!("{} was lost", key(row))),
            Some(kept) if kept.probe.sample != row.probe.sample => wrong.push(format!("{} has changed", key(row))),
            Some(_) => {}
        }
    }
    wrong.extend(kept.keys().filter(|id| !reported.contains(*id)).map(|id| format!("{id} was never reported")));
    // The cycle of the slot in which the world ends may be under way.
    let last_slot = history.ended_unix_ms - DAY_MS / u64::from(scenario.slots_a_day)..=history.ended_unix_ms;
    let has_ended = |row: &&ProbeRow| !last_slot.contains(&row.slot_unix_ms);
    let open =
        history.kept.iter().filter(|row| row.probe.quarantine.as_deref() == Some(CYCLE_IS_OPEN)).filter(has_ended);
    wrong.extend(open.map(|row| format!("{} was never judged", key(row))));
}

/// A slot has one regular probe of a series.
fn slots(history: &History, wrong: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for row in history.kept.iter().filter(|row| !row.is_further) {
        if !seen.insert((&row.probe.endpoint, row.slot_unix_ms)) {
            wrong.push(format!("{} was probed twice in the slot of {}", row.probe.endpoint, row.slot_unix_ms));
        }
    }
}

/// A request that failed, or was answered by another model, has a reason and no number.
fn numbers(history: &History, wrong: &mut Vec<String>) {
    for row in &history.kept {
        let sample = &row.probe.sample;
        let is_other = sample.model_answered.as_deref().is_some_and(|model| model != "m");
        let should_fail = sample.failure.is_some() || is_other;
        if should_fail != row.reason.is_some() {
            wrong.push(format!("{}: {:?} with {:?}", key(row), row.reason, sample.failure));
        }
        if sample.output_speed == Some(0.0) || sample.ttft_ns == Some(0) {
            wrong.push(format!("{} has a number that is 0", key(row)));
        }
    }
}

/// A change is reported once and kept.
fn events(history: &History, wrong: &mut Vec<String>) {
    let key = |event: &EventRow| {
        (event.at_unix_ms, event.endpoint.clone(), event.metric.clone(), event.kind.clone(), event.since_unix_ms)
    };
    let reported: BTreeSet<_> = history.events.iter().map(key).collect();
    let kept: BTreeSet<_> = history.kept_events.iter().map(key).collect();
    if reported.len() != history.events.len() {
        wrong.push("a change was reported twice".to_owned());
    }
    // One that was found while the prober was started is kept and reported in the same step; none is missing on either side.
    if reported != kept {
        wrong.push(format!("reported {reported:?}, kept {kept:?}"));
    }
}

/// An alert is accepted once, or again where the prober was killed before it knew; those of an incident come in their order, from the
/// first on and with the end last; and every change for the worse is in one.
fn alerts(history: &History, wrong: &mut Vec<String>) {
    let mut incidents: BTreeMap<&str, Vec<&Message>> = BTreeMap::new();
    let (mut ids, mut again) = (BTreeSet::new(), 0);
    for message in &history.alerts {
        if ids.insert(&message.id) {
            incidents.entry(&message.incident).or_default().push(message);
        } else {
            again += 1;
        }
    }
    if again > history.unsure {
        wrong.push(format!("{again} alerts came again, and {} were on their way at a kill", history.unsure));
    }
    if history.waiting > 0 {
        wrong.push(format!("{} alerts still wait after a day in which all were accepted", history.waiting));
    }
    for (incident, messages) in &incidents {
        for (number, message) in messages.iter().enumerate() {
            if message.id != format!("{incident}-{}", number + 1) {
                wrong.push(format!("{} is not message {} of its incident", message.id, number + 1));
            }
            let is_first = message.kind == MessageKind::Firing;
            let is_last = message.kind == MessageKind::Resolved;
            if is_first != (number == 0) || is_last && number + 1 != messages.len() {
                wrong.push(format!("{} is {:?}", message.id, message.kind));
            }
        }
    }
    let named = |event: &EventRow| {
        let is_it = |message: &&Message| {
            let is_member = |endpoint: &str| message.members.iter().any(|member| member.endpoint == endpoint);
            message.rule == "changes" && is_member(&event.endpoint)
        };
        history.alerts.iter().any(|message| is_it(&message))
    };
    let is_worse = |event: &&EventRow| event.kind == "regression" || event.kind == "errors" && event.change > 0.0;
    let unnamed = history.events.iter().filter(is_worse).filter(|event| !named(event));
    wrong.extend(unnamed.map(|event| format!("no alert names {event:?}")));
}

/// What was done to the prober is to be seen.
fn troubles(scenario: &Scenario, history: &History, wrong: &mut Vec<String>) {
    let says = |words: &str| history.notices.iter().any(|notice| notice.contains(words));
    // Nobody sees a clock being set while no prober runs.
    let is_killed = scenario.troubles.iter().any(|(_, trouble)| matches!(trouble, Trouble::Kill(_)));
    for (at, trouble) in &scenario.troubles {
        match trouble {
            Trouble::Clock(ms) if ms.abs() > 60_000 && !is_killed && !says("the clock") => {
                wrong.push(format!("nothing was said of the clock at {at}"));
            }
            _ => {}
        }
    }
    let is_plain = scenario.troubles.is_empty();
    // By chance half of a few providers are bad within an hour, now and then.
    let away = history.kept.iter().filter(|row| row.probe.quarantine.is_some()).count();
    if is_plain && 100 * away > history.kept.len() {
        wrong.push(format!("{away} of {} are in quarantine although nothing happened", history.kept.len()));
    }
    if is_plain && scenario.usd_per_month.is_none() {
        let planned = scenario.endpoints as u64 * u64::from(scenario.slots_a_day) * (scenario.days + 1);
        let regular = history.kept.iter().filter(|row| !row.is_further).count() as u64;
        if regular + history.prober.missed != planned {
            wrong.push(format!("{regular} sent and {} missed of {planned}", history.prober.missed));
        }
    }
}

/// What was spent is within the budget of each month.
fn budget(scenario: &Scenario, history: &History, wrong: &mut Vec<String>) {
    let Some(most) = scenario.usd_per_month else { return };
    // Clocks jump by days: all of it is in one month or two.
    let spent: f64 = history.kept.iter().filter_map(|row| row.probe.sample.cost_usd).sum();
    if spent > 2.0 * most.as_usd() {
        wrong.push(format!("{spent} USD of {most}"));
    }
}
