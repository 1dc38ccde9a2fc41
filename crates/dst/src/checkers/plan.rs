//! When requests started, against what the load demands.
//!
//! It refuses to know answers. Invariant: the schedule of an open loop is worked out anew from rate and seed alone.

use super::Violations;
use crate::scenarios::Scenario;
use crate::world::{Exchange, History, STARTED_AT};
use std::collections::BTreeSet;
use tokrate_bench::plan::{Arrivals, Extent, Load};
use tokrate_core::{RequestsPerSecond, Rng, Span, Tick};

pub(super) fn check(scenario: &Scenario, history: &History, wrong: &mut Violations) {
    wrong.demand(history.finished, || "the world stood still before its plans had finished".to_owned());
    for exchange in &history.exchanges {
        let place = format!("request {}", exchange.start.index);
        wrong.equal(&place, "tick of the start", exchange.started_at, exchange.start.due_at);
        let measured = exchange.trace.timing;
        wrong.equal(&place, "due tick in the trace", measured.due_at, exchange.start.due_at);
        wrong.equal(&place, "sent tick in the trace", measured.sent_at, exchange.sent_at);
    }
    let indices: BTreeSet<u64> = history.exchanges.iter().map(|exchange| exchange.start.index).collect();
    wrong.equal("plan", "number of indices", indices.len(), history.exchanges.len());
    if let Extent::Requests(n) = scenario.spec.extent
        && scenario.stop_at.is_none()
    {
        let asked = scenario.spec.warmup + n;
        wrong.equal("plan", "started + forfeited", history.exchanges.len() as u64 + history.forfeited, asked);
        wrong.demand(indices.last().is_none_or(|&last| last < asked), || "an index beyond the plan".to_owned());
    }
    match scenario.spec.load {
        Load::Closed { concurrency } => closed(scenario, history, concurrency, wrong),
        Load::Open { rate, arrivals, in_flight_limit } => {
            let schedule = Schedule { rate, arrivals, in_flight_limit };
            open(scenario, history, schedule, wrong);
        }
    }
}

fn closed(scenario: &Scenario, history: &History, concurrency: u32, wrong: &mut Violations) {
    wrong.equal("closed loop", "forfeited", history.forfeited, 0);
    let ended = |exchange: &Exchange| exchange.trace.timing.ended_at;
    let ends: BTreeSet<Tick> = history.exchanges.iter().map(ended).chain([STARTED_AT]).collect();
    for exchange in &history.exchanges {
        let due_at = exchange.start.due_at;
        let place = format!("request {}", exchange.start.index);
        wrong.demand(ends.contains(&due_at), || format!("{place}: due at {due_at:?}, when no slot became free"));
        let busy = |other: &&Exchange| other.start.due_at <= due_at && ended(other) > due_at;
        let busy = history.exchanges.iter().filter(busy).count();
        wrong.demand(busy <= concurrency as usize, || format!("{place}: {busy} in flight, {concurrency} allowed"));
    }
    if let Extent::Requests(n) = scenario.spec.extent {
        let first = history.exchanges.iter().filter(|exchange| exchange.start.due_at == STARTED_AT).count() as u64;
        let possible = u64::from(concurrency).min(scenario.spec.warmup + n);
        let interrupted = scenario.stop_at.is_some_and(|stop_at| stop_at <= STARTED_AT);
        wrong.demand(first >= possible || interrupted, || format!("closed loop: {first} started at once"));
    }
}

struct Schedule {
    rate: RequestsPerSecond,
    arrivals: Arrivals,
    in_flight_limit: u32,
}

fn open(scenario: &Scenario, history: &History, schedule: Schedule, wrong: &mut Violations) {
    let mean = schedule.rate.interval().unwrap_or(Span::MAX);
    let mut rng = Rng::root(scenario.seed).child("arrivals");
    let most = history.exchanges.iter().map(|exchange| exchange.start.index).max().unwrap_or(0);
    let mut due_at = STARTED_AT;
    let mut started = history.exchanges.iter().collect::<Vec<_>>();
    started.sort_by_key(|exchange| exchange.start.index);
    let mut started = started.into_iter().peekable();
    for index in 0..=most {
        let exchange = started.next_if(|exchange| exchange.start.index == index);
        if let Some(exchange) = exchange {
            wrong.equal(&format!("request {index}"), "due tick", exchange.start.due_at, due_at);
        }
        if scenario.workers == 1 {
            // What ends at this very tick may count or not.
            let limit = schedule.in_flight_limit as usize;
            let before = || history.exchanges.iter().filter(|other| other.start.index < index);
            let surely = before().filter(|other| other.trace.timing.ended_at > due_at).count();
            let perhaps = before().filter(|other| other.trace.timing.ended_at >= due_at).count();
            let place = format!("arrival {index}");
            match exchange {
                Some(_) => wrong.demand(surely < limit, || format!("{place}: sent with {surely} in flight")),
                None => wrong.demand(perhaps >= limit, || format!("{place}: forfeited with {perhaps} in flight")),
            }
        }
        due_at += match schedule.arrivals {
            Arrivals::Constant => mean,
            Arrivals::Poisson => rng.exponential(mean),
        };
    }
}
