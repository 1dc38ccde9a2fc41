//! One engine with the way to it: what goes there and what comes back, each one latency late.
//!
//! It refuses to know races. Invariant: both ways keep the order; the ledger counts what the engine made, read or not.

use crate::fleet::FleetLane;
use crate::fleet::calls::LaneLedger;
use std::collections::{BTreeMap, VecDeque};
use tokrate_core::{FailureKind, Span, TextRange, Tick, What};
use tokrate_route::{AttemptFailure, LaneConfig};
use tokrate_sim::{Emission, Emitted, Engine, Outcome, Persona, Refusal, RequestId, SimRequest};

/// A call and its attempt.
pub(super) type Ticket = (usize, usize);

/// What the router is told of a provider: its prices.
pub(super) fn config_of(persona: &Persona) -> LaneConfig {
    LaneConfig {
        price_input_usd_per_million: Some(persona.price.input),
        price_output_usd_per_million: Some(persona.price.output),
        max_in_flight: None,
    }
}

/// What reaches the gateway of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said {
    /// So many tokens.
    Text(u32, What),
    /// Anything else within the answer.
    Event(What),
    /// The body ended.
    End,
    /// It was refused, or the connection broke.
    Failed(AttemptFailure),
}

impl Said {
    pub fn is_end(self) -> bool {
        matches!(self, Said::End | Said::Failed(_))
    }
}

#[derive(Clone, Copy)]
enum Sent {
    Request { prompt_tokens: u32, output_tokens: u32 },
    Cancel,
}

pub(super) struct Lane {
    engine: Engine,
    persona: Persona,
    latency: Span,
    up: VecDeque<(Tick, Ticket, Sent)>,
    down: VecDeque<(Tick, Ticket, Said)>,
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

    /// Whether its limits would refuse a call now.
    pub fn refuses(&self) -> bool {
        let allowance = self.engine.allowance();
        let none_left = allowance.requests.is_some_and(|left| left.remaining == 0);
        let law = self.engine.law();
        let full = law.queue_limit.is_some_and(|limit| self.engine.stats().queued >= limit);
        none_left || full
    }

    pub fn send(&mut self, now: Tick, ticket: Ticket, prompt_tokens: u32, output_tokens: u32) {
        self.up.push_back((now + self.latency, ticket, Sent::Request { prompt_tokens, output_tokens }));
    }

    pub fn cancel(&mut self, now: Tick, ticket: Ticket) {
        self.up.push_back((now + self.latency, ticket, Sent::Cancel));
    }

    /// Takes what has reached the engine, and puts what it says on its way.
    pub fn serve(&mut self, now: Tick) {
        while let Some((_, ticket, sent)) = self.up.pop_front_if(|(at, ..)| *at <= now) {
            match sent {
                Sent::Request { prompt_tokens, output_tokens } => {
                    self.submit(now, ticket, prompt_tokens, output_tokens);
                }
                Sent::Cancel => {
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
            if let Some(said) = self.said(emission.what) {
                self.down.push_back((now + self.latency, ticket, said));
            }
        }
        self.emitted = emitted;
    }

    /// The next thing that has reached the gateway.
    pub fn arrive(&mut self, now: Tick) -> Option<(usize, usize, Said)> {
        self.down.pop_front_if(|(at, ..)| *at <= now).map(|(_, (call, attempt), said)| (call, attempt, said))
    }

    pub fn ledger(&self) -> LaneLedger {
        let (input, output) = (self.ledger.input_tokens as f64, self.ledger.output_tokens as f64);
        LaneLedger { usd: (input * self.persona.price.input + output * self.persona.price.output) / 1e6, ..self.ledger }
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
                self.down.push_back((now + self.latency, ticket, Said::Failed(failed(refusal))));
            }
        }
    }

    fn said(&mut self, what: Emitted) -> Option<Said> {
        let text = TextRange { start: 0, end: 1 };
        Some(match what {
            Emitted::Role => Said::Event(What::Empty),
            Emitted::Text { channel, words } => {
                self.ledger.output_tokens += u64::from(words.count());
                Said::Text(words.count(), What::Text { channel, text })
            }
            Emitted::Malformed => Said::Event(What::Odd(tokrate_core::Oddity::Unreadable)),
            Emitted::Finish(reason) => Said::Event(What::Finish(reason)),
            Emitted::Usage(usage) => Said::Event(What::Usage(usage)),
            Emitted::Timings(_) => return None,
            Emitted::Done => Said::Event(What::Done),
            Emitted::Failed { .. } => {
                let kind = FailureKind::ErrorInStream;
                Said::Event(What::Failed { kind, message: TextRange::default(), retry_after: None })
            }
            Emitted::End(Outcome::Complete) => Said::End,
            Emitted::End(Outcome::Disconnected) => {
                Said::Failed(AttemptFailure { kind: FailureKind::Truncated, retry_after: None })
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
