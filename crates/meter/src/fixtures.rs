//! Deterministic requests and phases for tests, built event by event through [`RequestMeter`].

use crate::record::{Record, Status, Tool};
use crate::request::{Ending, RequestMeter, RequestNumbers, RequestTrace, Timing};
use crate::run::{Load, PhaseInput, PhaseResult, Warmup};
use tokrate_core::{Channel, Conditions, EventBatch, FailureKind, FinishReason, Sketch, Span, Tick, What};
use tokrate_tokens::Encoding;

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn at(milliseconds: u64) -> Tick {
    Tick::from_nanos(milliseconds * MS)
}

/// Builds one request event by event; all times in milliseconds.
pub(crate) struct RequestBuilder {
    meter: RequestMeter,
    timing: Timing,
}

impl RequestBuilder {
    pub(crate) fn sent(due_at: u64, sent_at: u64) -> RequestBuilder {
        let timing = Timing { due_at: at(due_at), sent_at: Some(at(sent_at)), ..Timing::default() };
        RequestBuilder { meter: RequestMeter::new(), timing }
    }

    pub(crate) fn first_byte(mut self, tick: u64) -> RequestBuilder {
        self.timing.first_byte_at = Some(at(tick));
        self
    }

    /// One read with several events.
    pub(crate) fn read(mut self, fill: impl FnOnce(&mut EventBatch)) -> RequestBuilder {
        let mut batch = EventBatch::new();
        fill(&mut batch);
        self.meter.on(&batch);
        self
    }

    pub(crate) fn event(self, tick: u64, what: What) -> RequestBuilder {
        self.read(|batch| batch.push(at(tick), what))
    }

    pub(crate) fn say(self, tick: u64, channel: Channel, text: &str) -> RequestBuilder {
        self.read(|batch| batch.push_text(at(tick), channel, text))
    }

    pub(crate) fn answer(self, tick: u64, text: &str) -> RequestBuilder {
        self.say(tick, Channel::Answer, text)
    }

    /// Finish reason and end mark at one tick, then the end of the body at another.
    pub(crate) fn done(self, tick: u64, ended_at: u64) -> RequestTrace {
        let actual = self.event(tick, What::Finish(FinishReason::Stop)).event(tick, What::Done);
        actual.end(ended_at, Ending::Complete)
    }

    pub(crate) fn failed(self, kind: FailureKind, ended_at: u64) -> RequestTrace {
        self.end(ended_at, Ending::Failed { kind, message: kind.name().to_owned(), retry_after: None })
    }

    pub(crate) fn end(self, ended_at: u64, ending: Ending) -> RequestTrace {
        let timing = Timing { ended_at: at(ended_at), ..self.timing };
        self.meter.finish(timing, ending)
    }
}

pub(crate) fn numbers(trace: &RequestTrace) -> RequestNumbers {
    RequestNumbers::measure(trace, Encoding::O200kBase)
}

/// An answered request: due and sent at `start`, first text after `ttft`, then `tokens - 1` more, one each `gap`, end mark
/// with the last one (all in ms).
pub(crate) fn steady_request(index: u64, start: u64, ttft: u64, gap: u64, tokens: u64) -> RequestNumbers {
    let mut story = RequestBuilder::sent(start, start).first_byte(start + ttft);
    for token in 0..tokens {
        story = story.answer(start + ttft + token * gap, " a");
    }
    let end = start + ttft + (tokens - 1) * gap;
    RequestNumbers { index, ..numbers(&story.done(end, end)) }
}

pub(crate) fn failed_request(index: u64, start: u64, end: u64, kind: FailureKind) -> RequestNumbers {
    RequestNumbers { index, ..numbers(&RequestBuilder::sent(start, start).failed(kind, end)) }
}

pub(crate) fn rate_limited_request(index: u64, start: u64, end: u64, wait: Span) -> RequestNumbers {
    let ending =
        Ending::Failed { kind: FailureKind::RateLimited, message: "slow down".into(), retry_after: Some(wait) };
    RequestNumbers { index, ..numbers(&RequestBuilder::sent(start, start).end(end, ending)) }
}

fn conditions() -> Conditions {
    Conditions {
        model: "sample".into(),
        endpoint: "http://127.0.0.1:9/v1".into(),
        dialect: "openai-chat".into(),
        streaming: true,
        arrivals: "closed".into(),
        tokenizer: "o200k_base".into(),
        seed: 7,
        version: "0.1.0".into(),
        ..Conditions::default()
    }
}

pub(crate) fn closed(concurrency: u32) -> PhaseInput<'static> {
    PhaseInput {
        name: format!("concurrency {concurrency}"),
        conditions: Box::leak(Box::new(conditions())),
        load: Load::Closed { concurrency },
        warmup: Warmup::None,
        started_at: Tick::ZERO,
        ended_at: at(10_000),
        interrupted: false,
        client_error: None,
        client_cpu: Span::from_millis(3),
        timer_lag: Box::leak(Box::new(Sketch::new())),
        late: 0,
        forfeited: 0,
        withheld: 0,
        held_back: None,
    }
}

pub(crate) fn phase(input: &PhaseInput<'_>, requests: &[RequestNumbers]) -> PhaseResult {
    PhaseResult::of(input, &mut requests.to_vec())
}

/// A complete record of these phases.
pub(crate) fn record(phases: Vec<PhaseResult>) -> Record {
    Record {
        schema: Record::SCHEMA.to_owned(),
        tool: Tool { name: "tokrate".into(), version: "0".into() },
        kind: "bench".into(),
        started_at: String::new(),
        wall_seconds: 1.0,
        status: Status::Complete,
        reason: None,
        conditions: phases[0].conditions.clone(),
        price: None,
        engine_host: None,
        search: None,
        spending: None,
        phases,
        curve: None,
        assertions: Vec::new(),
        warnings: Vec::new(),
        notes: Vec::new(),
    }
}
