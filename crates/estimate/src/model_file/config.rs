//! The shape of a model by its `config.json`: attention (grouped, latent, windows, linear layers), experts, tied embeddings,
//! quantisation; its parameters are counted from that.
//!
//! Biases, norms and what a multimodal model has beside its language model are left out: less than 2 % of the parameters of
//! language models. Other fields of a file are passed over.

use super::{MOST_LAYERS, whole};
use crate::model::Model;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The fields of the file that tell something here. Absent is absent or null.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the file")]
pub struct ConfigFile {
    pub model_type: Option<String>,
    pub is_encoder_decoder: Option<bool>,
    pub hidden_size: Option<f64>,
    pub num_hidden_layers: Option<f64>,
    pub num_attention_heads: Option<f64>,
    pub num_key_value_heads: Option<f64>,
    pub head_dim: Option<f64>,
    pub intermediate_size: Option<f64>,
    pub intermediate_size_mlp: Option<f64>,
    pub hidden_act: Option<String>,
    pub vocab_size: Option<f64>,
    pub tie_word_embeddings: Option<bool>,
    pub max_position_embeddings: Option<f64>,
    pub sliding_window: Option<f64>,
    pub use_sliding_window: Option<bool>,
    pub sliding_window_pattern: Option<f64>,
    pub attention_chunk_size: Option<f64>,
    pub layer_types: Option<Vec<String>>,
    pub hybrid_layer_pattern: Option<Vec<f64>>,
    pub enable_moe_block: Option<bool>,
    pub full_attention_interval: Option<f64>,
    pub linear_num_key_heads: Option<f64>,
    pub linear_key_head_dim: Option<f64>,
    pub linear_num_value_heads: Option<f64>,
    pub linear_value_head_dim: Option<f64>,
    pub linear_attn_config: Option<LinearAttention>,
    pub num_experts: Option<f64>,
    pub num_local_experts: Option<f64>,
    pub n_routed_experts: Option<f64>,
    pub num_experts_per_tok: Option<f64>,
    pub num_experts_per_token: Option<f64>,
    pub top_k_experts: Option<f64>,
    pub moe_intermediate_size: Option<f64>,
    pub n_shared_experts: Option<f64>,
    pub num_shared_experts: Option<f64>,
    pub routed_expert_hidden_size: Option<f64>,
    pub dense_intermediate_size: Option<f64>,
    pub shared_expert_intermediate_size: Option<f64>,
    pub first_k_dense_replace: Option<f64>,
    pub decoder_sparse_step: Option<f64>,
    pub interleave_moe_layer_step: Option<f64>,
    pub kv_lora_rank: Option<f64>,
    pub q_lora_rank: Option<f64>,
    pub qk_rope_head_dim: Option<f64>,
    pub qk_nope_head_dim: Option<f64>,
    pub v_head_dim: Option<f64>,
    pub ssm_state_size: Option<f64>,
    pub mamba_num_heads: Option<f64>,
    pub torch_dtype: Option<String>,
    pub dtype: Option<String>,
    pub quantization_config: Option<Quantization>,
    pub text_config: Option<Box<ConfigFile>>,
}

/// Layers of linear attention beside full ones, as Kimi's files name them.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the file")]
pub struct LinearAttention {
    pub full_attn_layers: Option<Vec<f64>>,
    pub head_dim: Option<f64>,
    pub num_heads: Option<f64>,
}

/// How the weights are stored.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the file")]
pub struct Quantization {
    pub quant_method: Option<String>,
    pub quant_algo: Option<String>,
    pub bits: Option<f64>,
    pub load_in_4bit: Option<bool>,
    pub config_groups: Option<BTreeMap<String, Group>>,
}

/// Layers that are stored alike.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the file")]
pub struct Group {
    pub weights: Option<Weights>,
}

/// Their weights.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the names are those of the file")]
pub struct Weights {
    pub num_bits: Option<f64>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// Families whose feed-forward layers have two matrices, up and down, without a gate.
const UNGATED: &[&str] =
    &["gpt2", "gpt_neox", "gptj", "falcon", "starcoder2", "phi", "opt", "bloom", "mpt", "nemotron", "gpt_bigcode"];
/// Families all of whose layers have the window that their file names.
const ALL_WINDOWED: &[&str] = &["mistral", "mixtral", "phi3", "starcoder2"];
/// Every other layer of this family has a window, though its file does not say so.
const EVERY_OTHER: &str = "gemma2";

/// A model by its file.
///
/// # Errors
/// The field that is missing or impossible.
pub fn model(name: &str, file: &ConfigFile) -> Result<Model, String> {
    // Of a multimodal model it is the language model that answers; what it does not say stands above it.
    let inner = file.text_config.as_deref().unwrap_or(file);
    if inner.is_encoder_decoder == Some(true) {
        return Err("an encoder with a decoder is not estimated, only models that decode".to_owned());
    }
    let shape = Shape::of(inner)?;
    let experts = Experts::of(inner, &shape)?;
    let tied = inner.tie_word_embeddings.or(file.tie_word_embeddings).unwrap_or(false);
    let embeddings = shape.vocab * shape.hidden * if tied { 1.0 } else { 2.0 };
    let all = embeddings + attention(inner, &shape)? + experts.params;
    let native = native(file.quantization_config.as_ref().or(inner.quantization_config.as_ref()))
        .or_else(|| [inner, file].into_iter().find_map(|file| file.torch_dtype.clone().or(file.dtype.clone())))
        .unwrap_or_default();
    let model = Model {
        name: name.to_owned(),
        aliases: String::new(),
        params: all,
        active: all - experts.idle,
        layers: shape.layers,
        hidden: shape.hidden,
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        vocab: shape.vocab,
        experts: experts.count,
        experts_per_token: experts.used,
        full_layers: shape.full_layers,
        window: shape.window,
        latent: inner.kv_lora_rank.map(|rank| rank + inner.qk_rope_head_dim.unwrap_or(0.0)),
        tied,
        native: native.trim_start_matches("torch.").to_owned(),
        max_context: inner.max_position_embeddings.filter(|most| *most > 0.0),
        source: "its config.json; parameters counted from the shape".to_owned(),
    };
    model.check()?;
    Ok(model)
}

/// What all models have.
struct Shape {
    layers: f64,
    hidden: f64,
    heads: f64,
    kv_heads: f64,
    head_dim: f64,
    vocab: f64,
    full_layers: f64,
    linear_layers: f64,
    window: Option<f64>,
}

fn needed(name: &str, value: Option<f64>) -> Result<f64, String> {
    let value = value.ok_or_else(|| format!("it lacks {name}"))?;
    if value == 0.0 { Err(format!("{name} is 0")) } else { whole(name, value) }
}

impl Shape {
    fn of(file: &ConfigFile) -> Result<Shape, String> {
        if file.ssm_state_size.is_some() || file.mamba_num_heads.is_some() {
            return Err("it has state-space layers, whose sizes are not read".to_owned());
        }
        let layers = needed("num_hidden_layers", file.num_hidden_layers)?;
        if layers > MOST_LAYERS {
            return Err(format!("num_hidden_layers is {layers}; at most {MOST_LAYERS} are read"));
        }
        let hidden = needed("hidden_size", file.hidden_size)?;
        let heads = needed("num_attention_heads", file.num_attention_heads)?;
        let kv_heads = needed("num_key_value_heads", file.num_key_value_heads.or(Some(heads)))?;
        let latent_dim = file.qk_nope_head_dim.map(|nope| nope + file.qk_rope_head_dim.unwrap_or(0.0));
        let head_dim = file.head_dim.filter(|_| file.kv_lora_rank.is_none()).or(latent_dim);
        let head_dim = needed("head_dim", head_dim.or(Some((hidden / heads).floor())))?;
        let vocab = needed("vocab_size", file.vocab_size)?;
        let (full_layers, linear_layers, window) = depths(file, layers)?;
        Ok(Shape { layers, hidden, heads, kv_heads, head_dim, vocab, full_layers, linear_layers, window })
    }
}

/// Layers that attend to everything, layers of linear attention, and the window of the others.
fn depths(file: &ConfigFile, layers: f64) -> Result<(f64, f64, Option<f64>), String> {
    let optional = |name: &str, value: Option<f64>| value.map(|value| whole(name, value)).transpose();
    let window = optional("sliding_window", file.sliding_window)?.filter(|window| *window > 0.0);
    if let Some(types) = &file.layer_types {
        let count = |word: &str| types.iter().filter(|kind| kind.contains(word)).count() as f64;
        let (linear, chunked) = (count("linear"), count("chunked"));
        let full = count("full");
        if types.len() as f64 != layers {
            return Err(format!("layer_types names {} layers of {layers}", types.len()));
        }
        let chunk = optional("attention_chunk_size", file.attention_chunk_size)?;
        let window = window.filter(|_| full + linear < layers).or(chunk.filter(|_| chunked > 0.0));
        // Layers of no known kind attend to everything: the cache is not understated.
        let known = if window.is_some() { full } else { layers - linear };
        return Ok((known, linear, window));
    }
    if let Some(pattern) = &file.hybrid_layer_pattern {
        // 1 is a layer with the window.
        let windowed = pattern.iter().filter(|kind| **kind == 1.0).count() as f64;
        return Ok(((layers - windowed).max(0.0), 0.0, window));
    }
    if let Some(full) = file.linear_attn_config.as_ref().and_then(|linear| linear.full_attn_layers.as_ref()) {
        let full = (full.len() as f64).min(layers);
        return Ok((full, layers - full, None));
    }
    if let Some(every) = optional("full_attention_interval", file.full_attention_interval)?.filter(|every| *every > 0.0)
    {
        let full = (layers / every).floor();
        return Ok((full, layers - full, None));
    }
    let is_every_other = file.model_type.as_deref() == Some(EVERY_OTHER);
    let pattern = optional("sliding_window_pattern", file.sliding_window_pattern)?.filter(|every| *every > 0.0);
    let every = pattern.or(is_every_other.then_some(2.0));
    match (window.filter(|_| file.use_sliding_window != Some(false)), every) {
        (None, _) => Ok((layers, 0.0, None)),
        (Some(window), Some(every)) => Ok(((layers / every).floor(), 0.0, Some(window))),
        (Some(window), None) if file.model_type.as_deref().is_some_and(|it| ALL_WINDOWED.contains(&it)) => {
            Ok((0.0, 0.0, Some(window)))
        }
        // Which layers have it is not said: that none has it does not understate the cache.
        (Some(_), None) => Ok((layers, 0.0, None)),
    }
}

/// Parameters of the attention of all layers.
fn attention(file: &ConfigFile, shape: &Shape) -> Result<f64, String> {
    let Shape { hidden, heads, kv_heads, head_dim, .. } = *shape;
    let full = match file.kv_lora_rank {
        Some(rank) => {
            let rank = whole("kv_lora_rank", rank)?;
            let rope = needed("qk_rope_head_dim", file.qk_rope_head_dim)?;
            let nope = needed("qk_nope_head_dim", file.qk_nope_head_dim)?;
            let value = needed("v_head_dim", file.v_head_dim)?;
            let query = match file.q_lora_rank.filter(|rank| *rank > 0.0) {
                Some(low) => whole("q_lora_rank", low)? * (hidden + heads * (nope + rope)),
                None => hidden * heads * (nope + rope),
            };
            query + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden
        }
        None => hidden * head_dim * (2.0 * heads + 2.0 * kv_heads),
    };
    let linear = match shape.linear_layers {
        0.0 => 0.0,
        _ if file.linear_attn_config.is_some() => {
            let linear = file.linear_attn_config.clone().unwrap_or_default();
            let width = needed("linear_attn_config.num_heads", linear.num_heads)?
                * needed("linear_attn_config.head_dim", linear.head_dim)?;
            // Queries, keys, values, a gate and the way back.
            hidden * 5.0 * width
        }
        _ => {
            let keys = needed("linear_num_key_heads", file.linear_num_key_heads)?
                * needed("linear_key_head_dim", file.linear_key_head_dim)?;
            let values = needed("linear_num_value_heads", file.linear_num_value_heads)?
                * needed("linear_value_head_dim", file.linear_value_head_dim)?;
            // Queries and keys, values and their gate, the way back.
            hidden * (2.0 * keys + 3.0 * values)
        }
    };
    Ok(full * (shape.layers - shape.linear_layers) + linear * shape.linear_layers)
}

/// Feed-forward layers.
struct Experts {
    /// Parameters of all of them.
    params: f64,
    /// Those that a token leaves idle.
    idle: f64,
    count: f64,
    used: f64,
}

impl Experts {
    fn of(file: &ConfigFile, shape: &Shape) -> Result<Experts, String> {
        let is_ungated = file.hidden_act.as_deref() == Some("relu2")
            || file.model_type.as_deref().is_some_and(|family| UNGATED.contains(&family));
        let matrices = if is_ungated { 2.0 } else { 3.0 };
        let each = |width: f64| matrices * shape.hidden * width;
        // Families name them each in their own way, and some files in two.
        let experts = file.num_experts.or(file.num_local_experts).or(file.n_routed_experts);
        let count = experts.map(|count| whole("num_experts", count)).transpose()?.unwrap_or(0.0);
        if count <= 1.0 {
            let width = needed("intermediate_size", file.intermediate_size)?;
            return Ok(Experts { params: shape.layers * each(width), idle: 0.0, count: 0.0, used: 0.0 });
        }
        let used = file.num_experts_per_tok.or(file.num_experts_per_token).or(file.top_k_experts);
        let used = needed("num_experts_per_tok", used)?;
        if used > count {
            return Err(format!("num_experts_per_tok is {used} of {count} experts"));
        }
        let width = needed("moe_intermediate_size", file.moe_intermediate_size.or(file.intermediate_size))?;
        let shared = match (file.shared_expert_intermediate_size, file.n_shared_experts.or(file.num_shared_experts)) {
            (Some(width), _) => whole("shared_expert_intermediate_size", width)?,
            (None, Some(shared)) => whole("n_shared_experts", shared)? * width,
            // Llama 4 has one, of the width of the others.
            (None, None) if file.intermediate_size_mlp.is_some() => width,
            // Gemma 4 has a dense one beside the experts.
            (None, None) if file.enable_moe_block == Some(true) => needed("intermediate_size", file.intermediate_size)?,
            (None, None) => 0.0,
        };
        let dense = dense_layers(file, shape.layers)?;
        let sparse = shape.layers - dense;
        let dense_width = file.intermediate_size_mlp.or(file.dense_intermediate_size).or(file.intermediate_size);
        let dense_params = if dense > 0.0 { dense * each(needed("intermediate_size", dense_width)?) } else { 0.0 };
        let router = sparse * shape.hidden * count;
        // Experts may work in a narrower width than the model's, with a way there and back in every layer.
        let inner =
            file.routed_expert_hidden_size.map(|inner| whole("routed_expert_hidden_size", inner)).transpose()?;
        let expert = matrices * inner.unwrap_or(shape.hidden) * width;
        let there_and_back = inner.map_or(0.0, |inner| 2.0 * shape.hidden * inner);
        Ok(Experts {
            params: sparse * (expert * count + each(shared) + there_and_back) + dense_params + router,
            idle: sparse * expert * (count - used),
            count,
            used,
        })
    }
}

/// Layers without experts in a model that has some.
fn dense_layers(file: &ConfigFile, layers: f64) -> Result<f64, String> {
    let first = file.first_k_dense_replace.map(|count| whole("first_k_dense_replace", count)).transpose()?;
    if let Some(first) = first {
        return Ok(first.min(layers));
    }
    let step = file.decoder_sparse_step.or(file.interleave_moe_layer_step).unwrap_or(1.0);
    let step = whole("decoder_sparse_step", step)?.max(1.0);
    Ok(layers - (layers / step).floor())
}

/// The storage format, by a name that `Precision` knows.
fn native(quantization: Option<&Quantization>) -> Option<String> {
    let quantization = quantization?;
    let method = quantization.quant_method.as_deref().unwrap_or_default().to_lowercase();
    let of_bits = |bits: f64, is_float: bool| match (bits as u32, is_float) {
        (4, true) => Some("nvfp4"),
        (8, true) => Some("fp8"),
        (8, false) => Some("int8"),
        (4, false) => Some("int4"),
        (6, _) => Some("6bit"),
        _ => None,
    };
    let algorithm = quantization.quant_algo.as_deref().map(str::to_lowercase);
    let groups = quantization.config_groups.iter().flat_map(|groups| groups.values());
    let of_groups = groups
        .filter_map(|group| group.weights.as_ref())
        .find_map(|weights| of_bits(weights.num_bits?, weights.kind.as_deref() == Some("float")));
    let found = match () {
        () if algorithm.is_some() => match algorithm.as_deref() {
            Some(name) if name.contains("nvfp4") => Some("nvfp4"),
            Some(name) if name.contains("fp8") => Some("fp8"),
            Some(name) if name.contains("w4a16") => Some("int4"),
            _ => None,
        },
        () if method.contains("mxfp4") => Some("mxfp4"),
        () if method.contains("fp8") => Some("fp8"),
        () if of_groups.is_some() => of_groups,
        () if quantization.load_in_4bit == Some(true) => Some("4bit"),
        () => quantization.bits.and_then(|bits| of_bits(bits, false)),
    };
    found.map(str::to_owned)
}

#[cfg(test)]
mod tests;
