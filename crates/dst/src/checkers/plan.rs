//! Checks when requests started, against the load.
//!
//! Invariant: the schedule of an open loop is recomputed from shape and seed alone.

use super::Violations;
use crate::scenarios::STARTED_AT;
use crate::scenarios::Scenario;
use crate::world::{Exchange, History};
use std::collections::BTreeSet;
use tokrate_bench::plan::{Arrivals, Backoff, Extent, Growth, Load, Ramp, Think};
use tokrate_core::{FailureKind, Rng, Span, Tick};

pub(super) fn check(scenario: &Scenario, history: &History, violations: &mut Violations) {
    violations.expect_that(history.finished, || "the world stood still before its plans had finished".to_owned());
    for exchange in &history.exchanges {
        let place = format!("request {}", exchange.start.index);
        violations.expect_equal(&place, "tick of the start", exchange.started_at, exchange.start.due_at);
        let measured = exchange.trace.timing;
        violations.expect_equal(&place, "due tick in the trace", measured.due_at, exchange.start.due_at);
        violations.expect_equal(&place, "sent tick in the trace", measured.sent_at, exchange.sent_at);
    }
    let indices: BTreeSet<u64> = history.exchanges.iter().map(|exchange| exchange.start.index).collect();
    violations.expect_equal("plan", "number of indices", indices.len(), history.exchanges.len());
    if let Extent::Requests(n) = scenario.spec.extent
        && scenario.stop_at.is_none()
    {
        let asked = scenario.spec.warmup + n;
        let seen = history.exchanges.len() as u64 + history.forfeited + history.withheld;
        violations.expect_equal("plan", "started + forfeited + withheld", seen, asked);
        violations
            .expect_that(indices.last().is_none_or(|&last| last < asked), || "an index beyond the plan".to_owned());
    }
    match &scenario.spec.load {
        Load::Sessions { sessions, turns, think, .. } => {
            check_sessions(scenario, history, (*sessions, *turns, *think), violations)
        }
        load if load.is_closed() => check_closed(scenario, history, violations),
        _ => check_open(scenario, history, violations),
    }
}

/// The wait after a rate limit: as requested, or one of the default back-off steps.
fn waits(scenario: &Scenario, exchange: &Exchange) -> Vec<Span> {
    let failure = exchange.trace.failure.as_ref().filter(|failure| failure.kind == FailureKind::RateLimited);
    match failure {
        Some(failure) if scenario.spec.backoff == Backoff::Obey => match failure.retry_after {
            Some(wait) => vec![wait],
            None => [1, 2, 4, 8, 16, 32, 60].map(Span::from_secs).to_vec(),
        },
        _ => vec![Span::ZERO],
    }
}

fn check_closed(scenario: &Scenario, history: &History, violations: &mut Violations) {
    violations.expect_equal("closed loop", "forfeited", history.forfeited, 0);
    violations.expect_equal("closed loop", "withheld", history.withheld, 0);
    let ended = |exchange: &Exchange| exchange.trace.timing.ended_at;
    let most = scenario.spec.load.max_in_flight();
    let frees = |exchange: &Exchange| {
        let ended = ended(exchange);
        waits(scenario, exchange).into_iter().map(move |wait| ended + wait).collect::<Vec<Tick>>()
    };
    let mut free: BTreeSet<Tick> = history.exchanges.iter().flat_map(frees).chain([STARTED_AT]).collect();
    if let Load::ClosedRamp { ramp } = &scenario.spec.load {
        free.extend((0..most).filter_map(|slot| opens(ramp, slot)).map(|opens| STARTED_AT + opens));
    }
    for exchange in &history.exchanges {
        let due_at = exchange.start.due_at;
        let place = format!("request {}", exchange.start.index);
        violations
            .expect_that(free.contains(&due_at), || format!("{place}: due at {due_at:?}, when no slot became free"));
        let busy = |other: &&Exchange| other.start.due_at <= due_at && ended(other) > due_at;
        let busy = history.exchanges.iter().filter(busy).count();
        violations.expect_that(busy <= most as usize, || format!("{place}: {busy} in flight, {most} allowed"));
        if let Load::ClosedRamp { ramp } = &scenario.spec.load {
            let since = due_at - STARTED_AT;
            let opened = (0..most).filter_map(|slot| opens(ramp, slot)).filter(|opens| *opens <= since).count();
            violations
                .expect_that(busy <= opened, || format!("{place}: {busy} in flight, the ramp has opened {opened}"));
            violations.expect_that(since < ramp.over, || format!("{place}: due after the ramp"));
        }
    }
    if let (Extent::Requests(n), Load::Closed { .. }) = (scenario.spec.extent, &scenario.spec.load) {
        let first = history.exchanges.iter().filter(|exchange| exchange.start.due_at == STARTED_AT).count() as u64;
        let possible = u64::from(most).min(scenario.spec.warmup + n);
        let interrupted = scenario.stop_at.is_some_and(|stop_at| stop_at <= STARTED_AT);
        violations.expect_that(first >= possible || interrupted, || format!("closed loop: {first} started at once"));
    }
}

/// When a slot of a ramp opens: level n of a rising ramp starts at its share of the time.
fn opens(ramp: &Ramp, slot: u32) -> Option<Span> {
    let level = f64::from(slot) + 1.0;
    if ramp.to <= ramp.from {
        return (level <= ramp.from).then_some(Span::ZERO);
    }
    let share = match ramp.growth {
        _ if level <= ramp.from => 0.0,
        Growth::Linear => (level - ramp.from) / (ramp.to + 1.0 - ramp.from),
        Growth::Exponential => (level / ramp.from).ln() / ((ramp.to + 1.0) / ramp.from).ln(),
    };
    (level <= ramp.to).then(|| Span::from_secs_f64(ramp.over.as_secs_f64() * share))
}

/// Turns follow each other after their think time, and a failed turn ends its session.
fn check_sessions(
    scenario: &Scenario,
    history: &History,
    (concurrent, turns, think): (u32, u32, Think),
    violations: &mut Violations,
) {
    let rng = Rng::root(scenario.seed).child("arrivals").child("think");
    let mut of: std::collections::BTreeMap<u64, Vec<&Exchange>> = Default::default();
    for exchange in &history.exchanges {
        let Some(turn) = exchange.start.turn else {
            violations.expect_that(false, || format!("request {} is no turn", exchange.start.index));
            return;
        };
        of.entry(turn.session).or_default().push(exchange);
    }
    if let (Extent::Sessions(n), None) = (scenario.spec.extent, scenario.stop_at) {
        violations.expect_equal("sessions", "number", of.len() as u64, n);
    }
    for (session, exchanges) in of {
        for pair in exchanges.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            let (first, second) = (before.start.turn.map(|turn| turn.turn), after.start.turn.map(|turn| turn.turn));
            let ended = before.trace.timing.ended_at;
            let place = format!("session {session}, turn {second:?}");
            let limited = before.trace.failure.as_ref().is_some_and(|f| f.kind == FailureKind::RateLimited);
            if limited && scenario.spec.backoff == Backoff::Obey {
                violations.expect_equal(&place, "turn after a refusal", second, first);
                let may = waits(scenario, before).into_iter().any(|wait| ended + wait == after.start.due_at);
                violations.expect_that(may, || format!("{place}: not due after the wait"));
            } else {
                violations.expect_that(before.trace.failure.is_none(), || format!("{place}: sent after a failed turn"));
                violations.expect_equal(&place, "turn", second, first.map(|turn| turn + 1));
                let thought = match think {
                    Think::Fixed(span) => span,
                    Think::Exponential(mean) => rng.nth(session).nth(u64::from(second.unwrap_or(0))).exponential(mean),
                };
                violations.expect_equal(&place, "due tick", after.start.due_at, ended + thought);
            }
        }
        let last = exchanges.last().and_then(|exchange| exchange.start.turn).map_or(0, |turn| turn.turn);
        violations.expect_that(last < turns, || format!("session {session}: {last} is beyond its turns"));
        let over = exchanges.last().is_some_and(|exchange| exchange.trace.failure.is_some()) || last + 1 == turns;
        violations.expect_that(over || scenario.stop_at.is_some(), || format!("session {session}: not at its end"));
    }
    violations.expect_that(history.exchanges.len() < 1_000_000 && concurrent > 0, || "no sessions".to_owned());
}

/// Due ticks of an open loop.
fn due_ticks(scenario: &Scenario, n: u64) -> Vec<Tick> {
    let mut rng = Rng::root(scenario.seed).child("arrivals");
    let mut unit = move |arrivals: Arrivals| match arrivals {
        Arrivals::Constant => 1.0,
        Arrivals::Poisson => -(1.0 - rng.unit()).ln(),
        Arrivals::Gamma { shape } => rng.gamma(shape) / shape,
    };
    let (mut ticks, mut passed) = (vec![STARTED_AT], 0.0);
    for _ in 0..n {
        let last = ticks[ticks.len() - 1];
        match &scenario.spec.load {
            Load::Open { rate, arrivals, .. } => {
                let mean = rate.interval().unwrap_or(Span::MAX);
                ticks.push(last + Span::from_nanos((unit(*arrivals) * mean.as_nanos() as f64).round() as u64));
            }
            Load::OpenRamp { ramp, arrivals, .. } => {
                passed += unit(*arrivals);
                ticks.push(STARTED_AT + invert_ramp(ramp, passed));
            }
            Load::Trace { due, .. } => {
                ticks.truncate(1);
                ticks = due.iter().map(|&due| STARTED_AT + due).collect();
                break;
            }
            _ => {}
        }
    }
    ticks
}

/// The time at which a ramp has brought this many arrivals, by bisection.
fn invert_ramp(ramp: &Ramp, arrivals: f64) -> Span {
    let time = ramp.over.as_secs_f64();
    let arrivals_by = |t: f64| match ramp.growth {
        _ if ramp.from == ramp.to => ramp.from * t,
        Growth::Linear => ramp.from * t + (ramp.to - ramp.from) * t * t / (2.0 * time),
        Growth::Exponential => {
            let log = (ramp.to / ramp.from).ln();
            ramp.from * time / log * ((log * t / time).exp() - 1.0)
        }
    };
    let (mut low, mut high) = (0.0, time);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if arrivals_by(middle) < arrivals { low = middle } else { high = middle }
    }
    Span::from_secs_f64(high)
}

fn check_open(scenario: &Scenario, history: &History, violations: &mut Violations) {
    let most = history.exchanges.iter().map(|exchange| exchange.start.index).max().unwrap_or(0);
    let ticks = due_ticks(scenario, most);
    // Ramps are inverted numerically here, which leaves some nanoseconds.
    let slack = if matches!(scenario.spec.load, Load::OpenRamp { .. }) { 50 } else { 0 };
    let mut started = history.exchanges.iter().collect::<Vec<_>>();
    started.sort_by_key(|exchange| exchange.start.index);
    let mut started = started.into_iter().peekable();
    let paused = |due_at: Tick| history.waits.iter().any(|&(from, until)| from <= due_at && due_at < until);
    for (index, &expected) in (0..=most).zip(&ticks) {
        let exchange = started.next_if(|exchange| exchange.start.index == index);
        let due_at = exchange.map_or(expected, |exchange| exchange.start.due_at);
        if let Some(exchange) = exchange {
            let off = exchange.start.due_at.signed_nanos_since(expected).unsigned_abs();
            violations.expect_that(off <= slack, || format!("request {index}: due {off} ns beside its schedule"));
            let surely = paused(due_at) && !history.waits.iter().any(|&(from, _)| from == due_at);
            violations.expect_that(!surely, || format!("request {index}: sent while the provider had asked to wait"));
        }
        if scenario.workers == 1 {
            // A request that ends at this very tick may or may not count.
            let limit = scenario.spec.load.max_in_flight() as usize;
            let before = || history.exchanges.iter().filter(|other| other.start.index < index);
            let surely = before().filter(|other| other.trace.timing.ended_at > due_at).count();
            let perhaps = before().filter(|other| other.trace.timing.ended_at >= due_at).count();
            let place = format!("arrival {index}");
            match exchange {
                Some(_) => violations.expect_that(surely < limit, || format!("{place}: sent with {surely} in flight")),
                None => violations.expect_that(perhaps >= limit || paused(due_at), || {
                    format!("{place}: not sent with {perhaps} in flight and nobody asking to wait")
                }),
            }
        }
    }
}
