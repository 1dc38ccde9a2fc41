//! A closed loop of requests on copies of a model: time a token, time to the first, the most tokens per second.
//!
//! Closed forms; the scheduler in virtual time is crate `engine`.

use crate::coefficients::{Chosen, Coefficients};
use crate::question::{Kind, Question};
use crate::step;

/// What the formulas give, without an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// Seconds a token of one request after its first.
    pub tpot: f64,
    /// Seconds to the first token; `None` for a ceiling.
    pub ttft: Option<f64>,
    /// Tokens/s of all requests together.
    pub total: f64,
    /// Prompt tokens/s of one prompt; `None` without a prompt.
    pub prefill: Option<f64>,
    /// What binds.
    pub binds: &'static str,
    /// Whether more requests are asked for than fit in the cache's memory.
    pub queued: bool,
    /// Requests of all copies that run at once.
    pub running: f64,
    /// Share of the memory bandwidth that weights and cache use while decoding.
    pub mbu: f64,
    /// Share of peak arithmetic that is used while decoding.
    pub mfu: f64,
}

/// Prompt that is assumed where none is given: what local benchmarks measure prompts at.
pub(crate) const USUAL_PROMPT: f64 = 512.0;
/// Answer that is assumed where none is given.
pub(crate) const USUAL_ANSWER: f64 = 256.0;
/// The largest batch of a ceiling, requests a copy: the engines' own largest settings.
const LARGEST_BATCH: f64 = 2048.0;

/// Mean prompt and answer of the data sets that MLPerf Inference v5.1 uses for a model (from memory), for ceilings whose
/// lengths are not given: OpenOrca, CNN/DailyMail, mixed code and mathematics, long documents, reasoning.
pub fn offline_lengths(model: &str) -> (f64, f64) {
    let name = model.to_lowercase();
    let has = |part: &str| name.contains(part);
    match () {
        () if has("mixtral") => (200.0, 145.0),
        () if has("405b") => (9400.0, 680.0),
        () if has("deepseek-r1") || has("deepseek-v3") => (800.0, 3880.0),
        () if has("8b") => (780.0, 128.0),
        () => (290.0, 290.0),
    }
}

/// What the formulas give for a question.
pub fn predict(question: &Question, coefficients: &Coefficients) -> Prediction {
    let chosen = coefficients.of(&question.device, question.engine);
    match question.kind() {
        Kind::Ceiling => ceiling(question, &chosen),
        _ => closed_loop(question, &chosen),
    }
}

/// Most requests that a copy holds in its cache's memory, at the mean context of a running request; at least one.
fn most_running(question: &Question, context: f64) -> f64 {
    if question.device.layer_latency.is_some() {
        return f64::MAX;
    }
    let devices = question.devices_a_copy();
    let room = question.memory(devices).cache_room;
    let each = question.cache_held(context.max(1.0), devices);
    (room / each.max(1.0)).max(1.0)
}

/// A closed loop of C requests with chunked prefill: TPOT = t_decode(B) + (B-1)/OSL t_prefill(ISL) φ; the TTFT is that of
/// `first_token`. Where C exceeds what the cache holds, the rest waits (C - B)/B (TTFT + OSL TPOT), after Little.
fn closed_loop(question: &Question, chosen: &Chosen) -> Prediction {
    let concurrency = (question.concurrency.unwrap_or(1.0) / question.copies()).max(1.0);
    let isl = question.isl.unwrap_or(if question.context_depth.is_some() { 0.0 } else { USUAL_PROMPT });
    let osl = question.osl.unwrap_or(USUAL_ANSWER).max(1.0);
    let context = question.context_depth.unwrap_or(isl + osl / 2.0);
    let most = most_running(question, context);
    let batch = concurrency.min(most);
    let step = step::decode(question, chosen, batch, context);
    let alone = question.context_depth.is_some() || isl <= 0.0;
    let prompt = step::prompt(question, chosen, if isl > 0.0 { isl } else { USUAL_PROMPT });
    let others = if question.recent_vllm { chosen.recent_prompts } else { 1.0 };
    let shared = if alone { 0.0 } else { (batch - 1.0) / osl * prompt * chosen.interference * others };
    let decode = step.total();
    let tpot = decode + shared;
    let first = first_token(question, chosen, (batch - 1.0) * others, (prompt, decode));
    let cold = cold_start(question, chosen, batch);
    let waiting = (concurrency - batch).max(0.0) / batch * (first + osl * tpot);
    let binds = if waiting > first + cold {
        "KV room"
    } else if shared > decode {
        "prefill"
    } else {
        step.binds()
    };
    let shown = if isl > 0.0 { isl } else { USUAL_PROMPT };
    let running = (question.copies() * batch).min(question.concurrency.unwrap_or(1.0));
    // What delays others delays a request itself no less, or more requests would give fewer tokens.
    let own = prompt * (chosen.interference.max(1.0) + chosen.ttft_factor * BEGUN_AT_ONCE / 2.0) + decode;
    let before = first.max(own + chosen.ttft_factor * BEGUN_AT_ONCE * prompt * (batch - 1.0) * others / 2.0);
    // Of a batch at a fixed depth what all get while decoding; of a loop what comes out of it, prompts included (Little).
    let total = if alone { running / tpot } else { running * osl / (before + osl * tpot) };
    Prediction {
        tpot,
        ttft: Some(first + cold + waiting),
        total,
        prefill: Some(shown / prompt),
        binds,
        queued: concurrency > most,
        running,
        mbu: share(step.weights * chosen.e_w + step.cache * chosen.e_kv, tpot),
        mfu: share(step.compute * chosen.m_d, tpot),
    }
}

/// Share of the requests of a run that are sent at once, before any was answered: measured loops send about ten requests for
/// each that runs at once (`num_prompts` in the scripts of InferenceMAX and in most uses of vLLM's `bench serve`).
const BEGUN_AT_ONCE: f64 = 0.1;

/// Mean time to the first token beside so many `others`: e (front + s (1 + others/2) t_prefill + (1-s) (t_prefill + t_decode)) + w t_decode.
/// A share s of the requests begins at once and is worked off one prompt after another; each of the rest comes when another ends, and
/// so hardly meets a prompt before it. w are the steps that the engine's settings let a new prompt wait. The scheduler of crate `engine`,
/// run so, foretells the rows no better.
fn first_token(question: &Question, chosen: &Chosen, others: f64, (prompt, decode): (f64, f64)) -> f64 {
    let (at_once, one_by_one) = (prompt * (1.0 + others / 2.0), prompt + decode);
    let engine = chosen.ttft_front + BEGUN_AT_ONCE * at_once + (1.0 - BEGUN_AT_ONCE) * one_by_one;
    chosen.ttft_factor * engine + question.wait_steps * decode
}

/// What the requests that begin a loop of B wait for an engine that has not run so large a batch before, over all requests:
/// e s cold (1 - 1/B), as one request alone is tried before a run. A loop that goes on does not see it again.
fn cold_start(question: &Question, chosen: &Chosen, batch: f64) -> f64 {
    let experts = if question.model.sparse() { chosen.ttft_cold_experts } else { 1.0 };
    chosen.ttft_factor * BEGUN_AT_ONCE * chosen.ttft_cold * experts * (1.0 - 1.0 / batch)
}

/// The most tokens/s: the largest B OSL/(OSL t_decode(B) + B t_prefill(ISL)) over the batches that fit, times the copies
/// and a fitted share.
fn ceiling(question: &Question, chosen: &Chosen) -> Prediction {
    let usual = offline_lengths(&question.model.name);
    let isl = question.isl.unwrap_or(usual.0).max(1.0);
    let osl = question.osl.unwrap_or(usual.1).max(1.0);
    let context = isl + osl / 2.0;
    let most = most_running(question, context).min(LARGEST_BATCH);
    let prompt = step::prompt(question, chosen, isl.max(2048.0)) * isl / isl.max(2048.0);
    let tpot = |batch: f64| step::decode(question, chosen, batch, context).total() + batch / osl * prompt;
    let (mut best, mut batch) = (1.0, 1.0);
    while batch <= most {
        if batch / tpot(batch) > best / tpot(best) {
            best = batch;
        }
        batch *= 1.15;
    }
    let step = step::decode(question, chosen, best, context);
    let time = tpot(best);
    let prefill_binds = best / osl * prompt > step.total();
    Prediction {
        tpot: time / chosen.ceiling,
        ttft: None,
        total: question.copies() * best / time * chosen.ceiling,
        prefill: Some(isl / prompt),
        binds: if prefill_binds { "prefill" } else { step.binds() },
        queued: false,
        running: question.copies() * best,
        mbu: share(step.weights * chosen.e_w + step.cache * chosen.e_kv, time),
        mfu: share(step.compute * chosen.m_d, time),
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

/// Time a token that the bare peaks allow: max(W/BW, 2 A B/F) + cache/BW, prompts at the peak; what `validate` shows beside.
pub fn naive(question: &Question) -> Prediction {
    let mut chosen = Coefficients::prior().of(&question.device, question.engine);
    (chosen.e_w, chosen.e_kv, chosen.m_d, chosen.mfu_p, chosen.m_unpack) = (1.0, 1.0, 1.0, 1.0, 1.0);
    (chosen.t_layer, chosen.t_step, chosen.t_req, chosen.link_latency) = (0.0, 0.0, 0.0, 0.0);
    (chosen.interference, chosen.moe, chosen.moe_prefill, chosen.expert_skew) = (0.0, 1.0, 1.0, 1.0);
    (chosen.ttft_front, chosen.ttft_cold) = (0.0, 0.0);
    (chosen.ttft_factor, chosen.ceiling, chosen.link_share) = (1.0, 1.0, 1.0);
    chosen.local_saturation = f64::MAX;
    match question.kind() {
        Kind::Ceiling => ceiling(question, &chosen),
        _ => closed_loop(question, &chosen),
    }
}
