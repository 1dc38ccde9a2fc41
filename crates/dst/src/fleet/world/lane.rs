//! One engine and the network to it, which delays both directions by the latency.
//!
//! Invariant: both directions keep the order; the ledger counts every generated token, read or not.

use crate::fleet::FleetLane;
use crate::fleet::calls::LaneLedger;
use std::collections::{BTreeMap, VecDeque};
use tokrate_core::{BilledTokens, EventKind, FailureKind, Span, TextRange, Tick};
use tokrate_route::{AttemptFailure, LaneConfig};
use tokrate_sim::{Emission, Emitted, Engine, Outcome, Persona, Refusal, RequestId, SimRequest};

/// Bytes of a word, which is a token, about.
const BYTES_PER_WORD: u32 = 5;

/// A call and its attempt.
pub(super) type Ticket = (usize, usize);

/// The settings of the router for a provider: its prices.
pub(super) fn config_of(persona: &Persona) -> LaneConfig {
    LaneConfig { price: Some(persona.price), max_in_flight: None }
}

/// An event of an attempt at the gateway.
#[derive(Clone, Copy, Debug)]
pub(super) enum LaneEvent {
    /// Output tokens.
    Text(u32, EventKind),
    /// Any other event of the answer.
    Event(EventKind),
    /// The body ended.
    End,
    /// It was refused, or the connection broke.
    Failed(AttemptFailure),
}

impl LaneEvent {
    pub fn is_end(self) -> bool {
        matches!(self, LaneEvent::End | LaneEvent::Failed(_))
    }
}

#[derive(Clone, Copy)]
enum LaneRequest {
    Request { prompt_tokens: u32, output_tokens: u32 },
    Cancel,
}

pub(super) struct Lane {
    engine: Engine,
    persona: Persona,
    latency: Span,
    up: VecDeque<(Tick, Ticket, LaneRequest)>,
    down: VecDeque<(Tick, Ticket, LaneEvent)>,
    tickets: BTreeMap<RequestId, Ticket>,
    requests: BTreeMap<Ticket, RequestId>,
    emitted: Vec<Emission>,
    ledger: LaneLedger,
}

impl Lane {
    pub fn new(lane: &FleetLane, seed: u64, started_at: Tick) -> Lane {
        Lane {
            engine: Engine::with_persona(lane.persona.clone(), seed, started_at)
                .expect("a fleet's personas make sense"),
            persona: lane.persona.clone(),
            latency: lane.latency,
            up: VecDeque::new(),
            down: VecDeque::new(),
            tickets: BTreeMap::new(),
            requests: BTreeMap::new(),
            emitted: Vec::new(),
            ledger: LaneLedger::default(),
        }
    }

    pub fn wake_at(&self) -> Option<Tick> {
        let up = self.up.front().map(|(at, ..)| *at);
        let down = self.down.front().map(|(at, ..)| *at);
        self.engine.wake_at().into_iter().chain(up).chain(down).min()
    }

    /// Whether its rate limit or queue would refuse a call now.
    pub fn refuses(&self) -> bool {
        let allowance = self.engine.allowance();
        let none_left = allowance.requests.is_some_and(|left| left.remaining == 0);
        let law = self.engine.law();
        let full = law.queue_limit.is_some_and(|limit| self.engine.stats().queued >= limit);
        none_left || full
    }

    pub fn send(&mut self, now: Tick, ticket: Ticket, prompt_tokens: u32, output_tokens: u32) {
        self.up.push_back((now + self.latency, ticket, LaneRequest::Request { prompt_tokens, output_tokens }));
    }

    pub fn cancel(&mut self, now: Tick, ticket: Ticket) {
        self.up.push_back((now + self.latency, ticket, LaneRequest::Cancel));
    }

    /// Processes requests that have reached the engine, and sends its emissions.
    pub fn serve(&mut self, now: Tick) {
        while let Some((_, ticket, sent)) = self.up.pop_front_if(|(at, ..)| *at <= now) {
            match sent {
                LaneRequest::Request { prompt_tokens, output_tokens } => {
                    self.submit(now, ticket, prompt_tokens, output_tokens);
                }
                LaneRequest::Cancel => {
                    if let Some(request) = self.requests.get(&ticket) {
                        self.engine.cancel(now, *request);
                    }
                }
            }
        }
        let mut emitted = std::mem::take(&mut self.emitted);
        self.engine.poll(now, &mut emitted);
        for emission in emitted.drain(..) {
            let ticket = self.tickets[&emission.request];
            if let Some(event) = self.event_of(emission.what) {
                self.down.push_back((now + self.latency, ticket, event));
            }
        }
        self.emitted = emitted;
    }

    /// The next event that has reached the gateway.
    pub fn arrive(&mut self, now: Tick) -> Option<(usize, usize, LaneEvent)> {
        self.down.pop_front_if(|(at, ..)| *at <= now).map(|(_, (call, attempt), event)| (call, attempt, event))
    }

    pub fn ledger(&self) -> LaneLedger {
        let (input, output) = (self.ledger.input_tokens, self.ledger.output_tokens);
        let billed = BilledTokens { input, output, ..BilledTokens::default() };
        LaneLedger { usd: self.persona.price.cost(billed).as_usd(), ..self.ledger }
    }

    fn submit(&mut self, now: Tick, ticket: Ticket, prompt_tokens: u32, output_tokens: u32) {
        self.ledger.requests += 1;
        let request = SimRequest {
            input_tokens: prompt_tokens,
            output_tokens: Some(output_tokens),
            include_usage: true,
            ..SimRequest::default()
        };
        match self.engine.submit(now, request) {
            Ok(request) => {
                self.ledger.input_tokens += u64::from(prompt_tokens);
                self.tickets.insert(request, ticket);
                self.requests.insert(ticket, request);
            }
            Err(refusal) => {
                self.ledger.refused += 1;
                self.down.push_back((now + self.latency, ticket, LaneEvent::Failed(failed(refusal))));
            }
        }
    }

    fn event_of(&mut self, what: Emitted) -> Option<LaneEvent> {
        Some(match what {
            Emitted::Role => LaneEvent::Event(EventKind::Empty),
            Emitted::Text { channel, words } => {
                self.ledger.output_tokens += u64::from(words.count());
                let text = TextRange { start: 0, end: words.count() * BYTES_PER_WORD };
                LaneEvent::Text(words.count(), EventKind::Text { channel, text })
            }
            Emitted::Malformed => LaneEvent::Event(EventKind::Anomaly(tokrate_core::Anomaly::Unreadable)),
            Emitted::Finish(reason) => LaneEvent::Event(EventKind::Finish(reason)),
            Emitted::Usage(usage) => LaneEvent::Event(EventKind::Usage(usage)),
            Emitted::Timings(_) => return None,
            Emitted::Done => LaneEvent::Event(EventKind::Done),
            Emitted::Failed { .. } => {
                let kind = FailureKind::ErrorInStream;
                LaneEvent::Event(EventKind::Failed { kind, message: TextRange::default(), retry_after: None })
            }
            Emitted::End(Outcome::Complete) => LaneEvent::End,
            Emitted::End(Outcome::Disconnected) => {
                LaneEvent::Failed(AttemptFailure { kind: FailureKind::Truncated, retry_after: None })
            }
        })
    }
}

fn failed(refusal: Refusal) -> AttemptFailure {
    let kind = match refusal.status {
        429 => FailureKind::RateLimited,
        503 | 529 => FailureKind::Overloaded,
        _ => FailureKind::ServerError,
    };
    AttemptFailure { kind, retry_after: refusal.retry_after }
}
