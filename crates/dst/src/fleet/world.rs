//! The event loop of a fleet: calls, races, router, engines and network latency under one virtual clock.
//!
//! It records and does not judge. Invariant: the clock jumps to the next due event; what an engine emits reaches the race
//! one latency later, in order, and a cancellation reaches the engine one latency later.

mod attempt;
mod lane;

use super::calls::{CallEnd, CallRecord, LaneLedger};
use super::oracle::Truth;
use super::{FleetScenario, LaneSelector};
use attempt::Attempt;
use lane::{Lane, LaneEvent};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tokrate_core::{FailureKind, Money, Rng, Span, Tick};
use tokrate_route::{
    Action, AttemptResult, Budget, CallShape, CancelReason, Candidate, LaneId, OutputLength, Policy, Race, Ranked,
    Role, Router, extra_usd,
};

/// Start time; not 0, so that an unset tick is noticed.
const STARTED_AT: Tick = Tick::from_nanos(1_000_000_007);
/// Expected length of answers before the first one.
const OUTPUT_GUESS: f64 = 300.0;

/// Everything that happened in a fleet run.
#[derive(Clone, PartialEq, Debug)]
pub struct FleetHistory {
    /// Every call, in order of arrival.
    pub calls: Vec<CallRecord>,
    /// Totals of each engine.
    pub ledgers: Vec<LaneLedger>,
    /// Calls that arrived from this tick on are measured.
    pub measured_from: Tick,
    /// Attempts in flight at the end; 0 if every one was finished.
    pub in_flight_at_end: u32,
}

/// Runs a fleet until the last call has ended and the last loser is drained.
///
/// # Panics
/// If a persona is invalid or an invariant of the simulation is violated.
pub fn run_fleet(scenario: &FleetScenario) -> FleetHistory {
    let mut world = World::new(scenario);
    while let Some(now) = world.next_due() {
        assert!(now >= world.now, "the clock never goes back");
        world.now = now;
        world.step();
    }
    world.into_history()
}

/// A call in progress.
struct Call {
    race: Race,
    record: CallRecord,
    attempts: Vec<Attempt>,
    shape: CallShape,
    /// The earliest of its wake-ups in the heap.
    next_wake_at: Tick,
    over: bool,
}

struct World<'a> {
    scenario: &'a FleetScenario,
    now: Tick,
    lanes: Vec<Lane>,
    router: Router,
    oracle_rng: Vec<Rng>,
    budget: Option<Budget>,
    lengths: OutputLength,
    calls: Vec<Call>,
    wakes: BinaryHeap<Reverse<(Tick, usize)>>,
    arrivals: Rng,
    bodies: Rng,
    next_arrival: Option<Tick>,
    ids: Vec<LaneId>,
}

impl<'a> World<'a> {
    fn new(scenario: &'a FleetScenario) -> World<'a> {
        let root = Rng::root(scenario.seed);
        let seed_of = |number: usize| root.child("engine").nth(number as u64).next_u64();
        let lanes: Vec<Lane> = scenario
            .lanes
            .iter()
            .enumerate()
            .map(|(number, lane)| Lane::new(lane, seed_of(number), STARTED_AT))
            .collect();
        let configs = scenario.lanes.iter().map(|lane| lane::config_of(&lane.persona)).collect();
        let mut world = World {
            now: STARTED_AT,
            router: Router::with_config(scenario.router, configs, scenario.seed),
            oracle_rng: (0..lanes.len()).map(|number| Rng::root(seed_of(number)).child("background")).collect(),
            ids: (0..lanes.len()).map(|number| LaneId(number as u32)).collect(),
            lanes,
            budget: scenario.budget.map(Budget::new),
            lengths: OutputLength::default(),
            calls: Vec::new(),
            wakes: BinaryHeap::new(),
            arrivals: root.child("arrivals"),
            bodies: root.child("bodies"),
            next_arrival: None,
            scenario,
        };
        world.next_arrival = world.draw_arrival(STARTED_AT);
        world
    }

    fn draw_arrival(&mut self, after: Tick) -> Option<Tick> {
        let workload = &self.scenario.workload;
        let at = after + self.arrivals.exponential(Span::from_secs_f64(1.0 / workload.calls_per_second));
        (at < STARTED_AT + workload.warmup + workload.measured).then_some(at)
    }

    fn next_due(&self) -> Option<Tick> {
        let lanes = self.lanes.iter().filter_map(Lane::wake_at);
        let wake = self.wakes.peek().map(|Reverse((at, _))| *at);
        lanes.chain(wake).chain(self.next_arrival).min()
    }

    /// Processes everything that is due now.
    fn step(&mut self) {
        for number in 0..self.lanes.len() {
            self.lanes[number].serve(self.now);
            while let Some((call, attempt, event)) = self.lanes[number].arrive(self.now) {
                self.receive(call, attempt, event);
            }
        }
        while let Some(&Reverse((at, call))) = self.wakes.peek()
            && at <= self.now
        {
            self.wakes.pop();
            if self.calls[call].next_wake_at == at {
                self.calls[call].next_wake_at = Tick::MAX;
            }
            self.expire_drains(call);
            self.advance(call);
        }
        if self.next_arrival.is_some_and(|at| at <= self.now) {
            self.next_arrival = self.draw_arrival(self.now);
            self.start_call();
        }
    }

    /// A call arrives.
    fn start_call(&mut self) {
        let workload = self.scenario.workload;
        let length = |rng: &mut Rng, mean: f64, variation: f64, most: f64| {
            (mean * rng.log_normal(variation)).round().clamp(8.0, most) as u32
        };
        let prompt_tokens = length(&mut self.bodies, workload.prompt_mean, workload.prompt_variation, 16_000.0);
        let output_tokens = length(&mut self.bodies, workload.output_mean, workload.output_variation, 4_000.0);
        let expected = self.lengths.expected(None).unwrap_or(OUTPUT_GUESS);
        let shape = CallShape { prompt_tokens: u64::from(prompt_tokens), output_tokens: expected };
        let order = self.order(&shape, output_tokens);
        let candidates = order.iter().map(|ranked| self.candidate(ranked, &shape)).collect();
        let record = CallRecord {
            arrived: self.now,
            prompt_tokens,
            output_tokens,
            ttft: None,
            completion: Span::ZERO,
            end: CallEnd::Failed(FailureKind::Cancelled),
            winner: None,
            shown_tokens: 0,
            attempts: Vec::new(),
        };
        if let Some(budget) = &mut self.budget {
            budget.on_call();
        }
        let race = Race::new(self.scenario.race.clone(), candidates, self.now);
        self.calls.push(Call { race, record, attempts: Vec::new(), shape, next_wake_at: Tick::MAX, over: false });
        self.advance(self.calls.len() - 1);
    }

    fn order(&mut self, shape: &CallShape, output_tokens: u32) -> Vec<Ranked> {
        let for_all = match self.scenario.selector {
            LaneSelector::Router(policy) => return self.router.order(self.now, shape, &self.ids, &policy),
            LaneSelector::Oracle => false,
            LaneSelector::SelflessOracle => true,
        };
        let mut order = self.router.order(self.now, shape, &self.ids, &Policy::Fixed);
        let mean = self.scenario.workload.output_mean;
        let prompt = shape.prompt_tokens as u32;
        order.sort_by(|one, other| {
            let seconds = |ranked: &Ranked| {
                let truth = self.truth(ranked.lane);
                match for_all {
                    true => truth.seconds_for_all(self.now, prompt, f64::from(output_tokens), mean),
                    false => truth.seconds(self.now, prompt, f64::from(output_tokens), mean),
                }
            };
            other.usable.cmp(&one.usable).then(seconds(one).total_cmp(&seconds(other)))
        });
        order
    }

    fn truth(&self, lane: LaneId) -> Truth<'_> {
        let number = lane.0 as usize;
        Truth {
            persona: &self.scenario.lanes[number].persona,
            background_rng: &self.oracle_rng[number],
            started_at: STARTED_AT,
            latency: self.scenario.lanes[number].latency,
            in_flight: self.router.in_flight(lane),
            refuses: self.lanes[number].refuses(),
        }
    }

    fn candidate(&self, ranked: &Ranked, shape: &CallShape) -> Candidate {
        Candidate {
            lane: ranked.lane,
            streamed: true,
            hedge_after: self.router.hedge_after(ranked.lane, self.now, shape.prompt_tokens),
            loser: self.scenario.lanes[ranked.lane.0 as usize].loser,
            expected: ranked.remembered,
            is_silent: ranked.is_silent,
            expected_output_tokens: shape.output_tokens,
        }
    }

    /// An event reaches the gateway.
    fn receive(&mut self, call: usize, attempt: usize, event: LaneEvent) {
        let now = self.now;
        let Call { race, record, attempts, shape, .. } = &mut self.calls[call];
        let run = &mut attempts[attempt];
        if run.is_over() {
            return;
        }
        let before = run.tokens();
        if let Some(ttft) = run.receive(now, event)
            && let Some(started) = run.started_mut()
        {
            self.router.first_token(started, now, ttft, shape.prompt_tokens);
        }
        if record.winner == Some(attempt) {
            record.shown_tokens += run.tokens() - before;
        }
        if run.is_drained() {
            if event.is_end() {
                self.close(call, attempt, Some(FailureKind::Cancelled), None);
            }
            return;
        }
        match event {
            LaneEvent::Event(kind) => race.on_event(attempt, &tokrate_core::StreamEvent { at: now, kind }),
            LaneEvent::Text(_, kind) => race.on_event(attempt, &tokrate_core::StreamEvent { at: now, kind }),
            LaneEvent::End => race.ended(attempt, now),
            LaneEvent::Failed(failed) => race.failed(attempt, now, failed),
        }
        match event {
            // An error in the stream is recorded by the attempt: the end that follows it is no success.
            LaneEvent::End => self.close(call, attempt, None, None),
            LaneEvent::Failed(failed) => self.close(call, attempt, Some(failed.kind), failed.retry_after),
            LaneEvent::Event(_) | LaneEvent::Text(..) => {}
        }
        self.advance(call);
    }

    /// Carries out the actions of a race.
    fn advance(&mut self, call: usize) {
        loop {
            let (now, router, budget) = (self.now, &self.router, &mut self.budget);
            let Call { race, shape, over, attempts, .. } = &mut self.calls[call];
            if *over {
                return;
            }
            let mut reserved = None;
            let mut allow = |candidate: &Candidate, role: Role| {
                if !router.allows(candidate.lane, now) {
                    return false;
                }
                let (Role::Hedge | Role::Race, Some(budget)) = (role, budget.as_mut()) else { return true };
                let cost = |lane| router.expected_cost(lane, now, shape.prompt_tokens, shape.output_tokens as u64);
                let usd = |lane| cost(lane).map(Money::as_usd);
                let under_way = attempts.iter().filter(|run| !run.is_over()).map(|run| usd(run.lane()));
                reserved = budget.reserve(now, extra_usd(usd(candidate.lane), under_way));
                reserved.is_some()
            };
            let Some(action) = race.poll(now, &mut allow) else { break };
            match action {
                Action::Start { lane, role, .. } => {
                    let started = self.router.start(lane, now);
                    self.start_attempt(call, lane, role, started, reserved);
                }
                Action::Win { attempt } => {
                    let Call { record, attempts, .. } = &mut self.calls[call];
                    record.winner = Some(attempt);
                    record.ttft = Some(now - record.arrived);
                    record.shown_tokens = attempts[attempt].tokens();
                }
                Action::Cancel { attempt, reason } => {
                    let failure = match reason {
                        CancelReason::Lost => FailureKind::Cancelled,
                        CancelReason::Failed(kind) => kind,
                    };
                    self.abort(call, attempt, failure);
                }
                Action::Drain { attempt, until, max_bytes } => {
                    self.calls[call].attempts[attempt].drain(until, max_bytes);
                    self.wakes.push(Reverse((until, call)));
                }
                Action::Finish { attempt } => {
                    self.lengths.observe(now, u64::from(self.calls[call].attempts[attempt].tokens()));
                    self.abort(call, attempt, FailureKind::Cancelled);
                    self.end(call, CallEnd::Whole);
                }
                Action::Break { attempt, kind, .. } => {
                    self.abort(call, attempt, kind);
                    self.end(call, CallEnd::Broken(kind));
                }
                Action::Fail { kind, .. } => self.end(call, CallEnd::Failed(kind)),
            }
        }
        let Call { race, next_wake_at, .. } = &mut self.calls[call];
        if let Some(wake_at) = race.wake_at().filter(|wake_at| *wake_at < *next_wake_at) {
            assert!(wake_at > self.now, "a race that said nothing wants to be woken in the past");
            *next_wake_at = wake_at;
            self.wakes.push(Reverse((wake_at, call)));
        }
    }

    fn start_attempt(
        &mut self,
        call: usize,
        lane: LaneId,
        role: Role,
        started: tokrate_route::InFlightAttempt,
        reserved: Option<tokrate_route::ExtraReservation>,
    ) {
        let Call { record, attempts, .. } = &mut self.calls[call];
        let ticket = (call, attempts.len());
        self.lanes[lane.0 as usize].send(self.now, ticket, record.prompt_tokens, record.output_tokens);
        let price = self.scenario.lanes[lane.0 as usize].persona.price;
        attempts.push(Attempt::new(started, role, reserved, record.prompt_tokens, price));
    }

    /// Aborts an attempt if it is running.
    fn abort(&mut self, call: usize, attempt: usize, failure: FailureKind) {
        let run = &self.calls[call].attempts[attempt];
        if !run.is_over() {
            self.lanes[run.lane().0 as usize].cancel(self.now, (call, attempt));
            self.close(call, attempt, Some(failure), None);
        }
    }

    /// Ends an attempt: updates router, budget and record.
    fn close(&mut self, call: usize, attempt: usize, failure: Option<FailureKind>, retry_after: Option<Span>) {
        let now = self.now;
        let closed = self.calls[call].attempts[attempt].close(now, failure, retry_after);
        self.router.finish(closed.started, now, &closed.outcome);
        if let Some(budget) = &mut self.budget {
            let result = match self.calls[call].record.winner {
                Some(winner) if winner == attempt => AttemptResult::Won,
                Some(_) => AttemptResult::Lost,
                None => AttemptResult::Neither,
            };
            budget.settle(now, closed.reserved, closed.usd, result);
        }
    }

    fn expire_drains(&mut self, call: usize) {
        for attempt in 0..self.calls[call].attempts.len() {
            let run = &self.calls[call].attempts[attempt];
            if !run.is_over() && run.drained_until().is_some_and(|until| until <= self.now) {
                self.abort(call, attempt, FailureKind::Cancelled);
            }
        }
    }

    fn end(&mut self, call: usize, end: CallEnd) {
        let call = &mut self.calls[call];
        call.over = true;
        call.record.completion = self.now - call.record.arrived;
        call.record.end = end;
    }

    fn into_history(self) -> FleetHistory {
        let in_flight_at_end = self.ids.iter().map(|lane| self.router.in_flight(*lane)).sum();
        let records = self.calls.into_iter().map(|call| {
            assert!(call.over, "a call never ended: {:?}", call.record);
            let attempts = call.attempts.into_iter().map(Attempt::into_record).collect();
            CallRecord { attempts, ..call.record }
        });
        FleetHistory {
            calls: records.collect(),
            ledgers: self.lanes.iter().map(Lane::ledger).collect(),
            measured_from: STARTED_AT + self.scenario.workload.warmup,
            in_flight_at_end,
        }
    }
}
