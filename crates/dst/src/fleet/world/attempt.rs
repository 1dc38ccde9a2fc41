//! One attempt as the gateway sees it: tokens, times and cost.
//!
//! Invariant: it is closed once, with the report for router, budget and log.

use super::lane::LaneEvent;
use crate::fleet::calls::AttemptRecord;
use tokrate_core::{BilledTokens, EventKind, FailureKind, Price, Span, Tick, Usage};
use tokrate_route::{Delivery, ExtraReservation, InFlightAttempt, LaneId, Outcome, Role};

/// Minimum number of tokens after the first chunk for an output speed.
const MIN_SPEED_TOKENS: u32 = 8;

pub(super) struct Attempt {
    /// `None` once it is closed.
    started: Option<InFlightAttempt>,
    reserved: Option<ExtraReservation>,
    prompt_tokens: u32,
    price: Price,
    lane: LaneId,
    first_text_at: Option<Tick>,
    first_tokens: u32,
    last_text_at: Tick,
    tokens: u32,
    usage: Option<Usage>,
    /// An error reported by its stream.
    reported_failure: Option<FailureKind>,
    /// Drained in the background until this time.
    drained_until: Option<Tick>,
    record: AttemptRecord,
}

/// The result of closing an attempt.
pub(super) struct Closed {
    pub started: InFlightAttempt,
    pub reserved: Option<ExtraReservation>,
    pub outcome: Outcome,
    pub usd: f64,
}

impl Attempt {
    pub fn new(
        started: InFlightAttempt,
        role: Role,
        reserved: Option<ExtraReservation>,
        prompt_tokens: u32,
        price: Price,
    ) -> Attempt {
        let record = AttemptRecord {
            lane: started.lane,
            role,
            started: started.at,
            ttft: None,
            total: Span::ZERO,
            in_flight: started.in_flight,
            tokens: 0,
            usd: 0.0,
            failure: None,
        };
        Attempt {
            reserved,
            prompt_tokens,
            price,
            lane: started.lane,
            first_text_at: None,
            first_tokens: 0,
            last_text_at: started.at,
            tokens: 0,
            usage: None,
            reported_failure: None,
            drained_until: None,
            record,
            started: Some(started),
        }
    }

    pub fn lane(&self) -> LaneId {
        self.lane
    }

    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    pub fn is_over(&self) -> bool {
        self.started.is_none()
    }

    pub fn started_mut(&mut self) -> Option<&mut InFlightAttempt> {
        self.started.as_mut()
    }

    /// Drains in the background. There are no bytes in this world, so only the time limit applies.
    pub fn drain(&mut self, until: Tick, max_bytes: u64) {
        let until = if max_bytes == 0 { Tick::ZERO } else { until };
        self.drained_until = Some(until);
    }

    pub fn is_drained(&self) -> bool {
        self.drained_until.is_some()
    }

    pub fn drained_until(&self) -> Option<Tick> {
        self.drained_until
    }

    /// Records an event; returns the time to first token if it was the first.
    pub fn receive(&mut self, now: Tick, event: LaneEvent) -> Option<Span> {
        match event {
            LaneEvent::Text(tokens, _) => {
                self.tokens += tokens;
                self.last_text_at = now;
                if self.first_text_at.is_none() {
                    self.first_text_at = Some(now);
                    self.first_tokens = tokens;
                    let ttft = now - self.record.started;
                    self.record.ttft = Some(ttft);
                    return Some(ttft);
                }
            }
            LaneEvent::Event(EventKind::Usage(usage)) => self.usage = Some(usage),
            LaneEvent::Event(EventKind::Failed { kind, .. }) => self.reported_failure = Some(kind),
            LaneEvent::Event(_) | LaneEvent::End | LaneEvent::Failed(_) => {}
        }
        None
    }

    /// Ends it.
    pub fn close(&mut self, now: Tick, failure: Option<FailureKind>, retry_after: Option<Span>) -> Closed {
        let started = self.started.take().expect("an attempt is closed once");
        let failure = self.reported_failure.or(failure);
        let refused = self.tokens == 0 && self.usage.is_none() && is_refusal(failure);
        let output = self.usage.and_then(|usage| usage.output).unwrap_or(u64::from(self.tokens));
        let billed = BilledTokens { input: u64::from(self.prompt_tokens), output, ..BilledTokens::default() };
        let usd = if refused { 0.0 } else { self.price.cost(billed).as_usd() };
        self.record = AttemptRecord {
            total: now - self.record.started,
            tokens: self.tokens,
            usd,
            failure,
            ..self.record.clone()
        };
        let timed_tokens = self.tokens - self.first_tokens;
        let span = self.first_text_at.map_or(Span::ZERO, |first| self.last_text_at - first).as_secs_f64();
        let outcome = Outcome {
            failure,
            retry_after,
            prompt_tokens: u64::from(self.prompt_tokens),
            billed: self.usage.and_then(|usage| usage.billed()),
            output_tokens: u64::from(self.tokens),
            output_speed: (timed_tokens >= MIN_SPEED_TOKENS && span > 0.0).then(|| f64::from(timed_tokens) / span),
            delivery: Delivery::Streamed,
        };
        Closed { started, reserved: self.reserved.take(), outcome, usd }
    }

    pub fn into_record(self) -> AttemptRecord {
        self.record
    }
}

/// Whether the request was refused, so that nothing is billed.
fn is_refusal(failure: Option<FailureKind>) -> bool {
    matches!(failure, Some(FailureKind::RateLimited | FailureKind::Overloaded | FailureKind::ServerError))
}
