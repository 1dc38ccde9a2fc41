//! The numbers of one attempt.
//!
//! It refuses to know lanes and prices. Invariant: what could not be measured is absent.

use tokrate_core::{EventBatch, FinishReason, Span, Tick, Usage};
use tokrate_meter::{Ending, Failure, GapSketch, RequestMeter, RequestNumbers, Timing};
use tokrate_tokens::Encoding;

/// Gathers one attempt's events.
#[derive(Default)]
pub(crate) struct Meter {
    meter: RequestMeter,
    text_bytes: u64,
    first_text_at: Option<Tick>,
}

/// What was measured of an attempt.
pub(crate) struct Measured {
    pub usage: Usage,
    pub tokens_std: u64,
    pub ttft: Option<Span>,
    pub output_speed: Option<f64>,
    pub text_events: u64,
    pub chunks: u64,
    pub gaps: GapSketch,
    pub gap_max_ns: Option<u64>,
    pub finish: Option<FinishReason>,
    pub model: Option<String>,
    pub failure: Option<Failure>,
}

impl Meter {
    pub fn new() -> Meter {
        Meter::default()
    }

    pub fn on(&mut self, batch: &EventBatch) {
        self.meter.on(batch);
        for event in batch.events() {
            if let tokrate_core::What::Text { text, .. } = event.what {
                self.text_bytes += text.len() as u64;
                self.first_text_at.get_or_insert(event.at);
            }
        }
    }

    pub fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    pub fn first_text_at(&self) -> Option<Tick> {
        self.first_text_at
    }

    pub fn finish(self, timing: Timing, ending: Ending) -> Measured {
        let trace = self.meter.finish(timing, ending);
        let numbers = RequestNumbers::measure(&trace, Encoding::O200kBase);
        let mut gaps = GapSketch::default();
        for (gap, _) in numbers.gaps() {
            gaps.record(gap);
        }
        Measured {
            usage: trace.usage.unwrap_or_default(),
            tokens_std: numbers.tokens_std,
            ttft: numbers.ttft_ns.map(Span::from_nanos),
            output_speed: numbers.output_speed,
            text_events: numbers.text_events,
            chunks: numbers.chunks,
            gaps,
            gap_max_ns: numbers.largest_gap_ns,
            finish: trace.finish,
            model: trace.model,
            failure: trace.failure,
        }
    }
}
