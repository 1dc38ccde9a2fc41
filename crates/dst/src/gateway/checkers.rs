//! Properties that must hold in every gateway world.
//!
//! Answers are compared with what providers wrote, rows with what reached the providers, meters with rows. Invariant: an
//! empty list means that everything was checked.

mod accounting;
mod answers;

use super::{Call, CallEnd, GatewayHistory, GatewayScenario, Outcome, ReadPattern, Reply, SendPattern};
use tokrate_core::Span;
use tokrate_gateway::simulation::HeldResources;

/// Tolerance for the stop: timers are coarse.
const STOP_TOLERANCE: Span = Span::from_secs(1);

/// Descriptions of all violations.
pub fn check(scenario: &GatewayScenario, history: &GatewayHistory) -> Vec<String> {
    let mut wrong = Vec::new();
    if !history.has_ended {
        wrong.push("the world never ends".to_owned());
    }
    ends(scenario, history, &mut wrong);
    for outcome in &history.outcomes {
        outcome_is_clear(scenario, history, outcome, &mut wrong);
        if let Some(what) = answers::check(scenario, history, outcome) {
            wrong.push(format!("{}: {what}", named(outcome)));
        }
    }
    accounting::check(scenario, history, &mut wrong);
    wrong
}

/// Whether an answer reports its own failure.
pub(super) fn reports_failure(call: &Call, reply: &Reply) -> bool {
    call.dialect.is_some_and(|dialect| answers::read(dialect, call.shape, &reply.body).has_failed)
}

fn named(outcome: &Outcome) -> String {
    format!("client {} call {}", outcome.client, outcome.nth)
}

/// At the end nothing is reserved, open or in flight.
fn ends(scenario: &GatewayScenario, history: &GatewayHistory, wrong: &mut Vec<String>) {
    let HeldResources { extra_usd, .. } = history.held;
    let held = HeldResources { extra_usd: if extra_usd < 1e-9 { 0.0 } else { extra_usd }, ..history.held.clone() };
    if held != HeldResources::default() {
        wrong.push(format!("still held at the end: {held:?}"));
    }
    if history.left_open > 0 {
        wrong.push(format!("{} connections are still open", history.left_open));
    }
    let calls: usize = scenario.clients.iter().map(|client| client.calls.len()).sum();
    if history.outcomes.len() != calls {
        wrong.push(format!("{calls} calls have {} outcomes", history.outcomes.len()));
    }
    if let Some((told_at, ended_at)) = history.stopped {
        let drain = scenario.config.drain;
        let most = told_at + drain + drain + STOP_TOLERANCE;
        if ended_at > most {
            wrong.push(format!("told to stop at {told_at:?}, with {drain} to drain, it ended at {ended_at:?}"));
        }
    }
    let mut reloads: Vec<_> = scenario.reloads.iter().collect();
    reloads.sort_by_key(|(at, _)| *at);
    for ((at, reload), (_, is_taken)) in reloads.into_iter().zip(&history.reloads) {
        if reload.is_valid != *is_taken {
            wrong.push(format!(
                "the configuration of {at} makes sense: {}, was taken over: {is_taken}",
                reload.is_valid
            ));
        }
    }
}

/// Every call has an answer, an error, a client that disconnected, or was cut by the stop.
fn outcome_is_clear(scenario: &GatewayScenario, history: &GatewayHistory, outcome: &Outcome, wrong: &mut Vec<String>) {
    let call = &scenario.clients[outcome.client].calls[outcome.nth];
    let Some((stopped_at, _)) = history.stopped else { return };
    if let Some(what) = &outcome.reply.wrong
        && call.is_sound
    {
        wrong.push(format!("{}: {what}", named(outcome)));
    }
    let is_unclear = match outcome.end {
        CallEnd::Whole | CallEnd::Disconnected => false,
        CallEnd::Hung => true,
        CallEnd::Refused => outcome.began_at < stopped_at,
        CallEnd::Closed => {
            // The last pieces of a slow request may come after the gateway has timed out.
            let is_slow = matches!(call.sends, SendPattern::Slowly { .. });
            let is_stalled =
                matches!(call.reads, ReadPattern::Pauses { pause, .. } if pause >= min_send_limit(scenario));
            // What passes as it comes has no way to say that it broke off.
            let has_no_word = call.dialect.is_none_or(|dialect| dialect == tokrate_wire::Dialect::BedrockConverse);
            let is_cut = has_no_word && outcome.reply.status == Some(200);
            let was_whole = outcome.sent_at.is_some_and(|sent_at| sent_at < stopped_at);
            let cut_at = if was_whole { stopped_at + scenario.config.drain } else { stopped_at };
            call.is_sound && !is_slow && !is_stalled && !is_cut && outcome.ended_at < cut_at
        }
    };
    if is_unclear {
        wrong.push(format!(
            "{}: {:?} at {:?} after {} bytes, status {:?}",
            named(outcome),
            outcome.end,
            outcome.ended_at,
            outcome.reply.bytes,
            outcome.reply.status
        ));
    }
}

/// The shortest send timeout of all configurations.
fn min_send_limit(scenario: &GatewayScenario) -> Span {
    let reloads = scenario.reloads.iter().map(|(_, reload)| reload.config.limits.send);
    reloads.fold(scenario.config.limits.send, Span::min)
}
