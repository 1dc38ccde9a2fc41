//! Engines with a prefix cache, and the load that a fleet of them can take.

use super::workload::CacheWorkload;
use tokrate_core::{Price, Rng, Span};
use tokrate_engine::{EngineArgs, StepTime, Work};

/// Share of the most sessions a second that defines the knee.
const KNEE_SHARE: f64 = 0.8;

/// How long a step takes, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StepLaw {
    /// Any step.
    pub step: f64,
    /// Each request that decodes.
    pub a_sequence: f64,
    /// Each token in the cache of those that decode.
    pub a_context_token: f64,
    /// Each prompt token.
    pub a_prompt_token: f64,
    /// Each prompt token, for each token before it.
    pub a_prompt_pair: f64,
}

impl StepTime for StepLaw {
    fn span(&self, work: &Work) -> Span {
        self.spans(work, 1)
    }

    fn spans(&self, work: &Work, steps: u32) -> Span {
        let steps = f64::from(steps);
        let chunk = |tokens: u32, context: u32| {
            let (tokens, context) = (f64::from(tokens), f64::from(context));
            tokens * (self.a_prompt_token + self.a_prompt_pair * (context + tokens / 2.0))
        };
        let prompts: f64 = work.chunks.iter().map(|part| chunk(part.tokens, part.context)).sum();
        let context = work.decode_context as f64 + work.tokens() as f64 * (steps - 1.0) / 2.0;
        let decoding = self.step + self.a_sequence * f64::from(work.decoding) + self.a_context_token * context;
        Span::from_secs_f64(steps * (decoding + prompts))
    }
}

/// An engine behind a lane.
#[derive(Clone, PartialEq, Debug)]
pub struct CacheEngine {
    /// Its scheduler.
    pub args: EngineArgs,
    /// Its speed.
    pub law: StepLaw,
    /// What it charges.
    pub price: Price,
}

impl CacheEngine {
    /// A prompt rate (tokens a second), a step (milliseconds), a cache (thousands of tokens) and a price of a million new tokens (USD).
    /// What is read from the cache costs a tenth of that, output four times as much.
    fn new(prompt_rate: f64, step_ms: f64, cache_thousands: f64, usd: f64) -> CacheEngine {
        let args = EngineArgs::default();
        let num_blocks = (cache_thousands * 1_000.0 / f64::from(args.block_size)) as u32;
        let price = Price::from_usd_per_million(usd, usd * 4.0).expect("a small number");
        let cached = Price::from_usd_per_million(usd / 10.0, 0.0).expect("a small number").input;
        CacheEngine {
            args: EngineArgs { num_blocks, ..args },
            law: StepLaw {
                step: step_ms / 1e3,
                a_sequence: step_ms / 1e3 / 200.0,
                a_context_token: 2e-8 * step_ms / 8.0,
                a_prompt_token: 1.0 / prompt_rate,
                // At 10,000 tokens of context a prompt token takes a third longer.
                a_prompt_pair: 1.0 / prompt_rate / 30_000.0,
            },
            price: Price { cached_input: Some(cached), ..price },
        }
    }

    /// Six engines alike.
    pub fn alike() -> Vec<CacheEngine> {
        vec![CacheEngine::new(12_000.0, 8.0, 400.0, 0.5); 6]
    }

    /// Six engines of one model on unlike machines, drawn.
    pub fn unlike(seed: u64) -> Vec<CacheEngine> {
        let root = Rng::root(seed).child("cache-engines");
        let draw = |number: u64| {
            let mut rng = root.nth(number);
            let mut between = |low: f64, high: f64| low * (high / low).powf(rng.unit());
            CacheEngine::new(between(4_000.0, 30_000.0), between(5.0, 20.0), between(150.0, 900.0), between(0.2, 1.0))
        };
        (0..6).map(draw).collect()
    }
}

/// Sessions a second of a fleet at its knee: four fifths of what its engines do when they are full, all of them, and compute each token of a
/// session once. No choice of lanes can do that well, so that the load is the same for all and nobody has it easy.
pub fn knee_sessions(engines: &[CacheEngine], workload: &CacheWorkload) -> f64 {
    let mean = workload.mean_session();
    let sessions = |engine: &CacheEngine| {
        let law = &engine.law;
        let cache = f64::from(engine.args.num_blocks) * f64::from(engine.args.block_size);
        let batch = (cache / mean.context).clamp(1.0, f64::from(engine.args.max_num_seqs));
        let token = law.step / batch + law.a_sequence + law.a_context_token * mean.context;
        let prompt = law.a_prompt_token + law.a_prompt_pair * mean.context;
        1.0 / (mean.new_tokens * prompt + mean.output_tokens * token)
    };
    KNEE_SHARE * engines.iter().map(sessions).sum::<f64>()
}
