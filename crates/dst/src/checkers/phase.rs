//! Checks a phase as a whole: no request lost or counted twice, no gate violation, correct quantiles.
//!
//! Invariant: samples are collected from the requests again, not taken from the result.

use super::Violations;
use crate::scenarios::STARTED_AT;
use crate::scenarios::Scenario;
use crate::world::History;
use tokrate_bench::plan::{Backoff, held_back};
use tokrate_core::{Conditions, FailureKind, Sketch, Span};
use tokrate_meter::RequestNumbers;
use tokrate_record::{PhaseInput, PhaseResult, Warmup};
use tokrate_stats::{Distribution, Level};
use tokrate_tokens::Encoding;

/// The input that the driver would give the meter, besides the requests.
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

/// The rows of a history, as the driver makes them, and the phase result.
pub fn summarize(scenario: &Scenario, history: &History) -> (Vec<RequestNumbers>, PhaseResult) {
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

pub(super) fn check(scenario: &Scenario, history: &History, violations: &mut Violations) {
    let (rows, result) = summarize(scenario, history);
    for violation in &result.gate {
        violations.expect_that(false, || format!("gate: {violation:?}"));
    }
    check_counts(history, &result, violations);
    check_engine(scenario, history, violations);
    check_warmup(scenario, history, &rows, violations);
    let measured = || rows.iter().filter(|row| row.is_answered() && !row.warmup);
    let samples = |of: fn(&RequestNumbers) -> Option<u64>| measured().filter_map(of).collect::<Vec<u64>>();
    check_quantiles("ttft", &result.ttft, samples(|row| row.ttft_ns), violations);
    check_quantiles("ttfb", &result.ttfb, samples(|row| row.ttfb_ns), violations);
    check_quantiles("e2e", &result.e2e, samples(|row| row.e2e_ns), violations);
    let gaps = measured().flat_map(|row| row.gaps().map(|(gap, _)| gap).collect::<Vec<_>>()).collect();
    check_quantiles("chunk gap", &result.chunk_gap, gaps, violations);
    let itl = |row: &RequestNumbers| {
        row.itl_samples().flat_map(|(value, n)| std::iter::repeat_n(value, n as usize)).collect::<Vec<_>>()
    };
    check_quantiles("itl", &result.itl, measured().flat_map(itl).collect(), violations);
}

fn check_counts(history: &History, result: &PhaseResult, violations: &mut Violations) {
    let kinds = || history.exchanges.iter().map(|exchange| exchange.trace.failure.as_ref().map(|failure| failure.kind));
    let of = |wanted: fn(&Option<FailureKind>) -> bool| kinds().filter(wanted).count() as u64;
    let counts = result.counts;
    violations.expect_equal("phase", "started", counts.started, history.exchanges.len() as u64);
    violations.expect_equal("phase", "answered", counts.answered, of(Option::is_none));
    violations.expect_equal(
        "phase",
        "rate limited",
        counts.rate_limited,
        of(|kind| *kind == Some(FailureKind::RateLimited)),
    );
    violations.expect_equal("phase", "cancelled", counts.cancelled, of(|kind| *kind == Some(FailureKind::Cancelled)));
    let ended = counts.answered + counts.failed + counts.rate_limited + counts.cancelled;
    violations.expect_equal("phase", "answered + failed + rate limited + cancelled", ended, counts.started);
    violations.expect_equal("phase", "forfeited", counts.forfeited, history.forfeited);
    violations.expect_equal(
        "phase",
        "rows of failures",
        result.failures.iter().map(|row| row.count).sum(),
        counts.failed,
    );
}

fn check_engine(scenario: &Scenario, history: &History, violations: &mut Violations) {
    let stats = history.engine;
    let reached = history.exchanges.iter().filter(|exchange| exchange.submitted_at.is_some()).count() as u64;
    violations.expect_equal("engine", "submitted", stats.submitted, reached);
    violations.expect_equal(
        "engine",
        "refused + ended + cancelled",
        stats.refused + stats.ended + stats.cancelled,
        stats.submitted,
    );
    violations.expect_equal("engine", "running and queued at the end", (stats.running, stats.queued), (0, 0));
    violations.expect_that(history.running_peak <= scenario.law.slots, || "engine: more running than slots".to_owned());
}

/// Plan and meter mark warm-up requests independently. They agree if no arrival was forfeited and there is one worker.
fn check_warmup(scenario: &Scenario, history: &History, rows: &[RequestNumbers], violations: &mut Violations) {
    if scenario.workers == 1 && history.forfeited + history.withheld == 0 {
        for exchange in &history.exchanges {
            let index = exchange.start.index;
            let row = rows.iter().find(|row| row.index == index).map(|row| row.warmup);
            violations.expect_equal(&format!("request {index}"), "warm-up", row, Some(exchange.start.warmup));
        }
    }
}

fn check_quantiles(name: &str, distribution: &Distribution, mut samples: Vec<u64>, violations: &mut Violations) {
    samples.sort_unstable();
    violations.expect_equal(name, "number of samples", distribution.n, samples.len() as u64);
    violations.expect_equal(name, "samples of the sketch", distribution.sketch.0.count(), samples.len() as u64);
    if samples.is_empty() {
        return;
    }
    let at = |share: f64| samples[((share * samples.len() as f64).ceil() as usize).clamp(1, samples.len()) - 1];
    for share in [0.0, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0] {
        let (exact, stated) = (at(share) as f64, distribution.sketch.0.quantile(share).unwrap_or(u64::MAX) as f64);
        let slack = exact * Sketch::RELATIVE_ERROR + 0.5;
        violations.expect_that((stated - exact).abs() <= slack, || {
            format!("{name}: sketch says {stated} for {exact} at {share}")
        });
    }
    for level in Level::ALL {
        // In integers, so that a rank is not subject to rounding.
        let rank = (level.permille() * samples.len() as u64).div_ceil(1000).max(1);
        let exact = samples[rank as usize - 1] as f64 / 1e6;
        if let Some(stated) = distribution.quantile(level).nearest_rank() {
            violations.expect_that(stated == exact, || {
                format!("{name}: {} is {stated}, and should be {exact}", level.name())
            });
        }
    }
}
