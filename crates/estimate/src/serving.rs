//! A model on devices behind a scheduler: what an engine in virtual time is built from, for a question instead of a trace.
//!
//! Invariant: engines of the same setup answer the same requests with the same steps.

use crate::answer::Estimator;
use crate::asked::Asked;
use crate::coefficients;
use crate::engine_time::EngineTime;
use crate::question::{Kind, Question};
use tokrate_engine::{Cluster, Engine, EngineArgs, Policy, SharedTime, Speculation};

/// Settings of the scheduler that a question may change. Absent is what is usual.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tuning {
    /// Who runs next; by the engine where it is absent.
    pub policy: Option<Policy>,
    /// Most requests of a copy that run at once.
    pub max_num_seqs: Option<u32>,
    /// Most tokens of a step.
    pub max_num_batched_tokens: Option<u32>,
    /// Speculative decoding.
    pub speculation: Option<Speculation>,
    /// Whether known prefixes are found in the cache; they are unless this says otherwise.
    pub prefix_caching: Option<bool>,
}

/// What a proposed token of a draft costs, as a share of a decode step: a draft of a twentieth of the model's size. A judgement.
pub const DRAFT_SHARE: f64 = 0.05;
/// Fewest cache blocks that are worth a simulation.
const FEWEST_BLOCKS: f64 = 16.0;
/// Tokens of a cache block, vLLM's default.
const BLOCK: u32 = 16;

/// A model on devices behind a scheduler.
#[derive(Clone, PartialEq, Debug)]
pub struct Serving {
    /// The question with its facts; its concurrency means nothing here.
    pub question: Question,
    /// Settings of each copy.
    pub args: EngineArgs,
    /// What was assumed, in words.
    pub assumed: Vec<String>,
    /// Factors of the interval of a step's time, low and high.
    pub interval: (f64, f64),
    time: EngineTime,
    copies: usize,
}

impl Serving {
    /// Sets it up.
    ///
    /// # Errors
    /// A fact that is missing, unknown or impossible, or a device whose load is not modelled.
    pub fn new(estimator: &Estimator, asked: &Asked, tuning: &Tuning) -> Result<Serving, String> {
        let asked = Asked { concurrency: Some(asked.concurrency.unwrap_or(1.0)), ..asked.clone() };
        let resolved = asked.resolve(&estimator.facts)?;
        let question = resolved.question;
        if question.kind() == Kind::Sram {
            return Err(format!(
                "{}: load on on-chip memory is not modelled; `estimate speed` has the speed of one request",
                question.device.name
            ));
        }
        let mut assumed = resolved.assumed;
        let policy = tuning.policy.unwrap_or(match question.engine {
            coefficients::Engine::Vllm => Policy::Vllm,
            coefficients::Engine::TensorRt => Policy::TensorRt,
            coefficients::Engine::SgLang => Policy::Sglang,
            coefficients::Engine::Local => Policy::Serial,
        });
        if policy == Policy::Serial {
            assumed.push("one request at a time, as local engines do by default".to_owned());
        }
        let draft = if tuning.speculation.is_some() { DRAFT_SHARE } else { 0.0 };
        if tuning.speculation.is_some() {
            assumed.push(format!("each token of a draft costs {:.0} % of a decode step", DRAFT_SHARE * 100.0));
        }
        let time = EngineTime::new(question.clone(), estimator.coefficients()).with_draft(draft);
        let blocks = time.cache_tokens() / f64::from(BLOCK);
        if blocks < FEWEST_BLOCKS {
            return Err(format!("the memory beside the weights holds {blocks:.0} cache blocks; take more devices"));
        }
        let usual = EngineArgs::default();
        let args = EngineArgs {
            policy,
            max_num_seqs: tuning.max_num_seqs.unwrap_or(usual.max_num_seqs),
            max_num_batched_tokens: tuning.max_num_batched_tokens.unwrap_or(usual.max_num_batched_tokens),
            max_model_len: question.model.max_context.unwrap_or(131_072.0).min(f64::from(u32::MAX)) as u32,
            block_size: BLOCK,
            num_blocks: blocks.min(f64::from(u32::MAX / 2)) as u32,
            prefix_caching: tuning.prefix_caching.unwrap_or(true),
            chunked_prefill: true,
            long_prefill_token_threshold: 0,
            speculation: tuning.speculation,
            seed: 0,
        };
        args.check().map_err(|error| error.to_string())?;
        let factors = estimator.tpot_factors(&question);
        let copies = question.copies().floor().max(1.0) as usize;
        Ok(Serving { question, args, assumed, interval: (factors.low, factors.high), time, copies })
    }

    /// Idle engines, with every step `factor` times as long as expected.
    ///
    /// # Errors
    /// Settings that no engine can run with.
    pub fn cluster(&self, factor: f64) -> Result<Cluster<EngineTime>, String> {
        let engine = |_| Engine::new(self.args.clone(), self.time.clone().slowed(factor));
        let engines: Result<Vec<_>, _> = (0..self.copies).map(engine).collect();
        engines.and_then(Cluster::new).map_err(|error| error.to_string())
    }

    /// The same, for those who do not know where step times come from.
    ///
    /// # Errors
    /// Settings that no engine can run with.
    pub fn shared_cluster(&self) -> Result<Cluster<SharedTime>, String> {
        let time = SharedTime::new(self.time.clone());
        let engines: Result<Vec<_>, _> =
            (0..self.copies).map(|_| Engine::new(self.args.clone(), time.clone())).collect();
        engines.and_then(Cluster::new).map_err(|error| error.to_string())
    }

    /// Copies of the model.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// Tokens whose keys and values fit, all copies together.
    pub fn cache_tokens(&self) -> f64 {
        f64::from(self.args.num_blocks) * f64::from(self.args.block_size) * self.copies as f64
    }
}
