//! The event loop of a world: plans, an engine, a link per request, decoders and meters under one virtual clock.
//!
//! It records and does not judge. Invariant: the clock stands still until nothing more happens at its tick, then jumps to
//! the next wake-up.

mod client;

use crate::link::{Link, Read};
use crate::scenarios::{STARTED_AT, Scenario};
use crate::situations::{Situation, Situations};
use client::Client;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokrate_bench::plan::{Outcome as Ending, Plan, Share, Start, Step, Wait};
use tokrate_core::{Channel, FinishReason, Rng, Tick};
use tokrate_meter::RequestTrace;
use tokrate_sim::{Emission, Emitted, Engine, Outcome, Persona, RequestId, SimRequest, Stats};
use tokrate_wire::{Encoder, Piece, Shape, encode_error_response};

/// An event that is not JSON, with the empty line that ends it.
pub const MALFORMED_EVENT: &[u8] = b"data: {\"id\":\"broken\",\"choices\":[{\"index\":0,\"delta\":{\"content\": \"\n\n";
/// Rounds of a world after which it is considered an endless loop.
const MAX_ROUNDS: u32 = 5_000_000;

/// Everything that happened in a world.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// All requests, in order of start.
    pub exchanges: Vec<Exchange>,
    /// Arrivals forfeited by the plans.
    pub forfeited: u64,
    /// Arrivals withheld by the plans because a rate limit asked to wait.
    pub withheld: u64,
    /// Waits requested by rate limits.
    pub waits: Vec<Wait>,
    /// When the last request had ended.
    pub ended_at: Tick,
    /// Counters of the engine at the end.
    pub engine: Stats,
    /// Peak number of running requests in the engine.
    pub running_peak: u32,
    /// Whether all plans finished.
    pub finished: bool,
    /// Situations that were reached.
    pub situations: Situations,
}

/// One request, client and server side.
#[derive(Clone, PartialEq, Debug)]
pub struct Exchange {
    /// The start in the plan.
    pub start: Start,
    /// When it started.
    pub started_at: Tick,
    /// When it was sent; `None` without a connection.
    pub sent_at: Option<Tick>,
    /// When it reached the engine.
    pub submitted_at: Option<Tick>,
    /// Its number in the engine, if accepted.
    pub request: Option<RequestId>,
    /// The status of the answer.
    pub status: u16,
    /// Emissions of the engine, read or not.
    pub writes: Vec<Written>,
    /// Reads of the client.
    pub reads: Vec<ReadMark>,
    /// How it ended for the client.
    pub closing: Closing,
    /// The measured trace.
    pub trace: RequestTrace,
}

/// One emission that was written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Written {
    /// When it was due.
    pub due: Tick,
    /// When it was written.
    pub at: Tick,
    /// The emission.
    pub what: Emitted,
    /// Bytes of the body up to and including it.
    pub end: u64,
}

/// One read of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadMark {
    /// When it returned.
    pub at: Tick,
    /// Bytes of the body up to and including it.
    pub end: u64,
}

/// How an exchange ended for the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// Not ended.
    Open,
    /// The body ended.
    End,
    /// The connection broke.
    Reset,
    /// Idle timeout.
    Idle,
    /// Total timeout.
    Total,
    /// The run was stopped.
    Cancelled,
    /// There was no connection.
    Refused,
}

/// Runs a scenario to its end.
///
/// # Panics
/// If the scenario is invalid or loops endlessly.
pub fn run(scenario: &Scenario) -> History {
    let mut world = World::new(scenario);
    world.run();
    world.into_history()
}

/// A message from client to server.
#[derive(Clone, Copy, Debug)]
enum Uplink {
    Request(usize),
    Cancel(usize),
}

struct World<'a> {
    scenario: &'a Scenario,
    now: Tick,
    engine: Engine,
    plans: Vec<(Plan, Step)>,
    exchanges: Vec<Exchange>,
    /// Clients of open exchanges.
    clients: BTreeMap<usize, Client>,
    /// The server's encoders, by exchange.
    encoders: BTreeMap<usize, Encoder>,
    by_request: BTreeMap<RequestId, usize>,
    uplink: BTreeMap<(Tick, u64), Uplink>,
    next_ticket: u64,
    running_peak: u32,
    stopped: bool,
    situations: Situations,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario) -> World<'a> {
        let root = Rng::root(scenario.seed);
        let persona = Persona {
            law: scenario.law.clone(),
            faults: scenario.faults.clone(),
            background: scenario.background,
            limits: scenario.rate_limits,
            ..Persona::default()
        };
        let engine = Engine::with_persona(persona, scenario.seed, STARTED_AT).expect("it makes sense");
        let shares = (0..scenario.workers).map(|worker| Share { worker, of: scenario.workers });
        let plan = |share| Plan::new(&scenario.spec, share, STARTED_AT, root.child("arrivals"));
        let mut situations = Situations::default();
        situations.mark_if(scenario.workers > 1, Situation::SharedPlan);
        World {
            scenario,
            now: STARTED_AT,
            engine,
            plans: shares.map(|share| (plan(share), Step::WaitForCompletion)).collect(),
            exchanges: Vec::new(),
            clients: BTreeMap::new(),
            encoders: BTreeMap::new(),
            by_request: BTreeMap::new(),
            uplink: BTreeMap::new(),
            next_ticket: 0,
            running_peak: 0,
            stopped: false,
            situations,
        }
    }

    fn run(&mut self) {
        for _ in 0..MAX_ROUNDS {
            // Not `||`: every part gets its turn in every round.
            if self.stop() | self.arrive() | self.serve() | self.receive() | self.expire() | self.start() {
                continue;
            }
            match self.next_wake() {
                Some(wake_at) if wake_at > self.now => self.now = wake_at,
                Some(wake_at) => panic!("{wake_at:?} was due at {:?} and nothing happened", self.now),
                None => return,
            }
        }
        panic!("the world runs in circles at {:?}", self.now);
    }

    fn next_wake(&self) -> Option<Tick> {
        let plans = self.plans.iter().filter_map(|(_, step)| match step {
            Step::WaitUntil(tick) => Some(*tick),
            _ => None,
        });
        let clients = self.clients.values().filter_map(|client| client.wake_at(&self.scenario.limits));
        let uplink = self.uplink.keys().next().map(|(at, _)| *at);
        let stop = self.scenario.stop_at.filter(|_| !self.stopped && !self.is_finished());
        plans.chain(clients).chain(uplink).chain(stop).chain(self.engine.wake_at()).min()
    }

    fn is_finished(&self) -> bool {
        self.plans.iter().all(|(_, step)| *step == Step::Finished)
    }

    /// Stops the run if its time is up.
    fn stop(&mut self) -> bool {
        if self.stopped || self.is_finished() || self.scenario.stop_at.is_none_or(|stop_at| stop_at > self.now) {
            return false;
        }
        self.stopped = true;
        self.plans.iter_mut().for_each(|(plan, _)| plan.stop());
        let open: Vec<usize> = self.clients.keys().copied().collect();
        open.into_iter().for_each(|number| self.end(number, Closing::Cancelled));
        true
    }

    /// Processes messages that have reached the server.
    fn arrive(&mut self) -> bool {
        let mut moved = false;
        while let Some(entry) = self.uplink.first_entry().filter(|entry| entry.key().0 <= self.now) {
            moved = true;
            match entry.remove() {
                Uplink::Request(number) => self.submit(number),
                Uplink::Cancel(number) => {
                    if let Some(request) = self.exchanges[number].request {
                        self.engine.cancel(self.now, request);
                    }
                }
            }
        }
        moved
    }

    fn submit(&mut self, number: usize) {
        let exchange = &mut self.exchanges[number];
        exchange.submitted_at = Some(self.now);
        let request = SimRequest {
            input_tokens: self.scenario.input_tokens,
            parts: Arc::default(),
            output_tokens: Some(self.scenario.output_tokens),
            include_usage: self.scenario.include_usage,
            include_timings: false,
            ..SimRequest::default()
        };
        match self.engine.submit(self.now, request) {
            Ok(request) => {
                exchange.request = Some(request);
                exchange.status = 200;
                self.by_request.insert(request, number);
                let id = format!("chatcmpl-{number}");
                let model = if self.engine.claims_other_model(request) { "another-model" } else { "sim" };
                self.encoders
                    .insert(number, Encoder::new(self.scenario.dialect, Shape::Stream, &id, model, 1_790_000_000));
            }
            Err(refusal) => {
                exchange.status = refusal.status;
                self.situations.mark_if(refusal.status == 429, Situation::RateLimited);
                self.situations.mark_if(refusal.message == "the queue is full", Situation::QueueFull);
                self.situations.mark_if(refusal.status / 100 == 5, Situation::ServerError);
                if let Some(client) = self.clients.get_mut(&number) {
                    client.refuse(refusal.status, refusal.retry_after);
                    if let Some(link) = &mut client.link {
                        link.write(
                            self.now,
                            &encode_error_response(self.scenario.dialect, refusal.status, refusal.message),
                        );
                        link.close(self.now);
                    }
                }
            }
        }
        let stats = self.engine.stats();
        self.running_peak = self.running_peak.max(stats.running);
        self.situations.mark_if(stats.queued > 0, Situation::QueueInEngine);
    }

    /// Writes due emissions; those of one answer at one tick are one write.
    fn serve(&mut self) -> bool {
        let mut due = Vec::new();
        self.engine.poll(self.now, &mut due);
        self.running_peak = self.running_peak.max(self.engine.stats().running);
        for group in due.chunk_by(|a, b| a.request == b.request) {
            let number = self.by_request[&group[0].request];
            self.write(number, group);
        }
        !due.is_empty()
    }

    fn write(&mut self, number: usize, emissions: &[Emission]) {
        let encoder = self.encoders.get_mut(&number).expect("only taken requests are answered");
        let exchange = &mut self.exchanges[number];
        let (mut bytes, mut text) = (Vec::new(), String::new());
        let before = exchange.writes.last().map_or(0, |written| written.end);
        let mut outcome = None;
        for emission in emissions {
            text.clear();
            match piece(emission.what, self.scenario, &mut text) {
                Some(piece) => encoder.encode_event(&piece, &mut bytes),
                None if emission.what == Emitted::Malformed => bytes.extend_from_slice(MALFORMED_EVENT),
                None => {}
            }
            if let Emitted::End(how) = emission.what {
                outcome = Some(how);
            }
            let end = before + bytes.len() as u64;
            exchange.writes.push(Written { due: emission.due, at: self.now, what: emission.what, end });
        }
        let Some(client) = self.clients.get_mut(&number) else {
            self.situations.mark(Situation::WriteAfterLeaving);
            return;
        };
        let Some(link) = &mut client.link else { return };
        link.write(self.now, &bytes);
        match outcome {
            Some(Outcome::Complete) => link.close(self.now),
            Some(Outcome::Disconnected) => link.abort(self.now),
            None => {}
        }
        self.situations.mark_if(link.stalls() > 0, Situation::LinkStall);
    }

    /// Clients read what has arrived.
    fn receive(&mut self) -> bool {
        let ready = |(number, client): (&usize, &Client)| {
            client.link.as_ref().and_then(Link::wake_at).filter(|at| *at <= self.now).map(|_| *number)
        };
        let ready: Vec<usize> = self.clients.iter().filter_map(ready).collect();
        for &number in &ready {
            while let Some(client) = self.clients.get_mut(&number)
                && let Some(read) = client.link.as_mut().and_then(|link| link.read(self.now))
            {
                match read {
                    Read::Bytes(bytes) => {
                        let end = self.exchanges[number].reads.last().map_or(0, |read| read.end) + bytes.len() as u64;
                        client.read(self.now, &bytes, &mut self.situations);
                        self.exchanges[number].reads.push(ReadMark { at: self.now, end });
                    }
                    Read::End => self.end(number, Closing::End),
                    Read::Reset => self.end(number, Closing::Reset),
                }
            }
        }
        !ready.is_empty()
    }

    /// Ends requests that have timed out.
    fn expire(&mut self) -> bool {
        let limits = &self.scenario.limits;
        let over = |(number, client): (&usize, &Client)| client.is_over(self.now, limits).map(|how| (*number, how));
        let over: Vec<(usize, Closing)> = self.clients.iter().filter_map(over).collect();
        for &(number, how) in &over {
            self.end(number, how);
        }
        !over.is_empty()
    }

    fn start(&mut self) -> bool {
        let mut moved = false;
        for worker in 0..self.plans.len() {
            loop {
                let step = self.plans[worker].0.poll(self.now);
                moved |= step != self.plans[worker].1;
                self.plans[worker].1 = step;
                let Step::Start(start) = step else { break };
                self.start_exchange(worker, start);
            }
        }
        moved
    }

    fn start_exchange(&mut self, worker: usize, start: Start) {
        let number = self.exchanges.len();
        let oldest = self.clients.keys().next().map(|&oldest| &self.exchanges[oldest]);
        let held_up = |exchange: &Exchange| exchange.reads.is_empty() && exchange.started_at < self.now;
        let open = !self.scenario.spec.load.is_closed();
        self.situations.mark_if(open && oldest.is_some_and(held_up), Situation::OvertakenInOpenLoop);
        let link = Link::open(&self.scenario.link, Rng::root(self.scenario.seed).child("link").nth(start.index));
        let sent_at = link.is_some().then_some(self.now);
        self.exchanges.push(Exchange {
            start,
            started_at: self.now,
            sent_at,
            submitted_at: None,
            request: None,
            status: 0,
            writes: Vec::new(),
            reads: Vec::new(),
            closing: Closing::Open,
            trace: RequestTrace::default(),
        });
        if link.is_some() {
            self.send(Uplink::Request(number));
        } else {
            self.situations.mark(Situation::ConnectRefused);
        }
        let fails_at = link.is_none().then(|| self.now + self.scenario.link.latency + self.scenario.link.latency);
        self.clients.insert(number, Client::new(worker, self.scenario.dialect, start.due_at, self.now, link, fails_at));
    }

    fn send(&mut self, what: Uplink) {
        self.uplink.insert((self.now + self.scenario.link.latency, self.next_ticket), what);
        self.next_ticket += 1;
    }

    /// Ends the client side of an exchange.
    fn end(&mut self, number: usize, closing: Closing) {
        let Some(client) = self.clients.remove(&number) else { return };
        let worker = client.worker;
        if self.exchanges[number].sent_at.is_some() && closing != Closing::End {
            self.send(Uplink::Cancel(number));
        }
        let exchange = &mut self.exchanges[number];
        exchange.closing = closing;
        exchange.trace = client.finish(self.now, closing);
        let failure = exchange.trace.failure.as_ref().map(|failure| (failure.kind, failure.retry_after));
        let plan = &mut self.plans[worker].0;
        plan.completed(&exchange.start, self.now, Ending::of(failure));
        if let Some(until) = plan.held_until() {
            self.plans.iter_mut().for_each(|(plan, _)| plan.hold_until(until));
        }
        mark_ending(exchange, &mut self.situations);
    }

    fn into_history(self) -> History {
        let mut situations = self.situations;
        let forfeited = self.plans.iter().map(|(plan, _)| plan.forfeited()).sum();
        situations.mark_if(forfeited > 0, Situation::ForfeitedArrival);
        let ended_at = self.exchanges.iter().map(|exchange| exchange.trace.timing.ended_at).max();
        History {
            finished: self.plans.iter().all(|(_, step)| *step == Step::Finished) && self.clients.is_empty(),
            exchanges: self.exchanges,
            forfeited,
            withheld: self.plans.iter().map(|(plan, _)| plan.withheld()).sum(),
            waits: self.plans.iter().flat_map(|(plan, _)| plan.waits().to_vec()).collect(),
            ended_at: ended_at.unwrap_or(STARTED_AT),
            engine: self.engine.stats(),
            running_peak: self.running_peak,
            situations,
        }
    }
}

/// An emission as an encodable piece; `None` if it is none.
fn piece<'t>(what: Emitted, scenario: &Scenario, text: &'t mut String) -> Option<Piece<'t>> {
    Some(match what {
        Emitted::Role => Piece::Role,
        Emitted::Text { channel, words } => {
            scenario.text_style.push_to(words, text);
            Piece::Text { channel, text }
        }
        Emitted::Finish(reason) => Piece::Finish(reason),
        Emitted::Usage(usage) => Piece::Usage(usage),
        Emitted::Done => Piece::Done,
        Emitted::Failed { message } => Piece::Failed { message },
        Emitted::Malformed | Emitted::Timings(_) | Emitted::End(_) => return None,
    })
}

fn mark_ending(exchange: &Exchange, situations: &mut Situations) {
    let read = exchange.reads.last().map_or(0, |read| read.end);
    let ends = || exchange.writes.iter().map(|written| written.end);
    let has_text = !exchange.trace.arrivals.is_empty();
    let cut = matches!(exchange.closing, Closing::Reset);
    let answer = exchange.status == 200;
    let inside = read > 0 && !ends().any(|end| end == read);
    let json_complete = ends().any(|end| end == read + 1 || end == read + 2);
    situations.mark_if(cut && read == 0, Situation::CutBeforeBody);
    situations.mark_if(cut && answer && inside && !json_complete, Situation::CutInsideEvent);
    situations.mark_if(cut && answer && inside && json_complete, Situation::CutAfterEventsJson);
    situations.mark_if(cut && answer && read > 0 && !inside, Situation::CutBetweenEvents);
    situations.mark_if(cut && answer && exchange.trace.failure.is_none(), Situation::ResetAfterDone);
    situations.mark_if(cut && !answer && read > 0, Situation::RefusalCut);
    situations.mark_if(exchange.closing == Closing::Idle, Situation::IdleLimit);
    situations.mark_if(exchange.closing == Closing::Total, Situation::TotalLimit);
    situations.mark_if(exchange.closing == Closing::Cancelled, Situation::Cancelled);
    let ended = exchange.closing == Closing::End && answer;
    let finish = exchange.trace.finish;
    situations.mark_if(ended && !has_text && finish == Some(FinishReason::Stop), Situation::EmptyAnswer);
    situations.mark_if(ended && has_text && exchange.trace.done_at.is_none(), Situation::MissingDone);
    let first = exchange.trace.arrivals.first().map(|arrival| arrival.at);
    let last = exchange.trace.arrivals.last().filter(|arrival| arrival.channel == Channel::Answer);
    let events: u32 = exchange.trace.arrivals.iter().map(|arrival| u32::from(arrival.events)).sum();
    situations.mark_if(ended && events >= 8 && first == last.map(|arrival| arrival.at), Situation::OneBurst);
}
