//! Tables of the checks on a result: goodput, assertions, integrity findings, the server's own times. All verdicts come
//! from the record.
//!
//! Invariant: a table without rows is omitted.

use super::tables::{MISSING, number};
use tokrate_charts::{Column, Table, format};
use tokrate_record::run::{ServerTimingSummary, TimingMedian};
use tokrate_record::{PhaseResult, Record};

/// Goodput, a row for each level; `None` without objectives.
pub(super) fn goodput(phases: &[PhaseResult]) -> Option<Table> {
    let first = phases.iter().find_map(|phase| phase.goodput.as_ref())?;
    let slos: Vec<&str> = first.slos.iter().map(|slo| slo.slo.as_str()).collect();
    let rows = phases.iter().filter_map(|phase| {
        let goodput = phase.goodput.as_ref()?;
        let share = goodput.share.map_or_else(|| MISSING.to_owned(), format::percent);
        let interval = goodput.interval.map_or_else(String::new, |interval| {
            format!("{} to {}", format::percent(interval.low), format::percent(interval.high))
        });
        let fixed = [
            phase.name.clone(),
            format!("{} / {}", goodput.met, goodput.of),
            format::count(goodput.undecided),
            share,
            interval,
            number(goodput.per_second),
            format::count(goodput.missed_failed),
            format::count(goodput.missed_rate_limited),
        ];
        Some(fixed.into_iter().chain(goodput.slos.iter().map(|slo| format::count(slo.met))).collect())
    });
    let fixed =
        ["all kept / judged", "not known", "share", "95 % interval", "goodput (req/s)", "failed", "rate-limited"];
    Some(Table {
        caption: "Requests that keep every objective".to_owned(),
        columns: [Column::words("level")]
            .into_iter()
            .chain(fixed.into_iter().chain(slos).map(|label| Column::numbers(label, "")))
            .collect(),
        rows: rows.collect(),
        notes: vec![
            "Failed, rate-limited and forfeited requests miss; answers without the metric are undecided, and the interval \
             covers both outcomes; warm-up and cancelled requests are not judged. Goodput counts each request with the share of its time that lies in the steady window."
                .to_owned(),
        ],
    })
}

/// Outcomes of the assertions; `None` without any.
pub(super) fn assertions(record: &Record) -> Option<Table> {
    let rows = record.assertions.iter().map(|outcome| {
        vec![
            outcome.assertion.clone(),
            outcome.phase.clone().unwrap_or_else(|| MISSING.to_owned()),
            outcome.status.name().to_owned(),
            outcome.detail.clone(),
        ]
    });
    (!record.assertions.is_empty()).then(|| Table {
        caption: "Assertions".to_owned(),
        columns: ["assertion", "level", "outcome", "detail"].map(Column::words).to_vec(),
        rows: rows.collect(),
        notes: vec![
            "A number that too few samples support, or that was not measured, does not meet an assertion.".to_owned(),
        ],
    })
}

/// Findings of the integrity checks, level by level; `None` when there are none.
pub(super) fn suspicions(phases: &[PhaseResult]) -> Option<Table> {
    let rows: Vec<Vec<String>> = phases
        .iter()
        .flat_map(|phase| phase.suspicions.iter().map(move |suspicion| (phase, suspicion)))
        .map(|(phase, suspicion)| {
            vec![
                phase.name.clone(),
                suspicion.kind.name().replace('_', " "),
                format!("{} / {}", suspicion.count, suspicion.of),
                format::percent(suspicion.share),
                suspicion.sentence.clone(),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        caption: "Signs that answers are not what they seem".to_owned(),
        columns: vec![
            Column::words("level"),
            Column::words("sign"),
            Column::numbers("answers", ""),
            Column::numbers("share", ""),
            Column::words("what it means"),
        ],
        rows,
        notes: Vec::new(),
    })
}

/// The server's own times next to the client's; `None` when no answer carried any.
pub(super) fn server_timings(phases: &[PhaseResult]) -> Option<Table> {
    type Of = fn(&ServerTimingSummary) -> &Option<TimingMedian>;
    let lines: [(&str, Of); 8] = [
        ("server: queue", |summary| &summary.queue),
        ("server: load model", |summary| &summary.load),
        ("server: prefill", |summary| &summary.prefill),
        ("server: decode", |summary| &summary.decode),
        ("server: total", |summary| &summary.total),
        ("client TTFT − server (queue + load + prefill)", |summary| &summary.ttft_beyond_server),
        ("client first to last text − server decode", |summary| &summary.decode_beyond_server),
        ("client E2E − server total", |summary| &summary.e2e_beyond_server),
    ];
    let summaries: Vec<(&PhaseResult, &ServerTimingSummary)> =
        phases.iter().filter_map(|phase| Some((phase, phase.server_timings.as_ref()?))).collect();
    let cell = |timing: &Option<TimingMedian>| match timing {
        None => MISSING.to_owned(),
        Some(timing) => super::tables::quantile(&timing.median),
    };
    let rows = lines.iter().filter_map(|(label, of)| {
        let cells: Vec<String> = summaries.iter().map(|(_, summary)| cell(of(summary))).collect();
        let is_reported = cells.iter().any(|cell| cell != MISSING);
        is_reported.then(|| std::iter::once((*label).to_owned()).chain(cells).collect())
    });
    let speed = |label: &str, of: fn(&ServerTimingSummary) -> Option<f64>| {
        let cells: Vec<String> = summaries
            .iter()
            .map(|(_, summary)| {
                of(summary).map_or_else(|| MISSING.to_owned(), |speed| format!("{} tok/s", format::number(speed)))
            })
            .collect();
        let is_reported = cells.iter().any(|cell| cell != MISSING);
        is_reported.then(|| std::iter::once(label.to_owned()).chain(cells).collect::<Vec<_>>())
    };
    let speeds = [
        speed("server: prefill speed", |summary| summary.prefill_tokens_per_second),
        speed("server: decode speed", |summary| summary.decode_tokens_per_second),
    ];
    let columns = summaries.iter().map(|(phase, _)| Column::numbers(phase.name.clone(), "ms"));
    (!summaries.is_empty()).then(|| Table {
        caption: "The server's own times".to_owned(),
        columns: std::iter::once(Column::words("median over requests")).chain(columns).collect(),
        rows: rows.chain(speeds.into_iter().flatten()).collect(),
        notes: vec![
            "What the server says in its answers. The gaps are taken request by request: they hold the network, and what \
             the server leaves out of its account."
                .to_owned(),
        ],
    })
}
