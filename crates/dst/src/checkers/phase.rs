//! The phase as a whole: nothing lost, nothing counted twice, the gate silent, quantiles where they belong.
//!
//! It refuses to know single streams. Invariant: samples are gathered anew from the requests.

use super::Violations;
use crate::scenarios::STARTED_AT;
use crate::scenarios::Scenario;
use crate::world::History;
use tokrate_bench::plan::{Backoff, held_back};
use tokrate_core::{Conditions, FailureKind, Sketch, Span};
use tokrate_meter::{PhaseInput, PhaseResult, RequestNumbers, Warmup};
use tokrate_stats::{Distribution, Level};
use tokrate_tokens::Encoding;

/// What the driver would hand to the meter, besides the requests.
pub fn input_of<'a>(
    scenario: &Scenario,
    history: &History,
    conditions: &'a Conditions,
    timer_lag: &'a Sketch,
) -> PhaseInput<'a> {
    PhaseInput {
        name: "world".to_owned(),
        conditions,
        load: scenario.spec.load.row(),
        warmup: if scenario.spec.warmup == 0 { Warmup::None } else { Warmup::Requests(scenario.spec.warmup) },
        started_at: STARTED_AT,
        ended_at: history.ended_at,
        interrupted: scenario.stop_at.is_some(),
        client_error: None,
        timer_lag,
        client_cpu: Span::ZERO,
        late: 0,
        forfeited: history.forfeited,
        withheld: history.withheld,
        held_back: (scenario.spec.backoff == Backoff::Obey).then(|| {
            let slots = scenario.spec.load.is_closed().then(|| scenario.spec.load.max_in_flight());
            held_back(&history.waits, slots, history.ended_at)
        }),
    }
}

/// The rows of a history, as the driver makes them, and their phase.
pub fn sum_up(scenario: &Scenario, history: &History) -> (Vec<RequestNumbers>, PhaseResult) {
    let row = |exchange: &crate::world::Exchange| RequestNumbers {
        index: exchange.start.index,
        warmup: exchange.start.warmup,
        session: exchange.start.turn.map(|turn| turn.session),
        turn: exchange.start.turn.map(|turn| turn.turn),
        input_asked: Some(u64::from(scenario.input_tokens)),
        output_asked: Some(u64::from(scenario.output_tokens)),
        ..RequestNumbers::measure(&exchange.trace, Encoding::O200kBase)
    };
    let mut rows: Vec<RequestNumbers> = history.exchanges.iter().map(row).collect();
    let conditions = Conditions { model: "sim".to_owned(), streaming: true, ignore_eos: true, ..Conditions::default() };
    let timer_lag = Sketch::new();
    let result = PhaseResult::of(&input_of(scenario, history, &conditions, &timer_lag), &mut rows);
    (rows, result)
}

pub(super) fn check(scenario: &Scenario, history: &History, wrong: &mut Violations) {
    let (rows, result) = sum_up(scenario, history);
    for violation in &result.gate {
        wrong.demand(false, || format!("gate: {violation:?}"));
    }
    check_counts(history, &result, wrong);
    check_engine(scenario, history, wrong);
    check_warmup(scenario, history, &rows, wrong);
    let measured = || rows.iter().filter(|row| row.is_answered() && !row.warmup);
    let samples = |of: fn(&RequestNumbers) -> Option<u64>| measured().filter_map(of).collect::<Vec<u64>>();
    check_quantiles("ttft", &result.ttft, samples(|row| row.ttft_ns), wrong);
    check_quantiles("ttfb", &result.ttfb, samples(|row| row.ttfb_ns), wrong);
    check_quantiles("e2e", &result.e2e, samples(|row| row.e2e_ns), wrong);
    let gaps = measured().flat_map(|row| row.gaps().map(|(gap, _)| gap).collect::<Vec<_>>()).collect();
    check_quantiles("chunk gap", &result.chunk_gap, gaps, wrong);
    let itl = |row: &RequestNumbers| {
        row.itl_samples().flat_map(|(value, n)| std::iter::repeat_n(value, n as usize)).collect::<Vec<_>>()
    };
    check_quantiles("itl", &result.itl, measured().flat_map(itl).collect(), wrong);
}

fn check_counts(history: &History, result: &PhaseResult, wrong: &mut Violations) {
    let kinds = || history.exchanges.iter().map(|exchange| exchange.trace.failure.as_ref().map(|failure| failure.kind));
    let of = |wanted: fn(&Option<FailureKind>) -> bool| kinds().filter(wanted).count() as u64;
    let counts = result.counts;
    wrong.equal("phase", "started", counts.started, history.exchanges.len() as u64);
    wrong.equal("phase", "answered", counts.answered, of(Option::is_none));
    wrong.equal("phase", "rate limited", counts.rate_limited, of(|kind| *kind == Some(FailureKind::RateLimited)));
    wrong.equal("phase", "cancelled", counts.cancelled, of(|kind| *kind == Some(FailureKind::Cancelled)));
    let ended = counts.answered + counts.failed + counts.rate_limited + counts.cancelled;
    wrong.equal("phase", "answered + failed + rate limited + cancelled", ended, counts.started);
    wrong.equal("phase", "forfeited", counts.forfeited, history.forfeited);
    wrong.equal("phase", "rows of failures", result.failures.iter().map(|row| row.count).sum(), counts.failed);
}

fn check_engine(scenario: &Scenario, history: &History, wrong: &mut Violations) {
    let stats = history.engine;
    let reached = history.exchanges.iter().filter(|exchange| exchange.submitted_at.is_some()).count() as u64;
    wrong.equal("engine", "submitted", stats.submitted, reached);
    wrong.equal(
        "engine",
        "refused + ended + cancelled",
        stats.refused + stats.ended + stats.cancelled,
        stats.submitted,
    );
    wrong.equal("engine", "running and queued at the end", (stats.running, stats.queued), (0, 0));
    wrong.demand(history.running_peak <= scenario.law.slots, || "engine: more running than slots".to_owned());
}

/// Plan and meter mark the warm-up each by itself. Where no arrival was forfeited and one worker did it all, they agree.
fn check_warmup(scenario: &Scenario, history: &History, rows: &[RequestNumbers], wrong: &mut Violations) {
    if scenario.workers == 1 && history.forfeited + history.withheld == 0 {
        for exchange in &history.exchanges {
            let index = exchange.start.index;
            let row = rows.iter().find(|row| row.index == index).map(|row| row.warmup);
            wrong.equal(&format!("request {index}"), "warm-up", row, Some(exchange.start.warmup));
        }
    }
}

fn check_quantiles(name: &str, distribution: &Distribution, mut samples: Vec<u64>, wrong: &mut Violations) {
    samples.sort_unstable();
    wrong.equal(name, "number of samples", distribution.n, samples.len() as u64);
    wrong.equal(name, "samples of the sketch", distribution.sketch.0.count(), samples.len() as u64);
    if samples.is_empty() {
        return;
    }
    let at = |share: f64| samples[((share * samples.len() as f64).ceil() as usize).clamp(1, samples.len()) - 1];
    for share in [0.0, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0] {
        let (exact, stated) = (at(share) as f64, distribution.sketch.0.quantile(share).unwrap_or(u64::MAX) as f64);
        let slack = exact * Sketch::RELATIVE_ERROR + 0.5;
        wrong
            .demand((stated - exact).abs() <= slack, || format!("{name}: sketch says {stated} for {exact} at {share}"));
    }
    for level in Level::ALL {
        // In whole numbers, so that a rank is never a float's rounding.
        let rank = (level.permille() * samples.len() as u64).div_ceil(1000).max(1);
        let exact = samples[rank as usize - 1] as f64 / 1e6;
        if let Some(stated) = distribution.quantile(level).nearest_rank() {
            wrong.demand(stated == exact, || format!("{name}: {} is {stated}, and should be {exact}", level.name()));
        }
    }
}
