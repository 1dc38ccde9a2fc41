//! Sessions of agents in a report: what their time went into, by role.
//!
//! Invariant: shares are of the time of completed sessions on their critical paths; what no model call took is tools and the agents' own.

use super::tables::{MISSING, number, quantile};
use tokrate_charts::{Axis, Bar, BarChart, Block, Column, Section, Table, format};
use tokrate_record::run::{AgentSummary, Rounds};
use tokrate_record::{Metric, PhaseResult, Record};

/// How long sessions took at a load and what for; `None` if none were run.
pub fn agent_sentence(load: &Rounds<'_>) -> Option<String> {
    let agents: Vec<&AgentSummary> = load.phases.iter().filter_map(|phase| phase.agents.as_ref()).collect();
    let [first, ..] = agents[..] else { return None };
    let count = |of: fn(&AgentSummary) -> u64| agents.iter().map(|agents| of(agents)).sum::<u64>();
    let (completed, started) = (count(|agents| agents.completed), count(|agents| agents.started));
    let fate = format!("{completed} of {started} sessions completed at {}", load.name());
    let Some(times) = load.times(Metric::SessionTime) else { return Some(fate) };
    let median = times.p50.nearest_rank().map_or_else(|| MISSING.to_owned(), |time| format::seconds(time / 1e3));
    // Rounds of one load have the same sessions; the first stands for them.
    let share = first.model_share.map_or_else(String::new, |share| {
        let roles =
            first.roles.iter().filter_map(|role| Some(format!("{} {}", role.role, format::percent(role.path_share?))));
        let roles: Vec<String> = roles.collect();
        let roles = if roles.len() > 1 { format!(" ({})", roles.join(", ")) } else { String::new() };
        format!("; on the critical path {} were model calls{roles}, the rest tools", format::percent(share))
    });
    Some(format!("{fate}, median {median}{share}"))
}

/// The section, if there were agents.
pub(super) fn section(record: &Record) -> Option<Section> {
    let phases: Vec<(&PhaseResult, &AgentSummary)> =
        record.phases.iter().filter_map(|phase| Some((phase, phase.agents.as_ref()?))).collect();
    let charts: Vec<BarChart> = phases.iter().filter_map(|(phase, agents)| path_chart(&phase.name, agents)).collect();
    (!phases.is_empty()).then(|| Section {
        title: "Sessions of agents".to_owned(),
        intro: "A session's critical path is found backwards from the step that ended last; its time is that of the steps on it and of the \
                tools between them. Making another step faster does not make the session faster."
            .to_owned(),
        blocks: charts
            .iter()
            .map(Block::chart)
            .chain([Block::Table(sessions(&phases)), Block::Table(roles(&phases))])
            .collect(),
    })
}

/// What sessions waited for; `None` without a completed one.
fn path_chart(name: &str, agents: &AgentSummary) -> Option<BarChart> {
    let share = agents.model_share?;
    let bar = |label: &str, share: f64| Bar { label: label.to_owned(), value: Some(share * 100.0), ..Bar::default() };
    let roles = agents.roles.iter().filter_map(|role| Some(bar(&role.role, role.path_share?)));
    let bars: Vec<Bar> = roles.chain([bar("tools and the agents' own", (1.0 - share).max(0.0))]).collect();
    let longest = bars.iter().max_by(|a, b| a.value.unwrap_or(0.0).total_cmp(&b.value.unwrap_or(0.0)))?;
    Some(BarChart {
        title: format!("{name} waited {} % of the time for {}", format::number(longest.value?), longest.label),
        description: "What sessions waited for. Share of completed sessions' time on their critical paths, by the role of the model call."
            .to_owned(),
        axis: Axis::linear("Share of session time", "%"),
        bars,
    })
}

fn sessions(phases: &[(&PhaseResult, &AgentSummary)]) -> Table {
    let rows = phases.iter().map(|(phase, agents)| {
        vec![
            phase.name.clone(),
            format!("{} / {}", agents.completed, agents.started),
            format::count(agents.failed),
            quantile(&phase.session_time.p50),
            quantile(&phase.session_time.p95),
            number(agents.steps_mean),
            number(agents.path_steps_mean),
        ]
    });
    Table {
        caption: "Sessions".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::numbers("completed / started", ""),
            Column::numbers("failed", ""),
            Column::numbers("time p50", "ms"),
            Column::numbers("time p95", "ms"),
            Column::numbers("steps, mean", ""),
            Column::numbers("on the critical path, mean", ""),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

fn roles(phases: &[(&PhaseResult, &AgentSummary)]) -> Table {
    let rows = phases.iter().flat_map(|(phase, agents)| {
        agents.roles.iter().map(|role| {
            vec![
                phase.name.clone(),
                role.role.clone(),
                format::count(role.n),
                role.path_share.map_or_else(|| MISSING.to_owned(), format::percent),
                number(role.input_tokens_mean),
                number(role.output_tokens_mean),
                quantile(&role.ttft.p50),
                quantile(&role.e2e.p50),
                quantile(&role.e2e.p95),
            ]
        })
    });
    Table {
        caption: "Steps by role".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::words("role"),
            Column::numbers("n", ""),
            Column::numbers("of the critical path", ""),
            Column::numbers("tokens in, mean", ""),
            Column::numbers("tokens out, mean", ""),
            Column::numbers("TTFT p50", "ms"),
            Column::numbers("E2E p50", "ms"),
            Column::numbers("E2E p95", "ms"),
        ],
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase() -> PhaseResult {
        let record = Record::parse(include_str!("../../../tokrate/src/out/testdata/record.json")).expect("a record");
        let mut phase = record.phases.into_iter().next().expect("a phase");
        let role = |name: &str, share| tokrate_record::run::RoleSummary {
            role: name.to_owned(),
            n: 4,
            path_share: Some(share),
            input_tokens_mean: Some(900.0),
            output_tokens_mean: Some(120.0),
            ttft: phase.ttft.clone(),
            e2e: phase.e2e.clone(),
        };
        phase.agents = Some(AgentSummary {
            started: 3,
            completed: 2,
            failed: 1,
            cut: 0,
            steps_mean: Some(5.0),
            path_steps_mean: Some(3.5),
            model_share: Some(0.7),
            roles: vec![role("planner", 0.5), role("worker", 0.2)],
        });
        phase.session_time = phase.e2e.clone();
        phase
    }

    #[test]
    fn sessions_are_told_in_a_sentence_a_picture_and_two_tables() {
        let phase = phase();
        let load = Rounds { load: phase.load, phases: vec![&phase] };
        let sentence = agent_sentence(&load).expect("there were agents");
        assert!(sentence.starts_with("2 of 3 sessions completed at "), "{sentence}");
        assert!(
            sentence
                .ends_with("on the critical path 70 % were model calls (planner 50 %, worker 20 %), the rest tools"),
            "{sentence}"
        );
        let chart = path_chart(&phase.name, phase.agents.as_ref().expect("agents")).expect("a completed session");
        let bars: Vec<(&str, f64)> =
            chart.bars.iter().map(|bar| (bar.label.as_str(), bar.value.unwrap_or(0.0).round())).collect();
        assert_eq!(bars, [("planner", 50.0), ("worker", 20.0), ("tools and the agents' own", 30.0)]);
        let all = [(&phase, phase.agents.as_ref().expect("agents"))];
        assert_eq!((sessions(&all).rows.len(), roles(&all).rows.len()), (1, 2));
        let plain = PhaseResult { agents: None, ..phase.clone() };
        assert_eq!(agent_sentence(&Rounds { load: plain.load, phases: vec![&plain] }), None);
    }
}
