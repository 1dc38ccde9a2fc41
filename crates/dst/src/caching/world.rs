//! The event loop: sessions arrive and go on, engines take steps, a selector chooses, hedges begin.
//!
//! Invariant: every call is answered once, by one attempt; every attempt is finished at the router once.

mod lane;

use super::summary::{Answered, CacheSummary};
use super::workload::Session;
use super::{CacheScenario, CacheSelector};
use lane::{Lane, block_hashes};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tokrate_core::{BilledTokens, FailureKind, Rng, Span, Tick};
use tokrate_engine::{Emission, Request};
use tokrate_route::{
    CallShape, InFlightAttempt, LaneConfig, LaneId, Outcome, OutputLength, Policy, PromptBlocks, Ranked, Router,
};

/// Clients' shortest pause is longer than this, so that nothing is submitted before it is over.
const LOOK_AHEAD: Span = Span::from_millis(200);
/// What is known of an answer's length before the first.
const OUTPUT_GUESS: f64 = 200.0;
/// Fewer tokens after the first say nothing about a speed.
const MIN_SPEED_TOKENS: u32 = 8;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    StepEnd(usize),
    Restart(usize),
    NewSession,
    Turn(u64),
    Hedge(u64),
}

struct Attempt {
    lane: usize,
    call: u64,
    is_hedge: bool,
    started: Option<InFlightAttempt>,
    started_at: Tick,
    first_at: Option<Tick>,
    cached_tokens: u32,
    /// New tokens that were expected to be computed for it.
    new_tokens: f64,
    request: Request,
}

struct Call {
    session: u64,
    arrived: Tick,
    blocks: Option<PromptBlocks>,
    /// Where to go if the first lane is late.
    second: Option<usize>,
    attempts: Vec<u64>,
    winner: Option<u64>,
    expected_cached: u32,
    usd: f64,
    hedge_usd: f64,
}

struct World<'a> {
    scenario: &'a CacheScenario,
    now: Tick,
    events: BinaryHeap<Reverse<(Tick, u64, Event)>>,
    ordinal: u64,
    lanes: Vec<Lane>,
    router: Router,
    ids: Vec<LaneId>,
    lengths: OutputLength,
    sessions: BTreeMap<u64, Session>,
    calls: BTreeMap<u64, Call>,
    attempts: BTreeMap<u64, Attempt>,
    next_session: u64,
    next_call: u64,
    next_attempt: u64,
    arrivals: Rng,
    draws: Rng,
    answered: Vec<Answered>,
    /// Spent without hedges, and by them.
    spent: f64,
    extra: f64,
}

/// Runs a scenario until its last call is answered.
pub fn run_caches(scenario: &CacheScenario) -> CacheSummary {
    let mut world = World::new(scenario);
    while let Some(Reverse((at, _, event))) = world.events.pop() {
        world.now = at;
        match event {
            Event::StepEnd(lane) => world.step_ended(lane),
            Event::Restart(lane) => world.lanes[lane].restart(&scenario.engines[lane]),
            Event::NewSession => world.new_session(),
            Event::Turn(session) => world.turn(session),
            Event::Hedge(call) => world.hedge(call),
        }
    }
    assert!(world.calls.is_empty() && world.attempts.is_empty(), "every call is answered");
    let from = Tick::ZERO + scenario.warmup;
    CacheSummary::of(&world.answered, from, from + scenario.measured)
}

impl<'a> World<'a> {
    fn new(scenario: &'a CacheScenario) -> World<'a> {
        let root = Rng::root(scenario.seed);
        let configs =
            scenario.engines.iter().map(|engine| LaneConfig { price: Some(engine.price), max_in_flight: None });
        let mut world = World {
            now: Tick::ZERO,
            events: BinaryHeap::new(),
            ordinal: 0,
            lanes: scenario.engines.iter().map(Lane::new).collect(),
            router: Router::new(configs.collect(), scenario.seed),
            ids: (0..scenario.engines.len()).map(|number| LaneId(number as u32)).collect(),
            lengths: OutputLength::default(),
            sessions: BTreeMap::new(),
            calls: BTreeMap::new(),
            attempts: BTreeMap::new(),
            next_session: 0,
            next_call: 0,
            next_attempt: 0,
            arrivals: root.child("sessions"),
            draws: root.child("selector"),
            answered: Vec::new(),
            spent: 0.0,
            extra: 0.0,
            scenario,
        };
        world.schedule(Tick::ZERO, Event::NewSession);
        if let Some((at, lane)) = scenario.restart {
            world.schedule(Tick::ZERO + at, Event::Restart(lane));
        }
        world
    }

    fn schedule(&mut self, at: Tick, event: Event) {
        self.ordinal += 1;
        self.events.push(Reverse((at, self.ordinal, event)));
    }

    fn is_over(&self) -> bool {
        self.now >= Tick::ZERO + self.scenario.warmup + self.scenario.measured
    }

    fn new_session(&mut self) {
        if self.is_over() {
            return;
        }
        let gap = self.arrivals.exponential(Span::from_secs_f64(1.0 / self.scenario.sessions_per_second));
        self.schedule(self.now + gap, Event::NewSession);
        let id = self.next_session;
        self.next_session += 1;
        let root = Rng::root(self.scenario.seed).child("session");
        let session = Session::draw(&self.scenario.workload, &root, id);
        let siblings = session.siblings(self.next_session);
        self.next_session += siblings.len() as u64;
        for (id, session) in std::iter::once(id).chain(id + 1..).zip(std::iter::once(session).chain(siblings)) {
            self.sessions.insert(id, session);
            self.turn(id);
        }
    }

    fn turn(&mut self, id: u64) {
        let session = &self.sessions[&id];
        let request = Request {
            id: 0,
            prompt_tokens: session.prompt_tokens,
            output_tokens: session.output_tokens,
            shared: session.parts.clone(),
            answer: Some(session.answer),
        };
        let expected = self.lengths.expected(None).unwrap_or(OUTPUT_GUESS);
        let shape = CallShape { prompt_tokens: u64::from(request.prompt_tokens), output_tokens: expected };
        let blocks = self.scenario.selector.needs_blocks().then(|| block_hashes(&request.shared));
        let order = self.order(id, &request, &shape, blocks.as_ref());
        let first = order[0];
        let call = self.next_call;
        self.next_call += 1;
        let cached = |ranked: &Ranked| ranked.cached_tokens.unwrap_or(0) as u32;
        self.calls.insert(
            call,
            Call {
                session: id,
                arrived: self.now,
                blocks,
                second: order.get(1).map(|ranked| ranked.lane.0 as usize),
                attempts: Vec::new(),
                winner: None,
                expected_cached: cached(&first),
                usd: 0.0,
                hedge_usd: 0.0,
            },
        );
        self.start(call, first.lane.0 as usize, &request, f64::from(cached(&first)), false);
        if self.scenario.hedge_share.is_some()
            && let Some(expectation) = first.expectation
        {
            self.schedule(self.now + expectation.ttft_p90, Event::Hedge(call));
        }
    }

    /// The lanes, best first.
    fn order(
        &mut self,
        session: u64,
        request: &Request,
        shape: &CallShape,
        blocks: Option<&PromptBlocks>,
    ) -> Vec<Ranked> {
        let policy = match self.scenario.selector {
            CacheSelector::Router(policy) => policy,
            _ => Policy::Fixed,
        };
        let mut order = self.router.order_with(self.now, shape, blocks, &self.ids, &policy);
        let lanes = &self.lanes;
        let prompt = f64::from(request.prompt_tokens);
        let score = |ranked: &Ranked| {
            let lane = &lanes[ranked.lane.0 as usize];
            match self.scenario.selector {
                CacheSelector::Router(_) => 0.0,
                CacheSelector::Sticky => Rng::root(session).nth(u64::from(ranked.lane.0)).unit(),
                CacheSelector::Lmetric { told: true, with_queue } => {
                    let queue = if with_queue { lane.engine.prompt_tokens_left() as f64 } else { 0.0 };
                    let stats = lane.engine.stats();
                    let new = prompt - f64::from(lane.engine.cached_tokens(request));
                    (queue + new) * f64::from(stats.running + stats.waiting + 1)
                }
                CacheSelector::Lmetric { told: false, with_queue } => {
                    let queue = if with_queue { lane.expected_queue } else { 0.0 };
                    let new = prompt - ranked.cached_tokens.unwrap_or(0) as f64;
                    (queue + new) * f64::from(self.router.in_flight(ranked.lane) + 1)
                }
                CacheSelector::Oracle => lane.seconds_to_first_token(self.now, request),
            }
        };
        if !matches!(self.scenario.selector, CacheSelector::Router(_)) {
            // Of equal ones any.
            let from = self.draws.below(order.len() as u64) as usize;
            order.rotate_left(from);
            let mut scored: Vec<(f64, Ranked)> = order.iter().map(|ranked| (score(ranked), *ranked)).collect();
            scored.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            order = scored.into_iter().map(|(_, ranked)| ranked).collect();
        }
        order
    }

    fn start(&mut self, call: u64, lane: usize, request: &Request, cached: f64, is_hedge: bool) {
        let id = self.next_attempt;
        self.next_attempt += 1;
        let mut started = self.router.start(self.ids[lane], self.now);
        let entry = self.calls.get_mut(&call).expect("it was just made, or waits");
        if let Some(blocks) = &entry.blocks {
            self.router.send_prompt(&mut started, self.now, blocks);
        }
        entry.attempts.push(id);
        let request = Request { id, ..request.clone() };
        let new_tokens = f64::from(request.prompt_tokens) - cached;
        self.lanes[lane].expected_queue += new_tokens;
        self.lanes[lane].engine.submit(&request).expect("a prompt fits into every engine");
        let attempt = Attempt {
            lane,
            call,
            is_hedge,
            started: Some(started),
            started_at: self.now,
            first_at: None,
            cached_tokens: 0,
            new_tokens,
            request,
        };
        self.lanes[lane].requests.insert(id, attempt.request.clone());
        self.attempts.insert(id, attempt);
        self.run(lane);
    }

    /// Begins a step of an idle engine.
    fn run(&mut self, lane: usize) {
        if self.lanes[lane].step.is_some() {
            return;
        }
        let next = self.events.peek().map_or(Tick::MAX, |Reverse((at, ..))| *at);
        let Some(report) = self.lanes[lane].engine.steps_to(self.now, next.min(self.now + LOOK_AHEAD)) else { return };
        for (id, cached) in &report.admitted {
            if let Some(attempt) = self.attempts.get_mut(id).filter(|attempt| attempt.first_at.is_none()) {
                attempt.cached_tokens = *cached;
            }
        }
        self.schedule(report.ended_at, Event::StepEnd(lane));
        self.lanes[lane].step = Some(report);
    }

    fn step_ended(&mut self, lane: usize) {
        // A restart has taken the step back.
        let Some(report) = self.lanes[lane].step.take_if(|report| report.ended_at == self.now) else {
            return self.run(lane);
        };
        for emission in report.emissions {
            self.emitted(lane, emission);
        }
        self.run(lane);
    }

    fn emitted(&mut self, lane: usize, emission: Emission) {
        let Some(attempt) = self.attempts.get_mut(&emission.id) else { return };
        if attempt.first_at.is_none() {
            attempt.first_at = Some(self.now);
            self.lanes[lane].expected_queue -= attempt.new_tokens;
            let ttft = self.now - attempt.started_at;
            let prompt = u64::from(attempt.request.prompt_tokens);
            let started = attempt.started.as_mut().expect("it is not finished");
            self.router.first_token(started, self.now, ttft, prompt);
            let call = self.calls.get_mut(&attempt.call).expect("its call waits");
            call.winner.get_or_insert(emission.id);
            let losers: Vec<u64> = call.attempts.iter().copied().filter(|id| *id != emission.id).collect();
            losers.into_iter().for_each(|loser| self.close(loser, Some(FailureKind::Cancelled)));
        }
        if emission.last {
            let call = self.attempts[&emission.id].call;
            self.close(emission.id, None);
            self.answer(call);
        }
    }

    fn close(&mut self, id: u64, failure: Option<FailureKind>) {
        let Some(mut attempt) = self.attempts.remove(&id) else { return };
        let lane = &mut self.lanes[attempt.lane];
        lane.requests.remove(&id);
        if attempt.first_at.is_none() {
            lane.expected_queue -= attempt.new_tokens;
        }
        if failure.is_some() {
            lane.engine.cancel(id);
        }
        let output = if failure.is_none() { attempt.request.output_tokens } else { 0 };
        let billed = BilledTokens {
            input: u64::from(attempt.request.prompt_tokens),
            cached_input: u64::from(attempt.cached_tokens),
            output: u64::from(output),
            ..BilledTokens::default()
        };
        let seconds = attempt.first_at.map_or(0.0, |first| (self.now - first).as_secs_f64());
        let outcome = Outcome {
            failure,
            prompt_tokens: billed.input,
            billed: failure.is_none().then_some(billed),
            output_tokens: billed.output,
            output_speed: (output > MIN_SPEED_TOKENS && seconds > 0.0).then(|| f64::from(output - 1) / seconds),
            ..Outcome::default()
        };
        self.router.finish(attempt.started.take().expect("an attempt is closed once"), self.now, &outcome);
        // Who loses is billed for the whole prompt.
        let usd = self.scenario.engines[attempt.lane].price.cost(billed).as_usd();
        let call = self.calls.get_mut(&attempt.call).expect("a call ends after its attempts");
        call.usd += usd;
        if call.winner != Some(id) || (attempt.is_hedge && call.attempts.len() == 1) {
            call.hedge_usd += usd;
            self.extra += usd;
        } else {
            self.spent += usd;
            self.answered.push(Answered {
                arrived: call.arrived,
                ttft: attempt.first_at.unwrap_or(self.now) - call.arrived,
                completion: self.now - call.arrived,
                prompt_tokens: attempt.request.prompt_tokens,
                cached_tokens: attempt.cached_tokens,
                expected_cached: call.expected_cached,
                usd: call.usd,
                hedge_usd: call.hedge_usd,
            });
        }
    }

    fn answer(&mut self, call: u64) {
        let call = self.calls.remove(&call).expect("a call is answered once");
        let session = self.sessions.get_mut(&call.session).expect("a session waits for its call");
        self.lengths.observe(self.now, u64::from(session.output_tokens));
        match session.answered() {
            Some(pause) if !self.is_over() => self.schedule(self.now + pause, Event::Turn(call.session)),
            _ => {
                self.sessions.remove(&call.session);
            }
        }
    }

    /// The first lane is late: another one is asked as well, if there is money for it.
    fn hedge(&mut self, id: u64) {
        let Some(share) = self.scenario.hedge_share else { return };
        let Some(call) = self.calls.get(&id).filter(|call| call.winner.is_none()) else { return };
        let Some(second) = call.second else { return };
        let Some(first) = call.attempts.first().and_then(|id| self.attempts.get(id)) else { return };
        let request = first.request.clone();
        let billed = BilledTokens { input: u64::from(request.prompt_tokens), ..BilledTokens::default() };
        let usd = self.scenario.engines[second].price.cost(billed).as_usd();
        if self.extra + usd <= share * self.spent {
            self.start(id, second, &request, 0.0, true);
        }
    }
}
