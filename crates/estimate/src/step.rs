//! Time of one decode step, of one prompt, and of the communication between devices.
//!
//! Invariant: every part is finite and not negative for any positive finite facts, and no part falls as the batch grows.

use crate::coefficients::{Chosen, Engine, WORKSTATIONS, group};
use crate::question::Question;

/// Parts of a step, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Step {
    /// Streaming weights from memory.
    pub weights: f64,
    /// Arithmetic.
    pub compute: f64,
    /// Reading the cache.
    pub cache: f64,
    /// Communication between devices.
    pub communication: f64,
    /// Launches, scheduling, sampling.
    pub overhead: f64,
    /// Whether streaming and arithmetic hide little of each other, as on workstation cards.
    pub apart: bool,
}

impl Step {
    /// Seconds in all. Weights and arithmetic overlap: what takes longer counts, and a part of the other.
    pub fn total(&self) -> f64 {
        self.matrices() + self.cache + self.communication + self.overhead
    }

    /// Streaming and arithmetic together.
    fn matrices(&self) -> f64 {
        norm(self.weights, self.compute, if self.apart { OVERLAP_OF_WORKSTATIONS } else { OVERLAP })
    }

    /// What takes most of it.
    pub fn binds(&self) -> &'static str {
        let parts = [
            (if self.weights >= self.compute { "bandwidth" } else { "compute" }, self.matrices()),
            ("cache bandwidth", self.cache),
            ("communication", self.communication),
            ("overhead", self.overhead),
        ];
        parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("bandwidth", |part| part.0)
    }
}

/// Sums over a step's work that its time depends on.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mixed {
    /// Requests that decode.
    pub decoding: f64,
    /// Tokens that they compute.
    pub decode_tokens: f64,
    /// Tokens in the cache of all of them.
    pub decode_context: f64,
    /// Prompt tokens.
    pub prompt_tokens: f64,
    /// Pairs of a prompt token and one that it attends to.
    pub prompt_pairs: f64,
    /// Tokens in the cache that parts of prompts read.
    pub prompt_context: f64,
    /// Parts of prompts.
    pub chunks: f64,
}

/// Exponent of the overlap of weights and arithmetic: 1 would add them, infinity take the larger.
const OVERLAP: f64 = 6.0;
/// The same on workstation and consumer cards behind a server, whose kernels hide little. The matrices of a layer of Llama 3.1 8B (bf16, vLLM 0.19)
/// take 307, 349, 417 and 671 us with 1, 128, 256 and 512 tokens on one RTX PRO 6000, and 467, 602, 724 and 1,387 us on one RTX 4090: exponents of
/// 1.5 to 2 but where tiles happen to fit; all 128 experts of a layer of Qwen3 30B A3B take 818 us with 16 tokens, 8 of them 578 us with 2,048, all with
/// 2,048 1,067 us: 1.6 (github casys-kaist/LLMServingSim@5daddb2 profiler/perf, measured 2026-04-24 and 2026-08-17).
const OVERLAP_OF_WORKSTATIONS: f64 = 1.7;

fn norm(a: f64, b: f64, exponent: f64) -> f64 {
    let (less, most) = if a < b { (a, b) } else { (b, a) };
    if most <= 0.0 { 0.0 } else { most * (1.0 + (less / most).powf(exponent)).powf(1.0 / exponent) }
}

/// Whether a question's kernels hide little; data-centre rows say neither this nor the other.
fn apart(question: &Question) -> bool {
    group(question.device.class, question.engine) == WORKSTATIONS
}

/// Devices that work at once on a step: local engines put layers after one another, so one at a time.
fn parallel(question: &Question) -> f64 {
    if question.engine == Engine::Local { 1.0 } else { question.devices_a_copy() }
}

/// Time of a decode step of `batch` sequences of `context` tokens each:
/// t = max(W/(n BW e_w), 2 A B/(n F m_d)) + B kv(ctx)/(n BW e_kv) + L t_layer + t_step + B t_req + communication
/// (roofline after Williams et al. 2009, applied to decoding as in Pope et al. 2022, arXiv 2211.05102). Seconds; W and kv in
/// bytes, BW in bytes/s, A in parameters, F in FLOP/s. Latent attention's cache lies whole on each device. Of copies that
/// share their experts it is the step of one, beside as many sequences on each of the others.
pub fn decode(question: &Question, chosen: &Chosen, batch: f64, context: f64) -> Step {
    let (model, device) = (&question.model, &question.device);
    let devices = parallel(question);
    if let Some(latency) = device.layer_latency {
        return Step { overhead: model.layers * latency, ..Step::default() };
    }
    let flops = 2.0 * model.active * batch;
    let peak = device.peak(question.precision.arithmetic);
    let older = if question.older { chosen.older_unpack } else { 1.0 };
    let share = if question.precision.unpacked { chosen.m_unpack * older } else { chosen.m_d };
    let cache_devices = if model.latent.is_some() { 1.0 } else { devices.min(model.kv_heads) };
    let cache = batch * model.cache_bytes(context, question.bytes_a_cache_value());
    Step {
        weights: streaming(question, chosen, batch),
        apart: apart(question),
        compute: flops / (devices * peak * share),
        cache: cache / (cache_devices * device.bandwidth * chosen.e_kv),
        communication: all_reduces(question, chosen, batch),
        overhead: layers(question, chosen) + chosen.t_step + batch * request(question, chosen),
    }
}

/// Time of a step of a scheduler that decodes and processes prompts at once: the weights are streamed once for all tokens;
/// arithmetic is that of decoding at its share of the peak and that of prompts at theirs, attention of prompts included
/// (4 L h_attn for each pair of tokens); the cache of decoding requests and that of earlier parts of prompts is read. Seconds.
pub fn mixed(question: &Question, chosen: &Chosen, work: &Mixed) -> Step {
    let (model, device) = (&question.model, &question.device);
    let tokens = work.decode_tokens + work.prompt_tokens;
    if let Some(latency) = device.layer_latency {
        return Step { overhead: model.layers * latency * (1.0 + work.prompt_tokens / 512.0), ..Step::default() };
    }
    let context = work.decode_context / work.decoding.max(1.0);
    let decode = decode(question, chosen, work.decode_tokens.max(1.0), context);
    let devices = parallel(question);
    let peak = device.peak(question.precision.arithmetic);
    let mut rate = peak * chosen.mfu_p * if model.sparse() { chosen.moe_prefill } else { 1.0 };
    if question.engine == Engine::Local {
        rate /= 1.0 + peak / chosen.local_saturation;
    }
    let attention = 4.0 * model.heads * model.head_dim * work.prompt_pairs * model.full_layers;
    let prompts = (model.prompt_flops(1.0) * work.prompt_tokens + attention) / (devices * rate);
    let cache_devices = if model.latent.is_some() { 1.0 } else { devices.min(model.kv_heads) };
    let bytes = question.bytes_a_cache_value();
    // Each decoding request reads its cache once a step, however many tokens a draft proposed.
    let cache = work.decoding * model.cache_bytes(context, bytes) + model.cache_bytes(work.prompt_context, bytes);
    let compute = if work.decode_tokens > 0.0 { decode.compute } else { 0.0 };
    Step {
        weights: streaming(question, chosen, tokens),
        apart: apart(question),
        compute: compute + prompts,
        cache: cache / (cache_devices * device.bandwidth * chosen.e_kv),
        communication: all_reduces(question, chosen, tokens),
        overhead: layers(question, chosen) + chosen.t_step + (work.decoding + work.chunks) * request(question, chosen),
    }
}

/// Seconds that the weights of a step of `tokens` tokens take: the dense part lies on the devices of one copy, the experts on
/// those of all copies that share them, and are chosen by the tokens of all.
fn streaming(question: &Question, chosen: &Chosen, tokens: f64) -> f64 {
    let (model, devices) = (&question.model, parallel(question));
    let moe = chosen.moe.powf(narrow(question, devices));
    let touched = model.experts_touched(tokens * question.sharing, chosen.expert_skew);
    let experts = model.expert_params() * touched * model.imbalance(question.expert_parallel, touched);
    let bytes = (model.dense_streamed() + experts / question.sharing) * question.bytes_a_weight();
    moe * bytes / (devices * question.device.bandwidth * chosen.e_w)
}

/// Width of an expert's matrices on one device at which half of what an engine loses on experts is lost.
const NARROW_EXPERT: f64 = 1024.0;

/// How narrow the experts are that a device streams, from 0 (dense) to 1: kernels that gather small matrices lose most. The same engine streams
/// Mixtral 8x7B (14,336 wide) on two H100 as fast as a dense model, and Qwen3 235B A22B (1,536 wide) on two H200 1.6 times slower.
fn narrow(question: &Question, devices: f64) -> f64 {
    // Whole experts on a device are cut by fewer.
    let cut = (devices * question.sharing / question.expert_parallel).max(1.0);
    let width = question.model.expert_width() / cut;
    1.0 / (1.0 + (width / NARROW_EXPERT).powi(2))
}

/// Links slower than this are no NVLink but go over the processor's PCIe (bytes/s in one direction).
const SLOWEST_NVLINK: f64 = 100e9;
/// How many times as long the shortest all-reduce takes there: about 15 us between two cards against 6 to 8 us (from memory).
const PCIE_LATENCY: f64 = 2.0;

/// Time of the all-reduces of `tokens` tokens through all layers, two a layer, each latency + 2 (n-1)/n tokens h b/link
/// (ring all-reduce; Shoeybi et al. 2019, arXiv 1909.08053). Seconds; b = 2 bytes, link in bytes/s in one direction.
/// Where copies share their experts, the second gathers the tokens of all of them and scatters the sums, over all devices.
pub fn all_reduces(question: &Question, chosen: &Chosen, tokens: f64) -> f64 {
    // Without a known link, that of PCIe 4: 32 GB/s.
    let rate = question.device.link.filter(|link| *link > 0.0).unwrap_or(32e9);
    let latency = chosen.link_latency * if rate < SLOWEST_NVLINK { PCIE_LATENCY } else { 1.0 };
    let one = |devices: f64, tokens: f64| {
        let bytes = 2.0 * (devices - 1.0) / devices * tokens * question.model.hidden * 2.0;
        if devices > 1.0 { latency + bytes / (rate * chosen.link_share) } else { 0.0 }
    };
    let devices = parallel(question);
    let layer = one(devices, tokens) + one(devices * question.sharing, tokens * question.sharing);
    question.model.layers * layer
}

/// Time of a prompt of `tokens` tokens: FLOPs/(n F mfu) + communication + L t_layer, FLOPs = 2 A S + 4 L h_attn S²/2
/// (Kaplan et al. 2020, arXiv 2001.08361, with causal attention). Seconds. Weights are streamed at least once.
pub fn prompt(question: &Question, chosen: &Chosen, tokens: f64) -> f64 {
    let (model, device) = (&question.model, &question.device);
    if let Some(latency) = device.layer_latency {
        return model.layers * latency * (1.0 + tokens / 512.0);
    }
    let devices = parallel(question);
    let peak = device.peak(question.precision.arithmetic);
    let mut rate = peak * chosen.mfu_p * if model.sparse() { chosen.moe_prefill } else { 1.0 };
    if question.engine == Engine::Local {
        rate /= 1.0 + peak / chosen.local_saturation;
    }
    let arithmetic = model.prompt_flops(tokens) / (devices * rate);
    let weights = streaming(question, chosen, tokens);
    let matrices = Step { weights, compute: arithmetic, apart: apart(question), ..Step::default() }.matrices();
    matrices + all_reduces(question, chosen, tokens) + layers(question, chosen) + chosen.t_step
}

/// Seconds that the launches of all layers take.
fn layers(question: &Question, chosen: &Chosen) -> f64 {
    let experts = if question.model.sparse() { chosen.moe_layer } else { 1.0 };
    let older = if question.older { chosen.older_layer } else { 1.0 };
    question.model.layers * chosen.t_layer * experts * older
}

/// Seconds a running request adds to a step; local engines sample on the processor, over the whole vocabulary.
fn request(question: &Question, chosen: &Chosen) -> f64 {
    let vocabulary = if question.engine == Engine::Local { question.model.vocab / 128_000.0 } else { 1.0 };
    chosen.t_req * vocabulary
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asked::{Asked, Facts};
    use crate::coefficients::Coefficients;

    fn question(devices: f64) -> Question {
        let asked = Asked {
            model: "llama-3.1-8b".to_owned(),
            hardware: "h100-sxm".to_owned(),
            n_gpus: Some(devices),
            engine: Some("vllm".to_owned()),
            weight_precision: Some("bf16".to_owned()),
            concurrency: Some(1.0),
            ..Asked::default()
        };
        asked.resolve(&Facts::embedded()).expect("in the tables").question
    }

    /// Shares of one, times of nothing: what is left are the formulas.
    fn bare(question: &Question) -> Chosen {
        let mut chosen = Coefficients::prior().of(&question.device, question.engine);
        (chosen.e_w, chosen.e_kv, chosen.m_d, chosen.mfu_p, chosen.link_share) = (1.0, 1.0, 1.0, 1.0, 1.0);
        (chosen.t_layer, chosen.t_step, chosen.t_req, chosen.link_latency) = (0.0, 0.0, 0.0, 1e-5);
        chosen
    }

    #[test]
    fn a_decode_step_is_that_computed_by_hand() {
        let question = question(1.0);
        let step = decode(&question, &bare(&question), 4.0, 1000.0);
        // (8.03e9 - 128,256 · 4,096) weights of 2 bytes over 3.35e12 bytes/s = 4.4804 ms.
        assert!((step.weights - (8.03e9 - 525_336_576.0) * 2.0 / 3.35e12).abs() < 1e-12);
        // 2 · 8.03e9 · 4 over 989e12 FLOP/s = 64.96 us.
        assert!((step.compute - 64.24e9 / 989e12).abs() < 1e-12);
        // 4 · 1,000 · 131,072 bytes over 3.35e12 bytes/s = 156.5 us.
        assert!((step.cache - 524_288_000.0 / 3.35e12).abs() < 1e-12);
        assert!((step.total() / (step.weights + step.cache) - 1.0).abs() < 1e-6);
        assert_eq!(step.binds(), "bandwidth");
    }

    #[test]
    fn all_reduces_are_those_computed_by_hand() {
        let question = question(4.0);
        // 2 · 32 layers · (10 us + 2 · 3/4 · 8 · 4,096 · 2 bytes/450e9 bytes/s).
        let expected = 64.0 * (1e-5 + 98_304.0 / 450e9);
        assert!((all_reduces(&question, &bare(&question), 8.0) - expected).abs() < 1e-12);
        assert_eq!(all_reduces(&self::question(1.0), &bare(&question), 8.0), 0.0);
    }

    #[test]
    fn a_prompt_is_that_computed_by_hand() {
        let question = question(1.0);
        // 14.22e12 FLOPs (model.rs) over 989e12 FLOP/s = 14.38 ms; streaming the weights takes 4.48 ms of it at once.
        let time = prompt(&question, &bare(&question), 1000.0);
        assert!((time - 14.38e-3).abs() < 0.02e-3, "{time}");
    }
}
