//! The client side of one exchange: decoder, meter and time limits, connected as in the real driver.
//!
//! Invariant: however the exchange ends, everything read before is in the trace.

use super::{Closing, Link};
use crate::scenarios::Limits;
use crate::situations::{Situation, Situations};
use tokrate_core::{Anomaly, Channel, EventBatch, EventKind, FailureKind, Span, Tick};
use tokrate_meter::{Ending, RequestMeter, RequestTrace, Timing};
use tokrate_wire::{Decoder, Dialect, Shape, decode_error_response};

pub(super) struct Client {
    pub worker: usize,
    /// `None` if the connection was refused.
    pub link: Option<Link>,
    due_at: Tick,
    sent_at: Option<Tick>,
    first_byte_at: Option<Tick>,
    /// Tick of the last byte received, or of sending.
    last_byte_at: Tick,
    /// When the connection attempt fails.
    fails_at: Option<Tick>,
    refused: Option<Refused>,
    decoder: Decoder,
    meter: RequestMeter,
    batch: EventBatch,
}

struct Refused {
    status: u16,
    retry_after: Option<Span>,
    body: Vec<u8>,
}

impl Client {
    pub fn new(
        worker: usize,
        dialect: Dialect,
        due_at: Tick,
        now: Tick,
        link: Option<Link>,
        fails_at: Option<Tick>,
    ) -> Client {
        Client {
            worker,
            due_at,
            sent_at: link.is_some().then_some(now),
            link,
            first_byte_at: None,
            last_byte_at: now,
            fails_at,
            refused: None,
            decoder: Decoder::new(dialect, Shape::Stream),
            meter: RequestMeter::new(),
            batch: EventBatch::new(),
        }
    }

    /// The response will have this error status; its head comes with the first byte of the body.
    pub fn refuse(&mut self, status: u16, retry_after: Option<Span>) {
        self.refused = Some(Refused { status, retry_after, body: Vec::new() });
    }

    pub fn wake_at(&self, limits: &Limits) -> Option<Tick> {
        let link = self.link.as_ref().and_then(Link::wake_at);
        link.into_iter().chain([self.idle_until(limits), self.total_until(limits)]).chain(self.fails_at).min()
    }

    /// How the exchange ends by `now`, if it does.
    pub fn is_over(&self, now: Tick, limits: &Limits) -> Option<Closing> {
        if self.fails_at.is_some_and(|fails_at| fails_at <= now) {
            Some(Closing::Refused)
        } else if self.total_until(limits) <= now {
            Some(Closing::Total)
        } else if self.idle_until(limits) <= now {
            Some(Closing::Idle)
        } else {
            None
        }
    }

    pub fn read(&mut self, at: Tick, bytes: &[u8], situations: &mut Situations) {
        if self.first_byte_at.is_some() {
            situations.mark_if(self.last_byte_at == at, Situation::ReadsAtOneTick);
        }
        self.first_byte_at.get_or_insert(at);
        self.last_byte_at = at;
        if let Some(refused) = &mut self.refused {
            refused.body.extend_from_slice(bytes);
            return;
        }
        situations.mark_if(bytes.first().is_some_and(|byte| (0x80..0xc0).contains(byte)), Situation::Utf8Split);
        situations.mark_if(!bytes.ends_with(b"\n\n"), Situation::EventSplitAcrossReads);
        self.decoder.push(at, bytes, &mut self.batch);
        self.mark(situations);
        self.meter.on(&self.batch);
        self.batch.clear();
    }

    pub fn finish(mut self, now: Tick, closing: Closing) -> RequestTrace {
        let whole = closing == Closing::End;
        if self.refused.is_none() && (whole || self.first_byte_at.is_some()) {
            let at = if self.first_byte_at.is_some() { self.last_byte_at } else { now };
            self.decoder.end(at, &mut self.batch);
            self.meter.on(&self.batch);
        }
        let timing = Timing {
            due_at: self.due_at,
            sent_at: self.sent_at,
            first_byte_at: self.first_byte_at,
            ended_at: now,
            ..Timing::default()
        };
        let ending = self.ending(closing);
        self.meter.finish(timing, ending)
    }

    fn ending(&mut self, closing: Closing) -> Ending {
        let failed = |kind: FailureKind| Ending::Failed { kind, message: kind.hint().to_owned(), retry_after: None };
        let head_came = self.first_byte_at.is_some() || closing == Closing::End;
        if let Some(refused) = self.refused.take().filter(|_| head_came) {
            let seconds = refused.retry_after.map(|wait| (wait.as_nanos() / 1_000_000_000).to_string());
            let headers: Vec<(&str, &str)> = seconds.iter().map(|wait| ("retry-after", wait.as_str())).collect();
            let refusal = decode_error_response(refused.status, &headers, &refused.body, None);
            let (message, retry_after) = (refusal.message, refusal.retry_after);
            return Ending::Failed { kind: refusal.kind, message, retry_after };
        }
        match closing {
            Closing::End => Ending::Complete,
            Closing::Cancelled if self.meter.is_done() => Ending::Complete,
            Closing::Reset => failed(FailureKind::Truncated),
            Closing::Idle => failed(FailureKind::Stalled),
            Closing::Total => failed(FailureKind::TimedOut),
            Closing::Refused => failed(FailureKind::Connect),
            Closing::Open | Closing::Cancelled => failed(FailureKind::Cancelled),
        }
    }

    /// Timeouts start when the request is sent; without a connection the attempt fails by itself.
    fn idle_until(&self, limits: &Limits) -> Tick {
        self.sent_at.map_or(Tick::MAX, |_| self.last_byte_at + limits.idle)
    }

    fn total_until(&self, limits: &Limits) -> Tick {
        self.sent_at.map_or(Tick::MAX, |sent_at| sent_at + limits.total)
    }

    /// Marks the situations of this read.
    fn mark(&self, situations: &mut Situations) {
        let (mut texts, mut answer, mut reasoning, mut usage, mut done) = (0, false, false, false, false);
        for event in self.batch.events() {
            match event.kind {
                EventKind::Text { channel, .. } => {
                    texts += 1;
                    answer |= channel == Channel::Answer;
                    reasoning |= channel == Channel::Reasoning;
                }
                EventKind::Usage(_) => usage = true,
                EventKind::Done => done = true,
                EventKind::Anomaly(Anomaly::Unreadable) => situations.mark(Situation::Malformed),
                EventKind::Failed { .. } if texts > 0 || self.meter_has_text() => {
                    situations.mark(Situation::ErrorAfterText);
                }
                EventKind::Failed { .. } => situations.mark(Situation::ErrorBeforeText),
                _ => {}
            }
        }
        situations.mark_if(texts > 1, Situation::BurstInOneRead);
        situations.mark_if(answer && reasoning, Situation::ChannelsInOneRead);
        situations.mark_if(usage && done, Situation::UsageInLastRead);
    }

    fn meter_has_text(&self) -> bool {
        // The meter does not expose its trace; a copy finished at once does.
        let trace = self.meter.clone().finish(Timing::default(), Ending::Complete);
        !trace.arrivals.is_empty()
    }
}
