//! An engine's settings as its command line or its log names them.
//!
//! What writes such files differs: names with dashes or underscores, numbers as text or with a fraction of nothing, settings at the
//! top or one level below. Settings that are not known here are read over.

use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

/// Settings of an engine; those of vLLM.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EngineSettings {
    /// Name of the model.
    pub model: Option<String>,
    /// Name of the device; anything but a text is read over.
    #[serde(deserialize_with = "text")]
    pub hardware: Option<String>,
    /// Scheduler: `vllm`, `sglang`, `trtllm`, `static-batch` or `serial`.
    pub engine: Option<String>,
    /// Devices that share one copy of the model.
    #[serde(alias = "tensor-parallel-size", alias = "tp", deserialize_with = "whole")]
    pub tensor_parallel_size: Option<u32>,
    /// Copies of it.
    #[serde(alias = "data-parallel-size", alias = "dp", deserialize_with = "whole")]
    pub data_parallel_size: Option<u32>,
    /// Most requests that run at once.
    #[serde(alias = "max-num-seqs", deserialize_with = "whole")]
    pub max_num_seqs: Option<u32>,
    /// Most tokens of a step.
    #[serde(alias = "max-num-batched-tokens", deserialize_with = "whole")]
    pub max_num_batched_tokens: Option<u32>,
    /// Longest prompt and answer together.
    #[serde(alias = "max-model-len", deserialize_with = "whole")]
    pub max_model_len: Option<u32>,
    /// Storage of the weights.
    pub dtype: Option<String>,
    /// Storage of quantised weights; wins over `dtype`.
    pub quantization: Option<String>,
    /// Tokens of a cache block.
    #[serde(alias = "block-size", deserialize_with = "whole")]
    pub block_size: Option<u32>,
    /// Cache blocks, where the engine's log says so; else as many as the memory holds.
    #[serde(alias = "num_gpu_blocks_override", alias = "num-gpu-blocks-override", deserialize_with = "whole")]
    pub num_gpu_blocks: Option<u32>,
    /// Share of a device's memory that the engine may use.
    #[serde(alias = "gpu-memory-utilization", deserialize_with = "number")]
    pub gpu_memory_utilization: Option<f64>,
    /// Storage of the cache: `auto`, `bfloat16`, `fp8` and its kin.
    #[serde(alias = "kv-cache-dtype")]
    pub kv_cache_dtype: Option<String>,
    /// Whether whole experts are spread over all devices; else each is cut over all of them.
    #[serde(alias = "enable-expert-parallel", deserialize_with = "flag")]
    pub enable_expert_parallel: Option<bool>,
    /// Groups of layers on devices of their own; more than 1 is not modelled.
    #[serde(alias = "pipeline-parallel-size", alias = "pp", deserialize_with = "whole")]
    pub pipeline_parallel_size: Option<u32>,
    /// Whether steps are launched kernel by kernel, without graphs.
    #[serde(alias = "enforce-eager", deserialize_with = "flag")]
    pub enforce_eager: Option<bool>,
    /// Longer prompts are cut into parts of so many tokens; 0: they are not.
    #[serde(alias = "long-prefill-token-threshold", deserialize_with = "whole")]
    pub long_prefill_token_threshold: Option<u32>,
    /// Whether known prefixes are used again.
    #[serde(alias = "enable-prefix-caching", deserialize_with = "flag")]
    pub enable_prefix_caching: Option<bool>,
    /// Whether prompts are split over steps.
    #[serde(alias = "enable-chunked-prefill", deserialize_with = "flag")]
    pub enable_chunked_prefill: Option<bool>,
    /// Tokens that a draft proposes, and the chance of each to be accepted.
    #[serde(alias = "num-speculative-tokens", deserialize_with = "whole")]
    pub num_speculative_tokens: Option<u32>,
    /// Chance that a proposed token is accepted.
    #[serde(deserialize_with = "number")]
    pub acceptance: Option<f64>,
    /// The same two as vLLM nests them.
    #[serde(alias = "speculative-config")]
    pub speculative_config: Option<SpeculativeConfig>,
}

/// vLLM's settings of speculative decoding, and the acceptance, which it does not know beforehand.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SpeculativeConfig {
    /// Tokens that a draft proposes.
    #[serde(deserialize_with = "whole")]
    pub num_speculative_tokens: Option<u32>,
    /// Chance that a proposed token is accepted.
    #[serde(deserialize_with = "number")]
    pub acceptance: Option<f64>,
}

/// What the engine's log said of its cache.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
struct CacheLog {
    #[serde(alias = "num_blocks", alias = "gpu_blocks", deserialize_with = "whole")]
    num_gpu_blocks: Option<u32>,
    #[serde(deserialize_with = "whole")]
    block_size: Option<u32>,
}

/// A file of engine settings: they stand at its top, or below `engine_kwargs`. What the log said of the cache may stand below
/// `kv_cache`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SettingsFile {
    #[serde(alias = "engine_args", alias = "engine-args", alias = "server_args")]
    engine_kwargs: Option<EngineSettings>,
    kv_cache: Option<CacheLog>,
    /// Where the run is from, as far as its file says so.
    pub source: Option<String>,
    #[serde(flatten)]
    top: EngineSettings,
}

impl SettingsFile {
    /// The settings: those of the inner part, and what only the top says.
    pub fn settings(self) -> EngineSettings {
        let SettingsFile { engine_kwargs, kv_cache, top, .. } = self;
        let mut settings = match engine_kwargs {
            None => top,
            Some(inner) => EngineSettings {
                model: inner.model.or(top.model),
                hardware: inner.hardware.or(top.hardware),
                engine: inner.engine.or(top.engine),
                dtype: inner.dtype.or(top.dtype),
                quantization: inner.quantization.or(top.quantization),
                tensor_parallel_size: inner.tensor_parallel_size.or(top.tensor_parallel_size),
                num_gpu_blocks: inner.num_gpu_blocks.or(top.num_gpu_blocks),
                ..inner
            },
        };
        let log = kv_cache.unwrap_or_default();
        settings.num_gpu_blocks = settings.num_gpu_blocks.or(log.num_gpu_blocks);
        settings.block_size = settings.block_size.or(log.block_size);
        settings
    }
}

/// A value as files write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Flag(bool),
    Number(f64),
    Text(String),
}

/// A text, or anything else, which says nothing.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Text(String),
    Other(#[allow(dead_code, reason = "what it is does not matter")] IgnoredAny),
}

/// A text, if it is one.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Named>::deserialize(from)? {
        Some(Named::Text(text)) if !text.trim().is_empty() => Some(text),
        None | Some(Named::Text(_) | Named::Other(_)) => None,
    })
}

/// A number, whether written as one or as text; absent, null, `auto` and `none` are absent.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = match Option::<Written>::deserialize(from)? {
        None => return Ok(None),
        Some(Written::Number(number)) => return Ok(Some(number)),
        Some(Written::Flag(flag)) => return Err(D::Error::custom(format!("{flag} is no number"))),
        Some(Written::Text(text)) => text.trim().to_lowercase(),
    };
    match text.as_str() {
        "" | "auto" | "none" | "null" => Ok(None),
        text => text.parse().map(Some).map_err(|_| D::Error::custom(format!("{text:?} is no number"))),
    }
}

/// A whole number.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let is_whole = |value: &f64| value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(value);
    match number(from)? {
        None => Ok(None),
        Some(value) if is_whole(&value) => Ok(Some(value as u32)),
        Some(value) => Err(D::Error::custom(format!("{value} is no whole number of 0 or more"))),
    }
}

/// A flag, whether written as one, as 0 or 1, or as text.
fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
    match Option::<Written>::deserialize(from)? {
        None => Ok(None),
        Some(Written::Flag(flag)) => Ok(Some(flag)),
        Some(Written::Number(number)) if number == 0.0 || number == 1.0 => Ok(Some(number == 1.0)),
        Some(Written::Number(number)) => Err(D::Error::custom(format!("{number} is neither true nor false"))),
        Some(Written::Text(text)) => match text.trim().to_lowercase().as_str() {
            "" | "auto" | "none" | "null" => Ok(None),
            "true" | "yes" | "on" | "1" => Ok(Some(true)),
            "false" | "no" | "off" | "0" => Ok(Some(false)),
            other => Err(D::Error::custom(format!("{other:?} is neither true nor false"))),
        },
    }
}
