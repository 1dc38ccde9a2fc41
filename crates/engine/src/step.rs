//! What a step computes, how long that takes, and what comes of it.

use std::fmt;
use std::sync::Arc;
use tokrate_core::{Span, Tick};

/// Tokens of one prompt that a step processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk {
    /// How many.
    pub tokens: u32,
    /// Tokens of the same request that are in the cache already.
    pub context: u32,
}

/// What a step computes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Work {
    /// Requests that decode.
    pub decoding: u32,
    /// Tokens a decoding request computes: 1, and those that a draft proposed.
    pub tokens_each: u32,
    /// Tokens in the cache of all decoding requests together.
    pub decode_context: u64,
    /// Parts of prompts.
    pub chunks: Vec<Chunk>,
}

impl Work {
    /// Prompt tokens of the step.
    pub fn prompt_tokens(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum()
    }

    /// Requests in the step.
    pub fn requests(&self) -> u32 {
        self.decoding + self.chunks.len() as u32
    }

    /// Tokens of the step.
    pub fn tokens(&self) -> u64 {
        u64::from(self.decoding) * u64::from(self.tokens_each.max(1)) + self.prompt_tokens()
    }
}

/// How long a step takes.
pub trait StepTime {
    /// The time of a step that computes `work`.
    fn span(&self, work: &Work) -> Span;

    /// The time of so many steps that only decode, one after another; the first computes `work`, and each finds the tokens of
    /// the one before in the cache.
    fn spans(&self, work: &Work, steps: u32) -> Span {
        let mut work = work.clone();
        let mut all = Span::ZERO;
        for _ in 0..steps {
            all += self.span(&work);
            work.decode_context += work.tokens();
        }
        all
    }
}

impl<F: Fn(&Work) -> Span> StepTime for F {
    fn span(&self, work: &Work) -> Span {
        self(work)
    }
}

/// Step times whose kind is not known where they are used, shared by all ranks.
#[derive(Clone)]
pub struct SharedTime(Arc<dyn StepTime + Send + Sync>);

impl SharedTime {
    /// Shares step times.
    pub fn new(time: impl StepTime + Send + Sync + 'static) -> SharedTime {
        SharedTime(Arc::new(time))
    }
}

impl StepTime for SharedTime {
    fn span(&self, work: &Work) -> Span {
        self.0.span(work)
    }

    fn spans(&self, work: &Work, steps: u32) -> Span {
        self.0.spans(work, steps)
    }
}

impl fmt::Debug for SharedTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SharedTime")
    }
}

/// Tokens of an answer that a step produced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emission {
    /// The request.
    pub id: u64,
    /// Tokens, at least 1.
    pub tokens: u32,
    /// Whether they are the first of the answer.
    pub first: bool,
    /// Whether they are the last.
    pub last: bool,
}

/// What a step did. Its tokens are there when it ends.
#[derive(Clone, PartialEq, Debug)]
pub struct StepReport {
    /// When it began.
    pub started_at: Tick,
    /// When it ends, and the next may begin.
    pub ended_at: Tick,
    /// What it computed.
    pub work: Work,
    /// Tokens that come of it.
    pub emissions: Vec<Emission>,
    /// Requests that began to run with it, with the prompt tokens found in the prefix cache.
    pub admitted: Vec<(u64, u32)>,
    /// Requests that lost their place for lack of blocks.
    pub preempted: Vec<u64>,
    /// How many steps it stands for: more than one of [`crate::Engine::steps_to`].
    pub steps: u32,
}
