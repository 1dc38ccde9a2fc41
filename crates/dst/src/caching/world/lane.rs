//! One engine behind a lane, and what its truth is.

use crate::caching::{CacheEngine, StepLaw};
use std::collections::BTreeMap;
use tokrate_core::Tick;
use tokrate_engine::{Engine, Part, Request, StepReport};
use tokrate_route::PromptBlocks;

/// Tokens of the blocks that a gateway sees.
const BLOCK_TOKENS: u32 = 128;

pub(super) struct Lane {
    pub engine: Engine<StepLaw>,
    law: StepLaw,
    /// The step that runs.
    pub step: Option<StepReport>,
    /// What it was given and has not ended.
    pub requests: BTreeMap<u64, Request>,
    /// New tokens of prompts without a first token, as whoever sent them expects.
    pub expected_queue: f64,
}

impl Lane {
    pub fn new(engine: &CacheEngine) -> Lane {
        Lane {
            engine: Engine::new(engine.args.clone(), engine.law).expect("a fleet's engines can run"),
            law: engine.law,
            step: None,
            requests: BTreeMap::new(),
            expected_queue: 0.0,
        }
    }

    /// It is another engine from now on, which is given what the old one had.
    pub fn restart(&mut self, engine: &CacheEngine) {
        let fresh = Lane::new(engine);
        self.engine = fresh.engine;
        for request in self.requests.values() {
            self.engine.submit(request).expect("it was accepted before");
        }
        // The event that ends the step of the old one begins the first of the new.
        self.step = None;
    }

    /// Seconds to the first token of a request if it came now: the step that runs, the prompts before it, its own, and as many
    /// steps as these take.
    pub fn seconds_to_first_token(&self, now: Tick, request: &Request) -> f64 {
        let (law, stats) = (&self.law, self.engine.stats());
        let rest = self.step.as_ref().map_or(0.0, |step| step.ended_at.since(now).as_secs_f64());
        let cached = self.engine.cached_tokens(request);
        let tokens = self.engine.prompt_tokens_left() as f64 + f64::from(request.prompt_tokens - cached);
        let steps = (tokens / f64::from(self.engine.args().max_num_batched_tokens)).ceil().max(1.0);
        let context = f64::from(stats.blocks_held) * f64::from(self.engine.args().block_size);
        let a_step = law.step + law.a_sequence * f64::from(stats.running) + law.a_context_token * context;
        let a_token = law.a_prompt_token + law.a_prompt_pair * f64::from(request.prompt_tokens) / 2.0;
        rest + steps * a_step + tokens * a_token
    }
}

/// The blocks of a prompt as a gateway would hash them.
pub(super) fn block_hashes(parts: &[Part]) -> PromptBlocks {
    let mut hasher = tokrate_route::PromptHasher::new([1, 2]);
    let bytes_per_token = tokrate_route::PromptHasher::BLOCK_BYTES as u32 / BLOCK_TOKENS;
    let mut bytes = Vec::new();
    let mut tokens = 0;
    for part in parts {
        bytes.clear();
        for token in 0..part.tokens {
            let word = (part.content.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 ^ token;
            bytes.extend_from_slice(&word.to_le_bytes()[..bytes_per_token as usize]);
        }
        hasher.update(&bytes);
        tokens += u64::from(part.tokens);
    }
    hasher.finish(tokens)
}
