//! Settings of an engine, named as vLLM names them where it has them.

use std::fmt;

/// Who runs next, and what happens when the cache is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// vLLM V1: running requests first, then waiting ones in order of arrival; prompts are processed in chunks beside decoding;
    /// when no block is left the request that was admitted last is preempted and computed again.
    #[default]
    Vllm,
    /// SGLang: a step processes prompts or decodes, prompts first; waiting requests with the longest cached prefix first.
    Sglang,
    /// TensorRT-LLM with guaranteed completion: a request is admitted when the blocks up to its last token are free; never
    /// preempted.
    TensorRt,
    /// A batch is filled, runs until its last request has ended, and only then another is begun.
    StaticBatch,
    /// One request at a time, as local engines do by default.
    Serial,
}

impl Policy {
    /// Every policy with its name.
    pub const NAMED: [(&'static str, Policy); 5] = [
        ("vllm", Policy::Vllm),
        ("sglang", Policy::Sglang),
        ("trtllm", Policy::TensorRt),
        ("static-batch", Policy::StaticBatch),
        ("serial", Policy::Serial),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Policy::NAMED.iter().find(|(_, policy)| *policy == self).map_or("", |(name, _)| name)
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Policy> {
        Policy::NAMED.iter().find(|(known, _)| *known == name).map(|(_, policy)| *policy)
    }
}

/// Speculative decoding with a draft: each step proposes tokens and keeps those that the model accepts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speculation {
    /// Tokens proposed a step.
    pub draft_tokens: u32,
    /// Chance that a proposed token is accepted, given that those before it were.
    pub acceptance: f64,
}

/// Settings of an engine.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineArgs {
    /// Who runs next.
    pub policy: Policy,
    /// Most requests that run at once.
    pub max_num_seqs: u32,
    /// Most tokens of a step, prompts and decoding together.
    pub max_num_batched_tokens: u32,
    /// Longest prompt and answer together (tokens).
    pub max_model_len: u32,
    /// Tokens of a cache block.
    pub block_size: u32,
    /// Cache blocks.
    pub num_blocks: u32,
    /// Whether blocks of earlier requests are used again where the beginning of a prompt is the same.
    pub prefix_caching: bool,
    /// Whether a prompt may be split over steps. Without, one that is longer than a step's tokens has a step of its own.
    pub chunked_prefill: bool,
    /// A prompt that has more tokens left is processed in parts of so many (vLLM); 0: as the step's tokens allow.
    pub long_prefill_token_threshold: u32,
    /// Speculative decoding, if it is on.
    pub speculation: Option<Speculation>,
    /// Seed of what is drawn: tokens that are accepted.
    pub seed: u64,
}

impl Default for EngineArgs {
    /// vLLM's defaults on a data-centre device (0.19: 1,024 requests and 8,192 tokens a step behind a server; 16 tokens a
    /// block), with a cache of 32,768 blocks.
    fn default() -> EngineArgs {
        EngineArgs {
            policy: Policy::Vllm,
            max_num_seqs: 1_024,
            max_num_batched_tokens: 8_192,
            max_model_len: 131_072,
            block_size: 16,
            num_blocks: 32_768,
            prefix_caching: true,
            chunked_prefill: true,
            long_prefill_token_threshold: 0,
            speculation: None,
            seed: 0,
        }
    }
}

/// Settings that no engine can run with.
#[derive(Clone, PartialEq, Debug)]
pub struct ArgsError(String);

impl ArgsError {
    pub(crate) fn new(message: &str) -> ArgsError {
        ArgsError(message.to_owned())
    }
}

impl fmt::Display for ArgsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ArgsError {}

impl EngineArgs {
    /// Whether an engine can run with them.
    ///
    /// # Errors
    /// The setting that is wrong, and what it may be.
    pub fn check(&self) -> Result<(), ArgsError> {
        let at_least_one = [
            ("max_num_seqs", self.max_num_seqs),
            ("max_num_batched_tokens", self.max_num_batched_tokens),
            ("max_model_len", self.max_model_len),
            ("block_size", self.block_size),
            ("num_blocks", self.num_blocks),
        ];
        if let Some((name, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
            return Err(ArgsError(format!("set {name} to 0: give at least 1")));
        }
        let tokens_each = 1 + self.speculation.map_or(0, |drafts| drafts.draft_tokens);
        if tokens_each > self.max_num_batched_tokens {
            return Err(ArgsError(format!(
                "set max_num_batched_tokens to {}: one request with its draft computes {tokens_each}",
                self.max_num_batched_tokens
            )));
        }
        match self.speculation {
            Some(drafts) if !(0.0..=1.0).contains(&drafts.acceptance) => {
                Err(ArgsError(format!("set the acceptance to {}: a share from 0 to 1", drafts.acceptance)))
            }
            Some(drafts) if drafts.draft_tokens == 0 => {
                Err(ArgsError("set draft_tokens to 0: give at least 1, or no speculation".to_owned()))
            }
            _ => Ok(()),
        }
    }
}
