//! How long a step of an engine's scheduler takes on the devices of a question.
//!
//! Invariant: a step takes some time, and no less with more work in it.

use crate::coefficients::{Chosen, Coefficients};
use crate::question::Question;
use crate::step::{self, Mixed};
use tokrate_core::Span;
use tokrate_engine::{StepTime, Work};

/// Step times of one copy of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineTime {
    question: Question,
    chosen: Chosen,
    /// Factor of every step.
    factor: f64,
    /// What each proposed token of a draft adds to a decode step, as a share of the step.
    draft: f64,
}

impl EngineTime {
    /// Those of a question, with fitted coefficients.
    pub fn new(question: Question, coefficients: &Coefficients) -> EngineTime {
        let chosen = coefficients.of(&question.device, question.engine);
        EngineTime { question, chosen, factor: 1.0, draft: 0.0 }
    }

    /// The same with every step so many times as long, as at the end of an interval.
    pub fn slowed(self, factor: f64) -> EngineTime {
        EngineTime { factor: self.factor * factor, ..self }
    }

    /// The same with a draft whose every token costs this share of a decode step.
    pub fn with_draft(self, share: f64) -> EngineTime {
        EngineTime { draft: share, ..self }
    }

    /// Seconds of a step.
    pub fn seconds(&self, work: &Work) -> f64 {
        let proposed = if work.decoding > 0 { f64::from(work.tokens_each.max(1) - 1) } else { 0.0 };
        step::mixed(&self.question, &self.chosen, &sums(work)).total() * self.factor * (1.0 + self.draft * proposed)
    }

    /// Tokens whose keys and values the memory of one copy holds beside the weights.
    pub fn cache_tokens(&self) -> f64 {
        let devices = self.question.devices_a_copy();
        let room = self.question.memory(devices).cache_room;
        // Sliding windows need less; at 4,096 tokens a sequence they are filled in every model of the table.
        let each = self.question.cache_held(4_096.0, devices) / 4_096.0;
        (room / each.max(1.0)).max(0.0)
    }
}

impl StepTime for EngineTime {
    fn span(&self, work: &Work) -> Span {
        // A nanosecond at least, so that time goes on whatever the facts are.
        Span::from_secs_f64(self.seconds(work)).max(Span::from_nanos(1))
    }

    /// A step's time grows evenly with what is in the cache (but where a sliding window fills), so that the mean of the first and
    /// the last is that of all.
    fn spans(&self, work: &Work, steps: u32) -> Span {
        if steps <= 1 {
            return if steps == 0 { Span::ZERO } else { self.span(work) };
        }
        let grown = work.tokens() * u64::from(steps - 1);
        let last = Work { decode_context: work.decode_context + grown, chunks: Vec::new(), ..*work };
        let seconds = (self.seconds(work) + self.seconds(&last)) / 2.0 * f64::from(steps);
        Span::from_secs_f64(seconds).max(Span::from_nanos(u64::from(steps)))
    }
}

/// The sums of a step's work.
fn sums(work: &Work) -> Mixed {
    let decoding = f64::from(work.decoding);
    let mut mixed = Mixed {
        decoding,
        decode_tokens: decoding * f64::from(work.tokens_each.max(1)),
        decode_context: work.decode_context as f64,
        ..Mixed::default()
    };
    for chunk in &work.chunks {
        let (tokens, context) = (f64::from(chunk.tokens), f64::from(chunk.context));
        mixed.chunks += 1.0;
        mixed.prompt_tokens += tokens;
        mixed.prompt_context += context;
        mixed.prompt_pairs += tokens * (context + tokens / 2.0);
    }
    mixed
}
