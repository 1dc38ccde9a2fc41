//! Sessions of agents: how long they took, what that time went into, and figures by role.
//!
//! A session's critical path is found backwards: from the step that ended last to the step whose end let it start, and so on. Its time
//! is that of the steps on it (due to finished) and of the tools between them.
//!
//! Invariant: only sessions whose every step was answered outside the warm-up have a time; what is on their paths adds up to it.

use super::Load;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokrate_core::FailureKind;
use tokrate_meter::request::RequestNumbers;
use tokrate_stats::Distribution;

/// The sessions of agents of a phase.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentSummary {
    /// Sessions that began.
    pub started: u64,
    /// Those whose every step was answered.
    pub completed: u64,
    /// Those that ended with a failed step.
    pub failed: u64,
    /// Those that the end of the phase cut short.
    pub cut: u64,
    /// Mean number of steps of a completed session.
    pub steps_mean: Option<f64>,
    /// Mean number of steps on its critical path.
    pub path_steps_mean: Option<f64>,
    /// Share of completed sessions' time that their critical paths spent in model calls; the rest is tools and the agents' own.
    pub model_share: Option<f64>,
    /// The numbers by role, the one with the most time on critical paths first.
    pub roles: Vec<RoleSummary>,
}

/// Answered steps outside the warm-up that have one role.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RoleSummary {
    /// Its name.
    pub role: String,
    /// How many steps.
    pub n: u64,
    /// Share of completed sessions' time that their critical paths spent in steps of this role.
    pub path_share: Option<f64>,
    /// Mean of the input tokens that they asked with.
    pub input_tokens_mean: Option<f64>,
    /// Mean of the output tokens of their answers.
    pub output_tokens_mean: Option<f64>,
    /// Sent to first output text.
    pub ttft: Distribution,
    /// Sent to finish.
    pub e2e: Distribution,
}

/// A completed session.
struct Completed<'a> {
    time_ns: u64,
    steps: u64,
    path: Vec<&'a RequestNumbers>,
}

impl AgentSummary {
    /// Sums up the sessions, with their times (ns); `None` without any. Of which session a step is, how many steps that has and which
    /// step let it start are set by whoever planned them.
    pub(super) fn of(load: &Load, requests: &[RequestNumbers]) -> Option<(AgentSummary, Vec<u64>)> {
        let Load::Agents { .. } = load else { return None };
        let mut sessions: BTreeMap<u64, Vec<&RequestNumbers>> = BTreeMap::new();
        for request in requests {
            sessions.entry(request.session?).or_default().push(request);
        }
        let (mut completed, mut all_answered, mut failed) = (Vec::new(), 0, 0);
        for steps in sessions.values() {
            let answered: Vec<&RequestNumbers> = steps.iter().copied().filter(|step| step.is_answered()).collect();
            let planned = steps.iter().find_map(|step| step.session_steps).unwrap_or(u32::MAX);
            // A step that was refused for its rate may have been sent again.
            let has_failed = steps.iter().any(|step| {
                !matches!(step.failure_kind(), None | Some(FailureKind::RateLimited | FailureKind::Cancelled))
            });
            if answered.len() >= planned as usize {
                all_answered += 1;
                completed.extend(Completed::of(&answered).filter(|_| steps.iter().all(|step| !step.warmup)));
            } else if has_failed {
                failed += 1;
            }
        }
        let whole: u64 = completed.iter().map(|session| session.time_ns).sum();
        let share = |part: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let mean = |of: fn(&Completed<'_>) -> u64| {
            (!completed.is_empty()).then(|| completed.iter().map(of).sum::<u64>() as f64 / completed.len() as f64)
        };
        let on_path = || completed.iter().flat_map(|session| &session.path);
        let started = sessions.len() as u64;
        let summary = AgentSummary {
            started,
            completed: all_answered,
            failed,
            cut: started - all_answered - failed,
            steps_mean: mean(|session| session.steps),
            path_steps_mean: mean(|session| session.path.len() as u64),
            model_share: share(on_path().map(|step| time_of(step)).sum()),
            roles: roles_of(requests, |role| {
                share(on_path().filter(|step| role_of(step) == role).map(|step| time_of(step)).sum())
            }),
        };
        Some((summary, completed.iter().map(|session| session.time_ns).collect()))
    }
}

impl<'a> Completed<'a> {
    /// A session from its answered steps; `None` of one that has none.
    fn of(answered: &[&'a RequestNumbers]) -> Option<Completed<'a>> {
        let begin = answered.iter().map(|step| step.due_at_ns.saturating_sub(step.wait_ns.unwrap_or(0))).min()?;
        let by_turn: BTreeMap<u32, &RequestNumbers> =
            answered.iter().filter_map(|step| Some((step.turn?, *step))).collect();
        let mut last = *answered.iter().max_by_key(|step| step.finished_at_ns)?;
        let time_ns = last.finished_at_ns - begin.min(last.finished_at_ns);
        let mut path = vec![last];
        // A step is released by an earlier one, so that this ends.
        while let Some(before) =
            last.released_by.filter(|before| Some(*before) < last.turn).and_then(|before| by_turn.get(&before))
        {
            last = before;
            path.push(last);
        }
        Some(Completed { time_ns, steps: answered.len() as u64, path })
    }
}

/// A step's part of a path: from when it could start to its end.
fn time_of(step: &RequestNumbers) -> u64 {
    step.e2e_from_due_ns.unwrap_or(0)
}

fn role_of(step: &RequestNumbers) -> &str {
    step.role.as_deref().unwrap_or_default()
}

fn roles_of(requests: &[RequestNumbers], path_share: impl Fn(&str) -> Option<f64>) -> Vec<RoleSummary> {
    let mut roles: BTreeMap<&str, Vec<&RequestNumbers>> = BTreeMap::new();
    for step in requests.iter().filter(|step| step.is_answered() && !step.warmup) {
        roles.entry(role_of(step)).or_default().push(step);
    }
    let mean = |steps: &[&RequestNumbers], of: fn(&RequestNumbers) -> Option<u64>| {
        let known: Vec<u64> = steps.iter().filter_map(|step| of(step)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64 / known.len() as f64)
    };
    let times = |steps: &[&RequestNumbers], of: fn(&RequestNumbers) -> Option<u64>| {
        Distribution::of_nanos(&mut steps.iter().filter_map(|step| of(step)).collect::<Vec<u64>>())
    };
    let mut roles: Vec<RoleSummary> = roles
        .into_iter()
        .map(|(role, steps)| RoleSummary {
            role: role.to_owned(),
            n: steps.len() as u64,
            path_share: path_share(role),
            input_tokens_mean: mean(&steps, |step| step.input_asked),
            output_tokens_mean: mean(&steps, |step| Some(step.tokens_std)),
            ttft: times(&steps, |step| step.ttft_ns),
            e2e: times(&steps, |step| step.e2e_ns),
        })
        .collect();
    roles.sort_by(|a, b| b.path_share.unwrap_or(0.0).total_cmp(&a.path_share.unwrap_or(0.0)));
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokrate_meter::fixtures::{failed_request, steady_request};

    const PLAN: Load = Load::Agents { sessions: Some(1) };

    /// A step of a session of three, due and sent at `start` (ms) after `wait` of tools, whose answer took `length` ms.
    fn step(
        session: u64,
        turn: u32,
        role: &str,
        (start, wait, length): (u64, u64, u64),
        after: Option<u32>,
    ) -> RequestNumbers {
        let answer = steady_request(0, start, 10, 1, 4);
        RequestNumbers {
            session: Some(session),
            turn: Some(turn),
            role: Some(role.to_owned()),
            session_steps: Some(3),
            released_by: after,
            wait_ns: Some(wait * 1_000_000),
            e2e_ns: Some(length * 1_000_000),
            e2e_from_due_ns: Some(length * 1_000_000),
            finished_at_ns: (start + length) * 1_000_000,
            ..answer
        }
    }

    #[test]
    fn the_critical_path_goes_back_from_the_last_end_and_tools_are_what_it_does_not_explain() {
        // Planned for 100 ms after 50 of the agent's own; two workers side by side, the slower of which took 300 ms after 100 of a tool.
        let session = [
            step(0, 0, "plan", (50, 50, 100), None),
            step(0, 1, "work", (150, 0, 200), Some(0)),
            step(0, 2, "work", (250, 100, 300), Some(0)),
        ];
        let (summary, times) = AgentSummary::of(&PLAN, &session).expect("a load of agents");
        assert_eq!(times, [550_000_000]);
        assert_eq!(
            (summary.started, summary.completed, summary.steps_mean, summary.path_steps_mean),
            (1, 1, Some(3.0), Some(2.0))
        );
        assert!((summary.model_share.expect("a share") - 400.0 / 550.0).abs() < 1e-12);
        let roles: Vec<(&str, u64, u64)> = summary
            .roles
            .iter()
            .map(|role| (role.role.as_str(), role.n, (role.path_share.unwrap_or(0.0) * 550.0).round() as u64))
            .collect();
        assert_eq!(roles, [("work", 2, 300), ("plan", 1, 100)]);
    }

    #[test]
    fn every_session_that_began_has_one_fate() {
        let failed =
            RequestNumbers { session: Some(1), turn: Some(0), ..failed_request(0, 0, 5, FailureKind::ServerError) };
        let requests = [step(0, 0, "a", (0, 0, 10), None), failed];
        let (summary, times) = AgentSummary::of(&PLAN, &requests).expect("a load of agents");
        assert_eq!((summary.started, summary.completed, summary.failed, summary.cut), (2, 0, 1, 1));
        assert!(times.is_empty() && summary.model_share.is_none());
        assert!(AgentSummary::of(&Load::Closed { concurrency: 1 }, &requests).is_none());
    }
}
