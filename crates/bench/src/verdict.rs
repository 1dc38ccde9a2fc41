//! What a reader must know before trusting a run's numbers, in sentences.
//!
//! It refuses to measure: everything is read off the phases. Invariant: what makes a result worthless is never mixed with
//! what only asks for care.

use crate::prompts::PromptSource;
use tokrate_meter::{PhaseResult, Suspicion};

/// What must not be used: phases that contradict themselves, and figures that the client's own error could have moved.
pub(crate) fn invalidities(phases: &[PhaseResult]) -> Vec<String> {
    let mut found = Vec::new();
    for phase in phases {
        for violation in &phase.gate {
            found.push(format!(
                "{}: the numbers contradict each other, a bug of tokrate: {:?} should be {}, is {}",
                phase.name, violation.check, violation.expected, violation.seen
            ));
        }
    }
    let limited: Vec<(&str, &str)> = phases
        .iter()
        .filter_map(|phase| Some((phase.name.as_str(), phase.client_error.as_ref()?.reason.as_deref()?)))
        .collect();
    if !limited.is_empty() {
        let each: Vec<String> = limited.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
        found.push(format!("not valid by the client's own error: {}; the other figures stand", each.join("; ")));
    }
    found
}

/// What asks for care: failures, rate limits, arrivals that were never sent.
pub(crate) fn cautions(phases: &[PhaseResult]) -> Vec<String> {
    let mut found = Vec::new();
    for phase in phases.iter().filter(|phase| phase.failures_above_limit) {
        let share = phase.counts.failed_share().unwrap_or(0.0) * 100.0;
        let kinds: Vec<String> =
            phase.failures.iter().map(|failure| format!("{} {}", failure.count, failure.kind.name())).collect();
        let hint = phase.failures.first().map_or("", |failure| failure.hint.as_str());
        found.push(format!("{}: {share:.1} % of the requests failed ({}); {hint}", phase.name, kinds.join(", ")));
    }
    for phase in phases {
        if phase.rate_limited.count > 0 {
            found.push(format!(
                "{}: {} requests were rate-limited; the level measures the provider's limit, not its speed",
                phase.name, phase.rate_limited.count
            ));
        }
        if phase.counts.withheld > 0 {
            found.push(format!(
                "{}: {} arrivals were not sent because the provider had asked to wait (--no-backoff sends them)",
                phase.name, phase.counts.withheld
            ));
        }
        let held = phase.rate_limited.held_back_share.filter(|share| *share > 0.0);
        if let (Some(share), Some(seconds)) = (held, phase.rate_limited.held_back_seconds) {
            found.push(format!(
                "{}: the load was held back for {seconds:.1} s ({:.0} % of the level) because the provider asked to wait",
                phase.name,
                share * 100.0
            ));
        }
        if phase.counts.forfeited > 0 {
            found.push(format!("{}: {} arrivals were forfeited (--max-in-flight)", phase.name, phase.counts.forfeited));
        }
    }
    for phase in phases {
        let warnings = phase.server.iter().flat_map(|server| &server.warnings);
        found.extend(warnings.map(|warning| format!("{}: {warning}", phase.name)));
    }
    let doubtful = suspicions(phases).into_iter().filter(|suspicion| !suspicion.is_note());
    found.extend(doubtful.map(|suspicion| suspicion.sentence));
    found
}

/// The signs of fooling of all phases, each once.
fn suspicions(phases: &[PhaseResult]) -> Vec<Suspicion> {
    Suspicion::pooled(phases.iter().flat_map(|phase| &phase.suspicions))
}

/// That prompts were sent more than once, if they were.
pub(crate) fn reused(source: &PromptSource, used: u64) -> Option<String> {
    let prompts = source.len().filter(|prompts| used > *prompts)?;
    Some(format!(
        "{used} requests used {prompts} prompts, so some were sent again; a server that caches prompts answers those faster"
    ))
}

/// That a trace held requests without tokens, if it did.
pub(crate) fn left_out(source: &PromptSource) -> Option<String> {
    let PromptSource::Trace(trace) = source else { return None };
    (trace.left_out > 0).then(|| {
        format!(
            "{} requests of the trace have no tokens (they failed when it was taken) and were left out",
            trace.left_out
        )
    })
}

/// What a reader may want to know.
pub(crate) fn notes(phases: &[PhaseResult]) -> Vec<String> {
    let stale = phases.iter().filter(|phase| phase.connections.stale > 0).map(|phase| {
        format!(
            "{}: the server had closed {} kept connections without saying so; their requests were sent on others and are timed from then",
            phase.name, phase.connections.stale
        )
    });
    let mismatched = phases.iter().filter_map(|phase| {
        let asked = &phase.conditions.model;
        let other = phase.models.iter().filter_map(|seen| seen.name.as_ref()).find(|name| *name != asked)?;
        Some(format!("{}: the answers name the model `{other}`, asked for was `{asked}`", phase.name))
    });
    let speeds = phases.iter().filter_map(without_speed);
    let told = suspicions(phases).into_iter().filter(Suspicion::is_note).map(|suspicion| suspicion.sentence);
    stale.chain(mismatched).chain(speeds).chain(told).collect()
}

/// Why the output speed of a level is missing, or is that of some of its answers.
fn without_speed(phase: &PhaseResult) -> Option<String> {
    let speed = &phase.output_speed;
    if let Some(why) = &speed.refused {
        return Some(format!("{}: output speed and TPOT are not stated: {why}", phase.name));
    }
    let without: u64 = speed.missing.iter().map(|missing| missing.count).sum();
    let why: Vec<&str> = speed.missing.iter().map(|missing| missing.reason.as_str()).collect();
    (without > 0).then(|| {
        format!("{}: {without} of {} answers have no output speed ({})", phase.name, speed.n + without, why.join(", "))
    })
}
