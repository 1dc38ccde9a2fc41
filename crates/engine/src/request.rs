//! A request as an engine sees it, and its state while it runs.

use crate::prefix::{Part, block_hashes};
use std::fmt;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The caller's name for it.
    pub id: u64,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// What the prompt consists of, from its beginning, as far as other requests may share it: what the prefix cache goes by.
    pub shared: Vec<Part>,
    /// The content of the answer, where later prompts hold it; only looked at where `shared` is the whole prompt.
    pub answer: Option<u64>,
}

impl Request {
    /// A request that shares nothing with any other.
    pub fn unique(id: u64, prompt_tokens: u32, output_tokens: u32) -> Request {
        Request { id, prompt_tokens, output_tokens, shared: Vec::new(), answer: None }
    }

    /// Hashes of the whole blocks that the prefix cache may find.
    fn hashes(&self, block_size: u32) -> Vec<u64> {
        let mut parts = Vec::with_capacity(self.shared.len() + 1);
        let mut room = self.prompt_tokens;
        for part in &self.shared {
            let tokens = part.tokens.min(room);
            parts.push(Part { tokens, ..*part });
            room -= tokens;
        }
        if let Some(content) = self.answer.filter(|_| room == 0 && !self.shared.is_empty()) {
            parts.push(Part { content, tokens: self.output_tokens });
        }
        block_hashes(&parts, block_size)
    }
}

/// Why a request can never run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooLarge {
    /// Prompt and answer are longer than `max_model_len`.
    Context {
        /// Tokens of both.
        tokens: u64,
        /// The longest.
        most: u32,
    },
    /// Prompt and answer need more blocks than there are.
    Cache {
        /// Blocks needed.
        blocks: u64,
        /// Blocks there are.
        most: u32,
    },
    /// The prompt is longer than a step may be, and may not be split.
    Step {
        /// Tokens of the prompt.
        tokens: u64,
        /// Tokens of a step.
        most: u32,
    },
    /// It has no prompt or asks for no token.
    Empty,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooLarge::Context { tokens, most } => {
                write!(out, "prompt and answer are {tokens} tokens, max_model_len is {most}")
            }
            TooLarge::Cache { blocks, most } => {
                write!(out, "prompt and answer need {blocks} cache blocks, there are {most}")
            }
            TooLarge::Step { tokens, most } => {
                write!(out, "the prompt is {tokens} tokens and may not be split; max_num_batched_tokens is {most}")
            }
            TooLarge::Empty => out.write_str("a request needs a prompt and at least one token of answer"),
        }
    }
}

impl std::error::Error for TooLarge {}

/// A request that was accepted.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub id: u64,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    /// Hashes of whole blocks of prompt and answer, as far as others may share them.
    pub hashes: Vec<u64>,
    /// Blocks it holds, in order.
    pub blocks: Vec<u32>,
    /// Tokens whose keys and values are in the cache.
    pub computed: u32,
    /// Tokens of the answer so far.
    pub generated: u32,
    /// Tokens whose keys and values come with the request, from where its prompt was processed.
    pub received: u32,
    /// Tokens that the step being planned computes; 0 if it is not in it.
    pub planned: u32,
}

impl Sequence {
    pub fn new(request: &Request, block_size: u32, prefix_caching: bool) -> Sequence {
        Sequence {
            id: request.id,
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.output_tokens,
            hashes: if prefix_caching { request.hashes(block_size) } else { Vec::new() },
            blocks: Vec::new(),
            computed: 0,
            generated: 0,
            received: 0,
            planned: 0,
        }
    }

    /// Tokens known so far: the prompt and what was generated.
    pub fn tokens(&self) -> u32 {
        self.prompt_tokens + self.generated
    }

    /// Tokens of prompt and answer together.
    pub fn tokens_at_end(&self) -> u32 {
        self.prompt_tokens + self.output_tokens
    }

    /// Whether all but its newest token are in the cache, so that a step yields its next token.
    pub fn decodes(&self) -> bool {
        self.generated > 0 && self.computed + 1 == self.tokens()
    }

    /// Tokens that may come of the cache: all but the last, which has to be computed to get the next.
    pub fn findable(&self, block_size: u32) -> &[u64] {
        let blocks = ((self.tokens() - 1) / block_size) as usize;
        &self.hashes[..blocks.min(self.hashes.len())]
    }
}
