//! Deterministic requests for tests, built event by event through [`RequestMeter`].

use crate::request::{Ending, RequestMeter, RequestNumbers, RequestTrace, Timing};
use tokrate_core::{Channel, EventBatch, EventKind, FailureKind, FinishReason, Span, Tick};
use tokrate_tokens::Encoding;

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;

/// The tick at this many milliseconds.
pub fn at(milliseconds: u64) -> Tick {
    Tick::from_nanos(milliseconds * MS)
}

/// Builds one request event by event; all times in milliseconds.
pub struct RequestBuilder {
    meter: RequestMeter,
    timing: Timing,
}

impl RequestBuilder {
    /// A request due and sent at these times.
    pub fn sent(due_at: u64, sent_at: u64) -> RequestBuilder {
        let timing = Timing { due_at: at(due_at), sent_at: Some(at(sent_at)), ..Timing::default() };
        RequestBuilder { meter: RequestMeter::new(), timing }
    }

    /// When the first byte of the body arrived.
    pub fn first_byte(mut self, tick: u64) -> RequestBuilder {
        self.timing.first_byte_at = Some(at(tick));
        self
    }

    /// One read with several events.
    pub fn read(mut self, fill: impl FnOnce(&mut EventBatch)) -> RequestBuilder {
        let mut batch = EventBatch::new();
        fill(&mut batch);
        self.meter.on(&batch);
        self
    }

    /// One event in a read of its own.
    pub fn event(self, tick: u64, what: EventKind) -> RequestBuilder {
        self.read(|batch| batch.push(at(tick), what))
    }

    /// A piece of text on a channel.
    pub fn say(self, tick: u64, channel: Channel, text: &str) -> RequestBuilder {
        self.read(|batch| batch.push_text(at(tick), channel, text))
    }

    /// A piece of the answer.
    pub fn answer(self, tick: u64, text: &str) -> RequestBuilder {
        self.say(tick, Channel::Answer, text)
    }

    /// Finish reason and end mark at one tick, then the end of the body at another.
    pub fn done(self, tick: u64, ended_at: u64) -> RequestTrace {
        let actual = self.event(tick, EventKind::Finish(FinishReason::Stop)).event(tick, EventKind::Done);
        actual.end(ended_at, Ending::Complete)
    }

    /// The request fails.
    pub fn failed(self, kind: FailureKind, ended_at: u64) -> RequestTrace {
        self.end(ended_at, Ending::Failed { kind, message: kind.name().to_owned(), retry_after: None })
    }

    /// The exchange ends.
    pub fn end(self, ended_at: u64, ending: Ending) -> RequestTrace {
        let timing = Timing { ended_at: at(ended_at), ..self.timing };
        self.meter.finish(timing, ending)
    }
}

/// The numbers of a request, its tokens counted.
pub fn numbers(trace: &RequestTrace) -> RequestNumbers {
    RequestNumbers::measure(trace, Encoding::O200kBase)
}

/// An answered request: due and sent at `start`, first text after `ttft`, then `tokens - 1` more, one each `gap`, end mark
/// with the last one (all in ms).
pub fn steady_request(index: u64, start: u64, ttft: u64, gap: u64, tokens: u64) -> RequestNumbers {
    let mut story = RequestBuilder::sent(start, start).first_byte(start + ttft);
    for token in 0..tokens {
        story = story.answer(start + ttft + token * gap, " a");
    }
    let end = start + ttft + (tokens - 1) * gap;
    RequestNumbers { index, ..numbers(&story.done(end, end)) }
}

/// A request that failed (times in ms).
pub fn failed_request(index: u64, start: u64, end: u64, kind: FailureKind) -> RequestNumbers {
    RequestNumbers { index, ..numbers(&RequestBuilder::sent(start, start).failed(kind, end)) }
}

/// A request that was refused for its rate, with the wait that was asked for (times in ms).
pub fn rate_limited_request(index: u64, start: u64, end: u64, wait: Span) -> RequestNumbers {
    let ending =
        Ending::Failed { kind: FailureKind::RateLimited, message: "slow down".into(), retry_after: Some(wait) };
    RequestNumbers { index, ..numbers(&RequestBuilder::sent(start, start).end(end, ending)) }
}
